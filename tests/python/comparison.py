"""The device under test, and comparison of what it computes with PyTorch's CPU."""
import os

import torch
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves

device = os.environ.get("CLPRIM_TEST_DEVICE", "ocl:0")
HALVES = [torch.float16, torch.bfloat16]
FLOATS = [torch.float32, torch.float64, *HALVES]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def to_device(value):
    return value.to(device) if isinstance(value, torch.Tensor) else value


def agree(actual, expected, strides=False, **tolerances):
    """Tensors of the device and the CPU's; a tuple's, too."""
    for a, e in zip(tree_leaves(actual), tree_leaves(expected), strict=True):
        assert a.device.type == "ocl"
        assert_close(a.cpu(), e, equal_nan=True, **tolerances)
        assert not strides or a.stride() == e.stride()


def compare(function, *arguments, strides=False, **tolerances):
    """The function's results on both sides; arguments that it changes in place are its own."""
    expected = function(*(a.clone() if isinstance(a, torch.Tensor) else a for a in arguments))
    agree(function(*map(to_device, arguments)), expected, strides, **tolerances)


def compare_gradients(function, *arguments, strides=False, **tolerances):
    """Results and the gradients of floating-point arguments, from a random gradient of the first result.

    Half precision is compared with the result of float32, rounded.
    """
    rounds = any(isinstance(a, torch.Tensor) and a.dtype in HALVES for a in arguments)

    def leaf(tensor, where):
        if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
            return tensor if where == "cpu" else to_device(tensor)
        wide = torch.float32 if where == "cpu" and tensor.dtype in HALVES else tensor.dtype
        return tensor.detach().to(where, wide, copy=True).requires_grad_()

    def rounded(results, like):
        return [e.to(a.dtype) if rounds and a.dtype in HALVES else e for e, a in zip(results, like, strict=True)]

    def gradients(results, leaves):
        wanted = [t for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad]
        return torch.autograd.grad(results[0], wanted, g.to(results[0]))

    inputs, there = [leaf(a, "cpu") for a in arguments], [leaf(a, device) for a in arguments]
    expected, actual = tree_leaves(function(*inputs)), tree_leaves(function(*there))
    agree(actual, rounded(expected, actual), strides, **tolerances)
    g = torch.randn_like(expected[0]).to(actual[0].dtype)
    wanted, got = gradients(expected, inputs), gradients(actual, there)
    agree(got, rounded(wanted, got), strides, **tolerances)
