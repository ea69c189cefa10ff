"""Files as exporters and ONNX Runtime write them: names of sizes that mean nothing, operators before their operator
set, models that ONNX Runtime saved at each of its optimisation levels."""
from pathlib import Path

import numpy as np
import pytest

import clprim

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx_graphs import Builder  # noqa: E402

LEVELS = {"disabled": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED",
          "all": "ORT_ENABLE_ALL"}


def reference(model, feeds):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feeds)


def compare(model, feeds, rtol=1e-4, atol=1e-4):
    results = list(clprim.Session(model).run(feeds).values())
    for result, expected in zip(results, reference(model, feeds), strict=True):
        np.testing.assert_allclose(result, expected, rtol=rtol, atol=atol)


def model_of(nodes, inputs, outputs, initializers=(), opset=13):
    graph = helper.make_graph(nodes, "graph", inputs, [helper.make_empty_tensor_value_info(name) for name in outputs],
                              [numpy_helper.from_array(array, name) for name, array in dict(initializers).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8).SerializeToString()


@pytest.mark.parametrize("size", ["?", "", "N"])
def test_sizes_of_one_name_may_differ(size, capfd):
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size, size]) for name in ("a", "b")]
    model = model_of([helper.make_node("MatMul", ["a", "b"], ["y"])], ports, ["y"])
    a, b = np.ones((3, 4), "f"), np.ones((4, 5), "f")
    assert clprim.Session(model).run({"a": a, "b": b})["y"].shape == (3, 5)
    assert ("size N is" in capfd.readouterr().err) == (size == "N")


@pytest.mark.parametrize("name", ["LayerNormalization", "SimplifiedLayerNormalization"])
def test_norms_before_their_operator_set(name):
    rng = np.random.default_rng(0)
    constants = {"w": rng.standard_normal(8).astype("f")}
    if name == "LayerNormalization":
        constants["b"] = rng.standard_normal(8).astype("f")
    node = helper.make_node(name, ["x", *constants], ["y"], axis=-1, epsilon=1e-5)
    model = model_of([node], [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 8])], ["y"], constants)
    compare(model, {"x": rng.standard_normal((2, 3, 8)).astype("f")})


