"""torch.compile on the device (Inductor, OpenCL C): elementwise operations, views, in-place operations."""

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters
from torch._inductor import config
from torch._inductor.fx_passes import post_grad

from compiled import check, device, on_device
from since import since

randn = torch.randn


def test_chain_is_one_kernel():
    from torch._inductor import metrics

    metrics.reset()
    check(lambda x, y: torch.sigmoid(x) * torch.tanh(y) + x.exp().log1p() * 2 - 1, randn(33, 17), randn(33, 17))
    assert metrics.generated_kernel_count == 1


def test_concatenation_of_many_tensors():
    """Those that are in memory are joined by one call of the device, what is computed is written where it belongs."""
    generator = torch.Generator().manual_seed(5)
    tensors = [torch.randn(2, c, 6, 6, generator=generator) for c in (3, 16, 4, 4, 4, 8, 1, 5, 7, 2)]

    def joined(*tensors):
        return F.relu(torch.cat(tensors, 1)), torch.cat([tensors[1][:, 2:9], *tensors[1:], tensors[0] + 1], 1)

    check(joined, *tensors)
    check(lambda *tensors: torch.cat([x * 2 for x in tensors], 1), *tensors)
    torch._dynamo.reset()
    compiled, ours = torch.compile(joined), [x.to(device) for x in tensors]
    compiled(*ours)
    before = torch.ocl.kernel_launches()
    compiled(*ours)
    assert torch.ocl.kernel_launches() - before <= 4 or torch.ocl.get_device_properties(device).kind != "cpu"


def test_concatenated_sums_with_rows_at_clamped_places():
    def function(x, w):
        at = (torch.arange(10, device=x.device) + 1).clamp(0, 127)
        return torch.cat([x + w[at], x.flip(0) + w[at + 1], x * 2 + w[at]], 0) * 2

    check(function, torch.randn(10, 64), torch.randn(130, 64))


def relative_shift(x):
    """Rows of distances by columns of places, as relative attention has them."""
    rows, columns = x.shape[-2:]
    padded = F.pad(x, (0, 1)).reshape(*x.shape[:-2], columns + 1, rows)
    return padded[..., 1:, :].reshape(*x.shape[:-2], rows, columns)


def test_views_of_views_of_what_is_computed():
    """Their indices are taken apart again by every view, the more the deeper they lie."""
    def shifted(x, y):
        for _ in range(4):
            x = relative_shift(torch.sin(x) + y)[..., ::2, :].repeat_interleave(2, -2) * 0.5 + y
        return x

    check(shifted, torch.randn(2, 4, 12, 24), torch.randn(2, 4, 12, 24))


def test_operations_are_counted_as_inductor_counts_them(monkeypatch):
    from torch._inductor import ir
    from torch._inductor.ops_handler import OpCounterCSE
    from torch._inductor.virtualized import V

    ours, counts = ir.Loops.inner_fn_opcount, []

    def counted(loops):
        theirs = OpCounterCSE(V.MockHandler())
        with V.set_ops_handler(theirs), monkeypatch.context() as patched:
            patched.setattr(ir.FlexibleLayout, "allow_indexing", True)
            loops.inner_fn(*loops.inner_fn_args())
        counts.append((ours(loops), theirs.getvalue()))
        return counts[-1][0]

    def function(x, table, places):
        rows = table[places] * x + torch.where(x > 0, x.flip(1), relative_shift(x)[:, :1])
        buckets = torch.bucketize(x, table[:, 0].sort()[0].contiguous())
        return torch.cat([rows, rows.softmax(-1), F.dropout(rows, 0.0)], 1).var(1), buckets * 2 + x.frexp()[1]

    monkeypatch.setattr(ir.Loops, "inner_fn_opcount", counted)
    with config.patch(force_disable_caches=True):
        check(function, torch.randn(12, 24), torch.randn(30, 24), torch.randint(0, 30, (12,)))
    assert len(counts) > 10
    for found, expected in counts:
        assert found == expected


