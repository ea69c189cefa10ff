"""torch.linalg against PyTorch's CPU, and factorisations against their definitions."""
import pytest
import torch
from torch.testing import assert_close

from opinfo import cases, check, check_gradients

# Unique results: compared with the CPU's, gradients too.
UNIQUE = {"linalg.det", "linalg.slogdet", "logdet", "linalg.inv", "linalg.inv_ex", "linalg.solve", "linalg.solve_ex",
          "linalg.cholesky", "linalg.cholesky_ex", "cholesky", "cholesky_solve", "cholesky_inverse", "linalg.lu_factor",
          "linalg.lu", "linalg.lu_solve", "lu", "lu_solve", "lu_unpack", "linalg.solve_triangular", "triangular_solve",
          "linalg.qr", "qr", "geqrf", "ormqr", "linalg.householder_product", "linalg.eigvalsh", "linalg.svdvals",
          "linalg.matrix_power", "linalg.tensorinv", "linalg.tensorsolve", "linalg.matrix_rank", "linalg.pinv",
          "linalg.cond", "linalg.norm", "matrix_exp", "linalg.ldl_factor", "linalg.ldl_factor_ex", "linalg.ldl_solve",
          "linalg.lstsq", "linalg.polar",
          "linalg.matrix_sqrth"}
OPS = {case[0].formatted_name: case[0] for case in cases(UNIQUE)}
DIFFERENTIABLE = [op for op in OPS.values() if op.supports_autograd]


def op_id(op):
    return op.formatted_name


@pytest.mark.parametrize("dtype", (torch.float64, torch.complex128), ids=str)
@pytest.mark.parametrize("op", OPS.values(), ids=op_id)
def test_against_cpu(op, dtype, device):
    if op.supports_dtype(dtype, "cpu"):
        check(op, dtype, device)


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=op_id)
def test_gradients(op, device):
    check_gradients(op, device)


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
@sizes
def test_cholesky_and_solve(size, dtype, device):
    a, b = matrices(size, size, dtype), matrices(size, 3, dtype)
    positive = a @ a.mH + size * torch.eye(size, dtype=dtype)
    factor = torch.linalg.cholesky(positive.to(device))
    close(factor, torch.linalg.cholesky(positive))
    close(torch.linalg.cholesky(positive.to(device), upper=True), torch.linalg.cholesky(positive, upper=True))
    close(torch.cholesky_solve(b.to(device), factor), torch.linalg.solve(positive, b))
    close(torch.linalg.solve(positive.to(device), b.to(device)), torch.linalg.solve(positive, b))
    close(torch.linalg.solve(positive.to(device), b.mT.to(device), left=False),
          torch.linalg.solve(positive, b.mT, left=False))
    close(positive.to(device) @ torch.linalg.inv(positive.to(device)), unit(size, a))


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


@pytest.mark.parametrize("dtype", (torch.float64, torch.complex128), ids=str)
@pytest.mark.parametrize("transposed", (False, True))
def test_gradients_of_solutions_and_determinants(transposed, dtype, device):
    a, b = matrices(5, 5, dtype), matrices(5, 2, dtype)
    a = a.mT if transposed else a
    for function in (torch.linalg.solve, lambda x, y: torch.linalg.solve(x, y.mT, left=False),
                     lambda x, y: torch.linalg.det(x) * y[:, 0, 0],
                     lambda x, y: torch.linalg.slogdet(x)[1] * y[:, 0, 0].abs()):
        results = []
        for where in ("cpu", device):
            leaves = [torch.empty_strided(t.shape, t.stride(),
                                          dtype=dtype).copy_(t).to(where).requires_grad_() for t in (a, b)]
            y = function(*leaves)
            results.append([g.cpu() for g in torch.autograd.grad(y, leaves, torch.ones_like(y))])
        assert_close(results[1], results[0])


