#!/usr/bin/env python
"""Feeds damaged files to clprim's readers and looks for anything but a result or one clear error.

    tools/fuzz_parsers.py --minutes 30                 # each of onnx, onnx-run, json, safetensors, dlpw, npz in turn
    tools/fuzz_parsers.py onnx-run --minutes 5 --seed 7

A worker process reads one mutated file after another; a crash, an endless loop (20 s), an allocation beyond the limit
or an exception that is not clprim's is a finding: its input is kept in the output folder, and the worker starts anew.
`onnx-run` also makes sessions and runs them, so that operators meet absurd attributes and shapes.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import io
import json
import pickle
import random
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

EXTREMES = [0, 1, -1, 2, -2, 3, 7, 127, 255, 1 << 15, (1 << 31) - 1, -(1 << 31), 1 << 32, 1 << 40, (1 << 63) - 1, -(1 << 63)]
MEMORY_LIMIT = 6 << 30      # of address space beyond what the drivers take; a parser of small files needs none of it
SECONDS_PER_INPUT = 20


def flip_bytes(data, rng):
    """Bits flipped, ends cut off, pieces moved, doubled or overwritten with extreme numbers."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if not data:
            break
        at, kind = rng.randrange(len(data)), rng.randrange(6)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.randrange(256)
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            data[at:at + 8] = (rng.choice(EXTREMES) & (2**64 - 1)).to_bytes(8, "little")
        elif kind == 4:
            piece = data[at:at + rng.randrange(1, 64)]
            data[rng.randrange(len(data)):0] = piece
        else:
            del data[at:at + rng.randrange(1, 16)]
    return bytes(data)


def mutate_json(text, rng):
    """Values of the tree replaced by others."""
    def walk(tree, path, found):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            found.append((tree, key))
            if isinstance(value, (dict, list)):
                walk(value, path, found)
        return found

    tree = json.loads(text)
    for _ in range(rng.choice((1, 1, 2, 3))):
        parent, key = rng.choice(walk(tree, (), []))
        parent[key] = rng.choice([*EXTREMES, 1.5, 1e300, None, True, "", "data", "x" * 300, [], {}, [1, -1], [[]],
                                  [1 << 40] * 3, parent[key]])
    return json.dumps(tree).encode()


def mutate_model(model, rng):
    """Fields of an onnx.ModelProto: sizes, types, names, attributes, operators, order."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kind = rng.randrange(10)
        nodes = list(graph.node)
        node = rng.choice(nodes) if nodes else None
        tensors = list(graph.initializer) + [a.t for n in nodes for a in n.attribute if a.type == a.TENSOR]
        attributes = [a for n in nodes for a in n.attribute]
        if kind <= 3 and attributes:
            mutate_attribute(rng.choice(attributes), rng)
        elif kind == 4 and tensors:
            tensor = rng.choice(tensors)
            if rng.random() < 0.4:
                tensor.data_type = rng.randrange(-1, 30)
            elif tensor.dims:
                tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(EXTREMES)
            elif tensor.int64_data:
                tensor.int64_data[rng.randrange(len(tensor.int64_data))] = rng.choice(EXTREMES)
            if len(tensor.raw_data) and rng.random() < 0.6:
                tensor.raw_data = flip_bytes(tensor.raw_data, rng)
        elif kind == 5 and node:
            node.op_type = rng.choice(nodes).op_type if rng.random() < 0.3 else rng.choice(OPERATORS)
        elif kind == 6 and node and node.input:
            names = [n for x in nodes for n in (*x.input, *x.output)] + [port.name for port in graph.input] + [""]
            node.input[rng.randrange(len(node.input))] = rng.choice(names)
        elif kind == 7 and node:
            rng.choice((lambda: graph.node.remove(node), lambda: graph.node.add().CopyFrom(node),
                        lambda: node.input.append(node.input[0]) if node.input else None,
                        lambda: node.output.append("extra"), lambda: node.input.pop() if node.input else None,
                        lambda: node.ClearField("attribute")))()
        elif kind == 8 and copy.opset_import:
            rng.choice(list(copy.opset_import)).version = rng.choice([1, 6, 7, 9, 11, 13, 17, 18, 21, 23, 99, -1])
        elif graph.input:
            shape = rng.choice(list(graph.input)).type.tensor_type.shape
            if shape.dim:
                rng.choice(list(shape.dim)).dim_value = rng.choice(EXTREMES)
    return copy.SerializeToString()


def mutate_attribute(attribute, rng):
    if attribute.ints and rng.random() < 0.8:
        attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(EXTREMES)
    elif attribute.ints:
        attribute.ints.append(rng.choice(EXTREMES)) if rng.random() < 0.5 else attribute.ints.pop()
    elif attribute.type == attribute.INT:
        attribute.i = rng.choice(EXTREMES)
    elif attribute.type == attribute.FLOAT:
        attribute.f = rng.choice([0.0, -1.0, 1e30, float("nan"), float("inf")])
    elif attribute.type == attribute.STRING:
        attribute.s = rng.choice([b"", b"linear", b"cubic", b"\xff", b"SAME_UPPER", b"x" * 100])
    elif rng.random() < 0.3:
        attribute.type = rng.randrange(0, 14)


OPERATORS = ["Identity"]


def onnx_corpus():
    """Small models with inputs from onnx's own tests."""
    from onnx.backend.test.loader import load_model_tests

    cases = []
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for case in load_model_tests(kind="node"):
            if case.model.ByteSize() < 4000 and case.data_sets:
                OPERATORS.append(case.model.graph.node[0].op_type)
                cases.append((case.model, list(case.data_sets[0][0])))
    return cases


