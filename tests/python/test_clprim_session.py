"""What sessions take: names, element types, layouts; and what they say of anything else."""
import json
import threading
import types

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
ml_dtypes = pytest.importorskip("ml_dtypes")
from onnx import TensorProto, helper

import clprim


def session(op="Relu", element=TensorProto.FLOAT, **attributes):
    port = helper.make_tensor_value_info("x", element, ["n", "m"])
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], **attributes)], "g", [port],
                              [onnx.ValueInfoProto(name="y")])
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


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64",
                                  "uint8", "uint16",
                                  "uint32", "uint64", "bool", "float8_e4m3fn", "float8_e5m2", "int4", "uint4",
                                  "complex64"])
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


@pytest.mark.parametrize("x", [np.array([["a", "ü"]]), np.array([["a", "ü"]], object), [["a", "ü"]],
                               np.zeros((0, 2), "U1")],
                         ids=["U", "objects", "list", "empty"])
def test_strings(x):
    y = session("Identity", TensorProto.STRING).run({"x": x})["y"]
    assert y.dtype == object and y.shape == np.shape(x) and y.tolist() == np.asarray(x).tolist()


@pytest.mark.parametrize("element", [TensorProto.FLOAT, TensorProto.BFLOAT16, TensorProto.STRING])
def test_results_that_numpy_has_no_shape_for(element):
    sizes = helper.make_tensor("sizes", TensorProto.INT64, [2], [0, 2**62])
    port = helper.make_tensor_value_info("x", element, [0])
    graph = helper.make_graph([helper.make_node("Reshape", ["x", "sizes"], ["y"], allowzero=1)], "g", [port],
                              [onnx.ValueInfoProto(name="y")], [sizes])
    empty = clprim.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=10))
    dtype = {TensorProto.BFLOAT16: ml_dtypes.bfloat16, TensorProto.STRING: object}.get(element, np.float32)
    with pytest.raises(clprim.NotSupported, match=r"NumPy has no arrays of shape \[0, 4611686018427387904\]"):
        empty.run({"x": np.zeros(0, dtype)})


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
        with pytest.raises(ValueError,
                           match=f"the model has no output '{outputs if isinstance(outputs, str) else 'z'}'; its outputs are 'y'"):
            relu.run({"x": X}, outputs)


def test_outputs_named_twice():
    relu = session()
    assert list(relu.run({"x": X}, outputs=["y", "y"])) == ["y"]
    model = helper.make_model(
        helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g",
                          [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m"])],
                          [onnx.ValueInfoProto(name="y"), onnx.ValueInfoProto(name="y")]),
        opset_imports=[helper.make_opsetid("", 25)], ir_version=10)
    twice = clprim.Session(model)
    for _ in range(4):       # the first of a kind, recorded, replayed
        results = twice.run({"x": X})
        assert list(results) == ["y"]
        np.testing.assert_array_equal(results["y"], np.maximum(X, 0))


@pytest.mark.parametrize("model, error", [(None, TypeError), (3, TypeError), ("nope.onnx", ValueError),
                                          (b"", ValueError), (b"\0" * 9, ValueError)])
def test_what_is_no_model(model, error):
    with pytest.raises(error):
        clprim.Session(model)


@pytest.mark.parametrize("device, message", [("no such device", "no OpenCL device matches"), (99, "out of range"),
                                             (-1, "out of range"),
                                             (1.5, "a device is named by an index or a text")])
def test_devices_that_are_not_there(device, message):
    node = helper.make_node("Relu", ["x"], ["y"])
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", 1, [1])],
                              [onnx.ValueInfoProto(name="y")])
    with pytest.raises(ValueError, match=message):
        clprim.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10),
                       device=device)


# ---- what a session and its runs may be told
# -----------------------------------------------------------------------------

