"""What the device's products and convolutions do in the same launch, put into a graph's calls of them: bias, an
addition to another tensor, an activation.

Activations arrive here decomposed. Each is traced as Inductor decomposes it, and what comes out is looked for behind
every product whose result nothing else needs.
"""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch._inductor import config
from torch._inductor.decomposition import select_decomp_table
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

aten, ours = torch.ops.aten, torch.ops.torch_ocl
SLOPE = 0.0625          # of leaky_relu when it is traced; stands for any
# By the numbers that the device's operators take: those of the activation, where it has some.
ACTIVATIONS = {
    "gelu": (F.gelu, (0, 0)), "gelu_tanh": (functools.partial(F.gelu, approximate="tanh"), (0, 0)),
    "hard_swish": (F.hardswish, (0, 0)), "hard_sigmoid": (F.hardsigmoid, (1 / 6, 0.5)), "silu": (F.silu, (0, 0)),
    "sigmoid": (torch.sigmoid, (0, 0)), "relu6": (F.relu6, (0, 0)),
    "leaky_relu": (functools.partial(F.leaky_relu, negative_slope=SLOPE), (SLOPE, 0)), "relu": (F.relu, (0, 0)),
}
OF_PRODUCTS = ("relu", "gelu", "gelu_tanh")
OF_CONVOLUTIONS = tuple(ACTIVATIONS)
IN_SINGLE = ("hard_sigmoid", "leaky_relu")      # whose numbers the kernels have in float32
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
TURNS = (aten.permute.default, aten.t.default, aten.transpose.int)
VIEWS = (aten.view.default, aten.reshape.default, aten._unsafe_view.default)


def fuse(graph: torch.fx.Graph) -> None:
    if not config.pattern_matcher:
        return
    places = _Places(graph)
    for node in list(graph.nodes):
        if node.target not in (aten.convolution.default, aten.addmm.default, aten.mm.default):
            continue
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.device.type == "ocl" and value.dtype in DTYPES:
            (_convolution if node.target is aten.convolution.default else _product)(graph, node, places)


class _Places:
    """Where nodes stand, those of launches too, which stand in others' places, and where memory is written to."""

    def __init__(self, graph):
        self._of = {node: place for place, node in enumerate(graph.nodes)}
        self._writes: dict = {}

    def put(self, new, old) -> None:
        self._of[new] = self._of[old]

    def write(self, node, at) -> None:
        """Launch `at` writes to the memory of `node`."""
        self._writes.setdefault(node, []).append(self._of[at])

    def follows(self, node, other) -> bool:
        return self._of[node] > self._of[other]

    def may_move(self, node, there) -> bool:
        """Whether nothing that a node reads is written to until there."""
        return not any(self._of[node] < place <= self._of[there]
                       for read in node.all_input_nodes for place in self._writes.get(read, ()))


def _product(graph, node, places) -> None:
    addend, a, b = node.args if node.target is aten.addmm.default else (None, *node.args)
    found = activation_of(node, OF_PRODUCTS)
    constant = _is_constant(b)
    if found is None and not constant:
        return
    name, last, _ = found or ("none", node, None)
    numbers = (node.kwargs.get("beta", 1), node.kwargs.get("alpha", 1))
    with graph.inserting_before(node):
        fused = graph.call_function(ours.fused_addmm.default, (addend, a, b, *numbers, name, constant))
    _replace(graph, node, fused, last, places)


def _convolution(graph, node, places) -> None:
    names = [argument.name for argument in aten.convolution.default._schema.arguments]
    given = {**dict(zip(names, node.args)), **node.kwargs}
    axes = node.meta["val"].dim() - 2
    for name in ("stride", "padding", "dilation", "output_padding"):    # one number may stand for all, as in "valid"
        given[name] = [*given[name]] * (axes if len(given[name]) == 1 else 1)
    arguments = [given[name] for name in names]
    added = _addition(node, places)
    if added is not None:
        total, other = added
        name, last, numbers = activation_of(total, OF_CONVOLUTIONS) or ("none", total, (0, 0))
        with graph.inserting_before(total):
            fused = graph.call_function(ours.fused_convolution_add_.default,
                                        (other, *arguments, name, *map(float, numbers), _is_constant(arguments[1])))
        places.put(fused, total)
        places.write(other, total)
        last.replace_all_uses_with(other)
        return
    found = activation_of(node, OF_CONVOLUTIONS)
    constant = _is_constant(arguments[1])
    if found is None and arguments[2] is None and not constant:
        return
    name, last, numbers = found or ("none", node, (0, 0))    # Inductor adds a bias by itself
    with graph.inserting_before(node):
        fused = graph.call_function(ours.fused_convolution.default, (*arguments, name, *map(float, numbers), constant))
    _replace(graph, node, fused, last, places)


def _is_constant(weight) -> bool:
    """Whether it never changes: what the device derives from it is kept then."""
    while weight.target in TURNS:
        weight = weight.args[0]
    return config.freezing and weight.op == "get_attr"