def make_onnx(run):
    def build():
        cases = onnx_corpus()

        def produce(rng):
            model, inputs = rng.choice(cases)
            data = mutate_model(model, rng) if run or rng.random() < 0.5 else flip_bytes(model.SerializeToString(), rng)
            return pickle.dumps((data, inputs if run else None))
        return produce
    return build


def read_onnx(data):
    import clprim

    model, inputs = pickle.loads(data)
    parsed = clprim.OnnxModel(model)
    if inputs is None or parsed.unsupported:
        return
    session = clprim.Session(parsed)
    session.run({name: value if isinstance(value, list) else np.asarray(value)
                 for name, value in zip(session.input_names, inputs) if value is not None})


def build_weights(extension):
    def build():
        import clprim

        rng = np.random.default_rng(0)
        arrays = {"a": rng.standard_normal((3, 5)).astype("f"), "scalar": np.float32(2), "empty": np.zeros((0, 4), "f"),
                  "long.name.of.a.weight": rng.standard_normal((2, 2, 2, 2)).astype("f")}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"w.{extension}"
            clprim.save_weights(str(path), arrays)
            valid = path.read_bytes()
        return lambda rng: flip_bytes(valid, rng)
    return build


def weights_reader(extension):
    def read(data):
        import clprim

        with tempfile.NamedTemporaryFile(suffix=f".{extension}", dir="/dev/shm" if Path("/dev/shm").exists() else None) as file:
            file.write(data)
            file.flush()
            clprim.load_weights(file.name)
    return read


NET = """{"inputs": [{"name": "data", "shape": [2, 3, 8, 8]}, {"name": "label", "shape": [2], "dtype": "int"}],
 "outputs": ["prob", {"name": "loss", "loss_weight": 0.5}],
 "operators": [
  {"name": "c", "type": "Convolution2D", "inputs": ["data"], "outputs": ["c"], "options": {"channels_out": 4, "kernel": [3, 3],
   "pad": 1, "stride": 1, "dilate": 1, "groups": 1, "bias": true, "activation": "relu"}},
  {"name": "b", "type": "BatchNorm", "inputs": ["c"], "outputs": ["b"], "options": {"eps": 1e-5, "momentum": 0.1}},
  {"name": "p", "type": "Pooling2D", "inputs": ["b"], "outputs": ["p"], "options": {"mode": "max", "kernel": 2, "stride": 2}},
  {"name": "r", "type": "Reshape", "inputs": ["p"], "outputs": ["r"], "options": {"dims": [0, -1]}},
  {"name": "s", "type": "Slice", "inputs": ["r"], "outputs": ["s"], "options": {"dim": 1, "begin": 0, "end": 8}},
  {"name": "k", "type": "Concat", "inputs": ["s", "r"], "outputs": ["k"], "options": {"dim": 1}},
  {"name": "f", "type": "InnerProduct", "inputs": ["k"], "outputs": ["f"], "options": {"outputs": 5}},
  {"name": "prob", "type": "Softmax", "inputs": ["f"], "outputs": ["prob"], "options": {"axis": 1}},
  {"name": "loss", "type": "SoftmaxWithLoss", "inputs": ["f", "label"], "outputs": ["loss"]}]}"""


