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


# Many and few channels, many and few points, images one element wide and high.
SHAPES = [((2, 20, 9, 11), (17, 13)), ((1, 33, 6, 7), (3, 5)), ((2, 16, 1, 5), (8, 9)), ((3, 13, 8, 1), (7, 11)),
          ((1, 5, 16, 2), (1, 70)), ((2, 40, 8, 8), (9, 33)), ((1, 64, 5, 5), (1, 1))]


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_channels_and_points(mode, padding_mode, align_corners):
    torch.manual_seed(0)
    how = dict(mode=mode, padding_mode=padding_mode, align_corners=align_corners)
    nan, inf = float("nan"), float("inf")
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        for shape, points in SHAPES:
            x, grid = torch.randn(shape).to(dtype), (torch.rand(shape[0], *points, 2) * 4 - 2).to(dtype)
            exact = dtype in (torch.float32, torch.float64)
            if exact:   # PyTorch's own kernels round weights of the narrow types
                some = torch.randint(0, grid.numel(), (1 + grid.numel() // 10,))
                grid.view(-1)[some] = torch.tensor([nan, inf, -inf, 1, -1, 0], dtype=dtype)[some % 6]
                x.view(-1)[torch.randint(0, x.numel(), (3,))] = torch.tensor([nan, inf, -inf], dtype=dtype)
            expected = F.grid_sample(x if exact else x.float(), grid if exact else grid.float(), **how).to(dtype)
            assert_close(F.grid_sample(x.to(device), grid.to(device), **how).cpu(), expected, equal_nan=True)


def test_gradients_that_meet():
    """Of many points in one place, of points anywhere: the same bits every run."""
    for shape, spread in (((2, 19, 6, 7), 0), ((2, 19, 6, 7), 3), ((3, 5, 40, 33), 1)):
        x, grid = torch.randn(shape), torch.randn(shape[0], 30, 25, 2) * spread
        y = torch.randn(*shape[:2], 30, 25)
        for how in (dict(padding_mode="border"), dict(mode="bicubic"), dict(mode="nearest", padding_mode="reflection")):
            found = []
            for _ in range(3):
                own = x.to(device).requires_grad_()
                F.grid_sample(own, grid.to(device), align_corners=True, **how).backward(y.to(device))
                found.append(own.grad.cpu())
            assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])
            exact = x.double().requires_grad_()
            F.grid_sample(exact, grid.double(), align_corners=True, **how).backward(y.double())
            if how.get("mode") != "nearest":   # where a point lies between two, rounding decides
                assert_close(found[0], exact.grad.float(), rtol=1e-4, atol=1e-4)


def test_many_images():
    x, grid = torch.randn(9, 64, 40, 40, dtype=torch.float64), torch.rand(9, 41, 43, 2, dtype=torch.float64) * 2.2 - 1.1
    for mode in ("bilinear", "nearest", "bicubic"):
        how = dict(mode=mode, align_corners=False)
        assert_close(F.grid_sample(x.to(device), grid.to(device), **how).cpu(), F.grid_sample(x, grid, **how))


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
