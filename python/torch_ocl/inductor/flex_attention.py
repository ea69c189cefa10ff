"""FlexAttention."""
from __future__ import annotations

import torch
from torch._higher_order_ops.flex_attention import math_attention, sdpa_dense_backward

from torch_ocl.inductor import flex_composite


def lower_forward(*args):
    return flex_composite.lower(math_attention, args)


def lower_backward(*args):
    return flex_composite.lower(sdpa_dense_backward, args)
