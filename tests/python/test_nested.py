"""Nested tensors: the jagged layout on kernels of the device, the strided one by its parts."""

import warnings

import pytest
import torch

from comparison import device

LENGTHS = [3, 0, 5, 2]


def rows(width=8, dtype=torch.float32):
    return [torch.randn(n, width).to(dtype) for n in LENGTHS]


def jagged(parts, where="cpu", **options):
    return torch.nested.nested_tensor(parts, layout=torch.jagged, device=where, **options)


def same(got, want, **tolerances):
    assert got.device.type == "ocl"
    if got.is_nested:
        for a, b in zip(got.unbind(), want.unbind(), strict=True):
            torch.testing.assert_close(a.cpu(), b, **tolerances)
    else:
        torch.testing.assert_close(got.cpu(), want, **tolerances)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_padding_and_back(dtype, shape):
    values = torch.randint(0, 5, (10, *shape)).to(dtype)
    offsets = torch.tensor([0, 3, 3, 8, 10])
    fill = 1.0 if dtype == torch.bool else -2.0
    wide = torch.ops.aten._jagged_to_padded_dense_forward(values.to(device), [offsets.to(device)], [6], fill)
    want = torch.full((4, 6, *shape), fill).to(dtype)
    for i in range(4):
        part = values[offsets[i]:offsets[i + 1]]
        want[i, :len(part)] = part
    same(wide, want)
    for total in ([10], []):
        same(torch.ops.aten._padded_dense_to_jagged_forward(wide, [offsets.to(device)], *total), values)
    cut = torch.ops.aten._jagged_to_padded_dense_forward(values.to(device), [offsets.to(device)], [4], fill)
    same(cut, want[:, :4])
    back = torch.ops.aten._padded_dense_to_jagged_forward(cut, [offsets.to(device)])
    short = values.clone()
    short[7] = 0   # the fifth of a row of four
    same(back, short)


def test_padding_checks_its_arguments():
    values, offsets = torch.ones(3, 2, device=device), torch.tensor([0, 1, 3], device=device)
    with pytest.raises(RuntimeError, match="_jagged_to_padded_dense_forward: expected int64 or int32 offsets"):
        torch.ops.aten._jagged_to_padded_dense_forward(values, [offsets.float()], [2])
    with pytest.raises(RuntimeError, match="_padded_dense_to_jagged_forward: expected offsets of 5 elements"):
        torch.ops.aten._padded_dense_to_jagged_forward(torch.ones(4, 2, device=device), [offsets])


def test_jagged_life():
    parts = rows()
    x, y = jagged(parts), jagged(parts, device)
    same(y, x)
    same(x.to(device), x)
    same(y.clone(), x)
    assert y.cpu().device.type == "cpu"
    assert "ocl:0" in repr(y)
    same(y.to_padded_tensor(0.0), x.to_padded_tensor(0.0))
    same(torch.nested.nested_tensor_from_jagged(y.values(), y.offsets()), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_from_mask(dtype):
    padded, mask = torch.randn(3, 4, 5).to(dtype), torch.arange(4) < torch.tensor([[4], [1], [3]])
    x, y = padded.clone().requires_grad_(), padded.to(device).requires_grad_()
    want, got = torch._nested_tensor_from_mask(x, mask), torch._nested_tensor_from_mask(y, mask.to(device))
    same(got.detach(), want.detach())
    for nested in (want, got):
        (nested * 2).to_padded_tensor(0).sum().backward()
    same(y.grad, x.grad)
    with pytest.raises(RuntimeError, match="left-aligned"):
        torch._nested_tensor_from_mask(padded.to(device), mask.flip(1).to(device))


@pytest.mark.parametrize("function", [
    lambda x: x * 2 + 1, lambda x: x.relu(), torch.sin, lambda x: x + x,
    lambda x: x.softmax(-1), lambda x: torch.nn.functional.layer_norm(x, (8,)), lambda x: x.to_padded_tensor(1.0),
    lambda x: torch.nn.functional.gelu(x), lambda x: x.transpose(1, 2).transpose(1, 2), lambda x: x.unsqueeze(-1),
    lambda x: x.unflatten(-1, (2, 4)), lambda x: x.chunk(2, -1)[1], lambda x: x.abs().sqrt(),
])
def test_jagged_operators_and_gradients(function):
    parts = rows()
    x, y = jagged(parts, requires_grad=True), jagged(parts, device, requires_grad=True)
    got, want = function(y), function(x)
    same(got, want)
    for t in (want, got):
        (t.values() if t.is_nested else t).square().sum().backward()
    same(y.grad, x.grad)


def test_jagged_linear():
    parts = rows()
    reference = torch.nn.Linear(8, 6)
    net = torch.nn.Linear(8, 6).to(device)
    net.load_state_dict(reference.state_dict())
    x, y = jagged(parts), jagged(parts, device)
    want, got = reference(x), net(y)
    same(got, want)
    want.values().square().sum().backward()
    got.values().square().sum().backward()
    same(net.weight.grad, reference.weight.grad)


def per_sample_attention(query, key, value, **options):
    """Each sequence alone on the CPU in float64, [rows, heads, size]; one without keys gives zeros."""
    results = []
    for parts in zip(query, key, value, strict=True):
        q, k, v = (p.double().transpose(0, 1) for p in parts)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)
        results.append(torch.nan_to_num(y).transpose(0, 1) if k.shape[1] else v.new_zeros(len(parts[0]), *v.shape[::2]))
    return torch.cat(results)


