"""Writes and sums through indices (scatter, index_add, index_reduce and their kin) against PyTorch on the CPU."""
import pytest
import torch
from torch.testing import assert_close

from comparison import compare, device
from test_indexing import DTYPES, ids, make, NUMBERS


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1])
def test_scatter(dtype, dim):
    x, source = make(6, 7, dtype=dtype), make(8, 9, dtype=dtype)
    index = torch.stack([torch.randperm(6)[:5] for _ in range(6)], dim=1 - dim)
    compare(lambda x, i, s: x.scatter(dim, i, s), x, index, source)
    compare(lambda x, i: x.scatter(dim, i, 1), x, index)
    compare(lambda x, i, s: x.t().scatter(dim, i, s), x, index[:5, :5], source)


@pytest.mark.parametrize("dtype", NUMBERS + [torch.float16, torch.bfloat16])
def test_scatter_add(dtype):
    x, source, index = make(6, 7, dtype=dtype), make(20, 7, dtype=dtype), ids(6, 20, 7, negative=False)
    compare(lambda x, i, s: x.scatter_add(0, i, s), x, index, source)
    compare(lambda x, i, s: x.scatter_add(0, i, s), x[:, 0], index[:, 0], source[:, 0])


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(dtype, reduce, include_self):
    x = torch.randint(1, 4, (6, 7)).to(dtype)
    source, index = torch.randint(1, 4, (9, 7)).to(dtype), ids(6, 9, 7, negative=False)
    compare(lambda x, i, s: x.scatter_reduce(0, i, s, reduce, include_self=include_self), x, index, source)
    compare(lambda x, i, s: x.index_reduce(0, i, s, reduce, include_self=include_self) if reduce != "sum"
          else x.index_add(0, i, s), x, index[:, 0], source)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float16, torch.complex64])
@pytest.mark.parametrize("reduce", ["sum", "prod", "amax"])
def test_scatter_of_many(dtype, reduce):
    """Lines with an index each: along rows and columns, into few elements and many, through views; alike every run."""
    if dtype.is_complex and reduce == "amax":
        return
    for rows, columns, reached, dim in ((300, 70, 40, 0), (70, 300, 500, 1), (40, 128, 6, 1), (2, 9000, 1100, 1)):
        index = torch.randint(0, reached, (rows, columns))
        index[0, :] = torch.randint(0, 2, (columns,))
        shape = (reached, columns + 3) if dim == 0 else (rows + 2, reached)
        x = torch.randint(1, 4, shape).to(dtype)
        source = torch.randint(1, 3, (rows, columns)).to(dtype)
        if reduce == "prod":   # few others than 1, so that products stay exact
            source = torch.where(torch.rand(rows, columns) < 0.01, 2, 1).to(dtype)
        call = (lambda x, i, s: x.scatter_add(dim, i, s)) if reduce == "sum" else (
            lambda x, i, s: x.scatter_reduce(dim, i, s, reduce)) if not dtype.is_complex else (
            lambda x, i, s: x.scatter(dim, i, s, reduce="multiply"))
        compare(call, x, index, source)
        compare(lambda x, i, s: call(x.t().contiguous().t(), i, s.t().contiguous().t()), x, index, source)
    # So many that they are sorted by digits, most of a line's into one element.
    index = torch.randint(0, 700, (8, 9000))
    index[torch.rand(8, 9000) < 0.8] = 699
    x, source = torch.ones(8, 700).to(dtype), torch.where(torch.rand(8, 9000) < 0.999, 1, 2).to(dtype)
    if dtype != torch.float16:   # whose CPU rounds after every update
        compare(lambda x, i, s: x.scatter_add(1, i, s), x, index, source)
        compare(lambda x, i, s: x.t().scatter_add(0, i.t(), s.t()), x, index, source)
    x, index, source = torch.zeros(50, 90), torch.randint(0, 50, (600, 90)), torch.randn(600, 90)
    own = [t.to(device) for t in (x, index, source)]
    first = own[0].scatter_add(0, own[1], own[2])
    assert all(torch.equal(own[0].scatter_add(0, own[1], own[2]), first) for _ in range(3))
    assert_close(first.cpu(), x.double().scatter_add(0, index, source.double()).float(), rtol=1e-4, atol=1e-4)


