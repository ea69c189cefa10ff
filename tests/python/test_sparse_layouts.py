"""Sparse tensors by PyTorch's rules of layout: strides of indices, what is added to what, what is refused."""
import warnings

import pytest
import torch
from torch.testing import assert_close

LAYOUTS = [torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc]


def compressed(x, layout):
    with warnings.catch_warnings():     # "beta state"
        warnings.simplefilter("ignore")
        return x.to_sparse(layout=layout, blocksize=(1, 2) if layout in LAYOUTS[2:] else None)


@pytest.mark.parametrize("shape", [(3, 4), (5,), (), (2, 2, 3), (5, 0, 2)])
def test_nonzero_lies_by_dimensions(shape, device):
    x = torch.rand(shape) > 0.4
    expected, actual = x.nonzero(), x.to(device).nonzero()
    assert actual.stride() == expected.stride()
    assert_close(actual.cpu(), expected)
    out = torch.empty_like(expected, device=device, memory_format=torch.contiguous_format)
    assert_close(torch.nonzero(x.to(device), out=out).cpu(), expected)
    assert out.is_contiguous()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_indices_of_compressed_tensors_are_contiguous(layout, device):
    x = compressed(torch.tensor([[1, 2], [3, 0]], device=device), layout)
    plain = x.col_indices() if layout in (torch.sparse_csr, torch.sparse_bsr) else x.row_indices()
    assert plain.is_contiguous()
    torch._validate_sparse_compressed_tensor_args(*((x.crow_indices(), plain) if layout in (
        torch.sparse_csr, torch.sparse_bsr) else (x.ccol_indices(), plain)), x.values(), x.shape, layout)


@pytest.mark.parametrize("layout", LAYOUTS[:2])
def test_sparse_and_dense_are_added_in_either_order(layout, device):
    sparse, dense = torch.tensor([[0., 2, 0], [3, 0, 4]]), torch.rand(2, 3)
    x = compressed(sparse.to(device), layout)
    for actual in (torch.add(x, dense.to(device), alpha=0.3), torch.add(dense.to(device), x, alpha=0.3)):
        assert_close(actual.cpu(), dense + 0.3 * sparse)


@pytest.mark.parametrize("layout", LAYOUTS[:2])
def test_batches_do_not_become_blocks(layout, device):
    x = compressed(torch.ones(2, 4, 4, device=device), layout)
    for convert in (x.to_sparse_bsr, x.to_sparse_bsc):
        with pytest.raises(RuntimeError,
                           match=r"conversion from Sparse(Csr|Csc) to Sparse(Bsr|Bsc) for batched inputs"):
            convert((2, 2))
