"""com.microsoft's operators: ONNX Runtime computes what clprim computes; definitions stand in where its CPU has
none."""
import numpy as np
import pytest

import clprim

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx_microsoft import F, I8, I32, I64, U8, check, integers, normal, ours, scalar, weights  # noqa: E402


# ---- attention
# -----------------------------------------------------------------------------------------------------------

BATCH, LENGTH, SIZE, HEADS = 2, 5, 16, 2


def masks(batch=BATCH, length=LENGTH, keys=LENGTH):
    raw = integers(0, 2, batch, keys, dtype=I32)
    raw[:, 0] = 1
    three = integers(0, 2, batch, length, keys, dtype=I32)
    three[:, :, 0] = 1
    return {"none": None, "counts": np.array([3, keys], I32)[:batch], "ends": np.array([3, keys, 1, 0], I32),
            "raw": raw,
            "each": three}


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", ["none", "counts", "ends", "raw", "each"])
def test_attention(mask, causal):
    inputs = [normal(BATCH, LENGTH, SIZE), normal(SIZE, 3 * SIZE, scale=0.3), normal(3 * SIZE), masks()[mask]]
    check("Attention", inputs, {"num_heads": HEADS, "unidirectional": causal}, constants={"x1", "x2"})


def test_attention_with_bias_and_sizes():
    inputs = [normal(BATCH, LENGTH, SIZE), normal(SIZE, 2 * SIZE + 8, scale=0.3), normal(2 * SIZE + 8), None, None,
              normal(BATCH, HEADS, LENGTH, LENGTH)]
    check("Attention", inputs, {"num_heads": HEADS, "qkv_hidden_sizes": [SIZE, SIZE, 8], "scale": 0.3},
          constants={"x1", "x2"})


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_with_past(causal):
    past = normal(2, BATCH, HEADS, 3, SIZE // HEADS)
    inputs = [normal(BATCH, LENGTH, SIZE), normal(SIZE, 3 * SIZE, scale=0.3), normal(3 * SIZE),
              masks(keys=LENGTH + 3)["raw"], past]
    check("Attention", inputs, {"num_heads": HEADS, "unidirectional": causal}, outputs=("y", "present"),
          constants={"x1", "x2"})


@pytest.mark.parametrize("mask", ["none", "counts", "raw", "each"])
@pytest.mark.parametrize("bias", [False, True])
def test_multi_head_attention(mask, bias):
    q, k, v = normal(BATCH, LENGTH, SIZE), normal(BATCH, 7, SIZE), normal(BATCH, 7, SIZE, seed=1)
    padding = masks(keys=7)[mask]
    check("MultiHeadAttention", [q, k, v, normal(3 * SIZE) if bias else None, padding], {"num_heads": HEADS})


@pytest.mark.parametrize("case", ["cross", "past", "causal", "bias"])
def test_forms_of_multi_head_attention(case):
    head, attributes, outputs = SIZE // HEADS, {"num_heads": HEADS}, ("y",)
    q, k, v = normal(BATCH, LENGTH, SIZE), normal(BATCH, LENGTH, SIZE, seed=1), normal(BATCH, LENGTH, SIZE, seed=2)
    inputs = [q, k, v]
    if case == "cross":
        inputs = [q, normal(BATCH, HEADS, 6, head), normal(BATCH, HEADS, 6, head, seed=1)]
    elif case == "past":
        inputs += [None, None, None, normal(BATCH, HEADS, 3, head), normal(BATCH, HEADS, 3, head, seed=1)]
        outputs = ("y", "k", "v")
    elif case == "causal":
        attributes["unidirectional"] = 1
    else:
        inputs += [None, None, normal(1, HEADS, LENGTH, LENGTH)]
        attributes["scale"] = 0.2
    check("MultiHeadAttention", inputs, attributes, outputs=outputs)


def test_packed_multi_head_attention():
    """ONNX Runtime's CPU takes neither form: the same as unpacked."""
    packed, head = normal(BATCH, LENGTH, HEADS, 3, SIZE // HEADS), SIZE // HEADS
    q, k, v = (np.ascontiguousarray(packed[:, :, :, i]).reshape(BATCH, LENGTH, SIZE) for i in range(3))
    bias = normal(3 * SIZE)
    expected, = ours("MultiHeadAttention", [q, k, v, bias], {"num_heads": HEADS})
    result, = ours("MultiHeadAttention", [packed, None, None, bias], {"num_heads": HEADS})
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    pairs = np.ascontiguousarray(packed[:, :, :, 1:])
    assert pairs.shape == (BATCH, LENGTH, HEADS, 2, head)
    result, = ours("MultiHeadAttention", [q, pairs, None, bias], {"num_heads": HEADS})
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("beams", [1, 2])
def test_decoder_masked_attention(beams):
    head, most, past, batch = SIZE // HEADS, 8, 4, 2 * beams
    q, k, v = (normal(batch, 1, SIZE, seed=i) for i in range(3))
    cache = [normal(batch, HEADS, most, head, seed=i) for i in (3, 4)]
    inputs = [q, k, v, None, None, *cache, scalar([past], I32)]
    if beams > 1:
        indirection = integers(0, beams, 2, beams, most, dtype=I32)
        inputs += [scalar([beams], I32), indirection]
    check("DecoderMaskedMultiHeadAttention", inputs, {"num_heads": HEADS, "past_present_share_buffer": 1},
          outputs=("y", "k", "v"))


KV = 2


def query_group_inputs(batch, length, past, heads=4, head=16, packed=False, buffer=None, totals=None):
    total = past + length
    q, k, v = normal(batch, length, heads * head), normal(batch, length, KV * head,
                                                          seed=1), normal(batch, length, KV * head, seed=2)
    cache = [None, None] if past == 0 and buffer is None else [normal(batch, KV, buffer or past, head,
                                                                      seed=i) for i in (3, 4)]
    totals = np.full(batch, total) if totals is None else np.array(totals)
    inputs = [np.concatenate([q, k, v], 2), None, None] if packed else [q, k, v]
    return [*inputs, *cache, (totals - 1).astype(I32), scalar(total, I32)]


def angles(positions, pairs):
    grid = np.arange(positions)[:, None] / 100 ** (np.arange(pairs) / pairs)
    return np.cos(grid).astype(F), np.sin(grid).astype(F)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("past", [0, 3])
@pytest.mark.parametrize("attributes", [{}, {"local_window_size": 3}, {"softcap": 2.0}, {"scale": 0.4},
                                        {"smooth_softmax": 1}])
def test_group_query_attention(past, packed, attributes):
    length = 5 if past == 0 else 1
    inputs = query_group_inputs(1, length, past, packed=packed)
    check("GroupQueryAttention", inputs, {"num_heads": 4, "kv_num_heads": KV, **attributes}, outputs=("y", "k", "v"))


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("pairs", [8, 16])
@pytest.mark.parametrize("past", [0, 3])
def test_group_query_attention_rotates(past, pairs, interleaved):
    length = 5 if past == 0 else 1
    inputs = query_group_inputs(2, length, past, head=2 * pairs)
    cosines, sines = angles(16, pairs)
    check("GroupQueryAttention", [*inputs, cosines, sines],
          {"num_heads": 4, "kv_num_heads": KV, "do_rotary": 1, "rotary_interleaved": interleaved},
          outputs=("y", "k", "v"))


@pytest.mark.parametrize("stage", [1, 2])
@pytest.mark.parametrize("past", [0, 3])
@pytest.mark.parametrize("attributes", [{}, {"local_window_size": 3}, {"softcap": 2.0}, {"smooth_softmax": 1}])
def test_group_query_attention_shows_scores(past, attributes, stage):
    inputs = query_group_inputs(1, 5, past)
    check("GroupQueryAttention", inputs, {"num_heads": 4, "kv_num_heads": KV, "qk_output": stage, **attributes},
          outputs=("y", "k", "v", "qk"))


def cache_inputs(bits, kind, past, buffer=None, head=16, batch=1):
    inputs = query_group_inputs(batch, 3, past, head=head, buffer=buffer)
    shape = (batch, KV, buffer or past, head * bits // 8)
    low, high, dtype = (-128, 128, I8) if bits == 8 else (0, 256, U8)
    if past or buffer:
        inputs[3:5] = (np.random.default_rng(i).integers(low, high, shape, dtype) for i in (5, 6))
    count = 1 if kind == "PER_TENSOR" else KV * head
    scales = [np.random.default_rng(i).uniform(0.01, 0.03, count).astype(F) * (1 if bits == 8 else 12) for i in (7, 8)]
    return inputs, scales


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("kind", ["PER_TENSOR", "PER_CHANNEL"])
@pytest.mark.parametrize("past,buffer", [(0, 9), (4, None), (4, 9)])
@pytest.mark.parametrize("attributes", [{}, {"softcap": 2.0}, {"qk_output": 1}])
def test_group_query_attention_with_caches_of_integers(bits, kind, past, buffer, attributes):
    inputs, scales = cache_inputs(bits, kind, past, buffer)
    check("GroupQueryAttention", [*inputs, *[None] * 5, *scales],
          {"num_heads": 4, "kv_num_heads": KV, "kv_cache_bit_width": bits, "k_quant_type": kind, "v_quant_type": kind,
           **attributes}, outputs=("y", "k", "v", "qk") if "qk_output" in attributes else ("y", "k", "v"),
          compared={"y", "qk"} if buffer else None)     # caches are undefined behind a sample's end


@pytest.mark.parametrize("attributes,scales,match", [
    ({"k_quant_type": "PER_TOKEN"}, 2, "k_quant_type is PER_TOKEN"),
    ({"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"}, 0, "without the input k_scale"),
    ({}, 2, "k_quant_type is NONE, with the input k_scale"),
    ({"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"}, 2, "kv_cache_bit_width is 0, expected 8 or 4"),
    ({"k_quant_type": "PER_CHANNEL", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8}, 2,
     r"k_scale is float32 \[1\], expected 32 of float32"),
    ({"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 4}, 2, "does not fit"),
    ({"qk_output": 3}, None, "qk_output is 3")])
def test_caches_that_are_refused(attributes, scales, match):
    inputs, given = cache_inputs(8, "PER_TENSOR", 4)
    if scales is None:
        inputs = query_group_inputs(1, 5, 3)
    with pytest.raises(clprim.InvalidArgument, match=f"GroupQueryAttention.*{match}"):
        ours("GroupQueryAttention", [*inputs, *([None] * 5 + given if scales else [])],
             {"num_heads": 4, "kv_num_heads": KV, **attributes}, outputs=("y", "k", "v", "qk"))


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("extra", ["none", "mask", "bias"])
def test_multi_head_attention_shows_scores(unidirectional, extra):
    q, k, v = (normal(2, 5, SIZE, seed=i) for i in range(3))
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], I32) if extra == "mask" else None
    bias = normal(2, HEADS, 5, 5) if extra == "bias" else None
    check("MultiHeadAttention", [q, k, v, None, mask, bias], {"num_heads": HEADS, "unidirectional": unidirectional},
          outputs=("y", "k", "v", "qk"))


@pytest.mark.parametrize("extra", ["none", "mask", "bias"])
def test_decoder_masked_attention_shows_scores(extra):
    head, past, batch = SIZE // HEADS, 4, 2
    q, k, v = (normal(batch, 1, SIZE, seed=i) for i in range(3))
    cache = [normal(batch, HEADS, 8, head, seed=i) for i in (3, 4)]
    mask = np.array([[1, 1, 1, 1, 1], [0, 1, 1, 0, 1]], I32) if extra == "mask" else None
    bias = normal(batch, HEADS, 1, 5) if extra == "bias" else None
    check("DecoderMaskedMultiHeadAttention", [q, k, v, mask, bias, *cache, scalar([past], I32)],
          {"num_heads": HEADS, "past_present_share_buffer": 1, "output_qk": 1}, outputs=("y", "k", "v", "qk"))


def test_group_query_attention_of_unequal_samples():
    inputs = query_group_inputs(2, 1, 5, buffer=8, totals=[6, 4])       # caches are undefined behind a sample's end
    check("GroupQueryAttention", inputs, {"num_heads": 4, "kv_num_heads": KV}, outputs=("y", "k", "v"), compared={"y"})


def test_group_query_attention_with_bias_and_sink():
    inputs = query_group_inputs(1, 5, 0)
    check("GroupQueryAttention", [*inputs, None, None, None, normal(1, 4, 5, 5)], {"num_heads": 4, "kv_num_heads": KV},
          outputs=("y", "k", "v"))
    check("GroupQueryAttention", [*inputs, None, None, None, None, normal(4)], {"num_heads": 4, "kv_num_heads": KV},
          outputs=("y", "k", "v"))


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("case", ["tokens", "offset", "four", "partial"])
def test_rotary_embedding(case, interleaved):
    heads, head, length = 3, 8, 4
    cosines, sines = angles(10, 2 if case == "partial" else 4)
    x = normal(2, heads, length, head) if case == "four" else normal(2, length, heads * head)
    at = np.array([3], I64) if case == "offset" else integers(0, 10, 2, length, dtype=I64)
    attributes = {"interleaved": interleaved}
    if case == "partial":
        attributes |= {"num_heads": heads, "rotary_embedding_dim": 4}
    check("RotaryEmbedding", [x, at, cosines, sines], attributes)


# ---- layers
# --------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("positions", [False, True])
def test_embed_layer_normalization(segments, positions):
    ids, size = integers(0, 11, 2, 4, dtype=I32), 8
    inputs = [ids, integers(0, 2, 2, 4, dtype=I32, seed=1) if segments else None, normal(11, size), normal(6, size),
              normal(2, size) if segments else None, normal(size), normal(size, seed=1),
              np.array([[1, 1, 1, 0]] * 2, I32),
              integers(0, 6, 2, 4, dtype=I32) if positions else None]
    check("EmbedLayerNormalization", inputs, {"epsilon": 1e-5}, outputs=("y", "mask", "sum"),
          constants={"x2", "x3", "x4", "x5", "x6"})


def test_quantized_embed_layer_normalization():
    size, scale, zero = 8, scalar(0.02), scalar(100, U8)
    tables = [integers(0, 256, rows, size) for rows in (11, 6, 2)] + [integers(0, 256, size),
                                                                      integers(0, 256, size, seed=1)]
    inputs = [integers(0, 11, 2, 4, dtype=I32), integers(0, 2, 2, 4, dtype=I32), *tables, None, *[scale] * 5,
              *[zero] * 5]
    check("QEmbedLayerNormalization", inputs, {"epsilon": 1e-5}, outputs=("y", "mask"),
          constants={f"x{i}" for i in range(2, 18)})


@pytest.mark.parametrize("name, inputs, attributes", [
    ("SkipLayerNormalization", [normal(2, 3, 8), normal(2, 3, 8, seed=1), normal(8), normal(8, seed=1),
                                normal(8, seed=2)],
     {"epsilon": 1e-5}),
    ("SkipSimplifiedLayerNormalization", [normal(2, 3, 8), normal(2, 3, 8, seed=1), normal(8)], {"epsilon": 1e-5}),
    ("BiasGelu", [normal(2, 8), normal(8)], {}), ("FastGelu", [normal(2, 8), normal(8)], {}),
    ("Gelu", [normal(2, 8)], {}),
    ("QuickGelu", [normal(2, 8)], {"alpha": 1.5}),
    ("FusedMatMul", [normal(2, 3, 4), normal(2, 5, 4)], {"transB": 1, "alpha": 0.5}),
    ("TransposeMatMul", [normal(4, 3), normal(4, 5)], {"transA": 1, "alpha": 0.5}),
    ("FusedGemm", [normal(3, 4), normal(4, 5), normal(5)], {"activation": "Relu", "alpha": 0.5}),
    ("FusedGemm", [normal(3, 4), normal(4, 5), normal(5)], {"activation": "LeakyRelu", "activation_alpha": 0.3}),
    ("FusedConv", [normal(1, 3, 6, 6), normal(4, 3, 3, 3), normal(4)], {"activation": "Relu"}),
    ("FusedConv", [normal(1, 3, 6, 6), normal(4, 3, 3, 3), normal(4)], {"activation": "Tanh"}),
    ("FusedConv", [normal(1, 3, 6, 6), normal(4, 3, 3, 3), normal(4), normal(1, 4, 4, 4)], {"activation": "Tanh"}),
    ("FusedConv", [normal(1, 3, 6, 6), normal(4, 3, 3, 3), normal(4)],
     {"activation": "HardSigmoid", "activation_params": [0.2, 0.4]}),
    ("Trilu", [normal(3, 4)], {"upper": 0}), ("Pad", [normal(2, 3), np.array([1, 0, 0, 2], I64), scalar(0.5)], {}),
    ("ExpandDims", [normal(2, 3), scalar(1, I32)], {}), ("GatherND", [normal(2, 3), np.array([[0, 1], [1, 2]], I64)],
                                                         {}),
    ("GridSample", [normal(1, 2, 4, 4), normal(1, 3, 3, 2, scale=0.5)], {"align_corners": 1}),
    ("CDist", [normal(4, 3), normal(5, 3, seed=1)], {"metric": "euclidean"}),
    ("CDist", [normal(4, 3), normal(5, 3, seed=1)], {}),
    ("Range", [scalar(1.0), scalar(4.0), scalar(0.5)], {}), ("NhwcMaxPool", [integers(0, 256, 1, 6, 6, 3)],
                                                              {"kernel_shape": [2, 2], "strides": [2, 2]}),
])
def test_against_onnxruntime(name, inputs, attributes):
    check(name, inputs, attributes)


def test_unique():
    check("Unique", [np.array([2, 1, 1, 3, 4, 3], F)], outputs=("y", "index", "counts"))


def silu(x):
    return x / (1 + np.exp(-x))


def group_norm(x, gamma, beta, groups, eps=1e-5):
    n, h, w, c = x.shape
    rows = x.astype(np.float64).reshape(n, h * w, groups, c // groups)
    mean, var = rows.mean((1, 3), keepdims=True), rows.var((1, 3), keepdims=True)
    return ((rows - mean) / np.sqrt(var + eps)).reshape(x.shape) * gamma + beta


def test_layers_without_a_cpu_kernel():
    """ONNX Runtime has them on GPUs only: their definitions."""
    close = dict(rtol=1e-4, atol=2e-5)
    x, gamma, beta, skip = normal(2, 4, 5, 8), normal(8), normal(8, seed=1), normal(2, 4, 5, 8, seed=1)
    y, = ours("GroupNorm", [x, gamma, beta], {"groups": 4, "activation": 1})
    np.testing.assert_allclose(y, silu(group_norm(x, gamma, beta, 4)), **close)
    y, total = ours("SkipGroupNorm", [x, gamma, beta, skip, normal(8)], {"groups": 2, "activation": 0}, ("y", "s"))
    np.testing.assert_allclose(total, x + skip + normal(8), **close)
    np.testing.assert_allclose(y, group_norm(x + skip + normal(8), gamma, beta, 2), **close)
    hidden, bias = normal(2, 3, 8), normal(8)
    left, right = np.split((hidden + bias).astype(np.float64), 2, axis=-1)
    erf = np.vectorize(__import__("math").erf)
    np.testing.assert_allclose(ours("BiasSplitGelu", [hidden, bias], {})[0],
                               left * 0.5 * right * (1 + erf(right / np.sqrt(2))), **close)
    np.testing.assert_allclose(ours("BiasAdd", [hidden, bias, normal(2, 3, 8, seed=1)], {})[0],
                               hidden + bias + normal(2, 3, 8, seed=1), **close)
    scores, mask = normal(2, 3, 4, 5), normal(2, 1, 1, 5)
    expected = np.exp((scores + mask).astype(np.float64))
    np.testing.assert_allclose(ours("BiasSoftmax", [scores, mask], {"axis": 3, "is_inner_broadcast": 1})[0],
                               expected / expected.sum(-1, keepdims=True), **close)


def test_channels_last_convolutions():
    import torch

    x, w, b = normal(1, 6, 7, 4), normal(5, 3, 3, 4), normal(5)
    expected = torch.conv2d(torch.tensor(x).permute(0, 3, 1, 2), torch.tensor(w).permute(0, 3, 1, 2), torch.tensor(b),
                            padding=1).permute(0, 2, 3, 1).numpy()
    y, = ours("NhwcConv", [x, w, b], {"pads": [1, 1, 1, 1]})
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=2e-5)
    y, = ours("NhwcFusedConv", [x, np.ascontiguousarray(w.transpose(0, 3, 1, 2)), b, expected],
              {"pads": [1, 1, 1, 1], "activation": "Relu"})
    np.testing.assert_allclose(y, np.maximum(2 * expected, 0), rtol=1e-4, atol=2e-5)


def bucket(distance, buckets, farthest, both_ways):
    first, distance = 0, -distance
    if both_ways:
        buckets //= 2
        first, distance = (buckets if distance < 0 else 0), abs(distance)
    distance = max(distance, 0)
    exact = buckets // 2
    if distance < exact:
        return first + distance
    return first + min(buckets - 1,
                       exact + int(np.log(F(distance) / exact) / np.log(farthest / exact) * (buckets - exact)))


@pytest.mark.parametrize("both_ways", [0, 1])
def test_relative_position_bias(both_ways):
    table = normal(32, 3)
    y, = ours("RelativePositionBias", [table, np.array([20], I64), np.array([30], I64)],
              {"max_distance": 128, "is_bidirectional": both_ways})
    expected = np.array([[table[bucket(k - q, 32, 128, both_ways)] for k in range(30)] for q in range(20)])
    np.testing.assert_array_equal(y[0], expected.transpose(2, 0, 1))


def test_refusals_name_the_operator():
    with pytest.raises(clprim.InvalidArgument, match="GroupQueryAttention.*seqlens_k"):
        inputs = query_group_inputs(2, 1, 3)
        inputs[5] = np.array([90, 0], I32)
        ours("GroupQueryAttention", inputs, {"num_heads": 4, "kv_num_heads": KV})
    with pytest.raises(clprim.InvalidArgument, match="MatMulNBits.*bits"):
        ours("MatMulNBits", [normal(1, 32), integers(0, 256, 8, 1, 16), normal(8, 1)],
             {"K": 32, "N": 8, "bits": 5, "block_size": 32})
