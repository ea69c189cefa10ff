"""Norms that graphs write as means, squares and roots, and batch norms behind products: what sessions make of them.
ONNX's reference computes the graph as it stands in float64; launches are counted."""
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx.reference import ReferenceEvaluator

import clprim
from onnx_net import Net, check, launches


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
