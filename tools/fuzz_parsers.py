#!/usr/bin/env python
"""Feeds damaged files to clprim's readers and looks for anything but a result or one clear error.

    tools/fuzz_parsers.py --minutes 30                 # each of onnx, onnx-run, json, safetensors, dlpw, npz in turn
    tools/fuzz_parsers.py onnx-run --minutes 5 --seed 7 --models exported/*.onnx

A worker process reads one mutated file after another; a crash, an endless loop, an allocation beyond the limit or an
exception that is not clprim's is a finding: its input is kept in the output folder, and the worker starts anew.
`onnx-run` also makes sessions and runs them, and `json` nets, so that operators meet absurd attributes and shapes.

With a library built by -fsanitize=address,undefined it runs under LD_PRELOAD of libasan.so and libstdc++.so (both from
g++ -print-file-name=...), ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 and OCL_ICD_VENDORS=... of one driver
(some others cannot be loaded under sanitizers); what UBSan reports is a finding then.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import json
import pickle
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fuzz_inputs import build_nets, build_npy, build_weights, make_onnx

MEMORY_LIMIT = 6 << 30      # of address space beyond what the drivers take; a parser of small files needs none of it
SECONDS_PER_INPUT = 20


# Each reader says how far an input went: which calls took it.

def read_onnx(data, reached):
    import clprim

    model, inputs = pickle.loads(data)
    reached("read")
    parsed = clprim.OnnxModel(model)
    if inputs is None or parsed.unsupported:
        return
    reached("session")
    session = clprim.Session(parsed)
    reached("run")
    session.run({name: value if isinstance(value, list) else np.asarray(value)
                 for name, value in zip(session.input_names, inputs) if value is not None})


def weights_reader(extension):
    def read(data, reached):
        import clprim

        folder = "/dev/shm" if Path("/dev/shm").exists() else None
        with tempfile.NamedTemporaryFile(suffix=f".{extension}", dir=folder) as file:
            file.write(data)
            file.flush()
            reached("read")
            clprim.load_weights(file.name)
    return read


def read_json(data, reached):
    import clprim

    net = clprim.Net()
    reached("read")
    net.load_json(data.decode("utf-8", "surrogateescape"))
    net.mode = "train" if len(data) % 2 else "predict"
    reached("setup")
    net.setup()
    reached("run")
    net.initialize_parameters(0)
    for name in net.input_names:
        net.tensor(name).fill(1)
    net.forward()
    if len(data) % 2:
        net.backward()
    clprim.Context().synchronize()


PARSERS = {
    "onnx": (make_onnx(False), read_onnx),
    "onnx-run": (make_onnx(True), read_onnx),
    "json": (build_nets, read_json),
    "safetensors": (build_weights("safetensors", 0, "little", 8), weights_reader("safetensors")),
    "dlpw": (build_weights("dlp", 4, "big", 4), weights_reader("dlp")),
    "npz": (build_weights("npz"), weights_reader("npz")),
    "npy": (build_npy, weights_reader("npy")),
}


def acceptable(error, parser):
    """Clear errors are clprim's own; running out of memory is one where an operator was asked for too much."""
    import clprim

    if isinstance(error, (clprim.OutOfMemory, MemoryError)):    # NumPy's, of results
        return parser in ("onnx-run", "json")
    return isinstance(error, clprim.Error)


def judge(parser, data, reached=lambda stage: None):
    """The complaint about an input that was taken wrongly, or None."""
    try:
        PARSERS[parser][1](data, reached)
        reached("done")
    except Exception as error:      # whatever comes is judged
        if not acceptable(error, parser):
            return f"{type(error).__name__}: {error}"[:300]
    return None


def worker(parser, seed, options):
    import clprim

    folder, produce = Path(options.output), PARSERS[parser][0](options.models)
    clprim.Tensor.full(8, 1).numpy()        # drivers are loaded before memory is limited
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_LIMIT, resource.RLIM_INFINITY))
    rng, counts, end = random.Random(seed), collections.Counter(), time.monotonic() + options.seconds
    current, stages = folder / f"{parser}-{seed}-current", folder / f"{parser}-{seed}-counts"
    while time.monotonic() < end:
        data = produce(rng)
        current.write_bytes(data)
        if counts["inputs"] % 50 == 0:
            stages.write_text(json.dumps(counts))
        stage = "none"

        def reached(name):
            nonlocal stage
            stage = name

        faulthandler.dump_traceback_later(SECONDS_PER_INPUT, exit=True)
        complaint = judge(parser, data, reached)
        faulthandler.cancel_dump_traceback_later()
        if complaint:
            (folder / f"{parser}-{seed}-{counts['inputs']}").write_bytes(data)
            print(f"{parser}-{seed}-{counts['inputs']}: {complaint}", flush=True)
        counts["inputs"] += 1
        counts[stage] += 1
    stages.write_text(json.dumps(counts))
    current.unlink()


def fuzz(parser, options):
    """Findings of one parser."""
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    end, seed, findings, total = time.monotonic() + 60 * options.minutes, options.seed, 0, collections.Counter()
    while (left := end - time.monotonic()) > 0:
        command = [sys.executable, __file__, parser, "--worker", "--seed", str(seed), "--seconds", str(left),
                   "--output", str(folder), "--models", *options.models]
        result = subprocess.run(command, capture_output=True, text=True)
        print(result.stdout, end="", flush=True)
        findings += sum(line.startswith(f"{parser}-") for line in result.stdout.splitlines())
        if result.returncode:
            name, current = f"{parser}-{seed}-crash", folder / f"{parser}-{seed}-current"
            current.rename(folder / name) if current.exists() else None
            print(f"{name}: exit status {result.returncode}\n{result.stderr[-6000:]}", flush=True)
            findings += 1
        undefined = {line for line in result.stderr.splitlines() if ": runtime error: " in line}
        findings += len(undefined)
        print("".join(f"{parser}-{seed}: {line}\n" for line in sorted(undefined)), end="", flush=True)
        counts = folder / f"{parser}-{seed}-counts"
        if counts.exists():
            total.update(json.loads(counts.read_text()))
            counts.unlink()
        seed += 1
    inputs = total.pop("inputs", 0)
    print(f"{parser}: {inputs} inputs; ended at:", ", ".join(f"{stage} {n}" for stage, n in total.items()), flush=True)
    return findings


def replay(path):
    """Reads one kept input again; lets the error through."""
    PARSERS[path.name.rsplit("-", 2)[0]][1](path.read_bytes(), lambda stage: None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("parsers", nargs="*", choices=[*PARSERS, []], help="default: all")
    parser.add_argument("--minutes", type=float, default=1, help="for each parser")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", nargs="*", default=[], help="exported models to be mutated beside onnx's own tests")
    parser.add_argument("--output", default=str(Path(tempfile.gettempdir()) / "clprim-fuzz"),
                        help="folder for findings")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="read one kept input and show what happens")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.replay:
        return replay(options.replay)
    if options.worker:
        return worker(options.parsers[0], options.seed, options)
    findings = sum(fuzz(name, options) for name in options.parsers or PARSERS)
    print(f"{findings} findings" + (f" in {options.output}" if findings else ""))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
