"""Pooling against PyTorch on the CPU: results, indices, gradients, layouts."""
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from comparison import compare_gradients, device

plain, last, last3 = torch.contiguous_format, torch.channels_last, torch.channels_last_3d


def compare(function, x, strides=True):
    compare_gradients(function, x, strides=strides)


windows = [dict(kernel_size=3, stride=2, padding=1), dict(kernel_size=2), dict(kernel_size=(3, 2), stride=(1, 2)),
           dict(kernel_size=3, stride=2, ceil_mode=True), dict(kernel_size=5, stride=1, padding=2)]


@pytest.mark.parametrize("layout, channels", [(plain, 3), (last, 3), (last, 32)])
@pytest.mark.parametrize("window", windows + [dict(kernel_size=3, stride=2, dilation=2)])
def test_max_pool2d(window, layout, channels):
    x = torch.randn(2, channels, 13, 11).to(memory_format=layout)
    compare(lambda t: F.max_pool2d(t, return_indices=True, **window), x)


# Maxima without positions, which is what nobody differentiates: rows longer than what a CPU's kernel takes at once,
# rows shorter than a vector, windows partly and, by dilation, mostly in padding.
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64,
                                   torch.int32, torch.int16, torch.int8, torch.uint8])
@pytest.mark.parametrize("window", windows + [
    dict(kernel_size=2, stride=1), dict(kernel_size=3, stride=1, padding=1, dilation=2), dict(kernel_size=3, stride=3),
    dict(kernel_size=(1, 7), stride=(1, 4), padding=(0, 3), dilation=(1, 2), ceil_mode=True),
    dict(kernel_size=(5, 9), stride=(2, 2), padding=(2, 4))])
@pytest.mark.parametrize("shape, layout", [((2, 5, 9, 8), plain), ((1, 3, 33, 100), plain), ((1, 2, 6, 2600), plain),
                                           ((2, 19, 17, 33), last), ((3, 20, 19), plain)])