ATTENTION_TOLERANCES = {torch.float32: dict(rtol=1e-5, atol=1e-5), torch.float16: dict(rtol=4e-3, atol=4e-3),
                        torch.float64: {}}


@pytest.mark.parametrize("case, dtype", [
    *((case, torch.float32) for case in ("three", "chunks", "causal", "scaled", "cross", "values")),
    ("cross", torch.float16), ("three", torch.float64)])
def test_attention_over_rows_of_different_lengths(case, dtype):
    lengths, heads, size = [3, 0, 70, 2], 2, 16
    key_lengths = [5, 4, 1, 0] if case == "cross" else lengths
    widths = [size, size, 24 if case == "values" else size]
    if case == "chunks":    # queries, keys and values of one projection: strided rows
        leaves = [jagged([torch.randn(n, 3 * heads * size).to(dtype) for n in lengths], device, requires_grad=True)]
        parts = [t.unflatten(-1, (heads, size)) for t in leaves[0].chunk(3, -1)]
    else:
        leaves = parts = [jagged([torch.randn(n, heads, width).to(dtype) for n in counts], device, requires_grad=True)
                          for counts, width in zip((lengths, key_lengths, key_lengths), widths, strict=True)]
    options = {"causal": dict(is_causal=True), "scaled": dict(scale=0.5)}.get(case, {})
    got = torch.nn.functional.scaled_dot_product_attention(*(p.transpose(1, 2) for p in parts), **options)
    rows = got.transpose(1, 2).values()
    weight = torch.randn(rows.shape).to(dtype)
    (rows * weight.to(device)).sum().backward()

    copies = [[p.detach().cpu().double().requires_grad_() for p in t.unbind()] for t in parts]
    want = per_sample_attention(*copies, **options)
    (want * weight.double()).sum().backward()
    tolerances = ATTENTION_TOLERANCES[dtype]
    torch.testing.assert_close(rows.cpu().double(), want, **tolerances)
    gradients = [torch.cat([torch.zeros_like(p) if p.grad is None else p.grad for p in part]) for part in copies]
    if case == "chunks":
        gradients = [torch.cat([g.flatten(1) for g in gradients], 1)]
    for leaf, gradient in zip(leaves, gradients, strict=True):
        torch.testing.assert_close(leaf.grad.values().cpu().double(), gradient, **tolerances)


@pytest.mark.parametrize("dynamic", [None, True])
def test_compiled_attention_over_rows_of_different_lengths(dynamic):
    """Dynamo knows lengths as symbols."""
    def attention(x, weight, causal):
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in (x @ weight).chunk(3, -1))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return y.transpose(1, 2).flatten(-2)

    torch._dynamo.reset()
    compiled = torch.compile(attention, fullgraph=True, dynamic=dynamic)
    weight = torch.randn(8, 48, device=device, requires_grad=True)
    for lengths, causal in (([3, 1, 5, 2], False), ([7, 2, 4], False), ([7, 2, 4], True)):
        x = jagged([torch.randn(n, 8) for n in lengths], device, requires_grad=True)
        results = []
        for function in (compiled, attention):
            y = function(x, weight, causal)
            results.append((y.values(), *torch.autograd.grad(y.values().square().sum(), (weight, x))))
        for got, want in zip(*results, strict=True):
            got, want = (t.values() if t.is_nested else t for t in (got, want))
            torch.testing.assert_close(got, want)


