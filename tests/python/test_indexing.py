"""Indexing operators against PyTorch on the CPU."""
import pytest
import torch
from torch.testing import assert_close

from comparison import compare, device

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8,
          torch.uint8,
          torch.bool, torch.complex64]
NUMBERS = [torch.float32, torch.float64, torch.int64, torch.int32, torch.int8]


def make(*shape, dtype=torch.float32):
    return (torch.randn(shape) * 10).to(dtype)


def ids(high, *shape, negative=True, dtype=torch.int64):
    return torch.randint(-high if negative else 0, high, shape).to(dtype)


# ---- gather, index_select, take ----

@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_index_select(dtype, dim):
    x = make(5, 6, 7, dtype=dtype)
    compare(lambda x, i: x.index_select(dim, i), x, ids(5, 9, negative=False))
    compare(lambda x, i: x.index_select(dim, i), x, ids(5, 3, negative=False, dtype=torch.int32))
    compare(lambda x, i: x[1:, ::2, 1:].transpose(0, 2).index_select(dim, i), x, ids(3, 4, negative=False))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_gather(dtype, dim):
    compare(lambda x, i: x.gather(dim, i), make(5, 6, 7, dtype=dtype), ids(5, 4, 3, 2, negative=False))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.uint8, torch.complex128])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 8, 11, 16, 31, 33, 64, 65, 130, 300])
@pytest.mark.parametrize("layout", ["dense", "transposed", "strided"])
def test_rows_of_any_width(layout, width, dtype):
    x = make(37, width, dtype=dtype)
    if layout == "transposed":
        x = x.t().contiguous().t()
    if layout == "strided":
        x = torch.cat([x, x], 1)[:, ::2]
    order = torch.stack([torch.randperm(width) for _ in range(37)])
    compare(lambda x, i: x.index_select(0, i), x, ids(37, 70, negative=False))
    compare(lambda x, i: x[i], x, ids(37, 70))
    compare(lambda x, i: x[:, i], x, ids(width, 9))
    compare(lambda x, i: x.gather(1, i), x, ids(width, 37, width, negative=False))
    compare(lambda x, i: x.gather(1, i), x, ids(width, 30, 1, negative=False).expand(30, 5))
    compare(lambda x, i: x.gather(0, i), x, ids(37, width, 50, negative=False).t())
    compare(lambda x, i: x.scatter(1, i, x), x, order)
    compare(lambda x, i: x.index_copy(0, i, x), x, torch.randperm(37))
    compare(lambda x: x.flip(0), x)
    compare(lambda x: x.flip(0, 1), x)


def test_zero_dimensional_and_empty():
    compare(lambda x, i: x.gather(0, i), make(), torch.tensor(0))
    compare(lambda x, i: x.gather(0, i), make(), torch.tensor([0]))
    compare(lambda x, i: x.index_select(0, i), make(), torch.tensor([0]))
    compare(lambda x, i: x.index_select(0, i), make(3, 4), torch.empty(0, dtype=torch.int64))
    compare(lambda x, i: x.index_select(1, i), make(0, 4), torch.tensor([1, 2]))
    compare(lambda x, i: x[i], make(3, 4), torch.empty(0, dtype=torch.int64))
    compare(lambda x, i: x.scatter(0, i, 5.0), make(), torch.tensor(0))


def test_take_and_put():
    x = make(5, 6)
    compare(lambda x, i: x.take(i), x, ids(30, 4, 3))
    compare(lambda x, i: x.t().take(i), x, ids(30, 4, 3))
    compare(lambda x, i, s: x.put_(i, s), x, torch.tensor([[3, -1], [0, 7]]), make(2, 2))
    compare(lambda x, i, s: x.put_(i, s, accumulate=True), x, ids(30, 8, 9), make(8, 9))
    compare(lambda x, i, s: x.t().put_(i, s, accumulate=True), x, ids(30, 8, 9), make(8, 9))


def test_embedding_and_its_gradient():
    for options in ({}, {"padding_idx": 2}, {"scale_grad_by_freq": True},
                    {"padding_idx": -1, "scale_grad_by_freq": True}):
        weight, index, upstream = make(10, 33), ids(10, 4, 7, negative=False), make(4, 7, 33)
        grads = []
        for place in ("cpu", device):
            w = weight.clone().to(place).requires_grad_()
            y = torch.nn.functional.embedding(index.to(place), w, **options)
            torch.testing.assert_close(y.cpu(), torch.nn.functional.embedding(index, weight, **options))
            y.backward(upstream.to(place))
            grads.append(w.grad.cpu())
        torch.testing.assert_close(*grads)