def test_maxima_alone(shape, layout, window, dtype):
    x = torch.randn(shape) * 50
    if dtype.is_floating_point:
        for value, step in ((float("nan"), 37), (-float("inf"), 29), (float("inf"), 31)):
            x.view(-1)[::step] = value
    x = x.to(dtype).to(memory_format=layout)
    # PyTorch's CPU counts pixels of tensors with channels innermost in their own dtype.
    want = F.max_pool2d(x.int() if dtype.itemsize == 1 else x, **window).to(dtype)
    got = F.max_pool2d(x.to(device), **window)
    assert got.stride() == want.stride()
    assert_close(got.cpu(), want, rtol=0, atol=0, equal_nan=True)
    with torch.inference_mode():
        assert_close(F.max_pool2d(x.to(device), **window).cpu(), want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("pool, shape", [(F.max_pool1d, (3, 7, 5000)), (F.max_pool1d, (7, 30)),
                                         (F.max_pool3d, (2, 3, 5, 6, 40)), (F.max_pool3d, (3, 7, 6, 9))])
@pytest.mark.parametrize("arguments", [(2,), (3, 2), (3, 1, 1), (3, 2, 1, 2, True)])
def test_maxima_alone_of_other_ranks(pool, shape, arguments):
    x = torch.randn(shape)
    assert torch.equal(pool(x.to(device), *arguments).cpu(), pool(x, *arguments))
    if len(shape) == 5:
        x = x.to(memory_format=last3)
        got, want = pool(x.to(device), *arguments), pool(x, *arguments)
        assert torch.equal(got.cpu(), want) and got.stride() == want.stride()
    compare(lambda t: pool(t, *arguments), x)


def test_maxima_that_somebody_watches():
    x, tangent = torch.randn(3, 2, 8, 9), torch.randn(3, 2, 8, 9)
    pool = lambda t: F.max_pool2d(t, 3, 1, 1)
    on_device = x.to(device)
    assert torch.equal(torch.func.vmap(pool)(on_device).cpu(), torch.func.vmap(pool)(x))
    got, want = torch.func.jvp(pool, (on_device,), (tangent.to(device),)), torch.func.jvp(pool, (x,), (tangent,))
    assert torch.equal(got[0].cpu(), want[0]) and torch.equal(got[1].cpu(), want[1])
    got = torch.func.grad(lambda t: pool(t).sum())(on_device)
    assert_close(got.cpu(), torch.func.grad(lambda t: pool(t).sum())(x))
    graph = torch.fx.experimental.proxy_tensor.make_fx(pool)(on_device)
    assert any(n.target is torch.ops.aten.max_pool2d_with_indices.default for n in graph.graph.nodes)


@pytest.mark.parametrize("call", [lambda t: F.max_pool1d(t, 3, padding=2), lambda t: F.max_pool1d(t, 9),
                                  lambda t: F.max_pool1d(t[0, 0], 2), lambda t: F.max_pool2d(t, 2, padding=2)])
def test_maxima_alone_refuse_as_the_cpu(call):
    x = torch.randn(2, 3, 8)
    with pytest.raises(RuntimeError) as expected:
        call(x)
    with pytest.raises(RuntimeError) as got:
        call(x.to(device))
    assert str(got.value).split("\n")[0] == str(expected.value).split("\n")[0]


@pytest.mark.parametrize("layout, channels", [(plain, 3), (last, 20)])
@pytest.mark.parametrize("extra", [{}, dict(count_include_pad=False), dict(divisor_override=7),
                                   dict(divisor_override=-3)])
@pytest.mark.parametrize("window", windows)
def test_avg_pool2d(window, extra, layout, channels):
    x = torch.randn(2, channels, 13, 11).to(memory_format=layout)
    compare(lambda t: F.avg_pool2d(t, **window, **extra), x)


@pytest.mark.parametrize("layout, channels", [(plain, 3), (last, 20)])
@pytest.mark.parametrize("size", [1, 5, (3, 7), (None, 4), 16])
def test_adaptive_pool2d(size, layout, channels):
    x = torch.randn(2, channels, 9, 11).to(memory_format=layout)
    compare(lambda t: F.adaptive_avg_pool2d(t, size), x)
    compare(lambda t: F.adaptive_max_pool2d(t, size, return_indices=True), x)


# CPUs add up columns of a row of windows first, as vectors, where there are planes for all cores.
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("pool", [lambda t: F.adaptive_avg_pool2d(t, 7), lambda t: F.adaptive_avg_pool2d(t, (5, 60)),
                                  lambda t: F.avg_pool2d(t, 5, 6, 2, count_include_pad=False),
                                  lambda t: F.max_pool2d(t, 3, 2, 1)])
@pytest.mark.parametrize("layout", [plain, last])
def test_gradients_of_many_planes(pool, dtype, layout):
    x = torch.randn(8, 40, 28, 41).to(dtype).to(memory_format=layout)
    want, got = x.double().clone().requires_grad_(), x.to(device).requires_grad_()
    y = pool(want)
    g = torch.randn(y.shape).to(dtype)
    y.backward(g.double())
    result = pool(got)
    result.backward(g.to(device))
    assert_close(result.detach().cpu(), y.detach().to(dtype))
    assert_close(got.grad.cpu(), want.grad.to(dtype))


@pytest.mark.parametrize("layout, channels", [(plain, 3), (last3, 20)])
def test_three_dimensions(layout, channels):
    x = torch.randn(2, channels, 6, 7, 8).to(memory_format=layout)
    compare(lambda t: F.max_pool3d(t, 3, 2, 1, return_indices=True), x)
    compare(lambda t: F.max_pool3d(t, (1, 2, 3), ceil_mode=True, return_indices=True), x)
    compare(lambda t: F.avg_pool3d(t, 3, 2, 1, count_include_pad=False), x)
    compare(lambda t: F.avg_pool3d(t, 2, divisor_override=3), x)
    # PyTorch's own CPU kernel answers row-major here; ours keeps channels_last.
    compare(lambda t: F.adaptive_avg_pool3d(t, (3, 2, 5)), x, strides=False)
    compare(lambda t: F.adaptive_max_pool3d(t, (3, 2, 5), return_indices=True), x)


def test_one_dimension_and_no_batch():
    compare(lambda t: F.max_pool1d(t, 3, 2, 1), torch.randn(2, 3, 17))
    compare(lambda t: F.avg_pool1d(t, 3, 2, 1), torch.randn(3, 17))
    compare(lambda t: F.adaptive_avg_pool1d(t, 5), torch.randn(2, 3, 17))
    compare(lambda t: F.adaptive_max_pool1d(t, 5), torch.randn(2, 3, 17))
    compare(lambda t: F.max_pool2d(t, 2, return_indices=True), torch.randn(3, 8, 8))
    compare(lambda t: F.avg_pool2d(t, 2), torch.randn(3, 8, 8))
    compare(lambda t: F.max_pool3d(t, 2), torch.randn(3, 4, 8, 8))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_dtypes(dtype):
    x = torch.randn(2, 20, 9, 9).to(dtype)
    for layout in (plain, last):
        compare(lambda t: F.max_pool2d(t, 3, 2, 1), x.to(memory_format=layout))
        compare(lambda t: F.avg_pool2d(t, 3, 2, 1), x.to(memory_format=layout))
        compare(lambda t: F.adaptive_avg_pool2d(t, 4), x.to(memory_format=layout))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_integers(dtype):
    x = torch.randint(0, 100, (2, 3, 9, 9), dtype=dtype)
    assert torch.equal(F.max_pool2d(x.to(device), 3, 2, 1).cpu(), F.max_pool2d(x, 3, 2, 1))
    if dtype == torch.int64:
        assert torch.equal(F.avg_pool2d(x.to(device), 3, 2, 1).cpu(), F.avg_pool2d(x, 3, 2, 1))


@pytest.mark.parametrize("layout", [plain, last])
def test_not_a_number_and_infinity(layout):
    x = torch.randn(2, 16, 8, 8)
    x[:, :, 2, 3] = float("nan")
    x[:, :, 5:] = -float("inf")
    x = x.to(memory_format=layout)
    y, i = F.max_pool2d(x, 3, 1, 1, return_indices=True)
    z, j = F.max_pool2d(x.to(device), 3, 1, 1, return_indices=True)
    assert_close(z.cpu(), y, equal_nan=True)
    assert torch.equal(i, j.cpu())


def test_empty_batch_and_errors():
    assert F.max_pool2d(torch.empty(0, 3, 8, 8, device=device), 2).shape == (0, 3, 4, 4)
    assert F.adaptive_avg_pool2d(torch.empty(0, 3, 8, 8, device=device), 2).shape == (0, 3, 2, 2)
    x = torch.randn(1, 2, 4, 4)
    for call in (lambda t: F.max_pool2d(t, 2, padding=2), lambda t: F.avg_pool2d(t, 0), lambda t: F.max_pool2d(t, 7),
                 lambda t: F.adaptive_avg_pool2d(t[0, 0], 2), lambda t: F.max_pool3d(t, 9),
                 lambda t: F.adaptive_avg_pool2d(t[:, :, :0], 2)):
        with pytest.raises(RuntimeError) as expected:
            call(x)
        with pytest.raises(RuntimeError) as got:
            call(x.to(device))
        assert str(got.value).split("\n")[0] == str(expected.value).split("\n")[0]


@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (3, 8, 8), (2, 3, 4, 8, 8)])
def test_max_unpool(shape):
    rank = 2 if len(shape) < 5 else 3
    pool, unpool = getattr(F, f"max_pool{rank}d"), getattr(F, f"max_unpool{rank}d")
    x = torch.randn(shape)
    y, indices = pool(x, 2, return_indices=True)
    a, b = y.clone().requires_grad_(), y.to(device).requires_grad_()
    expected, got = unpool(a, indices, 2), unpool(b, indices.to(device), 2)
    assert_close(got.cpu(), expected)
    g = torch.randn_like(expected)
    assert_close(torch.autograd.grad(got, b, g.to(device))[0].cpu(), torch.autograd.grad(expected, a, g)[0])


