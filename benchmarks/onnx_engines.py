"""One inference engine in a process of its own: what benchmarks/onnx_models.py starts and gives turns to.

Loads a model and runs it; then each line of its input, a number of seconds, asks for runs of that length altogether and
is answered by a line of JSON. Between turns it waits for the next line and computes nothing.
"""
import importlib.util
import json
import os
import statistics
import sys
import time
from pathlib import Path

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import numpy as np


def clprim(path, feed, threads):
    import clprim

    def start():
        session = clprim.Session(path)
        name = session.input_names[0]
        return lambda: list(session.run({name: feed}).values())
    return start, lambda: {"device": str(clprim.devices()[0]), "launches": clprim.kernel_launches()}


def onnxruntime(path, feed, threads):
    import onnxruntime

    def start():
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        return lambda: session.run(None, {name: feed})
    return start, lambda: {"device": f"ONNX Runtime {onnxruntime.__version__}"}


def openvino(path, feed, threads):
    import openvino

    def start():
        core = openvino.Core()
        model = core.read_model(path)
        model.reshape(list(feed.shape))
        compiled = core.compile_model(model, "CPU", {
            "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1,
            "INFERENCE_NUM_THREADS": threads})
        request = compiled.create_infer_request()
        return lambda: [np.array(value) for value in request.infer([feed], share_inputs=True).values()]
    return start, lambda: {"device": f"OpenVINO {openvino.__version__}"}


ENGINES = {"clprim": clprim, "onnxruntime": onnxruntime, "openvino": openvino}


def available(engine):
    return importlib.util.find_spec(engine) is not None


def memory_mib(which="VmHWM"):
    """Of this process alone (getrusage would count what its parent had when it forked); VmHWM is the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(which)) / 1024


def turn(run, seconds):
    """One run that is not counted, which wakes the engine's threads; then runs for so long, at least two."""
    run()
    wall, cpu = [], []
    begin = time.perf_counter()
    while len(wall) < 2 or time.perf_counter() - begin < seconds:
        start, start_cpu = time.perf_counter(), time.process_time()
        run()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - start_cpu)
    return {"wall": statistics.median(wall), "cpu": statistics.median(cpu), "runs": len(wall)}


def main():
    engine, path, batch, size, threads, outputs = sys.argv[1:7]
    # Lines for the parent have a descriptor of their own: libraries may print what they like.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(row):
        answers.write(json.dumps(row) + "\n")
        answers.flush()

    shape = (int(batch), 3, int(size), int(size))
    feed = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    start, about = ENGINES[engine](path, feed, int(threads))
    imported = memory_mib()
    begin = time.perf_counter()
    run = start()
    results = run()
    first = time.perf_counter() - begin
    np.savez(outputs, *results)
    run()
    before = about()
    run()
    after = about()
    row = {"device": after["device"], "first_seconds": first, "peak_mib": memory_mib() - imported}
    if "launches" in after:
        row["launches"] = after["launches"] - before["launches"]
    answer(row)
    for line in sys.stdin:
        answer(turn(run, float(line)))


if __name__ == "__main__":
    main()
