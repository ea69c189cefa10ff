"""torch.compile on the device: reductions, softmax, normalisation."""
import itertools
import re

import pytest
import torch
import torch.nn.functional as F
from torch._inductor import config

from compiled import check, device

randn = torch.randn
axis_sets = [axes for n in range(1, 4) for axes in itertools.combinations(range(3), n)]


@pytest.mark.parametrize("axes", axis_sets, ids=str)
def test_axes(axes):
    check(lambda x: (x.sum(axes), x.mean(axes, keepdim=True), x.amax(axes), x.amin(axes), x.var(axes),
                     x.std(axes, keepdim=True),
                     torch.logsumexp(x, axes), torch.linalg.vector_norm(x, dim=axes)), randn(20, 33, 40))


@pytest.mark.parametrize("dim", (0, 1, 2, None))
def test_extremes_and_their_places(dim):
    x = torch.randint(0, 9, (20, 33, 40)).float()    # many equals: the first one counts
    if dim is None:
        check(lambda x: (x.argmax(), x.argmin(), x.max(), x.min()), x)
    else:
        check(lambda x: (x.argmax(dim), x.argmin(dim, keepdim=True), x.max(dim), x.min(dim)), x)


@pytest.mark.parametrize("dtype", (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool))
def test_integers(dtype):
    x = torch.rand(30, 50) > 0.5 if dtype == torch.bool else torch.randint(0, 100, (30, 50), dtype=dtype)
    check(lambda x: (x.sum(), x.sum(0), x.sum(1), x.amax(0), x.amin(1)), x)
    check(lambda x: (x.any(0), x.all(1), x.any()), x > 3 if dtype == torch.uint8 else x)
    if dtype != torch.bool:
        check(lambda x: (x.argmax(1), x.argmin(0)), x)
    check(lambda x: (x[:, :3].prod(1), x.sum(1, dtype=torch.float32)), x)


@pytest.mark.parametrize("dtype", (torch.float64, torch.float16, torch.bfloat16))
def test_dtypes(dtype):
    tolerances = {} if dtype == torch.float64 else {"rtol": 1.6e-2, "atol": 1e-2}
    check(lambda x: (x.sum(), x.mean(0), x.amax(1), x.var(1), F.softmax(x, -1), x.prod(1), x.argmin(0)),
          randn(30, 50).to(dtype), **tolerances)


def test_nan_and_infinity():
    x = randn(6, 40)
    x[0, 3] = x[1, 30] = float("nan")
    x[2, 5], x[3, 6] = float("inf"), -float("inf")
    x[4] = -float("inf")
    check(lambda x: (x.amax(1), x.amin(1), x.argmax(1), x.argmin(1), x.sum(1), torch.nansum(x, 1),
                     torch.logsumexp(x, 1),
                     F.softmax(x, 1), x.isnan().any(1), x.amax(0), x.argmax(0)), x)


@pytest.mark.parametrize("shape", [(1,), (3,), (5, 1), (1, 300), (300, 1), (7, 1025), (1025, 7), (2, 5000), (5000, 2)],
                         ids=str)
def test_shapes(shape):
    check(lambda x: (x.sum(), x.sum(0), x.sum(-1), x.amax(-1), x.var(0, unbiased=False), x.argmax(0)), randn(shape))


def test_long_reductions():
    x = torch.rand(1 << 20)
    check(lambda x: (x.sum(), x.mean(), x.max(), x.argmax(), x.std(), (x * x).sum(), x.view(16, -1).sum(0)), x)


@pytest.mark.parametrize("count", (9001, 20_011, 40_000))
def test_reductions_of_some_ten_thousand_elements(count):
    x = torch.rand(count)
    check(lambda x: (x.sum(), x.max(), (x * 2).mean(), x.view(-1, 1).expand(-1, 3).sum(0)), x)
    check(lambda x: x.view(-1, 1).expand(-1, 40).contiguous().sum(0), x)


def test_rounding_errors_stay_small():
    x = torch.rand(3, 100_000)
    actual = torch.compile(lambda x: (x.sum(1), x.t().contiguous().sum(0), x.sum()))(x.to(device))
    exact = x.double()
    for a, b in zip(actual, (exact.sum(1), exact.sum(1), exact.sum())):
        torch.testing.assert_close(a.cpu().double(), b, rtol=1e-6, atol=0)


