"""torch_ocl.pointwise_kernel: elementwise kernels and reductions from expressions."""
import pytest
import torch

from torch_ocl import pointwise_kernel


def test_expression_with_numbers_and_broadcasting(device):
    a, b = torch.randn(4, 1, 7), torch.randn(5, 1)
    kernel = pointwise_kernel("y0 = w0 * x0 + x1;")
    torch.testing.assert_close(kernel(a.to(device), b.to(device), scalars=[2.5]).cpu(), 2.5 * a + b)


def test_outputs_of_different_dtypes(device):
    a = torch.randn(33)
    kernel = pointwise_kernel("y0 = exp(x0); y1 = x0 > 0;")
    y, positive = kernel(a.to(device), dtype=(torch.float16, torch.bool))
    torch.testing.assert_close(y.cpu(), a.exp().half())
    assert torch.equal(positive.cpu(), a > 0)


@pytest.mark.parametrize("memory_format", (torch.contiguous_format, torch.channels_last))
def test_channel_sums_in_one_pass(device, memory_format):
    """The published example: statistics of batch normalisation from expressions alone."""
    x = torch.randn(3, 6, 10, 11).contiguous(memory_format=memory_format)
    kernel = pointwise_kernel("y0 = x0; y1 = x0 * x0;", reduce="a + b", identity="0")
    total, squares = kernel(x.to(device), dim=(0, 2, 3))
    torch.testing.assert_close(total.cpu(), x.sum((0, 2, 3)))
    torch.testing.assert_close(squares.cpu(), (x * x).sum((0, 2, 3)))


def test_sines_and_cosines_of_a_cosine(device):
    """Intel's compiler for CPUs ended the process where it made one call of such a pair."""
    x = torch.linspace(-9, 9, 100)
    kernel = pointwise_kernel("T c = cos(x0); y0 = sin(c) + cos(c) * sin(x0);")
    torch.testing.assert_close(kernel(x.to(device)).cpu(), x.cos().sin() + x.cos().cos() * x.sin())


def test_other_reductions(device):
    x = torch.randn(30, 40)
    largest = pointwise_kernel("y0 = fabs(x0);", reduce="a > b ? a : b", identity="0")
    torch.testing.assert_close(largest(x.to(device), dim=1, keepdim=True).cpu(), x.abs().amax(1, keepdim=True))
    assert largest(x.to(device)).shape == ()


def test_writes_into_views(device):
    base = torch.zeros(4, 6, device=device)
    pointwise_kernel("y0 = x0 + 1;")(torch.ones(4, device=device), out=base[:, 2])
    expected = torch.zeros(4, 6)
    expected[:, 2] = 2
    assert torch.equal(base.cpu(), expected)


def test_complains(device):
    with pytest.raises(ValueError, match="y0"):
        pointwise_kernel("y1 = x0;")
    with pytest.raises(RuntimeError, match="did not compile"):
        pointwise_kernel("y0 = no_such_function(x0);")(torch.ones(3, device=device))
    with pytest.raises(RuntimeError):
        pointwise_kernel("y0 = x0;")(torch.ones(3, device=device), out=torch.ones(2, device=device))
