"""Masks and the positions of what is set against PyTorch on the CPU."""
import pytest
import torch
from torch.testing import assert_close

from comparison import compare, device
from test_indexing import DTYPES, make


@pytest.mark.parametrize("dtype", DTYPES)
def test_masks(dtype):
    x, mask, other = make(5, 6, 7, dtype=dtype), torch.rand(6, 7) > 0.5, make(300, dtype=dtype)
    compare(lambda x, m: x.masked_fill(m, 1), x, mask)
    compare(lambda x, m, v: x.masked_fill(m, v), x, mask, torch.tensor(1).to(dtype))
    if dtype != torch.bool:
        compare(lambda x, m: x.masked_fill(m, torch.tensor(3.5, device=x.device)), x, mask)
    compare(lambda x, m: x.transpose(1, 2).masked_fill_(m.t(), 1), x, mask)
    compare(lambda x, m: x.masked_select(m), x, mask)
    compare(lambda x, m, s: x.masked_scatter(m, s), x, mask, other)
    compare(lambda x, m: x[0].t().masked_select(m.t()), x, mask)


def test_nonzero():
    for x in (torch.rand(300, 70) > 0.5, torch.rand(3, 5, 900) > 0.9, torch.rand(40, 2, 2, 301) > 0.2,
              make(9, 8) * (torch.rand(9, 8) > 0.7), torch.zeros(5, 3), torch.tensor(3.0), torch.empty(0, 4),
              torch.tensor(0), torch.tensor([float("nan"), 0.0, -0.0])):
        compare(torch.nonzero, x)
    compare(lambda x: x.t().nonzero(), make(9, 8) * (torch.rand(9, 8) > 0.7))
    assert len(torch.eye(3, device=device).nonzero(as_tuple=True)) == 2


def test_a_mask_of_every_element():
    for shape in (700, 40), (3, 5, 300), (0, 4):
        x, mask = make(*shape), torch.rand(shape) > 0.3
        compare(lambda x, m: x[m], x, mask)
        compare(lambda x, m: x.transpose(0, 1)[m.transpose(0, 1)], x, mask)
        compare(lambda x, m: x.expand(2, *x.shape).masked_select(m), x, mask)


def test_nonzero_static():
    for size in (0, 2, 50):
        compare(lambda x: torch.nonzero_static(x, size=size), make(4, 5) * (torch.rand(4, 5) > 0.5))


@pytest.mark.parametrize("index", ((slice(None), [True, False, True]), ([True, False],),
                                   (slice(None), [True, False, True], slice(1))))
def test_a_masked_value_is_converted(index, device):
    for dtype, value in ((torch.float16, torch.tensor(2.5)), (torch.int64, torch.tensor([7.0])),
                         (torch.bool, torch.tensor(3))):
        results = []
        for where in ("cpu", device):
            x = torch.zeros(2, 3, 2, device=where).to(dtype)
            x[tuple(torch.tensor(i, device=where) if isinstance(i, list) else i for i in index)] = value.to(where)
            results.append(x.cpu())
        torch.testing.assert_close(*results)
    with pytest.raises(RuntimeError, match="dtypes match, got Float for the destination and Half"):
        x = torch.zeros(3, device=device)
        x[torch.tensor([0, 1], device=device)] = torch.ones(2, device=device, dtype=torch.float16)


# CPUs fill every dtype by the bits of its elements.
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int16, torch.int32, torch.int64, torch.float16,
                                   torch.bfloat16, torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("shape, mask", [((3, 4, 33, 17), (3, 1, 1, 17)), ((40, 33), (40, 1)), ((7, 5, 64), ())])
def test_masks_that_spread(shape, mask, dtype):
    x, m = (torch.randn(shape) * 9).to(dtype), torch.rand(mask) > 0.4
    for value in (0, True, float("nan"))[:3 if dtype.is_floating_point else 2]:
        for layout in (lambda t: t, lambda t: t.transpose(-1, -2).contiguous().transpose(-1, -2)):
            want, got = layout(x.clone()), layout(x.to(device))
            got.masked_fill_(m.to(device), value)
            assert_close(got.cpu(), want.masked_fill_(m, value), rtol=0, atol=0, equal_nan=True)
