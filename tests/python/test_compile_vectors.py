"""Generated kernels in explicit vectors, on CPUs: against PyTorch's CPU, and that they are written so."""
import re

import pytest
import torch
import torch.nn.functional as F
from torch._inductor import config
from torch._inductor.utils import run_and_get_code

import torch_ocl.inductor.scheduling as scheduling
import torch_ocl.inductor.vectors as vectors
from comparison import device
from compiled import check

ON_CPU = torch.ocl.get_device_properties(device).kind == "cpu"


def randn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.fixture
def in_vectors(monkeypatch):
    """Whether each kernel that was written is one of vectors."""
    found = []
    former = scheduling.OpenCLScheduling.in_vectors

    def recorded(self, *arguments):
        kernel = former(self, *arguments)
        found.append(kernel is not None)
        return kernel

    monkeypatch.setattr(scheduling.OpenCLScheduling, "in_vectors", recorded)
    monkeypatch.setattr(vectors, "last_cache", lambda: 4)      # all results go past it
    return found


def special(*shape):
    """Numbers with NaN and infinities among them."""
    x = randn(*shape)
    flat = x.view(-1)
    flat[::7], flat[::11], flat[3::13] = float("nan"), float("inf"), -float("inf")
    return x


def functions(x):
    size = x.abs()
    return (x.exp(), size.log(), x.sin(), x.tanh(), x.sigmoid(), F.gelu(x), F.gelu(x, approximate="tanh"), size.sqrt(),
            size.rsqrt(), x.erf(), F.softplus(x), F.silu(x), F.hardswish(x), F.elu(x), size**1.5, F.leaky_relu(x),
            x.floor(), x.round(), x.trunc(), torch.atan2(x, x + 1), F.mish(x), 1 / x, -x)


def comparisons(x):
    return (torch.maximum(x, -x), torch.minimum(x, x * 0), x.relu(), x.sign(), x.isnan(), x.isinf(),
            (x > 0) & (x < 1), (x >= 0) | (x <= -1), x != x, ~(x == 1), torch.where(x > 0, x, 2.0), x.clamp(-1, 1),
            torch.fmax(x, x * 2))


def truths(x, y):
    return x | y, x & ~y, x ^ y, x != y, x == y, x.float(), torch.where(x, 1.0, 2.0), x.any(-1), x.all(-1)


def integers(x):
    return (x * 3 + 1, x - 2, x.float() * 0.5, x.bool(), x & 7, ~x, x | 1, x.abs(), x.sign(), torch.maximum(x, x * 0),
            -x, x > 3, torch.where(x > 3, x, 0))


def whole_rows(x):
    return x.sum(-1), x.prod(-1), x.amax(-1), x.amin(-1), x.isnan().any(-1), x.mean(-1, keepdim=True) + x


