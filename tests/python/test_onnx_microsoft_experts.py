"""com.microsoft's mixtures of experts: against ONNX Runtime's CPU, or float32 where it rounds more."""
import numpy as np
import pytest

import clprim

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx_microsoft import F, check, integers, normal, ours, sigmoid  # noqa: E402

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


@pytest.mark.parametrize("name, inputs, attributes, said", [
    ("MoE", [normal(4, 8), normal(4, 3), normal(3, 8, 8), None, normal(3, 8, 8)], {"activation_type": "tanh"},
     "activation_type is 'tanh'"),
    ("MoE", [normal(4, 8), normal(4, 3), normal(3, 8, 8), None, normal(3, 8, 8)], {"k": 4}, "k is 4 of 3"),
    ("MoE", [normal(4, 8), normal(3, 3), normal(3, 8, 8), None, normal(3, 8, 8)], {}, "router_probs"),
    ("MoE", [normal(4, 8), normal(4, 5), normal(3, 8, 8), None, normal(3, 8, 8)], {"k": 5}, "no expert"),
    ("QMoE", [normal(4, 8), normal(4, 3), integers(0, 9, 3, 8, 4), normal(3, 8), None, integers(0, 9, 3, 8, 4),
              normal(3, 8)], {"expert_weight_bits": 3}, "3 bits"),
])
def test_refusals(name, inputs, attributes, said):
    with pytest.raises(clprim.InvalidArgument, match=name + ".*" + said):
        ours(name, inputs, attributes)
