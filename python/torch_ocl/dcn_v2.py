"""Drop-in for the DCNv2 extension: deformable convolution v2 and deformable position-sensitive RoI pooling.

Same functions, modules, constructor arguments, initialisation and state_dict keys as the `dcn_v2` module of DCNv2 and
CenterNet, so their checkpoints load. Runs on `ocl` with the library's kernels (deterministic, every dtype, any layout)
and on `cpu`. Two ways to use it in an existing repository:

    from torch_ocl.dcn_v2 import DCN

    import torch_ocl.dcn_v2
    torch_ocl.dcn_v2.install()            # from here on `from dcn_v2 import DCN` finds this module
    torch_ocl.dcn_v2.install("models.networks.DCNv2.dcn_v2")      # CenterNet's place for it

The raw operators, in the argument order of DCNv2's C++ functions, are torch.ops.torch_ocl.dcn_v2_forward,
dcn_v2_backward, dcn_v2_psroi_pooling_forward and dcn_v2_psroi_pooling_backward.
"""
from __future__ import annotations

import math
import sys
import types

import torch
from torch import nn
from torch.nn.modules.utils import _pair

import torch_ocl._C  # noqa: F401  (defines the operators)
from torch_ocl import _dcn_v2_cpu as cpu
from torch_ocl._dcn_v2_cpu import deform_conv2d_reference  # noqa: F401
from torch_ocl._dcn_v2_onnx import onnx_translations, register_onnx  # noqa: F401

__all__ = ["dcn_v2_conv", "dcn_v2_pooling", "DCNv2", "DCN", "DCNv2Pooling", "DCNPooling", "ModulatedDeformConv2d",
           "ModulatedDeformConv2dPack", "modulated_deform_conv2d", "install",
           "register_onnx", "onnx_translations"]

_ops = torch.ops.torch_ocl


# ---- functions ------------------------------------------------------------------------------------------------------

def dcn_v2_conv(input, offset, mask, weight, bias, stride, padding, dilation, deformable_groups):
    """Deformable convolution v2; offset channels (dy, dx) per tap and deformable group, mask one per tap and group."""
    return _ops.dcn_v2_forward(input, weight, bias, offset, mask, weight.shape[2], weight.shape[3], *_pair(stride),
                               *_pair(padding), *_pair(dilation), deformable_groups)


def dcn_v2_pooling(input, rois, offset, spatial_scale, pooled_size, output_dim, no_trans, group_size=1, part_size=None,
                   sample_per_part=4, trans_std=0.0):
    """Deformable position-sensitive RoI pooling; rois [n, 5] = image index, x1, y1, x2, y2."""
    part_size = pooled_size if part_size is None else part_size
    output, _ = _ops.dcn_v2_psroi_pooling_forward(input, rois, offset, bool(no_trans), float(spatial_scale), output_dim,
                                                  group_size, pooled_size, part_size, sample_per_part, float(trans_std))
    return output


# ---- modules --------------------------------------------------------------------------------------------------------

def _offset_and_mask(maps):
    """What a module computes for itself: channels of shifts in two runs, then as many of a mask's logits."""
    first, second, mask = torch.chunk(maps, 3, dim=1)
    return torch.cat((first, second), dim=1), torch.sigmoid(mask)


class DCNv2(nn.Module):
    """Deformable convolution v2 whose offset and mask are given to forward."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation=1, deformable_groups=1):
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = _pair(kernel_size)
        self.stride = _pair(stride)
        self.padding = _pair(padding)
        self.dilation = _pair(dilation)
        self.deformable_groups = deformable_groups
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, *self.kernel_size))
        self.bias = nn.Parameter(torch.empty(out_channels))
        self.reset_parameters()

    def reset_parameters(self):
        bound = 1.0 / math.sqrt(self.in_channels * self.kernel_size[0] * self.kernel_size[1])
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.zeros_(self.bias)

    def forward(self, input, offset, mask):
        taps = self.deformable_groups * self.kernel_size[0] * self.kernel_size[1]
        assert offset.shape[1] == 2 * taps, f"offset has {offset.shape[1]} channels, expected {2 * taps}"
        assert mask.shape[1] == taps, f"mask has {mask.shape[1]} channels, expected {taps}"
        return dcn_v2_conv(input, offset, mask, self.weight, self.bias, self.stride, self.padding, self.dilation,
                           self.deformable_groups)


class DCN(DCNv2):
    """Deformable convolution v2 that computes offset and mask from its input; starts as a convolution times 0.5."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation=1, deformable_groups=1):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, deformable_groups)
        channels = self.deformable_groups * 3 * self.kernel_size[0] * self.kernel_size[1]
        self.conv_offset_mask = nn.Conv2d(in_channels, channels, self.kernel_size, self.stride, self.padding, bias=True)
        self.init_offset()

    def init_offset(self):
        nn.init.zeros_(self.conv_offset_mask.weight)
        nn.init.zeros_(self.conv_offset_mask.bias)

    def forward(self, input):
        return super().forward(input, *_offset_and_mask(self.conv_offset_mask(input)))


