"""How DTensor shards what only this device calls: PyTorch has rules for the attention of CUDA and of the CPU, and none
for the entries that other devices override."""

from __future__ import annotations

from torch_ocl import _after_import


def register() -> None:
    _after_import.adapt({"torch.distributed.tensor": _adapt})


def _adapt(_) -> None:
    import torch
    from torch.distributed.tensor.experimental import register_sharding

    aten = torch.ops.aten
    register_sharding(aten._scaled_dot_product_fused_attention_overrideable.default)(_attention)
    register_sharding(aten._scaled_dot_product_fused_attention_overrideable_backward.default)(_attention_backward)


def _ways(query, mask):
    """How query, mask and whatever has query's first axes may lie: replicated, or shards of the batch or of the heads
    ([batch, heads, rows, size]). A mask that is broadcast along the axis is replicated."""
    from torch.distributed.tensor import Replicate, Shard

    yield Replicate(), Replicate()
    for axis in range(2 if query.ndim == 4 else 0):
        in_mask = None if mask is None else axis + mask.ndim - query.ndim
        shared = mask is None or in_mask < 0 or mask.shape[in_mask] != query.shape[axis]
        yield Shard(axis), Replicate() if shared else Shard(in_mask)


def _attention(query, key, value, mask=None, *_, **__):
    """Outputs: y, logsumexp, lengths (none), the state of random numbers (two on the CPU), the debug mask (none)."""
    return [([own, own] + [None] * 7, [own, own, own] + ([] if mask is None else [of_mask]))
            for own, of_mask in _ways(query, mask)]


def _attention_backward(grad, query, key, value, mask, *_, **__):
    from torch.distributed.tensor import Replicate

    numbers = [Replicate(), Replicate()]
    return [([own, own, own, None], [own] * 4 + ([] if mask is None else [of_mask]) + [own, own] + numbers)
            for own, of_mask in _ways(query, mask)]
