"""Sorting and what is made of it, against PyTorch on the CPU."""
import pytest
import torch

from comparison import FLOATS, INTEGERS, compare, device


def compare_exactly(function, *tensors):
    compare(function, *tensors, rtol=0, atol=0)


def make(shape, dtype=torch.float32):
    x = torch.randn(shape) * 20
    return x > 0 if dtype == torch.bool else x.to(dtype)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + [torch.bool])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape, dim", [((7, 33), 1), ((33, 7), 0), ((3, 1500), -1), ((2500,), 0), ((2, 3, 5), 1)])
def test_sort_is_stable(dtype, descending, shape, dim):
    compare_exactly(lambda x: torch.sort(x, dim=dim, descending=descending, stable=True), make(shape, dtype))


@pytest.mark.parametrize("n", [1, 2, 1023, 1024, 1025, 2048, 5000, 70000])
def test_sort_of_every_length(n):
    compare_exactly(lambda x: torch.sort(x, stable=True), make(n, torch.int32))
    compare_exactly(lambda x: torch.sort(x, stable=True), make(n, torch.float64))


@pytest.mark.parametrize("dtype", FLOATS)
def test_sort_of_special_values(dtype):
    x = torch.tensor([float("nan"), 0.0, -0.0, float("inf"), -1.0, float("-inf"), float("nan"), 1.0, -0.0, 0.0],
                     dtype=dtype)
    for descending in (False, True):
        compare_exactly(lambda x: torch.sort(x, stable=True, descending=descending), x)
        # Long rows become elements again from keys, which do not tell -0 from 0.
        long = x.repeat(3000)
        compare_exactly(lambda x: torch.sort(x, stable=True, descending=descending), long)
        zeros = long[long == 0]
        assert torch.equal(zeros.to(device).sort(descending=descending, stable=True).values.cpu().signbit(),
                           zeros.signbit())
        compare_exactly(lambda x: torch.topk(x, 20000, largest=descending).values, long)
    compare_exactly(lambda x: torch.sort(x, stable=True), torch.tensor([2**62, -2**63, 2**63 - 1, 0, -1]))


def test_views_and_edges():
    compare_exactly(lambda x: torch.sort(x.t()[1:, ::2], dim=0, stable=True), make((40, 30)))
    compare_exactly(lambda x: torch.sort(x, stable=True), make(()))
    compare_exactly(lambda x: torch.sort(x, dim=0, stable=True), make((0, 4)))
    compare_exactly(lambda x: torch.sort(x, dim=1, stable=True), make((0, 4)))
    compare_exactly(lambda x: torch.argsort(x, stable=True), make((5, 60)))
    compare_exactly(torch.msort, make((50, 3)))
    values, indices = torch.empty(30, 4, device=device).t(), torch.empty(4, 30, dtype=torch.int64, device=device)
    x = make((4, 30))
    torch.sort(x.to(device), stable=True, dim=1, out=(values, indices))
    assert torch.equal(values.cpu(), x.sort(1).values)


def test_gradient_of_sort():
    x, weight = make((6, 50)), make((6, 50))
    grads = []
    for place in ("cpu", device):
        y = x.clone().to(place).requires_grad_()
        (y.sort(1).values * weight.to(place)).sum().backward()
        grads.append(y.grad.cpu())
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("shape, dim, k", [((5, 100), 1, 5), ((100, 5), 0, 100), ((3, 50000), 1, 10),
                                           ((3, 5000), 1, 700), ((4, 3000), 1, 256), ((9,), 0, 0), ((), 0, 1),
                                           ((4, 1025), 1, 1)])
