"""Batch norms in evaluation mode, and whatever else is an addition to or a multiple of a convolution's channels, become
part of its weights and bias, so that what follows them can be part of its launch (epilogues.py).

Parameters may change between calls, so the weights are multiplied in every call; that is done where they are few beside
the results, which are read and written for the norm otherwise. With config.freezing Inductor does it once, beforehand.
"""

from __future__ import annotations

import torch
from torch._inductor.virtualized import V
from torch.fx.experimental.symbolic_shapes import optimization_hint, statically_known_true

aten = torch.ops.aten
DTYPES = (torch.float32, torch.float64)     # in narrow ones the product of weight and scale would be rounded once more
SMALLER = 2         # how many times as large the result must be as the weights


def fold(graph: torch.fx.Graph) -> None:
    for node in list(graph.nodes):
        if node.target is not aten.convolution.default or not _is_worth_it(node):
            continue
        chain = _chain(node)
        if any(step.target is aten.mul.Tensor for step, _ in chain) and _may_move(node, chain[-1][0]):
            _fold(graph, node, chain)


def _is_worth_it(node) -> bool:
    value, weight = node.meta.get("val"), node.args[1].meta.get("val")
    if not isinstance(value, torch.Tensor) or value.device.type != "ocl" or value.dtype not in DTYPES:
        return False
    if not isinstance(weight, torch.Tensor) or node.kwargs or node.args[6]:     # transposed
        return False
    return SMALLER * optimization_hint(weight.numel()) <= optimization_hint(value.numel())


def _chain(node) -> list[tuple]:
    """The (operation, operand) that a convolution's result goes through one after the other, each operand a number for
    every channel."""
    result, steps = node, []
    while len(result.users) == 1:
        user = next(iter(result.users))
        if user.target not in (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor) or user.kwargs:
            break
        if user.target is aten.sub.Tensor and user.args[0] is not result:
            break
        operand = user.args[1] if user.args[0] is result else user.args[0]
        if operand is result or not _is_of_channels(operand, node.meta["val"]):
            break
        steps.append((user, operand))
        result = user
    return steps


def _is_of_channels(operand, result) -> bool:
    value = operand.meta.get("val") if isinstance(operand, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.dtype != result.dtype or value.device != result.device:
        return False
    ones = (1,) * (result.dim() - value.dim())
    channels = result.shape[1]
    return value.dim() <= result.dim() and all(
        statically_known_true(size == (channels if axis == 1 else 1))
        for axis, size in enumerate((*ones, *value.shape)))


def _may_move(node, last) -> bool:
    """Whether nothing between the two changes what it is given: the convolution is computed where the last one is."""
    between = node.next
    while between is not last:
        schema = getattr(between.target, "_schema", None)
        if between.op != "call_function" or (schema is not None and schema.is_mutable):
            return False
        between = between.next
    return True


def _fold(graph, node, chain) -> None:
    x, weight, bias, *others = node.args
    last = chain[-1][0]
    dimensions = node.meta["val"].dim()
    with graph.inserting_before(last):
        def call(target, *args):
            made = graph.call_function(target, args)
            with V.fake_mode:
                made.meta["val"] = target(*torch.fx.map_arg(args, lambda given: given.meta["val"]))
            return made

        channels = weight.meta["val"].shape[0]
        scale, shift = None, bias
        for step, operand in chain:
            operand = call(aten.reshape.default, operand, [channels])
            if step.target is aten.mul.Tensor:
                scale = call(aten.mul.Tensor, scale, operand) if scale is not None else operand
            if shift is not None:
                shift = call(step.target, shift, operand)
            elif step.target is not aten.mul.Tensor:
                shift = call(aten.neg.default, operand) if step.target is aten.sub.Tensor else operand
        scale = call(aten.reshape.default, scale, [channels] + [1] * (dimensions - 1))
        weight = call(aten.mul.Tensor, weight, scale)
        folded = graph.call_function(aten.convolution.default, (x, weight, shift, *others))
        folded.meta.update(node.meta)
    last.replace_all_uses_with(folded)
    for step, _ in reversed(chain):
        graph.erase_node(step)
    graph.erase_node(node)
