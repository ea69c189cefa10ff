"""The command `clprim`: every subcommand, as JSON and as text, and what it links."""
import gzip
import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import clprim

onnx = pytest.importorskip("onnx")
from onnx import helper, numpy_helper

PROGRAM = Path(clprim.__file__).parent / "bin" / "clprim"
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="the command was not built")


def command(*arguments, code=0):
    """What it prints; `code` None: any that says that it failed."""
    result = subprocess.run([sys.executable, "-m", "clprim", *map(str, arguments)], capture_output=True, text=True)
    assert result.returncode == code if code is not None else result.returncode > 0, result.stderr + result.stdout
    return result.stdout if code == 0 else result.stderr + result.stdout


def parsed(*arguments):
    return json.loads(command(*arguments, "--json"))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """Means of the three colours as scores."""
    path = tmp_path_factory.mktemp("model") / "colours.onnx"
    graph = helper.make_graph(
        [helper.make_node("GlobalAveragePool", ["x"], ["m"]),
         helper.make_node("Flatten", ["m"], ["y"], name="flat")], "g",
        [helper.make_tensor_value_info("x", 1, ["n", 3, 16, 16])], [helper.make_tensor_value_info("y", 1, ["n", 3])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """One red, one green, one blue image, in three formats."""
    pil = pytest.importorskip("PIL.Image")
    folder = tmp_path_factory.mktemp("images")
    paths = []
    for index, extension in enumerate(("png", "jpg", "ppm")):
        pixels = np.full((20, 30, 3), 20, np.uint8)
        pixels[..., index] = 230
        paths.append(folder / f"image{index}.{extension}")
        pil.fromarray(pixels).save(paths[-1])
    return paths


def test_it_links_neither_pytorch_nor_python():
    linked = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True).stdout
    library = next(line.split()[2] for line in linked.splitlines() if "libclprim.so" in line)
    both = linked + subprocess.run(["ldd", library], capture_output=True, text=True).stdout
    assert "libOpenCL" in both
    for name in ("torch", "libc10", "python"):
        assert not [line for line in both.splitlines() if line.strip().startswith(("lib" + name, name))]


def test_help():
    text = command("--help")
    for name in ("devices", "bench", "run", "profile", "train", "convert", "validate"):
        assert name in text
        if name != "validate":
            assert "--json" in command(name, "--help")
    assert "required" in command(code=106)


def test_devices():
    listed = parsed("devices")
    assert [device["id"] for device in listed] == [device.id for device in clprim.devices()]
    assert listed[0]["name"] in command("devices")


def test_bench():
    report = parsed("bench", "gemm", "bandwidth", "--seconds", 0.001, "--scale", 0.01)
    assert {row["group"] for row in report["results"]} == {"gemm", "bandwidth"}
    assert all(row["milliseconds"] > 0 and ("gflops" in row) == (row["group"] == "gemm") for row in report["results"])


@pytest.mark.parametrize("batch", [1, 2])
def test_run_on_images(classifier, images, batch):
    results = parsed("run", classifier, *images, "-b", batch, "-k", 2, "--mean", "0", "--std", "1")
    assert [entry["top"][0]["class"] for entry in results] == [0, 1, 2]
    for entry in results:
        assert len(entry["top"]) == 2 and entry["top"][0]["score"] == pytest.approx(230 / 255, abs=0.01)


def test_run_with_names_of_classes(classifier, images, tmp_path):
    (tmp_path / "labels.txt").write_text("red\ngreen\nblue\n")
    assert "green" in command("run", classifier, images[1], "--labels", tmp_path / "labels.txt", "-k", 1, "--softmax")


def test_run_on_arrays(classifier, tmp_path):
    x = np.random.default_rng(0).standard_normal((2, 3, 16, 16)).astype("f")
    np.save(tmp_path / "x.npy", x)
    for given in (tmp_path / "x.npy", f"x={tmp_path / 'x.npy'}"):
        report = parsed("run", classifier, given, "-o", tmp_path / "out.npz")
        assert report == [{"output": "y", "type": "float32", "shape": [2, 3]}]
        np.testing.assert_allclose(np.load(tmp_path / "out.npz")["y"], x.mean((2, 3)), atol=1e-6)


@pytest.mark.parametrize("arguments, message", [
    (["nonsense"], "there is no subcommand 'nonsense'"),
    (["bench", "gemm", "--seconds", -1], "--seconds: expected a number above 0, got -1"),
    (["train", ".", "-e", -1], "--epochs: expected 0 or a number above, got -1"),
])
def test_mistakes_on_the_command_line(arguments, message):
    assert message in command(*arguments, code=None)


@pytest.mark.parametrize("arguments, message", [
    (["-k", 0], "--top: expected a number above 0, got 0"), (["-k", "x"], "--top: expected a number above 0, got x"),
    (["--std", 0], "--std is 0, expected numbers above 0"), (["--mean", "1,2"],
                                                             "--mean holds 2 numbers, expected 1 or 3"),
    (["--shape", "q=3"], "the model has no input 'q'; its inputs are 'x'"),
])
def test_mistakes_with_images(classifier, images, arguments, message):
    assert message in command("run", classifier, images[0], *arguments, code=None)


def test_mistakes_with_models(classifier, images, tmp_path):
    (tmp_path / "labels.txt").write_text("red\n")
    assert "labels.txt holds 1 names, the model has 3 classes" in command("run", classifier, images[0], "--labels",
                                                                         tmp_path / "labels.txt", code=1)
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 16, 16), "f"))
    assert "the model has no input 'y'; its inputs are 'x'" in command("run", classifier, f"y={tmp_path / 'x.npy'}",
                                                                       code=1)
    fixed = onnx.load(classifier)
    fixed.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    onnx.save(fixed, tmp_path / "fixed.onnx")
    assert "has 1 as its first size: --batch 4 does not change it" in command("profile", tmp_path / "fixed.onnx",
                                                                              "--batch", 4, code=1)


