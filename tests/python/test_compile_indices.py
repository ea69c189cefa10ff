"""torch.compile on the device: index expressions that become values, and divisions of indices that may be negative."""

import subprocess
import sys

import pytest
import torch

from compiled import check


def large_values(x):
    i = torch.arange(x.shape[0], device=x.device)
    return (i * 100003 // 7, i * 100003 % 7 + x, (i * -100003 - 3) // 7, (i * 100003 - 5) % 1000, i * i // 3,
            i * i * 100)


@pytest.mark.parametrize("dynamic", (False, True))
def test_values_beyond_32_bits(dynamic):
    check(large_values, torch.zeros(100000, dtype=torch.int64), dynamic=dynamic)


@pytest.mark.parametrize("dynamic", (False, True))
def test_divisions_of_negative_indices(dynamic):
    def shifted(x):
        i = torch.arange(x.shape[0], device=x.device) - 7
        return (x[(i // 3) % x.shape[0]], x[(i % 5)], i // 4, i % 4, i // -3, i % -3)

    check(shifted, torch.randn(37), dynamic=dynamic)


# A kernel that divides by zero in lanes that are masked away ends the process.
SCAN = """
import torch
from torch._higher_order_ops.associative_scan import associative_scan

def scan(a, u, d, c):
    a = torch.exp(-torch.exp(a)[None, :, None, None] * torch.nn.functional.softplus(d)[..., None])
    b = torch.nn.functional.silu(u)[..., None] * c[:, None]
    return associative_scan(lambda x, y: (y[0] * x[0], y[0] * x[1] + y[1]), (a.expand_as(b), b), dim=2,
                            combine_mode="generic")

compiled = torch.compile(scan, dynamic=True)
for batch, length in ((2, 12), (3, 15)):
    shapes = (16,), (batch, 16, length), (batch, 16, length), (batch, length, 8)
    args = [torch.randn(shape) for shape in shapes]
    for actual, expected in zip(compiled(*(x.to("ocl") for x in args)), scan(*args)):
        torch.testing.assert_close(actual.cpu(), expected)
"""


def test_an_associative_scan_of_any_length():
    done = subprocess.run([sys.executable, "-c", SCAN], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
