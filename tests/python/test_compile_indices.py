"""torch.compile on the device: reads and writes through indices, index expressions that become values, and divisions of
indices that may be negative."""
import pytest
import torch
import torch.nn.functional as F
from torch._inductor import config

from compiled import check, device

randn = torch.randn


def test_indices():
    x = randn(50, 20, requires_grad=True)
    rows, columns = torch.randint(-50, 50, (13,)), torch.randint(-20, 20, (13,))
    check(lambda x, i, j: (x[i] * 2, x[:, j] + 1, x[i, j], x[i][:, 3]), x, rows, columns)
    check(lambda x, i: x.gather(1, i) + 1, x, torch.randint(0, 20, (50, 5)))
    check(lambda x, i: x.index_select(0, i) * 2, x, torch.randint(0, 50, (9,)))
    check(lambda x, i: F.embedding(i, x) * 2, x, torch.randint(0, 50, (13, 4)))
    check(lambda x, m: x.masked_fill(m, 3.0) + 1, x, torch.rand(50, 20) > 0.5)
    check(lambda x, i: torch.take(x, i) * 2, x, torch.randint(0, 1000, (30,)))


def test_as_many_positions_as_are_asked_for():
    mask = torch.rand(6, 5) > 0.5
    for size in (0, 4, 30, 40):
        check(lambda m: torch.nonzero_static(m, size=size), mask)
        check(lambda m: torch.nonzero_static(m, size=size, fill_value=7) * 2, mask)
    check(lambda x: torch.combinations(x, 2), randn(5))
    check(lambda x: torch.combinations(x, 3, with_replacement=True) + 1, randn(4))


def test_writes_through_indices():
    x, i, v = randn(40, 20), torch.randint(0, 40, (30,)), randn(30, 20)
    unique = torch.randperm(40)[:30]
    check(lambda x, i, v: x.index_put((i,), v) * 2, x, unique, v)
    check(lambda x, i, v: x.index_put((i,), v, accumulate=True) * 2, x, i, v)
    check(lambda x, i, v: (x.index_add(0, i, v), x.index_copy(0, i[:1], v[:1])), x, i, v)
    check(lambda x, i, v: x.scatter(1, i, v) + 1, x, torch.arange(20).repeat(40, 1)[:, :7], randn(40, 7))
    repeated = torch.randint(0, 20, (40, 30))
    check(lambda x, i, v: x.scatter_add(1, i, v) * 2, x, repeated, randn(40, 30))
    for reduce in ("sum", "prod", "amax", "amin", "mean"):
        check(lambda x, i, v: x.scatter_reduce(1, i, v, reduce, include_self=False), x, repeated, randn(40, 30))


