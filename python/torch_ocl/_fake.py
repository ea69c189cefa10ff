"""What PyTorch's fake tensors (torch.compile, torch.export) have to know about the device: layouts of results that
PyTorch decides by the kind of device."""

from __future__ import annotations

import functools

import torch
from torch._C import DispatchKey
from torch.utils._pytree import tree_map_only


def register() -> None:
    from torch._subclasses import fake_impls

    aten = torch.ops.aten
    for overload in (aten.convolution.default, aten._convolution.default, aten._convolution.deprecated,
                     aten.convolution_backward.default):
        former = fake_impls.op_implementations_dict.get(overload)
        if former is not None:
            fake_impls.op_implementations_dict[overload] = _convolution(former)
    for packet in (aten._fft_c2c, aten._fft_r2c, aten._fft_c2r, aten.linalg_eig, aten.linalg_householder_product,
                   aten.ormqr):
        fake_impls.op_implementations_dict[packet.default] = _contiguous
    attention = "_scaled_dot_product_fused_attention_overrideable"
    fake_impls.op_implementations_dict[getattr(aten, attention).default] = _attention
    fake_impls.op_implementations_dict[getattr(aten, f"{attention}_backward").default] = _attention_backward
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        for key in (DispatchKey.PrivateUse1, DispatchKey.AutogradPrivateUse1):
            getattr(aten, name).input.py_impl(key)(functools.partial(_decomposed, name))
    torch.library.register_fake("torch_ocl::fused_addmm", _fused_addmm)
    torch.library.register_fake("torch_ocl::fused_convolution", _fused_convolution)
    torch.library.register_fake("torch_ocl::fused_convolution_add_", lambda *arguments: None)
    torch.library.register_fake("torch_ocl::fold_batch_norm", lambda weight, bias, gamma, beta, mean, variance, eps: (
        torch.empty_like(weight), torch.empty_like(mean, memory_format=torch.contiguous_format)))


def _decomposed(name, *args):
    """A layer of a recurrent network in a graph is PyTorch's decomposition, as on every device."""
    from torch._decomp import decompositions

    overload = getattr(torch.ops.aten, name).input
    return overload.py_kernels[DispatchKey.CompositeImplicitAutograd](*args)


def _fused_addmm(addend, a, b, beta, alpha, activation, constant_b=False):
    return a.new_empty((a.shape[0], b.shape[1]))


def _fused_convolution(*arguments):
    return torch.ops.aten.convolution.default(*arguments[:9])


def _convolution(former):
    """channels_last if the input or the weight has it, as for every device with an opinion; see result_format in
    src/pytorch_backend/ops/convolution.cpp. PyTorch takes devices it does not know for contiguous ones."""

    @functools.wraps(former)
    def implementation(fake_mode, func, *args, **kwargs):
        result = former(fake_mode, func, *args, **kwargs)
        first = result if isinstance(result, torch.Tensor) else next((t for t in result if t is not None), None)
        if first is None or first.device.type != "ocl":
            return result
        names = [argument.name for argument in func._schema.arguments]
        given = dict(zip(names, args)) | kwargs
        layout = _layout(given["input"], given["weight"])
        if layout == torch.contiguous_format:
            return result
        with fake_mode:
            def laid_out(t):
                return t if t is None or t.dim() != first.dim() else torch.empty(
                    t.shape, dtype=t.dtype, device=t.device, memory_format=layout)

            return laid_out(result) if isinstance(result, torch.Tensor) else tuple(laid_out(t) for t in result)

    return implementation


def _contiguous(fake_mode, func, *args, **kwargs):
    """Results are contiguous; PyTorch's metas have the strides that MKL, cuFFT and LAPACK leave."""
    from torch._decomp import meta_table

    if not any(isinstance(x, torch.Tensor) and x.device.type == "ocl" for x in args):
        return NotImplemented
    with fake_mode:
        return tree_map_only(torch.Tensor, lambda t: torch.empty(t.shape, dtype=t.dtype, device=t.device),
                             meta_table[func](*args, **kwargs))


def _attention(fake_mode, func, query, *args, **kwargs):
    """Of float64 the logarithms that the backward pass reads are float64; PyTorch's meta has float32."""
    from torch._decomp import meta_table

    if query.device.type != "ocl" or query.dtype != torch.float64:
        return NotImplemented
    with fake_mode:
        out, logarithms, *others = meta_table[func](query, *args, **kwargs)
        return out, logarithms.double(), *tree_map_only(
            torch.Tensor, lambda t: torch.empty(t.shape, dtype=t.dtype, device=query.device), others)


def _attention_backward(fake_mode, func, grad, query, key, value, bias, *args, **kwargs):
    """PyTorch 2.11 has no meta for it."""
    if query.device.type != "ocl":
        return NotImplemented
    with fake_mode:
        return tuple(None if t is None else torch.empty_like(t) for t in (query, key, value, bias))


def _layout(x: torch.Tensor, weight: torch.Tensor) -> torch.memory_format:
    from torch._prims_common import suggest_memory_format
    from torch.fx.experimental import symbolic_shapes

    has_hint = getattr(symbolic_shapes, "has_guarding_hint", None) or symbolic_shapes.has_hint     # in 2.11
    if x.dim() not in (4, 5) or x.dim() != weight.dim():
        return torch.contiguous_format
    if not all(has_hint(s) for t in (x, weight) for s in t.shape):
        return torch.contiguous_format
    layout = suggest_memory_format(x)
    return suggest_memory_format(weight) if layout == torch.contiguous_format else layout
