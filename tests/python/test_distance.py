"""torch.cdist and pdist against PyTorch's CPU."""
import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from comparison import compare_gradients
from opinfo import case_id, cases, check, check_gradients

CASES = cases({"cdist", "nn.functional.pdist"})
NORMS = (0, 0.5, 1, 1.5, 2, 3, math.inf)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_against_cpu(case, device):
    check(*case, device)


@pytest.mark.parametrize("op", {case[0].name: case[0] for case in CASES}.values(), ids=lambda op: op.name)
def test_gradients_of_samples(op, device):
    check_gradients(op, device)


@pytest.mark.parametrize("p", NORMS)
def test_norms(p, device):
    x, y = torch.randn(2, 1, 7, 5, dtype=torch.float64), torch.randn(3, 9, 5, dtype=torch.float64)
    y[0, 0] = x[0, 0, 0]                                        # equal points
    y[1, 1, 2] = x[1, 0, 3, 2]                                  # an equal element
    compare_gradients(lambda a, b: torch.cdist(a, b, p), x, y)
    points = torch.randn(8, 4, dtype=torch.float64)
    points[3] = points[5]
    compare_gradients(lambda a: F.pdist(a, p), points)


@pytest.mark.parametrize("mode", ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist",
                                  "donot_use_mm_for_euclid_dist"))
def test_modes_and_views(mode, device):
    x, y = torch.randn(40, 6).t().contiguous().t(), torch.randn(2, 30, 12)[:, :, ::2]
    expected = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
    assert_close(torch.cdist(x.to(device), y.to(device), compute_mode=mode).cpu(), expected, rtol=1e-4, atol=1e-4)


def test_half_precision_and_empty(device):
    x, y = torch.randn(5, 3).half(), torch.randn(4, 3).half()
    assert_close(torch.cdist(x.to(device), y.to(device), 1.0).cpu(), torch.cdist(x.float(), y.float(), 1.0).half())
    for a, b in (((0, 3), (4, 3)), ((4, 0), (5, 0)), ((0, 4, 3), (1, 2, 3))):
        expected = torch.cdist(torch.ones(a), torch.ones(b))
        assert torch.equal(torch.cdist(torch.ones(a, device=device), torch.ones(b, device=device)).cpu(), expected)
    assert F.pdist(torch.ones(1, 3, device=device)).shape == (0,)


def test_errors(device):
    for call in (lambda d: torch.cdist(torch.ones(3, device=d), torch.ones(3, 3, device=d)),
                 lambda d: torch.cdist(torch.ones(3, 2, device=d), torch.ones(3, 3, device=d)),
                 lambda d: torch.cdist(torch.ones(3, 3, device=d), torch.ones(3, 3, device=d), -1),
                 lambda d: F.pdist(torch.ones(2, 3, 3, device=d))):
        with pytest.raises(RuntimeError) as expected:
            call("cpu")
        with pytest.raises(RuntimeError) as got:
            call(device)
        assert str(got.value).split("\n")[0] == str(expected.value).split("\n")[0]
