"""What the device costs besides arithmetic: enqueueing, waiting, starting, remembering.

- host microseconds of `a.add_(b)` on one element, enqueue only;
- blocking OpenCL calls in a training step that reads its loss once;
- the first ResNet-18 forward of a process, with an empty and with a filled cache of compiled programs;
- memory after a training of two epochs, and what 500 iterations add to the reserved memory.
"""
import gc
import os
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn

from common import Results, parser

FIRST_FORWARD = """
import time
start = time.perf_counter()
import torch, torchvision
imported = time.perf_counter()
torch.manual_seed(0)
model = torchvision.models.resnet18(weights=None).eval()
image = torch.randn(1, 3, 224, 224)
made = time.perf_counter()
with torch.no_grad():
    model.to({device!r})(image.to({device!r})).cpu()
print(time.perf_counter() - made)
"""


def enqueue_microseconds(device, calls=2000):
    a, b = torch.zeros(1, device=device), torch.ones(1, device=device)
    best = float("inf")
    for _ in range(7):
        torch.accelerator.synchronize(device)
        start = time.perf_counter()
        for _ in range(calls):
            a.add_(b)
        best = min(best, (time.perf_counter() - start) / calls)
        torch.accelerator.synchronize(device)
    return 1e6 * best


class Training:
    """A small network on random images; one call is one step that returns the loss without reading it."""

    def __init__(self, device, seed=0):
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
                                   nn.Flatten(), nn.Dropout(0.1), nn.Linear(16 * 8 * 8, 10)).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.images = torch.randn(16, 3, 16, 16, device=device)
        self.labels = torch.randint(0, 10, (16,)).to(device)

    def step(self):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(self.images), self.labels)
        loss.backward()
        self.optimizer.step()
        return loss


def blocking_calls_per_step(device, steps=10):
    training = Training(device)
    training.step().item()
    before = torch.ocl.blocking_calls()
    for _ in range(steps):
        training.step().item()
    return (torch.ocl.blocking_calls() - before) / steps


def first_forward_seconds(device, folder):
    environment = dict(os.environ, CLPRIM_CACHE_DIR=folder)
    code = FIRST_FORWARD.format(device=str(device))
    return float(subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True,
                                text=True).stdout)


def memory_growth(device, iterations=500):
    """Bytes that stay allocated after a training is gone, and bytes by which reserved memory grew meanwhile."""
    Training(device).step().item()   # constants that the library keeps
    gc.collect()
    allocated = torch.ocl.memory_allocated(device)
    training = Training(device)
    for _ in range(20):
        training.step()
    torch.accelerator.synchronize(device)
    reserved = torch.ocl.memory_reserved(device)
    for _ in range(iterations):
        training.step()
    torch.accelerator.synchronize(device)
    grown = torch.ocl.memory_reserved(device) - reserved
    del training
    gc.collect()
    return torch.ocl.memory_allocated(device) - allocated, grown


def main():
    options = parser(__doc__.splitlines()[0]).parse_args()
    results = Results(options)
    microseconds = enqueue_microseconds(options.device)
    results.add(f"a.add_(b) on one element, enqueue only: {microseconds:.1f} us", add_us=microseconds)
    calls = blocking_calls_per_step(options.device)
    results.add(f"blocking OpenCL calls in a training step that reads its loss: {calls:g}", blocking_calls=calls)
    with tempfile.TemporaryDirectory() as folder:
        cold, warm = first_forward_seconds(options.device, folder), first_forward_seconds(options.device, folder)
    results.add(f"first ResNet-18 forward: {cold:.2f} s with an empty program cache, {warm:.2f} s with a filled one",
                cold_s=cold, warm_s=warm)
    left, grown = memory_growth(options.device)
    results.add(f"memory left after training: {left} bytes; reserved memory grew by {grown} bytes in 500 iterations",
                left=left, grown=grown)
    results.save()


if __name__ == "__main__":
    main()
