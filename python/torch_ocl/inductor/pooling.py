"""Pools of images whose sizes are dynamic.

Inductor's loops over the windows of adaptive pools, and PyTorch's decomposition of them into other pools, make such
sizes constants: every size compiles anew, and a package of AOTInductor, where nothing checks that, has wrong values
for all but the traced one. They are the device's operators. With `ceil_mode` Inductor asks whether a size needs it,
with the same consequences."""

from __future__ import annotations

import functools

import sympy

import torch
from torch._inductor.virtualized import V


def lowering_of(ours, former):
    """Inductor's lowering where sizes are constants already, else `ours`."""
    @functools.wraps(former)
    def lowered(x, output_size):
        sizes = [*x.get_size()[-len(output_size):], *output_size]
        fixed = all(isinstance(V.graph.sizevars.simplify(sympy.sympify(size)), sympy.Integer) for size in sizes)
        return (former if fixed else ours)(x, output_size)

    return lowered


def decomposition_of(former):
    """PyTorch's decomposition, but of dynamic sizes on the device. The largest of a whole image asks for no size."""
    @functools.wraps(former)
    def decompose(x, output_size):
        dynamic = any(isinstance(size, torch.SymInt) for size in (*x.shape[-len(output_size):], *output_size))
        if x.device.type == "ocl" and dynamic and any(size != 1 for size in output_size):
            return NotImplemented
        return former(x, output_size)

    return decompose


def sizes_with_ceil_mode() -> None:
    """Results of pools with `ceil_mode` have their padded form unless a size is known not to need it."""
    from torch._inductor import lowering

    former = lowering.pooling_size

    @functools.wraps(former)
    def pooling_size(x, i, kernel_size, stride, padding, ceil_mode, **dilation):
        if not ceil_mode or isinstance(x, (int, sympy.Integer)) or "ocl" not in V.graph.device_types:
            return former(x, i, kernel_size, stride, padding, ceil_mode, **dilation)
        sizevars = V.graph.sizevars
        floor, ceil = (former(length, i, kernel_size, stride, padding, False, **dilation)[0]
                       for length in (x, x + stride[i] - 1))
        # PyTorch's shapes ask this, too: the last window begins within the image or the padding before it.
        if sizevars.guard_or_false(sympy.Ge((ceil - 1) * stride[i] - x - padding[i], 0)):
            ceil -= 1
        return (floor, False) if sizevars.statically_known_equals(floor, ceil) else (ceil, True)

    lowering.pooling_size = pooling_size
