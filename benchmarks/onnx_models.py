"""Inference of ONNX models against ONNX Runtime's CPU provider and OpenVINO's CPU plugin.

    python benchmarks/onnx_models.py                                   # the networks below, batches of 1 and 8
    python benchmarks/onnx_models.py --models resnet50 --batches 1
    python benchmarks/onnx_models.py --models path/to/model.onnx       # any model with one input of images
    python benchmarks/onnx_models.py --start                           # first results, programs cached and not

Each engine has a process of its own (onnx_engines.py), since threads that wait busily in one process would take cores
from another's work. The processes take turns, and rest before each. OpenVINO is asked for float32; an engine whose
package is not installed is left out. All get as many threads as --threads says.

The ratio is that of the better of the other engines to clprim, the median over the rounds: above 1 clprim is faster.
Peak memory is that of loading and running, without what importing the engine takes. The row `one_node` is a model of
nothing: what an engine takes anyway, the OpenCL driver of clprim's.
"""
import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import numpy as np
import onnx_engines

# tools/exported_models.py has the networks.
sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

MODELS = "resnet18 resnet50 mobilenet_v2 efficientnet_b0 densenet121 vit_b_16 text_detector".split()


def text_detector():
    import rapidocr_onnxruntime
    return Path(rapidocr_onnxruntime.__file__).parent / "models" / "ch_PP-OCRv4_det_infer.onnx"


def model_file(name, folder):
    """The model's file. Torchvision's networks are exported with a dynamic batch, once for a folder."""
    if name.endswith(".onnx"):
        return Path(name)
    if name == "text_detector":
        return text_detector()
    path = folder / f"{name}.onnx"
    if path.exists():
        return path
    if name == "one_node":
        onnx_engines.one_node(path)
        return path
    import exported_models
    import torch

    model = exported_models.network(name)
    torch.backends.mha.set_fastpath_enabled(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (exported_models.example(name),), str(path), dynamo=False, opset_version=17,
                          input_names=["x"], dynamic_axes={"x": {0: "n"}})
    return path


def images(batch, options):
    shape = (batch, 3, options.size, options.size)
    return [np.random.default_rng(0).standard_normal(shape, dtype=np.float32)]


def start(name, path, batch, options, **environment):
    """What an engine says of its start: seconds to the first result, memory."""
    with onnx_engines.Engine(name, path, images(batch, options), options.threads, environment) as engine:
        return engine.about


def compare(name, path, batch, options):
    """One row: every engine's times in turns, memory, and how far clprim's results are from the first other's."""
    import exported_models

    feed = images(batch, options)
    with onnx_engines.started({name: (name, path, feed, options.threads) for name in options.engines}) as engines:
        turns = onnx_engines.in_turns(engines, options.rounds, options.seconds, options.pause)
        row = {"model": name, "batch": batch, "turns": turns,
               "engines": {engine.name: engine.about for engine in engines.values()},
               "milliseconds": onnx_engines.median_ms(turns, options.clock)}
        others = [engine for engine in engines if engine != "clprim"]
        if others and "clprim" in engines:
            row["difference"] = exported_models.relative_difference(engines["clprim"].results(),
                                                                engines[others[0]].results())
            row["best"] = min(others, key=row["milliseconds"].get)
            row["ratio"] = onnx_engines.ratio(turns, row["best"], "clprim", options.clock)
    return row


def print_times(options):
    print(f"{'model':16s} batch" + "".join(f"{engine + ', ms':>16s}" for engine in options.engines)
          + f"{'ratio':>7s} {'difference':>11s}  peak MiB " + " / ".join(options.engines))
    rows = []
    for name in ["one_node", *options.models]:
        path = model_file(name, options.folder)
        for batch in options.batches if name != "one_node" else [1]:
            row = compare(name, path, batch, options)
            rows.append(row)
            print(f"{name[-16:]:16s} {batch:5d}"
                  + "".join(f"{row['milliseconds'][engine]:16.2f}" for engine in options.engines)
                  + (f"{row['ratio']:7.2f} {row['difference']:11.1e}  " if "ratio" in row else " " * 21)
                  + " / ".join(f"{row['engines'][engine]['peak_mib']:.0f}" for engine in options.engines), flush=True)
    ratios = [row["ratio"] for row in rows if "ratio" in row and row["model"] != "one_node"]
    if ratios:
        print(f"geometric mean of the ratios: {math.exp(statistics.fmean(map(math.log, ratios))):.2f}")
    return rows


def print_starts(options):
    """Seconds from creating a session to its first result, after imports: clprim's with and without cached programs."""
    print(f"{'model':16s} batch" + "".join(f"{engine:>14s}" for engine in options.engines)
          + f"{'clprim, cold':>14s}  (seconds)")
    rows = []
    for name in ["one_node", *options.models]:
        path = model_file(name, options.folder)
        for batch in options.batches if name != "one_node" else [1]:
            times = {}
            for _ in range(options.rounds):
                with tempfile.TemporaryDirectory() as cache:
                    for engine in options.engines:
                        if engine == "clprim":
                            cold = start(engine, path, batch, options, CLPRIM_CACHE_DIR=cache)
                            times.setdefault("clprim, cold", []).append(cold["first_seconds"])
                        warm = start(engine, path, batch, options, CLPRIM_CACHE_DIR=cache)
                        times.setdefault(engine, []).append(warm["first_seconds"])
            rows.append({"model": name, "batch": batch, "first_seconds": times})
            print(f"{name[-16:]:16s} {batch:5d}"
                  + "".join(f"{statistics.median(times[key]):14.2f}" for key in [*options.engines, "clprim, cold"]
                            if key in times), flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", default=MODELS,
                        help=f"of {', '.join(MODELS)}, any torchvision network, or files")
    parser.add_argument("--engines", nargs="+", default=list(onnx_engines.ENGINES), choices=list(onnx_engines.ENGINES))
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--size", type=int, default=224, help="height and width of the images")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a turn")
    parser.add_argument("--pause", type=float, default=0.3, help="seconds of rest before a turn")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall",
                        help="cpu: processor time of all threads, for machines with other work")
    parser.add_argument("--start", action="store_true", help="measure first results instead")
    parser.add_argument("--folder", type=Path, help="keeps exported models there for later runs")
    parser.add_argument("--json", type=Path, help="raw numbers")
    options = parser.parse_args()
    for engine in [engine for engine in options.engines if not onnx_engines.available(engine)]:
        print(f"{engine} is left out: its package is not installed")
        options.engines.remove(engine)
    with tempfile.TemporaryDirectory() as scratch:
        options.folder = options.folder or Path(scratch)
        options.folder.mkdir(parents=True, exist_ok=True)
        rows = print_starts(options) if options.start else print_times(options)
    if options.json:
        options.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
