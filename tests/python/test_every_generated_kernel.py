"""Every form of kernel that torch.compile generates once, on shapes small enough for a simulator (tools/oclgrind.sh),
against PyTorch's CPU. Shapes are odd, so that the ends of rows, tiles and work-groups are met."""
import os

import pytest
import torch
import torch.nn.functional as F
from torch._higher_order_ops.associative_scan import associative_scan
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from compiled import check, gradients, on_device
from since import since
from torch_ocl.inductor import runtime

scans = since("2.14", "scans in one kernel on other devices than CUDA and XPU", torch.__version__ >= (2, 14))


class AtOnce:
    """Builds programs where it is asked to, since the simulator serves one thread."""

    def submit(self, function, *args):
        function(*args)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    if "OCLGRIND_LOG" in os.environ:
        monkeypatch.setattr(runtime, "_builders", AtOnce)


def random(*shape, dtype=torch.float32, grad=True):
    return torch.randn(*shape).to(dtype).requires_grad_(grad)


def indices(limit, *shape):
    return torch.randint(0, limit, shape)


def normed(x, weight, bias):
    """Batch normalisation in training, with its running statistics."""
    mean, var = torch.zeros_like(weight), torch.ones_like(weight)
    return F.batch_norm(x, mean, var, weight, bias, training=True).relu(), mean, var


def stepped(a, b, da, db):
    """What optimizers do: the same for several tensors."""
    a, b = torch._foreach_sub([a, b], torch._foreach_mul([da, db], 0.5))
    return a.tanh(), b.tanh()


