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


def alike(actual, expected):
    """NaN in one part and a number in the other are something else than two NaN."""
    nan = torch.view_as_real(actual).isnan() == torch.view_as_real(expected).isnan()
    return torch.isclose(actual, expected, 1e-5, 1e-6, equal_nan=True) & nan.all(-1)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_extreme_parts(name, dtype, device):
    parts = PARTS + ([1e200, 1e308, -1e308] if dtype == torch.complex128 else [])
    z = torch.tensor([complex(re, im) for re in parts for im in parts], dtype=dtype)
    function = getattr(torch, name)
    actual, expected = function(z.to(device)).cpu(), function(z)
    exact = function(z.to(torch.complex128)).to(dtype)      # where float32 on the CPU is inexact itself
    close = alike(actual, expected) | alike(actual, exact)
    if name == "log1p":     # the CPU makes infinity times zero of an infinite part
        close |= torch.isinf(z.imag) | torch.isinf(z.real) & torch.isnan(z.imag)
    wrong = [(z[i].item(), actual[i].item(), expected[i].item()) for i in (~close).nonzero().flatten().tolist()]
    assert not wrong, wrong[:5]


SMALL = [0.0, -0.0, 1, -1, 0.5, 2, -3, float("inf"), -float("inf"), float("nan")]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_powers_of_extreme_parts(dtype, device):
    z = torch.tensor([complex(re, im) for re in SMALL for im in SMALL], dtype=dtype)
    base, exponent = z.repeat_interleave(len(z)), z.repeat(len(z))
    actual, expected = torch.pow(base.to(device), exponent.to(device)).cpu(), torch.pow(base, exponent)
    close = alike(actual, expected) | (base == 0) & (exponent == 0)    # 1, as of floats
    wrong = [(base[i].item(), exponent[i].item(), actual[i].item()) for i in (~close).nonzero().flatten().tolist()]
    assert not wrong, wrong[:5]


@pytest.mark.parametrize("exponent", [0.3, 0.5, 0.5 + 0.5j, -0.25])
def test_powers_of_numbers_whose_size_overflows(exponent, device):
    z = torch.tensor([3e38 + 3e38j, -3e38 + 2e38j, 3e38, -2e38j], dtype=torch.complex64)
    actual, expected = torch.pow(z.to(device), exponent).cpu(), torch.pow(z.to(torch.complex128), exponent)
    torch.testing.assert_close(actual, expected.to(torch.complex64), rtol=3e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_infinite_products_are_added(name, device):
    z = torch.tensor([complex(re, im) for re in SMALL for im in SMALL], dtype=torch.complex64)
    x, y = z.repeat_interleave(len(z)), z.repeat(len(z))
    function = getattr(torch, name)
    torch.testing.assert_close(function(x.to(device), x.to(device), y.to(device)).cpu(), function(x, x, y),
                               equal_nan=True)