class DCNv2Pooling(nn.Module):
    """Deformable position-sensitive RoI pooling whose shifts are given to forward."""

    def __init__(self, spatial_scale, pooled_size, output_dim, no_trans, group_size=1, part_size=None,
                 sample_per_part=4, trans_std=0.0):
        super().__init__()
        self.spatial_scale = spatial_scale
        self.pooled_size = pooled_size
        self.output_dim = output_dim
        self.no_trans = no_trans
        self.group_size = group_size
        self.part_size = pooled_size if part_size is None else part_size
        self.sample_per_part = sample_per_part
        self.trans_std = trans_std

    def forward(self, input, rois, offset):
        expected = self.output_dim * self.group_size ** 2
        assert input.shape[1] == expected, f"input has {input.shape[1]} channels, expected {expected}"
        if self.no_trans:
            offset = input.new_empty(0)
        return self._pool(input, rois, offset, self.no_trans)

    def _pool(self, input, rois, offset, no_trans):
        return dcn_v2_pooling(input, rois, offset, self.spatial_scale, self.pooled_size, self.output_dim, no_trans,
                              self.group_size, self.part_size, self.sample_per_part, self.trans_std)


class DCNPooling(DCNv2Pooling):
    """Deformable position-sensitive RoI pooling that computes shifts and a mask from the undeformed pooling."""

    def __init__(self, spatial_scale, pooled_size, output_dim, no_trans, group_size=1, part_size=None,
                 sample_per_part=4, trans_std=0.0, deform_fc_dim=1024):
        super().__init__(spatial_scale, pooled_size, output_dim, no_trans, group_size, part_size, sample_per_part,
                         trans_std)
        self.deform_fc_dim = deform_fc_dim
        if not no_trans:
            bins = pooled_size * pooled_size
            self.offset_mask_fc = nn.Sequential(
                nn.Linear(bins * output_dim, deform_fc_dim), nn.ReLU(inplace=True),
                nn.Linear(deform_fc_dim, deform_fc_dim), nn.ReLU(inplace=True), nn.Linear(deform_fc_dim, bins * 3))
            nn.init.zeros_(self.offset_mask_fc[4].weight)
            nn.init.zeros_(self.offset_mask_fc[4].bias)

    def forward(self, input, rois):
        if self.no_trans:
            return self._pool(input, rois, input.new_empty(0), True)
        n, size = rois.shape[0], self.pooled_size
        pooled = self._pool(input, rois, input.new_empty(0), True)
        offset_mask = self.offset_mask_fc(pooled.reshape(n, -1)).reshape(n, 3, size, size)
        offset, mask = _offset_and_mask(offset_mask)
        return self._pool(input, rois, offset, False) * mask


# ---- the names of mmcv ----------------------------------------------------------------------------------------------

def modulated_deform_conv2d(input, offset, mask, weight, bias=None, stride=1, padding=0, dilation=1, groups=1,
                            deform_groups=1):
    """mmcv's order of arguments; with groups, bias optional. Computed by torchvision's operator."""
    from torchvision.ops import deform_conv2d
    expected = deform_groups * weight.shape[2] * weight.shape[3]
    if mask.shape[1] != expected or input.shape[1] != weight.shape[1] * groups:
        raise ValueError(f"mask has {mask.shape[1]} channels (expected {expected}), input {input.shape[1]} "
                         f"(expected {weight.shape[1] * groups})")
    return deform_conv2d(input, offset, weight, bias, _pair(stride), _pair(padding), _pair(dilation), mask)