def test_scatter_reduce_keeps_nan():
    x, source = torch.tensor([1.0, float("nan"), 3.0]), torch.tensor([float("nan"), 5.0, 7.0])
    for reduce in ("amax", "amin"):
        compare(lambda x, i, s: x.scatter_reduce(0, i, s, reduce), x, torch.arange(3), source)


def test_scatter_with_reduce_argument():
    x, index = make(6, 7), ids(6, 9, 7, negative=False)
    compare(lambda x, i, s: x.scatter(0, i, s, reduce="add"), x, index, make(9, 7))
    compare(lambda x, i: x.scatter(0, i, 1.5, reduce="multiply"), x, index)


# ---- index_* ----

@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_index_copy_and_fill(dtype, dim):
    x, index = make(5, 6, 7, dtype=dtype), torch.randperm(5)[:3]
    source = x.index_select(dim, torch.tensor([1, 2, 0]))
    compare(lambda x, i, s: x.index_copy(dim, i, s), x, index, source)
    compare(lambda x, i: x.index_fill(dim, i, 1), x, index)
    compare(lambda x, i, v: x.index_fill(dim, i, v), x, index, torch.tensor(1).to(dtype))


@pytest.mark.parametrize("dtype", NUMBERS + [torch.bool])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_index_add(dtype, dim):
    x, index = make(5, 6, 7, dtype=dtype), ids(5, 30, negative=False)
    shape = list(x.shape)
    shape[dim] = 30
    source = make(*shape, dtype=dtype)
    compare(lambda x, i, s: x.index_add(dim, i, s), x, index, source)
    if dtype.is_floating_point:
        compare(lambda x, i, s: x.index_add(dim, i, s, alpha=-2.5), x, index, source)
        compare(lambda x, i, s: x.transpose(0, 2).index_add(2 - dim, i, s.transpose(0, 2)), x, index, source)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("share", [0, 0.7, 1])   # of the entries that meet in one element
def test_many_entries(dtype, share):
    entries, rows, columns = 9001, 300, 5
    index = ids(rows, entries, negative=False)
    index[torch.rand(entries) < share] = 255
    x, source = make(rows, columns, dtype=dtype), make(entries, columns, dtype=dtype)
    exact = dtype in (torch.float64, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool)
    wide = dtype if exact else torch.complex128 if dtype.is_complex else torch.float64
    for add in (lambda x, i, s: x.index_add(0, i, s), lambda x, i, s: x.t().index_add(1, i, s.t()),
                lambda x, i, s: x.index_put((i - rows,), s, accumulate=True),
                lambda x, i, s: x[:, 0].scatter_add(0, i, s[:, 0])):
        expected = add(x.to(wide), index, source.to(wide))
        actual = [add(x.to(device), index.to(device), source.to(device)).cpu() for _ in range(2)]
        assert torch.equal(*actual)   # the same bits every run
        relative = {torch.float16: 1e-3, torch.bfloat16: 8e-3}.get(dtype, 1e-5)
        assert_close(actual[0], expected.to(dtype), **({} if exact else {"rtol": relative, "atol": 1e-2}))


