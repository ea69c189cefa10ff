"""ONNX operators that a program registers: expressions and functions."""
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper

import clprim

X = np.linspace(-3, 3, 12, dtype="f").reshape(3, 4)


def session(op, inputs=("x",), outputs=("y",), domain="test.ops", **attributes):
    node = helper.make_node(op, list(inputs), list(outputs), domain=domain, **attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(i, TensorProto.FLOAT, None) for i in inputs],
                              [onnx.ValueInfoProto(name=o) for o in outputs])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(domain or "test.ops", 2)]
    return clprim.Session(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def test_expression():
    clprim.register_operator("Swish", "y0 = x0 / (1 + exp(-w0 * x0));", domain="test.ops", numbers={"beta": 1.0})
    for beta in (None, 2.0):
        swish = session("Swish", **({} if beta is None else {"beta": beta}))
        for _ in range(4):
            np.testing.assert_allclose(swish.run({"x": X})["y"], X / (1 + np.exp(-(beta or 1) * X)), rtol=1e-5)


def test_expression_of_several():
    clprim.register_operator("SumAndProduct", "y0 = x0 + x1; y1 = x0 * x1;", domain="test.ops")
    got = session("SumAndProduct", ["a", "b"], ["s", "p"]).run({"a": X, "b": X[:, :1]})
    np.testing.assert_allclose(got["s"], X + X[:, :1])
    np.testing.assert_allclose(got["p"], X * X[:, :1])


def test_function():
    calls = []

    def scaled(inputs, attributes):
        calls.append(attributes)
        return np.asarray(inputs[0]) * attributes["factors"][1]

    clprim.register_operator("Scaled", scaled, domain="test.ops")
    scaled_session = session("Scaled", factors=[2.0, 3.0], mode="x")
    for _ in range(4):                                       # a function is called at each run
        np.testing.assert_allclose(scaled_session.run({"x": X})["y"], 3 * X)
    assert len(calls) == 4 and calls[0]["mode"] == "x"


def test_a_later_version_and_a_second_registration():
    for expression in ("y0 = x0 + 1;", "y0 = x0 + 2;"):
        clprim.register_operator("Plus", expression, domain="test.ops", since=2)
    clprim.register_operator("Plus", "y0 = x0;", domain="test.ops", since=3)
    np.testing.assert_allclose(session("Plus").run({"x": X})["y"], X + 2)


def test_what_is_wrong_is_named():
    with pytest.raises(ValueError, match="clprim has Relu itself"):
        clprim.register_operator("Relu", "y0 = x0;")
    with pytest.raises(ValueError, match="needs either code or a function"):
        clprim.register_operator("Empty", "", domain="test.ops")
    with pytest.raises(TypeError, match="expression"):
        clprim.register_operator("Number", 3, domain="test.ops")
    clprim.register_operator("Nothing", lambda inputs, attributes: [], domain="test.ops")
    with pytest.raises(ValueError, match="Nothing.*returned 0 outputs, expected 1"):
        session("Nothing").run({"x": X})

    def fails(inputs, attributes):
        raise KeyError("from within")

    clprim.register_operator("Fails", fails, domain="test.ops")
    with pytest.raises(KeyError, match="from within"):
        session("Fails").run({"x": X})


def test_operators_are_refused_with_a_reason():
    with pytest.raises(NotImplementedError, match=r"com.microsoft.PagedAttention \(1\).*export with padded sequences"):
        session("PagedAttention", domain="com.microsoft")
