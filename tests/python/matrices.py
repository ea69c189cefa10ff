"""What the tests of linear algebra share: random matrices, and how far results may be from what is expected."""
import pytest
import torch
from torch.testing import assert_close

# What a product of n terms may be off by, relative to the largest element.
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-12, torch.complex64: 1e-4, torch.complex128: 1e-12}
dtypes = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
# One panel, several panels, none.
sizes = pytest.mark.parametrize("size", (1, 7, 64, 130), ids=str)


def matrices(rows, columns, dtype):
    return torch.randn(2, rows, columns, dtype=dtype)


def close(actual, expected):
    scale = max(expected.abs().max().item(), 1e-3)
    assert_close(actual.cpu() / scale, expected / scale, rtol=0, atol=TOLERANCE[expected.dtype])


def unit(n, like):
    return torch.eye(n, dtype=like.dtype).expand(like.shape[0], n, n)
