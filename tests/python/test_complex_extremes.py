"""Complex functions where parts overflow, underflow, vanish or are infinite: PyTorch's CPU has the limits of C's Annex
G."""
import pytest
import torch

PARTS = [0.0, -0.0, 1e-30, 1e-10, 0.3, 0.5, 1, -1, -0.999, -1.001, 2, 17, -20, 5e8, 1e10, -1e10, 1e19, 1e30, 3e38,
         -3e38,
         float("inf"), -float("inf"), float("nan")]
FUNCTIONS = ["log", "log2", "log10", "log1p", "sqrt", "rsqrt", "exp", "expm1", "sin", "cos", "tan", "asin", "acos",
             "atan",
             "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid", "reciprocal", "sgn"]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_extreme_parts(name, dtype, device):
    parts = PARTS + ([1e200, 1e308, -1e308] if dtype == torch.complex128 else [])
    z = torch.tensor([complex(re, im) for re in parts for im in parts], dtype=dtype)
    function = getattr(torch, name)
    actual, expected = function(z.to(device)).cpu(), function(z)
    exact = function(z.to(torch.complex128)).to(dtype)      # where float32 on the CPU is inexact itself
    close = torch.isclose(actual, expected, 1e-5, 1e-6, equal_nan=True) | torch.isclose(actual, exact, 1e-5, 1e-6,
                                                                                        equal_nan=True)
    if name == "log1p":     # the CPU makes infinity times zero of an infinite imaginary part
        close |= torch.isinf(z.imag)
    wrong = [(z[i].item(), actual[i].item(), expected[i].item()) for i in (~close).nonzero().flatten().tolist()]
    assert not wrong, wrong[:5]


SMALL = [0.0, -0.0, 1, -1, 0.5, 2, -3, float("inf"), -float("inf"), float("nan")]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_powers_of_extreme_parts(dtype, device):
    z = torch.tensor([complex(re, im) for re in SMALL for im in SMALL], dtype=dtype)
    base, exponent = z.repeat_interleave(len(z)), z.repeat(len(z))
    actual, expected = torch.pow(base.to(device), exponent.to(device)).cpu(), torch.pow(base, exponent)
    close = torch.isclose(actual, expected, 1e-5, 1e-6,
                          equal_nan=True) | (base == 0) & (exponent == 0)    # 1, as of floats
    wrong = [(base[i].item(), exponent[i].item(), actual[i].item()) for i in (~close).nonzero().flatten().tolist()]
    assert not wrong, wrong[:5]


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_infinite_products_are_added(name, device):
    z = torch.tensor([complex(re, im) for re in SMALL for im in SMALL], dtype=torch.complex64)
    x, y = z.repeat_interleave(len(z)), z.repeat(len(z))
    function = getattr(torch, name)
    torch.testing.assert_close(function(x.to(device), x.to(device), y.to(device)).cpu(), function(x, x, y),
                               equal_nan=True)
