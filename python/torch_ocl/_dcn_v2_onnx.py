"""Deformable convolution in ONNX: DCNv2's and torchvision's operator become the standard DeformConv of opset 19."""
from __future__ import annotations

import torch


def _deform_conv(g, input, weight, offset, bias, mask, attributes):
    """attributes: stride, padding, dilation (h and w each), groups, offset groups."""
    from torch.onnx import symbolic_helper
    v = [symbolic_helper._get_const(a, "i", "parameter") for a in attributes]
    inputs = [input, weight, offset, bias] + ([] if mask is None else [mask])
    return g.op("DeformConv", *inputs, strides_i=v[0:2], pads_i=v[2:4] * 2, dilations_i=v[4:6], group_i=v[6],
                offset_group_i=v[7])


def _of_dcn_v2(g, input, weight, bias, offset, mask, kernel_h, kernel_w, *rest):
    return _deform_conv(g, input, weight, offset, bias, mask, [*rest[:6], 1, rest[6]])


def _of_torchvision(g, input, weight, offset, mask, bias, *rest):
    from torch.onnx import symbolic_helper
    use_mask = symbolic_helper._get_const(rest[8], "b", "use_mask")
    return _deform_conv(g, input, weight, offset, bias, mask if use_mask else None, rest[:8])


def register_onnx() -> None:
    """Teaches torch.onnx's TorchScript exporter (dynamo=False) both operators, from opset 19 on."""
    torch.onnx.register_custom_op_symbolic("torch_ocl::dcn_v2_forward", _of_dcn_v2, 19)
    torch.onnx.register_custom_op_symbolic("torchvision::deform_conv2d", _of_torchvision, 19)


def onnx_translations() -> dict:
    """For `torch.onnx.export(..., dynamo=True, custom_translation_table=onnx_translations())`; that exporter needs the
    package onnxscript, and knows torchvision's operator by itself."""
    from onnxscript import opset19

    def dcn_v2_forward(input, weight, bias, offset, mask, kernel_h: int, kernel_w: int, stride_h: int, stride_w: int,
                       pad_h: int, pad_w: int, dilation_h: int, dilation_w: int, deformable_group: int):
        return opset19.DeformConv(input, weight, offset, bias, mask, strides=(stride_h, stride_w),
                                  pads=(pad_h, pad_w, pad_h, pad_w), dilations=(dilation_h, dilation_w),
                                  offset_group=deformable_group)

    return {torch.ops.torch_ocl.dcn_v2_forward.default: dcn_v2_forward}
