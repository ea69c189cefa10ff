"""Cumulative operators against PyTorch on the CPU."""
import pytest
import torch

from comparison import FLOATS, INTEGERS, compare, device

SHAPES = [((7, 33), 1), ((33, 7), 0), ((3, 1500), -1), ((70001,), 0), ((2, 3, 5), 1), ((), 0), ((0, 3), 0),
          ((1100, 300), 1), ((700, 40), 0), ((300, 150), 0)]


@pytest.mark.parametrize("shape, dim", SHAPES)
@pytest.mark.parametrize("dtype", FLOATS[:2] + [torch.int64])
def test_cumsum(shape, dim, dtype):
    compare(lambda x: torch.cumsum(x, dim), (torch.randn(shape) * 10).to(dtype))


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + [torch.bool, torch.complex64])
def test_every_dtype(dtype):
    x = (torch.rand(5, 17) * 3).to(dtype)
    compare(lambda x: torch.cumsum(x, 1), x)
    compare(lambda x: torch.cumprod(x, 0), x)
    compare(lambda x: torch.cumsum(x, 1, dtype=torch.float32), x.real if x.is_complex() else x)


# CPUs walk eight rows at once where these lie behind each other: whole eights of elements, pairs of four, what is left.
@pytest.mark.parametrize("rows, n", [(8, 8), (21, 4), (40, 5), (17, 16), (9, 23), (300, 64), (900, 67), (3, 12)])
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + [torch.bool])
def test_dense_rows(rows, n, dtype):
    torch.manual_seed(rows)
    x = torch.randn(rows, n)
    if dtype.is_floating_point:
        x[1, 2], x[0, 0], x[-1, -1], x[rows // 2, 1] = torch.inf, -0.0, torch.nan, -torch.inf
    x = x.to(dtype) if dtype.is_floating_point else (x * 3).abs().to(dtype)
    for operation in (torch.cumsum, torch.cumprod):
        wanted = operation(x.double() if dtype.is_floating_point else x, 1)
        got = operation(x.to(device), 1).cpu()
        torch.testing.assert_close(got, wanted.to(got.dtype), equal_nan=True)
        torch.testing.assert_close(operation(x.to(device)[1:], 1).cpu(), wanted[1:].to(got.dtype), equal_nan=True)
        if dtype.is_floating_point:
            y = x.to(device)
            torch.testing.assert_close(getattr(y, operation.__name__ + "_")(1).cpu(), got, equal_nan=True)


@pytest.mark.parametrize("shape, dim", SHAPES)
def test_extremes(shape, dim):
    x = torch.randint(-50, 50, shape).float()
    compare(lambda x: torch.cummax(x, dim), x)
    compare(lambda x: torch.cummin(x, dim), x)
    compare(lambda x: torch.cummax(x, dim), x.to(torch.int16))


def test_extremes_of_nan():
    x = torch.tensor([1.0, 3.0, float("nan"), 5.0, float("nan"), 2.0])
    compare(lambda x: torch.cummax(x, 0), x)
    compare(lambda x: torch.cummin(x, 0), x)


@pytest.mark.parametrize("shape, dim", SHAPES)
def test_logcumsumexp(shape, dim):
    compare(lambda x: torch.logcumsumexp(x, dim), torch.randn(shape) * 5)


@pytest.mark.parametrize("dtype", (torch.complex64, torch.complex128))
def test_logcumsumexp_of_complex_numbers(dtype):
    for shape, dim in (((7, 5), 0), ((3, 40, 2), 1), ((), 0)):
        compare(lambda x: torch.logcumsumexp(x, dim), torch.randn(shape, dtype=dtype) * 3)
    long = torch.randn(3000, dtype=dtype)   # in pieces: imaginary parts may differ by a whole turn
    compare(lambda x: torch.exp(torch.logcumsumexp(x, 0) - 9), long)
    inf, nan = float("inf"), float("nan")
    compare(lambda x: torch.logcumsumexp(x, 0),
            torch.tensor([complex(-inf, 0), 1 + 2j, complex(nan, 0), 2], dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS[:3])
def test_products_of_parts_overflow(dtype):
    """A product is 0, or small, though parts of it are larger or smaller than any number."""
    x = torch.arange(300, dtype=dtype)
    compare(lambda x: torch.cumprod(x, 0), x)
    turns = torch.tensor([1e-4, 1e-3, 1e4, 1e3]).repeat_interleave(40).to(dtype)
    expected = torch.cumprod(turns.double(), 0).to(dtype)
    tolerance = {"rtol": 1e-4, "atol": 0} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 1e-6}
    torch.testing.assert_close(torch.cumprod(turns.to(device), 0).cpu(), expected, **tolerance)
    compare(lambda x: torch.cumprod(x, 0), torch.arange(60).to(torch.complex64))


@pytest.mark.parametrize("operation", (torch.cumsum, torch.cumprod, torch.logcumsumexp, torch.cummax))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.int64))
def test_places_in_memory(operation, dtype):
    """Rows that begin at any place of a vector, input and output at different ones."""
    if operation is torch.logcumsumexp and dtype == torch.int64:
        return
    x = torch.randn(6, 2065).to(dtype) if dtype.is_floating_point else torch.randint(-3, 4, (6, 2065), dtype=dtype)
    x = x / 8 if operation is torch.cumprod and dtype.is_floating_point else x
    for first in range(5):
        compare(lambda x: operation(x[:, first:], 1), x)
        compare(lambda x: operation(x[:3, first:first + 70], 0), x)
        compare(lambda x: operation(x.flatten()[first:9000], 0), x)


