"""External data are read where they lie in their files, once something looks at them."""
import os
import re
import shutil

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import clprim

ROWS, WIDTH, LAYERS = 5, 1024, 4
X = np.random.default_rng(1).standard_normal((ROWS, WIDTH), dtype="f")


def model(layers=LAYERS):
    random = np.random.default_rng(0)
    nodes, constants, name = [], [], "x"
    for i in range(layers):
        weights = random.standard_normal((WIDTH, WIDTH), dtype="f") / np.sqrt(WIDTH)
        constants.append(numpy_helper.from_array(weights.astype("f"), f"w{i}"))
        nodes += [helper.make_node("MatMul", [name, f"w{i}"], [f"m{i}"]),
                  helper.make_node("Tanh", [f"m{i}"], [f"y{i}"])]
        name = f"y{i}"
    graph = helper.make_graph(nodes, "products", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH])],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", WIDTH])], constants)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)])


def save(folder, begin=0, gap=0, together=True, length=None, layers=LAYERS):
    """The model with its weights in one file, from `begin` on and with `gap` bytes between them, or in one each."""
    made = model(layers)
    data = bytearray(begin)
    for tensor in made.graph.initializer:
        raw = tensor.raw_data
        if not together:
            data = bytearray(begin)
        location = "weights" if together else tensor.name
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in ("location", location), ("offset", len(data)), ("length", length or len(raw)):
            tensor.external_data.add(key=key, value=str(value))
        data += raw + bytes(gap)
        (folder / location).write_bytes(data)
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return str(path)


def run(session):
    (result,) = session.run({"x": X}).values()
    return result


def runtime(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": X})[0]


def own_memory():
    status = open("/proc/self/status").read()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) << 10


@pytest.mark.parametrize("begin, gap", [(0, 0), (4096, 4096), (1 << 16, 4), (12, 0), (1, 0), (4097, 3)])
def test_results(tmp_path, begin, gap):
    """At all offsets, those at which elements are not aligned too."""
    path = save(tmp_path, begin, gap)
    session = clprim.Session(path)
    for _ in range(3):
        np.testing.assert_allclose(run(session), runtime(path), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(run(session), run(clprim.Session(model().SerializeToString())))


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the system does not say what a process has")
def test_reading_takes_no_memory(tmp_path):
    path = save(tmp_path, layers=16)
    weights = 16 * WIDTH * WIDTH * 4
    before = own_memory()
    read = clprim.OnnxModel(path)
    assert own_memory() - before < weights / 8
    session = clprim.Session(read)
    del read
    expected = runtime(path)
    np.testing.assert_allclose(run(session), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [4 * WIDTH * WIDTH + 1, 1 << 40, 1 << 63])
def test_longer_than_the_file(tmp_path, length):
    with pytest.raises(ValueError, match="'w0'.*'weights' is too short: 4194304 bytes"):
        clprim.Session(save(tmp_path, layers=1, length=length))


def test_begins_behind_the_file(tmp_path):
    path = save(tmp_path, layers=1)
    made = onnx.load(path, load_external_data=False)
    made.graph.initializer[0].external_data[1].value = str(4 * WIDTH * WIDTH + 4)
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(ValueError, match="'w0'.*'weights' is too short: 4194304 bytes"):
        clprim.Session(path)


@pytest.mark.parametrize("change", ["shorter", "longer", "other"])
@pytest.mark.parametrize("read", [True, False])
def test_written_to_before_they_are_used(tmp_path, change, read):
    """By one who waits for a session, or for its first run."""
    path = save(tmp_path)
    made = clprim.OnnxModel(path) if read else clprim.Session(path)
    weights = tmp_path / "weights"
    if change == "shorter":
        os.truncate(weights, 100)
    elif change == "longer":
        weights.open("ab").write(b"\0")
    else:
        with weights.open("r+b") as file:
            file.write(bytes(8))
        os.utime(weights, (1, 1))
    for _ in range(2):
        with pytest.raises(ValueError, match="'.*weights' changed since the model was read"):
            clprim.Session(made) if read else run(made)
    if not read:
        with pytest.raises(ValueError, match="'.*weights' changed since the model was read"):
            made.save(str(tmp_path / "saved.onnx"))


@pytest.mark.parametrize("change", ["deleted", "replaced"])
@pytest.mark.parametrize("together", [True, False])
def test_another_file_in_their_place(tmp_path, change, together):
    """Also of so many files that they are not all kept open."""
    path = save(tmp_path, together=together, layers=20)
    expected = run(clprim.Session(path))
    session = clprim.Session(path)
    for name in os.listdir(tmp_path):
        if change == "replaced":
            (tmp_path / "new").write_bytes(bytes(5))
            os.rename(tmp_path / "new", tmp_path / name)
        else:
            os.remove(tmp_path / name)
    for _ in range(3):
        np.testing.assert_array_equal(run(session), expected)


def test_saved_over_its_weights(tmp_path):
    path = save(tmp_path)
    expected = run(clprim.Session(path))
    session = clprim.Session(path)
    session.save(str(tmp_path / "weights"))
    for _ in range(3):
        np.testing.assert_array_equal(run(session), expected)
    np.testing.assert_array_equal(run(clprim.Session(str(tmp_path / "weights"))), expected)


def test_copied_elsewhere(tmp_path):
    """A model that was read stays whole where its folder is moved."""
    (tmp_path / "a").mkdir()
    read = clprim.OnnxModel(save(tmp_path / "a"))
    expected = run(clprim.Session(read))
    shutil.move(tmp_path / "a", tmp_path / "b")
    np.testing.assert_array_equal(run(clprim.Session(read)), expected)
