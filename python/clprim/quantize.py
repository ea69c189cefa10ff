"""`clprim convert --int8`, `--int4` and `--fp16`: an ONNX model or a JSON net with shorter numbers, as an ONNX model
that runs here and in ONNX Runtime, with a report of what that costs in accuracy.

    python -m clprim convert model.onnx small.onnx --int8 --calibration FOLDER
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

import clprim
from clprim.validate import distance, make_inputs

IMAGES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".ppm", ".pgm"}


def read_model(path: Path, weights: str | None, device):
    import onnx

    if path.suffix != ".json":
        return onnx.load(str(path))
    net = clprim.Net(device)
    net.load_json_file(str(path))
    net.setup()
    if net.parameter_names:
        net.load_parameters(weights or str(path.with_suffix(".safetensors")))
    return onnx.ModelProto.FromString(net.to_onnx())


def image(path: Path, shape, mean, deviation) -> np.ndarray:
    """As `clprim run` prepares one: the middle at the model's aspect, resized, divided by 255, normalised."""
    try:
        from PIL import Image
    except ImportError:
        raise clprim.NotSupported(f"{path}: reading images needs the package pillow, .npy arrays do not") from None
    _, channels, height, width = shape
    picture = Image.open(path).convert("L" if channels == 1 else "RGB")
    scale = min(picture.width / width, picture.height / height)
    cut = (max(1, round(width * scale)), max(1, round(height * scale)))
    left, top = (picture.width - cut[0]) // 2, (picture.height - cut[1]) // 2
    picture = picture.resize((width, height), Image.BILINEAR, (left, top, left + cut[0], top + cut[1]))
    pixels = np.asarray(picture, np.float32).reshape(height, width, -1) / 255
    mean, deviation = (np.resize(np.asarray(one, np.float32), channels) for one in (mean, deviation))
    return ((pixels - mean) / deviation).transpose(2, 0, 1)[None]


def samples(folder: Path, session, options) -> list[dict[str, np.ndarray]]:
    """Inputs of a model, one set for each file: .npz by the inputs' names; .npy and images for the only input."""
    made = make_inputs(session, options)
    ports = {port.name: port for port in session.inputs}
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in IMAGES | {".npy", ".npz"})
    if not files:
        raise clprim.InvalidArgument(f"{folder} has no .npy, .npz or image files")
    result = []
    for path in files[:options.samples]:
        if path.suffix == ".npz":
            arrays = dict(np.load(path))
        elif len(ports) != 1:
            names = ", ".join(ports)
            raise clprim.InvalidArgument(f"{path}: the model has the inputs {names}; give .npz files with them")
        elif path.suffix == ".npy":
            arrays = {next(iter(ports)): np.load(path)}
        else:
            shape = next(iter(made.values())).shape
            if len(shape) != 4 or shape[1] not in (1, 3):
                raise clprim.InvalidArgument(f"{path}: the model's input has shape {list(shape)}, which is no image")
            arrays = {next(iter(ports)): image(path, shape, options.mean, options.std)}
        result.append({name: _fitted(path, name, arrays, made) for name in ports})
    return result


def _fitted(path, name, arrays, made):
    if name not in arrays:
        raise clprim.InvalidArgument(f"{path} has no array for the input '{name}'")
    array, like = arrays[name], made[name]
    if array.ndim == like.ndim - 1:
        array = array[None]
    if array.ndim != like.ndim:
        raise clprim.InvalidArgument(f"{path}: '{name}' has {array.ndim} axes, the model's input {like.ndim}")
    if (array.dtype.kind == "f") != (like.dtype.kind == "f"):
        raise clprim.InvalidArgument(f"{path}: '{name}' is {array.dtype}, the model's input {like.dtype}")
    return np.ascontiguousarray(array, like.dtype)


def ranges(model, names, inputs, options) -> dict[str, tuple[float, float]]:
    """The smallest and largest number of each value over all samples, from runs of the float model."""
    import onnx

    model = onnx.ModelProto.FromString(model.SerializeToString())
    known = {one.name for one in [*model.graph.input, *model.graph.output]}
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names if name not in known)
    session = clprim.Session(model.SerializeToString(), options.device, optimize=False)
    found = {}
    for sample in inputs:
        results = {**session.run(sample, [name for name in names if name not in sample]), **sample}
        for name in names:
            values = np.asarray(results[name])
            if not np.isfinite(values).all():
                raise clprim.InvalidArgument(f"'{name}' has infinities or NaN for the calibration data")
            low, high = found.get(name, (np.inf, -np.inf))
            found[name] = (min(low, float(values.min(initial=0))), max(high, float(values.max(initial=0))))
    return found


