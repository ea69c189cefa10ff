"""Sparse tensors in compressed layouts: conversions, products, sums, gradients. Everything is compared with PyTorch's
CPU."""

import itertools

import pytest
import torch

from comparison import device
from sparse_tensors import COMPRESSED, DTYPES, compressed, same, same_sum, to_layout, values_of


@pytest.mark.parametrize("layout", COMPRESSED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.complex64, torch.int64, torch.bool])
def test_compressed_from_and_to_dense(layout, dtype):
    x = compressed(layout, dtype)
    dense = x.to_dense()
    y = to_layout(dense.to(device), layout)
    same(y, x)
    same(y.to_dense(), dense)
    same(x.to(device), x)
    same(y.clone(), x)
    same_sum(y.to_sparse(), x.to_sparse())


@pytest.mark.parametrize("source", [torch.sparse_coo, *COMPRESSED])
@pytest.mark.parametrize("target", [torch.sparse_coo, *COMPRESSED])
def test_conversions(source, target):
    x = to_layout(compressed(torch.sparse_csr).to_dense(), source)
    try:
        want = to_layout(x, target)
    except RuntimeError:   # between some block layouts PyTorch has no way
        with pytest.raises(RuntimeError):
            to_layout(x.to(device), target)
        return
    same(to_layout(x.to(device), target), want)


@pytest.mark.parametrize("layout", COMPRESSED)
@pytest.mark.parametrize("dtype", DTYPES)
def test_compressed_products(layout, dtype):
    generator = torch.Generator().manual_seed(1)
    x = compressed(layout, dtype)
    right, left = values_of((12, 10), dtype, generator), values_of((5, 8), dtype, generator)
    wide = torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else torch.int64
    dense = x.to_dense().to(wide)
    same(x.to(device) @ right.to(device), (dense @ right.to(wide)).to(dtype))
    same(left.to(device) @ x.to(device), (left.to(wide) @ dense).to(dtype))
    if layout in (torch.sparse_csr, torch.sparse_bsr):
        same(x.to(device) @ right[:, 0].to(device), (dense @ right[:, 0].to(wide)).to(dtype))


@pytest.mark.parametrize("index_type", [torch.int32, torch.int64])
def test_csr(index_type):
    x = compressed(torch.sparse_csr)
    x = torch.sparse_csr_tensor(x.crow_indices().to(index_type), x.col_indices().to(index_type), x.values(), x.shape)
    y, dense = x.to(device), torch.randn(12, 4)
    assert y.crow_indices().dtype == index_type
    same(y @ dense.to(device), x.to_dense() @ dense)
    same(torch.sin(y), torch.sin(x))
    same(y * 2, x * 2)
    same(-y, -x)
    same(y.sum(), x.sum())
    same(y + y, x + x)
    assert (y + y).crow_indices().dtype == index_type
    same(dense.new_ones(8, 12).to(device) + y, torch.ones(8, 12) + x.to_dense())
    same((y * y).to_dense(), x.to_dense() * x.to_dense())
    same(y[1], x[1])
    same(y.transpose(0, 1), x.transpose(0, 1))
    square = compressed(torch.sparse_csr, shape=(12, 8), seed=3)
    same((y @ square.to(device)).to_dense(), x.to_dense() @ square.to_dense())


@pytest.mark.parametrize("dim", [0, 1, (0, 1)])
def test_csr_sum_and_prod(dim):
    x = compressed(torch.sparse_csr)
    same(x.to(device).sum(dim, keepdim=True), x.sum(dim, keepdim=True))
    same(torch._sparse_csr_prod(x.to(device), dim if isinstance(dim, tuple) else (dim,), True),
         torch._sparse_csr_prod(x, dim if isinstance(dim, tuple) else (dim,), True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
def test_sampled_addmm(dtype):
    generator = torch.Generator().manual_seed(1)
    x = compressed(torch.sparse_csr, dtype)
    a, b = values_of((8, 5), dtype, generator), values_of((5, 12), dtype, generator)
    want = (2 * x.to_dense() + 3 * (a @ b)).sparse_mask(x.to_sparse().coalesce()).to_sparse_csr()
    same(torch.sparse.sampled_addmm(x.to(device), a.to(device), b.to(device), beta=2, alpha=3), want)
    a, b = a[:, :0], b[:0]      # nothing is added
    same(torch.sparse.sampled_addmm(x.to(device), a.to(device), b.to(device), beta=2),
         torch.sparse.sampled_addmm(x, a, b, beta=2))


def test_csr_gradients():
    x = compressed(torch.sparse_csr)
    dense = torch.randn(12, 4)
    a, b = x.clone().requires_grad_(), dense.clone().requires_grad_()
    y, d = x.to(device).requires_grad_(), dense.to(device).requires_grad_()
    (a @ b).square().sum().backward()
    (y @ d).square().sum().backward()
    same(d.grad, b.grad)
    same(y.grad.to_dense(), a.grad.to_dense())


def test_batches_of_csr():
    x = torch.stack([compressed(torch.sparse_csr, seed=0).to_dense()] * 2).to_sparse_csr()
    same(x.to(device), x)
    same(x.to(device).to_dense(), x.to_dense())
    same(x.to_dense().to(device).to_sparse_csr(), x)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.bfloat16))