def test_same_bits_every_run():
    total = torch.compile(lambda x: (x.sum(), x.sum(0), F.softmax(x, 1)))
    x = randn(100, 3000, device=device)
    first = total(x)
    for _ in range(5):
        assert all(torch.equal(a, b) for a, b in zip(first, total(x)))


@pytest.mark.parametrize("dim", (0, 1, -1))
def test_softmax(dim):
    check(lambda x: (F.softmax(x, dim), F.log_softmax(x * 2, dim), F.softmin(x, dim)),
          randn(12, 50, 33, requires_grad=True))


def test_long_softmax():
    check(lambda x: F.softmax(x, -1), randn(5, 5000, requires_grad=True))
    check(lambda x: F.log_softmax(x, -1).argmax(-1), randn(300, 1500))


def test_normalisations():
    w, b = randn(96, requires_grad=True), randn(96, requires_grad=True)
    check(lambda x, w, b: F.layer_norm(x, (96,), w, b), randn(8, 10, 96, requires_grad=True), w, b, atol=3e-5,
          rtol=1.3e-6)
    check(lambda x, w: F.rms_norm(x, (96,), w), randn(8, 10, 96, requires_grad=True), w, atol=3e-5, rtol=1.3e-6)
    w, b = randn(16, requires_grad=True), randn(16, requires_grad=True)
    check(lambda x, w, b: F.group_norm(x, 4, w, b), randn(2, 16, 9, 9, requires_grad=True), w, b, atol=3e-5,
          rtol=1.3e-6)
    check(lambda x, w, b: F.instance_norm(x, None, None, w, b), randn(2, 16, 9, 9, requires_grad=True), w, b, atol=3e-5,
          rtol=1.3e-6)
    check(lambda x: F.normalize(x, dim=1), randn(20, 30, requires_grad=True))


@pytest.mark.parametrize("training", (True, False))
def test_batch_norm(training):
    def f(x, mean, var, w, b):
        return F.batch_norm(x, mean, var, w, b, training, 0.1)

    check(f, randn(4, 16, 9, 9, requires_grad=True), randn(16), torch.rand(16) + 0.5, randn(16, requires_grad=True),
          randn(16, requires_grad=True), atol=3e-5, rtol=1.3e-6)


def test_losses():
    check(lambda x, t: F.cross_entropy(x, t), randn(32, 100, requires_grad=True), torch.randint(0, 100, (32,)))
    check(lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1, ignore_index=3), randn(32, 10, 7, requires_grad=True),
          torch.randint(0, 10, (32, 7)))
    check(lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y), F.smooth_l1_loss(x, y), F.huber_loss(x, y),
                        F.binary_cross_entropy_with_logits(x, y.sigmoid())), randn(40, 50, requires_grad=True),
                        randn(40, 50))


def test_reductions_of_views_and_of_what_is_fused():
    check(lambda x, y: ((x.t() * y).sum(1), (x[::2, 1:] + 1).amax(0), (x > 0).float().mean(),
                        (x - x.mean(1, keepdim=True)).abs().sum(0)),
          randn(40, 50), randn(50, 1))
    check(lambda x: x - x.amax(1, keepdim=True) + x.sum(1, keepdim=True) / x.sum(0), torch.rand(33, 70))


def test_pooling():
    check(lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1), F.adaptive_avg_pool2d(x, (3, 5)),
                     F.adaptive_avg_pool2d(x, 1),
                     F.max_pool2d(x, 3, 2, 1)), randn(2, 3, 16, 16, requires_grad=True))


def test_gradients_of_max_pooling_are_one_kernel():
    from torch._inductor.utils import run_fw_bw_and_get_code

    def f(x):
        return F.max_pool2d(x, 3, 2, 1)

    x = torch.randint(0, 4, (2, 3, 17, 16)).float().requires_grad_()    # many equals
    check(f, x)
    check(lambda x: F.max_pool2d(x, 7, 1, 3), x)
    check(lambda x: F.max_pool2d(x, 2, 2, 0, 2), x)
    ours = x.detach().to(device).requires_grad_()
    with config.patch(force_disable_caches=True):
        _, (_, backward) = run_fw_bw_and_get_code(lambda: torch.compile(f)(ours))
    assert "scatter" not in backward and backward.count("ocl_runtime.kernel(") == 1


