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


# ---- loops with few elements, which CPUs do in one launch ----------------------------------------------------------

W = (np.random.default_rng(3).standard_normal((6, 6)) / 4).astype(np.float32)
ROW = np.linspace(-1, 1, 6, dtype=np.float32)
STATE = np.random.default_rng(4).standard_normal((2, 6)).astype(np.float32)


def loop_of(nodes, carried, results, condition="go", scanned=()):
    """A Loop over `carried` [(name, kind, shape)], which become `results`; further results are stacked."""
    inputs = [port("i", I, []), port("go", B, [])] + [port(*each) for each in carried]
    outputs = [port(condition, B, [])] + [port(name, *each[1:]) for name, each in zip(results, carried)]
    body = helper.make_graph(nodes, "body", inputs, outputs + [port(*each) for each in scanned])
    names = [f"{each[0]}_end" for each in carried] + [f"{each[0]}_all" for each in scanned]
    return node("Loop", ["trips", "start", *[f"{each[0]}_begin" for each in carried]], names, body=body)


def launches_of(nodes, inputs, outputs, constants=()):
    """The number of launches of a run after the first two, on CPUs."""
    kinds = {np.dtype(np.float32): F, np.dtype(np.int64): I, np.dtype(bool): B}
    ports = [port(name, kinds[value.dtype], list(value.shape)) for name, value in inputs.items()]
    graph = helper.make_graph(nodes, "g", ports, outputs, list(constants))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = clprim.Session(model.SerializeToString())
    for _ in range(3):
        before = clprim.kernel_launches()
        session.run(inputs)
    return clprim.kernel_launches() - before


def on_cpu():
    return clprim.devices()[0].kind == "cpu"


RECURRENT = [node("MatMul", ["h", "w"], ["hw"]), node("Add", ["hw", "row"], ["sum"]), node("Tanh", ["sum"], ["h_next"])]
COUNT = [constant("trips", np.int64(9)), constant("start", np.array(True)), constant("w", W), constant("row", ROW)]


def test_small_loop_of_products():
    loop = loop_of([*RECURRENT, node("Identity", ["go"], ["go_on"]), node("Identity", ["h_next"], ["seen"])],
                   [("h", F, [2, 6])], ["h_next"], "go_on", [("seen", F, [2, 6])])
    outputs = [port("h_end", F, [2, 6]), port("seen_all", F, [9, 2, 6])]
    both([loop], {"h_begin": STATE}, outputs, COUNT)
    if on_cpu():
        assert launches_of([loop], {"h_begin": STATE}, outputs, COUNT) <= 3      # two copy results


@pytest.mark.parametrize("axes", [None, [1], [-1], [0]])
@pytest.mark.parametrize("kind", ["ReduceMax", "ReduceMin", "ReduceMean"])
def test_small_loop_with_reductions(kind, axes):
    attributes = {} if axes is None else {"axes": axes}
    nodes = [node(kind, ["h"], ["m"], keepdims=1, **attributes), node("Sub", ["h", "m"], ["d"]),
             node("Mul", ["d", "row"], ["e"]), node("Add", ["e", "h"], ["h_next"])]
    both([loop_of(nodes, [("h", F, [2, 6])], ["h_next"])], {"h_begin": STATE}, [port("h_end", F, [2, 6])], COUNT)


@pytest.mark.parametrize("start", [True, False])
@pytest.mark.parametrize("trips", [1, 3, 2**62])
def test_small_while(start, trips):
    """A condition of floats, a count of integers, and a choice."""
    nodes = [node("Add", ["n", "one"], ["n_next"]), node("Cast", ["i"], ["real"], to=F),
             node("Mul", ["h", "grows"], ["g"]), node("Add", ["g", "real"], ["a"]),
             node("Greater", ["a", "row"], ["more"]), node("Where", ["more", "a", "row"], ["h_next"]),
             node("ReduceSum", ["h_next"], ["sum"], keepdims=0), node("Less", ["sum", "limit"], ["low"]),
             node("Less", ["n_next", "most"], ["few"]), node("And", ["low", "few"], ["go_on"])]
    loop = loop_of(nodes, [("h", F, [2, 6]), ("n", I, [])], ["h_next", "n_next"], "go_on")
    constants = [constant("row", ROW), constant("one", np.int64(1)), constant("grows", np.float32(1.25)),
                 constant("limit", np.float32(700)), constant("most", np.int64(40))]
    inputs = {"trips": np.array(trips, np.int64), "start": np.array(start), "h_begin": STATE,
              "n_begin": np.array(5, np.int64)}
    both([loop], inputs, [port("h_end", F, [2, 6]), port("n_end", I, [])], constants)


