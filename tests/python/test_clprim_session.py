"""What sessions take: names, element types, layouts; and what they say of anything else."""
import types

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
ml_dtypes = pytest.importorskip("ml_dtypes")
from onnx import TensorProto, helper

import clprim


def session(op="Relu", element=TensorProto.FLOAT, **attributes):
    port = helper.make_tensor_value_info("x", element, ["n", "m"])
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], **attributes)], "g", [port], [onnx.ValueInfoProto(name="y")])
    return clprim.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=10))


X = np.arange(-6, 6, dtype="f").reshape(3, 4)


@pytest.mark.parametrize("x", [X, X.T, X[::-1, ::2], X[:0], X[:, :0], X.astype(">f4"), np.broadcast_to(X[:1], (5, 4)),
                               np.asfortranarray(X)], ids=lambda x: f"{x.shape}{x.strides}")
def test_layouts(x):
    y = session().run({"x": x})["y"]
    assert y.dtype == np.float32 and y.shape == x.shape
    np.testing.assert_array_equal(y, np.maximum(x, 0))


def test_whatever_holds_an_array():
    relu = session()
    frozen = X.copy()
    frozen.setflags(write=False)
    for x in (frozen, X.tolist(), clprim.Tensor(X), clprim.Value(X), memoryview(X)):
        np.testing.assert_array_equal(relu.run({"x": x})["y"], np.maximum(X, 0))
    for inputs in (types.MappingProxyType({"x": X}), dict(x=X)):
        np.testing.assert_array_equal(relu.run(inputs)["y"], np.maximum(X, 0))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
                                  "uint32", "uint64", "bool", "float8_e4m3fn", "float8_e5m2", "int4", "uint4", "complex64"])
def test_element_types(name):
    dtype = np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)
    same = session("Identity", helper.np_dtype_to_tensor_dtype(dtype))
    x = np.array([[1, 0, 1], [0, 1, 1]]).astype(dtype)
    for given in (x, x.T, x[:0]):
        y = same.run({"x": given})["y"]
        assert y.dtype == dtype and y.shape == given.shape and (y == given).all()
    listed = same.run({"x": [[1, 0]]})["y"]
    assert listed.dtype == dtype and listed.astype(int if name != "complex64" else dtype).tolist() == [[1, 0]]
    other = np.zeros((1, 1), np.float32 if name != "float32" else np.float64)
    with pytest.raises(ValueError, match=rf"input 'x' must be .* \[n, m\], got {other.dtype} \[1, 1\]"):
        same.run({"x": other})


@pytest.mark.parametrize("x", [np.array([["a", "ü"]]), np.array([["a", "ü"]], object), [["a", "ü"]], np.zeros((0, 2), "U1")],
                         ids=["U", "objects", "list", "empty"])
def test_strings(x):
    y = session("Identity", TensorProto.STRING).run({"x": x})["y"]
    assert y.dtype == object and y.shape == np.shape(x) and y.tolist() == np.asarray(x).tolist()


@pytest.mark.parametrize("inputs, error, message", [
    ({"q": X}, ValueError, "the model has no input 'q'; its inputs are 'x'"),
    ({"x": X, "q": X}, ValueError, "the model has no input 'q'"),
    ({}, ValueError, r"input 'x' \(float32 \[n, m\]\) is missing"),
    ({"x": X[0]}, ValueError, r"input 'x' must be float32 \[n, m\], got float32 \[4\]"),
    ({"x": 3.0}, ValueError, r"got float32 \[\]"),
    ({"x": None}, ValueError, "input 'x' must be a tensor"),
    ({"x": "text"}, ValueError, "got string"),
    ({"x": [[1, 2], [3]]}, ValueError, "input 'x': no array can be made of it"),
    ({"x": np.array([[object()]])}, ValueError, "input 'x': an array of objects must hold strings"),
    ([X], TypeError, "inputs must be a dictionary of arrays by name, got list"),
    (X, TypeError, "inputs must be a dictionary of arrays by name, got ndarray"),
    (None, TypeError, "inputs must be a dictionary of arrays by name, got NoneType"),
    ({0: X}, TypeError, "inputs must be a dictionary of arrays by name, got the name 0"),
])
def test_bad_inputs(inputs, error, message):
    relu = session()
    with pytest.raises(error, match=message):
        relu.run(inputs)
    np.testing.assert_array_equal(relu.run({"x": X})["y"], np.maximum(X, 0))      # it goes on working


def test_outputs_by_name():
    relu = session()
    for outputs in (["y"], ("y",), "y", None):
        assert list(relu.run({"x": X}, outputs)) == ["y"]
    for outputs in (["z"], "yy"):
        with pytest.raises(ValueError, match=f"the model has no output '{outputs if isinstance(outputs, str) else 'z'}'; its outputs are 'y'"):
            relu.run({"x": X}, outputs)


@pytest.mark.parametrize("model, error", [(None, TypeError), (3, TypeError), ("nope.onnx", ValueError), (b"", ValueError), (b"\0" * 9, ValueError)])
def test_what_is_no_model(model, error):
    with pytest.raises(error):
        clprim.Session(model)


@pytest.mark.parametrize("device, message", [("no such device", "no OpenCL device matches"), (99, "out of range"), (-1, "out of range"),
                                             (1.5, "a device is named by an index or a text")])
def test_devices_that_are_not_there(device, message):
    node = helper.make_node("Relu", ["x"], ["y"])
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", 1, [1])], [onnx.ValueInfoProto(name="y")])
    with pytest.raises(ValueError, match=message):
        clprim.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), device=device)