def convolutions():
    """What ONNX Runtime blocks: a convolution of few channels, of many, depthwise, of groups; poolings, sums,
    scales."""
    b, x = Builder([1, 3, 32, 32], 13), "x"
    x = b.node("Relu", b.conv(x, 3, 16, 3, bias=True, pads=[1, 1, 1, 1]))
    x = b.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    left = b.node("Relu", b.conv(x, 16, 48, 1))
    left = b.node("Clip", b.conv(left, 48, 48, 3, group=48, pads=[1, 1, 1, 1]), b.constant(np.float32(0)),
                  b.constant(np.float32(6)))
    x = b.node("Add", b.batch_norm(b.conv(left, 48, 16, 1), 16), x)
    x = b.node("Concat", x, b.conv(x, 16, 32, 3, pads=[1, 1, 1, 1]), axis=1)
    x = b.node("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    squeezed = b.node("Sigmoid", b.conv(b.node("GlobalAveragePool", x), 48, 48, 1, bias=True))
    x = b.node("Mul", x, squeezed)
    x = b.conv(x, 48, 20, 3, bias=True)
    x = b.node("Resize", x, "", b.constant(np.array([1, 1, 2, 2], "f")), mode="nearest", nearest_mode="floor",
               coordinate_transformation_mode="asymmetric")
    x = b.node("Flatten", b.node("GlobalMaxPool", x))
    return b.model(b.dense(x, 20, 10)), {"x": [1, 3, 32, 32]}


def transformer(sizes=(16, 4, 5)):
    size, heads, length = sizes
    b = Builder([2, length, size], 13)

    def linear(x, inputs, outputs):
        return b.node("Add", b.node("MatMul", x, b.weights(inputs, outputs)), b.vector(outputs))

    def norm(x):
        mean = b.node("ReduceMean", x, axes=[-1])
        centred = b.node("Sub", x, mean)
        square = b.node("Pow", centred, b.constant(np.float32(2)))
        root = b.node("Sqrt", b.node("Add", b.node("ReduceMean", square, axes=[-1]), b.constant(np.float32(1e-5))))
        return b.node("Add", b.node("Mul", b.node("Div", centred, root), b.vector(size, 0.5, 1.5)), b.vector(size))

    def split(x):
        return b.node("Transpose", b.reshape(x, 0, 0, heads, size // heads), perm=[0, 2, 1, 3])

    x = "x"
    for _ in range(2):
        q, k, v = (split(linear(x, size, size)) for _ in range(3))
        scores = b.node("Div", b.node("MatMul", q, b.node("Transpose", k, perm=[0, 1, 3, 2])),
                        b.constant(np.float32(np.sqrt(size // heads))))
        mixed = b.node("Transpose", b.node("MatMul", b.node("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        x = norm(b.node("Add", linear(b.reshape(mixed, 0, 0, size), size, size), x))
        inner = linear(x, size, 4 * size)
        half = b.node("Mul", inner, b.constant(np.float32(0.5)))
        erf = b.node("Erf", b.node("Div", inner, b.constant(np.float32(np.sqrt(2)))))
        gelu = b.node("Mul", half, b.node("Add", erf, b.constant(np.float32(1))))
        x = norm(b.node("Add", linear(gelu, 4 * size, size), x))
    return b.model(b.dense(b.reshape(b.node("ReduceMean", x, axes=[1]), -1, size), size, 10)), {"x": [2, length, size]}


def quantized(which):
    from onnxruntime.quantization import (CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic,
                                          quantize_static)

    def make(tmp_path):
        model, shapes = convolutions() if which != "dynamic" else transformer()
        onnx.save(model, tmp_path / "plain.onnx")
        if which == "dynamic":
            quantize_dynamic(tmp_path / "plain.onnx", tmp_path / "small.onnx", reduce_range=True)
        else:
            class Reader(CalibrationDataReader):
                left = iter([{name: np.random.default_rng(i).standard_normal(shape).astype("f")
                              for name, shape in shapes.items()} for i in range(4)])

                def get_next(self):
                    return next(self.left, None)

            style = QuantFormat.QDQ if which == "qdq" else QuantFormat.QOperator
            quantize_static(tmp_path / "plain.onnx", tmp_path / "small.onnx", Reader(), quant_format=style,
                            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
                            reduce_range=True)      # without VNNI ONNX Runtime's sums of eight bits saturate
        return onnx.load(tmp_path / "small.onnx"), shapes
    return make


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("make", [lambda _: convolutions(), lambda _: transformer(), quantized("qdq"),
                                  quantized("operators"),
                                  quantized("dynamic")],
                         ids=["convolutions", "transformer", "qdq", "operators", "dynamic"])
def test_models_saved_by_onnxruntime(make, level, tmp_path):
    model, shapes = make(tmp_path)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    saved = (tmp_path / "saved.onnx").read_bytes()
    feeds = {name: np.random.default_rng(1).standard_normal(shape).astype("f") for name, shape in shapes.items()}
    plain = {"Conv", "MatMul"} & {node.op_type for node in model.graph.node} and len(model.graph.node) < 70 and not any(
        "uantize" in node.op_type for node in model.graph.node)
    # A value next to the middle of two quanta may fall to either, and on through the layers behind it.
    compare(saved, feeds, **({} if plain else {"rtol": 0.02, "atol": 0.12}))


def test_text_direction_classifier():
    """PP-OCR's: all of its sizes are called `?`."""
    package = pytest.importorskip("rapidocr_onnxruntime")
    files = list(Path(package.__file__).parent.glob("models/*cls*.onnx"))
    if not files:
        pytest.skip("the package holds no classifier")
    x = np.random.default_rng(0).uniform(-1, 1, (2, 3, 48, 192)).astype("f")
    name = clprim.Session(str(files[0])).inputs[0].name
    compare(str(files[0]), {name: x}, atol=1e-3)
