"""Interpolation in training steps is the device's, forward and backward.

PyTorch traces it as reads through indices, whose gradient is sums into shared places: some twenty launches of
index_put for what the device's own operator does in one. Without a gradient it stays decomposed, and is fused with what
surrounds it; with dynamic sizes, too, which PyTorch's shapes of the gradient do not know."""

from __future__ import annotations

import functools

import torch
from torch._C import DispatchKey
from torch._decomp.decompositions import upsample_compute_output_size
from torch.utils import _pytree as pytree

aten = torch.ops.aten
NAMES = ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d",
         "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d",
         "upsample_trilinear3d", "upsample_bicubic2d")


def register() -> None:
    for name in NAMES:
        packet = getattr(aten, name)
        for overload, ours in ((packet.default, _differentiable), (packet.vec, _by_sizes)):
            decomposed = overload.py_kernels.get(DispatchKey.Autograd)
            if decomposed is not None:
                overload.py_impl(DispatchKey.AutogradPrivateUse1)(_with_gradients(packet, ours, decomposed))


def _with_gradients(packet, ours, decomposed):
    nearest = "nearest" in packet.__name__

    @functools.wraps(decomposed)
    def call(x, *args, **kwargs):
        if not (torch.is_grad_enabled() and x.requires_grad):
            return decomposed(x, *args, **kwargs)
        numbers = pytree.tree_leaves((x.shape, args, kwargs))
        if any(isinstance(n, (torch.SymInt, torch.SymFloat)) for n in numbers):     # none may be asked for its value
            return decomposed(x, *args, **kwargs)
        # By factors that are not those of the sizes PyTorch's trace and its operators find other nearest elements.
        if nearest and not all(n is None or isinstance(n, int) or n == int(n) for n in numbers):
            return decomposed(x, *args, **kwargs)
        return ours(packet, x, *args, **kwargs)

    return call


def _differentiable(packet, *args, **kwargs):
    """The operator with PyTorch's own derivative."""
    return packet.default._op_dk(DispatchKey.Autograd, *args, **kwargs)


def _by_sizes(packet, x, output_size, *align_corners_and_scales):
    """F.interpolate's form, which has sizes or factors, as the one that has a derivative."""
    *align_corners, scales = align_corners_and_scales
    sizes = upsample_compute_output_size(x.size(), output_size, scales)
    return packet.default(x, sizes, *align_corners, *(scales or [None] * len(sizes)))
