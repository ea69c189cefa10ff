"""Kernels registered for the device are what PyTorch's dispatcher calls, also where gradients are recorded."""
import collections
import re

import pytest
import torch

# Operators that PyTorch makes of others on this device although the CPU has a kernel for them, and why that is right.
COMPOSED = {
    "aten::native_channel_shuffle": "composed of views and one copy, as on CUDA",
}


def dispatch_table(name):
    """What each dispatch key calls: `kernel`, `autograd kernel`, `math kernel` (composed of other operators), ..."""
    table = {}
    for line in torch._C._dispatch_dump_table(name).splitlines():
        key, _, entry = line.partition(": ")
        kind = re.search(r"\[([^]]*)\]\s*$", entry)
        table[key] = kind.group(1) if kind else entry
    return table


def registered():
    return torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1")


def names_by_operator():
    names = collections.defaultdict(list)
    for name in torch._C._dispatch_get_all_op_names():
        names[name.split(".")[0]].append(name)
    return names


def test_registered_kernels_are_reached():
    unreached = []
    for name in registered():
        table = dispatch_table(name)
        if table["PrivateUse1"] != "kernel" or table["AutogradPrivateUse1"] == "math kernel":
            unreached.append((name, table["PrivateUse1"], table["AutogradPrivateUse1"]))
    assert len(registered()) > 600 and not unreached, unreached


def test_no_operator_is_composed_where_the_cpu_has_a_kernel():
    """`X.out` alone serves X too, unless PyTorch can also compose X of other operators: then X needs a registration."""
    composed = []
    for names in names_by_operator().values():
        for name in names:
            table = dispatch_table(name)
            for own, other in (("PrivateUse1", "CPU"), ("AutogradPrivateUse1", "AutogradCPU")):
                if table.get(own) == "math kernel" != table.get(other) and name not in COMPOSED:
                    composed.append((name, own, table.get(other)))
    assert not composed, composed


def launches(call):
    call()   # builds programs
    torch.ocl.synchronize()
    before = torch.ocl.kernel_launches()
    call()
    return torch.ocl.kernel_launches() - before


@pytest.mark.parametrize("activation", ["silu", "mish", "gelu", "hardswish", "elu", "softplus", "logsigmoid",
                                        "leaky_relu", "hardtanh", "hardsigmoid", "tanhshrink"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_activation_gradients(activation, dtype, device):
    function = getattr(torch.nn.functional, activation)
    x = torch.linspace(-12, 12, 4001).to(dtype)
    dy = torch.randn(4001).to(dtype)
    exact = torch.autograd.grad(function(wide := x.double().requires_grad_()), wide, dy.double())[0]
    expected = torch.autograd.grad(function(host := x.clone().requires_grad_()), host, dy)[0]
    own = x.to(device).requires_grad_()
    y, own_dy = function(own), dy.to(device)
    actual = torch.autograd.grad(y, own, own_dy, retain_graph=True)[0].cpu()
    if dtype == torch.float32:
        torch.testing.assert_close(actual, expected)
    else:   # one rounding, of the result
        scale = torch.finfo(dtype).eps * exact.abs()
        assert ((actual - exact).abs() <= scale + (expected - exact).abs() + 1e-6).all()
    if activation in ("silu", "mish", "gelu"):
        assert launches(lambda: torch.autograd.grad(y, own, own_dy, retain_graph=True)) == 1


@pytest.mark.parametrize("activation", ["silu", "mish"])
def test_second_derivatives(activation, device):
    x = torch.randn(7, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradgradcheck(getattr(torch.nn.functional, activation), (x,))