def read_json(data):
    import clprim

    net = clprim.Net()
    net.load_json(data.decode("utf-8", "surrogateescape"))
    net.setup()
    net.forward()


PARSERS = {
    "onnx": (make_onnx(False), read_onnx),
    "onnx-run": (make_onnx(True), read_onnx),
    "json": (lambda: lambda rng: mutate_json(NET, rng) if rng.random() < 0.7 else flip_bytes(NET.encode(), rng), read_json),
    "safetensors": (build_weights("safetensors"), weights_reader("safetensors")),
    "dlpw": (build_weights("dlp"), weights_reader("dlp")),
    "npz": (build_weights("npz"), weights_reader("npz")),
    "npy": (lambda: build_npy, weights_reader("npy")),
}


def build_npy(rng):
    buffer = io.BytesIO()
    np.save(buffer, np.arange(12).reshape(3, 4).astype(rng.choice(["f4", "i8", "?", ">f4"])))
    return flip_bytes(buffer.getvalue(), rng)


def acceptable(error, parser):
    """Clear errors are clprim's own; running out of memory is one where an operator was asked for too much."""
    import clprim

    if isinstance(error, clprim.OutOfMemory):
        return parser in ("onnx-run", "json")
    return isinstance(error, clprim.Error)


def worker(parser, seed, seconds, folder):
    import clprim

    build, read = PARSERS[parser]
    produce = build()
    clprim.Tensor.full(8, 1).numpy()        # drivers are loaded before memory is limited
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_LIMIT, resource.RLIM_INFINITY))
    rng, count, end = random.Random(seed), 0, time.monotonic() + seconds
    current = folder / "current"
    while time.monotonic() < end:
        data = produce(rng)
        current.write_bytes(data)
        faulthandler.dump_traceback_later(SECONDS_PER_INPUT, exit=True)
        try:
            read(data)
        except Exception as error:      # whatever comes is judged
            if not acceptable(error, parser):
                (folder / f"{parser}-{seed}-{count}").write_bytes(data)
                print(f"{parser}-{seed}-{count}: {type(error).__name__}: {error}"[:300], flush=True)
        faulthandler.cancel_dump_traceback_later()
        count += 1
    print(f"{parser}: {count} inputs", flush=True)


def fuzz(parser, options):
    """Findings of one parser."""
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    end, seed, findings = time.monotonic() + 60 * options.minutes, options.seed, 0
    while (left := end - time.monotonic()) > 0:
        result = subprocess.run([sys.executable, __file__, parser, "--worker", "--seed", str(seed), "--seconds", str(left),
                                 "--output", str(folder)], capture_output=True, text=True)
        print(result.stdout, end="", flush=True)
        findings += sum(line.startswith(f"{parser}-") for line in result.stdout.splitlines())
        if result.returncode:
            name = f"{parser}-{seed}-crash"
            (folder / "current").rename(folder / name) if (folder / "current").exists() else None
            print(f"{name}: exit status {result.returncode}\n{result.stderr[-1500:]}", flush=True)
            findings += 1
        seed += 1
    return findings


def replay(path):
    """Reads one kept input again; lets the error through."""
    PARSERS[path.name.rsplit("-", 2)[0]][1](path.read_bytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("parsers", nargs="*", choices=[*PARSERS, []], help="default: all")
    parser.add_argument("--minutes", type=float, default=1, help="for each parser")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", default=str(Path(tempfile.gettempdir()) / "clprim-fuzz"), help="folder for findings")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="read one kept input and show what happens")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.replay:
        return replay(options.replay)
    if options.worker:
        return worker(options.parsers[0], options.seed, options.seconds, Path(options.output))
    findings = sum(fuzz(name, options) for name in options.parsers or PARSERS)
    print(f"{findings} findings" + (f" in {options.output}" if findings else ""))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
