"""What loops compute alike in each iteration goes ahead of them: ONNX Runtime computes what clprim computes."""
import numpy as np
import pytest

import clprim

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx import helper  # noqa: E402
from test_onnx_control_flow import B, F, I, both, constant, launches_of, node, port  # noqa: E402

RNG = np.random.default_rng(11)
WIDE = 300                                     # products of a state that no one-launch loop does
W, V = (RNG.standard_normal((2, WIDE, WIDE)) / 64).astype(np.float32)
BIAS = RNG.standard_normal(WIDE).astype(np.float32)
STATE = (RNG.standard_normal((2, WIDE)) / 4).astype(np.float32)
SEQUENCE = (RNG.standard_normal((7, 2, WIDE)) / 4).astype(np.float32)
INT32 = onnx.TensorProto.INT32


def run_saved(nodes, inputs, outputs, constants, tmp_path):
    """The graph as the session has made it, by ONNX Runtime."""
    kinds = {np.dtype(np.float32): F, np.dtype(np.int64): I, np.dtype(bool): B}
    ports = [port(name, kinds[value.dtype], list(value.shape)) for name, value in inputs.items()]
    graph = helper.make_graph(nodes, "g", ports, outputs, list(constants))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data = model.SerializeToString()
    saved = tmp_path / "saved.onnx"
    clprim.Session(data).save(saved)
    expected = ort.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, inputs)
    actual = ort.InferenceSession(saved, providers=["CPUExecutionProvider"]).run(None, inputs)
    for ours, theirs in zip(actual, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def loop(nodes, carried, results, scanned=(), extra=()):
    """A Loop over `carried` [(name, kind, shape)], which become `results`."""
    inputs = [port("i", I, []), port("go", B, [])] + [port(*each) for each in carried]
    outputs = [port("go_on", B, [])] + [port(name, *each[1:]) for name, each in zip(results, carried)]
    body = helper.make_graph([node("Identity", ["go"], ["go_on"]), *nodes], "body", inputs,
                             outputs + [port(*each) for each in scanned], list(extra))
    names = [f"{each[0]}_end" for each in carried] + [f"{each[0]}_all" for each in scanned]
    return node("Loop", ["trips", "", *[f"{each[0]}_begin" for each in carried]], names, body=body)


CELL = [node("MatMul", ["h", "w"], ["hw"]), node("MatMul", ["x", "v"], ["xv"]), node("Add", ["hw", "xv"], ["sum"]),
        node("Add", ["sum", "bias"], ["biased"]), node("Tanh", ["biased"], ["h_next"])]
CARRIED = [("w", F, [WIDE, WIDE]), ("h", F, [2, WIDE]), ("v", F, [WIDE, WIDE]), ("bias", F, [WIDE])]
WEIGHTS = [constant("w_begin", W), constant("v_begin", V), constant("bias_begin", BIAS)]


@pytest.mark.parametrize("trips", [0, 1, 7])
@pytest.mark.parametrize("copied", [False, True])
def test_weights_handed_on(trips, copied, tmp_path):
    """Weights among the carried values, as Paddle's exporter writes them; the graph goes on with them."""
    copies = [node("Identity", ["v"], ["v_copy"]), node("Identity", ["v_copy"], ["v_next"])] if copied else []
    body = [node("Gather", ["sequence", "i"], ["x"]), *CELL, *copies]
    nodes = [loop(body, CARRIED, ["w", "h_next", "v_next" if copied else "v", "bias"]),
             node("MatMul", ["h_end", "w_end"], ["y"]), node("Add", ["bias_end", "bias_end"], ["z"]),
             node("Identity", ["v_end"], ["u"])]
    inputs = {"trips": np.array(trips, np.int64), "h_begin": STATE, "sequence": SEQUENCE}
    outputs = [port("y", F, [2, WIDE]), port("z", F, [WIDE]), port("u", F, [WIDE, WIDE])]
    both(nodes, inputs, outputs, WEIGHTS)
    run_saved(nodes, inputs, outputs, WEIGHTS, tmp_path)


def test_weights_of_a_run_are_handed_on():
    """Inputs, not constants, which the loop also stacks."""
    body = [node("Add", ["h", "bias"], ["h_next"]), node("Identity", ["bias"], ["seen"])]
    nodes = [loop(body, [("h", F, [2, WIDE]), ("bias", F, [WIDE])], ["h_next", "bias"], [("seen", F, [WIDE])])]
    inputs = {"trips": np.array(3, np.int64), "h_begin": STATE, "bias_begin": BIAS}
    both(nodes, inputs, [port("h_end", F, [2, WIDE]), port("bias_end", F, [WIDE]), port("seen_all", F, [3, WIDE])])


def test_carried_values_that_only_change_places():
    body = [node("Add", ["a", "b"], ["c_next"])]
    carried = [("a", F, [2, WIDE]), ("b", F, [2, WIDE]), ("c", F, [2, WIDE])]
    nodes = [loop(body, carried, ["b", "a", "c_next"])]
    both(nodes, {"trips": np.array(3, np.int64), "a_begin": STATE, "b_begin": STATE + 1, "c_begin": STATE + 2},
         [port("a_end", F, [2, WIDE]), port("b_end", F, [2, WIDE]), port("c_end", F, [2, WIDE])])


@pytest.mark.parametrize("counter", ["iteration", "carried", "carried32", "backwards", "doubled"])
def test_products_of_elements(counter, tmp_path):
    """x[t] @ v is the t-th row of x @ v where t counts; where it goes otherwise, the product stays."""
    index = "i" if counter == "iteration" else "t"
    whole = INT32 if counter == "carried32" else I
    dtype = np.int32 if counter == "carried32" else np.int64
    step = {"backwards": ["Sub", np.array(1, dtype)], "doubled": ["Mul", np.array(2, dtype)]}.get(
        counter, ["Add", np.array(1, dtype)])
    body = [node("Gather", ["sequence", index], ["x"]), *CELL, node(step[0], ["t", "step"], ["t_next"])]
    nodes = [loop(body, [*CARRIED, ("t", whole, [])], ["w", "h_next", "v", "bias", "t_next"])]
    first = {"backwards": 4, "doubled": 1}.get(counter, 0)
    constants = [*WEIGHTS, constant("step", step[1]), constant("t_begin", np.array(first, dtype))]
    inputs = {"trips": np.array(3, np.int64), "h_begin": STATE, "sequence": SEQUENCE}
    both(nodes, inputs, [port("h_end", F, [2, WIDE])], constants)
    run_saved(nodes, inputs, [port("h_end", F, [2, WIDE])], constants, tmp_path)


def launches_of_trips(nodes, trips, inputs, outputs, constants):
    return launches_of(nodes, {"trips": np.array(trips, np.int64), **inputs}, outputs, constants)


@pytest.mark.parametrize("what", ["element", "alike"])
def test_products_leave_the_loop(what):
    """An iteration launches two kernels: the state's product with the sum, and the activation."""
    pick = [node("Gather", ["sequence", "i"], ["x"])] if what == "element" else [node("Neg", ["other"], ["x"])]
    nodes = [loop([*pick, *CELL], CARRIED, ["w", "h_next", "v", "bias"])]
    inputs = {"h_begin": STATE, **({"sequence": SEQUENCE} if what == "element" else {"other": STATE})}
    outputs = [port("h_end", F, [2, WIDE])]
    few, many = (launches_of_trips(nodes, trips, inputs, outputs, WEIGHTS) for trips in (2, 6))
    each = (many - few) / 4
    assert each == 2, f"{each} launches an iteration"


def test_what_may_fail_stays():
    """A division and a reshape that only a first iteration could do: there is none."""
    body = [node("Reshape", ["nothing", "one_row"], ["r"]), node("Gather", ["nothing", "i"], ["x"]),
            node("Add", ["h", "x"], ["s"]), node("Add", ["s", "r"], ["h_next"])]
    nodes = [loop(body, [("h", F, [3])], ["h_next"])]
    both(nodes, {"trips": np.array(0, np.int64), "h_begin": np.ones(3, np.float32),
                 "nothing": np.zeros((0, 3), np.float32)}, [port("h_end", F, [3])],
         [constant("one_row", np.array([1, 3]))])


def test_loops_within_loops():
    """What no loop changes leaves both, what the outer one changes leaves the inner one."""
    inner_body = helper.make_graph(
        [node("Identity", ["go2"], ["go2_on"]), node("MatMul", ["outside", "w"], ["same"]),
         node("MatMul", ["h", "w"], ["hw"]), node("Add", ["g", "same"], ["a"]), node("Add", ["a", "hw"], ["b"]),
         node("Tanh", ["b"], ["g_next"])], "inner",
        [port("j", I, []), port("go2", B, []), port("g", F, [2, WIDE])],
        [port("go2_on", B, []), port("g_next", F, [2, WIDE])])
    inner = node("Loop", ["three", "", "h"], ["h_next"], body=inner_body)
    nodes = [loop([inner], [("h", F, [2, WIDE])], ["h_next"])]
    both(nodes, {"trips": np.array(2, np.int64), "h_begin": STATE, "outside": STATE[::-1].copy()},
         [port("h_end", F, [2, WIDE])], [constant("w", W), constant("three", np.array(3))])


def test_scan_hands_weights_on(tmp_path):
    body = helper.make_graph(
        [node("MatMul", ["h", "w"], ["hw"]), node("Add", ["hw", "e"], ["s"]), node("Tanh", ["s"], ["h_next"]),
         node("Identity", ["w"], ["w_next"])], "body",
        [port("w", F, [WIDE, WIDE]), port("h", F, [2, WIDE]), port("e", F, [2, WIDE])],
        [port("w_next", F, [WIDE, WIDE]), port("h_next", F, [2, WIDE]), port("s", F, [2, WIDE])])
    nodes = [node("Scan", ["w_begin", "h_begin", "sequence"], ["w_end", "h_end", "all"], body=body, num_scan_inputs=1),
             node("MatMul", ["h_end", "w_end"], ["y"])]
    outputs = [port("y", F, [2, WIDE]), port("all", F, [7, 2, WIDE])]
    both(nodes, {"h_begin": STATE, "sequence": SEQUENCE}, outputs, WEIGHTS[:1])
    run_saved(nodes, {"h_begin": STATE, "sequence": SEQUENCE}, outputs, WEIGHTS[:1], tmp_path)


# ---- operators that change nothing ---------------------------------------------------------------------------------

ONE, ZERO = np.float32(1), np.float32(0)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("operator, value, swapped", [
    ("Add", 0, False), ("Add", 0, True), ("Sub", 0, False), ("Sub", 0, True), ("Mul", 1, False), ("Mul", 1, True),
    ("Div", 1, False), ("Div", 1, True), ("Add", 1, False), ("Mul", 0, False)])
def test_neutral_numbers(operator, value, swapped, rank, shape):
    """Constants with axes lend them to what has none; 0 - x and 1 / x change x."""
    x = np.array([[2, -3], [0.5, 4]], np.float32)[(0,) * (2 - rank)]
    for kind in (np.float32, np.int64):
        pair = ["c", "x_"] if swapped else ["x_", "c"]
        nodes = [node("Abs", ["x"], ["x_"]), node(operator, pair, ["s"]), node("Neg", ["s"], ["y"]),
                 node(operator, pair, ["z"])]
        data = np.maximum(x, 1).astype(kind)
        to = F if kind == np.float32 else I
        both(nodes, {"x": np.asarray(data)}, [port("y", to), port("z", to)],
             [constant("c", np.full(shape, value, kind))])


@pytest.mark.parametrize("axes, back", [([0], [0]), ([0, 2], [0, 2]), ([1], [-3]), ([-1], [-1]), ([0], [1]),
                                        ([1], None)])
def test_unsqueezed_and_squeezed(axes, back):
    x = np.ones((1, 3, 1), np.float32) * np.arange(3, dtype=np.float32)[:, None]
    nodes = [node("Unsqueeze", ["x", "axes"], ["u"]), node("Add", ["u", "zero"], ["v"]),
             node("Squeeze", ["v", "back"] if back else ["v"], ["s"]), node("Neg", ["s"], ["y"])]
    constants = [constant("axes", np.array(axes)), constant("zero", np.zeros(1, np.float32))]
    both(nodes, {"x": x}, [port("y", F)], constants + ([constant("back", np.array(back))] if back else []))


def test_unread_nodes_cost_nothing():
    """Though what they read is read by others."""
    x = {"x": STATE}
    used, unread = [node("Exp", ["x"], ["y"])], [node("MatMul", ["x", "w"], ["a"]), node("Softmax", ["a"], ["b"])]
    outputs, constants = [port("y", F, [2, WIDE])], [constant("w", W)]
    both([*unread, *used], x, outputs, constants)
    assert launches_of([*unread, *used], x, outputs, constants) == launches_of(used, x, outputs, constants)
