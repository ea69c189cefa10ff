"""Sessions that replay recordings: the same values as node by node, whatever changes between runs."""
import functools
import threading

import numpy as np
import pytest
import torch

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper

import clprim

RNG = np.random.default_rng(0)


def model(nodes, inputs, outputs, constants=(), domains=()):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in dict(constants).items()])
    opsets = [helper.make_opsetid("", 21), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@functools.cache
def mlp():
    w, b = RNG.standard_normal((8, 16), dtype="f"), RNG.standard_normal(16, dtype="f")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "b"], ["s"]),
             helper.make_node("Tanh", ["s"], ["t"]), helper.make_node("Softmax", ["t"], ["y"]),
             helper.make_node("Shape", ["x"], ["shape"])]
    return model(nodes, [("x", TensorProto.FLOAT, ["n", 8])], ["y", "shape"], {"w": w, "b": b})


def launches(session, feed):
    before = clprim.kernel_launches(), clprim.blocking_calls()
    session.run_values(feed)
    return clprim.kernel_launches() - before[0], clprim.blocking_calls() - before[1]


def test_runs_alike_give_what_runs_node_by_node_give():
    session, plain = clprim.Session(mlp()), clprim.Session(mlp(), record=False)
    kept = []
    for n in (3, 3, 3, 3, 5, 3, 5, 5, 5, 1, 2, 4, 6, 7, 3):         # more sizes than recordings are kept of
        feed = {"x": RNG.standard_normal((n, 8), dtype="f")}
        got, expected = session.run_values(feed), plain.run(feed)
        kept.append((got, expected))
    for got, expected in kept:                                       # later runs do not write to earlier results
        for name in expected:
            np.testing.assert_array_equal(got[name].numpy(), expected[name])


def test_replays_launch_what_was_recorded_and_do_not_wait():
    session, plain = clprim.Session(mlp()), clprim.Session(mlp(), record=False)
    feed = {"x": RNG.standard_normal((3, 8), dtype="f")}
    for _ in range(4):
        session.run(feed), plain.run(feed)
    feed = {"x": clprim.Tensor(feed["x"])}
    plain.run(feed)
    assert launches(session, feed) == launches(plain, feed)
    assert launches(session, feed)[1] == 0


def test_inputs_on_the_device_and_strided():
    session = clprim.Session(mlp())
    plain = clprim.Session(mlp(), record=False)
    for _ in range(4):
        x = RNG.standard_normal((8, 3), dtype="f")
        expected = plain.run({"x": x.T.copy()})["y"]
        for given in (clprim.Tensor(x).permute(1, 0), clprim.Tensor(x.T.copy()), x.T):
            np.testing.assert_allclose(session.run({"x": given})["y"], expected, rtol=1e-6)


def test_small_integers_and_branches():
    def branch(op, name):
        outputs = [onnx.ValueInfoProto(name=name)]
        return helper.make_graph([helper.make_node(op, ["x", "one"], [name])], name, [], outputs)

    nodes = [helper.make_node("Equal", ["mode", "two"], ["is_two"]),
             helper.make_node("If", ["is_two"], ["y"], then_branch=branch("Add", "a"), else_branch=branch("Sub", "b"))]
    session = clprim.Session(model(nodes, [("x", TensorProto.FLOAT, [4]), ("mode", TensorProto.INT64, [])], ["y"],
                                   {"one": np.float32(1), "two": np.int64(2)}))
    x = np.arange(4, dtype="f")
    for mode in (2, 2, 2, 1, 1, 2, 1, 1, 2, 3):
        y = session.run({"x": x, "mode": np.int64(mode)})["y"]
        np.testing.assert_array_equal(y, x + 1 if mode == 2 else x - 1)
    on_device = clprim.Value(clprim.Tensor(np.int64(2)))             # read by the host: such runs are not recorded
    for _ in range(4):
        np.testing.assert_array_equal(session.run({"x": x, "mode": on_device})["y"], x + 1)


