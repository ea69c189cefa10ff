"""Fake quantisation against the CPU, with its gradients."""
import pytest
import torch
from torch.testing import assert_close

X = torch.randn(4, 5, 6) * 3


def check(function, device, *tensors):
    results = []
    for place in ("cpu", device):
        x = X.clone().to(place).requires_grad_()
        y = function(x, *(t.to(place) for t in tensors))
        y.sum().backward()
        results.append((y.detach().cpu(), x.grad.cpu()))
    assert_close(results[1], results[0])


@pytest.mark.parametrize("scale, zero, low, high", ((0.1, 0, -128, 127), (0.037, 12, 0, 255), (1.5, -3, -8, 7)))
def test_per_tensor(scale, zero, low, high, device):
    check(lambda x: torch.fake_quantize_per_tensor_affine(x, scale, zero, low, high), device)
    check(lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, s, z, low, high), device, torch.tensor([scale]),
          torch.tensor([zero], dtype=torch.int32))


@pytest.mark.parametrize("axis", (0, 1, 2))
@pytest.mark.parametrize("dtype", (torch.int32, torch.float32))
def test_per_channel(axis, dtype, device):
    n = X.size(axis)
    check(lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, axis, 0, 15), device,
          torch.rand(n) + 0.1, torch.arange(n).to(dtype))


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_narrow(dtype, device):
    x = X.to(dtype)
    expected = torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255)
    assert_close(torch.fake_quantize_per_tensor_affine(x.to(device), 0.1, 3, 0, 255).cpu(), expected)


def test_switched_off(device):
    x, one = X.to(device), torch.ones(1, device=device)
    y, mask = torch._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(x, one, one.int(), one.int() * 0, 0, 1)
    assert torch.equal(y, x) and mask.all()


def test_errors(device):
    x, s = X.to(device), torch.ones(5, device=device)
    with pytest.raises(RuntimeError, match="quant_min"):
        torch.fake_quantize_per_tensor_affine(x, 1.0, 0, 3, 2)
    with pytest.raises(RuntimeError, match="not consistent with input"):
        torch.fake_quantize_per_channel_affine(x, s, s, 0, 0, 3)
