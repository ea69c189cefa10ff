"""What profiles cost: a training step of ResNet-18 alone, with torch.ocl.profile_kernels, and with torch.profiler.

Contenders take turns. A step is timed from its first call to the end of its work on the device; beginning and ending a
profile are not part of a step. The last table says what a launch of a small kernel costs the host with and without.
"""
import contextlib
import statistics
import time

import torch
import torchvision
from torch.profiler import ProfilerActivity, profile

from common import parser

BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
CONTENDERS = {
    "off": contextlib.nullcontext,
    "profile_kernels": torch.ocl.profile_kernels,
    "profiler, device": lambda: profile(activities=[ProfilerActivity.PrivateUse1]),
    "profiler, CPU and device": lambda: profile(activities=BOTH),
    "profiler, CPU alone": lambda: profile(activities=[ProfilerActivity.CPU]),
}


def training_step(device, batch, size):
    torch.manual_seed(0)
    model = torchvision.models.resnet18(weights=None, num_classes=10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(batch, 3, size, size, device=device)
    labels = torch.randint(0, 10, (batch,)).to(device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def measure(run, rounds, per_round):
    """Median seconds of a call, by contender."""
    times = {name: [] for name in CONTENDERS}
    for round_number in range(-1, rounds):
        for name, make in CONTENDERS.items():
            with make():
                torch.ocl.synchronize()
                start = time.perf_counter()
                for _ in range(per_round):
                    run()
                torch.ocl.synchronize()
                seconds = (time.perf_counter() - start) / per_round
            if round_number >= 0:
                times[name].append(seconds)
    return times


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--batch", type=int, default=8)
    arguments.add_argument("--size", type=int, default=112)
    options = arguments.parse_args()
    x, y = torch.zeros(1, device="ocl"), torch.ones(1, device="ocl")
    for title, run, per_round, unit in (
            (f"ResNet-18 step, {options.batch} images of {options.size}x{options.size}, ms",
             training_step("ocl", options.batch, options.size), 1, 1e3),
            ("add_ of one element, us", lambda: x.add_(y), 500, 1e6)):
        times = measure(run, options.rounds, per_round)
        print(f"\n{title}")
        for name, seconds in times.items():
            # Of rounds, since contenders of one round met the same machine.
            ratio = statistics.median(a / b for a, b in zip(seconds, times["off"]))
            print(f"  {name:28} {unit * statistics.median(seconds):10.2f}   x {ratio:.3f}")


if __name__ == "__main__":
    main()
