"""Automatic mixed precision."""

import pytest
import torch

from comparison import device


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_casts(dtype):
    x, w = torch.randn(3, 4, device="cpu").to(device), torch.randn(4, 5, device="cpu").to(device)
    with torch.autocast("ocl", dtype=dtype):
        assert torch.is_autocast_enabled("ocl")
        y = x @ w
        assert y.dtype == dtype
        assert y.exp().dtype == torch.float32                     # float32 list
        assert torch.nn.functional.linear(y, w).dtype == dtype
        assert y.sum().dtype == torch.float32
        assert torch.cat([y, x], 1).dtype == torch.float32        # widest
        assert (y + 1).dtype == dtype                             # not on any list
        with torch.autocast("ocl", enabled=False):
            assert (x @ w).dtype == torch.float32
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            torch.nn.functional.binary_cross_entropy(torch.sigmoid(x), torch.zeros_like(x))
    assert (x @ w).dtype == torch.float32
    torch.testing.assert_close(y.float().cpu(), (x.cpu().to(dtype) @ w.cpu().to(dtype)).float(), rtol=2e-2, atol=2e-2)


def test_supported_types():
    assert torch.amp.is_autocast_available("ocl")
    assert set(torch.ocl.get_amp_supported_dtype()) >= {torch.float16, torch.bfloat16}
    with pytest.warns(UserWarning, match="not supported"):
        with torch.autocast("ocl", dtype=torch.float64):
            assert not torch.is_autocast_enabled("ocl")


def test_training_step_with_a_gradient_scaler():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to(device)
    before = [p.detach().cpu().clone() for p in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("ocl")
    x = torch.randn(4, 8).to(device)
    with torch.autocast("ocl", dtype=torch.float16):
        loss = model(x).float().pow(2).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() > 0
    assert all(torch.isfinite(p).all() for p in model.parameters())
    assert any(not torch.equal(p.detach().cpu(), b) for p, b in zip(model.parameters(), before))
    with torch.no_grad():
        model[0].weight.grad.fill_(float("inf"))
    # An overflow skips the step and lowers the scale.
    optimizer.zero_grad()
    with torch.autocast("ocl", dtype=torch.float16):
        loss = model(x).float().pow(2).mean() * float("inf")
    weights = [p.detach().cpu().clone() for p in model.parameters()]
    scale = scaler.get_scale()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() < scale
    assert all(torch.equal(p.detach().cpu(), w) for p, w in zip(model.parameters(), weights))