def test_options_stand_before_images_too(classifier, images):
    """A list of numbers takes one argument, not the images behind it."""
    assert command("run", classifier, "--mean", "0.5", "--std", "0.25,0.25,0.25", images[0], "-k",
                   1).count("class") == 1


def test_profile(classifier):
    report = parsed("profile", classifier, "-n", 2, "--nodes")
    assert [row["operator"] for row in report["operators"]] == ["GlobalAveragePool", "Flatten"]
    assert report["run_milliseconds"] > 0 and "GlobalAveragePool" in command("profile", classifier, "-n", 1)


@pytest.fixture(scope="module")
def copying(tmp_path_factory):
    """A sum with a constant that is computed, behind a copy."""
    path = tmp_path_factory.mktemp("model") / "copying.onnx"
    graph = helper.make_graph(
        [helper.make_node("Exp", ["c"], ["e"]), helper.make_node("Identity", ["x"], ["same"]),
         helper.make_node("Add", ["same", "e"], ["sum"]), helper.make_node("Relu", ["sum"], ["y"])], "g",
        [helper.make_tensor_value_info("x", 1, ["n", 3])], [helper.make_tensor_value_info("y", 1, ["n", 3])],
        [numpy_helper.from_array(np.ones(3, "f"), "c")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_optimization(copying, tmp_path):
    def nodes(*arguments):
        return [row["operator"] for row in parsed("profile", copying, "-n", 1, "--nodes", *arguments)["operators"]]
    assert sorted(nodes("--optimization", "none")) == ["Add", "Exp", "Identity", "Relu"]
    assert sorted(nodes("--optimization", "basic")) == ["Add", "Relu"]
    assert len(nodes("--optimization", "all")) == len(nodes()) == 1
    refused = command("profile", copying, "--optimization", "some", code=None)
    assert "--optimization" in refused and "none" in refused and "basic" in refused
    (tmp_path / "net.json").write_text('{"inputs": [], "operators": []}')
    assert "--optimization is for ONNX models" in command("profile", tmp_path / "net.json", "--optimization", "none",
                                                          code=1)
    pytest.importorskip("onnxruntime")
    for level in "none", "basic", "all":
        assert json.loads(command("validate", copying, "--json", "--optimization", level))[0]["right"]
    programs = Path(clprim.Session.prepare(copying, tmp_path / "programs", shapes={"x": (2, 3)}, optimize="basic"))
    session = clprim.Session(copying, optimize="basic", programs=programs)
    assert session.run({"x": np.zeros((2, 3), "f")})["y"] == pytest.approx(np.full((2, 3), np.e), rel=1e-6)


def test_tune(tmp_path, monkeypatch):
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path / "cache"))
    path, results = tmp_path / "product.onnx", tmp_path / "results.json"
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", 1, [32, 40]),
                               helper.make_tensor_value_info("w", 1, [40, 24])],
                              [helper.make_tensor_value_info("y", 1, [32, 24])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    report = parsed("tune", path, "--seconds", 0.1, "--export", results)
    assert report["results"] == report["exported"] == len(json.loads(results.read_text())["results"]) > 0
    assert report["after_milliseconds"] > 0
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path / "other"))
    assert parsed("tune", "--import", results)["imported"] == report["results"]
    assert "expected a model, --import or --export" in command("tune", code=1)
    results.write_text("{")
    assert "is damaged" in command("tune", "--import", results, code=1)