def _replace(graph, node, fused, last, places) -> None:
    """Whatever used `last`, the activation's result, gets that of `fused`, seen as `last` has it."""
    fused.meta.update(node.meta)
    places.put(fused, node)
    result = fused
    viewed = _view_of(node) if last is not node else None
    if viewed is not None:
        with graph.inserting_after(fused):
            result = graph.call_function(viewed.target, (fused, *viewed.args[1:]), viewed.kwargs)
        result.meta.update(viewed.meta)
        places.put(result, viewed)
    last.replace_all_uses_with(result)


def _view_of(node):
    """The single use of a node, if that shows it in another shape."""
    user = next(iter(node.users)) if len(node.users) == 1 else None
    return user if user is not None and user.target in VIEWS and user.args[0] is node else None


def _addition(node, places):
    """(sum, what is added) if the only use of a convolution is a sum with a tensor of its shape that is not used
    later, into whose memory the kernel may write. It is not what the convolution reads."""
    total = next(iter(node.users)) if len(node.users) == 1 else None
    if total is None or total.target is not aten.add.Tensor or total.kwargs:
        return None
    other = total.args[1] if total.args[0] is node else total.args[0]
    if not isinstance(other, torch.fx.Node) or not isinstance(other.target, torch._ops.OpOverload):
        return None
    if other is node or other in node.all_input_nodes:
        return None
    value, expected = other.meta.get("val"), node.meta["val"]
    if not isinstance(value, torch.Tensor) or value.device != expected.device or value.dtype != expected.dtype:
        return None
    same = value.dim() == expected.dim() and all(
        statically_known_true(a == b)
        for a, b in zip((*value.shape, *value.stride()), (*expected.shape, *expected.stride())))
    if not same or not _is_fresh(other) or any(places.follows(user, total) for user in other.users):
        return None
    # The convolution moves to where the sum is.
    return (total, other) if places.may_move(node, total) else None


def _is_fresh(node) -> bool:
    """Whether its memory is known by its name alone."""
    if len(node.target._schema.returns) != 1 or _shares_memory(node) or node.target._schema.is_mutable:
        return False
    return not any(_shares_memory(user) or user.op == "output" for user in node.users)


def _shares_memory(node) -> bool:
    """Whether a result is in the memory of an operand."""
    return isinstance(node.target, torch._ops.OpOverload) and (
        node.target in VIEWS or any(r.alias_info is not None for r in node.target._schema.returns))


# Activations.


def activation_of(node, names):
    """(name, the node of its result, its numbers) of the activation that is all that is made of a node."""
    dtype = node.meta["val"].dtype
    start = _view_of(node) or node
    for name in names:
        if dtype == torch.float64 and name in IN_SINGLE:
            continue
        last, numbers = _match(_pattern(name, dtype), start, name)
        if last is not None:
            return name, last, numbers
    return None


@functools.cache
def _pattern(name: str, dtype: torch.dtype):
    """The graph that an activation becomes."""
    function = ACTIVATIONS[name][0]
    with unset_fake_temporarily():
        traced = make_fx(lambda x: function(x), decomposition_table=select_decomp_table())(torch.empty(4, dtype=dtype))
    return traced.graph


def _match(pattern, start, name):
    """(last node, numbers) where what uses `start` is the pattern and nothing else."""
    numbers = ACTIVATIONS[name][1]
    given: dict = {}
    slope = [None]

    def same(wanted, found) -> bool:
        if isinstance(wanted, torch.fx.Node):
            return given.get(wanted) is found
        if name == "leaky_relu" and isinstance(wanted, float) and wanted == SLOPE and isinstance(found, float):
            slope[0] = found
            return True
        if isinstance(wanted, (list, tuple)):
            return isinstance(found, (list, tuple)) and len(wanted) == len(found) and all(map(same, wanted, found))
        return not isinstance(found, torch.fx.Node) and wanted == found

    def fits(wanted, found) -> bool:
        return (found.op == "call_function" and found.target is wanted.target and same(wanted.args, found.args)
                and found.kwargs.keys() == wanted.kwargs.keys()
                and all(same(value, found.kwargs[key]) for key, value in wanted.kwargs.items()))

    result = None
    for wanted in pattern.nodes:
        if wanted.op == "placeholder":
            given[wanted] = start
            continue
        if wanted.op == "output":
            result = given[wanted.args[0]]
            break
        operand = next((a for a in wanted.all_input_nodes if a in given), None)
        if operand is None:
            return None, None
        found = next((user for user in given[operand].users if user not in given.values() and fits(wanted, user)), None)
        if found is None:
            return None, None
        given[wanted] = found
    inside = set(given.values())
    if any(user not in inside for found in inside if found is not result for user in found.users):
        return None, None
    return result, (slope[0], 0) if slope[0] is not None else numbers
