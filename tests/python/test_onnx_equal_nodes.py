"""Nodes that compute the same of the same run once."""
import numpy as np
import pytest

import clprim

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

node = helper.make_node
RNG = np.random.default_rng(3)


def session(nodes, outputs, constants=(), **options):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, None])],
                              [onnx.ValueInfoProto(name=name) for name in outputs],
                              [numpy_helper.from_array(value, name) for name, value in dict(constants).items()])
    return clprim.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
                          **options)


def launches(made, feed):
    before = clprim.kernel_launches()
    results = made.run(feed)
    return clprim.kernel_launches() - before, results


def test_run_once():
    """Also where they read equal constants, and results of nodes that are equal."""
    nodes = [node("CumSum", ["x", "one"], ["a"]), node("CumSum", ["a", "zero"], ["b"]),
             node("CumSum", ["x", "also one"], ["c"]), node("CumSum", ["c", "zero"], ["d"]),
             node("Concat", ["b", "d"], ["y"], axis=0)]
    x = RNG.standard_normal((5, 7), dtype=np.float32)
    constants = {"one": np.array(1), "also one": np.array(1), "zero": np.array(0)}
    plain, right = launches(session(nodes, ["y"], constants, optimize=False), {"x": x})
    count, results = launches(session(nodes, ["y"], constants), {"x": x})
    assert np.array_equal(results["y"], right["y"]) and count == plain - 2


@pytest.mark.parametrize("first, second", [
    ({"exclusive": 0}, {"exclusive": 1}), ({"exclusive": 1}, {"exclusive": 1, "reverse": 1}), ({}, {"reverse": 1})])
def test_attributes_that_differ(first, second):
    nodes = [node("CumSum", ["x", "one"], ["a"], **first), node("CumSum", ["x", "one"], ["b"], **second),
             node("Concat", ["a", "b"], ["y"], axis=0)]
    x = RNG.standard_normal((5, 7), dtype=np.float32)
    right = session(nodes, ["y"], {"one": np.array(1)}, optimize=False).run({"x": x})["y"]
    assert np.array_equal(session(nodes, ["y"], {"one": np.array(1)}).run({"x": x})["y"], right)


@pytest.mark.parametrize("values", [(np.nan, 1.0), (1.0, np.nan), (0.0, -0.0)])
def test_numbers_that_compare_oddly(values):
    """As attributes, and as constants."""
    shape = {"shape": np.array([2, 3])}
    nodes = [node("ConstantOfShape", ["sizes"], [name], value=numpy_helper.from_array(np.array([v], np.float32)))
             for name, v in zip("ab", values)]
    pads = [node("Pad", ["x", "pads", f"c{i}"], [f"p{i}"]) for i in range(2)]
    alphas = [node("ThresholdedRelu", ["x"], [f"t{i}"], alpha=v) for i, v in enumerate(values)]
    nodes = [node("Shape", ["x"], ["sizes"]), *nodes, *pads, *alphas]
    outputs = ["a", "b", "p0", "p1", "t0", "t1"]
    constants = {"pads": np.array([1, 1, 1, 1]), **{f"c{i}": np.float32(v) for i, v in enumerate(values)}, **shape}
    x = RNG.standard_normal((5, 7), dtype=np.float32)
    right = session(nodes, outputs, constants, optimize=False).run({"x": x})
    for name, value in session(nodes, outputs, constants).run({"x": x}).items():
        assert value.tobytes() == right[name].tobytes(), name


def test_outputs_and_random_numbers_stay():
    nodes = [node("CumSum", ["x", "one"], ["a"]), node("CumSum", ["x", "one"], ["b"]),
             node("RandomNormalLike", ["x"], ["c"]), node("RandomNormalLike", ["x"], ["d"])]
    x = RNG.standard_normal((50, 7), dtype=np.float32)
    results = session(nodes, ["a", "b", "c", "d"], {"one": np.array(1)}).run({"x": x})
    assert np.array_equal(results["a"], results["b"])
    assert not np.array_equal(results["c"], results["d"])


def test_captured_by_branches():
    branch = helper.make_graph([node("Add", ["b", "b"], ["z"])], "then", [], [onnx.ValueInfoProto(name="z")])
    other = helper.make_graph([node("Neg", ["b"], ["z"])], "else", [], [onnx.ValueInfoProto(name="z")])
    nodes = [node("CumSum", ["x", "one"], ["a"]), node("CumSum", ["x", "one"], ["b"]),
             node("ReduceSum", ["a"], ["s"], keepdims=0), node("Cast", ["s"], ["c"], to=9),
             node("If", ["c"], ["y"], then_branch=branch, else_branch=other)]
    x = np.ones((2, 3), np.float32)
    assert np.array_equal(session(nodes, ["y"], {"one": np.array(1)}).run({"x": x})["y"], 2 * np.cumsum(x, 1))