def test_validate(classifier):
    pytest.importorskip("onnxruntime")
    report = json.loads(command("validate", classifier, "--json", "--batch", 2))
    assert report[0]["right"] and report[0]["errors"]["y"] < 1e-5
    broken = json.loads(command("validate", classifier, "--json", "--tolerance", -1, code=1))
    assert not broken[0]["right"]


def test_convert_a_model_to_a_net(tmp_path):
    rng = np.random.default_rng(0)
    tensors = {"w": (8, 3, 3, 3), "b": (8,), "gamma": (8,), "beta": (8,), "mean": (8,), "var": (8,), "fc": (32, 5),
               "fcb": (5,)}
    values = {name: rng.random(shape).astype("f") for name, shape in tensors.items()}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 0, 0, 1], strides=[2, 2]),
             helper.make_node("BatchNormalization", ["c", "gamma", "beta", "mean", "var"], ["n"]),
             helper.make_node("Relu", ["n"], ["r"]), helper.make_node("Add", ["r", "n"], ["s"]),
             helper.make_node("MaxPool", ["s"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
             helper.make_node("Flatten", ["p"], ["f"]), helper.make_node("Gemm", ["f", "fc", "fcb"], ["g"]),
             helper.make_node("Softmax", ["g"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, ["n", 3, 8, 9])],
                              [helper.make_tensor_value_info("y", 1, None)],
                              [numpy_helper.from_array(value, name) for name, value in values.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    command("convert", tmp_path / "m.onnx", tmp_path / "net.json")
    command("convert", tmp_path / "net.safetensors", tmp_path / "net.npz")
    x = rng.standard_normal((2, 3, 8, 9)).astype("f")
    expected = clprim.Session(str(tmp_path / "m.onnx")).run({"x": x})["y"]
    for weights in ("net.safetensors", "net.npz"):
        net = clprim.Net()
        net.load_json_file(tmp_path / "net.json")
        net.setup()
        net.reshape({"x": x.shape})
        net.load_parameters(tmp_path / weights)
        net.tensor("x").write(x)
        net.forward()
        np.testing.assert_allclose(net.tensor("y").numpy(), expected, rtol=1e-4, atol=1e-6)
    graph.node[2].op_type = "Erf"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    assert "Erf (1)" in command("convert", tmp_path / "m.onnx", tmp_path / "net.json", code=1)


def test_constants_of_models_that_become_nets(tmp_path):
    """Exporters write constants as nodes, and share equal ones by Identity."""
    rng = np.random.default_rng(0)
    values = {"w": rng.random((4, 3, 3, 3)).astype("f"), "v": rng.random((4, 4, 1, 1)).astype("f"),
              "b": rng.random(4).astype("f")}
    bound = lambda name, value: helper.make_node("Constant", [], [name],
                                                 value=numpy_helper.from_array(np.float32(value)))
    nodes = [bound("low", 0), bound("high", 6), helper.make_node("Identity", ["b"], ["same"]),
             helper.make_node("Conv", ["x", "w", "b"], ["c"]), helper.make_node("Clip", ["c", "low", "high"], ["r"]),
             helper.make_node("Conv", ["r", "v", "same"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, [1, 3, 8, 9])],
                              [helper.make_tensor_value_info("y", 1, None)],
                              [numpy_helper.from_array(value, name) for name, value in values.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    command("convert", tmp_path / "m.onnx", tmp_path / "net.json")
    net = clprim.Net()
    net.load_json_file(tmp_path / "net.json")
    net.setup()
    net.load_parameters(tmp_path / "net.safetensors")
    x = rng.standard_normal((1, 3, 8, 9)).astype("f")
    net.tensor("x").write(x)
    net.forward()
    np.testing.assert_allclose(net.tensor("y").numpy(), clprim.Session(str(tmp_path / "m.onnx")).run({"x": x})["y"],
                               rtol=1e-4, atol=1e-5)


def idx(path, array):
    header = bytes([0, 0, 8, array.ndim]) + b"".join(struct.pack(">I", size) for size in array.shape)
    with gzip.open(path, "wb") as file:
        file.write(header + array.astype(np.uint8).tobytes())


def test_train_on_idx_files_and_use_the_weights(tmp_path):
    rng = np.random.default_rng(0)
    for part, count in (("train", 256), ("t10k", 70)):
        labels = rng.integers(0, 4, count)
        pictures = rng.integers(0, 60, (count, 12, 12))
        for picture, label in zip(pictures, labels):
            picture[6 * (label // 2):6 * (label // 2) + 6, 6 * (label % 2):6 * (label % 2) + 6] += 150
        idx(tmp_path / f"{part}-images-idx3-ubyte.gz", pictures)
        idx(tmp_path / f"{part}-labels-idx1-ubyte.gz", labels)
    weights = tmp_path / "weights.safetensors"
    report = parsed("train", tmp_path, "-e", 3, "-b", 32, "--lr", 0.003, "-o", weights)
    assert (report["train_images"], report["test_images"], report["classes"]) == (256, 70, 4)
    assert report["epochs"][-1]["test_accuracy"] > 0.9
    again = parsed("train", tmp_path, "-e", 1, "--steps", 1, "--lr", 0, "-b", 32, "-w", weights)
    assert again["epochs"][0]["test_accuracy"] == report["epochs"][-1]["test_accuracy"]
    truncated = gzip.decompress((tmp_path / "train-images-idx3-ubyte.gz").read_bytes())[:-1]
    (tmp_path / "train-images-idx3-ubyte").write_bytes(truncated)
    assert "truncated" in command("train", tmp_path, code=1)


def test_train_on_folders(tmp_path, images):
    for index, path in enumerate(images):
        (tmp_path / f"class{index}").mkdir()
        for copy in range(10):
            shutil.copy(path, tmp_path / f"class{index}" / f"{copy}{path.suffix}")
    report = parsed("train", tmp_path, "-e", 4, "-b", 9, "--size", 16, "--solver", "sgd", "--lr", 0.01)
    assert (report["train_images"], report["test_images"]) == (27, 3) and report["epochs"][-1]["test_accuracy"] == 1


def test_clear_errors(classifier, images, tmp_path):
    (tmp_path / "bad.png").write_bytes(images[0].read_bytes()[:60])
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8nonsense")
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    for name in ("bad.png", "bad.jpg"):
        assert f"{name}: " in command("run", classifier, tmp_path / name, code=1)
    assert "not an ONNX model" in command("run", tmp_path / "bad.onnx", images[0], code=1)
    assert "does not exist" in command("profile", tmp_path / "none.onnx", code=105)


def test_the_device_is_chosen(classifier, images):
    message = command("run", classifier, images[0], "-d", "no such thing", code=1)
    assert "no such thing" in message
    assert parsed("run", classifier, images[0], "-d", clprim.devices()[0].id)


def test_info(classifier, tmp_path):
    document = parsed("info", classifier)
    assert document["opsets"] == {"ai.onnx": 17} and document["operators"] == {"Flatten": 1, "GlobalAveragePool": 1}
    assert document["inputs"] == [{"name": "x", "tensor": True, "type": "float32", "shape": ["n", 3, 16, 16]}]
    assert "every operator is supported" in command("info", classifier)
    model = onnx.load(classifier)
    model.graph.node[1].op_type, model.graph.node[1].domain = "Flotten", "ai.elsewhere"
    model.opset_import.append(helper.make_opsetid("ai.elsewhere", 1))
    model.graph.node.insert(1, helper.make_node("Gelu", ["m"], ["unused"]))
    onnx.save(model, tmp_path / "broken.onnx")
    assert parsed("info", tmp_path / "broken.onnx")["unsupported"] == {
        "Gelu": {"nodes": 1, "reason": "known from operator set 20 on, the model asks for 17"},
        "ai.elsewhere.Flotten": {"nodes": 1, "reason": "clprim has no such operator"}}
    assert "no such file" in command("info", tmp_path / "none.onnx", code=None)
