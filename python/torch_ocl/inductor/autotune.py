"""max_autotune: a graph's products, convolutions and attention are tuned (torch.ocl.tunable) before it is compiled, on
random numbers. What is found is kept on disk, for eager code and later processes too."""

from __future__ import annotations

import torch
from torch._inductor import config
from torch._prims_common import is_float_dtype
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.node import map_arg
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only

from torch_ocl import tunable
from torch_ocl.inductor.versions import optimization_hint

aten, ours = torch.ops.aten, torch.ops.torch_ocl


def tune(graph: torch.fx.Graph) -> None:
    if not (config.max_autotune or config.max_autotune_gemm):
        return
    targets = {aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default, ours.fused_addmm.default}
    if config.max_autotune:
        targets |= {aten.convolution.default, aten.convolution_backward.default, ours.fused_convolution.default,
                    ours.fused_convolution_add_.default,
                    aten._scaled_dot_product_fused_attention_overrideable.default,
                    aten._scaled_dot_product_fused_attention_overrideable_backward.default}
    calls = [node for node in graph.nodes if node.target in targets and _on_the_device(node)]
    enabled = tunable.is_enabled()
    tunable.enable()
    try:
        for node in calls:
            _run(node)
    finally:
        tunable.enable(enabled)


def _on_the_device(node) -> bool:
    tensors = [n.meta.get("val") for n in node.all_input_nodes]
    return all(isinstance(t, torch.Tensor) and t.device.type == "ocl" for t in tensors)


def _run(node) -> None:
    with _disable_current_modes(), unset_fake_temporarily(), torch.no_grad():
        arguments = map_arg((node.args, node.kwargs), lambda n: _example(n.meta["val"]))
        args, kwargs = tree_map_only(torch.SymInt, optimization_hint, arguments)
        node.target(*args, **kwargs)


def _example(value):
    """A tensor of that dtype and layout, by hints where sizes are not known."""
    sizes, strides = ([optimization_hint(s) for s in dims] for dims in (value.shape, value.stride()))
    # Expanded tensors, whose elements share memory, cannot be filled; what they lie in can.
    memory = torch.empty(1 + sum((n - 1) * s for n, s in zip(sizes, strides)) if 0 not in sizes else 0,
                         dtype=value.dtype, device=value.device)
    memory = memory.uniform_(-1, 1) if is_float_dtype(value.dtype) else memory.zero_()
    return memory.as_strided(sizes, strides)
