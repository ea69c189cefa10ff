"""torch.nn.attention.flex_attention on the device, eager and compiled, against its definition in float64."""
import math

import pytest
import torch
from torch._inductor import config
from torch._inductor.utils import run_and_get_code
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

from compiled import on_device

pytestmark = pytest.mark.filterwarnings("ignore")


def definition(q, k, v, score_mod=None, mask_mod=None):
    """The output and the logarithm of the sum, by the whole matrix of scores."""
    q, k, v = (t.double() for t in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = (t.expand(q.shape[0], *t.shape[1:]).repeat_interleave(group, 1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    b, h, i, j = (torch.arange(n).view([-1 if d == at else 1 for d in range(4)]) for at, n in enumerate(scores.shape))
    if score_mod is not None:
        scores = score_mod(scores, b, h, i, j)
    if mask_mod is not None:
        scores = scores.masked_fill(~mask_mod(b, h, i, j), -math.inf)
    return torch.softmax(scores, -1).nan_to_num() @ v, torch.logsumexp(scores, -1)


def causal(b, h, i, j):
    return i >= j


def tensors(dtype=torch.float32, batch=2, heads=4, key_heads=2, queries=90, keys=70, size=16, value_size=24):
    shapes = ((batch, heads, queries, size), (batch, key_heads, keys, size), (batch, key_heads, keys, value_size))
    return [torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]


def check(given, make_score_mod=None, make_mask_mod=None, captured=(), block=32, compiled=True, dynamic=False,
          **tolerances):
    """Outputs and gradients. make_...: functions of the captured tensors. Gives the code that was generated."""
    ours, theirs = [on_device(t) for t in given], [t.detach().double().requires_grad_() for t in given]
    ours_captured = [on_device(t) for t in captured]
    their_captured = [t.detach().clone().requires_grad_(t.requires_grad) for t in captured]
    score_mods = [make_score_mod and make_score_mod(*c) for c in (ours_captured, their_captured)]
    mask_mods = [make_mask_mod and make_mask_mod(*c) for c in (ours_captured, their_captured)]
    mask = None
    if make_mask_mod:
        mask = create_block_mask(mask_mods[0], given[0].shape[0], None, given[0].shape[2], given[1].shape[2],
                                 device="ocl", BLOCK_SIZE=block)
    code = ""
    function = flex_attention
    with config.patch(force_disable_caches=True):
        if compiled:
            torch._dynamo.reset()
            function = torch.compile(flex_attention, fullgraph=True, dynamic=dynamic)

        def step():
            out, lse = function(*ours, score_mod=score_mods[0], block_mask=mask, enable_gqa=True, return_lse=True)
            wanted = [t for t in (*ours, *ours_captured) if t.requires_grad]
            if wanted:
                torch.autograd.backward((out, lse), (torch.ones_like(out), 0.25 * lse.detach()))
            return out, lse, *(t.grad for t in wanted)

        actual, code = run_and_get_code(step)
    out, lse = definition(*theirs, score_mods[1], mask_mods[1])
    wanted = [t for t in (*theirs, *their_captured) if t.requires_grad]
    lse_gradient = torch.where(lse.isinf(), 0, 0.25 * lse.detach())
    gradients = torch.autograd.grad((out, lse), wanted, (torch.ones_like(out), lse_gradient)) if wanted else ()
    for a, b in zip(actual, (out, lse, *gradients)):
        torch.testing.assert_close(a.detach().cpu(), b.detach().to(a.dtype), **tolerances)
    return "".join(code)


def alibi(slopes, *_):
    return lambda score, b, h, i, j: score + slopes[h] * (j - i)


def capped(_, table):
    return lambda score, b, h, i, j: 5 * torch.tanh(score / 5) + table[b, i] * 0.1


def test_eager(device):
    check(tensors(), alibi, lambda *_: causal, (torch.rand(4),), compiled=False)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16))
def test_compiled_forward_and_backward(device, dtype):
    tolerance = 1e-2 if dtype == torch.float16 else 1e-4
    code = check(tensors(dtype), capped, lambda *_: causal, (torch.rand(4), torch.randint(0, 9, (2, 90))),
                 rtol=tolerance,
                 atol=tolerance)
    assert all(f"ocl_flex_{name}" in code for name in ("forward", "backward_queries", "backward_keys"))


def test_a_short_sum_in_a_score(device):
    """By the distance of two points, whose coordinates are few enough to be written out."""
    def near(places):
        return lambda score, b, h, i, j: score * torch.exp(-(places[i] - places[j]).square().sum(-1))

    code = check(tensors(batch=1, heads=2, queries=40, keys=40), near, None, (torch.randn(40, 3),), rtol=1e-4,
                 atol=1e-4)
    assert all(f"ocl_flex_{name}" in code for name in ("forward", "backward_queries", "backward_keys"))


def test_a_long_sum_in_a_score(device):
    """As latent attention has it for places. No kernel computes it for a score: it is left to the definition."""
    def alike(left, right):
        return lambda score, b, h, i, j: score + (left[h, i] * right[j]).sum(-1)

    code = check(tensors(batch=1, heads=2, queries=40, keys=30), alike, lambda *_: causal,
                 (torch.randn(2, 40, 12), torch.randn(30, 12)), rtol=1e-4, atol=1e-4)
    assert "ocl_flex" not in code


def test_gradients_of_captured_tensors(device):
    """These are left to the definition; statistics of the kernels are float32."""
    code = check(tensors(torch.float64), lambda slopes: lambda score, b, h, i, j: score * slopes[h], None,
                 (torch.rand(4, dtype=torch.float64, requires_grad=True),), rtol=1e-5, atol=1e-5)
    assert "ocl_flex_forward" in code and "ocl_flex_backward_keys" not in code


def test_gradients_of_captured_tensors_of_another_dtype(device):
    """vmap has no rule for the conversion that Inductor makes of `float()`: it would go element by element."""
    code = check(tensors(torch.float16, batch=1, heads=2, key_heads=1, queries=20, keys=20, value_size=16),
                 lambda gate: lambda score, b, h, i, j: score * torch.sigmoid(gate[h].float()), None,
                 (torch.randn(2, dtype=torch.float16, requires_grad=True),), rtol=1e-2, atol=1e-2)
    assert "ocl_flex_forward" in code


def test_dynamic_shapes(device):
    compiled = torch.compile(flex_attention, fullgraph=True, dynamic=True)
    torch._dynamo.reset()
    for queries, keys in ((40, 50), (70, 33), (33, 64)):
        q, k, v = tensors(queries=queries, keys=keys)
        mask = create_block_mask(causal, None, None, queries, keys, device="ocl", BLOCK_SIZE=32)
        out = compiled(*(on_device(t) for t in (q, k, v)), block_mask=mask, enable_gqa=True)
        torch.testing.assert_close(out.detach().cpu(), definition(q, k, v, None, causal)[0].float())


def test_hidden_blocks_are_not_read_and_statistics(device):
    q, k, v = (t.detach() for t in tensors(queries=64, keys=128))
    mask = create_block_mask(lambda b, h, i, j: (j < 32) & (i > 5), None, None, 64, 128, device="ocl", BLOCK_SIZE=32)
    poisoned = [t.clone().index_fill_(2, torch.arange(32, 128), math.nan) for t in (k, v)]
    torch._dynamo.reset()
    out, aux = torch.compile(flex_attention, fullgraph=True)(
        *(on_device(t) for t in (q, *poisoned)), block_mask=mask, enable_gqa=True,
        return_aux=AuxRequest(lse=True, max_scores=True))
    expected, lse = definition(q, k[:, :, :32], v[:, :, :32], None, lambda b, h, i, j: i + 0 * j > 5)
    torch.testing.assert_close(out.cpu(), expected.float())
    torch.testing.assert_close(aux.lse.cpu(), lse.float())
    scores = (q @ k[:, :, :32].repeat_interleave(2, 1).transpose(-1, -2) / 4).amax(-1)
    torch.testing.assert_close(aux.max_scores.cpu()[:, :, 6:], scores[:, :, 6:])


def test_blocks_that_tiles_do_not_fit(device):
    """Masks of odd blocks, broadcast keys and other layouts."""
    q, k, v = tensors(batch=3, key_heads=4)
    q, k, v = q.detach().transpose(2, 3).contiguous().transpose(2, 3).requires_grad_(), k[:1].detach(), v[:1].detach()
    given = [q, k.requires_grad_(), v.requires_grad_()]
    assert "ocl_flex_forward" in check(given, None, lambda: causal, rtol=1e-4, atol=1e-4)
    code = check(given, None, lambda: causal, block=24, rtol=1e-4, atol=1e-4)
    assert ("ocl_flex_forward" in code) == on_cpu()     # kernels for GPUs want multiples of 16


def on_cpu():
    return torch.ocl.get_device_properties(0).kind == "cpu"


# Functions of captured tensors, and whether CPU devices compute them in vectors of scores.
MODIFICATIONS = {
    "documents": (None, lambda places, *_: lambda b, h, i, j: places[i] // 3 == places[j] // 3, True),
    "window": (None, lambda *_: lambda b, h, i, j: (i - j <= 9) & (i >= j) | (j < 3), True),
    "image": (None, lambda *_: lambda b, h, i, j: ((i // 8 - j // 8).abs() <= 2) & ((i % 8 - j % 8).abs() <= 3), True),
    "far places": (None, lambda *_: lambda b, h, i, j: (i + 5 <= j) | (j + 5 <= i) | (i == j), True),
    "bits": (None, lambda *_: lambda b, h, i, j: ((i >> 1) & 21) >= ((j << 1) & 21), True),
    "bias": (lambda _, bias, *__: lambda score, b, h, i, j: score * 0.5 + bias[h, i, j], None, True),
    "bias of keys": (lambda _, bias, *__: lambda score, b, h, i, j: score - bias[h, 0, j].exp(), None, True),
    "distance": (lambda _, bias, *__: lambda score, b, h, i, j: score + bias[h, 1, (i - j).abs().clamp(max=60)], None,
                 True),
    "shown": (None, lambda _, __, shown: lambda b, h, i, j: shown[b, i, j] | (i == j), True),
    "columns shown": (None, lambda _, __, shown: lambda b, h, i, j: shown[b, j, i.clamp(max=69)] & (h < 3), True),
    "capped": (lambda *_: lambda score, b, h, i, j: torch.where(score > 0, 4 * torch.tanh(score / 4),
                                                                 0.2 * score.abs()), None, True),
    "Bessel's function": (lambda *_: lambda score, b, h, i, j: torch.special.i0(score) + 0.1 * (j > i),
                          lambda *_: lambda b, h, i, j: (i >> 3) >= (j >> 3), False),
}


def captured_tensors():
    generator = torch.Generator().manual_seed(7)
    return (torch.arange(90) // 5, torch.randn(4, 90, 70, generator=generator),
            torch.rand(2, 90, 90, generator=generator) < 0.6)


@pytest.mark.parametrize("name", MODIFICATIONS)
@pytest.mark.parametrize("dynamic", (False, True))
def test_functions_in_vectors_of_scores(device, name, dynamic):
    score_mod, mask_mod, in_vectors = MODIFICATIONS[name]
    code = check(tensors(), score_mod, mask_mod, captured_tensors(), dynamic=dynamic, rtol=1e-4, atol=1e-4)
    assert "ocl_flex_forward" in code
    assert ("#define FLEX_BY_LANE" in code) == (on_cpu() and not in_vectors)


@pytest.mark.parametrize("dtype", (torch.float64, torch.bfloat16, torch.float16))
@pytest.mark.parametrize("name", ("documents", "bias", "Bessel's function"))
def test_functions_of_scores_of_other_dtypes(device, name, dtype):
    score_mod, mask_mod, _ = MODIFICATIONS[name]
    tolerance = {torch.float64: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}[dtype]
    check(tensors(dtype, queries=33, keys=21, size=20, value_size=8), score_mod, mask_mod, captured_tensors(),
          rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("block", ((32, 64), (48, 20), (1, 128), (128, 7), (200, 1000)))
def test_blocks_of_any_size(device, block):
    """Larger heads than a tile's vectors, one panel of rows and several, and blocks that no tile divides."""
    given = tensors(heads=3, key_heads=1, queries=150, keys=130, size=40, value_size=72)
    check(given, None, lambda: lambda b, h, i, j: (i >= j) & (i - j < 64), block=block, rtol=1e-4, atol=1e-4)


def test_index_of_some_lanes_out_of_range(device):
    """Named as in eager code, and only where the mask asks for it."""
    q, k, v = (on_device(t.detach()) for t in tensors(key_heads=4))
    places = torch.arange(50, device=device)
    torch._dynamo.reset()
    compiled = torch.compile(flex_attention, fullgraph=True)
    full = create_block_mask(lambda b, h, i, j: i >= 0, None, None, 90, 70, device=device, BLOCK_SIZE=32)
    full.mask_mod = lambda b, h, i, j: places[i] >= 0
    full.kv_num_blocks.zero_()
    full.full_kv_num_blocks.fill_(2)
    compiled(q, k, v, block_mask=full)
    torch.ocl.synchronize()
    compiled(q, k, v, score_mod=lambda s, b, h, i, j: s + places[i])
    with pytest.raises(IndexError, match="index [5-8][0-9] is out of bounds for dimension with size 50"):
        torch.ocl.synchronize()


def test_captured_index_out_of_range(device):
    q, k, v = (on_device(t.detach()) for t in tensors())
    slopes = torch.rand(2, device=device)
    torch._dynamo.reset()
    torch.compile(flex_attention, fullgraph=True)(q, k, v, score_mod=lambda s, b, h, i, j: s + slopes[h],
                                                  enable_gqa=True)
    with pytest.raises(IndexError, match="is out of bounds for dimension with size 2"):
        torch.ocl.synchronize()