def model_of(nodes, inputs, outputs, **metadata):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, e, s) for n, e, s in inputs],
                              [onnx.ValueInfoProto(name=name) for name in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    helper.set_model_props(model, metadata)
    return model


def flattened(**attributes):
    """Flattens its input by arithmetic on its shape, as exporters write it."""
    nodes = [helper.make_node("Shape", ["x"], ["rows"], start=0, end=1),
             helper.make_node("Shape", ["x"], ["rest"], start=1),
             helper.make_node("ReduceProd", ["rest"], ["columns"]), helper.make_node("Concat", ["rows", "columns"],
                                                                                     ["s"], axis=0),
             helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("Relu", ["r"], ["y"], name="last"),
             helper.make_node("Size", ["x"], ["n"])]
    return clprim.Session(model_of(nodes, [("x", TensorProto.FLOAT, ["batch", 2, "width"])], ["y", "n"],
                                   author="somebody"),
                          **attributes)


def test_sizes_become_numbers():
    x = np.linspace(-1, 1, 24, dtype="f").reshape(3, 2, 4)
    free, half, fixed = flattened(profile=True), flattened(sizes={"batch": 3}), flattened(sizes={"batch": 3, "width": 4}, profile=True)
    assert half.inputs[0].shape == (3, 2, "width")
    for one in (free, half, fixed):
        result = one.run({"x": x})
        np.testing.assert_array_equal(result["y"], np.maximum(x, 0).reshape(3, 8))
        assert result["n"] == 24
    assert {node.op_type for node in fixed.profile()} == {"Reshape", "Relu"} < {node.op_type for node in free.profile()}
    for one in (half, fixed):
        with pytest.raises(clprim.InvalidArgument, match="input 'x' must be float32 .3, 2, .*got float32 .2, 2, 4"):
            one.run({"x": x[:2]})
    with pytest.raises(clprim.InvalidArgument, match="no input of the model has a size 'height'; .*'batch', 'width'"):
        flattened(sizes={"height": 2})
    with pytest.raises(clprim.InvalidArgument, match="size 'batch' must be positive, got 0"):
        flattened(sizes={"batch": 0})


def test_outputs_are_bound_to_memory():
    x = np.linspace(-1, 1, 24, dtype="f").reshape(3, 2, 4)
    target = clprim.Tensor(np.full((3, 8), 7, "f"))
    bound = flattened()
    result = bound.run_values({"x": x}, ["y"], bound={"y": target})
    np.testing.assert_array_equal(target.numpy(), np.maximum(x, 0).reshape(3, 8))
    np.testing.assert_array_equal(result["y"].numpy(), target.numpy())
    for wrong in (clprim.Tensor(np.zeros((3, 7), "f")), clprim.Tensor(np.zeros((3, 8), "d"))):
        with pytest.raises(clprim.InvalidArgument, match="output 'y' is float32 .3, 8., the memory bound to it"):
            bound.run_values({"x": x}, bound={"y": wrong})
    with pytest.raises(clprim.InvalidArgument, match="no output 'z'"):
        bound.run_values({"x": x}, bound={"z": target})
    with pytest.raises(TypeError, match="clprim.Tensor"):
        bound.run_values({"x": x}, bound={"y": x})


def test_runs_are_cancelled():
    body = helper.make_graph([helper.make_node("Sin", ["v"], ["w"]), helper.make_node("Identity", ["c"], ["d"])],
                             "body",
                             [helper.make_tensor_value_info("i", TensorProto.INT64, []),
                              helper.make_tensor_value_info("c", TensorProto.BOOL, []),
                              helper.make_tensor_value_info("v", TensorProto.FLOAT, [64])],
                             [onnx.ValueInfoProto(name="d"), onnx.ValueInfoProto(name="w")])
    endless = clprim.Session(model_of([helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)],
                                      [("trips", TensorProto.INT64, []), ("x", TensorProto.FLOAT, [64])], ["y"]))
    x = np.ones(64, "f")
    errors = []

    def run():
        try:
            endless.run({"trips": np.array(10 ** 12), "x": x})
        except clprim.Cancelled as error:
            errors.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():               # until the run has begun, there is nothing to cancel
        endless.cancel()
        thread.join(0.05)
    assert len(errors) == 1 and ("cancelled before" in errors[0] or "cancelled within a loop" in errors[0])
    y, = endless.run({"trips": np.array(2), "x": x}).values()
    np.testing.assert_allclose(y, np.sin(np.sin(x)), rtol=1e-6)


def test_profile_and_trace():
    timed = flattened(profile=True)
    x = np.ones((3, 2, 20000), "f")
    for _ in range(3):
        timed.run({"x": x})
    nodes = {node.op_type: node for node in timed.profile()}
    assert nodes["Relu"].name == "last" and nodes["Relu"].calls == 3 and nodes["Relu"].milliseconds > 0
    assert all(node.host_milliseconds > 0 for node in nodes.values())
    events = json.loads(timed.trace())["traceEvents"]
    # Without the fills that tests poison memory with.
    kernels = [event for event in events if "global" in event.get("args", ()) and event["args"]["node"] == "Relu last"]
    assert len(kernels) == 3 and all(event["dur"] > 0 and event["ph"] == "X" for event in kernels)
    assert sum(event["name"] == "Relu last" and event["pid"] == "host" for event in events) == 3
    with pytest.raises(clprim.InvalidArgument, match="keeps no times"):
        flattened().trace()


def test_metadata():
    assert flattened().metadata == {"author": "somebody"}
