"""Sparse tensors of coordinates: products, sums, gradients, and the life of every layout. Everything is compared with
PyTorch's CPU."""

import copy
import io
import pickle

import pytest
import torch

from comparison import device
from sparse_tensors import COMPRESSED, DTYPES, compressed, coo, same, same_sum, to_layout, values_of


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bool, torch.uint8])
@pytest.mark.parametrize("dense", [(), (3,)])
def test_coalesce_and_to_dense(dtype, dense):
    x = coo(dense=dense, dtype=dtype)
    y = x.to(device)
    assert y.is_sparse and not y.is_coalesced() and y._nnz() == 20
    same(y.coalesce(), x.coalesce())
    assert y.coalesce().is_coalesced()
    same(y.to_dense(), x.to_dense())
    same(y.coalesce().indices(), x.coalesce().indices())
    same(y.coalesce().values(), x.coalesce().values())


@pytest.mark.parametrize("shape,entries", [((5,), 0), ((2, 3), 0), ((4,), 1), ((3, 4, 5), 30), ((2, 3, 2, 2), 9)])
def test_coalesce_shapes(shape, entries):
    x = coo(shape, entries)
    same(x.to(device).coalesce(), x.coalesce())
    same(x.to(device).to_dense(), x.to_dense())


def test_sums_are_the_same_bits_every_run():
    x = coo((3, 3), 5000).to(device)
    first = x.coalesce().values()
    for _ in range(3):
        assert torch.equal(x.coalesce().values(), first)


def test_creation():
    indices, values = torch.tensor([[0, 1, 1], [2, 0, 2]]), torch.tensor([3.0, 4.0, 5.0])
    for size in [(2, 3), None]:
        sizes = () if size is None else (size,)
        x = torch.sparse_coo_tensor(indices.to(device), values.to(device), *sizes)
        same(x, torch.sparse_coo_tensor(indices, values, *sizes))
    x = torch.sparse_coo_tensor(indices, values, (2, 3), device=device)
    same(x, torch.sparse_coo_tensor(indices, values, (2, 3)))
    same(torch.zeros(2, 3, layout=torch.sparse_coo, device=device), torch.zeros(2, 3, layout=torch.sparse_coo))
    same(torch.empty_like(x).zero_(), torch.zeros(2, 3, layout=torch.sparse_coo))


def test_invariants_are_checked():
    bad = torch.tensor([[0, 5]], device=device)
    with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        torch.sparse_coo_tensor(bad, torch.ones(2, device=device), (3,), check_invariants=True)
    with torch.sparse.check_sparse_tensor_invariants(), pytest.raises(RuntimeError, match="crow_indices"):
        torch.sparse_csr_tensor(torch.tensor([0, 3, 1], device=device), torch.tensor([0, 1], device=device),
                                torch.ones(2, device=device), (2, 2))


@pytest.mark.parametrize("name", ["sin", "neg", "abs", "sqrt", "relu", "floor", "sign", "expm1", "isnan", "sgn",
                                  "tanh"])
def test_functions_of_values(name):
    x = coo(coalesced=True)
    same(getattr(torch, name)(x.to(device)), getattr(torch, name)(x), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex64])
def test_arithmetic(dtype):
    a, b = coo(dtype=dtype, seed=1), coo(dtype=dtype, seed=2)
    dense = values_of((7, 9), dtype, torch.Generator().manual_seed(3))
    x, y, d = a.to(device), b.to(device), dense.to(device)
    same_sum(x + y, a + b)
    same_sum(torch.add(x, y, alpha=3), torch.add(a, b, alpha=3))
    same_sum(x - y, a - b)
    same_sum(x * 3, a * 3)
    same((x * y).to_dense(), (a * b).to_dense())
    same_sum(x.coalesce() * y.coalesce(), a.coalesce() * b.coalesce())
    same_sum(x * d, a * dense)
    same(d + x, dense + a)
    same(torch.add(d, x, alpha=2), torch.add(dense, a, alpha=2))
    if dtype != torch.int64:
        same_sum(x / 2, a / 2)
    x += y
    same_sum(x, a + b)
    d += y
    same(d, dense + b)