@pytest.mark.parametrize("largest", [True, False])
def test_topk(shape, dim, k, largest):
    x = torch.randperm(max(torch.Size(shape).numel(), 1)).float().reshape(shape)   # no ties: indices are unique
    compare_exactly(lambda x: torch.topk(x, k, dim, largest), x)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_topk_of_every_dtype(dtype):
    for shape in ((6, 40), (2, 70000)):   # the latter in several parts
        compare_exactly(lambda x: torch.topk(x, 3).values, make(shape, dtype))
        compare_exactly(lambda x: torch.topk(x.t(), 3, 0, largest=False).values, make(shape, dtype))


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("count, k", [(3000, 7), (300000, 7), (300000, 1500), (20000, 3000)])
def test_topk_of_ties_nans_and_sorted_rows(count, k, largest):
    x = torch.randint(-3, 3, (2, count)).float()
    x[0, ::917] = torch.nan
    x[1, 5::131] = torch.inf
    for rows in (x, torch.arange(2. * count).view(2, -1), -torch.arange(2. * count).view(2, -1), torch.zeros(2, count)):
        compare_exactly(lambda x: torch.topk(x, k, 1, largest).values, rows)
    y = x.to(device)   # of equals the first, and each index once
    values, indices = torch.topk(y, k, 1, largest)
    assert torch.equal(indices.cpu(), y.cpu().sort(dim=1, descending=largest, stable=True).indices[:, :k])


