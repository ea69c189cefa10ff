"""Operators of functions (torch.cond, flex_attention and others of torch.ops.higher_order) in torch.autocast: PyTorch
passes by the mixed precision of the devices that it knows by name, and casts what attention is given."""

from __future__ import annotations

import torch

from torch_ocl import _after_import

_AUTOCAST = torch._C.DispatchKey.AutocastPrivateUse1


def register() -> None:
    passed_by = getattr(torch._ops, "_HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS", None)
    if passed_by is not None and _AUTOCAST not in passed_by:
        passed_by.append(_AUTOCAST)      # for operators to come
        for operator in torch._ops._higher_order_ops.values():
            operator.fallthrough(_AUTOCAST)
    _after_import.adapt({"torch._higher_order_ops.flex_attention": _cast_attention})


def _cast_attention(module) -> None:
    cast = getattr(module, "_flex_attention_autocast_impl", None)
    if cast is None:     # PyTorch has none for its own devices
        return

    @module.flex_attention.py_impl(_AUTOCAST)
    def flex_attention_autocast(query, key, value, score_mod, block_mask, scale, kernel_options,
                                score_mod_other_buffers=(), mask_mod_other_buffers=()):
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(_AUTOCAST)):
            return cast(query, key, value, score_mod, block_mask, scale, kernel_options, score_mod_other_buffers,
                        mask_mod_other_buffers)
