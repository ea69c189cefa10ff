"""Inference of ONNX models against ONNX Runtime's CPU provider, in one run.

    python benchmarks/onnx_models.py                                   # resnet50, mobilenet_v2, vit_b_16, a text
    detector python benchmarks/onnx_models.py --models resnet50 --batches 1
    python benchmarks/onnx_models.py --models path/to/model.onnx       # any model with one input of images

Both get as many threads as the machine has cores, take turns, and rest before each turn (see common.interleave). The
ratio is ONNX Runtime's median time over clprim's: above 1 clprim is faster. Peak memory is that of a process of its own
which loads the model and runs it twice, without what importing the runtime takes.
"""
import argparse
import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import numpy as np

# PyTorch, clprim and ONNX Runtime are imported where they are used: --memory-of measures one of them alone.
sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

MODELS = ["resnet50", "mobilenet_v2", "vit_b_16", "text_detector"]


def text_detector():
    import rapidocr_onnxruntime
    return Path(rapidocr_onnxruntime.__file__).parent / "models" / "ch_PP-OCRv4_det_infer.onnx"


def model_file(name, folder):
    """The model's file; torchvision networks are exported with a dynamic batch."""
    if name.endswith(".onnx"):
        return Path(name)
    if name == "text_detector":
        return text_detector()
    import onnx_models
    import torch

    path = folder / f"{name}.onnx"
    model = onnx_models.network(name)
    torch.backends.mha.set_fastpath_enabled(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (onnx_models.example(name),), str(path), dynamo=False, opset_version=17,
                          input_names=["x"], dynamic_axes={"x": {0: "n"}})
    return path


def reference_session(path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def images(batch, size):
    return np.random.default_rng(0).standard_normal((batch, 3, size, size), dtype=np.float32)


def measure(path, batch, size, rounds):
    import clprim
    import onnx_models
    import torch
    from common import interleave

    cpu = torch.device("cpu")
    reference, session = reference_session(path), clprim.Session(str(path))
    name = session.input_names[0]
    feed = {name: images(batch, size)}
    expected, results = reference.run(None, feed), list(session.run(feed).values())
    difference = onnx_models.relative_difference(results, expected)
    times = interleave({"onnxruntime": (lambda: reference.run(None, feed), cpu),
                        "clprim": (lambda: session.run(feed), cpu)}, rounds, pause=0.3)
    return difference, times


def peak_memory(runtime, path, batch, size):
    """MiB that loading and running take at most, in a process of its own."""
    out = subprocess.run([sys.executable, __file__, "--memory-of", runtime, "--models", str(path), "--batches",
                          str(batch),
                          "--size", str(size)], check=True, capture_output=True, text=True).stdout
    return float(out.split()[-1])


def highest_kib():
    """Most memory that this process has had (getrusage would count its parent's too)."""
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines()
                if line.startswith("VmHWM"))


def print_peak_memory(runtime, path, batch, size):
    module = importlib.import_module(runtime)
    before = highest_kib()
    session = module.Session(path) if runtime == "clprim" else reference_session(path)
    feed = {(session.input_names if runtime == "clprim"
             else [i.name for i in session.get_inputs()])[0]: images(batch, size)}
    for _ in range(2):
        session.run(feed) if runtime == "clprim" else session.run(None, feed)
    print((highest_kib() - before) / 1024)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", default=MODELS,
                        help=f"of {', '.join(MODELS)}, any torchvision network, or files")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--size", type=int, default=224, help="height and width of the images")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, help="raw numbers")
    parser.add_argument("--memory-of", choices=["clprim", "onnxruntime"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        return print_peak_memory(options.memory_of, options.models[0], options.batches[0], options.size)
    return compare(options)


def compare(options):
    import clprim
    import onnxruntime
    from common import median_ms

    print(f"clprim on {clprim.devices()[0]}, ONNX Runtime {onnxruntime.__version__} on {os.cpu_count()} threads")
    print(f"{'model':16s} {'batch':>5s} {'ONNX Runtime':>13s} {'clprim':>9s} {'ratio':>6s} {'difference':>11s} {'peak MiB, theirs / ours':>24s}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models:
            path = model_file(name, Path(folder))
            for batch in options.batches:
                difference, times = measure(path, batch, options.size, options.rounds)
                theirs, ours = median_ms(times["onnxruntime"]), median_ms(times["clprim"])
                memory = [peak_memory(runtime, path, batch, options.size) for runtime in ("onnxruntime", "clprim")]
                rows.append({"model": name, "batch": batch, "ratio": theirs / ours, "difference": difference,
                             "seconds": times, "peak_mib": dict(zip(("onnxruntime", "clprim"), memory))})
                print(f"{name[-16:]:16s} {batch:5d} {theirs:10.1f} ms {ours:6.1f} ms {theirs / ours:6.2f} {difference:11.1e} "
                      f"{memory[0]:14.0f} / {memory[1]:.0f}", flush=True)
    print(f"geometric mean of the ratios: {math.exp(sum(math.log(row['ratio']) for row in rows) / len(rows)):.2f}")
    if options.json:
        options.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