def accuracy(model, converted, inputs, device) -> dict:
    """Outputs of the converted model against those of the float one, by name."""
    before, after = (clprim.Session(one.SerializeToString(), device) for one in (model, converted))
    report = {}
    for sample in inputs:
        expected, got = before.run(sample), after.run(sample)
        for name, value in expected.items():
            if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
                continue
            row = report.setdefault(name, {"relative error": 0.0, "largest difference": 0.0, "same best": []})
            row["relative error"] = max(row["relative error"], float(distance(got[name], value)))
            row["largest difference"] = max(row["largest difference"], float(np.abs(got[name] - value).max(initial=0)))
            if value.ndim == 2 and value.shape[1] > 1:
                row["same best"] += (got[name].argmax(1) == value.argmax(1)).tolist()
    for row in report.values():
        best = row.pop("same best")
        if best:
            row["same best class"] = sum(best) / len(best)
    return report


def convert(model, options, inputs):
    """The converted model, and how many operators changed."""
    from clprim import _half, _integers

    if options.fp16:
        return _half.float16(model)
    if options.int4:
        return _integers.int4(model, options.group, not options.asymmetric)
    if not options.calibration:
        return _integers.dynamic_int8(model, options.reduce_range)
    found = ranges(model, _integers.activations(model), inputs, options)
    return _integers.static_int8(model, found, options.reduce_range)


def parse(arguments):
    parser = argparse.ArgumentParser(prog="clprim convert", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="an ONNX model, or a JSON net")
    parser.add_argument("to", type=Path, help="where the ONNX model is written")
    ways = parser.add_mutually_exclusive_group(required=True)
    ways.add_argument("--int8", action="store_true", help="convolutions and products of int8: with --calibration QDQ "
                      "pairs with ranges that are measured; without, products whose inputs are quantised as they come")
    ways.add_argument("--int4", action="store_true", help="weights of products in groups of four-bit numbers")
    ways.add_argument("--fp16", action="store_true", help="everything in float16, but inputs and outputs")
    parser.add_argument("--calibration", type=Path, metavar="FOLDER", help=".npy arrays, .npz by input, or images")
    parser.add_argument("--samples", type=int, default=100, help="the most files to use (default: 100)")
    parser.add_argument("--mean", type=_numbers, default=[0.485, 0.456, 0.406], help="of images' colours")
    parser.add_argument("--std", type=_numbers, default=[0.229, 0.224, 0.225], help="what they are divided by then")
    parser.add_argument("--group", type=int, default=32, help="weights of int4 that share a scale (default: 32)")
    parser.add_argument("--asymmetric", action="store_true", help="int4: a zero point for each group as well")
    parser.add_argument("--reduce-range", action="store_true",
                        help="int8 weights of seven bits, for kernels of ONNX Runtime that saturate (AVX2, AVX-512 "
                             "without VNNI)")
    parser.add_argument("-w", "--weights", help="the net's weights (default: beside it, .safetensors)")
    parser.add_argument("-b", "--batch", type=int, default=1, help="size of dynamic first axes of made-up inputs")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1,3,224,224")
    parser.add_argument("-d", "--device", default=None)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    options.seed, options.integers = 0, 2
    return options


def _numbers(text):
    return [float(one) for one in text.split(",")]


def run(options) -> dict:
    import onnx

    if options.to.suffix != ".onnx":
        raise clprim.InvalidArgument(f"{options.to}: models of shorter numbers are written as .onnx")
    if not options.model.is_file():
        raise clprim.InvalidArgument(f"there is no file {options.model}")
    if options.calibration and not options.calibration.is_dir():
        raise clprim.InvalidArgument(f"there is no folder {options.calibration}")
    model = read_model(options.model, options.weights, options.device)
    session = clprim.Session(model.SerializeToString(), options.device)
    inputs = samples(options.calibration, session, options) if options.calibration else [make_inputs(session, options)]
    converted, count = convert(onnx.ModelProto.FromString(model.SerializeToString()), options, inputs)
    onnx.checker.check_model(converted)
    onnx.save(converted, str(options.to))
    return {"from": str(options.model), "to": str(options.to), "operators": count, "samples": len(inputs),
            "made up": not options.calibration, "bytes": [model.ByteSize(), converted.ByteSize()],
            "outputs": accuracy(model, converted, inputs, options.device)}


def main(arguments) -> int:
    options = parse(arguments)
    try:
        report = run(options)
    except ImportError as error:
        print(f"clprim: {error}; --int8, --int4 and --fp16 need the packages onnx and numpy", file=sys.stderr)
        return 1
    except (clprim.Error, OSError, ValueError) as error:
        print(f"clprim: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(report, indent=1))
        return 0
    before, after = report["bytes"]
    print(f"{report['to']}: {report['operators']} operators, {before} to {after} bytes; against {report['from']} with "
          f"{report['samples']} {'made-up input' if report['made up'] else 'samples'}:")
    for name, row in report["outputs"].items():
        print(f"  {name}: " + ", ".join(f"{what} {value:.4g}" for what, value in row.items()))
    return 0
