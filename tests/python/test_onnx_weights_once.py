"""Sessions of files hold weights once: what kernels keep in a layout of their own goes, and comes back from the file
where something asks for it."""
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("onnx")

# A process of its own without tile registers: their kernels read the weights beside what they keep of them.
BEGIN = """
import os
import threading

import numpy as np
import onnx

import clprim
from onnx import numpy_helper
from test_onnx_fusions import Net

LAYERS, CHANNELS = 4, 192
net = Net()
y = "x"
for _ in range(LAYERS):
    y = net.node("Tanh", net.conv(y, CHANNELS, CHANNELS, 3))
PATH = os.path.join(FOLDER, "model.onnx")
onnx.save(net.model([y], (1, CHANNELS, 9, 8)), PATH)
BYTES = open(PATH, "rb").read()
WEIGHTS = LAYERS * CHANNELS * CHANNELS * 9 * 4
X = np.random.default_rng(0).standard_normal((1, CHANNELS, 9, 8), dtype="f")
device = clprim.Context()


def dynamic():
    model = onnx.load(PATH)
    for axis in 0, 2, 3:
        size = model.graph.input[0].type.tensor_type.shape.dim[axis]
        size.Clear()
        size.dim_param = "nchw"[axis]
    onnx.save(model, PATH)
    return open(PATH, "rb").read()


def products(external=False):
    # Their weights are read where they lie for few rows, and packed for many.
    net = Net()
    rows = net.node("Tanh", net.node("MatMul", "x", net.constant(net.random.standard_normal((256, 512)) / 16)))
    y = net.node("MatMul", rows, net.constant(net.random.standard_normal((512, 256)) / 16))
    onnx.save(net.model([y], ("n", 256)), PATH, save_as_external_data=external, location="weights")


HIDDEN = 256


def lstm_of_bytes():
    # The numbers that its bytes stand for are read by batches alone for which the kernel has no place.
    import functools
    from onnx import TensorProto, helper, numpy_helper
    random = np.random.default_rng(0)
    bytes_of = functools.partial(random.integers, -127, 128, dtype=np.int8)
    constants = {"w": bytes_of((1, HIDDEN, 4 * HIDDEN)), "r": bytes_of((1, HIDDEN, 4 * HIDDEN)),
                 "scale": np.full(1, 0.002, "f"), "zero": np.zeros(1, np.int8)}
    inputs = ["x", "w", "r", *[""] * 5, "scale", "zero", "scale", "zero"]
    node = helper.make_node("DynamicQuantizeLSTM", inputs, ["y"], domain="com.microsoft", hidden_size=HIDDEN)
    turned = helper.make_node("Transpose", ["rows"], ["x"], perm=[1, 0, 2])
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
             for name, shape in (("rows", ["n", 3, HIDDEN]), ("y", None))]
    graph = helper.make_graph([turned, node], "lstm", ports[:1], ports[1:],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17),
                                                                     helper.make_opsetid("com.microsoft", 1)]), PATH)


def of_bytes():
    # Convolutions, one of them depthwise, and products of bytes.
    from onnx import TensorProto, helper, numpy_helper
    random = np.random.default_rng(0)
    constants = {"zero": np.uint8(120), "none": np.int8(0), "x_scale": np.float32(0.02), "y_scale": np.float32(0.5),
                 "w_scale": np.float32(0.01), "flat": np.array([0, 128 * 5 * 5]), "line": np.float32(0.004),
                 "w0": random.integers(-127, 128, (128, 128, 3, 3), np.int8),
                 "w1": random.integers(-127, 128, (2048, 1, 3, 3), np.int8),
                 "w2": random.integers(-127, 128, (128, 2048, 1, 1), np.int8),
                 "w3": random.integers(-127, 128, (128 * 5 * 5, 256), np.int8)}
    constants["scales"] = random.uniform(0.001, 0.01, 256).astype("f")
    constants["w4"] = random.integers(-127, 128, (256, 2048), np.int8)

    def conv(x, w, y, **attributes):
        return helper.make_node("QLinearConv", [x, "x_scale", "zero", w, "w_scale", "none", "y_scale", "zero"], [y],
                                **attributes)
    nodes = [helper.make_node("QuantizeLinear", ["x", "x_scale", "zero"], ["a"]),
             conv("a", "w0", "b", pads=[1, 1, 1, 1]),
             helper.make_node("Concat", ["b"] * 16, ["c"], axis=1),
             conv("c", "w1", "d", group=2048, pads=[1, 1, 1, 1]),
             conv("d", "w2", "e"),
             helper.make_node("Reshape", ["e", "flat"], ["f"])]
    x, zero = "f", "zero"
    for i, scale in (3, "scales"), (4, "line"):
        if i == 4:
            nodes.append(helper.make_node("DynamicQuantizeLinear", ["g3"], ["f4", "s4", "z4"]))
            x, zero = "f4", "z4"
            nodes.append(helper.make_node("Mul", ["s4", scale], ["both"]))
        nodes += [helper.make_node("MatMulInteger", [x, f"w{i}", zero], [f"i{i}"]),
                  helper.make_node("Cast", [f"i{i}"], [f"r{i}"], to=TensorProto.FLOAT),
                  helper.make_node("Mul", [f"r{i}", "both" if i == 4 else scale], [f"g{i}"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
             for name, shape in (("x", ["n", 128, 5, 5]), ("g4", None))]
    graph = helper.make_graph(nodes, "bytes", ports[:1], ports[1:],
                              [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)]), PATH)
    return sum(value.nbytes for name, value in constants.items() if name[1:].isdigit())


def images(session, count):
    x = np.random.default_rng(1).standard_normal((40, 128, 5, 5), dtype="f")
    (result,) = session.run({"x": x[:count]}).values()
    return result


def sequences(session, count):
    x = np.random.default_rng(1).standard_normal((40, 3, HIDDEN), dtype="f")
    (result,) = session.run({"rows": x[:count]}).values()
    return result


def rows(session, count):
    x = np.random.default_rng(1).standard_normal((64, 256), dtype="f")
    (result,) = session.run({"x": x[:count]}).values()
    return result


def run(session):
    (result,) = session.run({"x": X}).values()
    return result


def same(a, b):
    np.testing.assert_array_equal(a, b)
"""