def test_attention_drops_the_same_probabilities_in_both_directions():
    parts = [jagged([torch.randn(n, 1, 8) for n in (6, 3)], device, requires_grad=True) for _ in range(3)]
    query, key, _ = parts
    # The gradient of values is linear in the dropped probabilities, as the result is.
    value = jagged([torch.eye(8)[:n].unsqueeze(1) for n in (6, 3)], device, requires_grad=True)
    y = torch.nn.functional.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (query, key, value)),
                                                         dropout_p=0.5)
    rows = y.transpose(1, 2).values()
    rows.sum().backward()
    torch.testing.assert_close(value.grad.values()[:6, 0, 0], rows[:6, 0, :6].sum(0))
    assert 0 < (rows[:6, 0, :6] == 0).sum() < 36


def test_attention_of_jagged_tensors_that_nothing_computes_is_named():
    heads = jagged([torch.randn(n, 2, 4) for n in (3, 1)], device).transpose(1, 2)
    wide = jagged([torch.randn(n, 2, 300) for n in (3, 1)], device).transpose(1, 2)
    with pytest.raises(RuntimeError, match="scaled_dot_product_attention: of jagged tensors on ocl"):
        torch.nn.functional.scaled_dot_product_attention(wide, wide, wide, is_causal=True)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        got = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
    want = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
    for a, b in zip(got.unbind(), want.unbind(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (2, 0), (1, 2)])
def test_varlen_attention(window):
    varlen = pytest.importorskip("torch.nn.attention.varlen")
    lengths, heads, size = [4, 0, 9], 2, 8
    begins = torch.tensor([0, 4, 4, 13], dtype=torch.int32, device=device)
    whole = [torch.randn(13, heads, size, requires_grad=True) for _ in range(3)]
    there = [t.detach().to(device).requires_grad_() for t in whole]
    got = varlen.varlen_attn(*there, begins, begins, 9, 9, window_size=window)
    got.square().sum().backward()
    places = [torch.arange(n) for n in lengths]
    seen = [((p - p[:, None] <= window[1]) | (window[1] < 0)) & ((p[:, None] - p <= window[0]) | (window[0] < 0))
            for p in places]
    parts = zip(*(t.split(lengths) for t in whole), seen, strict=True)
    want = torch.cat([torch.nn.functional.scaled_dot_product_attention(
        *(t.transpose(0, 1) for t in (q, k, v)), attn_mask=mask).transpose(0, 1) for q, k, v, mask in parts if len(q)])
    want.square().sum().backward()
    torch.testing.assert_close(got.cpu(), want)
    for a, b in zip(there, whole, strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-5, atol=1e-5)


# ---- strided ----


def strided(parts, where="cpu", **options):
    return torch.nested.nested_tensor(parts, device=where, **options)


@pytest.mark.parametrize("function", [
    lambda x: x.relu(), lambda x: x + x, lambda x: x * 2, lambda x: -x, lambda x: x.to_padded_tensor(0.0), torch.tanh,
    lambda x: x.transpose(1, 2).contiguous(), lambda x: x.softmax(-1), lambda x: x.unbind()[2], lambda x: x.clone(),
    lambda x: x @ x.transpose(1, 2), lambda x: x.detach(), lambda x: x.values(), torch.nn.functional.gelu,
])
def test_strided_operators(function):
    parts = rows()
    x, y = strided(parts), strided(parts, device)
    same(function(y), function(x))
    same(y.to("cpu").to(device), x)
    assert "nested_tensor" in repr(y)


def test_strided_linear():
    parts = rows()
    reference = torch.nn.Linear(8, 6)
    net = torch.nn.Linear(8, 6).to(device)
    net.load_state_dict(reference.state_dict())
    x, y = strided(parts, requires_grad=True), strided(parts, device, requires_grad=True)
    same(net(y).relu().to_padded_tensor(0.0).detach(), reference(x).relu().to_padded_tensor(0.0).detach())


@pytest.mark.parametrize("function", [
    lambda x: x.sum(-1, keepdim=True), lambda x: x.softmax(-1),
    lambda x: torch.nn.functional.layer_norm(x, (8,), *(torch.arange(8.0, device=x.device) / n for n in (8, 3))),
    lambda x: (x @ x.transpose(1, 2)).softmax(-1),
])
def test_strided_operators_and_gradients(function):
    parts = rows()
    x, y = strided(parts, requires_grad=True), strided(parts, device, requires_grad=True)
    got, want = function(y), function(x)
    same(got.detach(), want.detach())
    for t in (want, got):
        t.to_padded_tensor(0.0).square().sum().backward()
    same(y.grad, x.grad)


