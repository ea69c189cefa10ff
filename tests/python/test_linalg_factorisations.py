"""LU, QR, LDL, singular values and eigenvalues against their definitions."""
import pytest
import torch
from torch.testing import assert_close

from matrices import TOLERANCE, close, dtypes, matrices, sizes, unit


@dtypes
@sizes
@pytest.mark.parametrize("shape", ("square", "tall", "wide"))
def test_lu_and_qr(shape, size, dtype, device):
    a = matrices(size * 2 if shape == "tall" else size, size * 2 if shape == "wide" else size, dtype)
    p, l, u = torch.linalg.lu(a.to(device))
    close(p @ l @ u, a)
    assert (l.abs() <= (2**0.5 if dtype.is_complex else 1) + 1e-5).all()   # sizes of complex pivots are |re| + |im|
    assert torch.equal(u, u.triu()) and torch.equal(l, l.tril())
    for mode in ("reduced", "complete"):
        q, r = torch.linalg.qr(a.to(device), mode)
        close(q @ r, a)
        close(q.mH @ q, unit(q.shape[-1], a))


@dtypes
@pytest.mark.parametrize("size", (1, 7, 40))
@pytest.mark.parametrize("shape", ("square", "tall", "wide"))
def test_svd(shape, size, dtype, device):
    a = matrices(size * 2 if shape == "tall" else size, size * 2 if shape == "wide" else size, dtype)
    for full in (False, True):
        u, s, vh = torch.linalg.svd(a.to(device), full_matrices=full)
        close(s, torch.linalg.svdvals(a))
        k = s.shape[-1]
        close((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a)
        close(u.mH @ u, unit(u.shape[-1], a))
        close(vh @ vh.mH, unit(vh.shape[-2], a))


@dtypes
@pytest.mark.parametrize("size", (1, 7, 40))
def test_eigh(size, dtype, device):
    a = matrices(size, size, dtype)
    a = a + a.mH
    values, vectors = torch.linalg.eigh(a.to(device))
    close(values, torch.linalg.eigvalsh(a))
    close(vectors.mH @ vectors, unit(size, a))
    close(vectors * values.unsqueeze(-2) @ vectors.mH, a)
    upper = torch.linalg.eigvalsh(a.triu().to(device), UPLO="U")
    close(upper, torch.linalg.eigvalsh(a))


@pytest.mark.parametrize("dtype", (torch.float32, torch.complex64), ids=str)
def test_float32_is_as_exact_as_lapack(dtype, device):
    """Errors against float64 at n = 120: no more than five times LAPACK's, or a few roundings."""
    n = 120
    wide = torch.float64 if dtype == torch.float32 else torch.complex128
    a = torch.randn(n, n, dtype=dtype)
    h = a + a.mH
    values = torch.linalg.eigvalsh(h.to(wide))
    singular = torch.linalg.svdvals(a.to(wide))

    def eigh_error(values_, vectors):
        values_, vectors = values_.cpu().to(values.dtype), vectors.cpu().to(wide)
        return max((values_ - values).abs().max() / values.abs().max(),
                   (h.to(wide) @ vectors - vectors * values_).abs().max() / values.abs().max(),
                   (vectors.mH @ vectors - torch.eye(n)).abs().max())

    def svd_error(u, s, vh):
        u, s, vh = u.cpu().to(wide), s.cpu().to(singular.dtype), vh.cpu().to(wide)
        return max((s - singular).abs().max() / singular.max(), (u * s @ vh - a.to(wide)).abs().max() / singular.max(),
                   (u.mH @ u - torch.eye(n)).abs().max(), (vh @ vh.mH - torch.eye(n)).abs().max())

    for name, function, error, x in (("eigh", torch.linalg.eigh, eigh_error, h),
                                     ("svd", torch.linalg.svd, svd_error, a)):
        found, lapack = error(*function(x.to(device))).item(), error(*function(x)).item()
        assert found <= max(5 * lapack, 2e-6), f"{name}: error {found:.2e}, LAPACK's {lapack:.2e}"


@dtypes
@pytest.mark.parametrize("size", (1, 2, 3, 7, 40, 130))
def test_eig(size, dtype, device):
    a = matrices(size, size, dtype)
    values, vectors = torch.linalg.eig(a.to(device))
    scale = torch.linalg.matrix_norm(a).max()
    close(a.to(values.dtype) @ vectors.cpu() / scale, vectors.cpu() * values.cpu().unsqueeze(-2) / scale)
    close(torch.linalg.vector_norm(vectors, dim=-2), torch.ones(2, size, dtype=a.real.dtype))
    expected = torch.linalg.eigvals(a)
    for found in (values, torch.linalg.eigvals(a.to(device))):
        gap = (found.cpu().unsqueeze(-1) - expected.unsqueeze(-2)).abs()   # each has a partner
        assert gap.amin(-1).max() / scale < TOLERANCE[dtype] and gap.amin(-2).max() / scale < TOLERANCE[dtype]
    if not dtype.is_complex:
        imaginary = values.cpu().imag.sort().values
        assert torch.equal(imaginary, -imaginary.flip(-1))   # pairs are exact
        assert (vectors.mT[values.imag == 0].imag == 0).all()


@dtypes
def test_eig_of_special_matrices(dtype, device):
    n = 6
    triangle = torch.randn(n, n, dtype=dtype).triu()
    cyclic = torch.eye(n, dtype=dtype).roll(1, 0)
    badly_scaled = torch.randn(n, n, dtype=dtype) * 10.0 ** torch.arange(n).sub(3).mul(2)
    for a in (torch.zeros(n, n, dtype=dtype), torch.eye(n, dtype=dtype), triangle, triangle.mT.contiguous(), cyclic,
              torch.block_diag(cyclic, triangle), badly_scaled, torch.ones(n, n, dtype=dtype)):
        values, vectors = torch.linalg.eig(a.to(device))
        values, vectors = values.cpu(), vectors.cpu()
        norm = a.abs().max().clamp_min(1)
        expected, columns = torch.linalg.eig(a)
        errors = [(a.to(w.dtype) @ v - v * w).abs().max() / norm for w, v in ((values, vectors), (expected, columns))]
        assert errors[0] < max(10 * TOLERANCE[dtype], 4 * errors[1])   # LAPACK's own is large where scales differ much
        assert ((values.unsqueeze(-1) - expected).abs().amin(-1).max() / norm) < 10 * TOLERANCE[dtype]
    assert_close(torch.linalg.eig(triangle.to(device))[0].cpu(), triangle.diag().to(values.dtype), rtol=0, atol=0)


def test_eig_refuses(device):
    with pytest.raises(RuntimeError, match="infs or NaNs"):
        torch.linalg.eig(torch.tensor([[1.0, float("nan")], [0, 1]], device=device))
    with pytest.raises(RuntimeError, match="square"):
        torch.linalg.eig(torch.ones(2, 3, device=device))
    assert torch.linalg.eig(torch.ones(0, 0, device=device))[1].shape == (0, 0)
    assert torch.linalg.eigvals(torch.ones(2, 0, 0, device=device)).shape == (2, 0)


@dtypes
@pytest.mark.parametrize("hermitian", (False, True))
@pytest.mark.parametrize("size", (1, 2, 5, 40))
def test_ldl(size, hermitian, dtype, device):
    a = matrices(size, size, dtype)
    a = a + (a.mH if hermitian else a.mT)
    a[0].diagonal().zero_()   # blocks of order 2
    ld, pivots, info = torch.linalg.ldl_factor_ex(a.to(device), hermitian=hermitian)
    expected = torch.linalg.ldl_factor_ex(a, hermitian=hermitian)
    assert torch.equal(pivots.cpu(), expected[1]) and torch.equal(info.cpu(), expected[2])
    close(ld, expected[0])
    b = matrices(size, 3, dtype)
    if (info == 0).all():
        x = torch.linalg.ldl_solve(ld, pivots, b.to(device), hermitian=hermitian).cpu()
        close(a @ x / a.abs().max(), b / a.abs().max())


@pytest.mark.parametrize("size", [1.0, 1e-25])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("rows,columns", [(3, 3), (5, 5), (20, 8), (8, 20), (40, 40)])
def test_svd_of_equal_rows(rows, columns, dtype, size, device):
    """All but one of the rotated columns vanish: nothing may be divided by them, and rotations must stay unitary."""
    a = (size * torch.randn(columns, dtype=dtype)).expand(rows, columns)
    u, s, vh = (x.cpu() for x in torch.linalg.svd(a.to(device), full_matrices=False))
    digits = dict(rtol=0, atol=1e-4 if dtype in (torch.float32, torch.complex64) else 1e-12)
    unit = torch.eye(min(rows, columns), dtype=dtype)
    torch.testing.assert_close(u.mH @ u, unit, **digits)
    torch.testing.assert_close(vh @ vh.mH, unit, **digits)
    torch.testing.assert_close((u * (s / size)) @ vh, a / size, rtol=0, atol=10 * digits["atol"])
    q, r = (x.cpu() for x in torch.linalg.qr(a.to(device)))
    torch.testing.assert_close(q.mH @ q, unit, **digits)
    torch.testing.assert_close(q @ (r / size), a / size, rtol=0, atol=10 * digits["atol"])


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.complex64, torch.complex128), ids=str)
@pytest.mark.parametrize("rows,columns", [(64, 64), (100, 130), (200, 70), (70, 200), (257, 129), (33, 31)])
def test_qr_in_blocks(rows, columns, dtype, device):
    a = torch.randn(2, rows, columns, dtype=dtype)
    count, exact = min(rows, columns), torch.complex128 if dtype.is_complex else torch.float64
    bound = dict(rtol=0, atol=10 * (rows + columns) * torch.finfo(dtype).eps)
    for mode in ("reduced", "complete"):
        q, r = (x.cpu().to(exact) for x in torch.linalg.qr(a.to(device), mode=mode))
        torch.testing.assert_close(q @ r, a.to(exact), **bound)
        torch.testing.assert_close(q.mH @ q, torch.eye(q.shape[-1], dtype=exact).expand(2, -1, -1), **bound)
        assert (r.tril(-1) == 0).all()
    factors, tau = torch.geqrf(a.to(device))
    q = torch.linalg.qr(a.to(device), mode="complete")[0].cpu().to(exact)
    for left, transpose in ((True, False), (True, True), (False, False), (False, True)):
        c = torch.randn(2, rows, 50, dtype=dtype)
        c = c if left else c.mT.contiguous()
        got = torch.ormqr(factors, tau, c.to(device), left=left, transpose=transpose).cpu().to(exact)
        turned = q.mH if transpose else q
        torch.testing.assert_close(got, turned @ c.to(exact) if left else c.to(exact) @ turned, **bound)
    assert tau.shape == (2, count)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.complex64, torch.complex128), ids=str)