def test_shapes_that_depend_on_data():
    nodes = [helper.make_node("NonZero", ["x"], ["i"]), helper.make_node("Transpose", ["i"], ["y"], perm=[1, 0])]
    session = clprim.Session(model(nodes, [("x", TensorProto.FLOAT, [6])], ["y"]))
    for zeros in (0, 1, 2, 3, 4, 6):
        x = np.ones(6, "f")
        x[:zeros] = 0
        np.testing.assert_array_equal(session.run({"x": x})["y"][:, 0], np.nonzero(x)[0])


def test_random_numbers_are_drawn_anew():
    session = clprim.Session(model([helper.make_node("RandomNormalLike", ["x"], ["y"])],
                                   [("x", TensorProto.FLOAT, [64])], ["y"]))
    draws = [session.run({"x": np.zeros(64, "f")})["y"] for _ in range(5)]
    assert all((a != b).any() for a, b in zip(draws, draws[1:]))


def test_bound_outputs_and_fewer_outputs():
    session, x = clprim.Session(mlp()), RNG.standard_normal((3, 8), dtype="f")
    expected = clprim.Session(mlp(), record=False).run({"x": x})["y"]
    memory = clprim.Tensor.empty((3, 16))
    for _ in range(4):
        memory.fill(0)
        session.run_values({"x": x}, outputs=["y"], bound={"y": memory})
        np.testing.assert_array_equal(memory.numpy(), expected)


def test_arrays_are_read_where_they_lie_and_results_are_the_callers():
    nodes = [helper.make_node("Transpose", ["x"], ["strided"], perm=[1, 0]),
             helper.make_node("Identity", ["x"], ["same"]),
             helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Identity", ["c"], ["constant"]),
             helper.make_node("Slice", ["x", "zero", "zero"], ["empty"]),
             helper.make_node("SequenceConstruct", ["y", "x"], ["both"]),
             helper.make_node("SequenceAt", ["both", "zero_scalar"], ["picked"])]
    outputs = ["strided", "same", "y", "constant", "empty", "picked"]
    constants = {"c": RNG.standard_normal((3, 5)), "zero": np.int64([0]), "zero_scalar": np.int64(0)}
    session = clprim.Session(model(nodes, [("x", TensorProto.FLOAT, ["n", "m"])], outputs, constants))
    kept = []
    whole = RNG.standard_normal(200 * 60 + 1, dtype="f")
    unaligned = np.frombuffer(b"x" + whole.tobytes(), np.float32, offset=1)
    for x in (whole[:-1].reshape(200, 60), whole[1:].reshape(200, 60), unaligned[1:].reshape(200, 60),
              whole[:-1].reshape(60, 200).T, whole[:-1].reshape(200, 60).astype(">f4"), whole[:6].reshape(2, 3)) * 2:
        given = x.copy()
        result = session.run({"x": given})
        kept.append((np.asarray(x, "f"), result))
        given[...] = 0
        result["constant"] += 0                       # the caller's own, not the session's
    for x, result in kept:
        for name, expected in {"strided": x.T, "same": x, "y": np.maximum(x, 0), "constant": constants["c"],
                               "empty": x[:0], "picked": np.maximum(x, 0)}.items():
            np.testing.assert_array_equal(result[name], expected, err_msg=name)
            assert result[name].flags.writeable
    kept[0][1]["constant"][...] = 0
    np.testing.assert_array_equal(session.run({"x": whole[:6].reshape(2, 3)})["constant"], constants["c"])


def test_functions_of_the_programs_may_keep_what_they_get():
    values = []
    clprim.register_operator("KeepReplays", lambda inputs, attributes: values.extend(inputs) or inputs[0],
                             domain="test.replays")
    session = clprim.Session(model([helper.make_node("KeepReplays", ["x"], ["y"], domain="test.replays")],
                                   [("x", TensorProto.FLOAT, [100, 100])], ["y"], domains=["test.replays"]))
    expected = []
    for _ in range(3):
        x = RNG.standard_normal((100, 100), dtype="f")
        np.testing.assert_array_equal(session.run({"x": x})["y"], x)
        expected.append(x.copy())
        del x
    for value, x in zip(values, expected, strict=True):
        np.testing.assert_array_equal(value.numpy(), x)


