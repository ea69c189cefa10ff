"""torch.linalg against PyTorch's CPU, and solutions against their definitions."""
import pytest
import torch
from torch.testing import assert_close

from matrices import close, dtypes, matrices, sizes, unit
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
