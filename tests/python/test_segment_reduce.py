"""torch.segment_reduce against PyTorch's CPU."""
import pytest
import torch
from torch.testing import assert_close

from opinfo import case_id, cases, check, check_gradients

CASES = cases({"_segment_reduce"})
reduces = pytest.mark.parametrize("reduce", ("sum", "mean", "max", "min", "prod", "amax", "amin"))


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_against_cpu(case, device):
    check(*case, device, samples=20)


@pytest.mark.parametrize("op", {case[0].formatted_name: case[0] for case in CASES}.values(),
                         ids=lambda op: op.formatted_name)
def test_gradients(op, device):
    check_gradients(op, device, samples=20)


@reduces
@pytest.mark.parametrize("initial", (None, 0.5))
@pytest.mark.parametrize("axis", (0, 1))
def test_empty_segments_zeros_ties_and_nan(reduce, initial, axis, device):
    data = torch.tensor([[2.0, 0.0, 3.0, 0.0, 0.0, 5.0, 5.0, float("nan"), 4.0],
                         [1.0, 1.0, 0.0, 7.0, -2.0, 0.0, 3.0, 1.0, float("nan")]], dtype=torch.float64)
    lengths = torch.tensor([[3, 0, 2, 2, 2], [2, 2, 2, 1, 2]])
    if axis == 0:
        data, lengths = data[0, :, None].expand(-1, 2).contiguous(), lengths[0]
    results = []
    for where in ("cpu", device):
        x = data.to(where, copy=True).requires_grad_()
        y = torch.segment_reduce(x, reduce, lengths=lengths.to(where), axis=axis, initial=initial)
        y.backward(torch.arange(1.0, y.numel() + 1, device=where, dtype=y.dtype).view_as(y))
        results.append((y.detach().cpu(), x.grad.cpu()))
    assert_close(*results, equal_nan=True)


@reduces
def test_elements_behind_the_last_segment(reduce, device):
    data = torch.randn(6, 3)
    lengths = torch.tensor([2, 1])
    actual = torch.segment_reduce(data.to(device), reduce, lengths=lengths.to(device), unsafe=True)
    assert_close(actual.cpu(), torch.segment_reduce(data, reduce, lengths=lengths, unsafe=True))


@reduces
@pytest.mark.parametrize("offsets", ([2, 5, 8], [1, 1, 4], [0, 3, 6]))
def test_offsets_that_leave_elements_out(reduce, offsets, device):
    results = []
    for where in ("cpu", device):
        x = torch.arange(1.0, 9.0, device=where).requires_grad_()
        y = torch.segment_reduce(x, reduce, offsets=torch.tensor(offsets, device=where))
        y.backward(torch.tensor([2.0, 3.0], device=where))
        results.append((y.detach().cpu(), x.grad.cpu()))
    assert_close(results[1][0], results[0][0], equal_nan=True)
    left_out = torch.ones(8, dtype=torch.bool)      # the CPU leaves their gradients as memory had them
    left_out[offsets[0]:offsets[-1]] = False
    assert_close(results[1][1][~left_out], results[0][1][~left_out], equal_nan=True)
    assert not results[1][1][left_out].any()


def test_bad_offsets_are_refused(device):
    data = torch.randn(8, device=device)
    for offsets in ([0, 5, 3], [0, 3, 12], [-1, 3, 8]):
        with pytest.raises(RuntimeError, match="offsets from 0 to data.size"):
            torch.segment_reduce(data, "sum", offsets=torch.tensor(offsets, device=device))


def test_bad_input_is_refused(device):
    data, lengths = torch.randn(4, device=device), torch.tensor([1, 2], device=device)
    for arguments, message in ((dict(reduce="sum", lengths=lengths), "to sum to data.size"),
                               (dict(reduce="sum"), "lengths or offsets must be defined"),
                               (dict(reduce="median", lengths=lengths, unsafe=True), "unsupported reduction"),
                               (dict(reduce="sum", lengths=lengths[None], unsafe=True), "1 dimensions")):
        with pytest.raises(RuntimeError, match=message):
            torch.segment_reduce(data, **arguments)


@reduces
def test_segments_of_no_data(reduce, device):
    for initial in (None, 2.0):
        x = torch.ones(0, requires_grad=True)
        y = torch.ones(0, device=device, requires_grad=True)
        expected = torch.segment_reduce(x, reduce, lengths=torch.tensor([0, 0]), initial=initial)
        actual = torch.segment_reduce(y, reduce, lengths=torch.tensor([0, 0], device=device), initial=initial)
        torch.testing.assert_close(actual.cpu(), expected, equal_nan=True)
        actual.sum().backward()
        assert y.grad.shape == (0,)
