"""Factorisations of many small matrices, which CPUs keep in the lanes of vectors."""
import pytest
import torch

TYPES = pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.complex64, torch.complex128), ids=str)


def layouts(a):
    """The same matrices in rows, in columns, with gaps and, where they are complex, lazily conjugated."""
    wide = torch.zeros(*a.shape[:-2], 2 * a.shape[-2], a.shape[-1] + 1, dtype=a.dtype)
    wide[..., ::2, 1:] = a
    yield a, lambda t: t
    yield a.mT.contiguous(), lambda t: t.mT
    yield wide, lambda t: t[..., ::2, 1:]
    if a.is_complex():
        yield a.conj().resolve_conj(), lambda t: t.conj()


def digits(dtype):
    return dict(rtol=0, atol=1e-11 if dtype in (torch.float64, torch.complex128) else 2e-4)


@TYPES
@pytest.mark.parametrize("shape", [(64, 1, 1), (100, 3, 3), (5, 41, 4, 4), (131, 8, 8), (70, 5, 8), (70, 8, 2),
                                   (70, 9, 9), (3, 4, 4)])
def test_lu(shape, dtype, device):
    a = torch.randn(shape, dtype=dtype)
    for stored, seen in layouts(a):
        x = seen(stored.to(device))
        for got, own in zip(torch.linalg.lu_factor_ex(x), torch.linalg.lu_factor_ex(a), strict=True):
            assert got.stride() == own.stride()
            torch.testing.assert_close(got.cpu(), own, **digits(dtype))
        p, l, u = (t.cpu() for t in torch.linalg.lu(x))
        torch.testing.assert_close(p @ l @ u, a, **digits(dtype))
        if shape[-1] == shape[-2]:
            torch.testing.assert_close(torch.linalg.det(x).cpu(), torch.linalg.det(a), rtol=1e-3, atol=1e-3)
            for got, own in zip(torch.linalg.slogdet(x), torch.linalg.slogdet(a), strict=True):
                torch.testing.assert_close(got.cpu(), own, rtol=1e-3, atol=1e-3)
            ones = torch.eye(shape[-1], dtype=dtype).expand(shape)
            inverse = torch.linalg.inv(x).cpu()   # of any condition: what it leaves is measured by its own size
            size = inverse.abs().amax((-2, -1), keepdim=True).clamp(min=1)
            torch.testing.assert_close(a @ inverse / size, ones / size, **digits(dtype))


@TYPES
def test_lu_of_singular_matrices(dtype, device):
    a = torch.randn(80, 4, 4, dtype=dtype)
    a[::2, :, 1] = 0
    a[1::4] = 0
    a[3::8, 2] = a[3::8, 0]   # of equal pivots the first
    for got, own in zip(torch.linalg.lu_factor_ex(a.to(device)), torch.linalg.lu_factor_ex(a), strict=True):
        torch.testing.assert_close(got.cpu()[::2], own[::2], **digits(dtype))
        torch.testing.assert_close(got.cpu()[1::4], own[1::4], **digits(dtype))
    with pytest.raises(RuntimeError, match="singular"):
        torch.linalg.inv(a.to(device))
    assert (torch.linalg.det(a.to(device))[::2] == 0).all()


@TYPES
def test_lu_without_pivots_into_outputs_with_gaps(dtype, device):
    """PyTorch's CPU knows no pivot=False."""
    a = torch.randn(90, 5, 5, dtype=dtype) + 6 * torch.eye(5, dtype=dtype)
    _, l, u = (t.cpu() for t in torch.linalg.lu(a.to(device), pivot=False))
    torch.testing.assert_close(l @ u, a, **digits(dtype))
    out = (torch.zeros(90, 5, 10, dtype=dtype, device=device)[..., ::2],
           torch.zeros(90, 10, dtype=torch.int32, device=device)[:, ::2],
           torch.zeros(180, dtype=torch.int32, device=device)[::2])
    torch.linalg.lu_factor_ex(a.to(device), out=out)
    for got, own in zip(out, torch.linalg.lu_factor_ex(a), strict=True):
        torch.testing.assert_close(got.cpu(), own, **digits(dtype))


@TYPES
@pytest.mark.parametrize("upper", (False, True))
@pytest.mark.parametrize("shape", [(64, 1), (100, 3), (5, 41, 4), (131, 8), (70, 9), (3, 4)])
def test_cholesky(shape, upper, dtype, device):
    a = torch.randn(*shape, shape[-1], dtype=dtype)
    a = a @ a.mH + torch.eye(shape[-1], dtype=dtype)
    for stored, seen in layouts(a):
        x = seen(stored.to(device))
        own = torch.linalg.cholesky(a, upper=upper)
        torch.testing.assert_close(torch.linalg.cholesky(x, upper=upper).cpu(), own, **digits(dtype))
    # The other triangle is not read.
    others = torch.ones_like(a, dtype=torch.bool)
    half = torch.where(others.tril(-1) if upper else others.triu(1), torch.nan, a)
    torch.testing.assert_close(torch.linalg.cholesky(half.to(device), upper=upper).cpu(), own, **digits(dtype))


@TYPES
def test_cholesky_of_indefinite_matrices(dtype, device):
    a = torch.eye(6, dtype=dtype).repeat(96, 1, 1)
    for k in range(6):
        a[k::8, k, k] = -1 if k % 2 else torch.nan
    own, code = torch.linalg.cholesky_ex(a)
    got, found = (t.cpu() for t in torch.linalg.cholesky_ex(a.to(device)))
    assert torch.equal(found, code)
    torch.testing.assert_close(got[code == 0], own[code == 0])