def test_what_is_used_twice_again_and_again_compiles_soon():
    """Three uses in each step: traced whole, the expression would have 3 ** 24 operations."""
    def chain(x):
        for _ in range(24):
            x = (x * x + x) * 0.4
        return x

    def written_slices(x):
        mask = x.new_zeros(16, 16)
        for number in range(16):
            mask[number % 4 * 4:, number // 4 * 4:] = number
        return x + mask

    check(chain, torch.rand(50))
    check(written_slices, torch.rand(16, 16))


@pytest.mark.parametrize("names", (False, "torch", "original_aten", "inductor_node"))
def test_names_of_kernels(names):
    with config.patch({"triton.descriptive_names": names}):
        check(lambda x: x * 2 + 1, randn(8))


@pytest.mark.parametrize("shapes", [((8, 16, 40), (16, 1), (40,)), ((5, 1, 7), (1, 6, 1), ()),
                                    ((3, 5, 4, 49), (5, 1, 1), (3, 1, 1, 1)),
                                    ((4, 16, 8, 32), (4, 1, 8, 32), (16, 1, 32)), ((0, 3), (3,), (1, 1))])
def test_broadcasting(shapes):
    check(lambda x, y, z: x + y * z, *(randn(s) for s in shapes))


def test_fourier_transforms_have_the_layout_that_was_expected():
    x = randn(3, 5, 6, 7)
    check(lambda x: (torch.fft.fft2(x), torch.fft.ifft2(x), torch.fft.rfftn(x, dim=(1, 2)), torch.fft.ihfft(x, dim=0),
                     torch.fft.rfft(x, dim=2)), x, atol=1e-5, rtol=1e-4)
    check(lambda x: (torch.fft.irfft(x, dim=1), torch.fft.hfft(x, n=9), torch.fft.fft(x.transpose(1, 3), dim=2),
                     torch.fft.irfft2(x, dim=(3, 0))), torch.randn(3, 5, 6, 7, dtype=torch.complex64), atol=1e-5,
                     rtol=1e-4)


def test_results_of_linear_algebra_have_the_layout_that_was_expected():
    a = randn(3, 5, 5)
    spd = a @ a.mT + 5 * torch.eye(5)
    check(lambda x, y: (torch.cholesky_inverse(x), torch.cholesky_solve(y, x),
                        torch.linalg.householder_product(y, y[:, 0]),
                        torch.ormqr(y, y[:, 0], y * 2)), torch.linalg.cholesky(spd), a, atol=1e-4, rtol=1e-4)
    check(lambda x: torch.linalg.eig(x)[1].abs() * 0, a)


@pytest.mark.parametrize("dynamic", (False, True))
def test_attention_of_doubles_with_a_gradient(dynamic):
    q, k, v = (torch.randn(2, 3, 5, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    check(lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k.sin(), v), q, k, v, dynamic=dynamic)


def test_views():
    check(lambda x: (x.t().reshape(-1)[::2] + 1, x.flip(0) * 2, x.roll(3, 1) + 0, torch.cat([x, x * 2], 1),
                     x[2:, ::3] + 1,
                     x.unfold(1, 5, 2) * 2, x.expand(3, 16, 24) + 1, torch.stack([x, x + 1], 1),
                     x.as_strided((4, 4), (1, 3)) + 1,
                     x.tril() + 1, x.diagonal() * 2, x.repeat(2, 3), x.reshape(4, 4, 24).permute(2, 0, 1) + 1),
                     randn(16, 24))


@pytest.mark.parametrize("mode", ("constant", "reflect", "replicate", "circular"))
def test_padding(mode):
    check(lambda x: F.pad(x, (1, 2, 3, 4), mode=mode) * 2, randn(2, 3, 8, 9, requires_grad=True))


def test_strided_arguments():
    x = randn(10, 20, 30)
    check(lambda x, y: (x * 2 + y).transpose(0, 1) * 3, x.permute(2, 0, 1)[::2], x.permute(2, 0, 1)[1::2])
    check(lambda x: F.relu(x) * 2, randn(2, 16, 5, 7).contiguous(memory_format=torch.channels_last))


@pytest.mark.parametrize("operation", [lambda x, y: x // y, lambda x, y: x % y, torch.fmod,
                                       lambda x, y: torch.div(x, y, rounding_mode="trunc")],
                         ids=["floor", "remainder", "fmod", "trunc"])
def test_integers_divided_by_zero_are_reported(operation):
    compiled = torch.compile(operation)
    x, y = torch.arange(5, device=device), torch.tensor([1, 2, 0, 3, 4], device=device)
    compiled(x, y + 1)
    torch.ocl.synchronize()
    compiled(x, y)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.ocl.synchronize()


def test_in_place_operations_and_aliases():
    def f(x, y):
        view = x[2:5]
        x.add_(y).mul_(2)
        view.copy_(y[:3])
        y[1] = 7
        x.transpose(0, 1)[0] += 1
        return x.t(), view, y.view(-1)

    check(f, randn(8, 8), randn(8, 8))
    check(lambda x: x.relu_().sigmoid_().sum(), randn(100))


def test_a_scalar_tensor_of_the_cpu():
    torch._dynamo.reset()
    x, factor = randn(20), torch.tensor(3.5, dtype=torch.float64)
    actual = torch.compile(lambda x, f: x * f + 1)(x.to(device), factor)
    torch.testing.assert_close(actual.cpu(), x * factor + 1)


@pytest.mark.parametrize("number", (torch.tensor(3.0), torch.tensor(2), torch.tensor(2.5, dtype=torch.float64)),
                         ids=str)
def test_the_scalar_may_come_first(number):
    torch._dynamo.reset()

    def f(x, y):
        return x - y, torch.where(y > 0, x, y), (x + 1) * y, torch.maximum(x, y)

    y = randn(50)
    for a, b in zip(torch.compile(f)(number, y.to(device)), f(number, y)):
        torch.testing.assert_close(a.cpu(), b)


@pytest.mark.parametrize("dynamic", (False, True))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.int64, torch.bool), ids=str)
def test_elements_of_tensors_of_the_cpu(dtype, dynamic):
    """As schedulers of diffusion models have: a table on the CPU, of which one element belongs to a step."""
    torch._dynamo.reset()

    def f(x, table, i, place):
        element = table[1:][i]
        return (x * element, (element + 1) * x * table[place], torch.where(x > 0, x, table[-1]), element,
                (x * table.flip(0)[i]).sum(), table[2:3].squeeze() * x)

    x, table = randn(20), (torch.arange(9) * 3 % 4).to(dtype)
    compiled = torch.compile(f, dynamic=dynamic)
    for i in (2, 5):
        for place in (torch.tensor(3), torch.tensor(0)):
            actual, expected = compiled(x.to(device), table, i, place), f(x, table, i, place)
            for n, (a, b) in enumerate(zip(actual, expected)):
                assert a.device.type == ("cpu" if n == 3 else "ocl")
                torch.testing.assert_close(a.cpu(), b)


