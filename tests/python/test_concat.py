"""cat and stack against PyTorch on the CPU."""
import pytest
import torch

from comparison import compare, device

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool,
          torch.complex64]


def make(shape, dtype=torch.float32):
    return (torch.randn(shape) * 10).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cat_of_large_transposed_tensors(dtype, dim):
    """Which are copied by tiles."""
    a, b = make((3, 90, 70), dtype), make((3, 70, 90), dtype)
    compare(lambda x, y: torch.cat([x, y.mT, y.mT[:, 1::2].repeat(1, 2, 1)], dim), a, b, strides=True)
    compare(lambda x, y: torch.stack([x.mT, y], dim), a, b, strides=True)
    compare(lambda x: torch.roll(x.mT, (5, -7), (1, 2)), a, strides=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cat_of_every_dtype(dtype, dim):
    shapes = [[2, 3, 4], [2, 3, 4], [2, 3, 4]]
    shapes[1][dim] = 7
    compare(lambda *t: torch.cat(t, dim), *(make(s, dtype) for s in shapes), strides=True)


def test_cat_keeps_channels_last():
    a, b = (make((2, c, 5, 6)).to(memory_format=torch.channels_last) for c in (3, 8))
    compare(lambda *t: torch.cat(t, 1), a, b, strides=True)
    compare(lambda *t: torch.cat(t, 1), a, b.contiguous(), strides=True)


def test_cat_of_views_with_offsets():
    a, b = make((9, 10)), make((10, 9))
    compare(lambda x, y: torch.cat([x[1:, 1:9:2], y.t()[1:, 3:7]], 1), a, b, strides=True)
    compare(lambda x, y: torch.cat([x.t(), y], 1), a, b, strides=True)
    compare(lambda x: torch.cat([x[:1].expand(4, 10), x]), a, strides=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8])
def test_cat_of_many_slices(dtype):
    """Rows of tensors that are parts of others, a row each or several, repeated ones, empty ones."""
    x, y = make((3, 40, 8, 8), dtype), make((3, 5, 8, 8), dtype)
    compare(lambda x, y: torch.cat([x[:, :12], y, x[:, 20:31], x[:, 39:], y[:, 1:2]], 1), x, y, strides=True)
    compare(lambda x, y: torch.cat([x[1, :12], y[0], x[2, 3:4], x[0, 5:]]), x, y, strides=True)
    compare(lambda x, y: torch.cat([x[:, :3], y[:1].expand(3, 5, 8, 8), x[:, 20:], y[:, :0], y], 1), x, y, strides=True)
    compare(lambda x, y: torch.cat([x[::2, :5], y[1:], x[:2, 7:], x[1:, 30:33]], 1), x, y, strides=True)
    compare(lambda x, y: torch.cat([x[:, 1:6], y, y[..., 1:], x[:, 3:8]], 3), x, y, strides=True)
    compare(lambda x, y: torch.cat([x[:, :5, 1:7], y[:, :, :3], y, x[:, 8:13]], 2), x, y, strides=True)


def test_cat_promotes_dtypes():
    compare(lambda *t: torch.cat(t), make(3), make(4, torch.int64), make(2, torch.float16), strides=True)


def test_cat_skips_empty_inputs():
    compare(lambda *t: torch.cat(t, 1), make((2, 3)), torch.empty(0), make((2, 0)), make((2, 2)), strides=True)
    compare(lambda *t: torch.cat(t), torch.empty(0), torch.empty(0), strides=True)


def test_cat_into_a_given_tensor():
    a, b = make((2, 3)), make((2, 4))
    out = torch.empty(7, 2, device=device).t()
    torch.cat([a.to(device), b.to(device)], 1, out=out)
    torch.testing.assert_close(out.cpu(), torch.cat([a, b], 1))


def test_stack_and_gradients():
    a, b = (make((3, 4)).requires_grad_() for _ in range(2))
    da, db = (t.detach().to(device).requires_grad_() for t in (a, b))
    weight = make((3, 2, 4))
    (torch.stack([a, b], 1) * weight).sum().backward()
    (torch.stack([da, db], 1) * weight.to(device)).sum().backward()
    torch.testing.assert_close(da.grad.cpu(), a.grad)
    torch.testing.assert_close(db.grad.cpu(), b.grad)


def test_errors():
    a = make((2, 3)).to(device)
    with pytest.raises(RuntimeError, match="Sizes of tensors must match except in dimension 0"):
        torch.cat([a, make((2, 4)).to(device)])
    with pytest.raises(RuntimeError):
        torch.cat([a, make((2, 3))])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes, dim", [([16] * 70, 0), ([5, 0, 7, 33, 1] * 8, 1), ([300] * 4, 2), ([1] * 33, 0),
                                        ([20000, 3, 17000, 64], 0)])
def test_cat_and_stack_of_many(sizes, dim, dtype):
    others = [n for d, n in enumerate((3, 2, 5)) if d != dim] if max(sizes) < 1000 else [1, 3]
    parts = [make(others[:dim] + [n] + others[dim:], dtype) for n in sizes]
    compare(lambda *t: torch.cat(t, dim), *parts, strides=True)
    compare(lambda *t: torch.stack([x[:1, :1, :1] if 0 in x.shape else x for x in t[::5]], 1),
            *[parts[0]] * len(parts), strides=True)


def test_cat_of_many_parts_of_one_tensor():
    compare(lambda x: torch.cat([x[i] for i in range(0, 40, 3)]), make((40, 7, 9)), strides=True)
    compare(lambda x: torch.stack([x[i:i + 2] for i in range(0, 40, 3)], 1), make((41, 7, 9)), strides=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_more_tensors_than_arguments_of_a_kernel(dtype):
    for sizes, dim in (([1, 2, 3] * 40, 0), ([1, 0, 5] * 13, 1), ([300] * 35, 0), ([7] * 34, 1)):
        shapes = [[2, 3] for _ in sizes]
        for shape, size in zip(shapes, sizes):
            shape[dim] = size
        compare(lambda *t: torch.cat(t, dim), *(make(s, dtype) for s in shapes), strides=True)
    compare(lambda *t: torch.stack([x[::2] for x in t]), *(make([5], dtype) for _ in range(40)), strides=True)
    compare(lambda *t: torch.stack(t, -1), *(make([3, 4], dtype) for _ in range(100)), strides=True)