def test_strided_sums_of_rows_of_different_lengths():
    parts = rows()
    y = strided(parts, device, requires_grad=True)
    got = y.transpose(1, 2).sum(-1, keepdim=True)
    same(got.detach(), strided([p.t().sum(-1, keepdim=True) for p in parts]))
    got.to_padded_tensor(0.0).square().sum().backward()
    same(y.grad, strided([(2 * p.sum(0)).expand_as(p) for p in parts]))


def test_strided_layer_norm_has_gradients_of_its_parameters():
    parts = rows()
    norm, reference = torch.nn.LayerNorm(8), torch.nn.LayerNorm(8)
    norm.to(device)
    for net, where in ((norm, device), (reference, "cpu")):
        net(strided(parts, where)).to_padded_tensor(0.0).square().sum().backward()
    same(norm.weight.grad, reference.weight.grad, rtol=1e-5, atol=1e-5)
    same(norm.bias.grad, reference.bias.grad, rtol=1e-5, atol=1e-5)
    with pytest.raises(RuntimeError, match="layer_norm: normalized_shape is"):
        torch.nn.functional.layer_norm(strided(parts, device), (7,))


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layers_of_strided_nested_tensors(norm_first):
    parts = [torch.randn(n, 16) for n in (3, 1, 5)]
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, norm_first=norm_first, batch_first=True).eval()
    with torch.no_grad():
        want = [layer(p.unsqueeze(0))[0] for p in parts]
        got = layer.to(device)(strided(parts, device))
        heads = torch.nn.MultiheadAttention(16, 2, batch_first=True).eval()
        alone = [heads(*[p.unsqueeze(0)] * 3)[0][0] for p in parts]
        nested = strided(parts, device)
        together = heads.to(device)(nested, nested, nested, need_weights=False)[0]
    for a, b in zip([*got.unbind(), *together.unbind()], want + alone, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-5, atol=1e-5)


def test_what_has_no_kernel_anywhere_is_named():
    y = strided(rows(), device)
    with pytest.raises(NotImplementedError,
                       match="cumsum has no kernel for nested tensors on the ocl device, and none") as error:
        torch.cumsum(y, 1)
    assert str(error.value).count("\n") < 3


def test_quantized_tensors_are_refused_in_one_line():
    x = torch.randn(4, 4)
    with torch.ocl.fallback("allow"):
        with pytest.raises(NotImplementedError, match="quantize_per_tensor: there are no quantized tensors on the ocl"):
            torch.quantize_per_tensor(x.to(device), 0.1, 0, torch.qint8)
        with pytest.raises(NotImplementedError, match="no quantized tensors on the ocl device"):
            torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).to(device)


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 5), (2, 3, 4, 5)])
def test_strided_from_a_dense_tensor(shape):
    x = torch.randn(shape)
    y = x.to("ocl").requires_grad_()
    with warnings.catch_warnings():     # "prototype stage"
        warnings.simplefilter("ignore")
        nested = torch.nested.as_nested_tensor(y, layout=torch.strided)
    assert nested.is_nested and nested.device.type == "ocl"
    for part, row in zip(nested.unbind(), x):
        torch.testing.assert_close(part.cpu(), row)
    nested.to_padded_tensor(0).square().sum().backward()
    torch.testing.assert_close(y.grad.cpu(), 2 * x)


def test_projections_of_strided_parts():
    bias = torch.randn(24)
    for lengths in ([3, 5], [8, 8], [7, 2, 9]):
        parts = [torch.randn(n, 24) for n in lengths]
        got = torch._transform_bias_rescale_qkv(torch.nested.nested_tensor(parts, device=device), bias.to(device), 2)
        want = torch._transform_bias_rescale_qkv(torch.nested.nested_tensor(parts), bias, 2)
        for a, b in zip(got, want, strict=True):
            assert a.stride() == b.stride()
            same(a, b)
    with pytest.raises(RuntimeError, match="heads"):
        torch._transform_bias_rescale_qkv(torch.nested.nested_tensor(parts, device=device), bias.to(device), 5)
