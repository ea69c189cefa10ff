"""Models of float16: constants and all that is computed, where ONNX's operators take it; inputs and outputs stay."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import clprim
from clprim._graphs import Graph, outer_names

# Their results are of a type that an attribute says, or numbers that float16 holds too few of.
KEPT = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli", "EyeLike",
        "Range", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "CumSum", "ReduceSumSquare",
        "ReduceLogSumExp", "ReduceLogSum", "SequenceAt", "Optional", "OptionalGetElement"}


def float16(model: onnx.ModelProto):
    """A value x of float32 that is computed in float16 is called x_float16; x itself is made of it where something that
    takes no float16 reads it."""
    graph = Graph(model, 13)
    types = _types(graph.model)
    opset = next(one.version for one in graph.model.opset_import if one.domain in ("", "ai.onnx"))
    halves: dict[str, str] = {}
    whole = {one.name for one in graph.graph.input} | set(graph.constants)     # those that exist as float32
    count = 0

    def half(name):
        if name not in halves:
            if name in graph.constants:
                array = graph.weights(name)
                if np.abs(array).max(initial=0) > np.finfo(np.float16).max:
                    raise clprim.InvalidArgument(f"the constant '{name}' has numbers beyond float16's largest, 65504")
                halves[name] = graph.constant(f"{name}_float16", array.astype(np.float16))
            else:
                halves[name] = graph.emit("Cast", [name], [graph.new_name(f"{name}_float16")], to=TensorProto.FLOAT16)
        return halves[name]

    def need(name):
        """The value itself, as float32."""
        if name in halves and name not in whole:
            whole.add(name)
            graph.emit("Cast", [halves[name]], [name], to=TensorProto.FLOAT)

    def visit(node):
        nonlocal count
        inputs, outputs = _convertible(node, types, opset)
        if node.op_type == "Cast" and node.input[0] in whole:
            inputs = set()      # such as positions, which float16 has not enough of
        for i, name in enumerate(node.input):
            if i in inputs:
                node.input[i] = half(name)
            elif name:
                need(name)
        for name in outer_names(node):
            need(name)
        for i, name in enumerate(node.output):
            if i in outputs:
                halves[name] = node.output[i] = graph.new_name(f"{name}_float16")
            elif name:
                whole.add(name)
        count += bool(outputs)
        if outputs and node.op_type in ("Cast", "ConstantOfShape"):
            _say_float16(node)
        return False

    graph.rewrite(visit)
    for one in graph.graph.output:      # behind all nodes
        need(one.name)
    if count == 0:
        raise clprim.InvalidArgument("the model computes nothing in float32 that could be float16")
    return graph.finish(), count


def _types(model):
    """Names whose values are tensors of float32."""
    inferred = onnx.shape_inference.infer_shapes(model)
    graph = inferred.graph
    found = {one.name for one in [*graph.input, *graph.output, *graph.value_info]
             if one.type.tensor_type.elem_type == TensorProto.FLOAT}
    return found | {one.name for one in graph.initializer if one.data_type == TensorProto.FLOAT}


def _convertible(node, types, opset):
    """Which inputs and outputs of a node can be float16, all of them of float32."""
    nothing = (set(), set())
    if node.domain not in ("", "ai.onnx") or node.op_type in KEPT or outer_names(node):
        return nothing
    if node.op_type in ("Cast", "ConstantOfShape"):
        inputs = {0} if node.op_type == "Cast" and node.input[0] in types else set()
        return inputs, {0} if node.output[0] in types else set()
    try:
        schema = onnx.defs.get_schema(node.op_type, opset)
    except onnx.defs.SchemaError:
        return nothing
    allowed = {one.type_param_str: "tensor(float16)" in one.allowed_type_strs for one in schema.type_constraints}

    def fits(formals, i):
        formal = formals[min(i, len(formals) - 1)]
        return allowed.get(formal.type_str, False)

    inputs = {i for i, name in enumerate(node.input) if name in types and fits(schema.inputs, i)}
    outputs = {i for i, name in enumerate(node.output) if name in types and fits(schema.outputs, i)}
    return (inputs, outputs) if inputs else nothing


def _say_float16(node):
    for attribute in node.attribute:
        if attribute.name == "to":
            attribute.i = TensorProto.FLOAT16
        if attribute.name == "value":
            attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t).astype(np.float16)))
    if node.op_type == "ConstantOfShape" and not node.attribute:
        node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.zeros(1, np.float16))))
