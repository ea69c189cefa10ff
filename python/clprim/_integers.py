"""Models with weights of 8 and 4 bits: QDQ form with calibrated activations, dynamic quantisation, MatMulNBits.

After ONNX's operators QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear and MatMulInteger, and ONNX Runtime's
MatMulNBits; scales as in Jacob et al., "Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference" (2018).
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

import clprim
from clprim._graphs import Graph, attribute_of


def weight_axis(graph: Graph, node) -> int | None:
    """The axis of a node's constant weights that its output channels lie along; None: there are no such weights."""
    if node.domain not in ("", "ai.onnx") or node.op_type not in ("Conv", "Gemm", "MatMul") or len(node.input) < 2:
        return None
    weights = graph.weights(node.input[1])
    if weights is None or node.input[0] in graph.constants or weights.size == 0:
        return None
    if node.op_type == "Conv":
        return 0
    if weights.ndim != 2:
        return None
    return 0 if node.op_type == "Gemm" and attribute_of(node, "transB", 0) else 1


def _emit_biased(graph, operator, inputs, y, bias, **attributes):
    """A node whose result, with the bias added where there is one, is y."""
    product = graph.emit(operator, inputs, [graph.new_name(f"{y}_product") if bias else y], **attributes)
    if bias:
        graph.emit("Add", [product, bias], [y])


def _require_some(count: int, what: str) -> None:
    if count == 0:
        raise clprim.InvalidArgument(f"the model has no {what} with constant float32 weights")


def per_channel(weights: np.ndarray, axis: int, most: int):
    """int8 numbers and the scale of each channel: w is about scale * q, q from -most to most."""
    others = tuple(i for i in range(weights.ndim) if i != axis)
    largest = np.abs(weights).max(axis=others).astype(np.float32)
    scales = np.where(largest > 0, largest / most, 1).astype(np.float32)
    scales = np.maximum(scales, np.finfo(np.float32).tiny)
    shape = [1] * weights.ndim
    shape[axis] = -1
    return np.clip(np.rint(weights / scales.reshape(shape)), -most, most).astype(np.int8), scales


def activations(model: onnx.ModelProto) -> list[str]:
    """What static quantisation must know the range of."""
    graph = Graph(onnx.ModelProto.FromString(model.SerializeToString()), 13)
    names = [node.input[0] for node in graph.nodes if weight_axis(graph, node) is not None]
    _require_some(len(names), "convolution or product")
    return list(dict.fromkeys(names))


def static_int8(model: onnx.ModelProto, ranges: dict[str, tuple[float, float]], reduce_range: bool = False):
    """Inputs of convolutions and products become uint8 with a zero point, weights int8 with a scale for each channel,
    biases int32. ONNX Runtime and clprim make integer operators of the pairs."""
    graph, most = Graph(model, 13), 63 if reduce_range else 127
    quantized, kept = {}, {}

    def quantize(name):
        low, high = ranges[name]
        low, high = min(low, 0.0), max(high, 0.0)
        scale = np.float32(max((high - low) / 255, 1e-30))
        zero = np.uint8(np.clip(np.rint(-low / scale), 0, 255))
        pair = [graph.constant(f"{name}_scale", scale), graph.constant(f"{name}_zero", zero)]
        number = graph.emit("QuantizeLinear", [name, *pair], [graph.new_name(f"{name}_q")])
        return graph.emit("DequantizeLinear", [number, *pair], [graph.new_name(f"{name}_dq")]), scale

    def keep(name, axis):
        numbers, scales = per_channel(graph.weights(name), axis, most)
        inputs = [graph.constant(f"{name}_int8", numbers), graph.constant(f"{name}_scales", scales),
                  graph.constant(f"{name}_zeros", np.zeros(scales.shape, np.int8))]
        return graph.emit("DequantizeLinear", inputs, [graph.new_name(f"{name}_dq")], axis=axis), scales

    def visit(node):
        axis = weight_axis(graph, node)
        if axis is None or node.input[0] not in ranges:
            return False
        name, weights = node.input[0], node.input[1]
        if name not in quantized:
            quantized[name] = quantize(name)
        if (weights, axis) not in kept:
            kept[weights, axis] = keep(weights, axis)
        (node.input[0], x_scale), (node.input[1], scales) = quantized[name], kept[weights, axis]
        plain = node.op_type == "Conv" or all(attribute_of(node, name, 1.0) == 1 for name in ("alpha", "beta"))
        bias = graph.weights(node.input[2]) if len(node.input) > 2 and plain else None
        if bias is not None and bias.ndim == 1 and bias.size == scales.size:
            step = (x_scale * scales).astype(np.float32)
            numbers = np.rint(bias.astype(np.float64) / step)
            if np.abs(numbers).max(initial=0) < 2**31 - 1 and (step > 0).all():
                inputs = [graph.constant(f"{node.input[2]}_int32", numbers.astype(np.int32)),
                          graph.constant(f"{node.input[2]}_scales", step)]
                node.input[2] = graph.emit("DequantizeLinear", inputs, [graph.new_name(f"{node.input[2]}_dq")], axis=0)
        return False

    graph.rewrite(visit)
    return graph.finish(), len(kept)