@pytest.mark.parametrize("reduce", ("sum", "mean", "amax", "amin"))
def test_mm_with_a_reduction(reduce, dtype):
    a = torch.randn(6, 5, dtype=dtype) * (torch.rand(6, 5) < 0.6)
    a[2] = 0   # a row without entries
    b = torch.randn(5, 4, dtype=dtype)
    outcomes = []
    for place in ("cpu", device):
        left = a.to(place).to_sparse_csr().requires_grad_()
        right = b.to(place).requires_grad_()
        y = torch.sparse.mm(left, right, reduce)
        of_a, of_b = torch.autograd.grad(y.square().sum(), (left, right))
        outcomes.append([y.detach(), of_a.to_dense(), of_b])
    tolerances = dict(rtol=2e-2, atol=5e-2) if dtype == torch.bfloat16 else {}
    for actual, expected in zip(outcomes[1], outcomes[0]):
        torch.testing.assert_close(actual.cpu(), expected, **tolerances)


def test_mm_with_a_reduction_refuses():
    a = torch.eye(3, device=device).to_sparse_csr()
    with pytest.raises(RuntimeError, match="reduce"):
        torch.sparse.mm(a, torch.ones(3, 2, device=device), "prod")
    with pytest.raises(RuntimeError, match="3 rows"):
        torch.sparse.mm(a, torch.ones(4, 2, device=device), "amax")


@pytest.mark.parametrize("pointers,columns", [([0, 10**9, 2 * 10**9, 3 * 10**9], [0, 1]), ([0, 1, 1, 10**7], [0, 1]),
                                              ([-10**12, 0, 1, 2], [0, 1]), ([0, 1, 2, 2], [10**9, -10**9]),
                                              ([2**62, 2**62, 2**63 - 1, 2**62], [2**62, -2**62])])
def test_malformed_indices_reach_no_other_memory(pointers, columns):
    """Indices that nothing checked are an IndexError once a product has read them."""
    matrix = torch.sparse_csr_tensor(torch.tensor(pointers, device=device), torch.tensor(columns, device=device),
                                     torch.ones(2, device=device), size=(3, 4), check_invariants=False)
    for product in (lambda: matrix @ torch.ones(4, 9, device=device), lambda: matrix @ torch.ones(4, device=device)):
        with pytest.raises(IndexError, match="sparse_mm"):
            product()
            torch.ocl.synchronize()


@pytest.mark.parametrize("options", list(itertools.product([False, True], repeat=3)), ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
def test_triangular_solve(dtype, options):
    generator = torch.Generator().manual_seed(0)
    names = dict(zip(("upper", "transpose", "unitriangular"), options))
    for rows, width, share, block in ((1, 1, 1, None), (12, 5, 0.3, None), (12, 4, 0.3, (2, 2)), (70, 1, 0.6, None),
                                      (70, 40, 0.04, None), (6, 0, 0.5, None)):
        dense = values_of((rows, rows), dtype, generator) / rows
        dense[torch.rand(rows, rows, generator=generator) > share] = 0     # both triangles: one is passed over
        dense += torch.eye(rows) * 2
        b = values_of((width, rows), dtype, generator).t()                 # not contiguous
        wide = torch.complex128 if dtype.is_complex else torch.float64
        want = torch.triangular_solve(b.to(wide), dense.to(wide), **names)[0].to(dtype)
        a = dense.to(device).to_sparse(layout=torch.sparse_bsr if block else torch.sparse_csr, blocksize=block)
        solution, clone = torch.triangular_solve(b.to(device), a, **names)
        same(solution, want)
        assert clone.numel() == 0
        out = torch.empty(width, rows, dtype=dtype, device=device).t()
        torch.triangular_solve(b.to(device), a, **names, out=(out, clone))
        same(out, want)


def test_triangular_solve_of_repeated_and_absent_entries():
    a = torch.sparse_csr_tensor([0, 2, 5], [0, 0, 0, 0, 1], [1.0, 3.0, 2.0, 1.0, 5.0], (2, 2), device=device)
    b = torch.tensor([[4.0], [13.0]], device=device)
    same(torch.triangular_solve(b, a, upper=False)[0], torch.tensor([[1.0], [2.0]]))
    nothing = torch.zeros(2, 2, device=device).to_sparse_csr()
    assert torch.triangular_solve(b, nothing)[0].isnan().all()      # singular, says PyTorch


def test_triangular_solve_refuses():
    a, b = torch.eye(3, device=device).to_sparse_csr(), torch.ones(3, 2, device=device)
    for wrong_b, wrong_a, words in ((b[:2], a, "b matrix is 2 by 2"), (b.double(), a, "same dtype"),
                                    (b, torch.ones(2, 3, device=device).to_sparse_csr(), "square"),
                                    (b[:, 0], a, "2 dimensions"), (b.half(), a.half(), "not implemented for Half"),
                                    (b.cpu(), a, "same device")):
        with pytest.raises(RuntimeError, match=words):
            torch.triangular_solve(wrong_b, wrong_a)
    with pytest.raises(ValueError, match="layout"):
        torch.triangular_solve(b, a.to_sparse_csc())