def test_types_are_promoted():
    a, b = coo(dtype=torch.float32, seed=1), coo(dtype=torch.float64, seed=2)
    same_sum(a.to(device) + b.to(device), a + b)
    same((a.to(device) * b.to(device)).to_dense(), (a * b).to_dense())
    dense = torch.randn(7, 9).half()
    same(dense.to(device) + a.to(device), dense + a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 5, 40])
def test_mm(dtype, width):
    generator = torch.Generator().manual_seed(1)
    x = coo((17, 23), 120, dtype=dtype)
    dense = values_of((23, width), dtype, generator)
    half = dtype in (torch.float16, torch.bfloat16)
    want = (x.to(torch.float64) @ dense.double()).to(dtype) if half else x @ dense
    same(x.to(device) @ dense.to(device), want)
    if half:
        return
    same(torch.sparse.mm(x.to(device).coalesce(), dense.t().contiguous().to(device).t()), want)
    c = values_of((17, width), dtype, generator)
    same(torch.sparse.addmm(c.to(device), x.to(device), dense.to(device), beta=2, alpha=3),
         torch.sparse.addmm(c, x, dense, beta=2, alpha=3))
    same(torch.mv(x.to(device), dense[:, 0].to(device)), torch.mv(x, dense[:, 0]))


def test_addmm_ignores_self_where_beta_is_zero():
    x = coo((4, 5), 6).to(device)
    bad, dense = torch.full((4, 3), float("nan"), device=device), torch.ones(5, 3, device=device)
    same(torch.sparse.addmm(bad, x, dense, beta=0), (x.cpu() @ dense.cpu()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bmm(dtype):
    generator = torch.Generator().manual_seed(1)
    x, dense = coo((3, 5, 6), 40, dtype=dtype), values_of((3, 6, 4), dtype, generator)
    same(torch.bmm(x.to(device), dense.to(device)), torch.bmm(x, dense))


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_sparse_times_sparse(dtype):
    a, b = coo((6, 8), 20, dtype=dtype), coo((8, 5), 20, dtype=dtype, seed=1)
    same_sum(torch.sparse.mm(a.to(device), b.to(device)), torch.sparse.mm(a, b))


def test_hspmm():
    x, dense = coo((6, 8), 10), torch.randn(8, 3)
    same_sum(torch.hspmm(x.to(device), dense.to(device)), torch.hspmm(x, dense))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex64], ids=lambda dtype: str(dtype)[6:])
def test_sspaddmm(dtype):
    x, y, dense = coo((6, 3), 5).to(dtype), coo((6, 8), 10).to(dtype), torch.randn(8, 3).mul(9).to(dtype)
    for factors in ({}, {"alpha": 3, "beta": 2}, {"alpha": 0, "beta": 0}):
        got = torch.sspaddmm(x.to(device), y.to(device), dense.to(device), **factors)
        want = torch.sspaddmm(x, y, dense, **factors)
        assert got.is_sparse and not got.is_coalesced()
        same_sum(got, want)
    out = torch.empty(0, 0, dtype=dtype, layout=torch.sparse_coo, device=device)
    assert torch.sspaddmm(x.to(device), y.to(device), dense.to(device), out=out) is out
    same_sum(out, torch.sspaddmm(x, y, dense))
    for wrong in ((dense, y, dense), (x, dense, dense), (x, y, y), (y, y, dense)):
        with pytest.raises(RuntimeError, match="sspaddmm"):
            torch.sspaddmm(*(t.to(device) for t in wrong))