def test_resampling():
    check(lambda x: (F.interpolate(x, scale_factor=2, mode="bilinear"), F.interpolate(x, size=(11, 13), mode="bicubic"),
                     F.interpolate(x, scale_factor=2)), randn(2, 3, 8, 8, requires_grad=True))


@pytest.mark.parametrize("dynamic", (False, True))
@pytest.mark.parametrize("shape, options", [
    ((2, 3, 8, 9), dict(mode="bilinear", scale_factor=2.0)),
    ((2, 3, 8, 9), dict(mode="bilinear", size=(11, 13), align_corners=True)),
    ((2, 3, 8, 9), dict(mode="nearest", scale_factor=1.3)),     # left as it is traced
    ((2, 3, 8, 9), dict(mode="nearest", size=(11, 13))),
    ((2, 3, 8, 9), dict(mode="nearest-exact", size=(11, 5))),
    ((2, 3, 8, 9), dict(mode="bicubic", scale_factor=1.5)),
    ((2, 3, 8), dict(mode="linear", size=13)),
    ((2, 3, 8), dict(mode="nearest", size=13)),
    ((2, 3, 7, 8), dict(mode="nearest", scale_factor=2.0)),     # sums over windows, generated
    ((2, 3, 4, 5, 6), dict(mode="trilinear", scale_factor=2.0)),
])
def test_gradients_of_interpolation(shape, options, dynamic):
    from torch._inductor.utils import run_fw_bw_and_get_code

    def f(x):
        return F.relu(F.interpolate(x * 2, **options)) + 1

    x = randn(*shape, requires_grad=True)
    check(f, x, dynamic=dynamic)
    if dynamic:
        return
    torch._dynamo.reset()
    ours = x.detach().to(device).requires_grad_()
    with config.patch(force_disable_caches=True):
        _, (_, backward) = run_fw_bw_and_get_code(lambda: torch.compile(f, dynamic=False)(ours))
    traced, generated = options.get("scale_factor") == 1.3, shape == (2, 3, 7, 8)
    assert ("index_put" in backward) == traced
    assert backward.count("_backward.default(") == (0 if traced or generated else 1)


@pytest.mark.parametrize("mode", ("nearest", "bilinear"))
def test_interpolation_to_another_tensor_s_size_compiles_once(mode):
    def f(x, y):
        return y * F.interpolate(x, size=y.shape[-2:], mode=mode)

    torch._dynamo.reset()
    count = torch._dynamo.testing.CompileCounterWithBackend("inductor")
    compiled = torch.compile(f, backend=count, dynamic=True)
    for sizes in ((4, 5, 8, 9), (3, 7, 11, 13), (6, 4, 5, 21)):
        x, y = randn(2, 3, *sizes[:2], requires_grad=True), randn(2, 3, *sizes[2:], requires_grad=True)
        ours = [t.detach().to(device).requires_grad_() for t in (x, y)]
        actual, expected = compiled(*ours), f(x, y)
        torch.testing.assert_close(actual.cpu(), expected)
        for a, b in zip(torch.autograd.grad(actual.sum(), ours), torch.autograd.grad(expected.sum(), (x, y))):
            torch.testing.assert_close(a.cpu(), b, atol=1e-4, rtol=1e-4)
    assert count.frame_count == 1


@pytest.mark.parametrize("inner", (True, False))
@pytest.mark.parametrize("elements", (16, 72, 1024, 10_000, 40_000, 100_000))
@pytest.mark.parametrize("results", (1, 50, 64))
def test_reductions_are_not_cut_into_single_elements(elements, results, inner):
    from torch._inductor.choices import InductorChoices
    pieces = InductorChoices().reduction_split_factor(torch.device(device), elements, results, inner)
    assert pieces == 1 or elements // pieces >= config.unroll_reductions_threshold