def test_embedding_renorm():
    weight = make(10, 8)
    compare(lambda w, i: torch.nn.functional.embedding(i, w, max_norm=2.0), weight, torch.tensor([1, 3, 3, 9]))
    compare(lambda w, i: torch.embedding_renorm_(w, i, 1.5, 1.0), weight, torch.tensor([[1, 3], [3, 9]]))
    for index in (torch.tensor([1, 3, 3], dtype=torch.int32), torch.tensor([[9]], dtype=torch.int32)):
        compare(lambda w, i: torch.nn.functional.embedding(i, w, max_norm=2.0), weight, index)
        compare(lambda w, i: torch.embedding_renorm_(w.t().contiguous().t(), i, 1.5, 2.0), weight, index)


# ---- advanced indexing ----

READS = [
    lambda x, i, j, m: x[i],
    lambda x, i, j, m: x[:, i],
    lambda x, i, j, m: x[i, j],
    lambda x, i, j, m: x[i, :, j],
    lambda x, i, j, m: x[i[:, None], j[None, :]],
    lambda x, i, j, m: x[:, i[:, None], j],
    lambda x, i, j, m: x[i, j, i],
    lambda x, i, j, m: x[..., i],
    lambda x, i, j, m: x[m],
    lambda x, i, j, m: x[m[:, :, 0]],
    lambda x, i, j, m: x[m[:, 0, 0], 1:, 2],
    lambda x, i, j, m: x[i, m[0, :, 0].nonzero()[:1, 0]],
    lambda x, i, j, m: x.transpose(0, 2)[i, 1:],
    lambda x, i, j, m: x[1:, ::2][i[:2] % 4],
    lambda x, i, j, m: x[None, i],
    lambda x, i, j, m: x[i.int(), j.int()],
]


@pytest.mark.parametrize("read", READS, ids=range(len(READS)))
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.complex64])
def test_advanced_reads(read, dtype):
    torch.manual_seed(0)
    compare(read, make(5, 6, 7, dtype=dtype), ids(5, 4), ids(5, 4), torch.rand(5, 6, 7) > 0.6)


WRITES = [
    lambda x, i, j, m, v: x.__setitem__(i, 2.0),
    lambda x, i, j, m, v: x.__setitem__(i, v[:6, None].expand(6, 7)),
    lambda x, i, j, m, v: x.__setitem__((i, j), v[:7]),
    lambda x, i, j, m, v: x.__setitem__((slice(None), i), 3.0),
    lambda x, i, j, m, v: x.__setitem__((i, slice(None), j), v[:6]),
    lambda x, i, j, m, v: x.__setitem__((i[:, None], j[None, :]), v[:7]),
    lambda x, i, j, m, v: x.__setitem__(m, -1.0),
    lambda x, i, j, m, v: x.__setitem__(m[:, :, 0], v[:7]),
    lambda x, i, j, m, v: x.__setitem__(m, v[: int(m.sum())]),
    lambda x, i, j, m, v: x.transpose(0, 2).__setitem__((slice(None), i), v[:5]),
]


@pytest.mark.parametrize("write", WRITES, ids=range(len(WRITES)))
def test_advanced_writes(write):
    torch.manual_seed(1)
    def run(x, i, j, m, v):
        write(x, i, j, m, v)
        return x
    compare(run, make(5, 6, 7), torch.tensor([4, -4, 0]), torch.tensor([1, 2, -2]), torch.rand(5, 6, 7) > 0.6,
            make(300))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_index_put_accumulate(dtype):
    x, i, j = make(5, 6, 7, dtype=dtype), ids(5, 40), ids(5, 40)
    compare(lambda x, i, v: x.index_put((i,), v, accumulate=True), x, i, make(40, 6, 7, dtype=dtype))
    compare(lambda x, i, j, v: x.index_put((i, j), v, accumulate=True), x, i, j, make(40, 7, dtype=dtype))
    compare(lambda x, i, j, v: x.index_put((i, torch.tensor(2, device=x.device), j), v, accumulate=True), x, i, j,
          make(40, dtype=dtype))