@pytest.mark.parametrize("layout", [None, torch.sparse_csr, torch.sparse_csc])
def test_spdiags(layout):
    lines = torch.arange(1.0, 13).view(3, 4)
    for offsets, shape in (([0, -1, 2], (4, 4)), ([1, 0, -2], (3, 5)), ([3, 1, 0], (6, 4)), ([-2, 1, 0], (3, 4))):
        got = torch.sparse.spdiags(lines.to(device), torch.tensor(offsets).to(device), shape, layout)
        want = torch.sparse.spdiags(lines, torch.tensor(offsets), shape, layout)
        assert got.layout == want.layout
        torch.testing.assert_close(got.cpu(), want)
    outside = torch.sparse.spdiags(lines.to(device), torch.tensor([0, 9, -9]).to(device), (4, 4), layout)
    assert torch.equal(outside.to_dense().cpu(), lines[0].diag())
    narrow = torch.sparse.spdiags(lines.to(device), torch.tensor([0, 1, -1]).to(device), (6, 3), layout)
    want = lines[0, :3].diag() + lines[1, 1:3].diag(1) + lines[2, :2].diag(-1)
    want = torch.nn.functional.pad(want, (0, 0, 0, 3))
    want[3, 2] = lines[2, 2]
    assert torch.equal(narrow.to_dense().cpu(), want)
    for diagonals, offsets, said in ((lines, [0, 0, 1], "duplicate"), (lines, [0, 1], "number of offsets"),
                                     (lines[None], [0, 1, 2], "vector or matrix")):
        with pytest.raises(RuntimeError, match=said):
            torch.sparse.spdiags(diagonals.to(device), torch.tensor(offsets).to(device), (4, 4), layout)


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_index_select(dim):
    x, index = coo((4, 5), 12, (3,)), torch.tensor([2, 0, 0, 1])
    same_sum(x.to(device).index_select(dim, index.to(device)), x.index_select(dim, index))
    with pytest.raises(IndexError):
        x.to(device).index_select(0, torch.tensor([4], device=device))


def test_views_and_selections():
    x = coo((4, 5), 12, (3,))
    y = x.to(device)
    same_sum(y.select(0, 1), x.select(0, 1))
    same_sum(y[2], x[2])
    same_sum(y.narrow_copy(1, 1, 3), x.narrow_copy(1, 1, 3))
    same_sum(y.transpose(0, 1), x.transpose(0, 1))
    same_sum(y.unsqueeze(0), x.unsqueeze(0))
    same_sum(torch.cat([y, y], 1), torch.cat([x, x], 1))
    same_sum(torch.stack([y, y]), torch.stack([x, x]))
    same_sum(y.permute(1, 0, 2), x.permute(1, 0, 2))


@pytest.mark.parametrize("coalesced", [True, False])
def test_sparse_mask(coalesced):
    mask = coo((4, 5), 9, coalesced=coalesced)
    dense, other = torch.randn(4, 5), coo((4, 5), 9, seed=4)
    same_sum(dense.to(device).sparse_mask(mask.to(device)), dense.sparse_mask(mask))
    same_sum(other.to(device).sparse_mask(mask.to(device).coalesce()), other.sparse_mask(mask.coalesce()))
    hybrid, wide = coo((4, 5), 9, (2,), coalesced=coalesced), torch.randn(4, 5, 2)
    same_sum(wide.to(device).sparse_mask(hybrid.to(device)), wide.sparse_mask(hybrid))


@pytest.mark.parametrize("dim", [None, 0, 1, 2, (0, 1), (0, 2), (0, 1, 2)])
def test_sum(dim):
    x = coo((4, 5), 12, (3,))
    got, want = torch.sparse.sum(x.to(device), dim), torch.sparse.sum(x, dim)
    same_sum(got, want) if want.is_sparse else same(got, want)
    x, y = x.requires_grad_(), x.detach().to(device).requires_grad_()
    for t in (x, y):
        s = torch.sparse.sum(t, dim)
        (s.to_dense() if s.is_sparse else s).square().sum().backward()
    same_sum(y.grad, x.grad)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("function", [torch.sparse.softmax, torch.sparse.log_softmax])
def test_softmax(function, dim):
    x = coo((4, 5), 12, (3,), coalesced=True).requires_grad_()
    y = x.detach().to(device).requires_grad_()
    for t in (x, y):
        function(t, dim).to_dense().square().sum().backward()
    same_sum(function(y, dim), function(x, dim))
    same_sum(y.grad, x.grad)


