"""Sessions of files whose inputs have known sizes hold weights once: what kernels keep in a layout of their own goes,
and comes back from the file where something asks for it."""
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
