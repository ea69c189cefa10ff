"""Quantised convolutional models: Q/DQ pairs become operators of integers, whose sums are exact."""
import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import clprim  # noqa: E402


class Quantised:
    """A model of float operators between Q/DQ pairs, weights of seven bits (see onnx_microsoft.weights)."""

    def __init__(self, seed=0):
        self.random = np.random.default_rng(seed)
        self.nodes, self.constants = [], []

    def constant(self, array):
        self.constants.append(numpy_helper.from_array(np.asarray(array), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def node(self, kind, *inputs, **attributes):
        self.nodes.append(helper.make_node(kind, list(inputs), [f"v{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def pair(self, x, scale, zero, dtype=np.uint8):
        scale, zero = self.constant(np.float32(scale)), self.constant(np.asarray(zero, dtype))
        return self.node("DequantizeLinear", self.node("QuantizeLinear", x, scale, zero), scale, zero)

    def weights(self, shape, scales, axis=0):
        values = self.constant(self.random.integers(-64, 64, shape, dtype=np.int8))
        zeros = self.constant(np.zeros(scales.shape, np.int8))
        return self.node("DequantizeLinear", values, self.constant(scales), zeros, axis=axis)

    def layer(self, kind, x, shape, x_scale, bias=True, axis=0, **attributes):
        outputs = shape[axis]
        scales = self.random.uniform(0.002, 0.01, outputs).astype(np.float32)
        inputs = [x, self.weights(shape, scales, axis)]
        if bias:
            values = self.constant(self.random.integers(-2000, 2000, outputs, dtype=np.int32))
            units = self.constant(np.float32(x_scale) * scales)
            inputs.append(self.node("DequantizeLinear", values, units, self.constant(np.zeros(outputs, np.int32)),
                                    axis=0))
        return self.node(kind, *inputs, **attributes)

    def model(self, x_shape, *outputs):
        graph = helper.make_graph(self.nodes, "quantised",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, x_shape)],
                                  [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
                                  self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                                 ir_version=9).SerializeToString()


def defined(model, x):
    """What the operators are defined to compute, one by one."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})


def operators(session):
    session.run({"x": np.zeros(session.inputs[0].shape, np.float32)})
    return {row.op_type if hasattr(row, "op_type") else row["op_type"] for row in session.profile()}


def network(dtype=np.uint8):
    zero = (lambda z: z) if dtype is np.uint8 else (lambda z: z - 128)
    q = Quantised()
    x = q.pair("x", 0.03, zero(120), dtype)
    a = q.node("Relu", q.layer("Conv", x, (24, 3, 3, 3), 0.03, strides=[2, 2], pads=[1, 1, 1, 1]))
    a = q.pair(a, 0.05, zero(0), dtype)
    top, bottom = q.constant(np.float32(6)), q.constant(np.float32(0))
    b = q.node("Clip", q.layer("Conv", a, (24, 1, 3, 3), 0.05, pads=[1, 1, 1, 1], group=24), bottom, top)
    b = q.pair(b, 0.031, zero(3), dtype)
    c = q.pair(q.layer("Conv", b, (24, 24, 1, 1), 0.031, bias=False), 0.08, zero(131), dtype)
    d = q.pair(q.node("Relu", q.node("Add", c, a)), 0.06, zero(0), dtype)
    e = q.pair(q.node("MaxPool", d, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), 0.06, zero(0), dtype)
    f = q.pair(q.layer("Conv", e, (12, 6, 3, 3), 0.06, group=4), 0.1, zero(128), dtype)
    g = q.pair(q.node("Flatten", f), 0.1, zero(128), dtype)
    h = q.pair(q.layer("Gemm", g, (10, 12 * 3 * 3), 0.1, transB=1), 0.2, zero(100), dtype)
    real = q.layer("Conv", e, (5, 24, 1, 1), 0.06)   # nothing quantises its result
    return q.model([2, 3, 17, 17], h, real, c)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_pairs_become_integers(dtype):
    model = network(dtype)
    x = np.random.default_rng(3).standard_normal((2, 3, 17, 17)).astype(np.float32) * 2
    expected = defined(model, x)
    plain = clprim.Session(model, optimize=False).run({"x": x})
    fused = clprim.Session(model).run({"x": x})
    # A sum that falls between two numbers may be rounded to either: the order in which scales are multiplied differs.
    quanta = (0.2, 0.06, 0.08)
    for theirs, (name, ours), single, quantum in zip(expected, fused.items(), plain.values(), quanta):
        steps = np.abs(ours - theirs) / quantum
        assert steps.max() < 1.01 and (steps > 0.5).sum() <= max(1, 0.02 * steps.size), name
        assert np.abs(single - theirs).max() < 1.01 * quantum, name


def test_only_integers_are_multiplied():
    model = network()
    session = clprim.Session(model, profile=True)
    names = operators(session)
    assert not names & {"Conv", "Gemm", "FusedConv", "Add", "Linear"}, names


def test_saved_models_keep_their_pairs(tmp_path):
    model = network()
    session = clprim.Session(model)
    session.save(str(tmp_path / "saved.onnx"))
    saved = onnx.load(str(tmp_path / "saved.onnx"))
    x = np.random.default_rng(4).standard_normal((2, 3, 17, 17)).astype(np.float32)
    for ours, theirs in zip(session.run({"x": x}).values(), defined(saved.SerializeToString(), x)):
        assert np.abs(ours - theirs).max() <= 0.21


@pytest.mark.parametrize("channels, group, kernel", [(20, 1, 1), (20, 20, 3), (8, 2, 3)])
def test_convolutions_of_integers(channels, group, kernel):
    random = np.random.default_rng(1)
    w = random.integers(-64, 64, (channels, channels // group, kernel, kernel), dtype=np.int8)
    inputs = {"x_zero": np.uint8(17), "w_zero": np.int8(0)}
    attributes = {"group": group, "pads": [kernel // 2] * 4}
    x = random.integers(0, 256, (2, channels, 9, 11), dtype=np.uint8)

    def model(kind, names, constants):
        node = helper.make_node(kind, names, ["y"], **attributes)
        to = TensorProto.INT32 if kind == "ConvInteger" else TensorProto.UINT8
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
                                  [helper.make_tensor_value_info("y", to, None)],
                                  [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                                 ir_version=9).SerializeToString()

    text = model("ConvInteger", ["x", "w", "x_zero", "w_zero"], {"w": w, **inputs})
    expected, = onnxruntime.InferenceSession(text, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    session = clprim.Session(text)
    for _ in range(2):
        assert np.array_equal(session.run({"x": x})["y"], expected)
    scales = {"x_scale": np.float32(0.02), "w_scale": random.uniform(0.01, 0.02, channels).astype(np.float32),
              "y_scale": np.float32(0.9), "y_zero": np.uint8(100)}
    bias = random.integers(-3000, 3000, channels, dtype=np.int32)
    names = ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "bias"]
    constants = {"w": w, **inputs, **scales, "bias": bias, "w_zero": np.zeros(channels, np.int8)}
    text = model("QLinearConv", names, constants)
    theirs, = onnxruntime.InferenceSession(text, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    ours = clprim.Session(text).run({"x": x})["y"]
    scale = scales["x_scale"] * scales["w_scale"] / scales["y_scale"]
    sums = (expected + bias[:, None, None]).astype(np.float32) * scale[:, None, None]
    assert np.array_equal(ours, np.clip(np.rint(sums) + 100, 0, 255))
    assert np.abs(ours.astype(int) - theirs).max() <= 1


def dynamic_layers(scales, bias, rank_up=False):
    """Two products of activations that are quantised as they come, as quantisation tools write them."""
    q = Quantised(seed=3)
    x = "x"
    for inputs, outputs in ((24, 40), (40, 19)):
        names = [f"q{len(q.nodes)}", f"s{len(q.nodes)}", f"z{len(q.nodes)}"]
        q.nodes.append(helper.make_node("DynamicQuantizeLinear", [x], names))
        shape = (outputs,) if scales else (1, 1, 1, 1) if rank_up else ()
        weights = q.constant(q.random.integers(-64, 64, (inputs, outputs), dtype=np.int8))
        scale = q.node("Mul", names[1], q.constant(q.random.uniform(0.002, 0.01, shape).astype(np.float32)))
        sums = q.node("Cast", q.node("MatMulInteger", names[0], weights, names[2], q.constant(np.int8(0))), to=1)
        x = q.node("Mul", sums, scale)
        if bias:
            x = q.node("Add", q.constant(q.random.standard_normal(outputs).astype(np.float32)), x)
    return q, x


@pytest.mark.parametrize("shape", [(1, 24), (37, 24), (2, 9, 24)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("scales", [False, True])
def test_sums_become_real_at_once(shape, bias, scales, tmp_path):
    q, y = dynamic_layers(scales, bias)
    model = q.model(list(shape), y)
    session = clprim.Session(model, profile=True)
    names = operators(session)
    assert "MatMulIntegerToFloat" in names and not names & {"MatMulInteger", "Cast", "Mul", "Add"}
    x = q.random.standard_normal(shape).astype(np.float32)
    expected, = defined(model, x)
    result = session.run({"x": x})[y]
    # Bytes of the second layer's activations may differ where they lie between two.
    assert np.abs(result - expected).max() <= 0.02 * np.abs(expected).max()
    session.save(tmp_path / "saved.onnx")
    assert {node.op_type for node in onnx.load(tmp_path / "saved.onnx").graph.node} >= {"MatMulInteger", "Cast"}
    np.testing.assert_array_equal(clprim.Session(tmp_path / "saved.onnx").run({"x": x})[y], result)


def test_one_real_product_of_integers():
    q = Quantised(seed=4)
    weights = q.random.integers(-64, 64, (24, 40), dtype=np.int8)
    scale, bias = q.random.uniform(0.002, 0.01, 40).astype(np.float32), q.random.standard_normal(40).astype(np.float32)
    byte = q.node("Cast", "x", to=TensorProto.UINT8)
    sums = q.node("Cast", q.node("MatMulInteger", byte, q.constant(weights), q.constant(np.uint8(7))), to=1)
    y = q.node("Add", q.node("Mul", sums, q.constant(scale)), q.constant(bias))
    for rows in (1, 5, 64):
        session = clprim.Session(q.model([rows, 24], y), profile=True)
        assert "MatMulIntegerToFloat" in operators(session)
        x = q.random.integers(0, 256, (rows, 24)).astype(np.float32)
        expected = (x - 7).astype(np.int64) @ weights.astype(np.int64) * scale.astype(np.float64) + bias
        np.testing.assert_allclose(session.run({"x": x})[y], expected, rtol=1e-6, atol=1e-5)


def test_scales_that_add_axes():
    q, y = dynamic_layers(False, True, rank_up=True)
    model = q.model([5, 24], y)
    x = q.random.standard_normal((5, 24)).astype(np.float32)
    expected, = defined(model, x)
    result = clprim.Session(model).run({"x": x})[y]
    assert result.shape == expected.shape
    assert np.abs(result - expected).max() <= 0.02 * np.abs(expected).max()


def check_chain(q, outputs, shape, quantum, tmp_path=None, x=None):
    """Compares with what ONNX Runtime's operators give one by one; returns the kinds of nodes that ran."""
    model = q.model(list(shape), *outputs)
    x = 3 * q.random.standard_normal(shape).astype(np.float32) if x is None else x
    session = clprim.Session(model, profile=True)
    names = operators(session)
    results = session.run({"x": x})
    for name, theirs in zip(outputs, defined(model, x)):
        assert results[name].dtype == theirs.dtype and results[name].shape == theirs.shape
        steps = np.abs(results[name].astype(np.float64) - theirs.astype(np.float64)) / quantum
        assert steps.max(initial=0) < 1.01 and (steps > 0.5).sum() <= 0.02 * steps.size, name
    if tmp_path:
        session.save(tmp_path / "saved.onnx")
        kinds = {node.op_type for node in onnx.load(tmp_path / "saved.onnx").graph.node}
        assert kinds >= {"QuantizeLinear", "DequantizeLinear"} and "Elementwise" not in kinds
        for name, result in clprim.Session(tmp_path / "saved.onnx").run({"x": x}).items():
            np.testing.assert_array_equal(result, results[name])
    return names


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("shape", [(2, 24, 9, 7), (3, 1), (0, 4)])
def test_elementwise_operators_between_pairs_are_one(dtype, shape, tmp_path):
    zero = (lambda z: z) if dtype is np.uint8 else (lambda z: z - 128)
    q = Quantised(seed=5)
    x = q.pair("x", 0.05, zero(120), dtype)
    gate = q.pair(q.node("Sigmoid", x), 1 / 256, zero(0), dtype)
    y = q.pair(q.node("Mul", x, gate), 0.03, zero(90), dtype)
    y = q.pair(q.node("HardSwish", q.node("Add", y, q.constant(np.float32(0.3)))), 0.04, zero(20), dtype)
    names = check_chain(q, [y], shape, 0.04, tmp_path)
    assert names == {"Elementwise"}


def test_chains_of_bytes_among_others():
    # A result that is bytes, one that others read as well, and one operand less wide than the result.
    q = Quantised(seed=6)
    x = q.pair("x", 0.05, 120)
    wide = q.pair(q.node("Tanh", x), 0.01, 128)
    narrow = q.pair(q.node("Sigmoid", q.node("ReduceMean", wide, axes=[2, 3])), 0.004, 3)
    y = q.pair(q.node("Mul", wide, narrow), 0.02, 100)
    scale, zero = q.constant(np.float32(0.02)), q.constant(np.int8(5))
    data = q.node("QuantizeLinear", q.node("Relu", y), scale, zero)
    model = onnx.load_model_from_string(q.model([2, 6, 5, 4], y, narrow, data))
    model.graph.output[2].type.tensor_type.elem_type = TensorProto.INT8
    q.model = lambda *_: model.SerializeToString()
    names = check_chain(q, [y, narrow], (2, 6, 5, 4), 0.02)
    assert "Mul" not in names and "Tanh" not in names, names
    check_chain(q, [y, narrow, data], (2, 6, 5, 4), 1)


def test_numbers_that_no_byte_stands_for():
    q = Quantised(seed=7)
    y = q.pair(q.node("Neg", q.pair(q.node("Abs", "x"), 0.1, 3)), 0.1, 200)
    x = np.array([[np.nan, np.inf, -np.inf, 1e30, -1e30, 0.25, 0.35, -0.0]], np.float32)
    expected, = defined(q.model([1, 8], y), x)
    result = clprim.Session(q.model([1, 8], y)).run({"x": x})[y]
    np.testing.assert_array_equal(result[:, 1:], expected[:, 1:])     # NaN is what the processor makes of it
    plain = clprim.Session(q.model([1, 8], y), optimize=False).run({"x": x})[y]
    np.testing.assert_array_equal(result, plain)


def test_pairs_of_other_types_are_left_alone():
    # float16, and scales of channels: nodes of their own, with the same results.
    q = Quantised(seed=8)
    scales, zeros = q.constant(q.random.uniform(0.01, 0.1, 6).astype(np.float32)), q.constant(np.full(6, 100, np.uint8))
    x = q.node("DequantizeLinear", q.node("QuantizeLinear", "x", scales, zeros, axis=1), scales, zeros, axis=1)
    half = q.node("Cast", q.node("Sigmoid", x), to=TensorProto.FLOAT16)
    scale, zero = q.constant(np.float32(0.004)), q.constant(np.uint8(0))
    data = q.node("QuantizeLinear", q.node("Cast", half, to=TensorProto.FLOAT), scale, zero)
    y = q.node("DequantizeLinear", data, scale, zero)
    check_chain(q, [y], (2, 6, 3), 0.004)


@pytest.mark.parametrize("to", [np.uint8, np.int8])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_functions_of_one_byte(dtype, to):
    """Large tensors by a table on CPUs, small ones by arithmetic: the same bytes, a quantum off at most."""
    q = Quantised(seed=9)
    kinds = {np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8}
    scale, zero = q.constant(np.float32(0.05)), q.constant(np.asarray(-3 if dtype is np.int8 else 120, dtype))
    y = q.node("HardSwish", q.node("DequantizeLinear", "x", scale, zero))
    y = q.node("QuantizeLinear", y, q.constant(np.float32(0.03)), q.constant(np.asarray(20, to)))
    model = onnx.load_model_from_string(q.model(["n", "m"], y))
    model.graph.input[0].type.tensor_type.elem_type = kinds[dtype]
    model.graph.output[0].type.tensor_type.elem_type = kinds[to]
    model = model.SerializeToString()
    x = np.arange(256, dtype=np.uint8).view(dtype).reshape(16, 16)
    session = clprim.Session(model)
    small = session.run({"x": x})[y]
    assert small.dtype == to and np.abs(small.astype(int) - defined(model, x)[0].astype(int)).max() <= 1
    for _ in range(3):                                 # recorded, and replayed
        large = session.run({"x": np.tile(x, (9, 5))})[y]
        np.testing.assert_array_equal(large, np.tile(small, (9, 5)))