@pytest.mark.parametrize("n", [64, 100, 129, 1000, 1024, 1025, 3000, 70000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_topk_of_few_takes_the_first_of_equals(n, dtype):
    x = make((5, n), dtype)
    x[1] = 3
    x[2, n // 2:] = -7
    if dtype.is_floating_point:
        x[3] = float("nan")
        x[4, ::3] = float("nan")
    for k in (1, 8, min(n // 8, 64)):
        for largest in (False, True):
            values, indices = x.to(device).topk(k, 1, largest=largest)
            order = x.sort(dim=1, descending=largest, stable=True)
            assert torch.equal(indices.cpu(), order.indices[:, :k])
            assert torch.equal(values.cpu().nan_to_num(1e9), order.values[:, :k].nan_to_num(1e9))


def test_kthvalue_and_median():
    x = torch.randperm(7 * 9 * 5).float().reshape(7, 9, 5)
    for dim in (0, 1, -1):
        for keepdim in (False, True):
            compare_exactly(lambda x: torch.kthvalue(x, 3, dim, keepdim), x)
            compare_exactly(lambda x: torch.median(x, dim, keepdim), x)
            compare_exactly(lambda x: torch.nanmedian(x, dim, keepdim), x)
            compare_exactly(lambda x: torch.median(x, dim, keepdim), x.to(torch.int16))
    for function in (torch.median, torch.nanmedian):
        compare_exactly(function, x)
    compare_exactly(torch.median, torch.tensor(4.0))
    compare_exactly(torch.median, torch.empty(0))


def test_medians_of_nan():
    x = torch.tensor([[1.0, float("nan"), 3.0, 2.0], [4.0, 3.0, 2.0, 1.0], [float("nan")] * 4])
    compare_exactly(lambda x: torch.median(x, 1).values, x)
    compare_exactly(lambda x: torch.nanmedian(x, 1).values, x)
    compare_exactly(torch.median, x), compare_exactly(torch.nanmedian, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_mode(dtype):
    x = torch.randint(0, 5, (6, 40, 3)).to(dtype)
    for dim in (0, 1, 2):
        compare_exactly(lambda x: torch.mode(x, dim).values, x)
        result = torch.mode(x.to(device), dim, keepdim=True)
        assert torch.equal(x.gather(dim, result.indices.cpu()), result.values.cpu())


@pytest.mark.parametrize("shape", [(3, 5000), (70, 300), (1, 1), (2, 2), (1, 30001), (9, 17)])
def test_mode_of_long_rows(shape):
    for x in (torch.randint(0, 9, shape), torch.randint(0, 10 ** 6, shape), (torch.rand(shape) < 0.5).float(),
              torch.zeros(shape), torch.where(torch.rand(shape) < 0.7, float("nan"), torch.rand(shape).round())):
        result = torch.mode(x.to(device), 1)
        values = result.values.cpu()
        assert torch.equal(x.gather(1, result.indices.cpu()[:, None])[:, 0].nan_to_num(77), values.nan_to_num(77))
        for row, value in zip(x, values):
            found, counts = torch.unique(row, return_counts=True)   # in which every NaN stands for itself
            expected = found[counts == counts.max()][0]
            assert value == expected or (value != value and expected != expected)


@pytest.mark.parametrize("n", [1024, 1025, 2048, 3000, 5000, 70000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float16])
def test_rows_of_several_tiles(n, dtype):
    for rows, most in ((1, 5), (3, 10 ** 6)):
        x = torch.randint(-most, most, (rows, n)).to(dtype)
        for descending in (False, True):
            compare_exactly(lambda x: torch.sort(x, dim=1, stable=True, descending=descending), x)


@pytest.mark.parametrize("dtype", FLOATS[:2] + INTEGERS + [torch.bool])
def test_unique(dtype):
    x = make((6, 50), dtype)
    compare_exactly(torch.unique, x)
    compare_exactly(lambda x: torch.unique(x, return_inverse=True, return_counts=True), x)
    compare_exactly(lambda x: torch.unique_consecutive(x.sort(-1).values.flatten(), return_inverse=True,
                                                       return_counts=True), x)


def test_unique_along_a_dimension():
    x = torch.randint(0, 2, (30, 3, 2))
    compare_exactly(lambda x: torch.unique(x, dim=0, return_inverse=True, return_counts=True), x)
    compare_exactly(lambda x: torch.unique(x, dim=1, return_inverse=True, return_counts=True), x)
    compare_exactly(lambda x: torch.unique_consecutive(x, dim=0, return_inverse=True, return_counts=True), x[:, :1, :1])
    compare_exactly(lambda x: torch.unique(x, return_inverse=True, return_counts=True), torch.empty(0))
    compare_exactly(lambda x: torch.unique(x, return_inverse=True, return_counts=True), torch.tensor(3))


def test_searchsorted_and_bucketize():
    boundaries = torch.tensor([[1.0, 3.0, 3.0, 5.0], [2.0, 4.0, 6.0, 6.0]])
    values = torch.tensor([[0.0, 3.0, 9.0], [6.0, 4.5, 2.0]])
    for right in (False, True):
        compare_exactly(lambda b, v: torch.searchsorted(b, v, right=right), boundaries, values)
        compare_exactly(lambda b, v: torch.searchsorted(b[0], v.t(), right=right, out_int32=True), boundaries, values)
        compare_exactly(lambda b, v: torch.bucketize(v, b[0], right=right), boundaries, values)
        compare_exactly(lambda b: torch.searchsorted(b[0], 3.0, right=right), boundaries)
        compare_exactly(lambda b, v: torch.bucketize(v.int(), b[1], right=right), boundaries, values)
    shuffled, sorter = torch.tensor([5.0, 1.0, 3.0]), torch.tensor([1, 2, 0])
    compare_exactly(lambda b, s, v: torch.searchsorted(b, v, sorter=s), shuffled, sorter, values)


def test_counting():
    x = torch.randint(0, 9, (500,))
    compare_exactly(torch.bincount, x)
    compare_exactly(lambda x: torch.bincount(x, minlength=20), x)
    compare_exactly(lambda x, w: torch.bincount(x, w), x, torch.randint(0, 5, (500,)).double())
    compare_exactly(lambda x: torch.histc(x, 10, -20, 20), make(1000))
    compare_exactly(lambda x: torch.histc(x, 7), make(1000))
    compare_exactly(lambda x: torch.isin(x, torch.tensor([3, 5], device=x.device)), x)
    compare_exactly(lambda x: torch.isin(x, 3), x)
    compare_exactly(lambda x: torch.nn.functional.one_hot(x, 9), x)
    compare_exactly(lambda x: torch.repeat_interleave(x), x[:20])
    compare_exactly(lambda x: torch.repeat_interleave(x, x, 0), x[:20])
    for repeats in (x, x.int(), torch.zeros(4, dtype=torch.int64), torch.tensor([0, 0, 3, 0]), x.repeat(9), x[::2]):
        compare_exactly(torch.repeat_interleave, repeats)
    with pytest.raises(RuntimeError, match="repeats can not be negative"):
        torch.repeat_interleave(torch.tensor([3, -1, 2], device=device))
    with pytest.raises(RuntimeError, match="allocated size"):
        torch.repeat_interleave(torch.tensor([3, 1], device=device), output_size=5)


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("assume_unique", [False, True])
def test_isin(assume_unique, invert):
    options = {"assume_unique": assume_unique, "invert": invert}
    nan, inf = float("nan"), float("inf")
    for x in (torch.tensor([[1, 5, 3], [7, 5, 0]]), torch.tensor([1.5, -0.0, nan, inf, 5, -inf]), torch.tensor(5),
              torch.tensor([], dtype=torch.int32), torch.tensor([3, 200], dtype=torch.uint8)):
        for tests in (torch.tensor([5, 9]), torch.tensor([5.0, nan, nan, 0.0, nan, nan]), torch.tensor([nan, inf, 1.5]),
                      torch.tensor([]), torch.tensor(5), torch.arange(40) * 5,
                      torch.tensor([[5], [-56]], dtype=torch.int8)):
            compare_exactly(lambda x, t: torch.isin(x, t, **options), x, tests)
            out = torch.ones(2, dtype=torch.bool, device=device)[:0]
            torch.isin(x.to(device), tests.to(device), **options, out=out)
            assert torch.equal(out.cpu(), torch.isin(x, tests, **options))
        for value in (5, 5.0, 1.5, nan, 3):
            compare_exactly(lambda x: torch.isin(x, value, **options), x)
            compare_exactly(lambda x: torch.isin(value, x, **options), x)
            out = torch.empty(0, dtype=torch.bool, device=device)
            assert torch.isin(value, x.to(device), **options, out=out) is out
            assert out.shape == () and out.item() == torch.isin(value, x, **options).item()


def test_mode_into_given_tensors():
    x = torch.randint(0, 3, (4, 9)).float()
    for keepdim in (False, True):
        values, indices = torch.empty(0, device=device), torch.empty(0, dtype=torch.int64, device=device)
        torch.mode(x.to(device), 1, keepdim, out=(values, indices))
        assert torch.equal(values.cpu(), torch.mode(x, 1, keepdim).values)
        assert torch.equal(x.gather(1, indices.cpu().view(4, 1)).view_as(values), values.cpu())


def test_unique_of_nan_and_zeros():
    nan = float("nan")
    x = torch.tensor([nan, 1, 0.0, nan, -0.0, 1, nan, 0.0])
    compare_exactly(lambda x: torch.unique(x, return_inverse=True, return_counts=True), x)
    compare_exactly(lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True), x)
    compare_exactly(lambda x: torch.unique_consecutive(x, dim=0, return_inverse=True, return_counts=True), x.view(4, 2))
    zeros = torch.tensor([[0.0, 1], [-0.0, 2], [0.0, 0], [-0.0, 1], [0.0, 2]])
    compare_exactly(lambda x: torch.unique(x, dim=0, return_inverse=True, return_counts=True), zeros)
    # With NaN the CPU's order depends on the slices; here NaN is first, and no two slices with NaN are one.
    rows = torch.tensor([[nan, 1], [0, nan], [2, 0], [0, 3], [nan, 1], [0, 3]])
    values, inverse, counts = torch.unique(rows.to(device), dim=0, return_inverse=True, return_counts=True)
    expected = torch.tensor([[nan, 1], [nan, 1], [0, nan], [0, 3], [2, 0]])
    torch.testing.assert_close(values.cpu(), expected, equal_nan=True)
    torch.testing.assert_close(values[inverse].cpu(), rows, equal_nan=True)
    assert counts.tolist() == [1, 1, 1, 2, 1]


def test_errors():
    x = make((3, 4)).to(device)
    with pytest.raises(RuntimeError, match="selected index k out of range"):
        x.topk(5)
    with pytest.raises(RuntimeError, match="selected number k out of range"):
        x.kthvalue(5)
    with pytest.raises(IndexError):
        x.sort(2)


def test_unique_rows_put_nan_first():
    x = torch.tensor([float("nan"), 0, 0, float("nan"), float("nan"), 1])
    unique, inverse, counts = torch.unique(x.to(device), dim=0, return_inverse=True, return_counts=True)
    torch.testing.assert_close(unique.cpu(), torch.tensor([float("nan")] * 3 + [0, 1]), equal_nan=True)
    assert inverse.tolist() == [0, 3, 3, 1, 2, 4] and counts.tolist() == [1, 1, 1, 2, 1]