def test_norms_and_any():
    x = coo((4, 5), 12, (3,), coalesced=True)
    same(torch.norm(x.to(device)), torch.norm(x))
    same(x.to(device).bool().any(), x.bool().any())
    same(x.to(device).sum(), x.sum())


# ---- gradients and training ----


def test_gradients_of_products():
    dense = torch.randn(9, 4)
    a, b = coo(coalesced=True).requires_grad_(), dense.clone().requires_grad_()
    x, y = coo(coalesced=True).to(device).requires_grad_(), dense.to(device).requires_grad_()
    for s, d in ((a, b), (x, y)):
        torch.sparse.mm(s, d).square().sum().backward()
    same_sum(x.grad, a.grad)
    same(y.grad, b.grad)
    for s in (a, x):
        s.grad = None
        s.to_dense().square().sum().backward()
    same_sum(x.grad, a.grad) if a.grad.is_sparse else same(x.grad, a.grad)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.SparseAdam, torch.optim.Adagrad])
def test_embedding_with_sparse_gradients(optimizer):
    torch.manual_seed(0)
    reference = torch.nn.Embedding(10, 4, sparse=True)
    model = copy.deepcopy(reference).to(device)
    index = torch.tensor([[1, 2, 1], [7, 1, 0]])
    for net, i in ((reference, index), (model, index.to(device))):
        step = optimizer(net.parameters(), lr=0.1)
        for _ in range(3):
            step.zero_grad()
            net(i).square().sum().backward()
            assert net.weight.grad.is_sparse
            step.step()
    same(model.weight.detach(), reference.weight.detach())


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_embedding_bag_with_sparse_gradients(mode):
    reference = torch.nn.EmbeddingBag(10, 4, mode=mode, sparse=True)
    model = copy.deepcopy(reference).to(device)
    index, offsets = torch.tensor([1, 2, 1, 7, 1, 0]), torch.tensor([0, 2, 5])
    reference(index, offsets).square().sum().backward()
    model(index.to(device), offsets.to(device)).square().sum().backward()
    same_sum(model.weight.grad, reference.weight.grad)


def test_sparse_gather_gradient():
    x = torch.randn(5, 3)
    index = torch.tensor([[0, 1, 2], [2, 2, 0]])
    a, b = x.clone().requires_grad_(), x.to(device).requires_grad_()
    a.gather(0, index, sparse_grad=True).square().sum().backward()
    b.gather(0, index.to(device), sparse_grad=True).square().sum().backward()
    same_sum(b.grad, a.grad)


# ---- life of a tensor ----


@pytest.mark.parametrize("layout", [torch.sparse_coo, *COMPRESSED])
def test_copies_printing_and_serialization(layout):
    x = to_layout(compressed(torch.sparse_csr).to_dense(), layout)
    y = x.to(device, non_blocking=True)
    same(y, x)
    torch.testing.assert_close(y.cpu(), x)
    same(y.double(), x.double())
    same(copy.deepcopy(y), x)
    assert "device='ocl:0'" in repr(y) and repr(x)[:30] == repr(y)[:30]
    same(pickle.loads(pickle.dumps(y)), x)
    stream = io.BytesIO()
    torch.save({"x": y}, stream)
    stream.seek(0)
    same(torch.load(stream)["x"], x)
    z = torch.empty_like(y)
    if layout == torch.sparse_coo:
        z.copy_(y)
        same(z, x)


def test_missing_operators_are_named():
    x = coo((6, 8), 10, coalesced=True).to(device)
    with pytest.raises(NotImplementedError, match="cumsum.* has no kernel for sparse tensors on the ocl") as error:
        torch.cumsum(x, 0)
    assert str(error.value).count("\n") < 3


def test_products_of_sparse_rows():
    x, b = coo((6, 8), 10, coalesced=True), torch.randn(8, 3)
    torch.testing.assert_close(torch.smm(x.to(device), b.to(device)).to_dense().cpu(), x.to_dense() @ b)
