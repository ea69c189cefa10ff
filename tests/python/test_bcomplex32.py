"""bcomplex32, which a bfloat16 tensor with a complex number becomes since PyTorch 2.14. PyTorch's CPU moves it and has
no arithmetic of it: that is compared with complex64, rounded."""

import pytest
import torch

from comparison import device

if not hasattr(torch, "bcomplex32"):
    pytest.skip("this PyTorch has no bcomplex32", allow_module_level=True)

NARROW = torch.bcomplex32


def numbers(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.complex64, generator=generator).to(NARROW)


def exactly(actual, expected):
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    actual = actual.cpu()
    if expected.dtype == NARROW:
        actual, expected = torch.view_as_real(actual.resolve_conj()), torch.view_as_real(expected.resolve_conj())
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def rounded(actual, expected):
    """Within a rounding to bfloat16 of what complex64 gives."""
    assert actual.dtype == NARROW and actual.device.type == "ocl"
    torch.testing.assert_close(torch.view_as_real(actual.cpu()), torch.view_as_real(expected.to(NARROW)))


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("other", [torch.complex64, torch.complex32, torch.complex128, torch.float32, torch.bfloat16,
                                   torch.float16, torch.int32, torch.bool], ids=str)
def test_conversions(other):
    if other == torch.complex128 and not torch.ocl.get_device_properties(0).fp64:
        pytest.skip("the device has no float64")
    x = numbers(5, 7)
    exactly(x.to(device).to(other), x.to(other))
    exactly(x.to(device).t()[1:, ::2].to(other), x.t()[1:, ::2].to(other))
    back = (torch.arange(35).reshape(5, 7) - 17).to(other)
    exactly(back.to(device).to(NARROW), back.to(NARROW))


def test_moves():
    x, y = numbers(4, 6), numbers(4, 6, seed=1)
    a, b = x.to(device), y.to(device)
    mask, rows = torch.arange(24).reshape(4, 6) % 3 == 0, torch.tensor([2, 0, -1])
    exactly(a.t().contiguous(), x.t().contiguous())
    exactly(torch.cat([a, b[:, ::2]], 1), torch.cat([x, y[:, ::2]], 1))
    exactly(a[rows.to(device)], x[rows])
    exactly(torch.where(mask.to(device), a, b), torch.where(mask, x, y))
    exactly(a.masked_fill(mask.to(device), 1j), x.masked_fill(mask, 1j))
    exactly(a.conj().resolve_conj().to(torch.complex64), x.to(torch.complex64).conj())
    exactly(torch.view_as_real(a), torch.view_as_real(x))
    exactly(torch.flip(a, [0]), x[torch.tensor([3, 2, 1, 0])])
    exactly(torch.full((3,), 2 - 1j, dtype=NARROW, device=device), torch.tensor([2 - 1j] * 3, dtype=NARROW))
    exactly(torch.zeros(3, dtype=NARROW, device=device), torch.zeros(3, dtype=NARROW))
    assert a[1, 2].item() == x[1, 2].item()
    assert torch.equal(a, a.clone()) and not torch.equal(a, b)
    assert "dtype=torch.bcomplex32" in repr(a)


@pytest.mark.parametrize("operator", [torch.add, torch.sub, torch.mul, torch.div], ids=lambda f: f.__name__)
def test_arithmetic(operator):
    x, y = numbers(4, 6), numbers(4, 6, seed=1)
    a, b = x.to(device), y.to(device)
    wide_x, wide_y = x.to(torch.complex64), y.to(torch.complex64)
    rounded(operator(a, b), operator(wide_x, wide_y))
    rounded(operator(a, 2 - 1j), operator(wide_x, 2 - 1j))
    real = torch.view_as_real(x)[..., 0]
    rounded(operator(real.to(device), 1 + 2j), operator(real.float(), 1 + 2j))      # bfloat16 with a complex number
    result = a.clone()
    getattr(result, operator.__name__ + "_")(b)
    rounded(result, operator(wide_x, wide_y))


def test_functions():
    x, y = numbers(50), numbers(50, seed=1)
    a, b, wide_x, wide_y = x.to(device), y.to(device), x.to(torch.complex64), y.to(torch.complex64)
    for name in ("neg", "exp", "sigmoid", "tanh", "sqrt", "square"):
        rounded(getattr(torch, name)(a), getattr(torch, name)(wide_x))
    rounded(torch.lerp(a, b, 0.5), torch.lerp(wide_x, wide_y, 0.5))
    for name in ("sigmoid_backward", "tanh_backward"):
        rounded(getattr(torch.ops.aten, name)(a, b), getattr(torch.ops.aten, name)(wide_x, wide_y))
    assert torch.eq(a, a).all() and not torch.ne(a, a).any()
    torch.testing.assert_close(a.abs().cpu(), wide_x.abs().bfloat16())


def test_autograd():
    x, seed = numbers(20), numbers(20, seed=1)
    leaf, wide = x.to(device).requires_grad_(), x.to(torch.complex64).requires_grad_()
    (leaf * leaf).backward(seed.to(device))
    (wide * wide).backward(seed.to(torch.complex64))
    rounded(leaf.grad, wide.grad)


def test_what_has_no_kernel_is_refused():
    a = numbers(3, 3).to(device)
    for refused in (lambda: a @ a, lambda: torch.linalg.inv(a), lambda: torch.fft.fft(a)):
        with pytest.raises((RuntimeError, NotImplementedError), match="(?i)bcomplex32"):
            refused()