@pytest.mark.parametrize("dynamic", (False, True))
def test_what_is_written_may_be_its_own_source(dynamic):
    def writes(x):
        y = x * 2   # computed in the graph, so that PyTorch writes into it in place
        backwards = torch.arange(y.shape[0] - 1, -1, -1, device=y.device)
        return y.index_copy(0, backwards, y)

    def sums(x):
        y = x * 2
        return y.index_add(0, torch.arange(y.shape[0], device=y.device) // 2, y)

    def sums_of_a_part(x):
        y = x * 2
        return y.index_put((torch.arange(y.shape[0] - 1, device=y.device),), y[1:], accumulate=True)

    def places(x):
        y = torch.arange(x.shape[0], device=x.device).flip(0) + 0 * x.to(torch.int64)
        return y.index_put((y,), y * 10)

    for function in (writes, sums, sums_of_a_part):
        check(function, randn(300, 70), dynamic=dynamic)
    check(places, randn(300), dynamic=dynamic)


def test_sums_through_indices_have_the_same_bits_every_run():
    x, i, v = randn(10, device=device), torch.randint(0, 10, (5000,), device=device), randn(5000, device=device)
    add = torch.compile(lambda x, i, v: x.index_put((i,), v, accumulate=True))
    first = add(x, i, v)
    assert all(torch.equal(first, add(x, i, v)) for _ in range(5))


@pytest.mark.parametrize("function", [
    lambda x, i: x[i] * 2, lambda x, i: x.gather(0, i) + 1, lambda x, i: F.embedding(i, x[:, None]).sum(),
    lambda x, i: torch.zeros_like(x).index_put((i,), x[:2]), lambda x, i: x.index_select(0, i).cos().sum()],
    ids=["index", "gather", "embedding", "index_put", "reduced"])
def test_indices_out_of_range_are_reported(function):
    compiled = torch.compile(function)
    x = randn(10, device=device)
    good = compiled(x, torch.tensor([3, 9], device=device)).cpu()
    torch.testing.assert_close(good, function(x.cpu(), torch.tensor([3, 9])))
    compiled(x, torch.tensor([3, 12], device=device))
    with pytest.raises(IndexError, match="index 12 is out of bounds for dimension with size 10"):
        torch.ocl.synchronize()


def test_a_bad_index_writes_nothing():
    def put(x, i):
        x[i] = 1.0

    x = torch.zeros(10, device=device)
    torch.compile(put)(x, torch.tensor([4, 10], device=device))
    with pytest.raises(IndexError):
        torch.ocl.synchronize()
    assert x.tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0, 0]


def large_values(x):
    i = torch.arange(x.shape[0], device=x.device)
    return (i * 100003 // 7, i * 100003 % 7 + x, (i * -100003 - 3) // 7, (i * 100003 - 5) % 1000, i * i // 3,
            i * i * 100)


@pytest.mark.parametrize("dynamic", (False, True))
def test_values_beyond_32_bits(dynamic):
    check(large_values, torch.zeros(100000, dtype=torch.int64), dynamic=dynamic)


@pytest.mark.parametrize("dynamic", (False, True))
def test_divisions_of_negative_indices(dynamic):
    def shifted(x):
        i = torch.arange(x.shape[0], device=x.device) - 7
        return (x[(i // 3) % x.shape[0]], x[(i % 5)], i // 4, i % 4, i // -3, i % -3)

    check(shifted, torch.randn(37), dynamic=dynamic)


@pytest.mark.parametrize("where", ("cpu", "ocl"))
def test_quotients_of_lengths_without_bounds(where):
    """As tensors, on the device and on the CPU."""
    def parts(x):
        rows, columns = (torch.tensor(n, device=where) for n in x.shape)
        return torch.div(rows, columns, rounding_mode="trunc"), torch.div(-rows, columns, rounding_mode="floor"), x + 1

    torch._dynamo.reset()
    with config.patch(force_disable_caches=True):
        compiled = torch.compile(parts, dynamic=True, fullgraph=True)
        for shape in ((40, 7), (41, 5)):
            whole, below, _ = compiled(torch.zeros(shape, device=device))
            assert whole.device.type == where
            assert (whole.item(), below.item()) == (shape[0] // shape[1], -shape[0] // shape[1])


@pytest.mark.parametrize("dtype", (torch.bool, torch.int32, torch.float32))
def test_what_was_scattered_is_masked_afterwards(dtype):
    """Inductor for the CPU (2.14) scatters after the mask."""
    def masked(r):
        r[r > 0] = 0
        return r

    x, places = torch.tensor([1, 0, 1, 1, 0]).to(dtype), torch.tensor([1, 2, 1, 4, 1])
    check(lambda x, i: masked(x.scatter(0, i, 1)), x, places)
    check(lambda x, i: masked(x.scatter(0, i, torch.ones_like(x))), x, places[:4].unique())
    check(lambda x, i: masked(x.index_put((i,), torch.ones_like(x[0]))), x, places)
    check(lambda x, i: masked(masked(x.index_put((i,), torch.ones_like(x[0]))).scatter(0, i, 1)), x, places)
    check(lambda x, i: masked(x.scatter(0, i, 1)).scatter(0, i[:2], 1), x, places)
