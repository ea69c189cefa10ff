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


def observed(place, batches, settings, *, per_row=False, switches=(1, 1), running=(float("inf"), float("-inf"))):
    """Results, masks, gradients and everything that the operator keeps, after each of the batches."""
    low, high, symmetric = settings
    keeps = [torch.tensor([] if per_row else [number], device=place) for number in (*running, 1.0, 0.0)]
    keeps[3] = keeps[3].int()
    on = [torch.tensor([number], device=place) for number in switches]
    seen = []
    for batch in batches:
        x = batch.to(place, copy=True).requires_grad_()
        y = torch.fused_moving_avg_obs_fake_quant(x, *on, *keeps, 0.01, low, high, 0, per_row, symmetric)
        y.sum().backward()
        seen += [y.detach().cpu(), x.grad.cpu(), *(keep.cpu().clone() for keep in keeps)]
    return seen


@pytest.mark.parametrize("settings", ((-128, 127, False), (0, 255, False), (-128, 127, True), (0, 255, True),
                                      (-8, 7, True)))
@pytest.mark.parametrize("per_row", (False, True))
def test_observed(settings, per_row, device):
    batches = [X, X * 2, X - 5, X.abs() + 1]
    assert_close(observed(device, batches, settings, per_row=per_row),
                 observed("cpu", batches, settings, per_row=per_row))


@pytest.mark.parametrize("value", (0.0, 1.0, -1.0, 1e-30, 1e-42, 3e-5))
@pytest.mark.parametrize("settings", ((-128, 127, False), (0, 255, False), (0, 15, True), (-128, 127, True)))
def test_observed_extremes(value, settings, device):
    for batch in (torch.full((3, 4), value), torch.tensor([-value, value / 2])):
        assert_close(observed(device, [batch], settings), observed("cpu", [batch], settings))


@pytest.mark.parametrize("switches", ((0, 1), (1, 0), (0, 0)))
def test_observed_switches(switches, device):
    arguments = [X, X + 1], (0, 255, False)
    assert_close(observed(device, *arguments, switches=switches, running=(-2.0, 3.0)),
                 observed("cpu", *arguments, switches=switches, running=(-2.0, 3.0)))


def test_quantization_aware_training(device):
    def trained(place):
        fake = torch.ao.quantization.FusedMovingAvgObsFakeQuantize().to(place)
        x = X.clone().to(place).requires_grad_()
        for step in range(3):
            fake(x * (step + 1)).square().mean().backward()
        return [x.grad.cpu(), *(tensor.cpu() for tensor in fake.state_dict().values())]

    assert_close(trained(device), trained("cpu"))


def test_errors(device):
    x, s = X.to(device), torch.ones(5, device=device)
    with pytest.raises(RuntimeError, match="quant_min"):
        torch.fake_quantize_per_tensor_affine(x, 1.0, 0, 3, 2)
    with pytest.raises(RuntimeError, match="not consistent with input"):
        torch.fake_quantize_per_channel_affine(x, s, s, 0, 0, 3)
