"""Sparse tensors for tests, and their comparison with the CPU's."""
import torch

REAL = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
DTYPES = [*REAL, torch.complex64, torch.complex128, torch.int64, torch.int8]
COMPRESSED = [torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc]


def values_of(shape, dtype, generator):
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=torch.complex64 if dtype.is_complex else None).to(dtype)
    return torch.randint(-5, 6, shape, generator=generator).to(dtype)


def coo(shape=(7, 9), entries=20, dense=(), dtype=torch.float32, seed=0, coalesced=False):
    """An uncoalesced tensor: some places come more than once."""
    generator = torch.Generator().manual_seed(seed)
    indices = torch.stack([torch.randint(n, (entries,), generator=generator) for n in shape])
    values = values_of((entries, *dense), dtype, generator)
    result = torch.sparse_coo_tensor(indices, values, (*shape, *dense))
    return result.coalesce() if coalesced else result


def compressed(layout, dtype=torch.float32, shape=(8, 12), seed=0):
    generator = torch.Generator().manual_seed(seed)
    dense = values_of(shape, dtype, generator)
    dense[torch.rand(shape, generator=generator) < 0.6] = 0
    return to_layout(dense, layout)


def to_layout(tensor, layout):
    block = (2, 3) if layout in (torch.sparse_bsr, torch.sparse_bsc) else None
    return tensor.to_sparse(layout=layout, blocksize=block)


def same(got, want, **tolerances):
    assert got.device.type == "ocl" and got.layout == want.layout and got.dtype == want.dtype
    torch.testing.assert_close(got.cpu(), want, **tolerances)


def same_sum(got, want, **tolerances):
    """For results whose entries may come in another order."""
    assert got.device.type == "ocl" and got.layout == want.layout and got.shape == want.shape
    torch.testing.assert_close(got.cpu().coalesce(), want.coalesce(), **tolerances)
