"""Attention: scaled_dot_product_attention, nn.MultiheadAttention and the Transformer modules against the CPU."""
import copy

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

import opinfo

FUSED = "aten::_scaled_dot_product_fused_attention_overrideable"
MATH = "aten::_scaled_dot_product_attention_math"


def called(function):
    """The names of the operators that a call comes down to."""
    with profile(activities=[ProfilerActivity.CPU]) as trace:
        function()
    return {event.name for event in trace.events()}


def exact(q, k, v, mask=None, causal=False, scale=None, gqa=False, dtype=torch.float64):
    """PyTorch's own composition on the CPU, with its gradients for a gradient of ones."""
    inputs = [t.detach().cpu().to(dtype).requires_grad_() for t in (q, k, v)]
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.to(dtype)
    with sdpa_kernel(SDPBackend.MATH):
        y = F.scaled_dot_product_attention(*inputs, attn_mask=None if mask is None else mask.cpu(), is_causal=causal,
                                           scale=scale, enable_gqa=gqa)
    y.backward(torch.ones_like(y))
    return y.detach(), [t.grad for t in inputs]


def tolerance(expected, native):
    """The defaults, but for half precision: twice what PyTorch's composition in that dtype is off, as PyTorch tests
    it."""
    if native.dtype in (torch.float32, torch.float64):
        return {}
    return dict(rtol=torch.finfo(native.dtype).eps, atol=2 * (native.double() - expected).abs().max().item())


def compare(device, shapes, dtype=torch.float32, mask=None, turned=False, **options):
    """Forward and backward through the fused kernels against `exact`."""
    torch.manual_seed(1)
    q, k, v = (torch.randn(shape, dtype=dtype) for shape in shapes)
    if turned:   # what view(B, L, H, E).transpose(1, 2) gives
        q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v))
    asked = (q, k, v, mask, options.get("is_causal", False), options.get("scale"), options.get("enable_gqa", False))
    (expected, gradients), (native, native_gradients) = exact(*asked), exact(*asked, dtype=dtype)
    inputs = [t.to(device).requires_grad_() for t in (q, k, v)]
    names = called(lambda: inputs.append(F.scaled_dot_product_attention(
        *inputs[:3], attn_mask=None if mask is None else mask.to(device), **options)))
    assert FUSED in names and MATH not in names
    y = inputs.pop()
    y.backward(torch.ones_like(y))
    torch.testing.assert_close(y.cpu(), expected.to(dtype), **tolerance(expected, native))
    for actual, wanted, composed in zip(inputs, gradients, native_gradients):
        torch.testing.assert_close(actual.grad.cpu(), wanted.to(dtype), **tolerance(wanted, composed))
    return y


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_dtypes(device, dtype, causal):
    compare(device, [(2, 3, 50, 32)] * 3, dtype, is_causal=causal)


@pytest.mark.parametrize("shapes", [
    [(1, 1, 1, 1)] * 3, [(2, 4, 7, 24), (2, 4, 11, 24), (2, 4, 11, 40)], [(1, 2, 197, 64)] * 3,
    [(1, 2, 1, 64), (1, 2, 300, 64), (1, 2, 300, 64)], [(1, 1, 33, 256)] * 3, [(3, 20, 16), (3, 30, 16), (3, 30, 8)],
], ids=str)
def test_shapes(device, shapes):
    compare(device, shapes)


def test_grouped_queries(device):
    compare(device, [(2, 6, 40, 16), (2, 2, 40, 16), (2, 2, 40, 16)], is_causal=True, enable_gqa=True)


def test_layout_of_projections_is_kept(device):
    y = compare(device, [(2, 4, 33, 16)] * 3, turned=True, scale=0.3)
    assert y.transpose(1, 2).is_contiguous()   # so that reshape(B, L, H * E) copies nothing


def test_slices_of_a_packed_projection(device):
    packed = torch.randn(2, 30, 3 * 64)
    q, k, v = (t.view(2, 30, 4, 16).transpose(1, 2) for t in packed.chunk(3, -1))
    on_device = [t.view(2, 30, 4, 16).transpose(1, 2) for t in packed.to(device).chunk(3, -1)]
    torch.testing.assert_close(F.scaled_dot_product_attention(*on_device).cpu(), exact(q, k, v)[0].float())


