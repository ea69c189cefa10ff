"""What is left to the device's own operators when a graph is lowered, instead of generated."""

from __future__ import annotations

import functools

import torch
from torch._inductor import lowering
from torch._inductor.ir import IRNode, TensorBox
from torch.utils import _pytree as pytree

aten = torch.ops.aten

# Sums into places that several elements share: the device's operators add in a fixed order, a generated kernel would
# need atomics.
_ACCUMULATING = {
    aten.index_put: lambda args, kwargs: _argument(args, kwargs, 3, "accumulate", False),
    aten.index_put_: lambda args, kwargs: _argument(args, kwargs, 3, "accumulate", False),
    aten._unsafe_index_put: lambda args, kwargs: _argument(args, kwargs, 3, "accumulate", False),
    aten.scatter: lambda args, kwargs: kwargs.get("reduce") is not None,
    aten.scatter_: lambda args, kwargs: kwargs.get("reduce") is not None,
    aten.scatter_add: lambda args, kwargs: True,
    aten.scatter_add_: lambda args, kwargs: True,
    aten.scatter_reduce: lambda args, kwargs: True,
    aten.scatter_reduce_: lambda args, kwargs: True,
    aten.index_add: lambda args, kwargs: True,
    aten.index_add_: lambda args, kwargs: True,
    aten._assert_async: lambda args, kwargs: True,
}


def _argument(args, kwargs, position: int, name: str, default):
    return args[position] if len(args) > position else kwargs.get(name, default)


def _is_ours(args, kwargs) -> bool:
    return any(isinstance(x, IRNode) and (x.get_device() or torch.device("cpu")).type == "ocl"
               for x in pytree.tree_leaves((args, kwargs), is_leaf=lambda x: isinstance(x, IRNode)))


def _wrapped(overload, former, condition):
    fallback = lowering.fallback_handler(overload, add_to_fallback_set=False)

    @functools.wraps(former)
    def lowered(*args, **kwargs):
        if _is_ours(args, kwargs) and condition(args, kwargs):
            return fallback(*args, **kwargs)
        return former(*args, **kwargs)

    return lowered


def register() -> None:
    for packet, condition in _ACCUMULATING.items():
        for name in packet.overloads():
            overload = getattr(packet, name)
            former = lowering.lowerings.get(overload)
            if former is not None and not getattr(former, "_is_fallback_handler", False):
                lowering.lowerings[overload] = _wrapped(overload, former, condition)
