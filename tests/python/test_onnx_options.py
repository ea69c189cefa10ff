"""What sessions and the library are told beside the model: priorities, programs made ahead, the optimised model,
logs."""
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, checker, helper, numpy_helper

import clprim
import onnx_graphs
from onnx_net import Net


def small():
    net = Net()
    y = net.node("Relu", net.batch_norm(net.conv("x", 3, 8, 3), 8))
    y = net.node("Concat", y, net.conv(y, 8, 8), axis=1)
    return net.model([net.node("GlobalAveragePool", net.node("Sigmoid", net.batch_norm(y, 16)))], ("n", 3, 9, 8))


X = np.random.default_rng(0).standard_normal((2, 3, 9, 8), dtype="f")


@pytest.mark.parametrize("network", [*onnx_graphs.NETWORKS, "small"])
def test_saved_models_are_plain_onnx(network, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = small() if network == "small" else onnx_graphs.NETWORKS[network]()
    session = clprim.Session(model)
    session.save(tmp_path / "saved.onnx")
    saved = onnx.load(tmp_path / "saved.onnx")
    if network != "small":                           # whose output has no shape, which the checker wants
        checker.check_model(saved)
    assert {node.domain for node in saved.graph.node} <= {"", "ai.onnx"}
    assert len(saved.graph.node) <= len(model.graph.node)
    shape = [size.dim_value or 2 for size in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).standard_normal(shape, dtype="f")
    expected = session.run({"x": x})
    again = clprim.Session(str(tmp_path / "saved.onnx"))
    assert again.input_names == session.input_names and again.output_names == session.output_names
    for name, value in again.run({"x": x}).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-6)
    theirs = onnxruntime.InferenceSession(str(tmp_path / "saved.onnx"), providers=["CPUExecutionProvider"])
    for value, right in zip(theirs.run(None, {"x": x}), expected.values()):
        np.testing.assert_allclose(value, right, rtol=1e-3, atol=1e-4)


def test_saved_subgraphs_strings_and_passed_inputs(tmp_path):
    branch = lambda op, name: helper.make_graph([helper.make_node(op, ["x", "w"], [name])], name, [],
                                                [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3])])
    nodes = [helper.make_node("If", ["flag"], ["y"], then_branch=branch("Add", "a"), else_branch=branch("Sub", "b")),
             helper.make_node("Identity", ["x"], ["same"]), helper.make_node("Identity", ["words"], ["text"])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3]),
                     helper.make_tensor_value_info("flag", TensorProto.BOOL, [])],
        [*(helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("y", "same")),
         helper.make_tensor_value_info("text", TensorProto.STRING, [2])],
        [numpy_helper.from_array(np.arange(3, dtype="f"), "w"),
         numpy_helper.from_array(np.array(["a", "ü"], object), "words")])
    session = clprim.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    session.save(tmp_path / "saved.onnx")
    checker.check_model(onnx.load(tmp_path / "saved.onnx"))
    again = clprim.Session(str(tmp_path / "saved.onnx"))
    for flag in (True, False):
        feed = {"x": np.ones(3, "f"), "flag": np.array(flag)}
        for name, value in session.run(feed).items():
            np.testing.assert_array_equal(again.run(feed)[name], value)
    with pytest.raises(clprim.InvalidArgument, match="cannot write"):
        session.save(tmp_path / "no" / "folder.onnx")


def test_files_do_not_bring_operators_of_sessions():
    """They hold code."""
    graph = helper.make_graph([helper.make_node("Elementwise", ["x"], ["y"], domain="clprim", code="y0 = x0;")], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
                              [onnx.ValueInfoProto(name="y")])
    with pytest.raises(clprim.NotSupported, match="made by sessions"):
        clprim.OnnxModel(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17),
                                                                 helper.make_opsetid("clprim", 1)]))


def test_high_priority():
    model = small()
    first, usual = clprim.Session(model, high_priority=True), clprim.Session(model)
    expected = usual.run({"x": X})
    for _ in range(4):
        results = first.run_values({"x": clprim.Tensor(X) if _ % 2 else X})
        for name, value in usual.run({"x": X}).items():
            np.testing.assert_array_equal(results[name].numpy(), value)
            np.testing.assert_array_equal(value, expected[name])