def _matrix(graph: Graph, node):
    """x, the constant matrix [k, n] and the bias of a product; None for others."""
    axis = weight_axis(graph, node)
    if axis is None or node.op_type == "Conv":
        return None
    weights = graph.weights(node.input[1])
    if node.op_type == "MatMul":
        return node.input[0], weights, ""
    if attribute_of(node, "transA", 0) or attribute_of(node, "alpha", 1.0) != 1 or attribute_of(node, "beta", 1.0) != 1:
        return None
    return node.input[0], weights.T if axis == 0 else weights, node.input[2] if len(node.input) > 2 else ""


def dynamic_int8(model: onnx.ModelProto, reduce_range: bool = False):
    """Products alone: each activation is quantised when it is there, by one scale; sums are exact integers."""
    graph, most = Graph(model, 13), 63 if reduce_range else 127
    quantized, count = {}, 0

    def visit(node):
        nonlocal count
        found = _matrix(graph, node)
        if found is None:
            return False
        (x, weights, bias), y = found, node.output[0]
        if x not in quantized:
            quantized[x] = [graph.new_name(f"{x}_{part}") for part in ("q", "scale", "zero")]
            graph.emit("DynamicQuantizeLinear", [x], quantized[x])
        numbers, scales = per_channel(weights, 1, most)
        number, scale, zero = quantized[x]
        sums = graph.emit("MatMulInteger", [number, graph.constant(f"{node.input[1]}_int8", numbers), zero],
                          [graph.new_name(f"{y}_sums")])
        real = graph.emit("Cast", [sums], [graph.new_name(f"{y}_real")], to=TensorProto.FLOAT)
        both = graph.emit("Mul", [scale, graph.constant(f"{node.input[1]}_scales", scales)],
                          [graph.new_name(f"{y}_scales")])
        _emit_biased(graph, "Mul", [real, both], y, bias)
        count += 1
        return True

    graph.rewrite(visit)
    _require_some(count, "product")
    return graph.finish(), count


def _best_scales(lines: np.ndarray) -> np.ndarray:
    """Of some scales for each group the one with the least squared error. There is one step more on one side, which the
    number of largest magnitude takes, or nobody does; and cutting that number may serve the others."""
    extreme = np.take_along_axis(lines, np.abs(lines).argmax(2)[..., None], 2)[..., 0]
    best, least = np.zeros_like(extreme), np.full(extreme.shape, np.inf, np.float32)
    for steps in (-8, -8.5, -9, -9.5, 7, 7.5):
        scales = np.where(extreme == 0, 1, extreme / np.float32(steps)).astype(np.float32)
        error = (np.clip(np.rint(lines / scales[..., None]), -8, 7) * scales[..., None] - lines)
        error = np.square(error).sum(2)
        best, least = np.where(error < least, scales, best), np.minimum(error, least)
    return best


def int4(model: onnx.ModelProto, group: int = 32, symmetric: bool = True):
    """Products with weights of four bits, `group` neighbours along the sum share a scale and, unless symmetric, a zero
    point: com.microsoft's MatMulNBits."""
    if group < 16 or group & (group - 1):
        raise clprim.InvalidArgument(f"a group must be a power of two of 16 or more, got {group}")
    graph, count = Graph(model, 13), 0

    def visit(node):
        nonlocal count
        found = _matrix(graph, node)
        if found is None:
            return False
        (x, weights, bias), y = found, node.output[0]
        k, n = weights.shape
        groups = -(-k // group)
        lines = np.zeros((n, groups * group), np.float32)
        lines[:, :k] = weights.T
        lines = lines.reshape(n, groups, group)
        if symmetric:
            scales, zeros = _best_scales(lines), np.full((n, groups), 8, np.uint8)
        else:
            low, high = np.minimum(lines.min(2), 0), np.maximum(lines.max(2), 0)
            scales = (high - low) / 15
            zeros = np.clip(np.rint(-low / np.where(scales > 0, scales, 1)), 0, 15).astype(np.uint8)
        scales = np.where(scales == 0, 1, scales).astype(np.float32)
        numbers = np.clip(np.rint(lines / scales[..., None]) + zeros[..., None], 0, 15).astype(np.uint8)
        inputs = [x, graph.constant(f"{node.input[1]}_int4", numbers[..., ::2] | numbers[..., 1::2] << 4),
                  graph.constant(f"{node.input[1]}_scales", scales.reshape(-1))]
        if not symmetric:
            even = np.pad(zeros, ((0, 0), (0, groups % 2)), constant_values=8)
            inputs.append(graph.constant(f"{node.input[1]}_zeros", (even[:, ::2] | even[:, 1::2] << 4).reshape(-1)))
        _emit_biased(graph, "MatMulNBits", inputs, y, bias, domain="com.microsoft", K=k, N=n, bits=4, block_size=group)
        count += 1
        return True

    graph.rewrite(visit)
    _require_some(count, "product")
    if not any(one.domain == "com.microsoft" for one in graph.model.opset_import):
        graph.model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return graph.finish(), count