def test_errors_of_indices_are_told():
    nodes = [helper.make_node("Gather", ["table", "i"], ["y"])]
    session = clprim.Session(model(nodes, [("i", TensorProto.INT64, [32])], ["y"],
                                   {"table": np.arange(5, dtype="f")}))
    good = np.arange(32) % 5
    for _ in range(4):
        np.testing.assert_array_equal(session.run({"i": good})["y"], good)
    for _ in range(2):
        with pytest.raises((IndexError, clprim.Error)):
            session.run({"i": good + 1})
        np.testing.assert_array_equal(session.run({"i": good})["y"], good)


def test_recordings_of_ever_new_shapes_do_not_add_up():
    session = clprim.Session(mlp())
    device = clprim.Context()
    reserved = []
    for rows in range(20, 60):
        for _ in range(3):
            session.run({"x": np.zeros((1000 * rows, 8), "f")})
        reserved.append(device.memory()["reserved"])
    assert reserved[-1] <= 2 * reserved[9], reserved


def test_threads():
    session, plain = clprim.Session(mlp()), clprim.Session(mlp(), record=False)
    feeds = [{"x": RNG.standard_normal((n, 8), dtype="f")} for n in (2, 2, 3, 3)]
    expected = [plain.run(feed)["y"] for feed in feeds]
    wrong = []

    def work(i):
        for _ in range(20):
            y = session.run(feeds[i])["y"]
            if not np.array_equal(y, expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_branches_are_optimised_too():
    weight, shift = RNG.standard_normal((4, 3, 3, 3), dtype="f"), RNG.standard_normal(4, dtype="f")
    inner = [helper.make_node("Constant", [], ["zero"], value_float=0.0),
             helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
             helper.make_node("BatchNormalization", ["c", "s", "s", "s", "v"], ["n"]),
             helper.make_node("Relu", ["n"], ["r"]), helper.make_node("Add", ["r", "zero"], ["a"]),
             helper.make_node("Tanh", ["a"], ["t"])]
    then = helper.make_graph(inner, "then", [], [onnx.ValueInfoProto(name="t")])
    other = helper.make_graph([helper.make_node("Identity", ["x"], ["o"])], "else", [], [onnx.ValueInfoProto(name="o")])
    nodes = [helper.make_node("If", ["flag"], ["y"], then_branch=then, else_branch=other)]
    built = model(nodes, [("x", TensorProto.FLOAT, [1, 3, 8, 8]), ("flag", TensorProto.BOOL, [])], ["y"],
                  {"w": weight, "s": shift, "v": np.abs(shift) + 1})
    feed = {"x": RNG.standard_normal((1, 3, 8, 8), dtype="f"), "flag": np.bool_(True)}
    fused, plain = clprim.Session(built, record=False), clprim.Session(built, optimize=False, record=False)
    x, w, s = (torch.from_numpy(a).double() for a in (feed["x"], weight, shift))
    n = torch.nn.functional.batch_norm(torch.conv2d(x, w, padding=1), s, s.abs() + 1, s, s)
    for session in (fused, plain):
        torch.testing.assert_close(session.run(feed)["y"], n.relu().tanh().float().numpy())
    assert launches(fused, feed)[0] < launches(plain, feed)[0]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "GRU after"])
@pytest.mark.parametrize("steps, batch, inputs, hidden, direction, layout", [
    (1, 1, 7, 5, "forward", 0), (9, 3, 6, 40, "bidirectional", 0), (4, 2, 5, 130, "reverse", 1),
    (12, 1, 9, 256, "bidirectional", 1), (3, 2, 4, 300, "forward", 0)])