@pytest.mark.parametrize("shape", [(20, 30), (1, 30), (20, 1), (2, 1, 1, 30), (2, 3, 20, 30), (3, 20, 30),
                                   (1, 1, 20, 30)], ids=str)
@pytest.mark.parametrize("kind", ["boolean", "added"])
def test_masks(device, shape, kind):
    mask = torch.rand(shape) > 0.3 if kind == "boolean" else torch.randn(shape)
    compare(device, [(2, 3, 20, 16), (2, 3, 30, 16), (2, 3, 30, 16)], mask=mask)


def test_rows_that_see_nothing_are_zero(device):
    mask = torch.ones(10, 12, dtype=torch.bool)
    mask[3] = False
    y = compare(device, [(1, 2, 10, 8), (1, 2, 12, 8), (1, 2, 12, 8)], mask=mask)
    assert (y[:, :, 3] == 0).all()


def test_gradient_of_the_mask_takes_math(device):
    q = torch.randn(1, 2, 6, 8)
    bias = torch.randn(6, 6, requires_grad=True)
    ours = bias.detach().to(device).requires_grad_()
    names = called(lambda: F.scaled_dot_product_attention(*[q.to(device)] * 3, attn_mask=ours).sum().backward())
    assert MATH in names and FUSED not in names
    with sdpa_kernel(SDPBackend.MATH):
        F.scaled_dot_product_attention(q, q, q, attn_mask=bias).sum().backward()
    torch.testing.assert_close(ours.grad.cpu(), bias.grad)


@pytest.mark.parametrize("shapes", [[(2, 2, 0, 8), (2, 2, 3, 8)], [(0, 2, 3, 8), (0, 2, 3, 8)], [(2, 2, 3, 300)] * 2,
                                    [(2, 1, 2, 3, 8)] * 2, [(5, 8), (6, 8)]], ids=str)
def test_what_math_computes(device, shapes):
    q, k = (torch.randn(s) for s in shapes)
    got = []
    names = called(lambda: got.append(F.scaled_dot_product_attention(q.to(device), k.to(device), k.to(device))))
    assert FUSED not in names
    torch.testing.assert_close(got[0].cpu(), F.scaled_dot_product_attention(q, k, k))


def test_sdpa_kernel_chooses(device):
    q = torch.randn(1, 2, 5, 8, device=device)
    run = lambda: F.scaled_dot_product_attention(q, q, q)   # noqa: E731
    for backend, wanted in [(SDPBackend.MATH, MATH), (SDPBackend.OVERRIDEABLE, FUSED),
                            (SDPBackend.FLASH_ATTENTION, FUSED), (SDPBackend.EFFICIENT_ATTENTION, FUSED)]:
        with sdpa_kernel(backend):
            assert wanted in called(run)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), pytest.raises(RuntimeError, match="No viable backend"):
        F.scaled_dot_product_attention(q[0, 0], q[0, 0], q[0, 0])


@pytest.mark.parametrize("change, message", [
    (dict(key=(2, 3, 5, 7)), "Expected size"), (dict(value=(2, 3, 6, 8)), "Expected size"),
    (dict(key=(2, 2, 5, 8), value=(2, 2, 5, 8)), "must match"), (dict(attn_mask=(4, 4)), "must match"),
    (dict(attn_mask=(5, 5), is_causal=True), "should not be set when is_causal")], ids=str)
def test_bad_input_is_refused(device, change, message):
    arguments = dict(query=(2, 3, 5, 8), key=(2, 3, 5, 8), value=(2, 3, 5, 8)) | change
    arguments = {name: torch.randn(v, device=device) if isinstance(v, tuple) else v for name, v in arguments.items()}
    with pytest.raises(RuntimeError, match=message):
        F.scaled_dot_product_attention(**arguments)


