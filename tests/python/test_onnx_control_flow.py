"""If, Loop and Scan at their edges: ONNX Runtime computes what clprim computes."""
import numpy as np
import pytest

import clprim

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node


def port(name, kind=F, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name, value):
    return numpy_helper.from_array(np.asarray(value), name)


def both(nodes, inputs, outputs, constants=(), opset=17):
    """Runs the graph here and there, twice, and compares every output's shape, type and values."""
    kinds = {np.dtype(np.float32): F, np.dtype(np.int64): I, np.dtype(bool): B}
    ports = [port(name, kinds[value.dtype], [None] * value.ndim) for name, value in inputs.items()]
    graph = helper.make_graph(nodes, "g", ports, outputs, list(constants))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    data = model.SerializeToString()
    expected = ort.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, inputs)
    session = clprim.Session(data)
    for _ in range(2):
        results = session.run(inputs)
        actual = [results[port.name] for port in outputs]
        assert len(actual) == len(expected)
        for ours, theirs in zip(actual, expected):
            assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


def counting_body(limit=None):
    """x, i -> x * 2 + outer; its scan output is x before; it ends when x's sum reaches the limit."""
    nodes = [node("Mul", ["x", "two"], ["xx"]), node("Add", ["xx", "outer"], ["x_next"]),
             node("Identity", ["x"], ["s"])]
    if limit is None:
        nodes.append(node("Identity", ["go"], ["go_on"]))
    else:
        nodes += [node("ReduceSum", ["x_next"], ["sum"], keepdims=0), node("Less", ["sum", "limit"], ["go_on"])]
    return helper.make_graph(nodes, "body", [port("i", I, []), port("go", B, []), port("x", F, [3])],
                             [port("go_on", B, []), port("x_next", F, [3]), port("s", F, [3])])


X = np.array([0.5, -1, 2], np.float32)
OUTER = np.array([1, 2, 3], np.float32)
LOOP_OUTPUTS = [port("y", F, [3]), port("ys", F, [None, 3])]


@pytest.mark.parametrize("trips", [0, 1, 7])
@pytest.mark.parametrize("go", [None, False, True])
def test_loop(trips, go):
    inputs = {"trips": np.array(trips, np.int64), "x": X, "outer": OUTER}
    if go is not None:
        inputs["start"] = np.array(go)
    loop = node("Loop", ["trips", "" if go is None else "start", "x"], ["y", "ys"], body=counting_body())
    both([loop], inputs, LOOP_OUTPUTS, [constant("two", np.float32(2))])


@pytest.mark.parametrize("trips", ["", "trips"])
@pytest.mark.parametrize("limit", [-100, 20, 500])
def test_loop_ends_early(trips, limit):
    inputs = {"start": np.array(True), "x": X, "outer": OUTER}
    if trips:
        inputs["trips"] = np.array(4, np.int64)
    loop = node("Loop", [trips, "start", "x"], ["y", "ys"], body=counting_body(limit))
    both([loop], inputs, LOOP_OUTPUTS, [constant("two", np.float32(2)), constant("limit", np.float32(limit))])


def test_loop_swaps_and_grows():
    """Carried values change places, one of them grows."""
    body = helper.make_graph(
        [node("Identity", ["go"], ["go_on"]), node("Identity", ["b"], ["a_next"]), node("Add", ["a", "b"], ["b_next"]),
         node("Concat", ["all", "a"], ["all_next"], axis=0)],
        "body", [port("i", I, []), port("go", B, []), port("a", F, [3]), port("b", F, [3]), port("all", F, [None])],
        [port("go_on", B, []), port("a_next", F, [3]), port("b_next", F, [3]), port("all_next", F, [None])])
    loop = node("Loop", ["trips", "", "a", "b", "all"], ["x", "y", "z"], body=body)
    both([loop], {"trips": np.array(5, np.int64), "a": X, "b": OUTER, "all": np.zeros(0, np.float32)},
         [port("x", F, [3]), port("y", F, [3]), port("z", F, [None])])


def test_if_inside_loop_sees_both_scopes():
    """A branch reads the body's value and the graph's."""
    def branch(name, of):
        return helper.make_graph([node(name, ["x", of], [name + "_y"])], name, [], [port(name + "_y", F, [3])])
    body = helper.make_graph(
        [node("Mod", ["i", "two"], ["odd"]), node("Cast", ["odd"], ["is_odd"], to=B),
         node("If", ["is_odd"], ["x_next"], then_branch=branch("Mul", "outer"), else_branch=branch("Add", "outer")),
         node("Identity", ["go"], ["go_on"])],
        "body", [port("i", I, []), port("go", B, []), port("x", F, [3])],
        [port("go_on", B, []), port("x_next", F, [3])])
    both([node("Loop", ["trips", "", "x"], ["y"], body=body)],
         {"trips": np.array(5, np.int64), "x": X, "outer": OUTER}, [port("y", F, [3])], [constant("two", np.int64(2))])


@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("out_back", [0, 1])
@pytest.mark.parametrize("axis, out_axis", [(0, 0), (-1, 1), (1, -1), (-2, 0)])
@pytest.mark.parametrize("length", [1, 4, 16, 19])
def test_scan(axis, out_axis, back, out_back, length):
    body = helper.make_graph([node("Mul", ["s", "half"], ["h"]), node("Add", ["h", "e"], ["s_next"]),
                              node("Sub", ["s_next", "outer"], ["o"])],
                             "body", [port("s", F, [3]), port("e", F, [3])],
                             [port("s_next", F, [3]), port("o", F, [3])])
    x = np.random.default_rng(0).standard_normal((length, 3)).astype(np.float32)
    scan = node("Scan", ["s0", "x"], ["s", "os"], body=body, num_scan_inputs=1, scan_input_axes=[axis],
                scan_output_axes=[out_axis], scan_input_directions=[back], scan_output_directions=[out_back])
    both([scan], {"s0": X, "x": x if axis in (0, -2) else x.T.copy(), "outer": OUTER},
         [port("s", F, [3]), port("os", F, [None, None])], [constant("half", np.float32(0.5))])
