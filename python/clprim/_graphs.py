"""A graph of an ONNX model as converters of numbers see it: constants by name, and nodes that take others' places."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import clprim


class Graph:
    """Nodes are visited in their order by `rewrite`; those that converters emit go before the one that is visited."""

    def __init__(self, model: onnx.ModelProto, least_opset: int):
        self.model = model
        versions = {one.domain: one.version for one in model.opset_import}
        if versions.get("", versions.get("ai.onnx", 0)) < least_opset:
            self.model = model = onnx.version_converter.convert_version(model, least_opset)
        self.graph = model.graph
        self.constants = {one.name: one for one in self.graph.initializer}
        nodes = []
        for node in self.graph.node:        # constants are initializers
            values = [a.t for a in node.attribute if a.name == "value"] if node.op_type == "Constant" else []
            value = values[0] if values else None
            if value is None:
                nodes.append(node)
            else:
                tensor = TensorProto()
                tensor.CopyFrom(value)
                tensor.name = node.output[0]
                self.constants[tensor.name] = tensor
                self.graph.initializer.append(tensor)
        self.names = set(self.constants) | {name for node in nodes for name in [*node.input, *node.output]}
        self.nodes, self.emitted = nodes, []

    def new_name(self, like: str) -> str:
        name, count = like, 0
        while name in self.names:
            count += 1
            name = f"{like}_{count}"
        self.names.add(name)
        return name

    def weights(self, name: str) -> np.ndarray | None:
        """A constant of float32, checked to be finite."""
        tensor = self.constants.get(name)
        if tensor is None or tensor.data_type != TensorProto.FLOAT:
            return None
        array = numpy_helper.to_array(tensor)
        if not np.isfinite(array).all():
            raise clprim.InvalidArgument(f"the constant '{name}' has infinities or NaN")
        return array

    def constant(self, like: str, array: np.ndarray) -> str:
        name = self.new_name(like)
        self.constants[name] = numpy_helper.from_array(np.asarray(array), name)
        self.graph.initializer.append(self.constants[name])
        return name

    def emit(self, operator: str, inputs, outputs, domain: str = "", **attributes) -> str:
        self.emitted.append(helper.make_node(operator, inputs, outputs, name=self.new_name(f"{outputs[0]}_{operator}"),
                                             domain=domain, **attributes))
        return outputs[0]

    def rewrite(self, visit) -> None:
        """visit(node) gives True for a node that what it emitted replaces."""
        nodes = self.nodes
        self.emitted = []
        for node in nodes:
            if not visit(node):
                self.emitted.append(node)
        self.nodes = self.emitted

    def finish(self) -> onnx.ModelProto:
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)
        used = {name for node in _all_nodes(self.graph) for name in node.input}
        used |= {one.name for one in self.graph.output}
        kept = [one for one in self.graph.initializer if one.name in used]
        listed = {one.name for one in self.graph.initializer} - used
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)
        inputs = [one for one in self.graph.input if one.name not in listed]
        del self.graph.input[:]
        self.graph.input.extend(inputs)
        del self.graph.value_info[:]
        return self.model


def _all_nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs] if attribute.type in (
                    onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) else []:
                yield from _all_nodes(inner)


def outer_names(node) -> set[str]:
    """What the graphs within a node read; names of their own among it."""
    names = set()
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            names |= {name for inner in _all_nodes(attribute.g) for name in inner.input}
            names |= {one.name for one in attribute.g.output}
    return names - {""}


def attribute_of(node, name: str, default):
    found = next((one for one in node.attribute if one.name == name), None)
    return default if found is None else helper.get_attribute_value(found)
