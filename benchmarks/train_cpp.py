"""Trains the same network on Fashion-MNIST with the C++ net API and with PyTorch on the CPU, from the same weights and
over the same batches, and compares losses and steps per second.

    python benchmarks/train_cpp.py [--binary build/examples/train_fashion_mnist] [--solver adam|sgd] [--norm none|batch]

Fails if a loss differs by more than 1e-4 from PyTorch's among the first `--compare` steps. Rounding grows from step to
step in any training, with batch norm much faster; so PyTorch in float64 is run too, and how far either is from that is
shown. With --norm batch it fails if ours is farther from float64 than PyTorch's float32 is.
"""
import argparse
import copy
import json
import struct
import subprocess
import sys
import tempfile
import time
from collections import OrderedDict
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from fashion_mnist_data import FashionMNIST  # noqa: E402


def make_model(batch_norm):
    """The network of examples/train_fashion_mnist.cpp, with its names of parameters."""
    def block(number, inputs, outputs):
        layers = {"conv": nn.Conv2d(inputs, outputs, 3, padding=1), "norm": nn.BatchNorm2d(outputs), "relu": nn.ReLU(),
                  "pool": nn.MaxPool2d(2)}
        return {f"{name}{number}": layer for name, layer in layers.items() if batch_norm or name != "norm"}

    return nn.Sequential(OrderedDict(block(1, 1, 16) | block(2, 16, 32) | {
        "flatten": nn.Flatten(), "fc1": nn.Linear(32 * 7 * 7, 128), "relu3": nn.ReLU(), "fc2": nn.Linear(128, 10)}))


def save_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def train(model, data, steps, options):
    batch, lr, dtype = options.batch, options.lr, next(model.parameters()).dtype
    optimizer = (torch.optim.Adam(model.parameters(), lr=lr) if options.solver == "adam" else
                 torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9))
    criterion = nn.CrossEntropyLoss()
    losses, warm, start = [], min(steps // 2, 20), None
    for step in range(steps):
        if step == warm:
            start = time.perf_counter()
        first = step % (len(data) // batch) * batch
        optimizer.zero_grad()
        loss = criterion(model(data.images[first:first + batch].to(dtype)), data.labels[first:first + batch])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [float(loss) for loss in losses], (steps - warm) / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/examples/train_fashion_mnist")
    parser.add_argument("--device", default="0")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--compare", type=int, default=50)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--solver", choices=("adam", "sgd"), default="adam")
    parser.add_argument("--norm", choices=("none", "batch"), default="none")
    options = parser.parse_args()

    torch.manual_seed(0)
    model, data = make_model(options.norm == "batch"), FashionMNIST(train=True)
    with tempfile.TemporaryDirectory() as folder:
        weights, losses = Path(folder) / "weights.safetensors", Path(folder) / "losses.txt"
        save_safetensors(weights, {name: value for name, value in model.state_dict().items()
                                   if not name.endswith("num_batches_tracked")})
        subprocess.run([options.binary, "--weights", weights, "--losses", losses, "--steps", str(options.steps),
                        "--batch",
                        str(options.batch), "--lr", str(options.lr), "--device", options.device, "--solver",
                        options.solver, "--norm", options.norm], check=True)
        ours = [float(line) for line in losses.read_text().split()]
    exact, _ = train(copy.deepcopy(model).double(), data, options.compare, options)
    theirs, speed = train(model, data, options.steps, options)
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads: "
          f"loss {theirs[0]:.4f} -> {theirs[-1]:.4f}, {speed:.1f} steps/s")

    def worst(losses, others):
        return max(abs(a - b) for a, b in zip(losses[:options.compare], others))

    print(f"largest difference of a loss in the first {options.compare} steps:")
    print(f"  clprim  - PyTorch float64  {worst(ours, exact):.2e}")
    print(f"  PyTorch - PyTorch float64  {worst(theirs, exact):.2e}")
    print(f"  clprim  - PyTorch          {worst(ours, theirs):.2e}")
    if options.norm == "batch":
        return 0 if worst(ours, exact) <= max(1e-4, worst(theirs, exact)) else 1
    return 0 if worst(ours, theirs) <= 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