def test_small_loop_of_many_iterations():
    """More than one launch does."""
    nodes = [node("Add", ["h", "one"], ["h_next"]), node("ReduceMax", ["h_next"], ["most"], keepdims=0),
             node("Less", ["most", "limit"], ["go_on"])]
    loop = loop_of(nodes, [("h", F, [2, 6])], ["h_next"], "go_on")
    inputs = {"trips": np.array(2**60, np.int64), "start": np.array(True), "h_begin": np.zeros((2, 6), np.float32)}
    both([loop], inputs, [port("h_end", F, [2, 6])],
         [constant("one", np.float32(1)), constant("limit", np.float32(140000))])


def test_small_loop_that_swaps():
    nodes = [node("Identity", ["a"], ["b_next"]), node("Add", ["b", "row"], ["a_next"])]
    loop = loop_of(nodes, [("a", F, [2, 6]), ("b", F, [2, 6])], ["a_next", "b_next"])
    both([loop], {"a_begin": STATE, "b_begin": STATE + 1}, [port("a_end", F, [2, 6]), port("b_end", F, [2, 6])], COUNT)


def test_small_loop_that_carries_a_value_twice():
    nodes = [node("Add", ["a", "b"], ["sum"]), node("Mul", ["sum", "row"], ["m"]), node("Tanh", ["m"], ["c_next"])]
    carried = [(name, F, [2, 6]) for name in "abc"]
    loop = loop_of(nodes, carried, ["c_next", "c_next", "sum"])
    both([loop], {"a_begin": STATE, "b_begin": STATE + 1, "c_begin": STATE},
         [port(f"{name}_end", F, [2, 6]) for name in "abc"], COUNT)


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 19])
@pytest.mark.parametrize("size", [5, 16, 21])
def test_small_loop_of_products_of_many_rows(rows, size):
    rng = np.random.default_rng(rows * size)
    weights = [constant("w", (rng.standard_normal((size, size)) / size).astype(np.float32)),
               constant("b", rng.standard_normal(size).astype(np.float32))]
    nodes = [node("MatMul", ["h", "w"], ["hw"]), node("Add", ["hw", "b"], ["biased"]), node("Tanh", ["biased"], ["t"]),
             node("MatMul", ["t", "w"], ["h_next"])]
    loop = loop_of(nodes, [("h", F, [rows, size])], ["h_next"])
    begin = rng.standard_normal((rows, size)).astype(np.float32)
    both([loop], {"h_begin": begin}, [port("h_end", F, [rows, size])], [*COUNT[:2], *weights])


@pytest.mark.parametrize("backwards", [[0, 0], [1, 0], [0, 1]])
def test_small_scan(backwards):
    body = helper.make_graph([*RECURRENT[:1], node("Add", ["hw", "x"], ["sum"]), node("Tanh", ["sum"], ["h_next"]),
                              node("Neg", ["h_next"], ["y"])], "body", [port("h", F, [2, 6]), port("x", F, [6])],
                             [port("h_next", F, [2, 6]), port("y", F, [2, 6])])
    scan = node("Scan", ["h_begin", "xs"], ["h_end", "ys"], body=body, num_scan_inputs=1,
                scan_input_directions=backwards[:1], scan_output_directions=backwards[1:])
    inputs = {"h_begin": STATE, "xs": np.random.default_rng(5).standard_normal((11, 6)).astype(np.float32)}
    outputs = [port("h_end", F, [2, 6]), port("ys", F, [11, 2, 6])]
    both([scan], inputs, outputs, COUNT)
    if on_cpu():
        assert launches_of([scan], inputs, outputs, COUNT) <= 3


@pytest.mark.parametrize("scale", [1, 400])
def test_loops_too_large_for_one_launch(scale):
    """The same body with few elements and with many."""
    nodes = [node("Mul", ["h", "h"], ["s"]), node("Sub", ["s", "row"], ["h_next"])]
    begin = np.tile(STATE / 4, (scale, 1))
    loop = loop_of(nodes, [("h", F, list(begin.shape))], ["h_next"])
    both([loop], {"h_begin": begin}, [port("h_end", F, list(begin.shape))], COUNT)
