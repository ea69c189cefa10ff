"""Kernels that no operator of PyTorch asks for: ONNX models of one operator, run by clprim's sessions."""
from __future__ import annotations

from collections.abc import Iterator

from .problem import Problem

ML, MICROSOFT = "ai.onnx.ml", "com.microsoft"


def run(operator: str, inputs: list, outputs: int = 1, domain: str = "", constant: frozenset | set = frozenset(),
        opset: int = 24, **attributes) -> None:
    """`inputs` are arrays, or None for those left out; those at places in `constant` are the model's own."""
    import clprim
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    node = helper.make_node(operator, names, [f"y{i}" for i in range(outputs)], domain=domain, **attributes)
    given = [i for i, x in enumerate(inputs) if x is not None and i not in constant]
    graph = helper.make_graph(
        [node], "one", [helper.make_tensor_value_info(names[i], helper.np_dtype_to_tensor_dtype(inputs[i].dtype),
                                                      inputs[i].shape) for i in given],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in node.output],
        [numpy_helper.from_array(np.asarray(inputs[i]), names[i]) for i in sorted(constant)])
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(ML, 3), helper.make_opsetid(MICROSOFT, 1)]
    clprim.Session(helper.make_model(graph, opset_imports=opsets, ir_version=10)).run(
        {names[i]: inputs[i] for i in given})


def zeros(*shape, dtype="float32"):
    import numpy as np
    return np.zeros(shape, dtype)


def ones(*shape, dtype="float32"):
    import numpy as np
    return np.ones(shape, dtype)


def quantized(channels: int, group: int, kernel: int, dtype: str = "uint8") -> None:
    """QLinearConv: x, its scale and zero, weights, theirs, and the result's."""
    inputs = [zeros(8, channels, 56, 56, dtype=dtype), ones(), zeros(dtype=dtype),
              ones(channels, channels // group, kernel, kernel, dtype="int8"), ones(), zeros(dtype="int8"), ones(),
              zeros(dtype=dtype)]
    run("QLinearConv", inputs, constant={1, 2, 3, 4, 5, 6, 7}, group=group, pads=[kernel // 2] * 4)


def integers() -> Iterator[Problem]:
    yield Problem("integer: convolution uint8 64-64 3x3 at 56", lambda: quantized(64, 1, 3))
    yield Problem("integer: convolution int8 64-64 1x1 at 56", lambda: quantized(64, 1, 1, "int8"))
    yield Problem("integer: convolution uint8 64 3x3 depthwise at 56", lambda: quantized(64, 64, 3))
    yield Problem("integer: convolution into int32 64-64 3x3 at 56", lambda: run(
        "ConvInteger", [zeros(8, 64, 56, 56, dtype="uint8"), ones(64, 64, 3, 3, dtype="int8")], constant={1},
        pads=[1] * 4))
    yield Problem("integer: matmul with zero points 128x768x3072", lambda: run(
        "MatMulInteger", [zeros(128, 768, dtype="uint8"), ones(768, 3072, dtype="int8"), zeros(dtype="uint8"),
                          zeros(dtype="int8")], constant={1, 2, 3}))

    def add(*shape):
        return run("QLinearAdd", [zeros(8, 64, 56, 56, dtype="uint8"), ones(), zeros(dtype="uint8"),
                                  zeros(*shape, dtype="uint8"), ones(), zeros(dtype="uint8"), ones(),
                                  zeros(dtype="uint8")], domain=MICROSOFT, constant={1, 2, 4, 5, 6, 7})
    yield Problem("integer: quantized addition, uint8, 8x64x56x56", lambda: add(8, 64, 56, 56), 1)
    yield Problem("integer: quantized addition of a channel, uint8, 8x64x56x56", lambda: add(1, 64, 1, 1), 1)
    for count in 4096, 1 << 20:
        yield Problem(f"integer: dynamic quantization, {count}", lambda count=count: run(
            "DynamicQuantizeLinear", [zeros(count)], 3), 1)


def machines() -> Iterator[Problem]:
    """Tables of features, in 1000 rows; lists of boxes."""
    nodes = {"nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0] * 3,
             "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.0] * 3,
             "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0]}
    yield Problem("ml: trees, float32, 1000x16", lambda: run(
        "TreeEnsembleRegressor", [zeros(1000, 16)], domain=ML, **nodes, n_targets=1, target_treeids=[0, 0],
        target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.0, 2.0]))
    yield Problem("ml: support vectors, float32, 1000x6", lambda: run(
        "SVMClassifier", [zeros(1000, 6)], 2, ML, vectors_per_class=[4, 3, 5], classlabels_ints=[0, 1, 2],
        support_vectors=[1.0] * 72, coefficients=[1.0] * 24, rho=[0.0] * 3, kernel_type="RBF",
        kernel_params=[0.5, 0.0, 0.0]))
    yield Problem("ml: probabilities of support vectors, float32, 1000x6", lambda: run(
        "SVMClassifier", [zeros(1000, 6)], 2, ML, vectors_per_class=[4, 3, 5], classlabels_ints=[0, 1, 2],
        support_vectors=[1.0] * 72, coefficients=[1.0] * 24, rho=[0.0] * 3, kernel_type="RBF",
        kernel_params=[0.5, 0.0, 0.0], prob_a=[-1.0] * 3, prob_b=[0.0] * 3))
    yield Problem("nms: lists, float32, 8 of 1000 boxes", lambda: run(
        "NonMaxSuppression", [zeros(1, 1000, 4), zeros(1, 8, 1000), zeros(dtype="int64") + 100, ones()],
        constant={2, 3}))


def sequences() -> Iterator[Problem]:
    yield Problem("rnn: layer, float32, 32x32x256, 128 hidden", lambda: run(
        "LSTM", [zeros(32, 32, 256), zeros(1, 512, 256), zeros(1, 512, 128)], constant={1, 2}, hidden_size=128))
    yield Problem("attention: linear, float32, 2x256, 8 heads of 64", lambda: run(
        "LinearAttention", [*(zeros(2, 256, 512) for _ in range(3)), None, zeros(2, 256, 512), zeros(2, 256, 8)], 2,
        MICROSOFT, q_num_heads=8, kv_num_heads=8, update_rule="gated_delta"))
    for dtype, queries, keys in (("float16", 1024, 1024), ("float32", 1024, 1024), ("float16", 1, 4096)):
        yield Problem(f"attention: softcap, {dtype}, 8 heads of 128, {queries} of {keys}",
                      lambda d=dtype, q=queries, k=keys: run("Attention", [
                          zeros(1, 8, q, 128, dtype=d), *(zeros(1, 4, k, 128, dtype=d) for _ in range(2))],
                          softcap=50.0))


def others() -> Iterator[Problem]:
    def resize(factors, **attributes):
        import numpy as np
        return run("Resize", [zeros(8, 64, 32, 32), None, np.array(factors, "float32")], constant={2}, **attributes)
    yield Problem("resample: repeat, float32, 8x64x32x32", lambda: resize([1, 1, 2, 2], mode="nearest"), 4)
    yield Problem("resample: axes cubic, float32, 8x64x32x32", lambda: resize(
        [1, 1, 1.5, 2.5], mode="cubic", antialias=1), 4)
    yield Problem("linalg: Det, float32, 16x32x32", lambda: run("Det", [zeros(16, 32, 32)]))

    def cast():
        from onnx import TensorProto
        return run("Cast", [zeros(1 << 20)], to=TensorProto.FLOAT4E2M1)
    yield Problem("copy: float32 to float4, 1M", cast, 1)


def problems() -> Iterator[Problem]:
    for family in (integers, machines, sequences, others):
        yield from family()
