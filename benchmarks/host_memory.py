"""Host memory of a process that meets ever new shapes: resident size while random operators run on random shapes.

    python benchmarks/host_memory.py --shapes 10000
"""
import argparse
import random

import torch
from torch.nn import functional as F


def resident_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def tensor(*shape):
    return torch.randn(*shape, device="ocl", requires_grad=True)


def convolution(n):
    c = n(1, 16)
    return F.conv2d(tensor(n(1, 4), c, n(5, 30), n(5, 30)), tensor(n(1, 24), c, n(1, 5), n(1, 5)), padding=n(0, 2))


def matmul(n):
    k = n(1, 100)
    return tensor(n(1, 100), k) @ tensor(k, n(1, 100))


def pointwise(n):
    rows, columns = n(1, 60), n(1, 300)
    return torch.tanh(tensor(rows, columns) * tensor(columns) + tensor(rows, 1))


def reduction(n):
    return tensor(n(1, 20), n(1, 60), n(1, 60)).logsumexp(n(0, 2))


def attention(n):
    batch, heads, width, length = n(1, 3), n(1, 4), 8 * n(1, 8), n(1, 60)
    q = tensor(batch, heads, n(1, 60), width)
    k, v = tensor(batch, heads, length, width), tensor(batch, heads, length, width)
    return F.scaled_dot_product_attention(q, k, v)


def pool(n):
    return F.max_pool2d(tensor(n(1, 4), n(1, 16), n(4, 40), n(4, 40)), n(1, 4))


def batch_norm(n):
    return F.batch_norm(tensor(n(2, 8), n(1, 32), n(2, 20), n(2, 20)), None, None, training=True)


OPERATORS = (convolution, matmul, pointwise, reduction, attention, pool, batch_norm)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", type=int, default=10000)
    parser.add_argument("--every", type=int, default=1000)
    options = parser.parse_args()
    imported = resident_mib()
    (torch.ones(1, device="ocl") + 1).item()
    print(f"after import torch {imported:.0f} MiB, after the first operator {resident_mib():.0f} MiB", flush=True)
    generator = random.Random(0)
    for i in range(1, options.shapes + 1):
        generator.choice(OPERATORS)(generator.randint).sum().backward()
        if i % options.every == 0:
            torch.ocl.synchronize()
            print(f"{i} shapes: {resident_mib():.0f} MiB, {torch.ocl.memory_reserved() / 2**20:.0f} of them the "
                  f"allocator's, {torch.ocl.program_builds()} programs built", flush=True)


if __name__ == "__main__":
    main()
