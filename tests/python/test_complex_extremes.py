"""Complex functions where parts overflow, underflow, vanish or are infinite: PyTorch's CPU has the limits of C's Annex G."""
import pytest
import torch

PARTS = [0.0, -0.0, 1e-30, 1e-10, 0.3, 0.5, 1, -1, -0.999, -1.001, 2, 17, -20, 5e8, 1e10, -1e10, 1e19, 1e30, 3e38, -3e38,
         float("inf"), -float("inf"), float("nan")]
FUNCTIONS = ["log", "log2", "log10", "log1p", "sqrt", "rsqrt", "exp", "expm1", "sin", "cos", "tan", "asin", "acos", "atan",
             "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid", "reciprocal", "sgn"]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_extreme_parts(name, dtype, device):
    parts = PARTS + ([1e200, 1e308, -1e308] if dtype == torch.complex128 else [])
    z = torch.tensor([complex(re, im) for re in parts for im in parts], dtype=dtype)
    function = getattr(torch, name)
    actual, expected = function(z.to(device)).cpu(), function(z)
    exact = function(z.to(torch.complex128)).to(dtype)      # where float32 on the CPU is inexact itself
    close = torch.isclose(actual, expected, 1e-5, 1e-6, equal_nan=True) | torch.isclose(actual, exact, 1e-5, 1e-6, equal_nan=True)
    if name == "log1p":     # the CPU makes infinity times zero of an infinite imaginary part
        close |= torch.isinf(z.imag)
    wrong = [(z[i].item(), actual[i].item(), expected[i].item()) for i in (~close).nonzero().flatten().tolist()]
    assert not wrong, wrong[:5]