def test_dropout_keeps_the_expected_part(device):
    """With v the unit matrix, the result is the dropped probabilities themselves."""
    length = 256
    q = torch.zeros(2, 4, length, 16, device=device)
    v = torch.eye(length, device=device).expand(2, 4, length, length)
    p = F.scaled_dot_product_attention(q, q, v, dropout_p=0.25).cpu() * length
    kept = p > 0
    torch.testing.assert_close(p[kept], torch.full_like(p[kept], 1 / 0.75))
    assert abs(kept.double().mean().item() - 0.75) < 5 * (0.75 * 0.25 / kept.numel()) ** 0.5
    assert (kept.double().mean((0, 1, 2)) - 0.75).abs().max() < 6 * (0.75 * 0.25 / (8 * length)) ** 0.5   # each key
    other = F.scaled_dot_product_attention(q, q, v, dropout_p=0.25).cpu() > 0
    assert abs((kept & other).double().mean().item() - 0.75 ** 2) < 0.01                # another draw, independent
    assert (F.scaled_dot_product_attention(q, q, v, dropout_p=1.0) == 0).all()


def test_dropout_follows_the_seed_also_in_backward(device):
    q, k, v = (torch.randn(2, 2, 40, 16, device=device, requires_grad=True) for _ in range(3))
    results = []
    for _ in range(2):
        torch.manual_seed(5)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3)
        torch.rand(3, device=device)   # the generator moves on between forward and backward
        results.append((y, *torch.autograd.grad(y.sum(), (q, k, v))))
    for first, second in zip(*results):
        assert torch.equal(first, second)
    # The gradient of v sums to the sum of y's coefficients: the same elements were dropped.
    y, _, _, grad_v = results[0]
    torch.testing.assert_close((grad_v * v).sum(), y.sum(), rtol=1e-4, atol=1e-4)


def test_same_bits_every_run(device):
    q, k, v = (torch.randn(2, 4, 150, 32, device=device, requires_grad=True) for _ in range(3))
    runs = []
    for _ in range(3):
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        runs.append((y, *torch.autograd.grad(y.square().sum(), (q, k, v))))
    for run in runs[1:]:
        assert all(torch.equal(a, b) for a, b in zip(run, runs[0]))


def test_memory_does_not_grow_with_the_scores(device):
    length, heads, size = 2048, 4, 32
    q, k, v = (torch.randn(1, heads, length, size, device=device, requires_grad=True) for _ in range(3))
    F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
    torch.ocl.synchronize()
    torch.ocl.reset_peak_memory_stats()
    before = torch.ocl.memory_allocated()
    F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
    scores = heads * length * length * 4
    assert torch.ocl.max_memory_allocated() - before < scores / 8


def test_nothing_waits(device):
    q = torch.randn(1, 2, 30, 16, device=device, requires_grad=True)
    F.scaled_dot_product_attention(q, q, q, dropout_p=0.1).sum().backward()
    before = torch.ocl.blocking_calls()
    F.scaled_dot_product_attention(q, q, q, dropout_p=0.1).sum().backward()
    assert torch.ocl.blocking_calls() == before


def test_autocast_and_compile(device):
    q = torch.randn(2, 2, 20, 16)
    with torch.autocast("ocl", torch.bfloat16):
        y = F.scaled_dot_product_attention(*[q.to(device)] * 3)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.cpu().float(), exact(q, q, q)[0].float(), rtol=2e-2, atol=2e-2)

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).sin()
    for dynamic in (False, True):
        compiled = torch.compile(attend, backend="aot_eager", dynamic=dynamic)
        for length in (20, 33):
            inputs = [torch.randn(2, 2, length, 16, device=device, requires_grad=True) for _ in range(3)]
            expected, actual = attend(*inputs), compiled(*inputs)
            torch.testing.assert_close(actual, expected)
            for a, e in zip(torch.autograd.grad(actual.sum(), inputs), torch.autograd.grad(expected.sum(), inputs)):
                torch.testing.assert_close(a, e)


@pytest.mark.parametrize("case", [c for c in opinfo.cases({"nn.functional.scaled_dot_product_attention",
                                                           "nn.functional.multi_head_attention_forward"})],
                         ids=opinfo.case_id)
