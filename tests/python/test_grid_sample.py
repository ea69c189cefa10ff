"""torch.nn.functional.grid_sample and affine_grid against PyTorch on the CPU."""
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

device = "ocl:0"


def compare(x, grid, **how):
    a, b = [t.clone().requires_grad_() for t in (x, grid)], [t.to(device).requires_grad_() for t in (x, grid)]
    y, z = F.grid_sample(*a, **how), F.grid_sample(*b, **how)
    assert_close(z.cpu(), y)
    g = torch.randn_like(y)
    for got, expected in zip(torch.autograd.grad(z, b, g.to(device)), torch.autograd.grad(y, a, g)):
        assert_close(got.cpu(), expected)


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


def test_wrong_shapes_and_wild_points():
    x, grid = torch.randn(1, 1, 4, 4), torch.tensor([float("inf"), float("nan"), 1e20, -1e20]).reshape(1, 1, 2, 2)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding_mode in ("zeros", "border", "reflection"):
            F.grid_sample(x.to(device), grid.to(device), mode=mode, padding_mode=padding_mode,
                          align_corners=False).cpu()
    with pytest.raises(RuntimeError, match="same batch size"):
        F.grid_sample(x.to(device), torch.zeros(2, 1, 1, 2, device=device), align_corners=False)
