"""What a run takes in a process that also holds another runtime's threads.

    python benchmarks/beside_runtimes.py [--model model.onnx]

Each case is a process of its own, and they take turns; times are those of clprim's runs alone, directly after a run of
the other runtime where there is one. `idle`: the other runtime has worked, and nothing asks it any more for a second.
The default model is torchvision's ResNet-18, batch 1.
"""
import argparse
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

PASSIVE = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
# Name: what else the process runs, and its environment.
CASES = {
    "clprim alone": (None, {}),
    "ONNX Runtime, idle": ("onnxruntime idle", {}),
    "ONNX Runtime, in turns": ("onnxruntime", {}),
    "ONNX Runtime without spinning, in turns": ("onnxruntime quiet", {}),
    "PyTorch, idle": ("torch idle", {}),
    "PyTorch, in turns": ("torch", {}),
    "PyTorch left spinning, in turns": ("torch", {"CLPRIM_PAUSE_OPENMP": "0"}),
    "PyTorch with OMP_WAIT_POLICY=passive, in turns": ("torch", PASSIVE),
}


def other_runtime(kind, path, feed):
    """A run of the other runtime."""
    if kind.startswith("torch"):
        import torch
        convolution, x = torch.nn.Conv2d(64, 64, 3), torch.rand(1, 64, 56, 56)

        def run():
            with torch.no_grad():
                convolution(x)
        return run
    import onnxruntime
    options = onnxruntime.SessionOptions()
    if "quiet" in kind:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {session.get_inputs()[0].name: feed})


def worker(kind, path):
    import clprim
    feed = np.random.default_rng(0).standard_normal((1, 3, 224, 224), dtype=np.float32)
    session = clprim.Session(path)
    other = other_runtime(kind, path, feed) if kind else lambda: None
    for _ in range(3):
        session.run({session.input_names[0]: feed})
        other()
    if kind.endswith("idle"):
        other = lambda: None        # noqa: E731
    for line in sys.stdin:
        times, end = [], time.perf_counter() + float(line)
        while time.perf_counter() < end:
            other()
            begin = time.perf_counter()
            session.run({session.input_names[0]: feed})
            times.append(time.perf_counter() - begin)
        print(json.dumps(statistics.median(times)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, help="one input of [1, 3, 224, 224]")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.4, help="length of a turn")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds of rest before a turn")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.model
        if path is None:
            import onnx_models
            path = onnx_models.model_file("resnet18", Path(folder))
        workers = {name: subprocess.Popen([sys.executable, __file__, "--worker", kind or "", str(path)], text=True,
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | environment)
                   for name, (kind, environment) in CASES.items()}
        times = {name: [] for name in workers}
        for _ in range(options.rounds):
            for name, process in workers.items():
                time.sleep(options.pause)
                process.stdin.write(f"{options.seconds}\n")
                process.stdin.flush()
                times[name].append(json.loads(process.stdout.readline()))
        for process in workers.values():
            process.stdin.close()
            process.wait()
    alone = times["clprim alone"]
    print(f"{'the process holds':48s} {'ms':>8s}  to alone (median over the rounds)")
    for name, row in times.items():
        print(f"{name:48s} {1e3 * statistics.median(row):8.2f}  "
              f"{statistics.median(a / b for a, b in zip(row, alone)):.2f}")


if __name__ == "__main__":
    worker(*sys.argv[2:]) if sys.argv[1:2] == ["--worker"] else main()