def test_python_numbers_do_not_compile_again():
    torch._dynamo.reset()
    scale = torch.compile(lambda x, a, n: x * a + n, dynamic=True)
    x = randn(20)
    for a, n in ((2.5, 3), (0.5, 4), (-1.25, 7), (8.5, 11)):
        torch.testing.assert_close(scale(x.to(device), a, n).cpu(), x * a + n)
    before = torch.ocl.program_builds()
    torch.testing.assert_close(scale(x.to(device), 9.5, 123).cpu(), x * 9.5 + 123)
    assert torch.ocl.program_builds() == before


def test_operators_that_are_not_generated():
    check(lambda x: (x.sort(-1), x.cumsum(-1) + 1, x.topk(3), x.cumprod(0), torch.fft.rfft(x).abs()), randn(10, 20))
    check(lambda x: (x * 2 + 1j).abs() + 1, torch.randn(10, dtype=torch.complex64))
    check(lambda x, y: torch.searchsorted(x, y) + 1, torch.arange(0.0, 10), randn(30) * 10)
    check(lambda x: (x > 0).nonzero() * 2, randn(30), fullgraph=False)


def test_dtypes_without_arithmetic():
    """float8 is stored and converted by the device's operators."""
    x = randn(30)
    actual = torch.compile(lambda x: (x * 2).to(torch.float8_e4m3fn).to(torch.float32) + 1)(x.to(device))
    torch.testing.assert_close(actual.cpu(), (x * 2).to(torch.float8_e4m3fn).to(torch.float32) + 1)


