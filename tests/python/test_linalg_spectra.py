"""Eigenvalues and singular values of matrices that are hard in one way or another, against their definitions."""
import pytest
import torch
from torch.testing import assert_close

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def square(kind, n, dtype):
    a = torch.randn(2, n, n, dtype=dtype)
    info = torch.finfo(dtype)
    if kind == "diagonal":
        return torch.diag_embed(torch.randn(2, n, dtype=dtype))
    if kind == "of rank one":
        return a[..., :1] @ a[..., :1].mH
    if kind == "of equal values":
        q = torch.linalg.qr(a)[0]
        return q @ torch.diag(torch.arange(n) // 3 + 1).to(dtype) @ q.mH
    if kind == "tiny":
        return a * info.tiny ** 0.7
    if kind == "huge":
        return a * info.max ** 0.7
    if kind == "with zeros":
        return torch.block_diag(*[torch.randn(n // 2, n // 2, dtype=dtype), torch.zeros(n - n // 2, n - n // 2,
                                                                                        dtype=dtype)]).expand(2, n, n)
    return a


def tolerance(dtype, n):
    return torch.finfo(dtype).eps * 100 * n ** 0.5


def near(actual, expected, n):
    scale = max(expected.abs().max().item(), torch.finfo(expected.dtype).tiny)
    assert_close(actual / scale, expected / scale, rtol=0, atol=tolerance(expected.dtype, n))


def orthonormal(q, n):
    assert_close(q.mH @ q, torch.eye(q.shape[-1], dtype=q.dtype).expand(2, -1, -1), rtol=0,
                 atol=tolerance(q.dtype, n))


kinds = pytest.mark.parametrize("kind", ("random", "diagonal", "of rank one", "of equal values", "tiny", "huge",
                                         "with zeros"))


@kinds
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", (1, 2, 9, 16, 33, 70))
def test_hermitian(n, dtype, kind, device):
    a = square(kind, n, dtype)
    a = (a + a.mH) / 2
    values, vectors = (t.cpu() for t in torch.linalg.eigh(a.to(device)))
    near((vectors * values.unsqueeze(-2)) @ vectors.mH, a, n)
    orthonormal(vectors, n)
    near(torch.linalg.eigvalsh(a.to(device)).cpu(), torch.linalg.eigvalsh(a), n)


@kinds
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", (1, 2, 9, 33, 50))
def test_singular_values(n, dtype, kind, device):
    a = square(kind, n, dtype)
    for matrix in (a, torch.cat([a, a[:, :1]], 1), a[:, :max(n // 2, 1)]):
        u, s, vh = (t.cpu() for t in torch.linalg.svd(matrix.to(device), full_matrices=False))
        near((u * s.unsqueeze(-2)) @ vh, matrix, n)
        orthonormal(u, n)
        orthonormal(vh.mH, n)
        near(s, torch.linalg.svdvals(matrix), n)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_least_squares_of_deficient_rank(dtype, device):
    for shape in ((2, 12, 5), (2, 5, 12), (2, 8, 8)):
        a, b = torch.randn(shape, dtype=dtype), torch.randn(2, shape[1], 3, dtype=dtype)
        deficient = a.clone()
        deficient[1, :, 1] = 2 * deficient[1, :, 0]
        deficient[1, 1] = deficient[1, 0]
        for matrix in (a, deficient):
            expected = torch.linalg.lstsq(matrix, b)
            actual = torch.linalg.lstsq(matrix.to(device), b.to(device))
            near(actual.solution.cpu(), expected.solution, 1000)
            assert torch.equal(actual.rank.cpu(), expected.rank)


# Eigenvalues far apart, many that are equal, and elements whose squares overflow or vanish.
SPECTRA = {"random": lambda n: torch.randn(n), "graded": lambda n: torch.logspace(-12, 0, n),
           "equal": lambda n: (torch.arange(n) % 3 - 1).float(), "one": lambda n: (torch.arange(n) == 0).float()}


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
@pytest.mark.parametrize("scale", (1.0, 1e25, 1e-30))
@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("size", (2, 3, 33, 100))
def test_spectra(size, spectrum, scale, dtype, device):
    basis = torch.linalg.qr(torch.randn(2, size, size, dtype=torch.float64))[0]
    wanted = SPECTRA[spectrum](size).double()
    a = (basis * wanted @ basis.mT * scale).to(dtype)
    exact = torch.linalg.eigvalsh(a.double())
    largest = exact.abs().max()
    bound = dict(rtol=0, atol=(size + 10) * torch.finfo(dtype).eps)
    values, vectors = (x.cpu().double() for x in torch.linalg.eigh(a.to(device)))
    for found in (values, torch.linalg.eigvalsh(a.to(device)).cpu().double()):
        torch.testing.assert_close(found / largest, exact / largest, **bound)
    torch.testing.assert_close(vectors.mT @ vectors, torch.eye(size, dtype=torch.float64).expand(2, -1, -1), **bound)
    torch.testing.assert_close(vectors * (values / largest).unsqueeze(-2) @ vectors.mT, (a / largest).double(),
                               **bound)
    u, s, vh = (x.cpu().double() for x in torch.linalg.svd(a.to(device)))
    torch.testing.assert_close(s / largest, torch.linalg.svdvals(a.double()) / largest, **bound)
    torch.testing.assert_close(u.mT @ u, torch.eye(size, dtype=torch.float64).expand(2, -1, -1), **bound)
    torch.testing.assert_close(u * (s / largest).unsqueeze(-2) @ vh, (a / largest).double(), **bound)
