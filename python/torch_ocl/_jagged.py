"""Attention of jagged nested tensors: PyTorch takes an operator over sequences of different lengths on CUDA alone, and
elsewhere a composition of strided nested tensors."""

from __future__ import annotations

from torch_ocl import _after_import

_LONGEST_HEAD = 256     # clprim::longest_fused_head


def register() -> None:
    _after_import.adapt({"torch.nested._internal.sdpa": _adapt})


def _adapt(module) -> None:
    former = module._select_sdp_backend

    def _select_sdp_backend(query, key, value, attn_mask, dropout, is_causal, enable_gqa):
        if query.device.type == "ocl":
            if _serves(module, query, key, value, attn_mask):
                return module.SDPBackend.EFFICIENT_ATTENTION
            if module.math_sdp_enabled() and module._can_use_math_sdpa_jagged(
                    module.SDPAParams(query, key, value, attn_mask, dropout, is_causal, enable_gqa)):
                return module.SDPBackend.MATH
            # The former one would ask CUDA why. PyTorch takes a NotImplementedError for a request to try without it.
            raise RuntimeError(
                "scaled_dot_product_attention: of jagged tensors on ocl, query, key and value "
                f"[batch, heads, rows, size] of as many heads with size up to {_LONGEST_HEAD} and no attn_mask are "
                "computed by the device, others where they are contiguous after transpose(1, 2) and not causal, by "
                "SDPBackend.MATH")
        return former(query, key, value, attn_mask, dropout, is_causal, enable_gqa)

    module._select_sdp_backend = _select_sdp_backend


def _serves(module, query, key, value, attn_mask) -> bool:
    """Whether `_efficient_attention_forward` computes this: [batch, heads, rows, size], one length each row."""
    if not (module.mem_efficient_sdp_enabled() or module.flash_sdp_enabled()):
        return False
    tensors = (query, key, value)
    if attn_mask is not None or any(t.dim() != 4 or t._ragged_idx != 2 or t.lengths() is not None for t in tensors):
        return False
    # Sizes may be symbols of a trace, which no set takes.
    return (all(t.size(0) == query.size(0) and t.size(1) == query.size(1) for t in (key, value))
            and query.size(3) == key.size(3) and all(0 < t.size(3) <= _LONGEST_HEAD for t in tensors))