def test_recurrent_layers(kind, steps, batch, inputs, hidden, direction, layout):
    gates, d = 4 if kind == "LSTM" else 3, 2 if direction == "bidirectional" else 1
    scale = hidden ** -0.5
    w, r, b = (RNG.uniform(-scale, scale, shape).astype("f") for shape in
               [(d, gates * hidden, inputs), (d, gates * hidden, hidden), (d, 2 * gates * hidden)])
    states = ["h0", "c0"] if kind == "LSTM" else ["h0"]
    attributes = {"hidden_size": hidden, "direction": direction, "layout": layout}
    if kind == "GRU after":
        attributes["linear_before_reset"] = 1
    node = helper.make_node(kind[:4].strip(), ["x", "w", "r", "b", "lengths", *states],
                            ["y", "h", "c"][:1 + len(states)], **attributes)
    state = (batch, d, hidden) if layout else (d, batch, hidden)
    session = clprim.Session(model([node], [("x", TensorProto.FLOAT, None), ("lengths", TensorProto.INT32, [batch]),
                                            *((name, TensorProto.FLOAT, state) for name in states)],
                                   ["y", "h", "c"][:1 + len(states)], {"w": w, "r": r, "b": b}))
    feed = {"x": RNG.standard_normal((batch, steps, inputs) if layout else (steps, batch, inputs), dtype="f"),
            "lengths": np.array([steps, *RNG.integers(1, steps + 1, batch - 1)], np.int32),
            **{name: RNG.standard_normal(state, dtype="f") for name in states}}
    for _ in range(3):
        got = session.run(feed)
    turn = (lambda a: a.swapaxes(0, 1)) if layout else (lambda a: a)
    y, last = recurrent_reference(kind, turn(feed["x"]), feed["lengths"], [turn(feed[name]) for name in states],
                                  (w, r, b), direction == "reverse")
    np.testing.assert_allclose(got["y"].transpose(1, 2, 0, 3) if layout else got["y"], y, rtol=1e-4, atol=1e-5)
    for name, expected in zip(("h", "c"), last):
        np.testing.assert_allclose(turn(got[name]), expected, rtol=1e-4, atol=1e-5)


def recurrent_reference(kind, x, lengths, states, weights, only_reversed):
    """ONNX's definitions, in double precision; sequences that ended keep their state and put out 0."""
    sigmoid = lambda v: 1 / (1 + np.exp(-v))
    x, weights = x.astype(float), [t.astype(float) for t in weights]
    steps, batch, directions = *x.shape[:2], weights[0].shape[0]
    hidden, last = weights[1].shape[2], [state.astype(float).copy() for state in states]
    y = np.zeros((steps, directions, batch, hidden))
    for d in range(directions):
        w, r, b = (t[d] for t in weights)
        wb, rb = np.split(b, 2)
        for t in (range(steps - 1, -1, -1) if d == 1 or only_reversed else range(steps)):
            h, a, u = last[0][d], x[t] @ w.T + wb, last[0][d] @ r.T + rb
            if kind == "LSTM":
                i, o, f, c = np.split(a + u, 4, axis=1)
                c = sigmoid(f) * last[1][d] + sigmoid(i) * np.tanh(c)
                new = [sigmoid(o) * np.tanh(c), c]
            else:
                (az, ar, an), (uz, ur, un) = np.split(a, 3, axis=1), np.split(u, 3, axis=1)
                z, reset = sigmoid(az + uz), sigmoid(ar + ur)
                if kind == "GRU":
                    un = (reset * h) @ r[2 * hidden:].T + rb[2 * hidden:]
                    reset = 1
                new = [(1 - z) * np.tanh(an + reset * un) + z * h]
            running = (t < lengths)[:, None]
            y[t, d] = np.where(running, new[0], 0)
            for state, value in zip(last, new):
                state[d] = np.where(running, value, state[d])
    return y, last


def test_memory_of_recordings_is_planned():
    """A recording takes what is alive at once, 17 MiB here, and what runs node by node took is given back."""
    nodes, last = [], "x"
    for i in range(4):
        nodes += [helper.make_node("Softmax", [last], [f"s{i}"]), helper.make_node("Concat", [f"s{i}"] * 2, [f"c{i}"],
                                                                                   axis=1)]
        last = f"c{i}"
    nodes += [helper.make_node("Softmax", [last], ["end"]), helper.make_node("ReduceMax", ["end", "axes"], ["y"])]
    wide = model(nodes, [("x", TensorProto.FLOAT, [32, 4096])], ["y"], {"axes": [1]})
    context = clprim.Context()
    context.empty_cache()
    before = context.memory()["reserved"]
    session = clprim.Session(wide)
    feed = RNG.standard_normal((32, 4096), dtype="f")
    results = [np.asarray(session.run({"x": feed})["y"]) for _ in range(4)]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    assert context.memory()["reserved"] - before <= 22 << 20
