"""torch.nn.functional.unfold and fold against PyTorch on the CPU."""
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from comparison import device


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.complex128])
@pytest.mark.parametrize("how", [dict(kernel_size=3), dict(kernel_size=(2, 3), stride=(2, 1), padding=1),
                                 dict(kernel_size=3, dilation=2, padding=2, stride=2)])
@pytest.mark.parametrize("shape", [(2, 3, 8, 9), (3, 8, 9)])
def test_unfold_and_fold(shape, how, dtype):
    x = torch.randn(shape).to(dtype)
    leaf = x.to(device).requires_grad_()
    columns = F.unfold(leaf, **how)
    expected = F.unfold(x, **how)
    assert torch.equal(columns.cpu(), expected)
    folded = F.fold(columns, shape[-2:], **how)
    assert_close(folded.cpu(), F.fold(expected.float(), shape[-2:], **how).to(dtype) if dtype == torch.bfloat16
                 else F.fold(expected, shape[-2:], **how))
    gradient = torch.autograd.grad(columns, leaf, columns.detach())[0]
    assert_close(gradient.cpu(), folded.detach().cpu())


@pytest.mark.parametrize("how", [dict(kernel_size=3, padding=1), dict(kernel_size=(1, 5), stride=(1, 3),
                                                                       padding=(0, 2)),
                                 dict(kernel_size=4, stride=4), dict(kernel_size=2, dilation=3, stride=2, padding=3),
                                 dict(kernel_size=(2, 9), padding=(30, 500), dilation=(1, 70))])
def test_wide_pictures(how):
    size = (37, 600)
    x = torch.randn(2, 3, *size)
    columns = F.unfold(x, **how)
    assert torch.equal(F.unfold(x.to(device), **how).cpu(), columns)
    assert_close(F.fold(columns.to(device), size, **how).cpu(), F.fold(columns, size, **how))


def test_other_dtypes_and_errors():
    x = torch.randint(0, 9, (1, 2, 4, 4))
    assert F.unfold(torch.empty(0, 2, 4, 4, device=device), 2).shape == (0, 8, 9)
    for call in (lambda t: F.unfold(t, 9), lambda t: F.fold(t, (4, 4), 3)):
        with pytest.raises(RuntimeError) as expected:
            call(x.float())
        with pytest.raises(RuntimeError) as got:
            call(x.float().to(device))
        assert str(got.value).split("\n")[0] == str(expected.value).split("\n")[0]


def test_numbers_beyond_32_bits_are_refused(device):
    """A stride of 2^32 is not one of 0."""
    x = torch.randn(1, 1, 4, 4, device=device)
    for options in ({"stride": 2**32}, {"dilation": 2**32 + 1}, {"padding": 2**32}):
        with pytest.raises(RuntimeError, match="out of range|too large|without overflow"):
            F.unfold(x, 1, **options)
    with pytest.raises(RuntimeError, match="out of range|too large|without overflow"):
        F.max_pool2d(x, 2, stride=2**32 + 1)
    with pytest.raises(RuntimeError, match="out of range|too large|without overflow"):
        F.avg_pool2d(x, 2, stride=2**32 + 1)


def test_out_is_the_argument(device):
    """The argument is read before it takes the result's shape."""
    x = torch.arange(24.0).reshape(1, 2, 3, 4)
    columns = F.unfold(x, 2)
    got = x.to(device)
    torch.ops.aten.im2col.out(got, [2, 2], [1, 1], [0, 0], [1, 1], out=got)
    assert torch.equal(got.cpu(), columns)
    torch.ops.aten.col2im.out(got, [3, 4], [2, 2], [1, 1], [0, 0], [1, 1], out=got)
    assert torch.equal(got.cpu(), F.fold(columns, (3, 4), 2))


def test_windows_serve_a_whole_batch(device):
    grad = torch.randn(1, 6, 10)
    expected = torch.ops.aten.unfold_backward(grad, [4, 20], 1, 10, 2)
    assert_close(torch.ops.aten.unfold_backward(grad.to(device), [4, 20], 1, 10, 2).cpu(), expected)