CASES = dict(
    memory="""
        held = {}
        for name, model in ("file", PATH), ("bytes", BYTES):
            before = device.memory()["allocated"]
            session = clprim.Session(model)
            results = [run(session) for _ in range(4)]       # node by node, recorded, replayed
            for result in results:
                same(result, results[0])
            held[name] = device.memory()["allocated"] - before
            expected = results[0]
            del session
        # The first layer reads its weights where they lie, as GPUs do in all.
        spared = 0.9 * WEIGHTS * (LAYERS - 1) / LAYERS if device.is_cpu else 0
        assert held["bytes"] - held["file"] >= spared, held
    """,
    saved="""
        session = clprim.Session(PATH)
        expected = run(session)
        session.save(os.path.join(FOLDER, "saved.onnx"))
        same(run(session), expected)
        same(run(clprim.Session(os.path.join(FOLDER, "saved.onnx"))), expected)
    """,
    dynamic="""
        data = dynamic()
        held, expected = {}, {}
        for name, model in ("file", PATH), ("bytes", data):
            before = device.memory()["allocated"]
            session = clprim.Session(model)
            results = [session.run({"x": X[..., :width]})["y0"] for width in (8, 5, 8)]
            held[name] = device.memory()["allocated"] - before
            for result, width in zip(results, (8, 5, 8)):
                expected.setdefault(width, result)
                same(result, expected[width])
            del session, results, result
        spared = 0.9 * WEIGHTS * (LAYERS - 1) / LAYERS if device.is_cpu else 0
        assert held["bytes"] - held["file"] >= spared, held
    """,
    # What a batch needs after all comes back, and what no batch needs goes again.
    batches="""
        products()
        whole, session = clprim.Session(open(PATH, "rb").read()), clprim.Session(PATH)
        for count in 16, 16, 16, 2, 2, 2, 16, 64, 1, 64:
            same(rows(session, count), rows(whole, count))
    """,
    # Numbers that tiles of bfloat16 do not hold are multiplied by what is kept, too.
    matrices="""
        products()
        first, second = (numpy_helper.to_array(w).astype("d") for w in onnx.load(PATH).graph.initializer)
        held = {}
        for name, model in ("bytes", open(PATH, "rb").read()), ("file", PATH):
            before = device.memory()["allocated"]
            session = clprim.Session(model)
            x = np.random.default_rng(1).standard_normal((64, 256), dtype="f")
            for _ in range(4):
                (result,) = session.run({"x": x}).values()
                np.testing.assert_allclose(result, np.tanh(x @ first) @ second, atol=1e-5)
            x[3, 7], x[60, 200] = -np.inf, np.nan
            (result,) = session.run({"x": x}).values()
            held[name] = device.memory()["allocated"] - before
            np.testing.assert_allclose(result, np.tanh(x @ first) @ second, atol=1e-5)
            del session
        assert held["bytes"] - held["file"] >= (0.9 * 4 * 2 * 256 * 512 if device.is_cpu else 0), held
    """,
    bytes_of_lstm="""
        lstm_of_bytes()
        whole, held = clprim.Session(open(PATH, "rb").read()), device.memory()["allocated"]
        session = clprim.Session(PATH)
        same(sequences(session, 2), sequences(whole, 2))
        allocated = device.memory()["allocated"] - held
        assert not device.is_cpu or allocated < 1.4 * 2 * 4 * HIDDEN * HIDDEN * 4, allocated
        for count in 2, 2, 40, 40, 40, 2, 16, 1:
            same(sequences(session, count), sequences(whole, count))
    """,
    bytes="""
        total = of_bytes()
        data = open(PATH, "rb").read()
        held, expected = {}, {}
        for name, model in ("bytes", data), ("file", PATH):
            before = device.memory()["allocated"]
            session = clprim.Session(model)
            for count in 3, 3, 3, 1, 1, 40, 40, 3, 17:
                result = images(session, count)
                same(result, expected.setdefault(count, result))
            held[name] = device.memory()["allocated"] - before
            if name == "bytes":
                del session
        session.save(os.path.join(FOLDER, "saved.onnx"))
        saved = clprim.Session(os.path.join(FOLDER, "saved.onnx"))
        for count in 3, 1, 40:
            same(images(saved, count), expected[count])
            same(images(session, count), expected[count])
        # Without VNNI few rows and many are multiplied by weights in different orders.
        spared = 0.9 * total if device.is_cpu and clprim.devices()[0].vnni_bytes else 0
        assert held["bytes"] - held["file"] >= spared, (held, total)
    """,
    # The session has its files open.
    deleted="""
        products(external=True)
        session = clprim.Session(PATH)
        expected = rows(session, 16)
        for name in "model.onnx", "weights":
            os.remove(os.path.join(FOLDER, name))
        few = rows(session, 2)
        session.save(os.path.join(FOLDER, "saved.onnx"))
        saved = clprim.Session(os.path.join(FOLDER, "saved.onnx"))
        same(rows(saved, 16), expected)
        same(rows(session, 16), expected)
        same(rows(saved, 2), few)
    """,
    saved_over_its_own_file="""
        products()
        session = clprim.Session(PATH)
        expected, few = rows(session, 16), rows(clprim.Session(PATH), 2)
        session.save(PATH)
        for _ in range(3):
            same(rows(session, 16), expected)
            same(rows(session, 2), few)
    """,
    truncated="""
        products(external=True)
        session = clprim.Session(PATH)
        expected = rows(session, 16)
        os.truncate(os.path.join(FOLDER, "weights"), 100)
        try:
            rows(session, 2)
        except ValueError as error:
            assert "model.onnx" in str(error) and "changed" in str(error), error
        else:
            assert not device.is_cpu, "read weights that are gone"
        for _ in range(3):
            same(rows(session, 16), expected)
    """,
    batches_in_threads="""
        products()
        whole, session = clprim.Session(open(PATH, "rb").read()), clprim.Session(PATH)
        expected = {count: rows(whole, count) for count in (1, 2, 16, 64)}
        wrong = []

        def work(counts):
            for count in counts:
                if not np.array_equal(rows(session, count), expected[count]):
                    wrong.append(count)

        threads = [threading.Thread(target=work, args=(order * 5,)) for order in
                   ((16, 2, 64, 1), (64, 16, 1, 2), (2, 64), (1, 16))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong, wrong
    """,
    changed="""
        session = clprim.Session(PATH)
        expected = run(session)
        open(PATH, "ab").write(b"\\0")
        try:
            session.save(os.path.join(FOLDER, "saved.onnx"))
        except ValueError as error:
            assert "model.onnx" in str(error) and "changed" in str(error), error
        else:
            assert not device.is_cpu, "saved weights that are gone"
        for _ in range(3):
            same(run(session), expected)
    """,
    threads="""
        expected = run(clprim.Session(BYTES))
        session = clprim.Session(PATH)
        results = []
        threads = [threading.Thread(target=lambda: results.extend(run(session) for _ in range(3))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 12
        for result in results:
            same(result, expected)
    """,
    # One reader takes the weights as they lie, the other packs them.
    shared="""
        model = onnx.load(PATH)
        convs = [node for node in model.graph.node if node.op_type == "Conv"]
        for node in convs[1:]:
            node.input[1] = convs[0].input[1]
        onnx.save(model, PATH)
        expected = run(clprim.Session(open(PATH, "rb").read()))
        session = clprim.Session(PATH)
        run(session)
        open(PATH, "ab").write(b"\\0")                       # nothing asks for the file again
        for _ in range(3):
            same(run(session), expected)
    """,
    unoptimised="""
        expected = run(clprim.Session(BYTES, optimize=False, record=False))
        session = clprim.Session(PATH, optimize=False, record=False)
        for _ in range(3):
            same(run(session), expected)
    """)


@pytest.mark.parametrize("case", CASES)
def test_weights_once(case, tmp_path, monkeypatch):
    monkeypatch.setenv("CLPRIM_AMX", "0")
    script = f"FOLDER = {str(tmp_path)!r}\n" + BEGIN + textwrap.dedent(CASES[case])
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300,
                         cwd=__file__.rsplit("/", 1)[0])
    assert ran.returncode == 0, ran.stderr
