"""Inference engines in processes of their own, which take turns: shared by the benchmarks of ONNX models.

Threads of one engine that wait busily for their next work would take cores from another's in the same process. An
`Engine` starts this file: it loads a model and runs it; then each line of its input, a number of seconds, asks for runs
of that length altogether and is answered by a line of JSON. Between turns it waits for the next line, idle.
"""
import contextlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import numpy as np


def clprim(path, feed, threads):
    import clprim

    def start():
        session = clprim.Session(path)
        inputs = dict(zip(session.input_names, feed))
        return lambda: list(session.run(inputs).values())
    return start, lambda: {"device": str(clprim.devices()[0]), "launches": clprim.kernel_launches()}


def onnxruntime(path, feed, threads):
    import onnxruntime

    def start():
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        inputs = {port.name: array for port, array in zip(session.get_inputs(), feed)}
        return lambda: session.run(None, inputs)
    return start, lambda: {"device": f"ONNX Runtime {onnxruntime.__version__}"}


def openvino(path, feed, threads):
    import openvino

    def start():
        core = openvino.Core()
        model = core.read_model(path)
        model.reshape({port: list(array.shape) for port, array in zip(model.inputs, feed)})
        compiled = core.compile_model(model, "CPU", {
            "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1,
            "INFERENCE_NUM_THREADS": threads})
        request = compiled.create_infer_request()
        return lambda: [np.array(value) for value in request.infer(feed, share_inputs=True).values()]
    return start, lambda: {"device": f"OpenVINO {openvino.__version__}"}


def driver(path, feed, threads):
    """Nothing but the OpenCL driver with the programs that a folder of clprim's cache holds, and their kernels."""
    import clprim

    def start():
        import opencl_programs

        kept = opencl_programs.load(path)
        return lambda: [np.array(len(kept))]
    return start, lambda: {"device": str(clprim.devices()[0])}


ENGINES = {"clprim": clprim, "onnxruntime": onnxruntime, "openvino": openvino}


def available(engine):
    return importlib.util.find_spec(engine) is not None


def one_node(path):
    """A model of nothing: what an engine takes anyway."""
    import onnx

    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 3, "h", "w"]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "one_node", ports[:1], ports[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=10), path)


def load(path):
    with np.load(path) as file:
        return [file[key] for key in file.files]


class Engine:
    """A process that holds one session and computes only when it is its turn.

    feed: arrays, in the order of the model's inputs. `about`: seconds to the first result, peak memory, the device.
    """

    def __init__(self, engine, path, feed, threads, environment=None):
        self.name = engine
        self._folder = tempfile.TemporaryDirectory()
        inputs, self._outputs = (Path(self._folder.name) / name for name in ("inputs.npz", "outputs.npz"))
        np.savez(inputs, *feed)
        command = [sys.executable, __file__, engine, str(path), str(inputs), str(threads), str(self._outputs)]
        # Fewer threads than cores are fewer cores too: OpenCL drivers take what the process may run on.
        cores = sorted(os.sched_getaffinity(0))[:threads]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=os.environ | (environment or {}),
                                        preexec_fn=lambda: os.sched_setaffinity(0, cores))
        self.about = self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with status {self.process.wait()}")
        return json.loads(line)

    def results(self):
        return load(self._outputs)

    def turn(self, seconds):
        """{"wall", "cpu": median seconds of a run, "runs": how many there were}"""
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return self._answer()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self._folder.cleanup()


def in_turns(engines, rounds, seconds, pause):
    """engines: {name: Engine}. Returns {name: [answer of a turn, ...]}; all rest for `pause` seconds before each."""
    turns = {name: [] for name in engines}
    for _ in range(rounds):
        for name, engine in engines.items():
            time.sleep(pause)
            turns[name].append(engine.turn(seconds))
    return turns


@contextlib.contextmanager
def started(specifications):
    """specifications: {name: arguments of Engine}. The engines by these names, ended afterwards."""
    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(Engine(*arguments)) for name, arguments in specifications.items()}


def median_ms(turns, clock="wall"):
    return {name: 1e3 * statistics.median(turn[clock] for turn in rows) for name, rows in turns.items()}


def ratio(turns, a, b, clock="wall"):
    """The median over the rounds of a's time to b's in the same round."""
    return statistics.median(x[clock] / y[clock] for x, y in zip(turns[a], turns[b]))


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
    engine, path, inputs, threads, outputs = sys.argv[1:6]
    # Lines for the parent have a descriptor of their own: libraries may print what they like.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(row):
        answers.write(json.dumps(row) + "\n")
        answers.flush()

    feed = load(inputs)
    start, about = (ENGINES | {"driver": driver})[engine](path, feed, int(threads))
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