CASES = {
    "rows": (lambda a, b: torch.sigmoid(a) * b + b.exp(), [random(5, 33), random(33)]),
    "short rows": (lambda a, b: F.gelu(a + b), [random(11, 3), random(11, 1)]),
    "across rows": (lambda a, b: a.t() * 2 + b, [random(35, 20), random(20, 35)]),
    "strides": (lambda a: a[:, ::2, 1:].exp().flip(1), [random(4, 9, 7)]),
    "joined": (lambda a, b: F.pad(torch.cat([a, b * 2], 1), (1, 2), value=3.0).cos(), [random(3, 18), random(3, 19)]),
    "float16": (lambda a, b: a * b + 1, [random(3, 37, dtype=torch.float16), random(37, dtype=torch.float16)]),
    "bfloat16": (lambda a, b: F.silu(a) * b, [random(3, 37, dtype=torch.bfloat16), random(37, dtype=torch.bfloat16)]),
    "integers": (lambda a, b: (a // b, a % b, (a ^ b) << 2, (a * b).to(torch.int8)),
                 [torch.arange(-20, 20), torch.arange(1, 41)]),
    "booleans": (lambda a, b: (torch.where((a > 0) & ~(b > 0), a, b), (a > b).any(1)), [random(7, 40), random(7, 40)]),
    "float64": (lambda a: (a.tanh() + 1).log().sum(1), [random(5, 70, dtype=torch.float64)]),
    "sum of all": (lambda a: (a * a).sum(), [random(17, 41)]),
    "sums of rows": (lambda a: (a.sum(1), a.amax(1), a.prod(1)), [random(5, 300)]),
    "sums of short rows": (lambda a: (a.mean(1), a.amin(1)), [random(70, 9)]),
    "sums of columns": (lambda a: (a.sum(0), a.var(0)), [random(65, 33)]),
    "places": (lambda a: (a.argmax(1), a.argmin(0), a.max(1)[0]), [random(33, 70)]),
    "small places": (lambda a: (a.argmax(1), a.amax(1)), [torch.randint(-9, 9, (5, 300), dtype=torch.int16)]),
    "softmax": (lambda a: F.log_softmax(a * 2, 1), [random(5, 300)]),
    "softmax of columns": (lambda a: F.softmax(a, 0), [random(40, 33)]),
    "layer norm": (lambda a, w, b: F.layer_norm(a, (70,), w, b).relu(), [random(9, 70), random(70), random(70)]),
    "group norm": (lambda a, w, b: F.group_norm(a, 2, w, b), [random(3, 6, 5, 7), random(6), random(6)]),
    "batch norm": (normed, [random(3, 5, 6, 7), random(5), random(5)]),
    "channels last": (lambda a, w, b: normed(a.contiguous(memory_format=torch.channels_last), w, b)[0],
                      [random(3, 5, 6, 7), random(5), random(5)]),
    "loss": (lambda a, t: F.cross_entropy(a, t, label_smoothing=0.1), [random(9, 37), indices(37, 9)]),
    "embedding": (lambda w, i: F.embedding(i, w) * 2, [random(11, 33), indices(11, 4, 3)]),
    "gather": (lambda a, i: a.gather(1, i) + a, [random(5, 33), indices(33, 5, 33)]),
    "scatter": (lambda a, i, b: a.scatter(1, i, b) * 3, [random(5, 33, grad=False), torch.arange(5)[:, None],
                                                         random(5, 1, grad=False)]),
    "pooling": (lambda a: F.avg_pool2d(a.relu(), 3, 2, 1), [random(2, 3, 9, 11)]),
    "largest of windows": (lambda a: F.max_pool2d(a.relu(), 3, 2, 1), [random(2, 3, 9, 11)]),
    "interpolation": (lambda a: F.interpolate(a, scale_factor=2, mode="bilinear") + 1,
                      [random(2, 3, 5, 7, grad=False)]),
    "several tensors": (stepped, [random(3, 7), random(33), random(3, 7), random(33)]),
    "linear": (lambda a, w, b: F.gelu(F.linear(a, w, b)), [random(5, 12), random(9, 12), random(9)]),
}


# PyTorch's own, but for sums of products that eager code rounds on the way.
TOLERANCES = {"float16": dict(rtol=1e-3, atol=2e-3), "bfloat16": dict(rtol=1.6e-2, atol=1e-2)}


@pytest.mark.parametrize("name", CASES)
def test_form(name):
    function, tensors = CASES[name]
    check(function, *tensors, **TOLERANCES.get(name, {}))


def test_sizes_as_arguments():
    def function(a, b):
        return F.softmax(a * b, 1), (a + b).sum(0)
    check(function, random(5, 70), random(70), dynamic=True)


@scans
@pytest.mark.parametrize("length", [37, 300])
def test_scan(length):
    def recurrence(x, y):
        return y[0] * x[0], y[0] * x[1] + y[1]

    def function(a, b):
        a, b = associative_scan(recurrence, (a.sigmoid(), b), dim=1)
        return associative_scan(torch.maximum, b, dim=1, reverse=True) + a

    a, b = random(3, length, grad=False), random(3, length, grad=False)
    torch._dynamo.reset()
    found = torch.compile(function, fullgraph=True)(on_device(a), on_device(b)).cpu()
    weights, so_far, states = a.sigmoid(), torch.zeros(3), []
    for place in range(length):
        so_far = weights[:, place] * so_far + b[:, place]
        states.append(so_far)
    expected = torch.stack(states, 1).flip(1).cummax(1)[0].flip(1) + weights.cumprod(1)
    torch.testing.assert_close(found, expected)


def test_random_numbers():
    torch._dynamo.reset()
    x, y = torch.compile(lambda x: (torch.rand_like(x), F.dropout(x, 0.25)))(torch.ones(301, device="ocl"))
    assert 0 <= x.min() and x.max() < 1 and x.unique().numel() > 250
    torch.testing.assert_close(y[y != 0].unique().cpu(), torch.tensor([4 / 3]))


def test_flex_attention():
    def score(score, b, h, q, k):
        return score + (q - k) * 0.125

    def causal(b, h, q, k):
        return q >= k

    tensors = [random(1, 2, 40, 16) for _ in range(3)]
    ours = [on_device(t) for t in tensors]
    torch._dynamo.reset()
    places = torch.arange(40)
    bias = ((places[:, None] - places) * 0.125).masked_fill(places[:, None] < places, -torch.inf)
    expected = F.scaled_dot_product_attention(*tensors, attn_mask=bias)
    mask = create_block_mask(causal, None, None, 40, 40, device="ocl")
    found = torch.compile(flex_attention)(*ours, score_mod=score, block_mask=mask)
    torch.testing.assert_close(found.cpu(), expected)
    for a, b in zip(gradients(found, ours), gradients(expected, tensors)):
        torch.testing.assert_close(a.cpu(), b)