def test_rank_deficient_and_special_matrices(device):
    a = torch.zeros(3, 4, 4)
    a[1] = torch.outer(torch.arange(4.0), torch.ones(4))
    a[2] = torch.diag(torch.tensor([2.0, -3, 0, 1]))
    u, s, vh = torch.linalg.svd(a.to(device))
    close(s, torch.linalg.svdvals(a))
    close((u * s.unsqueeze(-2)) @ vh, a)
    close(u.mH @ u, unit(4, a))
    close(torch.linalg.eigvalsh(a[2].to(device)), torch.tensor([-3.0, 0, 1, 2]))
    assert torch.linalg.matrix_rank(a.to(device)).tolist() == [0, 1, 3]
    assert torch.linalg.det(a.to(device)).tolist() == [0, 0, 0]
    sign, log = torch.linalg.slogdet(a.to(device))
    assert sign.tolist() == [0, 0, 0] and log.isneginf().all()


@pytest.mark.parametrize("shape", ((0, 3, 3), (2, 0, 0), (0, 0)), ids=str)
def test_empty(shape, device):
    a = torch.empty(shape)
    for function in (torch.linalg.inv, torch.linalg.det, torch.linalg.cholesky, torch.linalg.eigvalsh,
                     torch.linalg.svdvals, lambda t: torch.linalg.qr(t)[0], lambda t: torch.linalg.lu(t)[0],
                     lambda t: torch.linalg.solve(t, t)):
        assert torch.equal(function(a.to(device)).cpu(), function(a))


def test_errors(device):
    singular, negative = torch.zeros(2, 3, 3), -torch.eye(3)
    for function, argument in ((torch.linalg.inv, singular), (torch.linalg.cholesky, negative),
                               (lambda t: torch.linalg.solve(t, t), singular), (torch.linalg.inv, torch.ones(2, 3)),
                               (torch.linalg.cholesky, torch.ones(3))):
        with pytest.raises(RuntimeError) as expected:
            function(argument)
        with pytest.raises(expected.type) as got:
            function(argument.to(device))
        assert str(got.value).split("\n")[0] == str(expected.value).split("\n")[0]
    with pytest.raises(RuntimeError, match="float16"):
        torch.linalg.det(torch.ones(3, 3, dtype=torch.half, device=device))
    assert torch.linalg.cholesky_ex(negative.to(device)).info.item() == 1
    assert torch.linalg.inv_ex(singular.to(device)).info.tolist() == [1, 1]


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.complex64, torch.float16, torch.bfloat16),
                         ids=str)
def test_matrix_exp_of_small_and_large_norms(dtype, device):
    wide = torch.complex128 if dtype.is_complex else torch.float64
    skew = torch.randn(6, 6, dtype=wide)
    skew = skew - skew.mH
    a = torch.stack([0 * skew, 1e-3 * skew, skew, 4 * skew]).to(dtype)   # exponentials of these are unitary
    expected = torch.linalg.matrix_exp(a.to(wide))
    actual = torch.linalg.matrix_exp(a.to(device))
    assert actual.dtype == dtype
    assert_close(actual.cpu().to(wide), expected, rtol=0, atol={torch.float64: 1e-13, torch.float16: 1e-3,
                                                                torch.bfloat16: 8e-3}.get(dtype, 1e-5))


def test_matrix_exp_of_numbers_that_are_none(device):
    a = torch.eye(2).repeat(3, 1, 1)
    a[1, 0, 1] = float("nan")
    result = torch.linalg.matrix_exp(a.to(device)).cpu()
    assert_close(result[[0, 2]], torch.linalg.matrix_exp(a[[0, 2]]))
    assert result[1].isnan().any()
    assert torch.linalg.matrix_exp(torch.empty(0, 3, 3, device=device)).shape == (0, 3, 3)


@pytest.mark.parametrize("driver", ("gels", "gelsy", "gelsd", "gelss", None))
@pytest.mark.parametrize("shape", ((7, 4), (4, 4), (3, 6), (0, 3), (3, 0)), ids=str)
def test_least_squares(shape, driver, device):
    a, b = torch.randn(2, *shape, dtype=torch.float64), torch.randn(2, shape[0], 3, dtype=torch.float64)
    actual, expected = torch.linalg.lstsq(a.to(device), b.to(device),
                                          driver=driver), torch.linalg.lstsq(a, b, driver=driver)
    if expected.residuals.numel():   # the CPU's of no unknowns are 0 with 'gels'
        expected.residuals.copy_((b - a @ expected.solution).square().sum(-2))
    for found, wanted in zip(actual, expected, strict=True):
        assert_close(found.cpu(), wanted)


