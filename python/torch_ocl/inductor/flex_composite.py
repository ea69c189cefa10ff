"""FlexAttention of what flex_attention.py has no kernel for: PyTorch's own definition, by whole matrices of scores, is
traced and lowered in its place."""

from __future__ import annotations

import copy
import itertools

import torch
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.lowering import process_subgraph_nodes, to_dtype
from torch._inductor.virtualized import V
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

_numbers = itertools.count()


def _for_vmap(function: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The caller's function with conversions of dtypes that vmap has a rule for: element by element they would make a
    graph without end."""
    graph = copy.deepcopy(function.graph)
    for node in graph.find_nodes(op="call_function", target=torch.ops.prims.convert_element_type.default):
        x, dtype = node.args
        node.target, node.args, node.kwargs = torch.ops.aten._to_copy.default, (x,), {"dtype": dtype}
    return torch.fx.GraphModule(function, graph)


def lower(definition, args):
    """args: those of the lowering; the node being lowered has the same ones as fake tensors."""
    node = V.graph.current_node
    leaves, spec = pytree.tree_flatten(list(node.args))
    irs = pytree.tree_leaves(list(args))
    inputs, places, values = [], [], list(leaves)
    for place, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.fx.Node):
            continue
        if leaf.op == "get_attr" and isinstance(getattr(leaf.graph.owning_module, leaf.target, None),
                                                torch.fx.GraphModule):
            values[place] = _for_vmap(getattr(leaf.graph.owning_module, leaf.target))
            continue
        places.append(place)
        inputs.append(leaf.meta["val"])

    def traced(*tensors):
        given = list(values)
        for place, tensor in zip(places, tensors):
            given[place] = tensor
        result = definition(*pytree.tree_unflatten(given, spec))
        return pytree.tree_leaves(result, is_leaf=lambda x: x is None), result

    shape: list = []

    def flat(*tensors):
        leaves, result = traced(*tensors)
        shape[:] = [pytree.tree_flatten(result, is_leaf=lambda x: x is None)[1]]
        return leaves

    with V.fake_mode:
        graph = make_fx(flat, decomposition_table=select_decomp_table(), _allow_non_fake_inputs=True)(*inputs)
    assert len(irs) == len(leaves), "the lowering's arguments are those of the node"
    for constant in graph.graph.find_nodes(op="get_attr"):   # found in the graph that is lowered
        name = f"_flex_constant{next(_numbers)}"
        setattr(V.graph.module, name, getattr(graph, constant.target))
        constant.target = name
    outputs = process_subgraph_nodes(graph, [irs[place] for place in places])
    # Statistics are float32 where the definition has them in float64.
    expected = [x for x in pytree.tree_leaves(node.meta["val"]) if x is not None]
    outputs = [y if y is None else to_dtype(y, expected.pop(0).dtype) for y in outputs]
    return pytree.tree_unflatten(outputs, shape[0])