def test_threads():
    """A session on one of a CPU's cores: right, on a device of its own, and not with two cores' worth of work."""
    context = clprim.Context()
    if not context.is_cpu or context.device.compute_units < 2:
        pytest.skip("a CPU device of two compute units")
    model = small()
    expected = clprim.Session(model).run({"x": X})
    one = clprim.Session(model, threads=1)
    assert one.device.compute_units == 1 and one.device.id != context.device.id
    for given in (X, clprim.Tensor(X), X, X):
        for name, value in one.run({"x": given}).items():
            np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-6)
    assert clprim.Session(model, threads=1).device.id == one.device.id
    assert clprim.Session(model, threads=1000).device.id == context.device.id     # all there are
    bound = clprim.Tensor.empty((2, 16, 1, 1))
    with pytest.raises(clprim.InvalidArgument, match="another device"):
        one.run_values({"x": X}, bound={one.output_names[0]: bound})
    with pytest.raises(TypeError):
        clprim.Session(model, threads=-1)
    with pytest.raises(clprim.InvalidArgument, match="neither"):
        clprim.Session(model, threads=1, cl_queue=context.cl_queue)


def python(code, **environment):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True,
                          env={**os.environ, **environment})


def test_programs_made_ahead(tmp_path):
    """A process with an empty cache and the folder, which it cannot write to, builds nothing."""
    from clprim.__main__ import PROGRAM
    if not PROGRAM.exists():
        pytest.skip("the command clprim was not built")
    file, folder = str(tmp_path / "small.onnx"), str(tmp_path / "programs")
    onnx.save(small(), file)
    assert clprim.Session.prepare(file, folder, shapes={"x": [2, 3, 9, 8]}, processes=2) == folder
    made = sorted(os.listdir(folder))
    assert made and all(name.endswith(".bin") for name in made)
    os.chmod(folder, 0o555)
    run = f"""
        import sys, clprim, numpy as np
        session = clprim.Session({file!r}, programs={folder!r} if sys.argv[1:] != ["without"] else None)
        for _ in range(3):
            y = list(session.run({{"x": np.ones((2, 3, 9, 8), "f")}}).values())[0]
        print(y.sum())
    """
    without = python(run.replace("sys.argv[1:]", '["without"]'), CLPRIM_CACHE_DIR=str(tmp_path / "a"),
                     CLPRIM_VERBOSE="2")
    got = python(run, CLPRIM_CACHE_DIR=str(tmp_path / "b"), CLPRIM_VERBOSE="2")
    assert "clprim: built" in without.stderr and got.returncode == 0, got.stderr
    assert "clprim: built" not in got.stderr
    assert got.stdout == without.stdout
    assert sorted(os.listdir(folder)) == made
    os.chmod(folder, 0o755)
    for i, name in enumerate(made):                     # damaged ones are built anew, in whichever way they are damaged
        path = os.path.join(folder, name)
        data = open(path, "rb").read()
        damaged = [data[:len(data) // 2], b"", bytes(reversed(data)), data[:100] + bytes(len(data) - 100)][i % 4]
        with open(path, "wb") as stream:
            stream.write(damaged)
    mended = python(run, CLPRIM_CACHE_DIR=str(tmp_path / "c"), CLPRIM_VERBOSE="2")
    assert mended.returncode == 0, mended.stderr
    assert mended.stdout == without.stdout and "clprim: built" in mended.stderr
    with pytest.raises(clprim.InvalidArgument, match="is not a folder"):
        clprim.Session(file, programs=str(tmp_path / "nowhere"))
    with pytest.raises(clprim.Error, match="no input|has no"):
        clprim.Session.prepare(file, folder, shapes={"z": [1]})


def test_log(capfd):
    port = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["log test size"])
    graph = helper.make_graph([helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Relu", ["b"], ["z"])], "g",
                              [port("a"), port("b")], [onnx.ValueInfoProto(name="y"), onnx.ValueInfoProto(name="z")])
    lines = []
    clprim.set_log(lambda level, line: lines.append((level, line)))
    try:
        session = clprim.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
        session.run({"a": np.ones(2, "f"), "b": np.ones(3, "f")})
    finally:
        clprim.set_log(None)
    assert [level for level, line in lines if "log test size" in line] == ["warning"]
    assert "log test size" not in capfd.readouterr().err
    with pytest.raises(TypeError):
        clprim.set_log(3)
