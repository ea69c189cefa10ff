"""Results that are returned where kernels left them: nobody else may have that memory."""
import gc

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper

import clprim

SIDE = 1024   # 4 MiB of float32
RNG = np.random.default_rng(4)
CONSTANT = RNG.standard_normal((SIDE, SIDE)).astype("f")


def session(nodes, outputs, **options):
    graph = helper.make_graph(
        [helper.make_node(*each) for each in nodes], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [SIDE, SIDE])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [SIDE, SIDE]) for name in outputs],
        [numpy_helper.from_array(CONSTANT, "c")])
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])
    return clprim.Session(model.SerializeToString(), **options)


def inputs():
    return RNG.standard_normal((SIDE, SIDE)).astype("f")


@pytest.mark.parametrize("record", [True, False])
def test_each_run_has_results_of_its_own(record):
    run = session([("Add", ["x", "c"], ["y"])], ["y"], record=record).run
    given = [inputs() for _ in range(5)]
    results = [run({"x": x})["y"] for x in given]
    for x, y in zip(given, results):
        np.testing.assert_array_equal(y, x + CONSTANT)
    results[0][:] = 7
    for x, y in zip(given[1:], results[1:]):
        np.testing.assert_array_equal(y, x + CONSTANT)
    np.testing.assert_array_equal(run({"x": given[0]})["y"], given[0] + CONSTANT)


def test_results_outlive_their_session():
    x, made = inputs(), session([("Neg", ["x"], ["y"])], ["y"])
    y = made.run({"x": x})["y"]
    other = made.run({"x": y})["y"]           # read while it lies where kernels left it
    del made
    gc.collect()
    again = session([("Neg", ["x"], ["y"])], ["y"])
    for _ in range(4):
        again.run({"x": inputs()})
    np.testing.assert_array_equal(y, -x)
    np.testing.assert_array_equal(other, x)


@pytest.mark.parametrize("nodes", [
    [("Identity", ["c"], ["y"]), ("Identity", ["c"], ["z"])],
    [("Identity", ["x"], ["y"]), ("Identity", ["x"], ["z"])],
    [("Exp", ["x"], ["y"]), ("Identity", ["y"], ["z"])],
], ids=["constant", "input", "twice"])
@pytest.mark.parametrize("optimize", [True, False])
def test_shared_memory_is_copied(nodes, optimize):
    made = session(nodes, ["y", "z"], optimize=optimize)
    x = inputs()
    kept, results = x.copy(), made.run({"x": x})
    expected = results["z"].copy()
    results["y"][:] = 3
    np.testing.assert_array_equal(results["z"], expected)
    np.testing.assert_array_equal(x, kept)
    np.testing.assert_array_equal(made.run({"x": x})["y"], expected)
    np.testing.assert_array_equal(made.run({"x": x})["z"], expected)


def test_results_are_plain_arrays():
    y = session([("Transpose", ["x"], ["y"])], ["y"]).run({"x": CONSTANT})["y"]
    assert y.flags.writeable and y.flags.c_contiguous and y.dtype == np.float32 and y.shape == (SIDE, SIDE)
    np.testing.assert_array_equal(y, CONSTANT.T)