class ModulatedDeformConv2d(nn.Module):
    """Signature, parameters and initialisation of mmcv.ops.ModulatedDeformConv2d."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1,
                 deform_groups=1, bias=True):
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = _pair(kernel_size)
        self.stride = _pair(stride)
        self.padding = _pair(padding)
        self.dilation = _pair(dilation)
        self.groups = groups
        self.deform_groups = deform_groups
        self.transposed = False
        self.output_padding = _pair(0)
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels // groups, *self.kernel_size))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else self.register_parameter("bias", None)
        self.init_weights()

    def init_weights(self):
        bound = 1.0 / math.sqrt(self.in_channels * self.kernel_size[0] * self.kernel_size[1])
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x, offset, mask):
        return modulated_deform_conv2d(x, offset, mask, self.weight, self.bias, self.stride, self.padding,
                                       self.dilation, self.groups, self.deform_groups)


class ModulatedDeformConv2dPack(ModulatedDeformConv2d):
    """mmcv's module that computes offset and mask itself (parameter names conv_offset.*)."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.conv_offset = nn.Conv2d(self.in_channels,
                                     self.deform_groups * 3 * self.kernel_size[0] * self.kernel_size[1],
                                     self.kernel_size, self.stride, self.padding, self.dilation, bias=True)
        nn.init.zeros_(self.conv_offset.weight)
        nn.init.zeros_(self.conv_offset.bias)

    def forward(self, x):
        return super().forward(x, *_offset_and_mask(self.conv_offset(x)))


def install(*names: str) -> None:
    """Makes this module importable under other names, "dcn_v2" by default; parents that do not exist become empty
    packages ("DCNv2.dcn_v2", "models.networks.DCNv2.dcn_v2")."""
    for name in names or ("dcn_v2",):
        parent = name.rpartition(".")[0]
        if parent:
            package = types.ModuleType(parent)
            package.__path__ = []
            package.dcn_v2 = sys.modules[__name__]
            sys.modules[parent] = package
        sys.modules[name] = sys.modules[__name__]


# ---- registration ---------------------------------------------------------------------------------------------------

def _out_shape(input, weight, stride, pad, dilation):
    return [input.shape[0], weight.shape[0]] + [
        (input.shape[2 + i] + 2 * pad[i] - dilation[i] * (weight.shape[2 + i] - 1) - 1) // stride[i] +
        1 for i in range(2)]


def _conv_meta(input, weight, bias, offset, mask, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h,
               dilation_w, deformable_group):
    return input.new_empty(_out_shape(input, weight, (stride_h, stride_w), (pad_h, pad_w), (dilation_h, dilation_w)))


def _conv_setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:5])
    ctx.parameters = inputs[5:]


def _conv_backward(ctx, grad):
    input, weight, bias, offset, mask = ctx.saved_tensors
    gi, go, gm, gw, gb = _ops.dcn_v2_backward(input, weight, bias, offset, mask, grad, *ctx.parameters)
    return (gi, gw, gb, go, gm) + (None,) * len(ctx.parameters)


def _pooling_meta(input, rois, trans, no_trans, scale, output_dim, group_size, pooled, *rest):
    shape = (rois.shape[0], output_dim, pooled, pooled)
    return input.new_empty(shape), input.new_empty(shape)


def _pooling_setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:3], output[1])
    ctx.parameters = inputs[3:]
    ctx.mark_non_differentiable(output[1])


def _pooling_backward(ctx, grad, _):
    input, rois, trans, count = ctx.saved_tensors
    grad_input, grad_trans = _ops.dcn_v2_psroi_pooling_backward(grad, input, rois, trans, count, *ctx.parameters)
    return (grad_input, None, None if ctx.parameters[0] else grad_trans) + (None,) * len(ctx.parameters)


def _no_double_backward(name):
    def backward(ctx, *grads):
        raise RuntimeError(f"double backwards on {name} not supported")
    return backward


def _register():
    library = torch.library.Library("torch_ocl", "IMPL")
    for name, implementation, meta in (
            ("dcn_v2_forward", cpu.conv, _conv_meta),
            ("dcn_v2_backward", cpu.conv_backward,
             lambda i, w, b, o, m, g, *p: [torch.empty_like(t) for t in (i, o, m, w, b)]),
            ("dcn_v2_psroi_pooling_forward", cpu.pooling, _pooling_meta),
            ("dcn_v2_psroi_pooling_backward", cpu.pooling_backward,
             lambda g, i, r, t, c, *p: (torch.empty_like(i), torch.empty_like(t)))):
        library.impl(name, implementation, "CPU")
        torch.library.register_fake(f"torch_ocl::{name}", meta, lib=library)
    torch.library.register_autograd("torch_ocl::dcn_v2_forward", _conv_backward, setup_context=_conv_setup, lib=library)
    torch.library.register_autograd("torch_ocl::dcn_v2_psroi_pooling_forward", _pooling_backward,
                                    setup_context=_pooling_setup, lib=library)
    for name in ("dcn_v2_backward", "dcn_v2_psroi_pooling_backward"):
        torch.library.register_autograd(f"torch_ocl::{name}", _no_double_backward(name), lib=library)
    return library


_library = _register()
