"""What sessions make of graphs: concatenations that copy nothing, batch norms ahead of convolutions. ONNX's reference
computes the graph as it stands in float64; launches are counted."""
import json

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import clprim


class Net:
    """Collects nodes; every method returns the name of its value."""

    def __init__(self):
        self.nodes, self.constants = [], {}
        self.random = np.random.default_rng(3)

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def node(self, kind, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def conv(self, x, inputs, outputs, kernel=1, **attributes):
        weight = self.random.standard_normal((outputs, inputs, kernel, kernel)) / np.sqrt(inputs * kernel * kernel)
        bias = self.random.standard_normal(outputs)
        return self.node("Conv", x, self.constant(weight), self.constant(bias), pads=[kernel // 2] * 4, **attributes)

    def batch_norm(self, x, channels):
        low = [0.5, -0.5, -0.5, 0.5]
        return self.node("BatchNormalization", x,
                         *(self.constant(self.random.uniform(b, b + 1, channels)) for b in low), epsilon=1e-3)

    def model(self, outputs, shape, dtype=np.float32):
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        constants = [numpy_helper.from_array(v.astype(dtype) if v.dtype == np.float64 else v, name)
                     for name, v in self.constants.items()]
        nodes = self.nodes + [helper.make_node("Identity", [name], [f"y{i}"]) for i, name in enumerate(outputs)]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", kind, shape)],
                                  [helper.make_tensor_value_info(f"y{i}", kind, None) for i in range(len(outputs))],
                                  constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def launches(session, feed):
    session.run(feed)
    before = clprim.kernel_launches()
    session.run(feed)
    return clprim.kernel_launches() - before


def copies_of_concatenations(model, feed):
    """Kernels and copies that nodes Concat enqueue."""
    session = clprim.Session(model, profile=True)
    session.run(feed)
    events = json.loads(session.trace())["traceEvents"]
    return sum(str(e.get("args", {}).get("node", "")).startswith("Concat") for e in events)


def check(net, outputs, shape=("n", 8, 9, 7), batches=(1, 3), most=None, copies=None):
    """Three runs each, so that recordings are seen too. `most` launches of a run for one sample, `copies` of what
    concatenations enqueue."""
    outputs = outputs if isinstance(outputs, list) else [outputs]
    model, exact = net.model(outputs, shape), ReferenceEvaluator(net.model(outputs, shape, np.float64))
    session, plain = clprim.Session(model), clprim.Session(model, record=False)
    for n in batches:
        x = net.random.standard_normal((n, *shape[1:])).astype("f")
        expected = exact.run(None, {"x": x.astype(np.float64)})
        for _ in range(3):
            for got, right in zip(session.run({"x": x}).values(), expected):
                np.testing.assert_allclose(got, right, rtol=2e-5, atol=2e-5)
        if n == 1 and most is not None:
            assert launches(plain, {"x": x}) <= most
        if n == 1 and copies is not None:
            assert copies_of_concatenations(model, {"x": x}) <= copies


def test_dense_block():
    """As densenets grow: every layer reads all that came before, and only the new channels are written."""
    net = Net()
    features, width = [net.conv("x", 8, 16, 3)], 16
    for _ in range(4):
        joined = net.node("Concat", *features, axis=1) if len(features) > 1 else features[0]
        y = net.node("Relu", net.batch_norm(joined, width))
        y = net.node("Relu", net.batch_norm(net.conv(y, width, 32), 32))
        features.append(net.conv(y, 32, 8, 3))
        width += 8
    joined = net.node("Relu", net.batch_norm(net.node("Concat", *features, axis=1), width))
    check(net, net.conv(joined, width, 8), copies=0)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
@pytest.mark.parametrize("bounds", ["Max", "Min", "Relu Min", "Max Min", "Min Max", "Max Relu", "Relu Max", "Clip Min"])
def test_bounds_as_extremes(bounds, shape):
    """As TensorFlow's exporter writes ReLU6 and its like: in the convolution's launch, after that which lays x out."""
    net = Net()
    numbers = {"Max": -0.25, "Min": 0.5}
    y = net.conv("x", 8, 16, 3)
    for kind in bounds.split():
        if kind == "Clip":
            y = net.node("Clip", y, net.constant(np.float64(-0.75)), net.constant(np.float64(0.75)))
        else:
            y = net.node(kind, y, *([net.constant(np.full(shape, numbers[kind]))] if kind in numbers else []))
    check(net, y, most=2)


@pytest.mark.parametrize("number", [np.float64(-0.25), np.full((1, 1, 1, 1, 1), -0.25),
                                    np.linspace(-1, 1, 16)[:, None, None], np.float64("nan")])
def test_extremes_that_are_no_bounds(number):
    net = Net()
    y = net.node("Max", net.node("LeakyRelu", net.conv("x", 8, 16, 3), alpha=0.5), net.constant(number))
    check(net, net.node("Abs", y) if number.ndim > 4 else net.conv(y, 16, 8, 3))


def test_nested_concatenations():
    """The same with the concatenation so far as one part."""
    net = Net()
    x, width = net.conv("x", 8, 16, 3), 16
    for _ in range(3):
        y = net.node("Relu", net.batch_norm(x, width))
        x, width = net.node("Concat", x, net.conv(y, width, 8, 3), axis=1), width + 8
    check(net, net.conv(x, width, 8), copies=0)


def test_branches_of_inception():
    net = Net()
    a = net.node("Relu", net.conv("x", 8, 16))
    b = net.node("Relu", net.conv(net.conv("x", 8, 8), 8, 24, 3))
    c = net.node("MaxPool", "x", kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    check(net, net.conv(net.node("Concat", a, b, c, axis=1), 48, 8), copies=1)   # poolings keep the layout of x


def test_pieces_of_a_split_go_back_together():
    """As in YOLOv8: both halves of a convolution's result beside what is made of the second."""
    net = Net()
    whole = net.conv("x", 8, 32)
    a, b = net.node("Split", whole, net.constant(np.array([16, 16])), outputs=2, axis=1)
    c = net.node("Add", b, net.node("Relu", net.conv(b, 16, 16, 3)))
    check(net, net.conv(net.node("Concat", a, b, c, axis=1), 48, 8), copies=0)


def test_parts_that_cannot_be_placed():
    net = Net()
    a = net.conv("x", 8, 16)
    twice = net.node("Concat", a, a, axis=1)                       # one place only
    mixed = net.node("Concat", "x", a, net.node("Transpose", "x", perm=[0, 1, 2, 3]), axis=1)
    check(net, [net.conv(twice, 32, 8), mixed, a])
    net = Net()
    a = net.conv("x", 8, 16)
    check(net, [net.node("Concat", a, net.conv(a, 16, 8), axis=-3), net.node("Relu", a)])


def test_a_part_read_after_the_whole():
    net = Net()
    a, b = net.conv("x", 8, 16), net.conv("x", 8, 16, 3)
    whole = net.conv(net.node("Concat", a, b, axis=1), 32, 16)
    check(net, [net.node("Add", whole, a), net.node("Mul", b, whole)])


def test_sizes_that_are_not_what_weights_say():
    """A broadcast has more channels than any operand known beforehand."""
    net = Net()
    a = net.node("Mul", net.node("ReduceSum", "x", net.constant(np.array([1])), keepdims=1),
                 net.constant(net.random.standard_normal((1, 4, 1, 1))))
    check(net, net.conv(net.node("Concat", net.node("Add", a, net.conv("x", 8, 4)), a, axis=1), 8, 8))


def test_batch_norm_and_chain_are_one_kernel():
    net = Net()
    y = net.node("Relu", net.batch_norm("x", 8))
    y = net.node("Mul", y, net.node("Sigmoid", net.batch_norm(net.node("Neg", "x"), 8)))
    check(net, y, most=1)
    check_rank_two = Net()
    check(check_rank_two, check_rank_two.node("Tanh", check_rank_two.batch_norm("x", 8)), shape=("n", 8), most=1)


def test_batch_norm_of_float16_keeps_its_statistics():
    x = np.random.default_rng(0).standard_normal((2, 4, 5), dtype="f").astype(np.float16)
    statistics = {name: np.linspace(0.5, 1.5, 4, dtype="f") + i for i, name in enumerate("abcd")}
    graph = helper.make_graph(
        [helper.make_node("BatchNormalization", ["x", *"abcd"], ["n"]), helper.make_node("Relu", ["n"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [2, 4, 5])], [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(value, name) for name, value in statistics.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    a, b, c, d = (statistics[name].astype(float)[:, None] for name in "abcd")
    expected = np.maximum((x - c) / np.sqrt(d + 1e-5) * a + b, 0)
    got = clprim.Session(model).run({"x": x})["y"]
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("shape", [(1, 9, 1, 1), (9, 1, 1), (), (1, 1, 1), (9,), (9, 9), (1, 9, 9, 9)], ids=str)
def test_bias_added_to_a_convolution(shape):
    """As Paddle's exporter writes it. What is not the same for all pixels of a channel is added as ever."""
    def layers(bias):
        net = Net()
        x = net.node("Tanh", "x")
        y = net.conv(x, 8, 9, 3)
        if bias:
            y = net.node("Identity", net.node("Add", y, net.constant(net.random.standard_normal(shape))))
            y = net.node("Add", net.constant(net.random.standard_normal((9, 1, 1))), y)
        return net, net.node("Relu", net.node("Identity", y))

    net, y = layers(True)
    check(net, y, shape=("n", 8, 9, 9))
    feed = {"x": np.ones((1, 8, 9, 9), "f")}
    with_bias, without = (
        launches(clprim.Session(one.model([out], ("n", 8, 9, 9)), record=False), feed)
        for one, out in ((net, y), layers(False)))
    fused = shape in ((), (1, 1, 1)) or shape in ((1, 9, 1, 1), (9, 1, 1))
    assert with_bias == without if fused else with_bias > without


def test_squares_are_products():
    net = Net()
    two = net.constant(np.float32(2))
    check(net, net.node("Sqrt", net.node("Add", net.node("Pow", "x", two), net.node("Pow", net.node("Neg", "x"), two))),
          most=1)


def test_products_of_scales_join_what_they_scale():
    """As dynamic quantisation leaves them: a number that each run computes times a constant."""
    net = Net()
    scale = net.node("Mul", net.node("ReduceMax", "x", keepdims=0), net.constant(np.float64(0.3)))
    y = net.node("Add", net.node("Mul", "x", scale), net.constant(np.linspace(-1.0, 1.0, 7)))
    check(net, net.node("Mul", y, net.node("Sigmoid", y)), most=3)   # two of the maximum


def test_one_slice_is_a_view():
    """Gather by one constant index moves nothing; what reads it sees strides."""
    x = np.random.default_rng(0).standard_normal((3, 4, 5), dtype=np.float32)
    for axis, index in ((0, 1), (1, -1), (2, [2]), (1, [[-4]])):
        index = np.array(index, dtype=np.int64)
        nodes = [helper.make_node("Gather", ["x", "i"], ["g"], axis=axis), helper.make_node("Relu", ["g"], ["y"])]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                                  [helper.make_empty_tensor_value_info(name) for name in "yg"],
                                  [numpy_helper.from_array(index, "i")])
        session = clprim.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
        for _ in range(3):
            before = clprim.kernel_launches()
            got = session.run({"x": x})
            launches = clprim.kernel_launches() - before
            np.testing.assert_array_equal(got["g"], np.take(x, index, axis=axis))
            np.testing.assert_array_equal(got["y"], np.maximum(np.take(x, index, axis=axis), 0))
        assert launches <= 3                            # the sum and the results' own memory


@pytest.mark.parametrize("channels", [16, 40])
def test_means_of_pixels_with_channels_innermost(channels):
    net = Net()
    weights = net.random.standard_normal((channels, 8, 3, 3)).astype("f")
    convolved = net.node("Conv", "x", net.constant(weights), pads=[1, 1, 1, 1])
    check(net, [net.node("GlobalAveragePool", convolved), net.node("Relu", convolved)], shape=("n", 8, 9, 11))


@pytest.mark.parametrize("channels, stride", [(1, 5), (1, 1), (3, 2), (24, 1)])
@pytest.mark.parametrize("pad", [0, 2])
def test_convolutions_of_sequences(channels, stride, pad):
    """Channels lie innermost between them; taps of few channels are read where they lie, or of a copy with borders."""
    net = Net()
    one = net.node("Conv", "x", net.constant(net.random.standard_normal((20, channels, 7)) / 5), strides=[stride],
                   pads=[pad, pad])
    weights = net.constant(net.random.standard_normal((18, 20, 3)) / 8)
    two = net.node("Conv", net.node("Relu", one), weights, pads=[1, 1])
    means = net.node("ReduceMean", two, axes=[2])
    check(net, [one, net.node("Transpose", two, perm=[0, 2, 1]), means], shape=("n", channels, 53))


def dynamically_quantised(x, w, bias):
    """Nodes of a dynamically quantised convolution with bias, and what they compute."""
    nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
             helper.make_node("ConvInteger", ["q", "w", "zero"], ["sums"]),
             helper.make_node("Add", ["sums", "bias"], ["biased"]),
             helper.make_node("Cast", ["biased"], ["real"], to=TensorProto.FLOAT),
             helper.make_node("Mul", ["scale", "w_scale"], ["both"]),
             helper.make_node("Mul", ["real", "both"], ["scaled"]),
             helper.make_node("Sigmoid", ["scaled"], ["gate"]),
             helper.make_node("Mul", ["scaled", "gate"], ["y"])]
    constants = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(bias, "bias"),
                 numpy_helper.from_array(np.float32(0.03), "w_scale")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                              [helper.make_empty_tensor_value_info("y")], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_sums_of_integers_join_what_scales_them():
    """Bias, conversion, scale and activation are one launch."""
    random = np.random.default_rng(0)
    x = random.standard_normal((1, 24, 9, 8)).astype("f")
    w = random.integers(-127, 127, (32, 24, 1, 1)).astype("i1")
    model = dynamically_quantised(x, w, np.arange(-16, 16, dtype="i4").reshape(32, 1, 1))
    expected = ReferenceEvaluator(model).run(None, {"x": x})[0]
    session = clprim.Session(model, profile=True)
    for _ in range(3):
        np.testing.assert_allclose(session.run({"x": x})["y"], expected, rtol=1e-5, atol=1e-5)
    assert [time.op_type for time in session.profile()] == ["DynamicQuantizeLinear", "ConvInteger", "Elementwise"]


def test_sums_of_integers_of_other_types_stay_as_they_are():
    """An Add behind a product that another node reads, too, and a conversion to float64."""
    random = np.random.default_rng(1)
    a, b = random.integers(0, 255, (5, 40)).astype("u1"), random.integers(-127, 127, (40, 24)).astype("i1")
    nodes = [helper.make_node("MatMulInteger", ["a", "b"], ["sums"]),
             helper.make_node("Add", ["sums", "sums"], ["twice"]),
             helper.make_node("Cast", ["twice"], ["real"], to=TensorProto.FLOAT),
             helper.make_node("Sqrt", ["real"], ["root"]),
             helper.make_node("Cast", ["twice"], ["double"], to=TensorProto.DOUBLE),
             helper.make_node("Abs", ["double"], ["size"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("a", TensorProto.UINT8, a.shape)],
                              [helper.make_empty_tensor_value_info(name) for name in ("root", "size", "twice")],
                              [numpy_helper.from_array(b, "b")])
    session = clprim.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    twice = 2 * (a.astype("i4") @ b.astype("i4"))
    for _ in range(3):
        got = session.run({"a": a})
        np.testing.assert_array_equal(got["twice"], twice)
        np.testing.assert_array_equal(got["size"], np.abs(twice).astype("f8"))
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(got["root"], np.sqrt(twice.astype("f")), rtol=1e-6)


def norm(net, x, centred=True, inverse=None, power=True, axis=-1, width=7, swapped=False, bias=True):
    """A norm of rows in the operators that exporters write; returns the values on the way by name."""
    def product(a, b):
        return net.node("Mul", *((b, a) if swapped else (a, b)))

    def square(value):
        return net.node("Pow", value, net.constant(np.float32(2))) if power else product(value, value)

    steps = {"mean": net.node("ReduceMean", x, axes=[axis])} if centred else {}
    d = steps["centred"] = net.node("Sub", x, steps["mean"]) if centred else x
    epsilon = net.constant(np.float64(0.01))
    steps["variance"] = net.node("ReduceMean", square(d), axes=[axis], keepdims=1)
    sum_inputs = [steps["variance"], epsilon]
    steps["root"] = net.node("Sqrt", net.node("Add", *(sum_inputs[::-1] if swapped else sum_inputs)))
    if inverse == "Div":
        y = product(d, net.node("Div", net.constant(np.float64(1)), steps["root"]))
    elif inverse == "Reciprocal":
        y = product(d, net.node("Reciprocal", steps["root"]))
    else:
        y = net.node("Div", d, steps["root"])
    y = product(y, net.constant(np.linspace(0.5, 2.0, width)))
    if bias:
        y = net.node("Add", y, net.constant(np.linspace(-1.0, 1.0, width)))
    return y, steps


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("inverse", [None, "Div", "Reciprocal"])
@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("centred, bias", [(True, True), (True, False), (False, False)])
def test_norms_of_rows_are_one_kernel(centred, bias, power, inverse, swapped, tmp_path):
    net = Net()
    y, _ = norm(net, "x", centred, inverse, power, swapped=swapped, bias=bias)
    check(net, y, shape=("n", 5, 7), most=1)
    x = net.random.standard_normal((2, 5, 7)).astype("f")
    model = net.model([y], ("n", 5, 7))
    session = clprim.Session(model)
    session.save(tmp_path / "saved.onnx")
    saved = onnx.load(tmp_path / "saved.onnx")
    assert {node.domain for node in saved.graph.node} == {""}
    np.testing.assert_array_equal(clprim.Session(saved).run({"x": x})["y0"], session.run({"x": x})["y0"])


def test_residuals_read_what_a_norm_reads():
    net = Net()
    x = net.node("Add", "x", net.node("Relu", "x"))
    for centred in (False, True):
        x = net.node("Add", x, net.node("Tanh", norm(net, x, centred, "Div")[0]))
    check(net, x, shape=("n", 5, 7))


@pytest.mark.parametrize("seen", ["mean", "centred", "variance", "root"])
def test_norms_of_which_others_see_a_part(seen):
    net = Net()
    y, steps = norm(net, "x")
    check(net, [y, net.node("Neg", steps[seen])], shape=("n", 5, 7))


@pytest.mark.parametrize("shape, axis, width", [(("n", 5, 7), -2, 7), (("n", 7, 5), -2, 5), (("n", 5, 1), -1, 7)])
@pytest.mark.parametrize("centred", [False, True])
def test_what_is_no_norm_of_rows(shape, axis, width, centred):
    """Means of columns, and a weight that lends rows their length."""
    net = Net()
    check(net, norm(net, "x", centred, axis=axis, width=width)[0], shape=shape)
    double = Net()
    y, _ = norm(double, "x", centred, axis=axis, width=width)
    x = double.random.standard_normal((2, *shape[1:]))
    expected = ReferenceEvaluator(double.model([y], shape, np.float64)).run(None, {"x": x})[0]
    if expected.dtype == np.float64:
        got = clprim.Session(double.model([y], shape, np.float64)).run({"x": x})["y0"]
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def gemm_norm(net, x, bias, **attributes):
    turned, width = attributes.get("transB", 0), 24
    weight = net.constant(net.random.standard_normal((width, 16) if turned else (16, width)))
    inputs = [x, weight, *([net.constant(net.random.standard_normal(width))] if bias else [])]
    return net.batch_norm(net.node("Gemm", *inputs, **attributes), width)


def matches_reference(net, outputs, shape):
    x = np.random.default_rng(1).standard_normal(shape)
    exact = ReferenceEvaluator(net.model(outputs, shape, np.float64)).run(None, {"x": x})
    session = clprim.Session(net.model(outputs, shape))
    feed = {"x": x.astype(np.float32)}
    for right, got in zip(exact, session.run(feed).values(), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-4)
    return launches(session, feed)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("attributes", [{}, {"transB": 1}, {"alpha": 0.5, "beta": 2.0}, {"beta": 0.0, "transB": 1}])
def test_batch_norms_behind_products_of_matrices(bias, attributes):
    net = Net()
    assert matches_reference(net, [gemm_norm(net, "x", bias, **attributes)], (10, 16)) == 1


def test_batch_norms_behind_products_whose_bias_is_a_column():
    net = Net()
    weight, column = (net.constant(net.random.standard_normal(shape)) for shape in ((16, 24), (10, 1)))
    matches_reference(net, [net.batch_norm(net.node("Gemm", "x", weight, column), 24)], (10, 16))


@pytest.mark.parametrize("shape", [[30, 24], [-1, 24], [24, 30]])
def test_batch_norms_of_rows_of_a_product(shape):
    """As LeViT has them: [2, 15, 16] times a matrix, as rows. The last shape cuts rows elsewhere."""
    net = Net()
    product = net.node("MatMul", "x", net.constant(net.random.standard_normal((16, 24))))
    rows = net.node("Reshape", product, net.constant(np.array(shape)))
    y = net.node("Reshape", net.batch_norm(rows, shape[1]), net.constant(np.array([2, 15, 24])))
    count = matches_reference(net, [y], (2, 15, 16))
    assert count == 1 or shape[1] != 24


@pytest.mark.parametrize("seen", ["product", "rows"])
def test_batch_norms_of_products_that_others_read(seen):
    net = Net()
    product = net.node("MatMul", "x", net.constant(net.random.standard_normal((16, 24))))
    rows = net.node("Reshape", product, net.constant(np.array([-1, 24])))
    y = net.batch_norm(rows, 24)
    matches_reference(net, [y, net.node("Neg", product if seen == "product" else rows)], (2, 15, 16))
    net = Net()
    gemm = net.node("Gemm", "x", net.constant(net.random.standard_normal((16, 24))))
    matches_reference(net, [net.batch_norm(gemm, 24), gemm], (10, 16))
