"""Triangular systems and those of factors, of every layout and on either side, against PyTorch's CPU."""
import pytest
import torch
from torch.testing import assert_close

# What a product of n terms may be off by, relative to the largest element.
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-12, torch.complex64: 1e-4, torch.complex128: 1e-12}
dtypes = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


def matrices(rows, columns, dtype):
    return torch.randn(2, rows, columns, dtype=dtype)


def close(actual, expected):
    scale = max(expected.abs().max().item(), 1e-3)
    assert_close(actual.cpu() / scale, expected / scale, rtol=0, atol=TOLERANCE[expected.dtype])


# Rows solved at once and in blocks; one right-hand side, some, and more than a strip of columns.
SYSTEMS = ((1, 1), (5, 3), (33, 1), (34, 5), (65, 40), (130, 1), (300, 2), (300, 37))


def as_laid(a, layout):
    """The matrix with rows together, columns together, or gaps between elements."""
    if layout == "columns":
        return a.mT.contiguous().mT
    if layout == "gaps":
        wide = torch.empty(*a.shape[:-1], 2 * a.shape[-1], dtype=a.dtype, device=a.device)[..., ::2]
        return wide.copy_(a)
    return a


@dtypes
@pytest.mark.parametrize("layout", ("rows", "columns", "gaps"))
@pytest.mark.parametrize("size, columns", SYSTEMS, ids=str)
def test_triangular_systems(size, columns, layout, dtype, device):
    a = matrices(size, size, dtype) / size ** 0.5 + 2 * torch.eye(size, dtype=dtype)
    b = matrices(size, columns, dtype)
    on_device = as_laid(a.to(device), layout), as_laid(b.to(device), layout)
    for upper in (False, True):
        for unitriangular in (False, True):
            close(torch.linalg.solve_triangular(*on_device, upper=upper, unitriangular=unitriangular),
                  torch.linalg.solve_triangular(a, b, upper=upper, unitriangular=unitriangular))
        close(torch.linalg.solve_triangular(on_device[0], on_device[1].mT, upper=upper, left=False),
              torch.linalg.solve_triangular(a, b.mT, upper=upper, left=False))
        close(torch.cholesky_solve(on_device[1], on_device[0], upper=upper), torch.cholesky_solve(b, a, upper=upper))


@dtypes
@pytest.mark.parametrize("size, columns", SYSTEMS, ids=str)
def test_solves_by_factors(size, columns, dtype, device):
    a = (matrices(size, size, dtype) + 3 * size ** 0.5 * torch.eye(size, dtype=dtype)).flip(-1)   # rows are exchanged
    b = matrices(size, columns, dtype)
    lu, pivots = torch.linalg.lu_factor(a)
    for adjoint in (False, True):
        for left in (True, False):
            rhs = b if left else b.mT
            close(torch.linalg.lu_solve(lu.to(device), pivots.to(device), rhs.to(device), left=left, adjoint=adjoint),
                  torch.linalg.lu_solve(lu, pivots, rhs, left=left, adjoint=adjoint))
    close(torch.linalg.inv(a.to(device)), torch.linalg.inv(a))


def test_broadcast_systems(device):
    a = torch.randn(3, 1, 6, 6) + 5 * torch.eye(6)
    b = torch.randn(4, 6, 2)
    close(torch.linalg.solve_triangular(a.to(device), b.to(device), upper=True),
          torch.linalg.solve_triangular(a, b, upper=True))
    close(torch.linalg.solve(a.to(device), b.to(device)), torch.linalg.solve(a, b))
