"""What sessions make of graphs: concatenations that copy nothing, batch norms ahead of convolutions. ONNX's reference
computes the graph as it stands in float64; launches are counted."""
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import clprim
from onnx_net import Net, check, launches


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
