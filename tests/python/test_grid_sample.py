"""torch.nn.functional.grid_sample and affine_grid against PyTorch on the CPU."""
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from comparison import compare_gradients, device


def compare(x, grid, **how):
    compare_gradients(lambda x, grid: F.grid_sample(x, grid, **how), x, grid)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode, padding_mode, align_corners):
    torch.manual_seed(0)
    how = dict(mode=mode, padding_mode=padding_mode, align_corners=align_corners)
    compare(torch.randn(2, 3, 6, 7), torch.randn(2, 5, 4, 2), **how)
    compare(torch.randn(1, 2, 1, 9, dtype=torch.float64), torch.randn(1, 8, 3, 2, dtype=torch.float64) * 3, **how)
    if mode != "bicubic":
        compare(torch.randn(2, 3, 4, 5, 6), torch.randn(2, 3, 4, 5, 3), **how)


def test_affine_grid_and_views():
    theta = torch.tensor([[[0.8, 0.3, 0.1], [-0.2, 1.1, 0.0]]])
    grid = F.affine_grid(theta.to(device), (1, 1, 5, 6), align_corners=False)
    assert_close(grid.cpu(), F.affine_grid(theta, (1, 1, 5, 6), align_corners=False))
    x = torch.randn(1, 5, 6, 8)
    y = F.grid_sample(x.to(device)[:, ::2].transpose(2, 3), grid, align_corners=False)
    assert_close(y.cpu(), F.grid_sample(x[:, ::2].transpose(2, 3), grid.cpu(), align_corners=False))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_coordinates_that_are_no_numbers(mode, padding_mode, align_corners, dtype):
    how = dict(mode=mode, padding_mode=padding_mode, align_corners=align_corners)
    nan, inf = float("nan"), float("inf")
    for axes in (2, 3) if mode != "bicubic" else (2,):
        rest = [0.3] * (axes - 1)
        points = [[0.3] + rest, [nan] + rest, rest + [nan], [inf] + rest, [-inf] + rest, [nan] * axes, [1e20] + rest]
        grid = torch.tensor(points, dtype=dtype).reshape((1,) * axes + (len(points), axes))
        x = torch.randn((1, 2) + (5,) * axes, dtype=dtype)
        own_x, own_grid = x.to(device).requires_grad_(), grid.to(device).requires_grad_()
        y = F.grid_sample(own_x, own_grid, **how)
        assert_close(y.cpu(), F.grid_sample(x, grid, **how), equal_nan=True)
        y.sum().backward()
        if axes == 2 and mode == "bilinear" and padding_mode != "zeros":
            # PyTorch's own CPU kernel ends the process here: the gradient goes to the element that was read.
            assert_close(own_x.grad.cpu().sum(), torch.tensor(2. * len(points), dtype=dtype))
            continue
        x.requires_grad_(), grid.requires_grad_()
        F.grid_sample(x, grid, **how).sum().backward()
        assert_close(own_x.grad.cpu(), x.grad, equal_nan=True)
        assert_close(own_grid.grad.cpu(), grid.grad, equal_nan=True)


def test_wrong_shapes_and_wild_points():
    x, grid = torch.randn(1, 1, 4, 4), torch.tensor([float("inf"), float("nan"), 1e20, -1e20]).reshape(1, 1, 2, 2)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding_mode in ("zeros", "border", "reflection"):
            F.grid_sample(x.to(device), grid.to(device), mode=mode, padding_mode=padding_mode,
                          align_corners=False).cpu()
    with pytest.raises(RuntimeError, match="same batch size"):
        F.grid_sample(x.to(device), torch.zeros(2, 1, 1, 2, device=device), align_corners=False)
