#!/usr/bin/env python
"""Exports torchvision's networks to ONNX and compares clprim with ONNX Runtime on them.

    tools/exported_models.py                                  # all networks, all exports
    tools/exported_models.py resnet18 vit_b_16 --opsets 17 dynamo
    tools/exported_models.py --markdown docs/onnx_models.md

Weights are random (nothing is downloaded), but the statistics of batch normalisation come from a pass in training mode,
so that activations stay in range. `dynamo` is PyTorch's newer exporter with its newest operator set, numbers are
operator sets of the older one. An entry is the relative L2 difference of the outputs; above 1e-4 the tool fails.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import sys
import tempfile
import time
import warnings

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")   # exporting needs no device

import numpy as np

NETWORKS = ("alexnet vgg16 resnet18 resnext50_32x4d wide_resnet50_2 efficientnet_b0 efficientnet_b4 regnet_y_400mf "
            "squeezenet1_0 mobilenet_v2 densenet121 vit_b_16 ssdlite320_mobilenet_v3_large").split()
EXPORTS = ["9", "11", "13", "17", "dynamo"]
LIMIT = 1e-4


@contextlib.contextmanager
def plain_attention():
    """Writes attention out as products, a softmax and reshapes, for operator sets whose exporter has nothing else."""
    import torch
    import torch.nn.functional as F

    def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        scores = query @ key.transpose(-2, -1) * (scale or float(query.size(-1)) ** -0.5)
        return torch.softmax(scores if attn_mask is None else scores + attn_mask, -1) @ value

    def unflatten(tensor, dim, sizes):
        dim %= tensor.dim()
        return tensor.reshape(*tensor.shape[:dim], *sizes, *tensor.shape[dim + 1:])

    saved, F.scaled_dot_product_attention = F.scaled_dot_product_attention, attention
    saved_unflatten, torch.Tensor.unflatten = torch.Tensor.unflatten, unflatten
    try:
        yield
    finally:
        F.scaled_dot_product_attention = saved
        torch.Tensor.unflatten = saved_unflatten


def example(name):
    import torch

    size = 320 if name.startswith("ssdlite") else 224
    return torch.rand(1, 3, size, size, generator=torch.Generator().manual_seed(2))


def network(name):
    import torch
    import torchvision

    torch.manual_seed(1)
    detection = name.startswith("ssdlite")
    maker = getattr(torchvision.models.detection if detection else torchvision.models, name)
    model = maker(weights=None, **({"weights_backbone": None} if detection else {}))
    for key, parameter in model.named_parameters():    # layers that begin as (almost) zeros would hide what is before them
        if parameter.dim() > 1 and (not parameter.any() or key.startswith("head.")):
            torch.nn.init.normal_(parameter, std=0.05)
    with torch.no_grad():
        features = model.backbone if detection else model
        features.train()(example(name).expand(4, -1, -1, -1) * torch.linspace(0.5, 1.5, 4)[:, None, None, None])
    return model.eval()


def export(name, how, path):
    import torch

    torch.backends.mha.set_fastpath_enabled(False)     # the older exporter does not know it
    model, x = network(name), example(name)
    with torch.no_grad(), warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        if how == "dynamo":
            torch.onnx.export(model, (x,), str(path), dynamo=True, external_data=False, verbose=False)
            return
        context = plain_attention() if int(how) < 14 else contextlib.nullcontext()
        with context:
            torch.onnx.export(model, (x,), str(path), dynamo=False, opset_version=int(how), input_names=["x"])


def relative_difference(results, expected):
    worst = 0.0
    for got, want in zip(results, expected):
        if got.shape != want.shape:
            return float("inf")
        if want.size:
            difference = np.linalg.norm(got.astype(np.float64) - want.astype(np.float64))
            worst = max(worst, difference / max(np.linalg.norm(want.astype(np.float64)), 1e-30))
    return worst


def in_order(name, outputs):
    """Detections come by score, and almost equal scores in any order: here by class and position instead."""
    if not name.startswith("ssdlite"):
        return outputs
    boxes, scores, labels = outputs
    order = np.lexsort([*boxes.round(1).T, labels])
    return [boxes[order], scores[order], labels[order]]


def compare(name, path, inputs):
    """Relative L2 difference to ONNX Runtime, and the seconds that a run takes after the first (clprim, ONNX
    Runtime)."""
    import onnxruntime

    import clprim

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    reference = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    inputs = inputs if isinstance(inputs, dict) else {reference.get_inputs()[0].name: inputs}
    expected = reference.run(None, inputs)
    session = clprim.Session(str(path))
    results = session.run(inputs)
    results = [np.asarray(results[output.name]) for output in reference.get_outputs()]

    def seconds(run):
        begin = time.perf_counter()
        run()
        return time.perf_counter() - begin

    times = [min(seconds(run) for _ in range(2)) for run in (lambda: session.run(inputs),
                                                             lambda: reference.run(None, inputs))]
    return relative_difference(in_order(name, results), in_order(name, expected)), *times


def one_line(error):
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:100]


def table(rows, exports):
    lines = ["| network | " + " | ".join("dynamo" if e == "dynamo" else f"opset {e}" for e in exports) + " |",
             "|---" * (len(exports) + 1) + "|"]
    for name, cells in rows.items():
        lines.append(f"| {name} | " + " | ".join(cells.get(e, "") for e in exports) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS, help="torchvision's names (default: a list of 13)")
    parser.add_argument("--opsets", nargs="+", default=EXPORTS, help="operator sets of the older exporter, or dynamo")
    parser.add_argument("--folder", default=os.path.join(tempfile.gettempdir(), "clprim-onnx-networks"),
                        help="where exported models are kept between runs")
    parser.add_argument("--markdown", help="write the table there")
    parser.add_argument("--json", help="write differences, times and errors there")
    options = parser.parse_args()
    folder = pathlib.Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows, details, failed = {}, [], False
    for name in options.networks:
        for how in options.opsets:
            path, entry = folder / f"{name}_{how}.onnx", {"network": name, "export": how}
            details.append(entry)
            try:
                if not path.exists():
                    export(name, how, path)
            except Exception as error:
                path.unlink(missing_ok=True)
                entry["error"] = "cannot be exported: " + one_line(error)
                rows.setdefault(name, {})[how] = "not exported"
                print(f"{name:32} {how:>6}  {entry['error']}", flush=True)
                continue
            try:
                entry["difference"], entry["seconds"], entry["onnxruntime_seconds"] = compare(name, path, example(name).numpy())
                good = entry["difference"] <= LIMIT
                text = f"{entry['difference']:.1e}"
                note = f"{entry['seconds'] * 1e3:8.1f} ms, ONNX Runtime {entry['onnxruntime_seconds'] * 1e3:.1f} ms"
            except Exception as error:
                good, text, note = False, "fails", one_line(error)
                entry["error"] = one_line(error)
            failed |= not good
            rows.setdefault(name, {})[how] = text if good else f"**{text}**"
            print(f"{name:32} {how:>6}  {text:>8}  {note}", flush=True)
    text = table(rows, options.opsets)
    print("\n" + text)
    if options.markdown:
        pathlib.Path(options.markdown).write_text("# torchvision's networks as ONNX models\n\nRelative L2 difference to "
                                                  "ONNX Runtime. Written by `tools/exported_models.py --markdown FILE`. Not exported: "
                                                  "PyTorch's exporter itself refuses the network there.\n\n"
                                                  + text + "\n")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(details, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