def test_unpooling_into_one_place():
    """Of several elements the last one wins; many planes, of which some stay empty."""
    for planes, dtype in ((300, torch.float32), (2, torch.float16)):
        x, indices = torch.randn(planes, 1, 8, 8).to(dtype), torch.randint(0, 40, (planes, 1, 8, 8))
        expected = torch.zeros(planes, 256, dtype=dtype)
        for i in range(64):
            expected[torch.arange(planes), indices.view(planes, 64)[:, i]] = x.view(planes, 64)[:, i]
        got = F.max_unpool2d(x.to(device), indices.to(device), 2)
        assert torch.equal(got.cpu().view(planes, 256), expected)


def test_max_unpool_reports_a_wild_index():
    with pytest.raises(RuntimeError, match="out of bounds"):
        F.max_unpool2d(torch.ones(1, 1, 1, 1).to(device), torch.full((1, 1, 1, 1), 100).to(device), 2).cpu()


@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_max_pool(rank):
    x = torch.randn((2, 3) + (9, 10, 11)[-rank:])
    samples = torch.rand(2, 3, rank)
    pool = getattr(F, f"fractional_max_pool{rank}d")
    compare(lambda t: pool(t, 2, output_size=5, _random_samples=samples.to(t.device), return_indices=True), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (40, 3, 31, 33), (1, 5, 8, 4), (3, 2, 64)])
