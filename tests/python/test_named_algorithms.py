"""Operators that PyTorch has under the names of algorithms, of host memory or of special functions, against the CPU."""
import math

import pytest
import torch
from torch.testing import assert_close

aten = torch.ops.aten


def check(operator, arguments, device, **tolerances):
    """Against the CPU; results are compared one by one."""
    expected = operator(*arguments)
    actual = operator(*(a.to(device) if isinstance(a, torch.Tensor) else a for a in arguments))
    for a, e in zip(actual, expected) if isinstance(expected, tuple) else ((actual, expected),):
        assert (a is None) == (e is None)
        if a is not None:
            assert a.device.type == device.type
            assert_close(a.cpu(), e, **tolerances)


X2, W2, B = torch.randn(2, 3, 6, 7), torch.randn(4, 3, 3, 2), torch.randn(4)
X3, W3 = torch.randn(2, 3, 4, 5, 6), torch.randn(4, 3, 2, 3, 2)


@pytest.mark.parametrize("operator, arguments", (
    (aten._slow_conv2d_forward, (X2, W2, [3, 2], B, [2, 1], [1, 0])),
    (aten._slow_conv2d_forward, (X2, W2.flatten(1), [3, 2], None, [1, 1], [0, 1])),
    (aten.slow_conv3d_forward, (X3, W3, [2, 3, 2], B, [1, 2, 1], [0, 1, 1])),
    (aten.slow_conv_dilated2d, (X2, W2, [3, 2], B, [1, 1], [1, 1], [2, 3])),
    (aten.slow_conv_dilated3d, (X3, W3, [2, 3, 2], B, [1, 1, 1], [1, 1, 1], [2, 1, 2])),
    (aten.slow_conv_transpose2d, (X2, W2.transpose(0, 1), [3, 2], B, [2, 1], [1, 0], [1, 0], [1, 2])),
    (aten.slow_conv_transpose3d, (X3[0], W3.transpose(0, 1), [2, 3, 2], None, [1, 2, 1], [0, 1, 0], [0, 1, 0],
                                  [1, 1, 1])),
), ids=lambda value: getattr(value, "__name__", ""))
def test_convolutions(operator, arguments, device):
    check(operator, arguments, device)


@pytest.mark.parametrize("mask", ((True, True, True), (False, True, False)))
def test_convolution_backward(mask, device):
    y = torch.randn(2, 4, 3, 6)
    check(aten._slow_conv2d_backward, (y, X2, W2, [3, 2], [2, 1], [1, 0], mask), device)
    out = [torch.empty_like(t, device=device) for t in (X2, W2, B)]
    aten._slow_conv2d_backward.grad_input(*(t.to(device) for t in (y, X2, W2)), [3, 2], [2, 1], [1, 0],
                                          grad_input=out[0], grad_weight=out[1], grad_bias=out[2])
    expected = aten._slow_conv2d_backward(y, X2, W2, [3, 2], [2, 1], [1, 0], (True, True, True))
    assert_close([t.cpu() for t in out], list(expected))


def test_grid_sampler_of_the_host(device):
    """PyTorch gives the CPU's function to every device, and it reads through the pointers of its tensors."""
    x, grid, y = torch.randn(2, 3, 4, 5), torch.rand(2, 6, 7, 2) * 2.4 - 1.2, torch.randn(2, 3, 6, 7)
    check(aten._grid_sampler_2d_cpu_fallback, (x, grid, 0, 1, False), device)
    check(aten._grid_sampler_2d_cpu_fallback_backward, (y, x, grid, 0, 0, True), device)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.bfloat16, torch.complex64))
@pytest.mark.parametrize("length, periodic, beta", ((0, True, 12), (1, True, 12), (2, False, 3), (9, True, 12),
                                                    (300, False, 8.6), (9, True, -5), (9, True, 0)))
def test_kaiser_window(length, periodic, beta, dtype, device):
    if dtype == torch.float64 and not torch.ocl.get_device_properties(device).has_fp64:
        pytest.skip("no float64")
    actual = torch.kaiser_window(length, periodic, beta, dtype=dtype, device=device)
    expected = torch.kaiser_window(length, periodic, abs(beta), dtype=torch.float64).to(dtype)
    assert_close(actual.cpu(), expected)


def test_kaiser_window_of_large_beta(device):
    """Where the function of Bessel's overflows."""
    expected = torch.kaiser_window(9, False, 100, dtype=torch.float64).float()
    assert_close(torch.kaiser_window(9, False, 100, device=device).cpu(), expected)
    assert torch.kaiser_window(5, False, math.inf, device=device).tolist() == [0, 0, 1, 0, 0]
    assert_close(torch.kaiser_window(7, device=device).cpu(), torch.kaiser_window(7))
    assert_close(torch.kaiser_window(7, False, device=device).cpu(), torch.kaiser_window(7, False))
    with pytest.raises(RuntimeError, match="floating point"):
        torch.kaiser_window(7, dtype=torch.int64, device=device)


def test_functions_of_the_host(device):
    """PyTorch has these for every device, and they read through the addresses of their tensors."""
    def state(place):
        start = torch.zeros(2, 30, dtype=torch.int64, device=place)
        return aten._sobol_engine_initialize_state_(start, 2)

    def sobol(place):
        quasi, directions = torch.zeros(2, dtype=torch.int64, device=place), state(place)
        aten._sobol_engine_scramble_(directions, torch.ones(2, 30, 30, dtype=torch.int64, device=place).tril(), 2)
        aten._sobol_engine_ff_(quasi, 3, directions, 2, 0)
        return aten._sobol_engine_draw(quasi, 4, directions, 2, 3, torch.float32)

    weight = torch.arange(12.0).view(4, 3)
    calls = {"sobol": sobol,
             "prune": lambda place: aten._rowwise_prune(
                 weight.to(place), torch.tensor([True, False, True, True]).to(place), torch.int64),
             "range": lambda place: aten.choose_qparams_optimized(weight.flatten().to(place), 12, 200, 0.16, 8),
             "quantize": lambda place: aten.fbgemm_linear_quantize_weight(weight.to(place))[0]}
    policy = torch.ocl.fallback_policy()
    try:
        for name, call in calls.items():
            torch.ocl.set_fallback_policy("allow")
            actual, expected = call(device), call("cpu")
            actual, expected = (r if isinstance(r, tuple) else (r,) for r in (actual, expected))
            assert_close([t.cpu() for t in actual], list(expected))
            torch.ocl.set_fallback_policy("error")
            with pytest.raises(NotImplementedError, match="fallback policy"):
                call(device)
        with pytest.raises(NotImplementedError, match="fallback policy"):    # not there in every PyTorch for the CPU
            aten._nnpack_spatial_convolution(torch.ones(1, 2, 5, 5, device=device),
                                             torch.ones(3, 2, 3, 3, device=device), None, [1, 1])
    finally:
        torch.ocl.set_fallback_policy(policy)
