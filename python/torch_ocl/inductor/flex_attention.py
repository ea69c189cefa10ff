"""FlexAttention: a kernel that computes the caller's score_mod and mask_mod in its tiles, forward and backward.

What the kernels do not take (see `Problem.refused`) is lowered from PyTorch's definition, flex_composite.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from unittest import mock

import sympy

import torch
from torch._higher_order_ops.flex_attention import math_attention, sdpa_dense_backward
from torch._inductor import ir
from torch._inductor.exc import SubgraphLoweringException
from torch._inductor.ir import ExternKernel
from torch._inductor.kernel.flex.common import (build_subgraph_buffer, create_placeholder, freeze_irnodes,
                                                infer_dense_strides, maybe_realize)
from torch._inductor.lowering import empty_strided, lowerings
from torch._inductor.virtualized import V

from torch_ocl.inductor import flex_composite
from torch_ocl.inductor.cpu_flex import cut_of
from torch_ocl.inductor.flex_kernel import FlexKernel, INDICES, tile_of

aten, prims = torch.ops.aten, torch.ops.prims
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclasses.dataclass
class Problem:
    """What the kernels of both directions have to know."""

    query: object
    key: object
    value: object
    mask: dict
    scale: float
    score_captures: list
    mask_captures: list
    mask_graph: object

    @classmethod
    def of(cls, query, key, value, block_mask, scale, score_captures, mask_captures):
        names = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks", "q_indices",
                 "full_q_num_blocks", "full_q_indices")
        mask = dict(zip(names, block_mask[2:10]))
        query_block, key_block, mask_graph = block_mask[-3:]
        sizes = V.graph.sizevars
        mask |= {"query_block": sizes.guard_int(query_block), "key_block": sizes.guard_int(key_block)}
        return cls(query, key, value, mask, float(scale), list(score_captures), list(mask_captures), mask_graph)

    def refused(self, *directions: str) -> bool:
        """Whether there is no kernel."""
        dtypes = {x.get_dtype() for x in (self.query, self.key, self.value)}
        if len(dtypes) > 1 or not dtypes <= set(DTYPES):
            return True
        if all(cut_of(direction, self, 1) for direction in directions):
            return False
        sizes = [V.graph.sizevars.guard_int(x.get_size()[-1]) for x in (self.query, self.value)]
        return tile_of(self.query, self.mask, max(sizes), 2 if directions == ("forward",) else 4) is None

    def realize(self) -> None:
        self.query, self.key, self.value = maybe_realize([self.query, self.key, self.value])
        names = [n for n in self.mask if not n.endswith("_block")]
        self.mask |= dict(zip(names, maybe_realize([self.mask[n] for n in names])))
        self.score_captures, self.mask_captures = (list(maybe_realize(c)) for c in (self.score_captures,
                                                                                   self.mask_captures))
        freeze_irnodes([self.query, self.key, self.value, self.score_captures, self.mask_captures])

    @property
    def captures(self) -> list:
        return [*self.score_captures, *self.mask_captures]

    def functions(self, **graphs) -> dict | None:
        """The caller's functions, graphs and the names of their arguments, and the mask's; None where one has sums (of
        more than a few elements) or operators that no kernel computes for a score."""
        try:
            found = {name: self.subgraph(graph, self.score_captures, *values)
                     for name, (graph, *values) in graphs.items()}
            return found | {"mask": self.subgraph(self.mask_graph, self.mask_captures, *INDICES)}
        except SubgraphLoweringException:
            return None

    def subgraph(self, graph, captures, *values: str):
        """The caller's function of (values of the score's dtype before and behind the indices) and captured tensors."""
        device, dtype = self.query.get_device(), self.query.get_dtype()
        inputs = [create_placeholder(n, torch.int32 if n in INDICES else dtype, device) for n in values]
        with _short_sums_are_written_out():
            buffer = build_subgraph_buffer([*inputs, *captures], graph)
        freeze_irnodes(buffer)
        return buffer


@contextlib.contextmanager
def _short_sums_are_written_out():
    """Inductor writes out a reduction of a few elements to one for devices that it calls GPUs. A function of one score
    can have no other reductions."""
    former = ir.is_gpu
    with mock.patch.object(ir, "is_gpu", lambda device: device == "ocl" or former(device)):
        yield


def _empty(like, size, dtype=None):
    """A tensor laid out as `like` is, or a contiguous one of another dtype."""
    stride = None if dtype else [sympy.sympify(s) for s in infer_dense_strides(size, like.get_stride())]
    result = empty_strided(size, stride, dtype=dtype or like.get_dtype(), device=like.get_device())
    result.realize()
    return result


def lower_forward(query, key, value, subgraph, block_mask, scale, kernel_options, score_captures, mask_captures):
    problem = Problem.of(query, key, value, block_mask, scale, score_captures, mask_captures)

    def by_definition():
        return flex_composite.lower(math_attention, (query, key, value, subgraph, block_mask, scale, kernel_options,
                                                     score_captures, mask_captures))

    if problem.refused("forward"):
        return by_definition()
    graphs = problem.functions(score=(subgraph, "score", *INDICES))
    if graphs is None:
        return by_definition()
    problem.realize()
    batch, heads, queries, _ = problem.query.get_size()
    out = _empty(problem.query, [batch, heads, queries, problem.value.get_size()[-1]])
    lse, largest = (_empty(problem.query, [batch, heads, queries], torch.float32) for _ in range(2))
    kernel = FlexKernel(problem, "forward", graphs)
    kernel.outputs({"OUT": out}, {"LSE": lse, "MAX": largest})
    kernel.launch()
    return out, lse, largest


def lower_backward(*args):
    (query, key, value, out, lse, grad_out, grad_lse, fw_graph, joint_graph, block_mask, scale, _, score_captures,
     mask_captures) = args
    problem = Problem.of(query, key, value, block_mask, scale, score_captures, mask_captures)
    joint_graph.graph_module.graph.eliminate_dead_code()
    gradients = next(iter(joint_graph.graph_module.graph.find_nodes(op="output"))).args[0]
    captures_want_gradients = any(g is not None for g in gradients[5:])
    if grad_out is None or captures_want_gradients or problem.refused("backward_queries", "backward_keys"):
        return flex_composite.lower(sdpa_dense_backward, args)
    graphs = problem.functions(score=(fw_graph, "score", *INDICES),
                               joint=(joint_graph, "score", *INDICES, "grad_score_mod"))
    if graphs is None:
        return flex_composite.lower(sdpa_dense_backward, args)
    graphs["joint"] = graphs["joint"][0]
    problem.realize()
    delta = _delta(out, grad_out, grad_lse, torch.float64 if query.get_dtype() == torch.float64 else torch.float32)
    grad_out, lse, delta = maybe_realize([grad_out, lse, delta])
    batch, heads, queries, size = problem.query.get_size()
    key_batch, key_heads, keys, value_size = problem.value.get_size()
    grad_query = _empty(problem.query, [batch, heads, queries, size])
    grad_key = _empty(problem.key, [batch, key_heads, keys, size])
    grad_value = _empty(problem.value, [batch, key_heads, keys, value_size])
    for direction, outputs in (("backward_queries", {"DQ": grad_query}),
                               ("backward_keys", {"DK": grad_key, "DV": grad_value})):
        kernel = FlexKernel(problem, direction, graphs)
        kernel.inputs({"DY": grad_out}, {"LSE": lse, "DELTA": delta})
        kernel.outputs(outputs, {})
        kernel.launch()
    if not V.graph.sizevars.evaluate_expr(sympy.Eq(batch, key_batch)):
        grad_key, grad_value = (lowerings[aten.sum](g, axis=0, keepdims=True) for g in (grad_key, grad_value))
    return grad_query, grad_key, grad_value, tuple(None for _ in gradients[5:])


def _delta(out, grad_out, grad_lse, dtype):
    """What every score's gradient has in common in a row; statistics are to the base of 2."""
    product = lowerings[aten.mul](*(lowerings[prims.convert_element_type](x, dtype) for x in (out, grad_out)))
    delta = lowerings[aten.sum](product, axis=-1)
    if grad_lse is not None:
        delta = lowerings[aten.sub](delta, lowerings[aten.mul](grad_lse, 1 / math.log(2)))
    return ExternKernel.require_contiguous(delta)