@pytest.mark.parametrize("activation", (F.hardswish, F.relu))
def test_batch_norms_are_computed_where_they_are_used(activation):
    """Statistics and result forward, sums and gradient backward: nothing else is written in between."""
    def norm(x, w, b):
        return activation(F.batch_norm(x, None, None, w, b, training=True)) * 2

    x, w, b = (torch.randn(shape, requires_grad=True) for shape in ((3, 8, 20, 20), (8,), (8,)))
    check(norm, x, w, b, atol=3e-5, rtol=1e-4)

    torch._dynamo.reset()
    x, w, b = (t.detach().to(device).requires_grad_() for t in (x, w, b))
    compiled = torch.compile(norm, fullgraph=True)
    with config.patch(force_disable_caches=True):
        y = compiled(x, w, b)
        gradient = torch.randn_like(y)
        torch.autograd.grad(y, (x, w, b), gradient)          # compiles the other way
        torch.ocl.synchronize()
        before = torch.ocl.kernel_launches()
        y = compiled(x, w, b)
        assert torch.ocl.kernel_launches() - before == 2
        torch.autograd.grad(y, (x, w, b), gradient)
        assert torch.ocl.kernel_launches() - before == 4


def test_sums_of_columns_beside_numbers_of_rows_need_no_groups():
    """Gradients of a layer norm's weight and bias: neighbouring columns are neighbouring work-items."""
    from torch._inductor.utils import run_and_get_code

    def gradients(x, y, mean, scale):
        return (y * ((x - mean) * scale)).sum(0), y.sum(0)

    arguments = randn(96, 80), randn(96, 80), randn(96, 1), torch.rand(96, 1)
    check(gradients, *arguments)
    _, code = run_and_get_code(torch.compile(gradients), *(a.to(device) for a in arguments))
    assert "get_global_id" in code[0] and "barrier" not in code[0]


@pytest.mark.parametrize("width", (16, 48, 50))
def test_rows_of_whole_turns(width):
    """Lanes of a work-group are in the same row, or not."""
    check(lambda x: (x.sum((0, 2)), x.var((0, 2)), x.amax((0, 2))), randn(5, 3, width))
    check(lambda x: (x.sum((0, 2, 4)), x.mean((0, 2, 4))), randn(3, 2, 7, 2, width))


@pytest.mark.parametrize("width", (50, 1024))
def test_costly_values_are_computed_once_for_a_row(width):
    """On CPUs; a row of a softmax and of a layer norm is kept between its passes. The end of a row that is no whole
    vector is written a second time."""
    from torch._inductor.utils import run_and_get_code

    def normalised(x, w, b):
        return F.layer_norm(F.silu(x), (width,), w, b) * 2 + x

    for function, arguments in ((lambda x: F.softmax(x * 0.5, -1), [randn(40, width)]),
                                (normalised, [randn(40, width), randn(width), randn(width)])):
        check(function, *arguments)
        torch._dynamo.reset()
        _, code = run_and_get_code(torch.compile(function), *(a.to(device) for a in arguments))
        if torch.ocl.get_device_properties().kind == "cpu":
            stores = re.findall(r"kept_\w+\[rindex / 16\] = ", code[0])
            assert code[0].count("exp(") == len(stores) == (1 if width % 16 == 0 else 2)


def test_what_a_pass_has_changed_is_read_again():
    def changed(x):
        x.div_(x.exp().sum(-1, keepdim=True))
        return x.exp().sum(-1), x / x.exp().amax(-1, keepdim=True)

    check(changed, randn(40, 200))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("correction", [0, 1])
def test_moments_of_long_rows(dtype, correction):
    """A row of equal numbers has their value and no variance at all; far from zero the variance is as exact as near."""
    equal = randn(7, 1).to(dtype).expand(7, 4190).contiguous().to(device)
    compiled = torch.compile(lambda x: torch.var_mean(x, 1, correction=correction, keepdim=True))
    variance, mean = compiled(equal)
    assert torch.equal(variance, torch.zeros_like(variance)) and torch.equal(mean, equal[:, :1])
    far = randn(7, 4190).to(dtype) + 1000
    variance, mean = torch.var_mean(far.double() - 1000, 1, correction=correction, keepdim=True)    # no bit is lost
    for found, exact in zip(compiled(far.to(device)), (variance, mean + 1000)):
        torch.testing.assert_close(found.cpu().double(), exact, rtol=32 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("dynamic", (False, True))
@pytest.mark.parametrize("function", (torch.remainder, torch.fmod, torch.pow))
def test_sums_of_function_values_at_strides(function, dynamic):
    """Intel's compiler for CPUs ended the process where it made vectors of such a loop."""
    check(lambda x, y: (y * function(x[1::2].abs(), x[::2].abs() + 1)).sum(), randn(32), randn(16), dynamic=dynamic)
