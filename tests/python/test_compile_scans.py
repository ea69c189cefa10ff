"""torch.compile on the device: scans by functions of the caller's."""
import os
import subprocess
import sys

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan

from compiled import on_device
from since import since

randn = torch.randn
pointwise = since("2.14", "scans in one kernel on other devices than CUDA and XPU", torch.__version__ >= (2, 14))


def total(x, y):
    return x + y


def recurrence(x, y):
    return y[0] * x[0], y[0] * x[1] + y[1]


def matrices(x, y):
    """Products of matrices of two rows and columns, which do not commute."""
    (a, b, c, d), (e, f, g, h) = x, y
    return e * a + f * c, e * b + f * d, g * a + h * c, g * b + h * d


def last_largest(x, y):
    later = y[0] >= x[0]
    return torch.where(later, y[0], x[0]), torch.where(later, y[1], x[1])


def any_so_far(x, y):
    return x | y


def one_after_another(function, xs, dim, reverse):
    """The definition."""
    places = range(xs[0].shape[dim])
    so_far, results = None, [torch.empty_like(x) for x in xs]
    for place in reversed(places) if reverse else places:
        here = [x.select(dim, place) for x in xs]
        if so_far is None:
            so_far = here
        else:
            so_far = function(so_far, here) if len(xs) > 1 else [function(so_far[0], here[0])]
        for result, value in zip(results, so_far):
            result.select(dim, place).copy_(value)
    return results


SMALL = [0.5 * randn(3, 300) for _ in range(4)]
CASES = {
    "one row": (total, [randn(1000)], 0, False),
    "rows": (total, [randn(40, 257)], 1, True),
    "columns": (recurrence, [torch.rand(70, 33), randn(70, 33)], 0, False),
    "whole turns": (recurrence, [torch.rand(2, 512), randn(2, 512)], 1, False),
    "no turn is whole": (matrices, SMALL, 1, True),
    "no tile is whole": (total, [randn(2, 2304)], 1, False),
    "several tiles": (recurrence, [torch.rand(2, 5000), randn(2, 5000)], 1, True),
    "places": (last_largest, [randn(5, 300).round(decimals=1), torch.arange(300).repeat(5, 1)], 1, False),
    "few": (total, [torch.randint(-9, 9, (50, 20))], 1, False),
    "float16": (total, [randn(3, 90).half()], 1, False),
    "booleans": (any_so_far, [torch.rand(4, 130) > 0.99], 1, False),
    "one element": (total, [randn(5, 1)], 1, False),
}


def check_scan(function, xs, dim, reverse):
    """With operations before and behind, and a sum of rows in the same kernel."""
    single = len(xs) == 1
    changes = xs[0].dtype != torch.bool

    def scanned(*xs):
        xs = tuple(x * 1 for x in xs) if changes else xs
        found = associative_scan(function, xs[0] if single else xs, dim=dim, reverse=reverse)
        found = (found,) if single else tuple(found)
        return *found, found[0] + 1 if changes else ~found[0], xs[0].sum(dim)

    torch._dynamo.reset()
    actual = torch.compile(scanned, fullgraph=True)(*map(on_device, xs))
    wide = [x.double() if x.is_floating_point() else x for x in xs]
    expected = one_after_another(function, wide, dim, reverse)
    expected += [expected[0] + 1 if changes else ~expected[0], wide[0].sum(dim)]
    tolerance = 2e-2 if xs[0].dtype == torch.float16 else 2e-4
    for a, b in zip(actual, expected):
        assert a.device.type == "ocl" and a.shape == b.shape
        torch.testing.assert_close(a.cpu().to(b.dtype), b, atol=tolerance, rtol=tolerance)


def check_scans_in_one_kernel(length):
    """A scan of what another one gave, what was read before it, what is read where an index says, and reductions."""
    def scanned(x, index):
        x = x / x.abs().amax(1, keepdim=True)
        first = associative_scan(total, x, dim=1)
        second = associative_scan(torch.maximum, first.cos() + x, dim=1, reverse=True)
        return second * first + x.gather(1, index), second.var(1), x.sum(1)

    x, index = randn(3, length), torch.randint(0, length, (3, length))
    torch._dynamo.reset()
    actual = torch.compile(scanned, fullgraph=True)(on_device(x), on_device(index))
    wide = x.double()
    wide = wide / wide.abs().amax(1, keepdim=True)
    first = wide.cumsum(1)
    second = (first.cos() + wide).flip(1).cummax(1)[0].flip(1)
    expected = second * first + wide.gather(1, index), second.var(1), wide.sum(1)
    for a, b in zip(actual, expected):
        assert a.device.type == "ocl"
        torch.testing.assert_close(a.cpu().double(), b, atol=1e-4, rtol=1e-4)


@pointwise
@pytest.mark.parametrize("name", CASES)
def test_scans(name):
    check_scan(*CASES[name])


@pointwise
@pytest.mark.parametrize("length", [100, 300, 2304])
def test_scans_in_one_kernel(length):
    check_scans_in_one_kernel(length)


@pointwise
def test_scans_by_groups_of_work_items():
    environment = {**os.environ, "CLPRIM_DEVICE_KIND": "gpu", "CL_CONFIG_CPU_VECTORIZER_MODE": "1"}
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pointwise
def test_lengths_are_arguments():
    torch._dynamo.reset()
    compiled = torch.compile(lambda a, b: associative_scan(recurrence, (a, b), dim=1), dynamic=True)
    for length in (40, 300, 77):
        xs = torch.rand(4, length), randn(4, length)
        for a, b in zip(compiled(*map(on_device, xs)), one_after_another(recurrence, xs, 1, False)):
            torch.testing.assert_close(a.cpu(), b, atol=1e-4, rtol=1e-4)


# A kernel that divides by zero in lanes that are masked away ends the process.
GENERIC = """
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


def test_a_generic_scan_of_any_length():
    done = subprocess.run([sys.executable, "-c", GENERIC], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1000:]


if __name__ == "__main__":
    for case in CASES.values():
        check_scan(*case)
    for row in (100, 300, 2304):
        check_scans_in_one_kernel(row)
