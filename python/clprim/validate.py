"""Compares a model's outputs on an OpenCL device with those of ONNX Runtime on the CPU.

    python -m clprim validate model.onnx ...

Inputs are made up: normal floats, integers below --integers, the same every run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time

import numpy as np

import clprim

NUMPY_TYPES = {"bool": np.bool_, "bfloat16": None, "string": None}


def make_inputs(session, options):
    rng = np.random.default_rng(options.seed)
    shapes = dict(text.rsplit("=", 1) for text in options.shape)
    inputs = {}
    for port in session.inputs:
        if port.name in shapes:
            shape = [int(size) for size in shapes[port.name].split(",") if size]
        else:
            declared = port.shape if port.shape is not None else ()
            shape = [size if isinstance(size, int) and size > 0 else options.batch if axis == 0 else
                     224 if len(declared) == 4 else 1 for axis, size in enumerate(declared)]
        dtype = NUMPY_TYPES.get(port.type, port.type)
        if dtype is None or not port.is_tensor:
            raise clprim.NotSupported(f"input '{port.name}': no values can be made up for {port.type}")
        if np.dtype(dtype).kind == "f":
            inputs[port.name] = rng.standard_normal(shape).astype(dtype)
        else:
            inputs[port.name] = rng.integers(0, options.integers, shape).astype(dtype)
    return inputs


def distance(got, expected):
    """Relative L2 distance; infinite where shapes, dtypes or kinds differ."""
    if isinstance(expected, list) or isinstance(got, list):
        if not (isinstance(expected, list) and isinstance(got, list) and len(got) == len(expected)):
            return float("inf")
        return max((distance(*pair) for pair in zip(got, expected)), default=0.0)
    if isinstance(expected, dict) or isinstance(got, dict):
        if not (isinstance(expected, dict) and isinstance(got, dict) and got.keys() == expected.keys()):
            return float("inf")
        return distance(*(np.array([values[key] for key in expected]) for values in (got, expected)))
    if got is None or expected is None:
        return 0.0 if got is expected else float("inf")
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return float("inf")
    if got.dtype.kind not in "fiubc":
        return 0.0 if np.array_equal(got, expected) else float("inf")
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    got, expected = got.astype(wide), expected.astype(wide)
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))     # infinities too
    difference = np.where(same, 0, got - expected)
    norm = np.linalg.norm(np.where(np.isfinite(expected), expected, 0))
    error = float(np.linalg.norm(difference) / (norm or 1.0))
    return float("inf") if np.isnan(error) else error


def median_ms(run, count):
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def validate(path, options):
    import onnxruntime

    session = clprim.Session(path, options.device, optimize=options.optimization)
    inputs = make_inputs(session, options)
    outputs = session.run(inputs)
    reference = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = dict(zip((port.name for port in reference.get_outputs()), reference.run(None, inputs)))
    errors = {name: distance(outputs[name], expected[name]) for name in session.output_names}
    row = {"model": path, "right": all(error <= options.tolerance for error in errors.values()), "errors": errors}
    if options.time:
        row["clprim_ms"] = median_ms(lambda: session.run(inputs), options.time)
        row["onnxruntime_ms"] = median_ms(lambda: reference.run(None, inputs), options.time)
    return row


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser("clprim validate", description=__doc__.split("\n\n")[0])
    parser.add_argument("models", nargs="+", metavar="model.onnx")
    parser.add_argument("-d", "--device", help='OpenCL device: "0:1", "gpu" or part of a name')
    parser.add_argument("-b", "--batch", type=int, default=1, help="the first size where it is dynamic")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1,3,224,224", help="of a dynamic input")
    parser.add_argument("--integers", type=int, default=2, help="integer inputs are below this")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="relative L2 distance of each output")
    parser.add_argument("--optimization", choices=("none", "basic", "all"), default="all",
                        help="what sessions do to the models' nodes (default: all)")
    parser.add_argument("--time", type=int, default=0, metavar="N", help="also measure the median of N runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args(arguments)
    rows = []
    for path in options.models:
        try:
            row = validate(path, options)
        except Exception as error:      # the next model is tried all the same
            row = {"model": path, "right": False, "error": str(error)}
        rows.append(row)
        if not options.json:
            what = row.get("error") or "largest relative error %.2e" % max(row["errors"].values(), default=0)
            times = f", {row['clprim_ms']:.2f} ms, ONNX Runtime {row['onnxruntime_ms']:.2f} ms" if "clprim_ms" in row else ""
            print(f"{'right' if row['right'] else 'WRONG'}  {path}: {what}{times}")
    if options.json:
        print(json.dumps(rows, indent=1))
    return 0 if all(row["right"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
