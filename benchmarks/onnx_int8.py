"""Quantised ONNX models against ONNX Runtime's int8 and against our own float32, each session in a process of its own,
in turns: ResNet-50 and MobileNetV2 with Q/DQ pairs and with QLinear operators, and four encoder layers as BERT's with
dynamic int8. Weights are random, models are quantised by onnxruntime.quantization with weights of seven bits, which
ONNX Runtime needs on processors with AVX2 alone for exact sums.

Medians of elapsed and of processor time; the second is what to compare on a machine that has other work.

    python benchmarks/onnx_int8.py [--folder models] [--only resnet50] [--rounds 9] [--json results.json]
"""
import logging
import os
from pathlib import Path

import numpy
import torch
import torchvision
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

import onnx_engines
from common import Results, parser

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


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--only", default="", help="models whose name contains this")
    arguments.add_argument("--folder", type=Path, default=Path("build/int8_models"))
    options = arguments.parse_args()
    results = Results(options)
    options.folder.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.WARNING)
    threads = len(os.sched_getaffinity(0))
    for name in ("resnet50", "mobilenet_v2", "encoder"):
        if options.only not in name:
            continue
        plain, quantised = make_models(name, options.folder)
        feed = [sample(TEXT if name == "encoder" else IMAGE, 5)]
        for path in quantised:
            sessions = {"int8": ("clprim", path), "float32": ("clprim", plain), "theirs int8": ("onnxruntime", path),
                        "theirs float32": ("onnxruntime", plain)}
            with onnx_engines.started({what: (engine, file, feed, threads)
                                       for what, (engine, file) in sessions.items()}) as engines:
                got, expected = (engines[what].results()[0] for what in ("int8", "theirs int8"))
                error = float(numpy.linalg.norm(got - expected) / numpy.linalg.norm(expected))
                turns = onnx_engines.in_turns(engines, options.rounds, seconds=0.3, pause=0.3)
            texts = []
            for what, clock in (("elapsed ms", "wall"), ("processor ms", "cpu")):
                texts.append(f"{what}: " + "  ".join(f"{key} {ms:7.1f}" for key, ms in
                                                     onnx_engines.median_ms(turns, clock).items()) +
                             f"  float32 / int8 {onnx_engines.ratio(turns, 'float32', 'int8', clock):.2f}"
                             f"  ONNX Runtime / ours {onnx_engines.ratio(turns, 'theirs int8', 'int8', clock):.2f}")
            results.add(f"{path.stem}: difference from ONNX Runtime {error:.4f}\n  " + "\n  ".join(texts),
                        model=path.stem, difference=error, turns=turns)
    results.save()


if __name__ == "__main__":
    main()
