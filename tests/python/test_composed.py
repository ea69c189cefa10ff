"""Operators that the device composes of others: renorm, weight norm, cross products, histograms, ..."""
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from opinfo import case_id, cases, check, check_gradients

NAMES = {"renorm", "cross", "linalg.cross", "narrow_copy", "nn.functional.glu", "nn.functional.pixel_shuffle",
         "nn.functional.pixel_unshuffle", "histogram", "histogramdd"}
CASES = cases(NAMES)
DIFFERENTIABLE = {case[0].name: case[0] for case in CASES if case[0].supports_autograd}


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_against_cpu(case, device):
    check(*case, device)


@pytest.mark.parametrize("op", DIFFERENTIABLE.values(), ids=lambda op: op.name)
def test_gradients(op, device):
    check_gradients(op, device)


@pytest.mark.parametrize("dim", (0, 2))
def test_weight_norm(dim, device):
    v = torch.randn(4, 3, 5, dtype=torch.float64)
    g = torch.randn([size if d == dim else 1 for d, size in enumerate(v.shape)], dtype=torch.float64)
    a, b = [t.clone().requires_grad_() for t in (v, g)], [t.to(device).requires_grad_() for t in (v, g)]
    w, u = torch._weight_norm(*a, dim), torch._weight_norm(*b, dim)
    assert_close(u.cpu(), w)
    seed = torch.randn_like(w)
    for got, expected in zip(torch.autograd.grad(u, b, seed.to(device)), torch.autograd.grad(w, a, seed)):
        assert_close(got.cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
def test_tangents_without_memory(device, dtype):
    """A tangent that is zero everywhere is a tensor without memory, which some operators are given as it is."""
    for function in (torch.dot, torch.vdot, torch.inner, torch.matmul, torch.mul, torch.div, torch.add,
                     lambda x, y: torch.linalg.cross(x[:3], y[:3])):
        tangents = []
        for where in ("cpu", device):
            x, y, zero = (torch.linspace(1, 2, 5).to(where, dtype), torch.ones(5, dtype=dtype, device=where),
                          torch._efficientzerotensor((5,), dtype=dtype, device=where))
            results = function(x, zero), function(zero, x), function(zero, zero + y)
            tangent = torch.func.jvp(lambda x: function(x, y), (x,), (y,))[1]
            tangents.append([t.cpu().clone() for t in (*results, tangent)])
        torch.testing.assert_close(tangents[1], tangents[0], equal_nan=True)


def test_tangents_of_glu(device):
    x, dx, g, dg = torch.randn(3, 6), torch.randn(3, 6), torch.randn(3, 3), torch.randn(3, 3)
    for where in (x, x.double()):
        expected = torch.func.jvp(lambda t: F.glu(t, 1), (where,), (dx.to(where.dtype),))
        actual = torch.func.jvp(lambda t: F.glu(t, 1), (where.to(device),), (dx.to(where.dtype).to(device),))
        assert_close([t.cpu() for t in actual], list(expected))
    gradient = torch.ops.aten.glu_backward(g, x, 1)
    expected = torch.ops.aten.glu_backward_jvp(gradient, g, x, dg, dx, 1)
    actual = torch.ops.aten.glu_backward_jvp(*(t.to(device) for t in (gradient, g, x, dg, dx)), 1)
    assert_close(actual.cpu(), expected)


def test_batch_norm_update_stats(device):
    x, mean, variance = torch.randn(4, 3, 5), torch.randn(3), torch.rand(3)
    running = [t.to(device) for t in (mean, variance)]
    actual = torch.batch_norm_update_stats(x.to(device), *running, 0.1)
    assert_close(actual[0].cpu(), x.mean((0, 2)))
    assert_close(actual[1].cpu(), x.var((0, 2), correction=0))
    assert_close(running[0].cpu(), 0.9 * mean + 0.1 * x.mean((0, 2)))
    assert_close(running[1].cpu(), 0.9 * variance + 0.1 * x.var((0, 2)))


def test_add_relu_int8_weights_and_combinations(device):
    x, y = torch.randn(4, 8), torch.randn(4, 8)
    assert_close(torch._add_relu(x.to(device), y.to(device), alpha=2).cpu(), F.relu(x + 2 * y))
    assert_close(torch._add_relu_(x.to(device), 0.5).cpu(), F.relu(x + 0.5))
    weights, scales = torch.randint(-128, 128, (6, 8), dtype=torch.int8), torch.rand(6)
    assert_close(torch._weight_int8pack_mm(x.to(device), weights.to(device), scales.to(device)).cpu(),
                 x @ weights.float().t() * scales)
    terms, coefficients = torch.randn(3, 2, 2), torch.randn(5, 3)
    assert_close(torch._compute_linear_combination(terms.to(device), coefficients.to(device)).cpu(),
                 torch.tensordot(coefficients, terms, 1))
    out = torch.ones_like(torch._compute_linear_combination(terms, coefficients))   # which is added to, as on the CPU
    assert_close(torch._compute_linear_combination(terms.to(device), coefficients.to(device), out=out.to(device)).cpu(),
                 torch._compute_linear_combination(terms, coefficients, out=out))


def test_histogram_edges(device):
    x = torch.tensor([-1, 0, 0.5, 1, 1.5, 3, torch.nan, torch.inf])
    edges = torch.tensor([0.0, 0.5, 1.0, 3.0])
    hist, _ = torch.histogram(x.to(device), edges.to(device))
    assert hist.tolist() == [1, 1, 3]
    for dtypes in ((torch.int64, torch.float32), (torch.float32, torch.float64)):
        with pytest.raises(RuntimeError, match="should have the same dtype, but got input float"):
            torch.histogram(x.to(device), 4, out=tuple(torch.empty(0, dtype=dtype, device=device) for dtype in dtypes))
    for call in (lambda t: torch.histogram(t, 4), lambda t: torch.histogram(t, 4, range=(0, float("inf"))),
                 lambda t: torch.histogram(t, 0)):
        with pytest.raises(RuntimeError):
            call(x)
        with pytest.raises(RuntimeError):
            call(x.to(device))
    constant = torch.full((4,), 2.0)
    for got, expected in zip(torch.histogram(constant.to(device), 4, density=True),
                             torch.histogram(constant, 4, density=True)):
        assert_close(got.cpu(), expected)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_histograms_of_sixteen_bits(device, dtype):
    x, weight = torch.linspace(-3, 3, 100).to(dtype), torch.linspace(0, 1, 100).to(dtype)
    edges = torch.tensor([-2.0, 0.0, 1.0, 2.5], dtype=dtype)
    for options in ({}, {"density": True}, {"weight": weight}):
        wide = {name: value.double() if name == "weight" else value for name, value in options.items()}
        own = {name: value.to(device) if name == "weight" else value for name, value in options.items()}
        expected, _ = torch.histogram(x.double(), edges.double(), **wide)   # the CPU rounds after every addition
        actual, found = torch.histogram(x.to(device), edges.to(device), **own)
        assert torch.equal(found.cpu(), edges)
        assert_close(actual.cpu(), expected.to(dtype))
    pairs = torch.stack([x, x], 1)
    expected, _ = torch.histogramdd(pairs, [edges, edges])
    assert_close(torch.histogramdd(pairs.to(device), [edges.to(device)] * 2)[0].cpu(), expected)
    with pytest.raises(NotImplementedError):
        torch.histogram(x, 4)
    with pytest.raises(NotImplementedError):
        torch.histogram(x.to(device), 4)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_sixteen_bits_are_rounded_once(dtype):
    generator = torch.Generator().manual_seed(0)
    x, a, b = (torch.empty(*shape).uniform_(-9, 9, generator=generator).to(dtype) for shape in ((5, 10), (5,), (10,)))
    exact = torch.addr(x.double(), a.double(), b.double(), beta=0.6, alpha=0.2)
    assert torch.equal(torch.addr(x.to("ocl"), a.to("ocl"), b.to("ocl"), beta=0.6, alpha=0.2).cpu(), exact.to(dtype))
    for bins, low, high in ((100, -10, 0), (100, 0, 0), (3, -10, 10)):
        expected = torch.histc(x.float(), bins, low, high).to(dtype)
        assert torch.equal(torch.histc(x.to("ocl"), bins, low, high).cpu(), expected)


@pytest.mark.parametrize("count", (20000, 131072, 150001))
@pytest.mark.parametrize("bins", (1, 10, 500, 700))
def test_counts_of_many(count, bins):
    """Long lists, which CPUs count in pieces: with and without a rest, few bins and many, integers of every width."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, bins, (count,), generator=generator)
    for dtype in (torch.int64, torch.int32, torch.int16, torch.uint8):
        values = (x % 100).to(dtype)
        assert torch.equal(values.to("ocl").bincount(minlength=bins).cpu(), values.bincount(minlength=bins))
    assert torch.equal(x.to("ocl")[::2].bincount().cpu(), x[::2].bincount())
    for dtype in (torch.float32, torch.float64, torch.int32, torch.uint8):
        if dtype is torch.float64 and not torch.ocl.get_device_properties(0).fp64:
            continue
        values = (x % 100).to(dtype)
        expected = torch.histc(values.double(), bins, 3, 90).to(dtype)
        assert torch.equal(torch.histc(values.to("ocl"), bins, 3, 90).cpu(), expected)


@pytest.mark.parametrize("low, high", [(0, 0), (-1.7, 2.3), (0.1, 0.1000001)])
@pytest.mark.parametrize("bins", (1, 7, 1000, 100003))
def test_histograms_of_numbers_at_the_edges(low, high, bins):
    """Numbers on edges and beside them go where the CPU puts them; what is outside, and NaN, into no bin."""
    x = torch.randn(30011, generator=torch.Generator().manual_seed(0))
    if low != high:
        edges = torch.linspace(low, high, bins + 1)[:3000]
        above, below = (torch.nextafter(edges, torch.tensor(end)) for end in (float("inf"), -float("inf")))
        x = torch.cat((x, edges, above, below, torch.tensor([float("nan"), float("inf"), -float("inf")])))
    assert torch.equal(torch.histc(x.to("ocl"), bins, low, high).cpu(), torch.histc(x, bins, low, high))


def test_histogram_of_all_numbers():
    """The length of the range is no number of float32: PyTorch's CPU counts nothing then, but in float64."""
    x = torch.randn(30011, generator=torch.Generator().manual_seed(0)) * 1e38
    found = torch.histc(x.to("ocl"), 7, -3e38, 3e38).cpu()
    assert torch.equal(found, torch.histc(x.double(), 7, -3e38, 3e38).float())