def test_maxima_of_whole_planes(shape, dtype):
    """Of equal elements the first, of NaN the last."""
    torch.manual_seed(0)
    x = torch.randint(-4, 5, shape).to(dtype)
    x[0, 1].fill_(-torch.inf)
    x[-1, 0].view(-1)[torch.tensor([3, 5, 20])] = torch.nan
    x[0, 0].view(-1)[-1] = torch.nan
    pool = F.adaptive_max_pool2d if len(shape) == 4 else F.adaptive_max_pool1d
    for source in (x, x[..., 1:]):
        for got, expected in zip(pool(source.to(device), 1, return_indices=True), pool(source, 1, return_indices=True)):
            torch.testing.assert_close(got.cpu(), expected, rtol=0, atol=0, equal_nan=True)


def test_channel_and_pixel_shuffle():
    x = torch.randn(2, 12, 4, 5)
    for layout in (plain, last):
        for function in (lambda t: F.channel_shuffle(t, 3), lambda t: F.pixel_shuffle(t, 2),
                         lambda t: F.pixel_unshuffle(F.pixel_shuffle(t, 2), 2)):
            compare(function, x.to(memory_format=layout), strides=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8, torch.int64])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_windows_wholly_in_padding(dims, dtype):
    """Dilated windows may miss every element: the maximum of none is the lowest number."""
    pool, layouts = getattr(F, f"max_pool{dims}d"), {1: (plain,), 2: (plain, last), 3: (plain, last3)}[dims]
    for size, channels in ((1, 2), (2, 17), (20, 3)):
        x = torch.randint(0, 9, (2, channels) + (size,) * dims if dims < 3 else (2, channels, 2, size, size)).to(dtype)
        for kernel, padding, dilation, stride in ((2, 1, 3, 1), (2, 2, 4, 1), (3, 2, 2, 3), (3, 4, 4, 2)):
            for ceil_mode in (False, True):
                window = dict(stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode,
                              return_indices=True)
                try:
                    expected, where = pool(x, kernel, **window)
                except RuntimeError:   # no output is left
                    with pytest.raises(RuntimeError):
                        pool(x.to(device), kernel, **window)
                    continue
                for layout in layouts:
                    actual, indices = pool(x.to(device, memory_format=layout), kernel, **window)
                    assert torch.equal(actual.cpu(), expected) and torch.equal(indices.cpu(), where)