@pytest.mark.parametrize("driver", ("gelsy", "gelsd", "gelss"))
def test_least_squares_of_lower_rank(driver, device):
    a = torch.randn(6, 2, dtype=torch.float64) @ torch.randn(2, 4, dtype=torch.float64)
    b = torch.randn(6, dtype=torch.float64)
    actual = torch.linalg.lstsq(a.to(device), b[:, None].to(device), driver=driver)
    assert actual.rank.item() == 2 and actual.residuals.numel() == 0
    assert_close(actual.solution.cpu(), torch.linalg.pinv(a) @ b[:, None])


def test_least_squares_refuses(device):
    a = torch.ones(3, 2, device=device)
    for arguments, message in (((a, torch.ones(4, 1, device=device)), "should match other.size"),
                               ((a, torch.ones(3, 1, device=device).double()), "same dtype"),
                               ((a[0], a), "at least 2 dimensions")):
        with pytest.raises(RuntimeError, match=message):
            torch.linalg.lstsq(*arguments)
    with pytest.raises(RuntimeError, match="should be one of"):
        torch.linalg.lstsq(a, a, driver="none")


def test_solve_broadcasts_both_ways(device):
    for a_batch, b_batch in (((3, 1), (2,)), ((1, 2), (3, 1)), ((), (2, 3)), ((2, 3), ()), ((2, 1), (1, 3))):
        a, b = torch.randn(*a_batch, 4, 4, dtype=torch.float64), torch.randn(*b_batch, 4, 2, dtype=torch.float64)
        close(torch.linalg.solve(a.to(device), b.to(device)), torch.linalg.solve(a, b))
        close(torch.linalg.solve(a.to(device), b.mT.to(device), left=False), torch.linalg.solve(a, b.mT, left=False))


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


@pytest.mark.parametrize("bad", (float("nan"), float("inf"), -float("inf")))
def test_matrices_that_are_not_finite_are_refused(bad, device):
    a = torch.diag_embed(torch.tensor([1.0, 2, 3, 4])).repeat(4, 1, 1)
    a[2, 2, 0] = a[2, 0, 2] = bad
    for call in (torch.linalg.eigvalsh, torch.linalg.svd, torch.linalg.svdvals, torch.linalg.pinv,
                 torch.linalg.matrix_rank, lambda x: torch.linalg.matrix_norm(x, "nuc"),
                 lambda x: torch.linalg.svd(x[..., :2, :]), lambda x: torch.linalg.eigvalsh(x[..., 1:3, 1:3])):
        for matrices in (a, a[2], a[3]):
            errors = []
            for place in ("cpu", device) if bad != bad else (device,):   # LAPACK gives NaN for some infinities
                try:
                    call(matrices.to(place))
                    errors.append(None)
                except torch.linalg.LinAlgError as error:
                    errors.append(str(error).split("converge")[0])
            assert errors[0] == errors[-1], (call, matrices, errors)
    for two in (torch.full((2, 2), bad), torch.full((1, 1), bad)):
        assert not torch.linalg.eigh(two.to(device))[0].cpu().isfinite().any()
    with pytest.raises(torch.linalg.LinAlgError, match="Batch element 2"):
        torch.linalg.eigh(a.to(device))


def test_cholesky_inverse_of_a_factor_with_a_zero(device):
    factor = torch.eye(3).repeat(2, 1, 1)
    torch.testing.assert_close(torch.cholesky_inverse(factor.to(device)).cpu(), torch.cholesky_inverse(factor))
    factor[1, 2, 2] = 0
    for place in ("cpu", device):
        with pytest.raises(torch.linalg.LinAlgError, match="Batch element 1.*diagonal element 3 is zero"):
            torch.cholesky_inverse(factor.to(place))
    assert torch.cholesky_inverse(torch.ones(2, 0, 0, device=device)).shape == (2, 0, 0)


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
