"""Softmax and log-softmax against PyTorch on the CPU."""
import pytest
import torch
from torch.testing import assert_close

from comparison import device


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("shape, dim", [((5, 10), 1), ((7, 100), -1), ((3, 1000), 1), ((4, 6, 9), 1),
                                        ((2, 19, 5, 8), 1), ((33,), 0), ((), 0), ((3, 4), 0), ((2, 1), 1), ((0, 4), 1),
                                        ((4, 0), 1)])
def test_softmax(name, shape, dim, dtype):
    function = getattr(torch, name)
    torch.manual_seed(0)
    x = (torch.randn(shape) * 3).to(dtype)
    leaf = x.to(device).requires_grad_()
    y = function(leaf, dim)
    wide = torch.promote_types(dtype, torch.float32)   # half precision: the result of float32, rounded
    assert_close(y.cpu(), function(x.to(wide), dim).to(dtype))
    g = torch.randn(shape).to(dtype)
    backward = getattr(torch.ops.aten, f"_{name}_backward_data")
    expected = backward(g.to(wide), y.detach().cpu().to(wide), dim, wide).to(dtype)
    assert_close(torch.autograd.grad(y, leaf, g.to(device))[0].cpu(), expected)


# CPUs turn sixteen short rows at a time, of which the last may be fewer; registers hold gradients of longer ones.
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("rows, n", [(16, 1), (50, 2), (33, 5), (35, 8), (700, 15), (47, 16), (49, 17), (31, 40),
                                     (95, 48), (60, 64), (40, 100), (9, 128), (9, 129)])
def test_short_rows(name, rows, n, dtype):
    torch.manual_seed(rows)
    function, backward = getattr(torch, name), getattr(torch.ops.aten, f"_{name}_backward_data")
    x = (torch.randn(rows + 1, n) * 5).to(dtype)[1:]
    x[0, 0], x[3], x[5, n - 1] = torch.nan, -torch.inf, torch.inf
    x[7, :n - 1] = -torch.inf
    expected = function(x.float(), 1)
    assert_close(function(x.to(device), 1).cpu(), expected.to(dtype), equal_nan=True)
    if dtype != torch.float32:
        assert_close(function(x.to(device), 1, dtype=torch.float32).cpu(), expected, equal_nan=True)
    g, y = torch.randn(rows, n).to(dtype), expected.to(dtype)
    expected = backward(g.float(), y.float(), 1, torch.float32).to(dtype)
    assert_close(backward(g.to(device), y.to(device), 1, dtype).cpu(), expected, equal_nan=True)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_layouts_and_types(name):
    function = getattr(torch, name)
    x = torch.randn(2, 8, 5, 6)
    for view in (lambda t: t.transpose(1, 3), lambda t: t[:, 1:7:2], lambda t: t.to(memory_format=torch.channels_last)):
        for dim in range(4):
            assert_close(function(view(x.to(device)), dim).cpu(), function(view(x), dim))
    half = x.half()
    assert_close(function(half.to(device), 1, dtype=torch.float32).cpu(), function(half, 1, dtype=torch.float32))
    with pytest.raises(IndexError, match="Dimension out of range"):
        function(x.to(device), 4)
    with pytest.raises((RuntimeError, NotImplementedError), match="not implemented for 'Int'"):
        function(torch.ones(3, dtype=torch.int32, device=device), 0)


def test_extreme_values():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([[1e4, -1e4, 0.0], [-inf, 0, 1], [nan, 1, 2], [-inf, -inf, -inf], [inf, 1, 2], [-90, 0, -103]])
    x = torch.cat([x, torch.zeros(6, 17)], 1)
    for name in ("softmax", "log_softmax"):
        function = getattr(torch, name)
        assert_close(function(x.to(device), 1).cpu(), function(x, 1), equal_nan=True)
        assert_close(function(x.to(device), 0).cpu(), function(x, 0), equal_nan=True)


def test_into_its_own_input():
    x = torch.randn(4, 37)
    y = x.to(device)
    torch.softmax(y, 1, out=y)
    assert_close(y.cpu(), torch.softmax(x, 1))