@pytest.mark.parametrize("function, arguments", [
    (functions, (randn(33, 64),)),
    (functions, (randn(1003),)),                            # the last vector has fewer elements
    (comparisons, (special(33, 64),)),
    (comparisons, (special(33, 64).double(),)),
    (truths, (randn(33, 64) > 0, randn(33, 64) > 0)),
    (integers, (torch.arange(-1000, 1112, dtype=torch.int32).view(33, 64),)),
    (integers, (torch.arange(-1000, 1112).view(33, 64),)),
    (whole_rows, (randn(9, 40) + 1,)),
    (whole_rows, (special(9, 1000),)),
    (whole_rows, (special(3, 100).double(),)),
    (lambda x: (x.sum(-1), (x * x).mean(-1)), (randn(5, 100_003).abs(),)),      # sums in blocks
    (lambda x: (F.softmax(x * 0.5, -1), F.log_softmax(x, -1)), (randn(33, 197),)),
    (lambda x, w: F.layer_norm(x, (768,), w) + x, (randn(5, 768), randn(768))),
    (lambda w, i: F.layer_norm(F.embedding(i, w), (64,)), (randn(100, 64), torch.arange(27).view(3, 9))),
    (lambda x: x.masked_fill(torch.ones(64, 64, device=x.device, dtype=torch.bool).triu(1), -1e9).softmax(-1),
     (randn(3, 64, 64),)),
    (lambda x: x + torch.arange(64, device=x.device) * 3, (randn(3, 64),)),
    (lambda x: torch.cat([-x[..., 32:], x[..., :32]], -1) * 2, (randn(4, 7, 64),)),
    (lambda x, w, b: F.relu(x * w[:, None, None] + b[:, None, None]), (randn(2, 16, 32, 32), randn(16), randn(16))),
    (lambda x: x[1:] * 2, (randn(1025),)),
    (lambda x: x.mul_(2).add_(1), (randn(64, 64),)),
    (lambda x: x.float() / 255, (torch.arange(2112).view(33, 64).to(torch.uint8),)),
])
def test_in_vectors(function, arguments, in_vectors):
    check(function, *arguments)
    assert not ON_CPU or all(in_vectors)
    check(function, *arguments, dynamic=True)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_short_floats(dtype, in_vectors):
    """One operation each: the CPU rounds between several."""
    x = special(33, 100).to(dtype)
    check(lambda x: (x + 1, x * x, x.relu(), x.amax(-1), x.float(), x > 0, x.exp()), x)
    check(lambda x: x * 1000, torch.tensor([65504.0, 6e-8, -0.0, 1e-5, 300.0]).to(dtype).repeat(20))
    assert not ON_CPU or all(in_vectors)


@pytest.mark.parametrize("length", (33, 48, 50, 64, 127, 128, 129, 160, 197, 208, 256, 300, 1000, 4099))
def test_lengths_of_rows(length, monkeypatch, in_vectors):
    for cache in (4, 1 << 30):
        monkeypatch.setattr(vectors, "last_cache", lambda: cache)
        check(lambda x: (F.softmax(x, -1), F.layer_norm(x, (length,)), x.amax(-1)), randn(5, length))
    check(lambda x: (F.softmax(x, -1), x.sum(-1)), randn(5, length), dynamic=True)
    assert not ON_CPU or all(in_vectors)


CHANNELS = (0, 2, 3)


@pytest.mark.parametrize("shape", [(2, 24, 7, 7), (3, 5, 14, 14), (2, 5, 17, 1), (40, 3, 5, 5), (2, 9, 64, 63),
                                   (2, 3, 32, 32), (70, 2, 33, 31)])
def test_rows_of_planes(shape, in_vectors):
    """Channels of several images: Welford's formula, sums, extremes, values kept for a second pass."""
    x, weight = randn(*shape) * 2 + 3, randn(1, shape[1], 1, 1)
    for dtype in (torch.float32, torch.float64):
        check(lambda x: torch.var_mean(x, CHANNELS, correction=0), x.to(dtype))
        check(lambda x, w: ((x * w).sum(CHANNELS), (x * x).mean(CHANNELS), x.amax(CHANNELS), x.isnan().any(0).any(-1)),
              x.to(dtype), weight.to(dtype))
    check(lambda x: (x - x.amax(CHANNELS, keepdim=True)).exp().sum(CHANNELS), x)
    check(lambda x, w: ((x + w) * 2).sum(CHANNELS), x, randn(shape[0], shape[1], 1, 1))     # a number of each plane
    check(lambda x: (x - x.mean(CHANNELS, keepdim=True)).square().sum(CHANNELS), x, dynamic=True)
    if ON_CPU and shape[0] * shape[2] * shape[3] < 8192:      # longer ones may be cut into parts, which are merged
        assert sum(in_vectors) >= 6


