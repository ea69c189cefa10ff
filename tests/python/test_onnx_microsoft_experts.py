"""com.microsoft's mixtures of experts: against ONNX Runtime's CPU, or float32 where it rounds more."""
import numpy as np
import pytest

import clprim

pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx_microsoft import F, check, integers, model_of, normal, ours, sigmoid  # noqa: E402

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


def of_real_weights(inputs, layers, attributes):
    """ONNX Runtime's MoE of the same experts with real weights."""
    given = [inputs[0], inputs[1], layers[0], inputs[4], layers[1], inputs[7]]
    data, feeds = model_of("MoE", given, ("y",), attributes)
    return ort.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds)[0]


@pytest.mark.parametrize("block", [None, 48, 32])
@pytest.mark.parametrize("activation", ["silu", "swiglu"])
def test_experts_of_narrow_floats(block, activation):
    """By the formula of its schema, weights made real: ONNX Runtime's CPU has no such kernel."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    wide = 2 if activation == "swiglu" else 1
    inputs, real = [normal(6, HIDDEN), normal(6, EXPERTS)], []
    for i, (out, inner) in enumerate([(wide * INNER, HIDDEN), (HIDDEN, INNER)]):
        weights = normal(EXPERTS, out, inner, seed=i).astype(ml_dtypes.float8_e4m3fn)
        squares = (-(-out // block), -(-inner // block)) if block else ()
        scales = np.abs(normal(EXPERTS, *squares, seed=i + 5, scale=0.2))
        each = np.repeat(np.repeat(scales, block, 1), block, 2)[:, :out, :inner] if block else scales[:, None, None]
        real.append(weights.astype(F) * each)
        inputs += [weights, scales if block else None, normal(EXPERTS, out, seed=i + 8)]
        if not block:
            inputs[-2] = None
    attributes = {"k": 2, "activation_type": activation, "normalize_routing_weights": 1}
    if wide == 2:
        attributes |= {"swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 2.0}
    more = {"quant_type": "fp8"} | ({"block_size": block} if block else {})
    whole = inputs if block else [*inputs, *[None] * 7, *(np.abs(normal(EXPERTS, seed=i + 5, scale=0.2))
                                                          for i in range(2))]
    y, = ours("QMoE", whole, attributes | more)
    np.testing.assert_allclose(y, of_real_weights(inputs, real, attributes), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("second", [3, 8])
def test_experts_of_three_bits(second):
    """By the formula of its schema: rows are streams of bits, the lowest first, around 4."""
    inputs, real = [normal(6, HIDDEN), normal(6, EXPERTS)], []
    for i, (out, inner, bits) in enumerate([(2 * INNER, HIDDEN, 3), (HIDDEN, INNER, second)]):
        codes = integers(0, 1 << bits, EXPERTS, out, inner, seed=i)
        stream = (codes[..., None] >> np.arange(bits) & 1).reshape(EXPERTS, out, -1).astype(np.uint8)
        scales = np.abs(normal(EXPERTS, out, inner // 32, seed=i + 5)) * F(0.1 if bits == 3 else 0.003)
        real.append((codes.astype(F) - (1 << (bits - 1))) * np.repeat(scales, 32, 2))
        inputs += [np.packbits(stream, -1, "little"), scales, normal(EXPERTS, out, seed=i + 8)]
    attributes = {"k": 2, "activation_type": "swiglu", "swiglu_fusion": 1}
    y, = ours("QMoE", inputs, attributes | {"fc1_expert_weight_bits": 3, "fc2_expert_weight_bits": second,
                                            "block_size": 32, "weights_prepacked": 0})
    np.testing.assert_allclose(y, of_real_weights(inputs, real, attributes), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("activation, fusion", [("relu2", 0), ("geglu", 1), ("geglu", 2), ("after", 1), ("after", 2)])
def test_activations_of_experts(activation, fusion):
    """By the formulas of QMoE's schema in float64; ONNX Runtime's CPU has none of them."""
    wide = 2 if fusion else 1
    x, router = normal(4, HIDDEN), normal(4, EXPERTS)
    one, two = normal(EXPERTS, wide * INNER, HIDDEN, scale=0.2), normal(EXPERTS, HIDDEN, INNER, seed=1, scale=0.2)
    attributes = {"k": 2, "activation_type": activation}
    if fusion:
        attributes["swiglu_fusion"] = fusion
    if activation == "after":
        attributes |= {"activation_type": "swiglu", "swiglu_limit_after_activation": 1, "swiglu_limit": 0.6,
                       "activation_alpha": 1.702, "activation_beta": 1.0}
    y, = ours("MoE", [x, router, one, None, two], attributes)
    shares = np.exp(router) / np.exp(router).sum(1, keepdims=True)
    expected = np.zeros((4, HIDDEN))
    for t in range(4):
        for e in np.argsort(-router[t])[:2]:
            hidden = one[e].astype(np.float64) @ x[t]
            gate, up = (hidden[::2], hidden[1::2]) if fusion == 1 else (hidden[:INNER], hidden[INNER:])
            if activation == "relu2":
                hidden = np.maximum(hidden, 0) ** 2
            elif activation == "geglu":
                hidden = gate / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (gate + 0.044715 * gate ** 3))) * up
            else:
                hidden = np.minimum(gate * sigmoid(1.702 * gate), 0.6) * (np.clip(up, -0.6, 0.6) + 1)
            expected[t] += shares[t, e] * (two[e] @ hidden)
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("groups, active, best", [(1, 1, 2), (4, 2, 2), (2, 1, 1)])
def test_group_router(groups, active, best):
    check("MoEGroupRouter", [normal(5, 8), normal(8, scale=0.1)],
          {"n_group": groups, "topk_group": active, "group_topk": best, "top_k": 2})


@pytest.mark.parametrize("name, inputs, attributes, said", [
    ("MoE", [normal(4, 8), normal(4, 3), normal(3, 8, 8), None, normal(3, 8, 8)], {"activation_type": "tanh"},
     "activation_type is 'tanh'"),
    ("MoE", [normal(4, 8), normal(4, 3), normal(3, 8, 8), None, normal(3, 8, 8)], {"k": 4}, "k is 4 of 3"),
    ("MoE", [normal(4, 8), normal(3, 3), normal(3, 8, 8), None, normal(3, 8, 8)], {}, "router_probs"),
    ("MoE", [normal(4, 8), normal(4, 5), normal(3, 8, 8), None, normal(3, 8, 8)], {"k": 5}, "no expert"),
    ("QMoE", [normal(4, 8), normal(4, 3), integers(0, 9, 3, 8, 4), normal(3, 8), None, integers(0, 9, 3, 8, 4),
              normal(3, 8)], {"expert_weight_bits": 5}, "5 bits"),
    ("QMoE", [normal(4, 8), normal(4, 3), integers(0, 9, 3, 8, 4), normal(3, 8), None, integers(0, 9, 3, 8, 4),
              normal(3, 8)], {"expert_weight_bits": 3}, "rows of 4 bytes do not hold eights of three bits"),
    ("QMoE", [normal(4, 8), normal(4, 3), integers(0, 9, 3, 8, 4), normal(3, 8), None, integers(0, 9, 3, 8, 4),
              normal(3, 8)], {"quant_type": "fp8"}, "fc1 is not float8e4m3fn"),
    ("QMoE", [normal(4, 8), normal(4, 3), integers(0, 9, 3, 8, 4), normal(3, 8), None, integers(0, 9, 3, 8, 4),
              normal(3, 8)], {"quant_type": "nvfp4"}, "quant_type is 'nvfp4'"),
])
def test_refusals(name, inputs, attributes, said):
    with pytest.raises(clprim.InvalidArgument, match=name + ".*" + said):
        ours(name, inputs, attributes)
