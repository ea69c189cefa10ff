"""DCNv2's operators from PyTorch's own: the CPU implementations behind torch_ocl.dcn_v2."""
from __future__ import annotations

import contextlib

import torch
from torch.nn.modules.utils import _pair


def _bilinear(plane, y, x, height, width):
    """Value at (y, x) with zeros outside. plane(cy, cx) reads pixels at integer positions inside of the image."""
    far = ~((y >= -1) & (y < height) & (x >= -1) & (x < width))   # also NaN
    y, x = y.masked_fill(far, 0), x.masked_fill(far, 0)
    y0, x0 = y.detach().floor(), x.detach().floor()
    total = 0
    for dy in (0, 1):
        for dx in (0, 1):
            cy, cx = y0 + dy, x0 + dx
            inside = (cy >= 0) & (cy < height) & (cx >= 0) & (cx < width) & ~far
            weight = ((y - y0) if dy else (1 - (y - y0))) * ((x - x0) if dx else (1 - (x - x0)))
            value = plane(cy.clamp(0, height - 1).long(), cx.clamp(0, width - 1).long())
            total = total + torch.where(inside, weight * value, torch.zeros((), dtype=y.dtype, device=y.device))
    return total


def deform_conv2d_reference(input, offset, weight, bias, stride=1, padding=0, dilation=1, mask=None):
    """Deformable convolution from PyTorch's own operators (groups 1): differentiable, for any device; slow."""
    n, c, h, w = input.shape
    o, _, kh, kw = weight.shape
    oh, ow = offset.shape[2:]
    (sh, sw), (ph, pw), (dh, dw) = _pair(stride), _pair(padding), _pair(dilation)
    groups = offset.shape[1] // (2 * kh * kw)
    offset = offset.reshape(n, groups, kh * kw, 2, oh, ow)
    i, j = torch.meshgrid(torch.arange(kh, device=input.device), torch.arange(kw, device=input.device), indexing="ij")
    y = (torch.arange(oh, device=input.device) * sh - ph)[:, None] + (i * dh).reshape(-1, 1, 1) + offset[:, :, :, 0]
    x = (torch.arange(ow, device=input.device) * sw - pw)[None, :] + (j * dw).reshape(-1, 1, 1) + offset[:, :, :, 1]
    flat = input.reshape(n, groups, c // groups, h * w)

    def plane(cy, cx):
        index = (cy * w + cx).reshape(n, groups, 1, -1).expand(-1, -1, c // groups, -1)
        return flat.gather(3, index).reshape(n, groups, c // groups, kh * kw, oh, ow)

    columns = _bilinear(plane, y[:, :, None], x[:, :, None], h, w)
    if mask is not None:
        columns = columns * mask.reshape(n, groups, 1, kh * kw, oh, ow)
    out = (weight.reshape(o, -1) @ columns.reshape(n, c * kh * kw, oh * ow)).reshape(n, o, oh, ow)
    return out if bias is None else out + bias[None, :, None, None]


def conv(input, weight, bias, offset, mask, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h,
              dilation_w, deformable_group):
    try:
        from torchvision.ops import deform_conv2d as implementation
    except ImportError:
        implementation = deform_conv2d_reference
    if weight.shape[2:] != (kernel_h, kernel_w):
        raise RuntimeError(f"Input shape and kernel shape wont match: ({kernel_h} x {kernel_w} vs {tuple(weight.shape)}).")
    if offset.shape[1] != 2 * deformable_group * kernel_h * kernel_w:
        raise RuntimeError(f"offset.shape[1] is not valid: got: {offset.shape[1]} expected: "
                           f"{2 * deformable_group * kernel_h * kernel_w}")
    return implementation(input, offset, weight, bias, (stride_h, stride_w), (pad_h, pad_w), (dilation_h, dilation_w),
                          mask)


def _autograd():
    """Context in which autograd records, also inside an operator's kernel, where dispatch has gone below autograd."""
    keys = torch._C.DispatchKey
    excluded = torch._C._dispatch_tls_local_exclude_set()
    for key in (keys.AutogradFunctionality, keys.AutogradOther, keys.AutogradCPU, keys.ADInplaceOrView):
        excluded = excluded.remove(key)
    stack = contextlib.ExitStack()
    stack.enter_context(torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded))
    stack.enter_context(torch.enable_grad())
    return stack


def _gradients(outputs, inputs, grads):
    return [torch.zeros_like(i) if g is None else g
            for i, g in zip(inputs, torch.autograd.grad(outputs, inputs, grads, allow_unused=True))]


def conv_backward(input, weight, bias, offset, mask, grad_output, *parameters):
    with _autograd():
        leaves = [t.detach().requires_grad_() for t in (input, offset, mask, weight, bias)]
        i, o, m, w, b = leaves
        return _gradients(conv(i, w, b, o, m, *parameters), leaves, grad_output)


def pooling(input, rois, trans, no_trans, scale, output_dim, group_size, pooled, part_size, samples, trans_std):
    n, channels, h, w = input.shape
    k = rois.shape[0]
    if channels != output_dim * group_size ** 2:
        raise RuntimeError(f"input channels and output channels must agree: got {channels}, expected "
                           f"{output_dim * group_size ** 2}")
    if rois.dim() != 2 or rois.shape[1] != 5:
        raise RuntimeError("rois must have shape [K, 5]")
    if k and not bool(((rois[:, 0] >= 0) & (rois[:, 0] < n)).all()):
        raise IndexError(f"deform_psroi_pooling: image index out of range for {n} images")
    half_away = lambda v: torch.sign(v) * torch.floor(torch.abs(v) + 0.5)
    left, top = (half_away(rois[:, i]) * scale - 0.5 for i in (1, 2))
    right, bottom = ((half_away(rois[:, i]) + 1) * scale - 0.5 for i in (3, 4))
    width, height = (right - left).clamp(min=0.1), (bottom - top).clamp(min=0.1)
    bins = torch.arange(pooled, device=input.device, dtype=input.dtype)
    part = torch.floor(bins / pooled * part_size).long()
    group = torch.floor(bins * group_size / pooled).long().clamp(0, group_size - 1)
    classes = 1 if no_trans else trans.shape[1] // 2
    class_of = torch.arange(output_dim, device=input.device) // (output_dim // classes)
    shift = lambda axis: 0 if no_trans else (trans.reshape(k, classes, 2, part_size, part_size)[:, :, axis]
                                             [:, :, part][:, :, :, part][:, class_of] * trans_std)
    column = lambda v: v.reshape(k, 1, 1, 1)
    # [K, output_dim or 1, pooled, pooled] corners of the bins, then one axis of samples each.
    x = bins.reshape(1, 1, 1, -1) * column(width / pooled) + column(left) + shift(0) * column(width)
    y = bins.reshape(1, 1, -1, 1) * column(height / pooled) + column(top) + shift(1) * column(height)
    step = torch.arange(samples, device=input.device, dtype=input.dtype)
    x = x[..., None, None] + step * column(width / pooled / samples)[..., None, None]
    y = y[..., None, None] + step[:, None] * column(height / pooled / samples)[..., None, None]
    inside = (x >= -0.5) & (x <= w - 0.5) & (y >= -0.5) & (y <= h - 0.5)
    image = rois[:, 0].long().reshape(k, 1, 1, 1, 1, 1)
    channel = ((torch.arange(output_dim, device=input.device)[:, None, None] * group_size + group[:, None]) * group_size
               + group).reshape(1, output_dim, pooled, pooled, 1, 1)
    value = _bilinear(lambda cy, cx: input[image, channel, cy, cx], torch.nan_to_num(y).clamp(0, h - 1),
                      torch.nan_to_num(x).clamp(0, w - 1), h, w)
    inside = inside.expand_as(value)
    count = inside.sum((-1, -2)).to(input.dtype)
    total = torch.where(inside, value, torch.zeros((), dtype=value.dtype, device=value.device)).sum((-1, -2))
    return total / count.clamp(min=1), count


def pooling_backward(out_grad, input, rois, trans, top_count, *parameters):
    with _autograd():
        leaves = [t.detach().requires_grad_() for t in (input, trans)]
        output, _ = pooling(leaves[0], rois, leaves[1], *parameters)
        return tuple(_gradients(output, leaves, out_grad))
