"""Padding against PyTorch's CPU."""
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from opinfo import case_id, cases, check, check_gradients

CASES = list(cases({"nn.functional.pad"}))
MODES = ("reflect", "replicate")


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_against_cpu(case, device):
    check(*case, device)


@pytest.mark.parametrize("op", {id(case[0]): case[0] for case in CASES}.values(), ids=lambda op: op.formatted_name)
def test_gradients(op, device):
    check_gradients(op, device)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pads", ((3, 2), (-2, 3), (0, -1), (2, 1, 3, 0), (-1, -1, 2, 2), (1, 2, 0, 3, 2, 1),
                                  (-1, 2, 1, -2, 0, 0)))
def test_values_and_gradients(mode, pads, device):
    shape = (2, 3, 5, 6, 4)[: 2 + len(pads) // 2]
    for x in (torch.randn(shape, dtype=torch.float64), torch.randn(shape[1:], dtype=torch.float64),
              torch.randn(shape, dtype=torch.float64).transpose(0, 1)[::2]):
        a, b = x.clone().requires_grad_(), x.to(device).requires_grad_()
        y, z = F.pad(a, pads, mode), F.pad(b, pads, mode)
        assert torch.equal(z.cpu(), y)
        g = torch.randn_like(y)
        assert_close(torch.autograd.grad(z, b, g.to(device))[0].cpu(), torch.autograd.grad(y, a, g)[0])


@pytest.mark.parametrize("mode", MODES)
def test_channels_last(mode, device):
    for shape, pads, format in (((2, 5, 4, 6), (1, 2, 3, 0), torch.channels_last),
                                ((2, 5, 3, 4, 6), (1, 2, 3, 0, 1, 2), torch.channels_last_3d)):
        x = torch.randn(shape).to(memory_format=format)
        a, b = x.clone().requires_grad_(), x.to(device).requires_grad_()
        y, z = F.pad(a, pads, mode), F.pad(b, pads, mode)
        assert z.stride() == y.stride()
        assert torch.equal(z.cpu(), y)
        g = torch.randn_like(y)
        assert_close(torch.autograd.grad(z, b, g.to(device))[0].cpu(), torch.autograd.grad(y, a, g)[0])


@pytest.mark.parametrize("mode", MODES)
def test_sums_of_half_precision_are_kept_in_float32(mode, device):
    x = torch.randn(2, 3, 4, 5).bfloat16()
    moved = x.to(device).requires_grad_()
    exact = x.float().requires_grad_()
    g = torch.randn(2, 3, 10, 11).bfloat16()
    F.pad(moved, (3, 3, 3, 3), mode).backward(g.to(device))
    F.pad(exact, (3, 3, 3, 3), mode).backward(g.float())
    assert_close(moved.grad.cpu(), exact.grad.bfloat16())


@pytest.mark.parametrize("mode", MODES)
def test_empty_batch_out_and_errors(mode, device):
    assert F.pad(torch.empty(0, 3, 4, 4, device=device), (1, 1, 1, 1), mode).shape == (0, 3, 6, 6)
    x = torch.randn(1, 2, 4, 4)
    out = torch.empty(0, device=device)
    name = {"reflect": "reflection_pad2d", "replicate": "replication_pad2d"}[mode]
    getattr(torch._C._nn, name)(x.to(device), (1, 2, 3, 0), out=out)
    assert torch.equal(out.cpu(), F.pad(x, (1, 2, 3, 0), mode))
    for shape, pads in (((1, 2, 0, 4), (1, 1, 1, 1)), ((4,), (1, 1))) + (
            (((1, 2, 4, 4), (4, 0, 0, 0)), ((1, 2, 4), (0, 4))) if mode == "reflect"
            else (((1, 2, 4, 4), (-4, 0, 0, 0)),)):
        with pytest.raises((RuntimeError, NotImplementedError)) as expected:
            F.pad(torch.zeros(shape), pads, mode)
        with pytest.raises(expected.type):
            F.pad(torch.zeros(shape, device=device), pads, mode)


@pytest.mark.parametrize("pads", ((1, 2), (3, 0, 0, 0), (0, 0, 1, 2), (1, 1, 1, 1), (-1, 3, 2, -2), (0, 0, 0, 0, 2, 1),
                                  (1, 2, 0, 3, -2, 1), (1, 1, 1, 1, 1, 1, 1, 1), (-5, 1), (-1, -1), (0, 0)))
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex128), ids=str)
def test_a_number(pads, dtype, device):
    torch.manual_seed(1)
    for x in (torch.randn(2, 3, 5, 6), torch.randn(2, 3, 5, 6).to(memory_format=torch.channels_last),
              torch.randn(6, 5, 3, 4).permute(2, 3, 1, 0)[:, ::2]):
        x = (x * 9).to(dtype)
        value = True if dtype == torch.bool else 7
        y, z = F.pad(x, pads, value=value), F.pad(x.to(device), pads, value=value)
        assert z.stride() == y.stride() and torch.equal(z.cpu(), y)


def test_a_number_in_long_rows_and_its_gradient(device):
    for shape, pads in (((3, 40000), (5, 70000)), ((50, 64), (0, 0, 0, 900)), ((1, 1, 2, 3), (1, 1))):
        x = torch.randn(shape)
        a, b = x.clone().requires_grad_(), x.to(device).requires_grad_()
        y, z = F.pad(a, pads, value=0.5), F.pad(b, pads, value=0.5)
        assert torch.equal(z.cpu(), y)
        g = torch.randn_like(y)
        assert torch.equal(torch.autograd.grad(z, b, g.to(device))[0].cpu(), torch.autograd.grad(y, a, g)[0])


def test_numbers_and_pads_that_do_not_fit(device):
    for shape, pads, dtype, value in (((2, 3), (-2, -2, 1, 1), torch.float32, 0), ((2, 3), (1, 2, 3), torch.float32, 0),
                                      ((3,), (1, 1, 1, 1), torch.float32, 0), ((2, 3), (1, 1), torch.int8, 300)):
        with pytest.raises(RuntimeError) as expected:
            F.pad(torch.zeros(shape, dtype=dtype), pads, value=value)
        with pytest.raises(expected.type):
            F.pad(torch.zeros(shape, dtype=dtype, device=device), pads, value=value)
