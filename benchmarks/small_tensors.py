"""Training loops of small tensors, where the host's cost of an operator is everything: the device's time against the
CPU's. Both take turns in every round; processor time of the calling thread is shown beside the clock's.

    python benchmarks/small_tensors.py --rounds 9
"""
import argparse
import statistics
import time

import torch
from torch import nn


def scalars(device):
    """SGD of float64 scalars, written out as PyTorch's tests of optimisers do."""
    parameters = [torch.tensor(1.5, dtype=torch.float64, device=device, requires_grad=True) for _ in range(2)]
    optimizer = torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, foreach=False)

    def step():
        optimizer.zero_grad()
        a, b = parameters
        ((1 - a) ** 2 + 100 * (b - a * a) ** 2).backward()
        optimizer.step()
    return step


def single_tensor(device):
    parameter = torch.ones(10, device=device, requires_grad=True)
    target = torch.zeros(10, device=device)
    optimizer = torch.optim.Adam([parameter], foreach=False)

    def step():
        optimizer.zero_grad()
        (parameter.exp().sqrt() - target).square().mean().backward()
        optimizer.step()
    return step


def perceptron(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    data, labels = torch.randn(8, 16).to(device), torch.randint(0, 4, (8,)).to(device)

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data), labels).backward()
        optimizer.step()
    return step


def turn(step, device, steps):
    thread, clock = time.thread_time(), time.perf_counter()
    for _ in range(steps):
        step()
    if device == "ocl":
        torch.ocl.synchronize()
    return (time.perf_counter() - clock) / steps, (time.thread_time() - thread) / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'':16}{'CPU us':>10}{'ocl us':>10}{'ocl / CPU':>12}{'of the calling thread':>24}")
    for loop in (scalars, single_tensor, perceptron):
        steps = {device: loop(device) for device in ("cpu", "ocl")}
        times = {device: [] for device in steps}
        for number in range(-1, options.rounds):
            for device, step in steps.items():
                seconds = turn(step, device, options.steps)
                if number >= 0:
                    times[device].append(seconds)
        clock, thread = (statistics.median(d[i] / c[i] for c, d in zip(times["cpu"], times["ocl"])) for i in (0, 1))
        cpu, ocl = (statistics.median(t[0] for t in times[device]) * 1e6 for device in ("cpu", "ocl"))
        print(f"{loop.__name__:16}{cpu:10.0f}{ocl:10.0f}{clock:12.2f}{thread:24.2f}")


if __name__ == "__main__":
    main()