def test_moments_far_from_zero(in_vectors):
    """Neither a large mean nor an element far away costs digits."""
    x = randn(2, 3, 14, 14) + 1000
    x[:, 1, 0, 0] = 1e6
    found = torch.compile(lambda x: torch.var_mean(x, CHANNELS))(x.to(device))
    for ours, exact in zip(found, torch.var_mean(x.double(), CHANNELS)):
        torch.testing.assert_close(ours.cpu().double(), exact, rtol=1e-5, atol=0)
    assert not ON_CPU or all(in_vectors)


@pytest.mark.parametrize("shape", [(2, 24, 7, 7), (3, 5, 14, 14), (2, 4, 32, 32)])
def test_training_of_batch_norms(shape, in_vectors):
    def step(x, weight, bias, mean, variance):
        return F.silu(F.batch_norm(x, mean, variance, weight, bias, training=True)) + 1

    x, weight, bias = (randn(*size).requires_grad_() for size in (shape, shape[1:2], shape[1:2]))
    check(step, x, weight, bias, randn(shape[1]), randn(shape[1]).abs())
    assert not ON_CPU or any(in_vectors)


def test_results_past_the_cache(in_vectors):
    """Large results, aligned and not."""
    for columns in (64, 51):
        x = randn(40, columns)
        check(lambda x: (x * 2 + 1, x.half(), F.softmax(x, -1), x > 0), x)
    check(lambda x: x.view(-1)[1:] * 2, x)
    assert not ON_CPU or all(in_vectors)


def test_the_same_bits_every_run():
    x = randn(7, 5000).to(device)
    function = torch.compile(lambda x: (x.sum(-1), F.softmax(x, -1), x.sum()))
    first = function(x)
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(function(x), first))


@pytest.mark.parametrize("function, shape, asked", [
    (lambda x, w: F.layer_norm(x, x.shape[1:], w), (40, 768), {"in_ptr0 + (3840 + 768*x0) + rindex"}),   # no weights
    (lambda x, w: F.softmax(x + w, -1), (40, 8000), {"in_ptr0 + (8000 + 8000*x0) + rindex"}),
    (lambda x, w: x.sum(-1), (40, 768), set()),                             # a single pass
    (lambda x, w: F.softmax(x, -1), (4, 40_000), set()),                    # rows that would push each other out
])
def test_second_passes_ask_for_later_rows(function, shape, asked):
    torch._dynamo.reset()
    x, w = randn(*shape), randn(shape[1])
    with config.patch(force_disable_caches=True):
        result, (code,) = run_and_get_code(torch.compile(function), x.to(device), w.to(device))
    torch.testing.assert_close(result.cpu(), function(x, w), atol=1e-5, rtol=1.3e-6)
    assert not ON_CPU or set(re.findall(r"PREFETCH\((.*)\);", code)) == asked


def test_later_rows_whose_places_are_read_from_memory_are_not_asked_for():
    """They are known further down only; shifted windows (Swin) are such rows."""
    def function(x, i, j, w):
        return F.layer_norm(x.view(4, 7, 7, 384)[:, i][:, :, j] + 1, (384,), w)

    x, w = randn(4 * 49, 384), randn(384)
    i, j = torch.arange(7).roll(2), torch.arange(7).roll(3)
    check(function, x, i, j, w)


@pytest.mark.parametrize("function, arguments", [
    (lambda x: x.argmax(-1), (randn(33, 64),)),                             # a reduction of another form
    (lambda x, y: x.t() + y, (randn(64, 33), randn(33, 64))),
    (lambda x, i: x[i], (randn(100), torch.arange(64))),                    # an index for each element
    (lambda x: x.sum(0), (randn(64, 64),)),                                 # outputs side by side
    (lambda x: x[:, ::2] * 2, (randn(33, 128),)),
    (lambda x, y: torch.cat([x, y * 2], -1) + 1, (randn(16, 43), randn(16, 21))),       # ends within a vector
    (lambda x: F.pad(x, (3, 13)).amax(-1), (randn(5, 48) - 9,)),
])
def test_left_to_single_elements(function, arguments, in_vectors):
    check(function, *arguments)
    assert not any(in_vectors)
