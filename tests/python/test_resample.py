"""torch.nn.functional.interpolate against PyTorch on the CPU: every mode, forward and backward."""
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from comparison import compare_gradients, device


def compare(x, **how):
    compare_gradients(lambda x: F.interpolate(x, **how), x, strides=True)


sizes = [dict(scale_factor=2), dict(size=5), dict(scale_factor=0.6), dict(scale_factor=1.7), dict(size=1),
         dict(scale_factor=1.7, recompute_scale_factor=True)]
modes = {1: ["nearest", "nearest-exact", "linear"], 2: ["nearest", "nearest-exact", "bilinear", "bicubic"],
         3: ["nearest", "nearest-exact", "trilinear"]}


@pytest.mark.parametrize("how", sizes, ids=str)
@pytest.mark.parametrize("rank, mode", [(rank, mode) for rank in modes for mode in modes[rank]])
def test_interpolate(rank, mode, how):
    torch.manual_seed(0)
    x = torch.randn((2, 3) + (7, 6, 9)[-rank:])
    compare(x, mode=mode, **how)
    if "nearest" not in mode:
        compare(x, mode=mode, align_corners=True, **how)


@pytest.mark.parametrize("size", [(4, 5), (20, 13), (3, 30), (9, 9)])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiasing(mode, size):
    torch.manual_seed(0)
    compare(torch.randn(2, 3, 9, 17), mode=mode, size=size, antialias=True)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_channels_last_views_and_dtypes(mode):
    x = torch.randn(2, 5, 6, 7)
    compare(x.to(memory_format=torch.channels_last), mode=mode, scale_factor=2)
    for channels in (8, 11):   # GPUs take four at once, in one load where they are as many
        compare(torch.randn(2, channels, 6, 7).to(memory_format=torch.channels_last), mode=mode, size=(9, 11))
    compare(x.double(), mode=mode, scale_factor=1.5)
    assert_close(F.interpolate(x.to(device)[:, 1:4, ::2], scale_factor=2, mode=mode).cpu(),
                 F.interpolate(x[:, 1:4, ::2], scale_factor=2, mode=mode))
    for dtype in (torch.float16, torch.bfloat16):
        half = x.to(dtype)
        assert_close(F.interpolate(half.to(device), scale_factor=2, mode=mode).cpu(),
                     F.interpolate(half.float(), scale_factor=2, mode=mode).to(dtype))


# Lines longer than what a CPU's work-item takes at once, places that read one vector of neighbours, two, or more.
@pytest.mark.parametrize("how", [dict(size=(9, 700)), dict(size=(4, 260)), dict(size=(3, 120)), dict(size=(6, 41)),
                                 dict(size=(2, 3)), dict(size=(40, 1300))], ids=str)
@pytest.mark.parametrize("mode, antialias", [("nearest", False), ("bilinear", False), ("bicubic", False),
                                             ("bilinear", True), ("bicubic", True)])
def test_long_lines(mode, antialias, how):
    x = torch.randn(2, 3, 5, 333)
    compare(x, mode=mode, antialias=antialias, **how)
    compare(torch.randn(1, 21, 5, 333).to(memory_format=torch.channels_last), mode=mode, antialias=antialias, **how)


# On CPUs lines of several pixels are added up first where channels are few, or places share what they read.
@pytest.mark.parametrize("channels", [2, 3, 4, 7, 9, 16, 20, 130])
@pytest.mark.parametrize("mode, antialias", [("bilinear", False), ("bilinear", True), ("bicubic", True)])
def test_channels_last_lines(mode, antialias, channels):
    torch.manual_seed(0)
    for *shape, size in ((2, channels, 9, 40, (4, 9)), (1, channels, 5, 33, (11, 90)), (1, channels, 3, 300, (2, 7))):
        x = torch.randn(shape).to(memory_format=torch.channels_last)
        compare(x, mode=mode, antialias=antialias, size=size)
        pixels = (x * 60 + 128).clamp(0, 255).round()
        wanted = F.interpolate(pixels, mode=mode, antialias=antialias, size=size).clamp(0, 255)
        for format in (torch.channels_last, torch.contiguous_format):
            bytes = pixels.byte().contiguous(memory_format=format).to(device)
            got = F.interpolate(bytes, mode=mode, antialias=antialias, size=size).cpu()
            assert (got.float() - wanted).abs().max() < 0.501
    x = torch.randn(1, channels, 6, 24).to(memory_format=torch.channels_last)
    x[:, 1, 3, 7], x[:, 0, 0, 1] = torch.inf, torch.nan   # neighbours in memory are other channels
    how = dict(mode=mode, antialias=antialias, size=(4, 31))
    assert_close(F.interpolate(x.to(device), **how).cpu(), F.interpolate(x, **how), equal_nan=True)


def test_lines_beyond_any_block():
    compare(torch.randn(1, 2, 3, 9001), mode="bilinear", size=(2, 9))
    compare(torch.randn(1, 2, 3, 4).double(), mode="bilinear", size=(2, 9001))   # sums of thousands


# What lies beyond the borders counts for nothing, even if it is infinite; zero weights within do as in PyTorch.
@pytest.mark.parametrize("mode, antialias", [("nearest", False), ("bilinear", False), ("bicubic", False),
                                             ("bilinear", True)])
def test_infinities(mode, antialias):
    x = torch.randn(1, 2, 5, 40)
    x[0, 0, 0, 0] = x[0, 0, 4, 39] = torch.inf
    x[0, 1, 2, 7] = torch.nan
    for size in ((10, 80), (7, 33), (3, 20)):
        expected = F.interpolate(x, size=size, mode=mode, antialias=antialias)
        assert_close(F.interpolate(x.to(device), size=size, mode=mode, antialias=antialias).cpu(), expected,
                     equal_nan=True)


def test_bytes_empty_and_errors():
    x = torch.randint(0, 256, (1, 3, 6, 7), dtype=torch.uint8)
    assert torch.equal(F.interpolate(x.to(device), scale_factor=2).cpu(), F.interpolate(x, scale_factor=2))
    assert F.interpolate(torch.empty(0, 3, 4, 4, device=device), scale_factor=2, mode="bilinear").shape == (0, 3, 8, 8)
    with pytest.raises(RuntimeError, match="Input and output sizes should be greater than 0"):
        F.interpolate(torch.ones(1, 1, 4, 4, device=device), size=(0, 3), mode="bilinear")
