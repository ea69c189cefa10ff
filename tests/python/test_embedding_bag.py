"""Embedding bags against PyTorch on the CPU."""
import pytest
import torch

from comparison import compare, device
from test_indexing import ids, make


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 3}, {"include_last_offset": True}])
def test_embedding_bag(mode, options):
    weight, index = make(10, 7), ids(10, 20, negative=False)
    offsets = torch.tensor([0, 4, 4, 9, 15] + ([20] if "include_last_offset" in options else []))
    upstream = make(5, 7)
    results = []
    for place in ("cpu", device):
        w = weight.clone().to(place).requires_grad_()
        y = torch.nn.functional.embedding_bag(index.to(place), w, offsets.to(place), mode=mode, **options)
        y.backward(upstream.to(place))
        results.append((y.detach().cpu(), w.grad.cpu()))
    torch.testing.assert_close(results[0][0], results[1][0])
    torch.testing.assert_close(results[0][1], results[1][1])


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("kinds", [("int32", "int32"), ("int64", "int32"), ("int64", "int64")])
def test_embedding_bag_gives_indices_of_the_dtype_of_its_own(mode, kinds):
    weight, (ids_kind, offsets_kind) = make(10, 7), (getattr(torch, kind) for kind in kinds)
    index, offsets = ids(10, 20, negative=False).to(ids_kind), torch.tensor([0, 4, 4, 9, 15], dtype=offsets_kind)
    upstream, results = make(5, 7), []
    for place in ("cpu", device):
        w = weight.clone().to(place).requires_grad_()
        y, *others = torch.embedding_bag(w, index.to(place), offsets.to(place), mode=mode)
        y.backward(upstream.to(place))
        results.append(((y.detach().cpu(), w.grad.cpu()), [x.dtype for x in others]))
    torch.testing.assert_close(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]


def test_embedding_bag_with_weights():
    # In float64: the gradient of a factor is a sum that cancels, of which float32 keeps few digits on any device.
    weight, index, factors = make(10, 7).double(), ids(10, 4, 5, negative=False), torch.rand(4, 5, dtype=torch.float64)
    results = []
    for place in ("cpu", device):
        w, f = (t.clone().to(place).requires_grad_() for t in (weight, factors))
        y = torch.nn.functional.embedding_bag(index.to(place), w, mode="sum", per_sample_weights=f)
        y.square().sum().backward()
        results.append((y.detach().cpu(), w.grad.cpu(), f.grad.cpu()))
    for a, b in zip(*results):
        torch.testing.assert_close(a, b)


# Widths below, at and beyond vectors and blocks of them; bags of none, of one and of many.
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("width", [1, 5, 16, 17, 33, 49, 63, 64, 65, 80, 100, 128, 300])
@pytest.mark.parametrize("mode, weighted", [("sum", False), ("sum", True), ("mean", False)])
def test_embedding_bag_widths(width, dtype, mode, weighted):
    weight, index = torch.rand(50, width).to(dtype), ids(50, 90, negative=False)   # sums that do not cancel
    factors = torch.rand(90).to(dtype) if weighted else None
    offsets = torch.tensor([0, 0, 7, 7, 30, 31, 88, 90])
    for options in ({}, {"padding_idx": 3}, {"include_last_offset": True}):
        bag = lambda i, w, o, f: torch.nn.functional.embedding_bag(i, w, o, mode=mode, per_sample_weights=f, **options)
        want = bag(index, weight.double(), offsets, factors.double() if weighted else None)
        got = bag(*(t if t is None else t.to(device) for t in (index, weight, offsets, factors)))
        torch.testing.assert_close(got.cpu(), want.to(dtype))


def test_embedding_bag_refusals(device):
    weight, offsets = make(10, 7).to(device), torch.tensor([0, 2], device=device)
    index, factors = ids(10, 6, negative=False).to(device), torch.ones(6, device=device)
    for arguments, options, words in (
            ((weight, index, offsets), {"per_sample_weights": factors.double()}, "expected scalar type Float"),
            ((weight.long(), index, offsets), {}, "'weight' to have one of the following scalar types"),
            ((weight[0], index, offsets), {}, "weight has to be a 2D Tensor")):
        with pytest.raises(RuntimeError, match=words):
            torch.embedding_bag(*arguments, **options)