@pytest.mark.parametrize("batch", [(), (2,)])
def test_layouts_of_three_dimensions(batch):
    """Results and gradients keep channels_last, also without a batch."""
    x = torch.randn(batch + (4, 6, 6, 6)).to(memory_format=last3) if batch else \
        torch.randn(1, 4, 6, 6, 6).to(memory_format=last3)[0]
    for function in (lambda t: F.max_pool3d(t, 2, return_indices=True), lambda t: F.avg_pool3d(t, 2),
                     lambda t: F.adaptive_max_pool3d(t, 3, return_indices=True),
                     lambda t: F.pad(t, (1,) * 6, mode="reflect"), lambda t: F.pad(t, (1,) * 6, mode="replicate")):
        compare(function, x)


@pytest.mark.parametrize("samples", [(0, 4, 2), (2, 3, 2), (2, 4, 3)])
def test_fractional_max_pool_refuses_wrong_samples(samples):
    x = torch.randn(2, 4, 8, 8, device="ocl")
    with pytest.raises(RuntimeError, match="Expect _random_samples"):
        F.fractional_max_pool2d(x, 2, output_size=3, _random_samples=torch.rand(samples, device="ocl"))


def test_layouts_of_results():
    """Strides as the CPU's: channels stay innermost where it keeps them, forward and backward."""
    image = torch.randn(2, 8, 6, 6).to(memory_format=torch.channels_last)
    volume = torch.randn(2, 3, 4, 6, 6).to(memory_format=torch.channels_last_3d)
    calls = [(image, lambda x: F.pixel_shuffle(x, 2)), (image, lambda x: F.pixel_unshuffle(x, 3)),
             (image.contiguous(), lambda x: F.pixel_shuffle(x, 2)), (image[0], lambda x: F.pixel_shuffle(x, 2)),
             (image[:, :, ::2, 1:], lambda x: F.pixel_shuffle(x, 2)), (volume[0], lambda x: F.pixel_unshuffle(x, 2)),
             (volume.contiguous()[:, :, ::2], lambda x: F.pixel_unshuffle(x, 3)),
             *((source, lambda x, pool=pool: pool(x, 2)) for source, pool in (
                 (image, F.avg_pool2d), (image, F.max_pool2d), (image, F.adaptive_avg_pool2d),
                 (image, F.adaptive_max_pool2d), (volume, F.avg_pool3d), (volume, F.max_pool3d),
                 (volume, F.adaptive_avg_pool3d), (volume, F.adaptive_max_pool3d)))]
    for number, (source, call) in enumerate(calls):
        results = []
        for where in ("cpu", device):
            x = source.to(where, copy=True).detach().requires_grad_()
            y = call(x)
            y.backward(torch.ones_like(y) if where == "cpu" else torch.ones_like(results[0]).to(where))
            results += [y.detach(), x.grad]
        for actual, expected in zip(results[2:], results[:2]):
            assert actual.stride() == expected.stride(), number
            assert_close(actual.cpu(), expected)
    for call in (lambda x: F.pixel_shuffle(x, 3), lambda x: F.pixel_unshuffle(x, 4), lambda x: F.pixel_shuffle(x, -1)):
        with pytest.raises(RuntimeError, match="pixel_"):
            call(image.to(device))


def test_even_windows_of_more_places_than_32_bits_count():
    compare(lambda t: F.adaptive_avg_pool1d(t, 65000), torch.randn(1, 1, 70000))
