"""Quantised ONNX models against ONNX Runtime's int8 and against our own float32, interleaved in one run: ResNet-50 and
MobileNetV2 with Q/DQ pairs and with QLinear operators, and four encoder layers as BERT's with dynamic int8. Weights are
random, models are quantised by onnxruntime.quantization with weights of seven bits, which ONNX Runtime needs on
processors with AVX2 alone for exact sums.

Medians of elapsed and of processor time; the second is what to compare on a machine that has other work.

    python benchmarks/onnx_int8.py [--folder models] [--only resnet50] [--rounds 9] [--json results.json]
"""
import logging
import time
from pathlib import Path

import numpy
import onnxruntime
import torch
import torchvision
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

import clprim
from common import Results, median_ms, parser

IMAGE, TEXT = (1, 3, 224, 224), (1, 128, 768)


class Encoder(torch.nn.Module):
    def __init__(self, size=768, heads=12):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (torch.nn.Linear(size, size) for _ in range(4))
        self.wide, self.narrow = torch.nn.Linear(size, 4 * size), torch.nn.Linear(4 * size, size)
        self.norm, self.second_norm = torch.nn.LayerNorm(size), torch.nn.LayerNorm(size)

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        y = torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v
        x = self.norm(x + self.o(y.transpose(1, 2).flatten(2)))
        return self.second_norm(x + self.narrow(torch.nn.functional.gelu(self.wide(x))))


class Pictures(CalibrationDataReader):
    def __init__(self):
        self.left = [{"x": sample(IMAGE, seed)} for seed in range(2)]

    def get_next(self):
        return self.left.pop() if self.left else None


def sample(shape, seed):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float32)


def export(model, shape, path):
    torch.onnx.export(model.eval(), (torch.zeros(shape),), path, input_names=["x"], output_names=["y"],
                      opset_version=17, dynamo=False)


def make_models(name, folder):
    """Files that are not there yet: the float model and its quantised ones."""
    plain = folder / f"{name}.onnx"
    torch.manual_seed(0)
    if name == "encoder":
        quantised = [folder / "encoder_dynamic.onnx"]
        if not quantised[0].exists():
            export(torch.nn.Sequential(*(Encoder() for _ in range(4))), TEXT, plain)
            quantize_dynamic(plain, quantised[0], weight_type=QuantType.QInt8, reduce_range=True)
        return plain, quantised
    formats = {folder / f"{name}_{form.name.lower()}.onnx": form for form in (QuantFormat.QDQ, QuantFormat.QOperator)}
    if not all(path.exists() for path in formats):
        export(getattr(torchvision.models, name)(weights=None), IMAGE, plain)
        quant_pre_process(plain, plain, skip_symbolic_shape=True)
        for path, form in formats.items():
            quantize_static(plain, path, Pictures(), quant_format=form, per_channel=True, reduce_range=True,
                            weight_type=QuantType.QInt8, activation_type=QuantType.QUInt8)
    return plain, list(formats)


def alternate(contenders, rounds):
    """Median milliseconds of elapsed and of processor time of each."""
    elapsed, used = ({name: [] for name in contenders} for _ in range(2))
    for turn in range(-2, rounds):
        for name, run in contenders.items():
            time.sleep(0.01)
            start, start_used = time.perf_counter(), time.process_time()
            run()
            if turn >= 0:
                used[name].append(time.process_time() - start_used)
                elapsed[name].append(time.perf_counter() - start)
    return [{name: median_ms(seconds) for name, seconds in times.items()} for times in (elapsed, used)]


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--only", default="", help="models whose name contains this")
    arguments.add_argument("--folder", type=Path, default=Path("build/int8_models"))
    options = arguments.parse_args()
    results = Results(options)
    options.folder.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.WARNING)
    settings = onnxruntime.SessionOptions()
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")   # it would count as work

    def theirs(path):
        return onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])

    for name in ("resnet50", "mobilenet_v2", "encoder"):
        if options.only not in name:
            continue
        plain, quantised = make_models(name, options.folder)
        x = {"x": sample(TEXT if name == "encoder" else IMAGE, 5)}
        ours_float, theirs_float = clprim.Session(str(plain)), theirs(plain)
        for path in quantised:
            ours, other = clprim.Session(str(path)), theirs(path)
            got, expected = ours.run(x)["y"], other.run(None, x)[0]
            error = float(numpy.linalg.norm(got - expected) / numpy.linalg.norm(expected))
            elapsed, used = alternate({"int8": lambda: ours.run(x), "float32": lambda: ours_float.run(x),
                                       "theirs int8": lambda: other.run(None, x),
                                       "theirs float32": lambda: theirs_float.run(None, x)}, options.rounds)
            texts = [f"{what}: " + "  ".join(f"{key} {ms:7.1f}" for key, ms in times.items()) +
                     f"  float32 / int8 {times['float32'] / times['int8']:.2f}"
                     f"  ONNX Runtime / ours {times['theirs int8'] / times['int8']:.2f}"
                     for what, times in (("elapsed ms", elapsed), ("processor ms", used))]
            results.add(f"{path.stem}: difference from ONNX Runtime {error:.4f}\n  " + "\n  ".join(texts),
                        model=path.stem, difference=error, elapsed=elapsed, processor=used)
    results.save()


if __name__ == "__main__":
    main()
