"""com.microsoft's gates and norms of gated models: against ONNX Runtime's CPU where it has a kernel, else against their
definitions."""
import numpy as np
import pytest

import clprim

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx_microsoft import CLOSE, check, normal, ours, scalar, sigmoid  # noqa: E402

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


@pytest.mark.parametrize("limit", [0.0, 0.7])
def test_swiglu_that_rounds_between(limit):
    """By its definition, in numpy's float32 and float16."""
    gate, up = normal(64, 8, dtype=np.float16), normal(64, 8, seed=1, dtype=np.float16)
    y, = ours("SwiGLU", [gate, up], {"limit": limit, "activation_alpha": 1.5, "round_activation": 1})
    g, u = gate.astype(np.float32), up.astype(np.float32)
    if limit:
        g, u = np.minimum(g, np.float32(limit)), np.clip(u, -np.float32(limit), np.float32(limit))
    expected = ((g * sigmoid(1.5 * g)).astype(np.float16).astype(np.float32) * u).astype(np.float16)
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-6)
    assert (y == expected).mean() > 0.98                  # the rest are ties of the first rounding


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("prologue", [False, True])
def test_hyper_connections_of_low_rank(prologue, dtype):
    """By the formula of its schema, each step rounded to the type; ONNX Runtime's CPU has no such kernel."""
    branches, size, rank = 4, 8, 5
    width = branches * size
    x, scale = normal(2, 3, width, dtype=dtype), normal(width, seed=1, dtype=dtype)
    down, up, inject = (normal(*shape, seed=i, dtype=dtype) for i, shape in
                        enumerate([(width, rank), (rank, width), (width, branches)], 2))
    block, post = normal(2, 3, size, seed=6, dtype=dtype), normal(2, 3, branches, seed=7, dtype=dtype)
    numbers = {"gate_mul": 2.0, "gate_div": 3.0, "silu_alpha": 0.7, "reduction_scale": 0.5, "epsilon": 1e-3}
    results = ours("HyperConnectionLowRankMix", [x, scale, down, up, inject, *([block, post] if prologue else [])],
                   numbers | {"num_branches": branches}, ("pre", "gate", "streams"))

    def cast(array):
        return array.astype(dtype).astype(np.float32)

    s = x.reshape(2, 3, branches, size).astype(np.float32)
    if prologue:
        s = cast(s + post[..., None].astype(np.float32) * block[:, :, None].astype(np.float32))
    mean = (s ** 2).mean(-1, keepdims=True)
    normed = cast(s / np.sqrt(mean + 1e-3) * scale.reshape(branches, size).astype(np.float32))
    line = normed.reshape(2, 3, width)
    z = cast(0.7 * cast(line @ down.astype(np.float32)))
    gate = cast(sigmoid(cast(cast(z * cast(sigmoid(z))) @ up.astype(np.float32))))
    pre = cast(0.5 * (normed * gate.reshape(normed.shape)).sum(2))
    out = cast(2 * cast(sigmoid(cast(cast(line @ inject.astype(np.float32)) / 3))))
    for result, expected in zip(results, (pre, out, s.reshape(2, 3, width)), strict=True):
        assert result.dtype == dtype and result.shape == expected.shape
        limit = 1e-5 if dtype is np.float32 else 4e-3          # some roundings away
        np.testing.assert_allclose(result.astype(np.float32), expected, rtol=limit, atol=limit)


def test_router_and_gates_in_one_product():
    """As MatMul, Split and SwiGLU, which is its definition, in numpy; ONNX Runtime's CPU has no such kernel."""
    x, w = normal(2, 3, 16, dtype=np.float16), normal(16, 4 + 2 * 6, seed=1, dtype=np.float16)
    router, gated = ours("RouterGateUpProj", [x, w], {"router_size": 4, "limit": 2.0, "activation_alpha": 1.5,
                                                      "activation_beta": 0.5}, ("router", "activated"))
    y = (x.astype(np.float32) @ w.astype(np.float32)).astype(np.float16)
    gate, up = np.minimum(y[..., 4:10].astype(np.float32), 2), np.clip(y[..., 10:].astype(np.float32), -2, 2)
    np.testing.assert_allclose(router, y[..., :4], rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(gated, gate * sigmoid(1.5 * gate) * (up + 0.5), rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("name, inputs, attributes, said", [
    ("RouterGateUpProj", [normal(2, 8), normal(8, 9)], {"router_size": 4}, "W has shape"),
    ("RouterGateUpProj", [normal(2, 8), normal(8, 10)], {"router_size": 4, "activation": "x"}, "activation is 'x'"),
    ("HyperConnectionLowRankMix", [normal(2, 8), normal(8), normal(8, 3), normal(3, 8), normal(8, 3)],
     {"num_branches": 2}, "do not fit 2 branches"),
    ("HyperConnectionLowRankMix", [normal(2, 8), normal(8), normal(8, 3), normal(3, 8), normal(8, 2), normal(2, 4)],
     {"num_branches": 2}, "must both be there"),
    ("GatedRMSNorm", [normal(2, 12), normal(5), normal(2, 12)], {}, "do not fit"),
    ("GatedRMSNorm", [normal(2, 12), normal(4), normal(2, 12)], {"activation": "tanh"}, "activation"),
    ("BranchwiseRMSNorm", [normal(2, 12)], {"num_branches": 5}, "5 branches"),
])
def test_refusals(name, inputs, attributes, said):
    with pytest.raises(clprim.InvalidArgument, match=name + ".*" + said):
        ours(name, inputs, attributes)
