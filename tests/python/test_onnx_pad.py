"""Borders of one number: NumPy has the same."""
import numpy as np
import pytest

import clprim

onnx = pytest.importorskip("onnx")
from onnx import helper  # noqa: E402

RNG = np.random.default_rng(11)


def padded(x, pads, value):
    dims = x.ndim
    begin, end = pads[:dims], pads[dims:]
    for axis in range(dims):
        x = x.take(np.arange(max(0, -begin[axis]), x.shape[axis] - max(0, -end[axis])), axis)
    return np.pad(x, [(max(0, b), max(0, e)) for b, e in zip(begin, end)], constant_values=value)


def run(x, pads, value=None, opset=18):
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    given = [helper.make_tensor("pads", onnx.TensorProto.INT64, [len(pads)], pads)]
    if value is not None and opset > 2:
        given.append(onnx.numpy_helper.from_array(np.array(value, x.dtype), "value"))
    old = {"pads": pads, **({"value": float(value)} if value is not None else {})} if opset == 2 else {}
    node = helper.make_node("Pad", ["x"] + ([] if old else [i.name for i in given]), ["y"], **old)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", kind, x.shape)],
                              [helper.make_tensor_value_info("y", kind, None)], [] if old else given)
    session = clprim.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8))
    for _ in range(3):
        before = clprim.kernel_launches()
        y = session.run({"x": x})["y"]
        launches = clprim.kernel_launches() - before
    np.testing.assert_array_equal(y, padded(x, pads, 0 if value is None else np.asarray(value).astype(x.dtype)))
    return launches


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64", "bool", "int32"])
def test_random_borders(dtype):
    for _ in range(25):
        shape = tuple(int(n) for n in RNG.integers(1, 7, RNG.integers(1, 6)))
        x = RNG.integers(0, 100, shape).astype(dtype)
        pads = [int(RNG.integers(-min(1, n - 1), 4)) for n in (*shape, *shape)]
        pads = [p if n > 2 else max(p, 0) for p, n in zip(pads, (*shape, *shape))]
        assert run(x, pads, RNG.choice([None, 0, 3])) <= 1


def test_crops_that_leave_nothing():
    x = RNG.standard_normal((3, 4)).astype(np.float32)
    for pads in ([-3, 0, 0, 0], [-3, 1, 2, 0], [-2, 1, -1, 0], [-2, 1, 3, 0], [0, 0, -3, 4]):
        run(x, pads, 2)


def test_no_border():
    x = RNG.standard_normal((3, 4, 5)).astype(np.float32)
    assert run(x, [0] * 6) == 0


@pytest.mark.parametrize("value", [None, 0.0, 1.5])
def test_old_operator_sets(value):
    for dtype in (np.float32, np.float16):
        run(RNG.standard_normal((2, 3, 4)).astype(dtype), [0, 1, 2, 0, 0, 3], value, opset=2)
