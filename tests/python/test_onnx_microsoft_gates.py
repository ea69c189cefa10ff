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


@pytest.mark.parametrize("name, inputs, attributes, said", [
    ("GatedRMSNorm", [normal(2, 12), normal(5), normal(2, 12)], {}, "do not fit"),
    ("GatedRMSNorm", [normal(2, 12), normal(4), normal(2, 12)], {"activation": "tanh"}, "activation"),
    ("BranchwiseRMSNorm", [normal(2, 12)], {"num_branches": 5}, "5 branches"),
])
def test_refusals(name, inputs, attributes, said):
    with pytest.raises(clprim.InvalidArgument, match=name + ".*" + said):
        ours(name, inputs, attributes)
