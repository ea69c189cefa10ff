"""Automatic mixed precision."""

import pytest
import torch
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import flex_attention

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


def branches_and_loops(x, w):
    x = torch.cond(x.sum() > 0, lambda x, w: torch.tanh(x @ w), lambda x, w: x @ w, (x, w))
    start = torch.zeros((), dtype=torch.int64, device=x.device)
    return while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, (torch.cos(x) @ w)), (start, x))[1]


@pytest.mark.parametrize("compiled", [False, True])
def test_operators_of_functions(compiled):
    """PyTorch passes by the mixed precision of the devices that it knows by name."""
    x, w = torch.randn(5, 8).bfloat16(), torch.randn(8, 8) / 3
    torch._dynamo.reset()
    function = torch.compile(branches_and_loops) if compiled else branches_and_loops
    with torch.autocast("ocl", dtype=torch.bfloat16):
        y = function(x.to(device), w.to(device))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = branches_and_loops(x, w)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.cpu(), expected, rtol=5e-2, atol=5e-2)


@pytest.mark.parametrize("compiled", [False, True])
def test_flex_attention(compiled):
    """Queries, keys and values are cast, as those of scaled_dot_product_attention are."""
    q, k, v = torch.randn(3, 2, 2, 40, 16).unbind()
    torch._dynamo.reset()
    function = torch.compile(flex_attention) if compiled else flex_attention
    ours = [t.to(device).requires_grad_() for t in (q, k, v)]
    with torch.autocast("ocl", dtype=torch.bfloat16):
        y = function(*ours)
        y.float().square().sum().backward()
    theirs = [t.requires_grad_() for t in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(*theirs)
    expected.square().sum().backward()
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.cpu().float(), expected, rtol=3e-2, atol=3e-2)
    for a, b in zip(ours, theirs):
        assert a.grad.dtype == torch.float32
        torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=5e-2, atol=5e-2)
