"""2:4 semi-structured tensors: conversion, products and layers against the dense matrix on the CPU."""

import warnings

import pytest
import torch
from torch.sparse import (SparseSemiStructuredTensorCUSPARSELT, SparseSemiStructuredTensorCUTLASS,
                          to_sparse_semi_structured)
from torch.sparse._semi_structured_conversions import sparse_semi_structured_to_dense_cutlass

device = "ocl:0"
TOLERANCES = {torch.float32: dict(rtol=1e-5, atol=1e-4), torch.float16: dict(rtol=2e-3, atol=2e-2),
              torch.bfloat16: dict(rtol=2e-2, atol=1e-1), torch.int8: {}}
CASES = [(SparseSemiStructuredTensorCUSPARSELT, dtype) for dtype in (torch.float16, torch.bfloat16, torch.int8)] + \
        [(SparseSemiStructuredTensorCUTLASS, dtype) for dtype in TOLERANCES]


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():     # "prototype stage"
        warnings.simplefilter("ignore")
        yield


def random(shape, dtype):
    return torch.randint(-4, 5, shape, dtype=dtype) if dtype == torch.int8 else torch.randn(shape).to(dtype)


def pruned(rows, columns, dtype):
    """Up to two elements of four, or one of two in float32, at random places."""
    width = 2 if dtype == torch.float32 else 4
    order = torch.rand(rows, columns // width, width).argsort(-1)
    keep = (order < width // 2) & (torch.rand(order.shape) < 0.9)
    return random((rows, columns), dtype) * keep.view(rows, columns).to(dtype)


def close(got, want, dtype):
    assert got.device.type == "ocl"
    torch.testing.assert_close(got.cpu().to(want.dtype), want, **TOLERANCES[dtype])


@pytest.mark.parametrize("kind, dtype", CASES)
def test_conversion_and_products(kind, dtype):
    dense = pruned(64, 128, dtype)
    sparse = kind.from_dense(dense.to(device))
    assert isinstance(sparse, kind) and sparse.device.type == "ocl"
    exact = dense.float() if dtype != torch.int8 else dense.int()
    torch.testing.assert_close(sparse.to_dense().cpu(), dense, rtol=0, atol=0)
    torch.testing.assert_close(sparse.cpu(), dense, rtol=0, atol=0)
    assert sparse.values().numel() == dense.numel() // 2
    for columns in (16, 5):     # whole tiles of the library whose class this is, and not
        other = random((128, columns), dtype)
        want = exact @ other.to(exact.dtype)
        close(sparse @ other.to(device), want.clamp(-128, 127) if dtype == torch.int8 else want, dtype)


@pytest.mark.parametrize("kind, dtype", [case for case in CASES if case[1] != torch.int8])
def test_linear_layers(kind, dtype):
    net = torch.nn.Linear(128, 64).to(dtype)
    with torch.no_grad():
        net.weight.copy_(pruned(64, 128, dtype))
    x = random((3, 7, 128), dtype)
    want = net.float()(x.float())
    net = net.to(dtype).to(device)
    net.weight = torch.nn.Parameter(kind.from_dense(net.weight.detach()), requires_grad=False)
    with torch.no_grad():
        close(net(x.to(device)), want.detach(), dtype)
    assert isinstance(net.weight, kind)


def test_places_lie_where_cutlass_has_them():
    dense = pruned(64, 128, torch.float16)
    there = SparseSemiStructuredTensorCUTLASS.from_dense(dense.to(device))
    back = sparse_semi_structured_to_dense_cutlass(there.packed.cpu(), there.meta.cpu())
    torch.testing.assert_close(back, dense, rtol=0, atol=0)


def test_operators_that_the_classes_call():
    dense, other = pruned(32, 64, torch.int8), random((64, 16), torch.int8)
    compressed = torch._cslt_compress(dense.to(device))
    assert compressed.shape == (32, 40)
    want = dense.int() @ other.int()
    close(torch._cslt_sparse_mm(compressed, other.to(device), out_dtype=torch.int32), want, torch.int8)
    close(torch._cslt_sparse_mm(compressed, other.to(device), out_dtype=torch.int32, transpose_result=True), want.t(),
          torch.int8)
    x, bias = random((16, 64), torch.float32), torch.randn(32)
    weight = pruned(32, 64, torch.float32)
    there = SparseSemiStructuredTensorCUTLASS.from_dense(weight.to(device))
    got = torch._sparse_semi_structured_linear(x.to(device), there.packed, there.meta, bias=bias.to(device),
                                               activation="relu")
    close(got, torch.nn.functional.linear(x, weight, bias).relu(), torch.float32)
    got = torch._sparse_semi_structured_addmm(bias.to(device), there.packed, there.meta, x.t().to(device), alpha=2,
                                              beta=3)
    close(got, 2 * weight @ x.t() + 3 * bias[:, None], torch.float32)


def test_refusals():
    with pytest.raises(RuntimeError, match="Both dimensions must be"):
        to_sparse_semi_structured(torch.ones(7, 12, device=device, dtype=torch.float16))
    with pytest.raises(RuntimeError, match="not a supported dtype"):
        to_sparse_semi_structured(torch.ones(64, 64, device=device, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="_cslt_compress: expected a matrix"):
        torch._cslt_compress(torch.ones(64, 64, device=device))
    with pytest.raises(NotImplementedError, match="WeightNormSparsifier"):
        dense = torch.ones(64, 64, device=device, dtype=torch.float16)
        SparseSemiStructuredTensorCUTLASS.prune_dense_static_sort(dense)
    with pytest.raises(RuntimeError, match="Only CUDA tensors"):
        to_sparse_semi_structured(torch.ones(64, 64, dtype=torch.float16))
