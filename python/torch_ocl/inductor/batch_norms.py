"""Batch norms in evaluation mode, and whatever else is an addition to or a multiple of a convolution's channels, become
part of its weights and bias, so that what follows them can be part of its launch (epilogues.py).

Parameters may change between calls, so the weights are multiplied in every call; that is done where they are few beside
the results, which are read and written for the norm otherwise. With config.freezing Inductor does it once, beforehand.

What a batch norm as it usually is makes of them is a call of the device: generated, it would be two kernels to compile
for every shape of weights, from twenty nodes of the graph.
"""

from __future__ import annotations

import operator

import torch
from torch._inductor.virtualized import V
from torch.fx.experimental.symbolic_shapes import statically_known_true

from torch_ocl.inductor.versions import optimization_hint

aten, ours = torch.ops.aten, torch.ops.torch_ocl
DTYPES = (torch.float32, torch.float64)     # in narrow ones the product of weight and scale would be rounded once more
VIEWS = (aten.unsqueeze.default, aten.view.default, aten.reshape.default)
SMALLER = 2         # how many times as large the result must be as the weights


def fold(graph: torch.fx.Graph) -> None:
    folded = False
    for node in list(graph.nodes):
        if node.target is not aten.convolution.default or not _is_worth_it(node):
            continue
        chain = _chain(node)
        if any(step.target is aten.mul.Tensor for step, _ in chain) and _may_move(node, chain[-1][0]):
            _fold(graph, node, chain)
            folded = True
    if folded:      # what led to the norms' factors, which would be lowered and scheduled before it is left out
        graph.eliminate_dead_code()


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


def _batch_norm(chain, dtype):
    """(gamma, beta, mean, variance, eps) if a chain is (x - mean) * rsqrt(variance + eps) * gamma + beta."""
    if [step.target for step, _ in chain] != [aten.sub.Tensor, aten.mul.Tensor, aten.mul.Tensor, aten.add.Tensor]:
        return None
    mean, factor, gamma, beta = (_seen_through(operand) for _, operand in chain)
    if factor.target is not aten.rsqrt.default:
        return None
    total = _seen_through(factor.args[0])
    if total.target is not aten.add.Tensor or total.kwargs or not isinstance(total.args[1], (int, float)):
        return None
    variance = _seen_through(total.args[0])
    tensors = [found.meta.get("val") for found in (gamma, beta, mean, variance)]
    if not all(isinstance(t, torch.Tensor) and t.dim() == 1 and t.dtype == dtype for t in tensors):
        return None
    return gamma, beta, mean, variance, float(total.args[1])


def _seen_through(node):
    """What a view is of. Numbers of channels stay in their order in any."""
    while node.target in VIEWS:
        node = node.args[0]
    return node


def _fold(graph, node, chain) -> None:
    x, weight, bias, *others = node.args
    last = chain[-1][0]
    with graph.inserting_before(last):
        def call(target, *args):
            made = graph.call_function(target, args)
            with V.fake_mode:
                made.meta["val"] = target(*torch.fx.map_arg(args, lambda given: given.meta["val"]))
            return made

        norm = _batch_norm(chain, node.meta["val"].dtype)
        if norm is not None:
            both = call(ours.fold_batch_norm.default, weight, bias, *norm)
            weight, shift = (call(operator.getitem, both, place) for place in range(2))
        else:
            weight, shift = _products(call, weight, bias, chain)
        folded = graph.call_function(aten.convolution.default, (x, weight, shift, *others))
        folded.meta.update(node.meta)
    last.replace_all_uses_with(folded)
    for step, _ in reversed(chain):
        graph.erase_node(step)
    graph.erase_node(node)


def _products(call, weight, bias, chain):
    """Weights and bias by what a chain does to channels; call: adds a call of an operator to the graph."""
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
    scale = call(aten.reshape.default, scale, [channels] + [1] * (weight.meta["val"].dim() - 1))
    return call(aten.mul.Tensor, weight, scale), shift
