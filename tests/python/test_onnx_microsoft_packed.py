"""com.microsoft's packed batches, mixtures of experts, gates and what is left: against ONNX Runtime's CPU where it has
a kernel, else against their definitions."""
import numpy as np
import pytest

import clprim

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx_microsoft import F, I32, I64, check, integers, normal, ours, scalar  # noqa: E402

CLOSE = dict(rtol=1e-4, atol=2e-5)
COUNTS, LENGTH, HEADS, SIZE = [2, 4, 1], 4, 2, 8
REAL = np.arange(LENGTH)[None] < np.array(COUNTS)[:, None]
PLACES = np.concatenate([np.flatnonzero(REAL.ravel()), np.flatnonzero(~REAL.ravel())]).astype(I32).reshape(3, LENGTH)
SUMS = np.concatenate([[0], np.cumsum(COUNTS)]).astype(I32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x.astype(np.float64)))


# ---- packed batches
# -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", [F, np.float16])
def test_padding_comes_and_goes(dtype):
    x = normal(3, LENGTH, 5, dtype=dtype)
    rows, places, sums, longest = ours("RemovePadding", [x, np.array(COUNTS, I32)], {}, ("a", "b", "c", "d"))
    np.testing.assert_array_equal(rows, x[REAL])
    np.testing.assert_array_equal(places, PLACES)
    np.testing.assert_array_equal(sums, SUMS)
    np.testing.assert_array_equal(longest, [4])
    whole, = ours("RestorePadding", [rows, places], {})
    np.testing.assert_array_equal(whole, x * REAL[..., None])


def padded(rows):
    whole = np.zeros((3 * LENGTH, rows.shape[1]), rows.dtype)
    whole[PLACES.ravel()[:len(rows)]] = rows
    return whole.reshape(3, LENGTH, -1)


@pytest.mark.parametrize("bias", [False, True])
def test_packed_attention(bias):
    """The unpacked operator with a mask of counts."""
    x, w, b = normal(7, 6), normal(6, 3 * SIZE, scale=0.3), normal(3 * SIZE)
    added = normal(1, HEADS, LENGTH, LENGTH) if bias else None
    y, = ours("PackedAttention", [x, w, b, PLACES, SUMS, added], {"num_heads": HEADS})
    whole, = ours("Attention", [padded(x), w, b, np.array(COUNTS, I32), None, added], {"num_heads": HEADS})
    np.testing.assert_allclose(y, whole[REAL], **CLOSE)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_packed_multi_head_attention(packed, bias):
    parts = [normal(7, SIZE, seed=i) for i in range(3)]
    added, b = normal(3, HEADS, LENGTH, LENGTH), normal(3 * SIZE) if bias else None
    inputs = [*parts, b, PLACES, SUMS, added]
    if packed:
        together = np.stack([p.reshape(7, HEADS, -1) for p in parts], axis=2)
        inputs = [together, None, None, b, PLACES, SUMS, added]
    y, = ours("PackedMultiHeadAttention", inputs, {"num_heads": HEADS, "scale": 0.3})
    whole, = ours("MultiHeadAttention", [*map(padded, parts), b, np.array(COUNTS, I32), added],
                  {"num_heads": HEADS, "scale": 0.3})
    np.testing.assert_allclose(y, whole[REAL], **CLOSE)