def test_opinfo(case, device):
    opinfo.check(*case, device)


def test_operator_of_the_cpu_has_gradients(device):
    inputs = [torch.randn(2, 2, 12, 8, dtype=torch.float64) for _ in range(3)]
    mask = torch.randn(2, 1, 12, 12, dtype=torch.float64)
    results = []
    for place in ("cpu", device):
        q, k, v = (t.detach().to(place).requires_grad_() for t in inputs)
        y, _ = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask=mask.to(place))
        results.append([y, *torch.autograd.grad(y.square().sum(), (q, k, v))])
    for actual, expected in zip(results[1], results[0]):
        torch.testing.assert_close(actual.cpu(), expected)
    with pytest.raises(RuntimeError, match="dropout"):
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.5)


def train_both(module, device, *inputs, **options):
    """Results and gradients of a module on both devices."""
    ours = copy.deepcopy(module).to(device)
    results = []
    for net, place in ((module, "cpu"), (ours, device)):
        placed = [t.detach().to(place).requires_grad_() for t in inputs]
        y = net(*placed, **{k: t.to(place) if isinstance(t, torch.Tensor) else t for k, t in options.items()})
        outputs = [t for t in (y if isinstance(y, tuple) else (y,)) if t is not None]
        sum(t.square().sum() for t in outputs).backward()
        results.append(([t.cpu().detach() for t in outputs], [t.grad.cpu() for t in (*placed, *net.parameters())]))
    for expected, actual in zip(*results):
        for e, a in zip(expected, actual):
            torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-4)


PADDING = torch.tensor([[False] * 9, [False] * 6 + [True] * 3])


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("masks",
                         [{},
                          dict(key_padding_mask=PADDING),
                          dict(attn_mask=torch.ones(9, 9, dtype=torch.bool).triu(1)),
                          dict(attn_mask=torch.ones(9, 9, dtype=torch.bool).triu(1), key_padding_mask=PADDING)],
                         ids=["all", "padding", "causal", "both"])
def test_multihead_attention(device, masks, need_weights):
    module = torch.nn.MultiheadAttention(32, 4, batch_first=True)
    torch.nn.init.normal_(module.in_proj_bias)
    x = torch.randn(2, 9, 32)
    train_both(module, device, x, x, x, need_weights=need_weights, **masks)
    module.eval()
    ours = copy.deepcopy(module).to(device)
    masks_there = {name: mask.to(device) for name, mask in masks.items()}
    with torch.no_grad():
        expected = module(x, x, x, need_weights=need_weights, **masks)
        z, got = x.to(device), []
        names = called(lambda: got.append(ours(z, z, z, need_weights=need_weights, **masks_there)))
    assert "aten::_native_multi_head_attention" in names
    assert need_weights or FUSED in names
    for e, a in zip(expected, got[0]):
        torch.testing.assert_close(None if a is None else a.cpu(), e)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_transformer_encoder_layer(device, norm_first, activation):
    module = torch.nn.TransformerEncoderLayer(32, 4, 48, dropout=0, activation=activation, batch_first=True,
                                              norm_first=norm_first)
    x = torch.randn(2, 9, 32)
    train_both(module, device, x)
    module.eval()
    ours = copy.deepcopy(module).to(device)
    for masks in ({}, dict(src_key_padding_mask=PADDING), dict(src_mask=torch.ones(9, 9, dtype=torch.bool).triu(1))):
        with torch.no_grad():
            expected = module(x, **masks)
            got = []
            names = called(lambda: got.append(ours(x.to(device), **{k: m.to(device) for k, m in masks.items()})))
        assert "aten::_transformer_encoder_layer_fwd" in names
        torch.testing.assert_close(got[0].cpu(), expected)


def test_transformer_decoder(device):
    module = torch.nn.TransformerDecoder(torch.nn.TransformerDecoderLayer(32, 4, 48, dropout=0, batch_first=True), 2)
    train_both(module, device, torch.randn(2, 7, 32), torch.randn(2, 9, 32),
               tgt_mask=torch.nn.Transformer.generate_square_subsequent_mask(7), tgt_is_causal=True)