def test_in_place_and_often():
    x = torch.randn(3, 30011)
    first = torch.cumsum(x.to(device), 1)
    for _ in range(3):
        again = x.to(device)
        assert torch.equal(again.cumsum_(1), first)
    torch.testing.assert_close(first.cpu(), torch.cumsum(x.double(), 1).float(), rtol=2e-7, atol=1e-7)


def test_logcumsumexp_of_infinities():
    inf = float("inf")
    compare(lambda x: torch.logcumsumexp(x, 0), torch.tensor([-inf, -inf, 1.0, inf, 2.0]))
    compare(lambda x: torch.logcumsumexp(x, 0), torch.tensor([1.0, float("nan"), 2.0]))


def test_infinities_do_not_become_nan():
    inf = float("inf")
    compare(lambda x: torch.cumsum(x, 0), torch.tensor([1.0, inf, 2.0, 3.0]))
    compare(lambda x: torch.cumsum(x, 0), torch.tensor([1.0, inf, -inf, 3.0]))


def test_views_and_outputs():
    x = torch.randn(20, 30)
    compare(lambda x: torch.cumsum(x.t()[1:, ::2], 0), x)
    compare(lambda x: x[2:, 3:].clone().t().cumsum_(1), x)
    out = torch.empty(30, 20, device=device).t()
    torch.cumsum(x.to(device), 1, out=out)
    torch.testing.assert_close(out.cpu(), x.cumsum(1))


@pytest.mark.parametrize("dtype", FLOATS + [torch.int64, torch.uint8, torch.bool])
def test_rows_that_are_dense_in_the_output_alone(dtype):
    x = (torch.rand(4, 33, 100) * 3).to(dtype)
    for view in (lambda x: x.permute(0, 2, 1), lambda x: x.permute(2, 1, 0), lambda x: x[..., ::2].permute(1, 0, 2)):
        compare(lambda x: torch.cumsum(view(x), -1), x, strides=True)
        compare(lambda x: torch.cummin(view(x), -1), x, strides=True)
        compare(lambda x: torch.cumsum(view(x), -1, dtype=torch.float64), x, strides=True)


def test_gradients():
    x, weight = torch.rand(5, 20) + 0.5, torch.randn(5, 20)
    for function in (torch.cumsum, torch.cumprod, torch.logcumsumexp):
        grads = []
        for place in ("cpu", device):
            y = x.clone().to(place).requires_grad_()
            (function(y, 1) * weight.to(place)).sum().backward()
            grads.append(y.grad.cpu())
        torch.testing.assert_close(*grads)


@pytest.mark.parametrize("shape, dim", [((20000,), 0), ((3, 9001), 1), ((7, 300), 1), ((300, 5, 2), 0)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.complex64])
def test_long_sums_are_rounded_as_the_exact_ones(shape, dim, dtype):
    x = torch.randn(shape, dtype=dtype)
    exact = x.to(torch.complex128 if dtype.is_complex else torch.float64).cumsum(dim)
    torch.testing.assert_close(x.to(device).cumsum(dim).cpu(), exact.to(dtype))
    in_place = x.to(device)
    torch.testing.assert_close(in_place.cumsum_(dim).cpu(), exact.to(dtype))
    # Every other element of a line, and lines that lie elsewhere in the result.
    apart = x.repeat_interleave(2, dim).to(device)
    apart = apart[(slice(None),) * dim + (slice(None, None, 2),)]
    torch.testing.assert_close(apart.cumsum(dim).cpu(), exact.to(dtype))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_integers_of_one_width_summed_in_another(dtype):
    torch.manual_seed(0)
    for shape in ((3, 5), (5, 64), (6, 1003), (1, 70001), (70001,)):
        x = torch.rand(shape) > .5 if dtype == torch.bool else torch.randint(-300, 300, shape).to(dtype)
        own = x.to(device)
        for wanted in (None, torch.int32, torch.int16):
            assert torch.equal(torch.cumsum(own, -1, dtype=wanted).cpu(), torch.cumsum(x, -1, dtype=wanted))
            assert torch.equal(torch.cumsum(own, 0, dtype=wanted).cpu(), torch.cumsum(x, 0, dtype=wanted))
        assert torch.equal(torch.cumsum(own[..., 1:], -1).cpu(), torch.cumsum(x[..., 1:], -1))
        assert torch.equal(torch.cumsum(own[..., ::2], -1).cpu(), torch.cumsum(x[..., ::2], -1))
        if dtype != torch.bool:
            assert torch.equal(torch.cumprod(own % 3, -1).cpu(), torch.cumprod(x % 3, -1))


@pytest.mark.parametrize("dtype", FLOATS[:3] + [torch.bool, torch.uint8, torch.int64, torch.complex64])
@pytest.mark.parametrize("share", (0.0, 0.03, 0.6, 1.0))
def test_nonzero(dtype, share):
    for shape in ((), (1,), (7, 33), (3, 5, 7, 11), (40, 1100), (70001,)):
        x = (torch.rand(shape) < share).to(dtype)
        compare(torch.nonzero, x)
        compare(lambda x: torch.masked_select(x, x != 0), x)
        compare(lambda x: torch.nonzero(x.flatten()[1:]), x)