@pytest.mark.parametrize("packed", [False, True])
def test_gated_relative_position_bias(packed):
    rows, bias = normal(7, SIZE), normal(SIZE)
    weight, b, eco = normal(SIZE // HEADS, 6), normal(6), normal(1, HEADS, 1, 1)
    position = normal(1, HEADS, LENGTH, LENGTH)
    x = normal(3, LENGTH, SIZE)
    inputs = [rows if packed else x, bias, position, weight, b, eco, PLACES if packed else None]
    y, = ours("GatedRelativePositionBias", inputs, {"num_heads": HEADS})
    query = padded(rows + bias) if packed else x + bias
    heads = query.reshape(3, LENGTH, HEADS, -1).transpose(0, 2, 1, 3)
    gates = sigmoid((heads @ weight + b).reshape(3, HEADS, LENGTH, 2, 3).sum(-1))
    u, r = gates[..., :1], gates[..., 1:]
    np.testing.assert_allclose(y, (u * (r * eco - 1) + 2) * position, **CLOSE)


# ---- mixtures of experts
# ------------------------------------------------------------------------------------------------

EXPERTS, HIDDEN, INNER = 5, 32, 64


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "identity", "swiglu"])
@pytest.mark.parametrize("k, normalised", [(1, 0), (2, 1), (3, 0)])
def test_mixture_of_experts(activation, k, normalised):
    wide = 2 if activation == "swiglu" else 1
    inputs = [normal(2, 3, HIDDEN), normal(6, EXPERTS), normal(EXPERTS, wide * INNER, HIDDEN, scale=0.2),
              normal(EXPERTS, wide * INNER), normal(EXPERTS, HIDDEN, INNER, scale=0.2), normal(EXPERTS, HIDDEN)]
    attributes = {"k": k, "normalize_routing_weights": normalised, "activation_type": activation}
    if wide == 2:
        attributes |= {"swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 1.5}
    check("MoE", inputs, attributes, rtol=1e-3, atol=1e-4)


def test_mixture_without_biases_and_with_a_third_layer():
    x, router = normal(4, HIDDEN), normal(4, EXPERTS)
    one, two, three = (normal(EXPERTS, *shape, seed=i, scale=0.2)
                       for i, shape in enumerate([(INNER, HIDDEN), (HIDDEN, INNER), (INNER, HIDDEN)]))
    check("MoE", [x, router, one, None, two], {"k": 2, "activation_type": "silu"}, rtol=1e-3, atol=1e-4)
    y, = ours("MoE", [x, router, one, None, two, None, three], {"k": 2, "activation_type": "silu"})
    shares = np.exp(router) / np.exp(router).sum(1, keepdims=True)
    expected = np.zeros_like(x)
    for t in range(4):
        for e in np.argsort(-router[t])[:2]:
            hidden = one[e] @ x[t]
            expected[t] += shares[t, e] * (two[e] @ (hidden * sigmoid(hidden) * (three[e] @ x[t])))
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [None, 32])
@pytest.mark.parametrize("activation", ["silu", "swiglu"])
@pytest.mark.parametrize("zeros", [False, True])
def test_quantised_mixture(bits, block, activation, zeros):
    wide = 2 if activation == "swiglu" else 1

    def layer(out, inner, seed):
        blocks = inner // block if block else 1
        shape = (EXPERTS, out, blocks) if block else (EXPERTS, out)
        zero = None
        if zeros:
            packed = (EXPERTS, out, -(-blocks * bits // 8)) if block else (EXPERTS, out * bits // 8)
            zero = integers(100, 140, *packed, seed=seed)
        return [integers(0, 256, EXPERTS, out, inner * bits // 8, seed=seed),
                np.abs(normal(*shape, seed=seed)) * (0.02 if bits == 4 else 0.002) + F(1e-4)], zero

    (one, zero_one), (two, zero_two) = layer(wide * INNER, HIDDEN, 0), layer(HIDDEN, INNER, 1)
    inputs = [normal(6, HIDDEN), normal(6, EXPERTS), *one, normal(EXPERTS, wide * INNER), *two,
              normal(EXPERTS, HIDDEN), None, None, None]
    if zeros:
        inputs += [zero_one, zero_two]
    attributes = {"k": 2, "expert_weight_bits": bits, "activation_type": activation, "normalize_routing_weights": 1,
                  "weights_prepacked": 0}
    if block:
        attributes["block_size"] = block
    if wide == 2:
        attributes |= {"swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0}
    constants = {f"x{i}" for i in range(2, len(inputs))}
    if not (bits == 8 and block):
        return check("QMoE", inputs, attributes, constants=constants, rtol=2e-3, atol=2e-4)

    def real(weights, scales, zero):             # of such blocks ONNX Runtime rounds the activations to eight bits too
        shape = (*weights.shape[:2], -1, block)
        middle = 128 if zero is None else zero[..., None].astype(F)
        return ((weights.reshape(shape).astype(F) - middle) * scales[..., None]).reshape(weights.shape).astype(F)

    plain = {k: v for k, v in attributes.items() if k not in ("expert_weight_bits", "weights_prepacked", "block_size")}
    expected, = ours("MoE", [inputs[0], inputs[1], real(*one, zero_one), inputs[4], real(*two, zero_two), inputs[7]],
                     plain)
    y, = ours("QMoE", inputs, attributes, constants=constants)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("groups, active, best", [(1, 1, 2), (4, 2, 2), (2, 1, 1)])
def test_group_router(groups, active, best):
    check("MoEGroupRouter", [normal(5, 8), normal(8, scale=0.1)],
          {"n_group": groups, "topk_group": active, "group_topk": best, "top_k": 2})


# ---- gates
# -------------------------------------------------------------------------------------------------------------

GATES = [
    ("GatedRMSNorm", [normal(2, 3, 12), normal(4), normal(2, 3, 12, seed=1)], {"activation": "silu"}),
    ("GatedRMSNorm", [normal(2, 3, 12), normal(12), normal(2, 3, 12, seed=1)], {"activation": "sigmoid"}),
    ("BranchwiseRMSNorm", [normal(2, 3, 4, 8), normal(4, 8)], {}),
    ("BranchwiseRMSNorm", [normal(2, 3, 32), normal(8)], {"num_branches": 4}),
    ("BranchwiseRMSNorm", [normal(2, 3, 32)], {"num_branches": 4, "epsilon": 1e-3}),
    ("HyperConnectionPreMix", [normal(2, 3, 4, 8), normal(2, 3, 4)], {"reduction_scale": 0.5}),
    ("HyperConnectionPreMix", [normal(2, 3, 4, 8), normal(2, 3, 4, 1)], {}),
    ("HyperConnectionPreMix", [normal(2, 3, 32), normal(2, 3, 32, seed=1)], {"num_branches": 4}),
    ("HyperConnectionPostMix", [normal(2, 3, 4, 8), normal(2, 3, 8), normal(2, 3, 4), normal(2, 3, 4, 4)], {}),
    ("HyperConnectionPostMix", [normal(2, 3, 32), normal(2, 3, 8), normal(2, 3, 4, 8)], {"num_branches": 4}),
    ("GatedAdd", [normal(2, 3, 8), normal(2, 3, 8, seed=1), normal(2, 3, 1)], {}),
    ("ScaledSiLU", [normal(2, 3, 8)], {"alpha": 0.7}),
    ("ScaledSiLU", [normal(2, 3, 8), scalar(1.3)], {}),
]


@pytest.mark.parametrize("name, inputs, attributes", GATES)
def test_gates(name, inputs, attributes):
    check(name, inputs, attributes)


@pytest.mark.parametrize("name, inputs, attributes", [gate for gate in GATES if gate[0] != "HyperConnectionPreMix"])
def test_gates_of_half_precision(name, inputs, attributes):
    check(name, [x.astype(np.float16) for x in inputs], attributes, rtol=2e-3, atol=2e-3)


def test_linear_attention_gate():
    inputs = [normal(2, 3, 4, scale=4), normal(4), -np.abs(normal(4, seed=1)), normal(2, 3, 4, seed=2)]
    check("LinearAttentionGate", inputs, outputs=("decay", "beta"))
    check("LinearAttentionGate", inputs[:3], outputs=("decay",))


def test_engram_gate():
    check("EngramGate", [normal(2, 3, 4, 8), normal(2, 3, 4, 8, seed=1), normal(2, 3, 8), normal(4, 8),
                         normal(4, 8, seed=1), normal(4, 8, seed=2)], {"epsilon": 1e-4}, outputs=("y", "normed"))


@pytest.mark.parametrize("limit", [0.0, 0.8])
@pytest.mark.parametrize("joined", [False, True])
def test_swiglu(limit, joined):
    gate, up = normal(3, 8), normal(3, 8, seed=1)
    y, = ours("SwiGLU", [np.concatenate([gate, up], 1)] if joined else [gate, up],
              {"limit": limit, "activation_alpha": 1.5, "activation_beta": 0.5})
    if limit:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    np.testing.assert_allclose(y, gate * sigmoid(1.5 * gate) * (up + 0.5), **CLOSE)


# ---- products, spectra, rotations, images
# ------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype, close", [(F, 1e-4), (np.float64, 1e-9), (np.float16, 2e-2)])
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (2, 3, 8, 8), (0, 4, 4)])
def test_inverse(shape, dtype, close):
    x = (normal(*shape) + 4 * np.eye(shape[-1])).astype(dtype)
    check("Inverse", [x], rtol=close, atol=close)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("n, k, block", [(8, 64, 16), (5, 48, 32), (3, 33, 16)])
def test_matmul_bnb4(kind, n, k, block):
    if k == 33:                                        # ONNX Runtime's kernel wants whole blocks in a row
        packed, largest = integers(0, 256, (n * k + 1) // 2), np.abs(normal(-(-n * k // block)))
        x = np.eye(k, dtype=F)
        y, = ours("MatMulBnb4", [x, packed, largest], {"K": k, "N": n, "block_size": block, "quant_type": kind})
        same, = ours("MatMulBnb4", [np.eye(n, dtype=F), packed, largest],
                     {"K": k, "N": n, "block_size": block, "quant_type": kind, "transB": 0})
        np.testing.assert_array_equal(y, same.T)
        assert np.abs(y).max() <= largest.max()
        return
    inputs = [normal(2, 3, k), integers(0, 256, (n * k + 1) // 2), np.abs(normal(-(-n * k // block)))]
    check("MatMulBnb4", inputs, {"K": k, "N": n, "block_size": block, "quant_type": kind}, constants={"x1", "x2"})


def test_fused_products_and_tables():
    a, b = normal(3, 4), normal(5, 4)
    y, = ours("FusedMatMulActivation", [a, b], {"transB": 1, "alpha": 0.5, "activation": "LeakyRelu",
                                                "activation_alpha": 0.2})
    product = 0.5 * (a @ b.T)
    np.testing.assert_allclose(y, np.where(product > 0, product, 0.2 * product), **CLOSE)
    table, at = normal(9, 3), np.array([[0, 8], [4, 4]], I64)
    np.testing.assert_array_equal(ours("TorchEmbedding", [table, at], {})[0], table[at])


def test_complex_numbers_and_spectra():
    a, b = normal(3, 4, 2), normal(4, 2)
    ca, cb = a[..., 0] + 1j * a[..., 1], b[..., 0] + 1j * b[..., 1]
    for name, expected in (("ComplexMul", ca * cb), ("ComplexMulConj", ca * cb.conj())):
        np.testing.assert_allclose(ours(name, [a, b], {})[0], np.stack([expected.real, expected.imag], -1), **CLOSE)
    x = normal(3, 5, 12)
    spectrum, = ours("Rfft", [x], {"signal_ndim": 1})
    expected = np.fft.rfft(x)
    np.testing.assert_allclose(spectrum, np.stack([expected.real, expected.imag], -1), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ours("Irfft", [spectrum], {"signal_ndim": 1})[0], x, **CLOSE)


def test_gemma_rotary_embedding():
    angles, (q, qr, k, kr) = normal(2, 3, 8), (normal(2, 4, 3, 8, seed=i) for i in range(4))
    results = ours("GemmaRotaryEmbedding", [angles, q, qr, k, kr], {}, ("a", "b"))
    c, s = np.cos(angles)[:, None], np.sin(angles)[:, None]
    for result, expected in zip(results, (q * c + qr * s, k * c + kr * s), strict=True):
        np.testing.assert_allclose(result, expected, **CLOSE)


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("form", ["three", "four", "partial"])
def test_multimodal_rotary_embedding(layout, interleaved, form):
    pairs = 6
    angles = np.arange(20)[:, None] / 50 ** (np.arange(pairs) / pairs)
    x = normal(2, 4, 3, 2 * pairs) if form == "four" else normal(2, 3, 4 * (16 if form == "partial" else 12))
    attributes = {"mrope_section": [2, 2, 2], "mrope_layout": layout, "interleaved": interleaved}
    if form != "four":
        attributes["num_heads"] = 4
    if form == "partial":
        attributes |= {"rotary_embedding_dim": 12}
    check("MRotaryEmbedding", [x, integers(0, 20, 3, 2, 3, dtype=I64), np.cos(angles).astype(F),
                               np.sin(angles).astype(F)], attributes)


def test_words_without_characters():
    """ONNX Runtime leaves their results as it finds the memory."""
    words = np.array([[0, 0, 0, 0], [4, 2, 1, 0], [0, 3, 4, 5]], I32)
    y, = ours("WordConvEmbedding", [words, normal(6, 1, 3, 4), normal(6), normal(9, 4)], {})
    assert y[1].all() and not y[[0, 2]].any()


@pytest.mark.parametrize("name, inputs, attributes", [
    ("UnfoldTensor", [normal(3, 10)], {"size": 4, "step": 2}),
    ("UnfoldTensor", [integers(0, 9, 7, 3, dtype=I64)], {"size": 3, "dim": 0}),
    ("ConvTransposeWithDynamicPads", [normal(1, 2, 5, 5), normal(2, 3, 3, 3), np.array([1, 0, 1, 0], I64)],
     {"strides": [2, 2]}),
    ("ConvTransposeWithDynamicPads", [normal(1, 2, 5, 5), normal(2, 3, 3, 3), np.array([1, 1, 1, 1], I64), normal(3)],
     {}),
    ("SampleOp", [normal(3)], {}),
    # Words that fill their row, are shorter, than the window too, or have a hole.
    ("WordConvEmbedding", [np.array([[1, 2, 3, 4, 5], [3, 1, 4, 0, 0], [7, 0, 0, 0, 0], [2, 0, 6, 8, 0]], I32),
                           normal(6, 1, 3, 4), normal(6), normal(9, 4)], {}),
])
def test_windows(name, inputs, attributes):
    check(name, inputs, attributes)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(3, 4), (1, 5), (6, 1)])
def test_crop_and_resize(mode, size):
    boxes = np.array([[0.1, 0.2, 0.7, 0.9], [0, 0, 1, 1], [0.9, 0.1, 0.2, 0.4], [-0.2, 0.3, 0.5, 1.4]], F)
    check("CropAndResize", [normal(2, 3, 7, 9), boxes, np.array([0, 1, 1, 0], I32), np.array(size, I32)],
          {"mode": mode, "extrapolation_value": 0.5})


# ---- tokens
# ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_repeated_ngrams(size):
    check("NGramRepeatBlock", [integers(0, 4, 3, 8, dtype=I64), normal(3, 5)], {"ngram_size": size})


@pytest.mark.parametrize("seed", range(12))
def test_bifurcation(seed):
    rng = np.random.default_rng(seed)
    source = rng.integers(0, 6, 12).astype(I64)
    begin = int(rng.integers(0, 12))
    predicted = np.append(source[begin:], 3)
    if seed % 2:
        predicted[rng.integers(0, len(predicted))] = 9
    inputs = [source, rng.integers(0, 6, 5).astype(I64), np.array([begin], I64), predicted.astype(I64)]
    check("BifurcationDetector", inputs if seed % 3 else inputs[:3], outputs=("tokens", "index"))


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (1, 8, 3), (1, 6)])
def test_time_warping(shape):
    check("DynamicTimeWarping", [np.abs(normal(*shape))])
    check("DynamicTimeWarping", [np.zeros(shape, F)])


@pytest.mark.parametrize("x", [integers(0, 1000, 7, dtype=I32), integers(0, 1000, 7, dtype=I64), normal(7),
                               normal(7, dtype=np.float64),
                               np.array(["", "a", "ab", "abc", "abcd", "grüße"], object)],
                         ids=lambda x: str(x.dtype))
@pytest.mark.parametrize("positive", [0, 1])
def test_murmur_hash(x, positive):
    check("MurmurHash3", [x], {"positive": positive, "seed": 42}, quanta=0)


TEXTS = np.array(["Hello World", "I love computer science !", "", "größe  x", "a.b,c"], object)


@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:4].reshape(2, 2)], ids=["one", "two"])
@pytest.mark.parametrize("mark", [0, 1])
@pytest.mark.parametrize("how", [{"separators": [" "]}, {"separators": [""]}, {"separators": ["\\.", ",", " "]},
                                 {"tokenexp": "[a-z]+"}, {"tokenexp": "."}, {"separators": ["l+"], "mincharnum": 2}],
                         ids=str)