@pytest.mark.parametrize("columns", (5, 70))
def test_qr_of_tiny_and_huge_numbers(columns, dtype, device):
    """Their squares vanish or overflow."""
    info = torch.finfo(dtype)
    for size in (1e4 * info.tiny, info.max / 1e4):
        a = torch.randn(80, columns, dtype=dtype) * size
        q, r = (x.cpu() for x in torch.linalg.qr(a.to(device)))
        digits = dict(rtol=0, atol=2000 * info.eps)
        torch.testing.assert_close(q.mH @ q, torch.eye(columns, dtype=dtype), **digits)
        torch.testing.assert_close(q @ (r / size), a / size, **digits)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.complex64), ids=str)
@pytest.mark.parametrize("shape", [(5, 5), (2, 7, 4), (2, 1, 4, 7), (0, 3, 2), (3, 0, 2)])
def test_geqrf_lies_by_columns(shape, dtype, device):
    a = torch.randn(shape, dtype=dtype)
    factors, tau = torch.geqrf(a.to(device))
    assert factors.mT.is_contiguous()
    torch.testing.assert_close((factors.cpu(), tau.cpu()), tuple(torch.geqrf(a)))


def test_householder_product_refuses_an_out_that_cannot_hold_it(device):
    a, tau = torch.randn(4, 3, device=device), torch.randn(3, device=device)
    with pytest.raises(RuntimeError, match="safely castable"):
        torch.linalg.householder_product(a, tau, out=torch.empty(4, 3, dtype=torch.int32, device=device))
