"""Gelu that graphs write as products and erf or tanh, and activations behind products: what sessions make of them.
ONNX's reference computes the graph as it stands in float64; launches are counted."""
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

import clprim
from onnx_net import Net, check

HALF, ONE = np.float64(0.5), np.float64(1)


def gelu(net, x, tanh=False, ending="half last", shape=(), divided=True, power=True, swapped=False, sqrt2=np.sqrt(2)):
    """One of the ways in which exporters write it; returns its name and that of the sum with one."""
    def number(value):
        return net.constant(np.full(shape, value))

    def either(kind, a, b):
        return net.node(kind, *((b, a) if swapped else (a, b)))

    if tanh:
        cube = (net.node("Pow", x, number(np.float64(3))) if power else
                either("Mul", net.node("Mul", x, x), x))
        inner = either("Add", x, either("Mul", cube, number(0.044715)))
        inner = net.node("Tanh", either("Mul", inner, number(np.sqrt(2 / np.pi))))
    else:
        inner = net.node("Erf", net.node("Div", x, number(sqrt2)) if divided else
                         either("Mul", x, number(1 / sqrt2)))
    total = either("Add", inner, number(ONE))
    if ending == "half first":
        return either("Mul", either("Mul", x, number(HALF)), total), total
    if ending == "half between":
        return either("Mul", either("Mul", total, number(HALF)), x), total
    return either("Mul", either("Mul", x, total), number(HALF)), total


def saved(net, y, shape, path):
    """The optimised model as a file computes the same, in ONNX's own operators."""
    x = net.random.standard_normal(shape).astype("f")
    session = clprim.Session(net.model([y], shape))
    session.save(path / "saved.onnx")
    model = onnx.load(path / "saved.onnx")
    assert {node.domain for node in model.graph.node} == {""}
    np.testing.assert_allclose(clprim.Session(model).run({"x": x})["y0"], session.run({"x": x})["y0"], rtol=1e-6,
                               atol=1e-6)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("ending", ["half last", "half first", "half between"])
@pytest.mark.parametrize("tanh, form", [(False, False), (False, True), (True, False), (True, True)])
def test_gelu_of_a_product_is_in_its_kernel(tanh, form, ending, swapped, tmp_path):
    net = Net()
    y = net.node("MatMul", "x", net.constant(net.random.standard_normal((7, 40)) / 2))
    y = net.node("Add", y, net.constant(net.random.standard_normal(40)))
    y, _ = gelu(net, y, tanh, ending, (), form, form, swapped)
    check(net, y, shape=("n", 5, 7), most=1)
    saved(net, y, (2, 5, 7), tmp_path)


@pytest.mark.parametrize("tanh", [False, True])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("kernel, channels, group",
                         [(1, 16, 1), (3, 16, 1), (1, 40, 1), (3, 8, 8), (3, 16, 2), (2, 5, 1)])
def test_gelu_of_convolutions(kernel, channels, group, residual, tanh, tmp_path):
    net = Net()
    x = net.node("Conv", "x", net.constant(net.random.standard_normal((channels, 8 // group, kernel, kernel)) / 2),
                 net.constant(net.random.standard_normal(channels)), group=group)
    if residual and group == 1:
        x = net.node("Add", x, net.conv("x", 8, channels) if kernel == 1 else net.node("Relu", x))
    y, _ = gelu(net, x, tanh, shape=(1,))
    check(net, y)
    check(net, y, shape=("n", 8, 20, 33))
    saved(net, y, (2, 8, 9, 7), tmp_path)


def test_gelu_costs_a_convolution_no_launch():
    net = Net()
    plain = net.conv("x", 8, 16, 3)
    check(net, plain, most=2)
    check(net, gelu(net, plain)[0], most=2)
    check(net, gelu(net, plain, tanh=True)[0], most=2)


@pytest.mark.parametrize("kind", ["Relu", "gelu", "tanh"])
@pytest.mark.parametrize("beta", [0.0, 1.0, 0.5])
@pytest.mark.parametrize("turned", [False, True])
def test_activations_of_gemm_are_in_its_kernel(turned, beta, kind, tmp_path):
    net = Net()
    weight = net.random.standard_normal((40, 7) if turned else (7, 40)) / 2
    y = net.node("Gemm", "x", net.constant(weight), net.constant(net.random.standard_normal(40)), beta=beta,
                 transB=int(turned))
    y = net.node("Relu", y) if kind == "Relu" else gelu(net, y, kind == "tanh")[0]
    check(net, y, shape=("n", 7), most=1)
    saved(net, y, (3, 7), tmp_path)


@pytest.mark.parametrize("width", [1, 3, 17, 64])
def test_relu_of_a_linear_layer_is_in_its_kernel(width):
    net = Net()
    y = net.node("MatMul", "x", net.constant(net.random.standard_normal((7, width))))
    y = net.node("Relu", net.node("Add", y, net.constant(net.random.standard_normal(width))))
    check(net, y, shape=("n", 5, 7), most=1)


def test_what_is_not_quite_gelu_stays():
    """Other numbers, values that others read, and one number's axis, which a sum without axes takes over."""
    net = Net()
    x = net.node("Abs", "x")
    values = [gelu(net, x, sqrt2=1.5)[0], net.node("Mul", *[gelu(net, x)[1]] * 2)]
    y, total = gelu(net, x)
    values += [y, total]
    inner = net.node("Erf", net.node("Div", x, net.constant(np.sqrt(2))))
    product = net.node("Mul", net.node("Add", inner, net.constant(ONE)), net.node("Neg", x))
    values.append(net.node("Mul", product, net.constant(HALF)))
    whole = net.node("ReduceSum", "x", keepdims=0)
    values += [gelu(net, whole, shape=(1,))[0], gelu(net, whole)[0], gelu(net, x, shape=(1, 1, 1, 1, 1))[0]]
    check(net, values)


def test_gelu_in_trees_of_elementwise_operators():
    net = Net()
    left, _ = gelu(net, net.node("Mul", "x", net.constant(np.float64(1.5))))
    check(net, net.node("Add", net.node("Mul", left, net.node("Sigmoid", "x")), "x"), most=1)


def test_extremes():
    net = Net()
    y = net.node("MatMul", "x", net.constant(np.eye(4)))
    y, _ = gelu(net, net.node("Add", y, net.constant(np.zeros(4))))
    x = np.array([[0, 40, -40, 1e30], [-1e30, -3, 3, 1e-30]], "f")
    got = clprim.Session(net.model([y], ("n", 4))).run({"x": x})["y0"]
    np.testing.assert_allclose(got, [[0, 40, 0, 1e30], [0, -0.00404969409, 2.99595031, 5e-31]], rtol=2e-6, atol=1e-7)
    x[0, 2] = np.nan
    got = clprim.Session(net.model([y], ("n", 4))).run({"x": x})["y0"]
    assert np.isnan(got[0]).all() and not np.isnan(got[1]).any()