def test_gradient_of_indexing_is_deterministic():
    x, index = make(50).to(device).requires_grad_(), ids(50, 5000).to(device)
    upstream = make(5000).to(device)
    grads = [torch.autograd.grad(x[index], x, upstream)[0].cpu() for _ in range(3)]
    assert torch.equal(grads[0], grads[1]) and torch.equal(grads[0], grads[2])


# ---- errors ----

@pytest.mark.parametrize("name, use", [
    ("index_select", lambda x, i: x.index_select(0, i)),
    ("gather", lambda x, i: x.gather(0, i[:, None].expand(-1, 4))),
    ("scatter", lambda x, i: x.scatter(0, i[:, None].expand(-1, 4), 1.0)),
    ("index", lambda x, i: x[i]),
    ("index", lambda x, i: x[i, i]),
    ("index_put_", lambda x, i: x.index_put_((i,), torch.ones(1, device=device))),
    ("index_put_", lambda x, i: x.index_put_((i, i), torch.ones(1, device=device), accumulate=True)),
    ("index", lambda x, i: torch.nn.functional.embedding(i, x)),
])
def test_index_out_of_range_is_an_index_error(name, use):
    x = torch.zeros(4, 4, device=device)
    with pytest.raises((IndexError, RuntimeError), match=name):
        use(x, torch.tensor([0, 4_000_000_000], device=device))
        torch.ocl.synchronize()
    torch.ocl.synchronize()   # reported once


@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex128, torch.int16], ids=str)
@pytest.mark.parametrize("turn", [lambda x: x, lambda x: x.transpose(0, 2), lambda x: x[:, ::2, 1:]],
                         ids=["dense", "turned", "with gaps"])
def test_masked_fill(dtype, turn):
    x, mask = make(40, 9, 50, dtype=dtype), torch.rand(40, 9, 50) > 0.5
    if dtype.is_floating_point:
        x[3] = torch.nan
    compare(lambda x, m: turn(x).masked_fill(turn(m), 1), x, mask, strides=True)
    compare(lambda x, m: turn(x).masked_fill(turn(m)[:1], 3), x, mask, strides=True)

    def fill_(x, m):
        whole = x.clone()
        turn(whole).masked_fill_(turn(m), torch.ones((), dtype=dtype, device=x.device))
        return whole
    compare(fill_, x, mask)


def test_argument_errors():
    x, i = make(3, 4).to(device), torch.tensor([0, 1], device=device)
    with pytest.raises(IndexError, match="too many indices"):
        x[i, i, i]
    with pytest.raises(IndexError, match="shape mismatch"):
        x[i, torch.tensor([0, 1, 2], device=device)]
    with pytest.raises(RuntimeError, match="shape mismatch: value tensor"):
        x[i] = torch.ones(3, 4, device=device)
    with pytest.raises(RuntimeError, match="shape mismatch: value tensor"):    # before the dtypes
        x[x > -100] = torch.ones(0, device=device).long()
    with pytest.raises(RuntimeError, match="same number of dimensions"):
        x.gather(0, i)
    with pytest.raises(RuntimeError, match="only supports boolean masks"):
        x.masked_fill_(x, 1)
    with pytest.raises(IndexError):
        x.index_select(2, i)


def test_results_do_not_overlap_themselves(device):
    x = torch.ones(1, 3, device=device).expand(4, 3)
    for write in (lambda: x.cumsum_(0), lambda: torch.mm(torch.ones(4, 2, device=device),
                                                         torch.ones(2, 3, device=device), out=x)):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            write()


def test_two_indices_of_several_shapes(device):
    x = torch.arange(4 * 5 * 6).view(4, 5, 6)
    first, second = torch.tensor([3, -4, 0]), torch.tensor([[4], [-5]])
    for i, j in ((first, second), (first.int(), second.int()), (first, second.int())):
        a, b = i.to(device), j.to(device)
        y = x.to(device)
        assert torch.equal(y[a, b].cpu(), x[i.long(), j.long()])
        assert torch.equal(y[a, :, b].cpu(), x[i.long(), :, j.long()])
        assert torch.equal(y.permute(2, 1, 0)[:, b, a].cpu(), x.permute(2, 1, 0)[:, j.long(), i.long()])