def test_random_numbers():
    def f(x):
        return torch.rand_like(x), torch.randn_like(x), F.dropout(x,
                                                                  0.25), torch.randint(0, 10, (10000,), device=x.device)

    compiled = torch.compile(f)
    x = torch.ones(10000, device=device)
    torch.manual_seed(5)
    first = compiled(x)
    torch.manual_seed(5)
    assert all(torch.equal(a, b) for a, b in zip(first, compiled(x)))
    uniform, normal, dropped, integers = (t.cpu() for t in first)
    assert 0 <= uniform.min() and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.02
    assert abs(normal.mean()) < 0.05 and abs(normal.std() - 1) < 0.05
    assert abs((dropped == 0).float().mean() -
               0.25) < 0.03 and set(dropped.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert integers.unique().tolist() == list(range(10))


@pytest.mark.parametrize("function", (
    lambda x: torch.rand_like(x) * 2, lambda x: F.dropout(x, 0.5),
    pytest.param(lambda x: (torch.rand_like(x) * 2, F.dropout(x, 0.5)),
                 marks=since("2.13", "order among random operators",
                             hasattr(post_grad, "_chain_random_ops_for_ordering")))))
def test_random_numbers_of_the_eager_operators(function):
    x = torch.ones(1000, device=device)
    with config.patch(fallback_random=True):
        torch.manual_seed(5)
        actual = torch.compile(function)(x)
    torch.manual_seed(5)
    torch.testing.assert_close(actual, function(x))


def test_compiling_keeps_the_random_state():
    """What PyTorch does so for CPUs and CUDA: code that runs while it compiles may draw numbers."""
    from torch._dynamo.utils import preserve_rng_state

    torch.manual_seed(5)
    with preserve_rng_state():
        first = torch.rand(100, device=device)
    assert torch.equal(first, torch.rand(100, device=device))
    with pytest.raises(ValueError), preserve_rng_state():
        after = torch.rand(100, device=device)
        raise ValueError
    assert torch.equal(after, torch.rand(100, device=device))


def test_operators_are_measured_on_the_device():
    """Where PyTorch's benchmarks are told no device, as by the estimate of what recomputing would take."""
    from torch._functorch import config as functorch_config
    from torch._inductor.runtime.benchmarking import benchmarker

    x, *weights = (randn(64, 64).to(device).requires_grad_() for _ in range(4))
    assert 0 < benchmarker.benchmark_gpu(lambda: x @ weights[0]) < 1e4

    def f(x):
        for w in weights:
            x = (x @ w).cos()
        return x.sum()

    torch._dynamo.reset()
    with functorch_config.patch(activation_memory_budget=0.3, activation_memory_budget_runtime_estimator="profile"):
        actual = torch.autograd.grad(torch.compile(f, backend="aot_eager_decomp_partition")(x), (x, *weights))
    for a, b in zip(actual, torch.autograd.grad(f(x), (x, *weights))):
        torch.testing.assert_close(a, b)


def test_dynamic_shapes_compile_once():
    torch._dynamo.reset()

    def f(x, y):
        return (F.softmax(x * 2 + y, -1), x.sum(0), x.reshape(-1)[3:] + 1, torch.cat([x, x], 1).mean((0, 1)),
                x.transpose(0, 1).contiguous() * x.shape[0])

    compiled = torch.compile(f, dynamic=True, fullgraph=True)

    def run(rows, columns):
        x, y = randn(rows, columns), randn(columns)
        for a, b in zip(compiled(x.to(device), y.to(device)), f(x, y)):
            torch.testing.assert_close(a.cpu(), b)

    run(30, 77)
    programs, graphs = torch.ocl.program_builds(), counters["stats"]["unique_graphs"]
    for rows, columns in ((31, 60), (5, 300), (200, 17), (64, 64)):
        run(rows, columns)
    assert torch.ocl.program_builds() == programs and counters["stats"]["unique_graphs"] == graphs


def test_launches_do_not_wait():
    compiled = torch.compile(lambda x: F.softmax(x.relu() @ x.t(), -1) + x.sum())
    x = randn(50, 50, device=device)
    compiled(x)
    torch.ocl.synchronize()
    before = torch.ocl.blocking_calls()
    for _ in range(3):
        compiled(x)
    assert torch.ocl.blocking_calls() == before


def test_streams():
    compiled = torch.compile(lambda x: x.sin() + 1)
    x = randn(1000, device=device)
    expected = compiled(x)
    stream = torch.ocl.Stream()
    stream.wait_stream(torch.ocl.current_stream())
    with torch.ocl.stream(stream):
        y = compiled(x)
    stream.synchronize()
    torch.testing.assert_close(y, expected)


def test_fx_wrapper_is_refused():
    with config.patch(fx_wrapper=True, force_disable_caches=True):
        torch._dynamo.reset()
        with pytest.raises(Exception, match="writes wrappers in Python and C"):
            torch.compile(lambda x: x + 1)(on_device(randn(3)))


@pytest.mark.parametrize("shape", [(16, 16), (17, 1000), (1000, 17), (130, 64), (300, 513)], ids=str)
@pytest.mark.parametrize("dynamic", (False, True))
def test_transposed_operands(shape, dynamic):
    """Rows of one tensor are columns of another: work-groups are tiles, whose last ones hang over."""
    check(lambda x, y: (x.t() + y, (x.t() * y).contiguous(), x.t().contiguous().relu()), randn(shape),
          randn(shape[::-1]), dynamic=dynamic)
    check(lambda x, y: x.permute(0, 2, 3, 1).contiguous() + y, randn(3, *shape, 20), randn(3, shape[1], 20, shape[0]),
          dynamic=dynamic)


@pytest.mark.parametrize("rows", (1, 3, 7, 65, 3841))
def test_rows_that_share_groups(rows):
    check(lambda x, a: F.relu(x * a + 1), randn(rows, 49), randn(rows, 1))
    check(lambda x, a: F.relu(x * a + 1), randn(rows, 49), randn(rows, 1), dynamic=True)