def test_tokenizer(texts, mark, how):
    import onnxruntime as ort
    from onnx_microsoft import model_of

    attributes = {"mark": mark, "pad_value": "#", "mincharnum": 1, **how}
    data, feeds = model_of("Tokenizer", [texts], ("y",), attributes)
    expected = ort.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
    np.testing.assert_array_equal(clprim.Session(data).run(feeds)["y"], expected)


# ---- refusals
# ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name, inputs, attributes, said", [
    ("MoE", [normal(4, 8), normal(4, 3), normal(3, 8, 8), None, normal(3, 8, 8)], {"activation_type": "tanh"},
     "activation_type is 'tanh'"),
    ("MoE", [normal(4, 8), normal(4, 3), normal(3, 8, 8), None, normal(3, 8, 8)], {"k": 4}, "k is 4 of 3"),
    ("MoE", [normal(4, 8), normal(3, 3), normal(3, 8, 8), None, normal(3, 8, 8)], {}, "router_probs"),
    ("MoE", [normal(4, 8), normal(4, 5), normal(3, 8, 8), None, normal(3, 8, 8)], {"k": 5}, "no expert"),
    ("QMoE", [normal(4, 8), normal(4, 3), integers(0, 9, 3, 8, 4), normal(3, 8), None, integers(0, 9, 3, 8, 4),
              normal(3, 8)], {"expert_weight_bits": 3}, "3 bits"),
    ("PackedAttention", [normal(7, 6), normal(6, 25), normal(25), PLACES, SUMS], {"num_heads": 2}, "projection of 25"),
    ("PackedAttention", [normal(13, 6), normal(6, 24), normal(24), PLACES, SUMS], {"num_heads": 2}, "13 tokens"),
    ("RemovePadding", [normal(3, 4, 5), np.array([2, 9, 1], I32)], {}, "sequence_token_count has 9"),
    ("GatedRMSNorm", [normal(2, 12), normal(5), normal(2, 12)], {}, "do not fit"),
    ("GatedRMSNorm", [normal(2, 12), normal(4), normal(2, 12)], {"activation": "tanh"}, "activation"),
    ("BranchwiseRMSNorm", [normal(2, 12)], {"num_branches": 5}, "5 branches"),
    ("CropAndResize", [normal(1, 1, 4, 4), normal(1, 4), np.array([0], I32), np.array([2, 2], I32)],
     {"mode": "cubic"}, "mode is 'cubic'"),
    ("Inverse", [normal(3, 4)], {}, "square"),
    ("MatMulBnb4", [normal(2, 32), integers(0, 256, 16), normal(2)], {"K": 32, "N": 1, "block_size": 16,
                                                                      "quant_type": 2}, "quant_type is 2"),
    ("UnfoldTensor", [normal(3)], {"size": 4}, "size is 4"),
    ("WordConvEmbedding", [integers(0, 9, 2, 5, dtype=I32), normal(6, 1, 7, 4), normal(6), normal(9, 4)], {},
     "do not fit"),
    ("MRotaryEmbedding", [normal(1, 2, 8), integers(0, 4, 3, 1, 2, dtype=I64), normal(4, 4), normal(4, 4)],
     {"mrope_section": [1, 1, 1]}, "mrope_section"),
    ("NGramRepeatBlock", [integers(5, 9, 2, 4, dtype=I64), normal(2, 3)], {"ngram_size": 1}, "token"),
    ("Tokenizer", [TEXTS], {"mark": 0, "pad_value": "", "mincharnum": 1, "separators": ["("]}, "not closed"),
])
def test_refusals(name, inputs, attributes, said):
    with pytest.raises(clprim.InvalidArgument, match=name + ".*" + said):
        ours(name, inputs, attributes)