# Sums of whole numbers that float32 holds exactly: rounded once, whatever the rows' width and how many meet in one.
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("width", [1, 7, 64, 65, 300])
def test_halves_are_rounded_once(dtype, width):
    index, source = ids(40, 700, negative=False), torch.randint(-99, 100, (700, width)).to(dtype)
    index[::5] = 7
    source[3, 0] = float("nan")
    x, stacked = torch.randint(-9, 10, (2000, width)).to(dtype), torch.randint(-9, 10, (3, 2000, width)).to(dtype)
    for add in (lambda x, i, s: x.index_add(0, i, s), lambda x, i, s: x.t().contiguous().index_add(1, i, s.t())):
        expected = add(x.double(), index, source.double()).to(dtype)
        assert_close(add(x.to(device), index.to(device), source.to(device)).cpu(), expected, rtol=0, atol=0,
                     equal_nan=True)
    rows = source.expand(3, 700, width)
    assert_close(stacked.to(device).index_add(1, index.to(device), rows.to(device)).cpu(),
                 stacked.double().index_add(1, index, rows.double()).to(dtype), rtol=0, atol=0, equal_nan=True)
    for padding in (-1, 7):
        options = (2000, padding, False)
        expected = torch.ops.aten.embedding_dense_backward(source.double(), index, *options).to(dtype)
        actual = torch.ops.aten.embedding_dense_backward(source.to(device), index.to(device), *options)
        assert_close(actual.cpu(), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("how", ["prod", "amax", "amin", "mean"])
def test_many_entries_reduced(how):
    index = ids(300, 9001, negative=False)
    index[::2] = 7
    x, source = make(300, 3), torch.where(torch.rand(9001, 3) < 0.5, -1.0, 1.0) * (1 + 1e-4 * torch.rand(9001, 3))
    compare(lambda x, i, s: x.index_reduce(0, i, s, how), x, index, source, rtol=1e-4, atol=1e-4)


def test_a_bad_index_among_many_entries():
    index = ids(300, 9001, negative=False).to(device)
    index[17] = 300
    x = torch.zeros(300, 4, device=device)
    x.index_add_(0, index, torch.ones(9001, 4, device=device))
    with pytest.raises((IndexError, RuntimeError), match="index 300"):
        torch.ocl.synchronize()
    assert x.sum().item() == 9000 * 4


UPDATES = {
    "index_add": lambda x, i, v: x.index_add(0, i, v),
    "index_put": lambda x, i, v: x.index_put((i,), v, accumulate=True),
    "put_": lambda x, i, v: x.clone().put_(i.unsqueeze(1) * x[0].numel(), v.reshape(len(v), -1)[:, :1],
                                        accumulate=True),
    "scatter_add": lambda x, i, v: x.scatter_add(0, i.view(-1, *[1] * (v.dim() - 1)).expand_as(v), v),
    "index_reduce mean": lambda x, i, v: x.index_reduce(0, i, v, "mean"),
    "index_reduce prod": lambda x, i, v: x.index_reduce(0, i, v, "prod"),
    "gradient of reading": lambda x, i, v: torch.func.vjp(lambda y: y[i], x)[1](v)[0],
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("entries", [10, 300, 4000])
@pytest.mark.parametrize("width", [(), (3,), (5, 20)])
@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES.keys())
def test_sums_of_halves_are_rounded_once(update, width, entries, dtype):
    eps = torch.finfo(dtype).eps
    x, v = torch.rand(4, *width).to(dtype), (1 + eps * torch.randint(-1, 2, (entries, *width))).to(dtype)
    index = ids(4, entries, negative=False)
    expected = update(x.double(), index, v.double())
    actual = update(x.to(device), index.to(device), v.to(device))
    # `mean` rounds a sum and a quotient.
    torch.testing.assert_close(actual.cpu().double(), expected, rtol=2 * eps, atol=0)


# Where updates go and how they lie: self's shape, dimension, entries, and which of self and the source are transposed.
LAYOUTS = [((300, 64), 0, 2000, ""), ((300, 70), 0, 2000, "source"), ((300, 33), 0, 1500, "self"),
           ((64, 300), 1, 2000, ""), ((5, 40, 3), 1, 90, ""), ((600, 10, 3), 1, 2, ""), ((700,), 0, 3000, ""),
           ((40, 2, 50), 0, 33, "self source"), ((3, 5000), 1, 700, "source"), ((1, 9), 0, 2000, "")]
REDUCTIONS = {
    "index_add": lambda x, dim, rows, places, v: x.index_add(dim, rows, v),
    "scatter_add": lambda x, dim, rows, places, v: x.scatter_add(dim, places, v),
    "scatter_add of rows": lambda x, dim, rows, places, v: x.scatter_add(dim, along(rows, dim, v), v),
    "scatter of one value": lambda x, dim, rows, places, v: x.scatter(dim, along(rows, dim, v), 2, reduce="add"),
    "scatter_reduce": lambda x, dim, rows, places, v: x.scatter_reduce(dim, places, v, "amax"),
}


def along(rows, dim, like):
    return rows.view([-1 if d == dim else 1 for d in range(like.dim())]).expand_as(like)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.int16, torch.bfloat16,
                                   torch.complex64])
