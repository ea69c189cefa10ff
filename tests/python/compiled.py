"""Comparison of compiled functions on the device with eager ones on PyTorch's CPU."""
import copy
import os

import torch
from torch._inductor import config
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

from comparison import device

os.environ.setdefault("CI", "1")   # PyTorch asserts more where this is set: here it always is


def on_device(value):
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().to(device, copy=True).requires_grad_(value.requires_grad)


def gradients(outputs, leaves):
    """Of the outputs' sum weighted by fixed random numbers."""
    wanted = [y for y in tree_leaves(outputs) if isinstance(y, torch.Tensor) and y.requires_grad]
    generator = torch.Generator().manual_seed(3)
    weights = [torch.randn(y.shape, generator=generator, dtype=torch.float64).to(y.dtype).to(y.device) for y in wanted]
    return torch.autograd.grad(wanted, leaves, weights)


def close(actual, expected, **tolerances):
    actual, expected = tree_leaves(actual), tree_leaves(expected)
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected):
        if isinstance(b, torch.Tensor):
            assert a.device.type == "ocl" and a.dtype == b.dtype
            torch.testing.assert_close(a.cpu(), b, equal_nan=True, **tolerances)
        else:
            assert a == b


def check(function, *args, dynamic=False, fullgraph=True, **tolerances):
    """Compiled on the device and eager on the CPU give the same outputs, gradients and changes of arguments."""
    torch._dynamo.reset()
    ours = tree_map(on_device, args)
    reference = tree_map(lambda x: x.detach().clone().requires_grad_(x.requires_grad)
                         if isinstance(x, torch.Tensor) else x, args)
    with config.patch(force_disable_caches=True):
        compiled = torch.compile(function, dynamic=dynamic, fullgraph=fullgraph)
        actual = compiled(*ours)
        expected = function(*reference)
        close(actual, expected, **tolerances)
        ours_flat, reference_flat = tree_flatten(ours)[0], tree_flatten(reference)[0]
        leaves = [(a, b) for a, b in zip(ours_flat, reference_flat) if isinstance(b, torch.Tensor) and b.requires_grad]
        if leaves:
            mine, theirs = zip(*leaves)
            close(gradients(actual, mine), gradients(expected, theirs), **tolerances)
    close([a.detach() for a in ours_flat if isinstance(a, torch.Tensor)],
          [b.detach() for b in reference_flat if isinstance(b, torch.Tensor)], **tolerances)


def check_module(module, *args, fullgraph=True, **tolerances):
    """The same for a module, with the gradients of its parameters and its buffers afterwards."""
    torch._dynamo.reset()
    ours = copy.deepcopy(module).to(device)
    with config.patch(force_disable_caches=True):
        compiled = torch.compile(ours, fullgraph=fullgraph)
        actual = compiled(*tree_map(on_device, args))
        expected = module(*args)
        close(actual, expected, **tolerances)
        theirs = [p for p in module.parameters() if p.requires_grad]
        if theirs and any(y.requires_grad for y in tree_leaves(expected)):
            close(gradients(actual, [p for p in ours.parameters() if p.requires_grad]), gradients(expected, theirs),
                  **tolerances)
    for (name, a), b in zip(ours.named_buffers(), module.buffers()):
        torch.testing.assert_close(a.cpu(), b, msg=lambda text: f"{name}: {text}", **tolerances)
