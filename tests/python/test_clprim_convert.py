"""`clprim convert --int8`, `--int4`, `--fp16`: models that stay accurate, here and in ONNX Runtime."""

import json
import subprocess
import sys

import numpy as np
import pytest

import clprim

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from clprim import quantize  # noqa: E402


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def save(path, nodes, weights, inputs, outputs):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(*one) for one in inputs],
                              [helper.make_tensor_value_info(*one) for one in outputs], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """Two convolutions, a depthwise one, and two products, one of them transposed and with a bias."""
    r = np.random.default_rng(0)

    def w(*shape):
        return (r.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    nodes = [helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c1"], ["r1"]),
             helper.make_node("Conv", ["r1", "w2"], ["c2"], group=8, pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c2"], ["r2"]),
             helper.make_node("Conv", ["r2", "w3", "b3"], ["c3"], strides=[2, 2]),
             helper.make_node("Add", ["c3", "half"], ["s"]),
             helper.make_node("GlobalAveragePool", ["s"], ["p"]), helper.make_node("Flatten", ["p"], ["f"]),
             helper.make_node("Gemm", ["f", "w4", "b4"], ["g"], transB=1), helper.make_node("Tanh", ["g"], ["t"]),
             helper.make_node("MatMul", ["t", "w5"], ["y"])]
    weights = [constant("w1", w(8, 3, 3, 3)), constant("b1", w(8)), constant("w2", w(8, 1, 3, 3)),
               constant("w3", w(32, 8, 1, 1)), constant("b3", w(32)), constant("half", np.float32(0.5)),
               constant("w4", w(48, 32) * 3), constant("b4", w(48)), constant("w5", w(48, 10))]
    return save(tmp_path_factory.mktemp("net") / "net.onnx", nodes, weights, [("x", 1, ["n", 3, 12, 12])],
                [("y", 1, ["n", 10])])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for i in range(6):
        np.save(folder / f"{i}.npy", np.random.default_rng(i).standard_normal((2, 3, 12, 12)).astype(np.float32))
    return folder


def command(*arguments):
    done = subprocess.run([sys.executable, "-m", "clprim", "convert", *map(str, arguments)], capture_output=True,
                          text=True)
    return done


def report(*arguments):
    return quantize.run(quantize.parse([*map(str, arguments)]))


def theirs(path, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, inputs)


def operators(path):
    return [node.op_type for node in onnx.load(str(path)).graph.node]


def check(path, source, inputs, bound, between=1e-2):
    """Near the float model, and both runtimes near each other."""
    exact = theirs(source, inputs)[0].astype(np.float64)
    other = theirs(path, inputs)[0]
    ours = next(iter(clprim.Session(str(path)).run(inputs).values()))
    assert np.linalg.norm(ours - exact) < bound * np.linalg.norm(exact)
    assert np.linalg.norm(ours - other) < between * np.linalg.norm(exact)


SAMPLE = {"x": np.random.default_rng(99).standard_normal((3, 3, 12, 12)).astype(np.float32)}


def test_int8_with_calibration(network, data, tmp_path):
    for extra in ([], ["--reduce-range"]):
        to = tmp_path / "int8.onnx"
        found = report(network, to, "--int8", "--calibration", data, *extra)
        assert found["operators"] == 5 and found["samples"] == 6 and not found["made up"]
        row = found["outputs"]["y"]
        assert row["relative error"] < 0.06 and row["same best class"] >= 0.9
        assert operators(to).count("QuantizeLinear") == 5
        kinds = {one.name: one.data_type for one in onnx.load(str(to)).graph.initializer}
        assert not any(kind == TensorProto.FLOAT and name in ("w1", "w4") for name, kind in kinds.items())
    check(to, network, SAMPLE, 0.06)      # seven bits: no kernel of ONNX Runtime saturates


def test_int8_of_products_as_they_come(network, tmp_path):
    to = tmp_path / "dynamic.onnx"
    found = report(network, to, "--int8", "--reduce-range")
    assert found["operators"] == 2 and found["made up"] and operators(to).count("MatMulInteger") == 2
    check(to, network, SAMPLE, 0.03)


@pytest.mark.parametrize("options", [[], ["--asymmetric"], ["--group", "16"], ["--group", "64", "--asymmetric"]])
def test_int4(network, tmp_path, options):
    to = tmp_path / "int4.onnx"
    found = report(network, to, "--int4", *options)
    assert found["operators"] == 2 and operators(to).count("MatMulNBits") == 2
    check(to, network, SAMPLE, 0.3, 1e-4)


def test_float16(network, tmp_path):
    to = tmp_path / "half.onnx"
    found = report(network, to, "--fp16")
    assert found["operators"] == 11 and found["bytes"][1] < 0.75 * found["bytes"][0]
    model = onnx.load(str(to))
    assert {one.data_type for one in model.graph.initializer} == {TensorProto.FLOAT16}
    assert model.graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT
    check(to, network, SAMPLE, 4e-3, 4e-3)


def test_float16_keeps_what_takes_none(tmp_path):
    """Resize's scales, integers, positions, and what a branch reads from outside."""
    then = helper.make_graph([helper.make_node("Add", ["r", "one"], ["a"])], "then", [],
                             [helper.make_tensor_value_info("a", 1, None)])
    other = helper.make_graph([helper.make_node("Identity", ["r"], ["b"])], "other", [],
                              [helper.make_tensor_value_info("b", 1, None)])
    nodes = [helper.make_node("Resize", ["x", "", "scales"], ["big"], mode="nearest"),
             helper.make_node("Relu", ["big"], ["r"]),
             helper.make_node("If", ["yes"], ["branch"], then_branch=then, else_branch=other),
             helper.make_node("Cast", ["positions"], ["whole"], to=TensorProto.INT64),
             helper.make_node("Gather", ["flat", "whole"], ["picked"], axis=0),
             helper.make_node("Reshape", ["branch", "all"], ["flat"]),
             helper.make_node("Mul", ["picked", "one"], ["y"])]
    nodes[4], nodes[5] = nodes[5], nodes[4]
    weights = [constant("scales", np.float32([1, 1, 2, 2])), constant("one", np.float32(1.5)),
               constant("positions", np.float32([0, 2049, 2051])), constant("all", np.int64([-1]))]
    source = save(tmp_path / "if.onnx", nodes, weights,
                  [("x", 1, [1, 1, 32, 32]), ("yes", TensorProto.BOOL, [])], [("y", 1, [3])])
    to = tmp_path / "half.onnx"
    report(source, to, "--fp16")
    for yes in (True, False):
        inputs = {"x": np.random.default_rng(0).standard_normal((1, 1, 32, 32)).astype(np.float32),
                  "yes": np.array(yes)}
        check(to, source, inputs, 3e-3, 3e-3)


def test_images_and_arrays_by_name(network, tmp_path):
    pil = pytest.importorskip("PIL.Image")
    folder = tmp_path / "images"
    folder.mkdir()
    for i in range(3):
        pixels = np.random.default_rng(i).integers(0, 256, (20, 30, 3), dtype=np.uint8)
        pil.fromarray(pixels).save(folder / f"{i}.png")
    options = ["--shape", "x=1,3,12,12"]
    assert report(network, tmp_path / "a.onnx", "--int8", "--calibration", folder, *options)["samples"] == 3
    named = tmp_path / "named"
    named.mkdir()
    np.savez(named / "0.npz", x=SAMPLE["x"])
    assert report(network, tmp_path / "b.onnx", "--int8", "--calibration", named, *options)["samples"] == 1


def test_a_net(tmp_path):
    net = {"inputs": [{"shape": [2, 3, 8, 8], "name": "data"}],
           "operators": [{"name": "ip", "type": "InnerProduct", "inputs": ["data"], "outputs": ["y"],
                          "options": {"outputs": 5}}], "outputs": ["y"]}
    path = tmp_path / "net.json"
    path.write_text(json.dumps(net))
    one = clprim.Net()
    one.load_json_file(str(path))
    one.setup()
    one.initialize_parameters()
    one.save_parameters(str(tmp_path / "net.safetensors"))
    assert report(path, tmp_path / "net.onnx", "--int4")["operators"] == 1


def test_the_command_and_its_errors(network, data, tmp_path):
    to = tmp_path / "out.onnx"
    done = command(network, to, "--int4", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["operators"] == 2, done.stderr
    done = command(network, to, "--fp16")
    assert done.returncode == 0 and "relative error" in done.stdout, done.stderr
    empty = tmp_path / "empty"
    empty.mkdir()
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    np.save(wrong / "a.npy", np.zeros((3, 12), np.float32))
    plain = save(tmp_path / "plain.onnx", [helper.make_node("Relu", ["x"], ["y"])], [], [("x", 1, [2])],
                 [("y", 1, [2])])
    big = save(tmp_path / "big.onnx", [helper.make_node("Mul", ["x", "w"], ["y"])], [constant("w", np.float32([1e5]))],
               [("x", 1, [2])], [("y", 1, [2])])
    bad = save(tmp_path / "bad.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])],
               [constant("w", np.float32([[np.nan, 1]] * 32))], [("x", 1, [1, 32])], [("y", 1, [1, 2])])
    for arguments, text in (([network, to, "--int4", "--group", "24"], "power of two"),
                            ([network, tmp_path / "a.json", "--int8"], "are written as .onnx"),
                            ([network, to, "--int8", "--calibration", empty], "no .npy, .npz or image files"),
                            ([network, to, "--int8", "--calibration", wrong], "'x' has 2 axes, the model's input 4"),
                            ([network, to, "--int8", "--calibration", tmp_path / "none"], "there is no folder"),
                            ([tmp_path / "none.onnx", to, "--int8"], "there is no file"),
                            ([plain, to, "--int4"], "no product with constant float32 weights"),
                            ([big, to, "--fp16"], "'w' has numbers beyond float16's largest"),
                            ([bad, to, "--int8"], "'w' has infinities or NaN")):
        assert quantize.main([*map(str, arguments)]) == 1, arguments
        with pytest.raises(clprim.Error, match=text):
            report(*arguments)
    assert command(network, to, "--int8", "--int4").returncode == 2