@pytest.mark.parametrize("shape, dim, entries, transposed", LAYOUTS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_updates_however_they_lie(name, shape, dim, entries, transposed, dtype):
    source_shape = [entries if d == dim else n for d, n in enumerate(shape)]
    x, v = torch.randint(-9, 9, shape).to(dtype), torch.randint(-3, 3, source_shape).to(dtype)
    x = x.mT.contiguous().mT if "self" in transposed else x
    v = v.mT.contiguous().mT if "source" in transposed else v
    rows, places = torch.randint(0, shape[dim], (entries,)), torch.randint(0, shape[dim], source_shape)
    there = x.to(device), dim, rows.to(device), places.to(device), v.to(device)
    if dtype.is_complex and name == "scatter_reduce":   # complex numbers have no largest one
        with pytest.raises(NotImplementedError, match="not implemented for"):
            REDUCTIONS[name](*there)
        return
    exact = torch.float64 if dtype == torch.bfloat16 else dtype   # sums of halves are rounded once
    expected = REDUCTIONS[name](x.to(exact), dim, rows, places, v.to(exact)).to(dtype)
    assert torch.equal(REDUCTIONS[name](*there).cpu(), expected)


def test_reductions_of_booleans_that_leave_self_out_are_refused():
    x, index = torch.zeros(3, dtype=torch.bool, device=device), torch.tensor([0, 1], device=device)
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        x.index_reduce(0, index, torch.ones(2, dtype=torch.bool, device=device), "prod", include_self=False)


@pytest.mark.parametrize("include_self", (True, False))
@pytest.mark.parametrize("dtype", (torch.float32, torch.int64), ids=str)
def test_means_through_an_index_that_repeats(include_self, dtype, device):
    """An index that is the same along a dimension counts once for it, if it covers all of that."""
    torch.manual_seed(1)
    for shape, dim, index_shape, covered in (((5, 7), 0, (9, 1), 7), ((5, 7), 0, (9, 1), 4), ((7, 5), 1, (1, 9), 7)):
        x = (torch.randn(shape) * 9).to(dtype)
        index = torch.randint(0, shape[dim], index_shape)
        sizes = [9, covered] if dim == 0 else [covered, 9]
        source = (torch.randn(sizes) * 9).to(dtype)
        want = x.scatter_reduce(dim, index.expand(sizes), source, "mean", include_self=include_self)
        got = x.to(device).scatter_reduce(dim, index.to(device).expand(sizes), source.to(device), "mean",
                                          include_self=include_self)
        torch.testing.assert_close(got.cpu(), want)


@pytest.mark.parametrize("dtype", (torch.int8, torch.uint8), ids=str)
@pytest.mark.parametrize("count", (128, 130, 256, 300))
def test_means_of_more_numbers_than_bytes_count(count, dtype, device):
    """The count wraps around as PyTorch's does."""
    x, source = torch.ones(2, dtype=dtype), torch.arange(count).to(dtype)
    index = torch.zeros(count, dtype=torch.int64)
    for means in (lambda x, i, s: x.scatter_reduce(0, i, s, "mean"), lambda x, i, s: x.index_reduce(0, i, s, "mean")):
        assert torch.equal(means(x.to(device), index.to(device), source.to(device)).cpu(), means(x, index, source))
