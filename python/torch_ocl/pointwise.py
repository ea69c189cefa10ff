"""Elementwise kernels and reductions from expressions.

    axpy = pointwise_kernel("y0 = w0 * x0 + x1;")
    y = axpy(a, b, scalars=[2.0])

    # Sums of x and x * x over all axes but the channel, in one pass.
    moments = pointwise_kernel("y0 = x0; y1 = x0 * x0;", reduce="a + b", identity="0")
    total, squares = moments(x, dim=(0, 2, 3))

The code is OpenCL C: statements over the inputs x0, x1, ... and the numbers w0, w1, ... that assign the outputs y0, y1,
... Inputs are broadcast like PyTorch's and may have any strides. float16 and bfloat16 tensors are computed in float.
Gradients, torch.func's transforms and torch.compile: _pointwise_operator.py.
"""
from __future__ import annotations

import torch

from clprim._expression import Expression
from torch_ocl import _pointwise_operator as operator


class PointwiseKernel(Expression):
    """Call it with tensors of the ocl device; see pointwise_kernel for the fields."""

    gradient: str | None = None

    def __init__(self, code, reduce=None, identity="0", gradient=None):
        super().__init__(code, reduce, identity)
        if gradient is not None:
            operator.check_gradient(gradient, self.output_count)
        object.__setattr__(self, "gradient", gradient)
        object.__setattr__(self, "outputs", self.output_count)

    def __call__(self, *inputs, scalars=(), out=None, dtype=None, dim=None, keepdim=False):
        """The output, or a tuple of outputs.

        inputs: tensors. scalars: numbers w0, ..., of the first output's type. dtype: of the outputs, or a sequence with
        one for each (default: the inputs' promoted dtype). out: tensors to write instead of new ones. dim, keepdim:
        what a reduction reduces (default: everything).
        """
        if not inputs:
            raise ValueError("at least one input tensor is needed")
        for k, x in enumerate(inputs):
            if not isinstance(x, torch.Tensor):
                raise TypeError(f"pointwise_kernel: x{k}: expected a tensor, got {type(x).__name__}")
        shape = torch.broadcast_shapes(*(x.shape for x in inputs))
        kept, reduced = self.kept_shape(shape, dim, keepdim)
        if out is not None:
            return self._write(inputs, list(out) if isinstance(out, (tuple, list)) else [out], list(scalars), shape,
                               kept)
        outputs = operator.call(list(inputs), list(scalars), self._dtypes(inputs, dtype), self.code, self.reduce,
                                self.identity, self.gradient, sorted(reduced))
        if self.reduce is not None and not keepdim:
            rest = [size for d, size in enumerate(shape) if d not in reduced]
            outputs = [y.reshape(rest) for y in outputs]
        return outputs[0] if self.outputs == 1 else tuple(outputs)

    def _write(self, inputs, outputs, scalars, shape, kept):
        if len(outputs) != self.outputs:
            raise ValueError(f"the code assigns {self.outputs} outputs, got {len(outputs)}")
        if torch.is_grad_enabled() and any(t.requires_grad for t in (*inputs, *outputs)):
            raise RuntimeError("pointwise_kernel: out=... does not support automatic differentiation, but one of the "
                               "arguments requires grad; leave out= away, or call it under torch.no_grad()")
        full = outputs
        if self.reduce is not None:
            full = [y.reshape(kept) if y.shape != torch.Size(kept) else y for y in outputs]
        operator.launch(list(inputs), full, scalars, self.code, self.reduce, self.identity, shape)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _dtypes(self, inputs, dtype):
        if dtype is None:
            dtype = inputs[0].dtype
            for x in inputs[1:]:
                dtype = torch.promote_types(dtype, x.dtype)
        dtypes = [dtype] * self.outputs if isinstance(dtype, torch.dtype) else list(dtype)
        if len(dtypes) != self.outputs:
            raise ValueError(f"the code assigns {self.outputs} outputs, got {len(dtypes)} dtypes")
        return dtypes


def pointwise_kernel(code, *, reduce=None, identity="0", gradient=None):
    """A function of tensors from OpenCL C statements.

    code: assigns y0, y1, ... from x0, x1, ... and w0, w1, ...; several statements and lines are fine. Besides OpenCL's
        functions it may use clprim's (sigmoid, gelu, maximum, ...: src/kernels/pointwise/math.cl).
    reduce: an associative expression of a and b that merges two values of an output: the outputs are reduced with it.
    identity: the value that changes nothing when merged, as OpenCL C.
    gradient: OpenCL C that assigns dx0, dx1, ..., the gradients of the inputs that have one, from x0, ..., w0, ..., the
        outputs y0, ... (before they are reduced) and their gradients dy0, ... Without it gradients are derived from the
        code, as far as it consists of assignments, if, ?: and functions with known derivatives; of reductions those by
        sums, largest and smallest values. What cannot be derived raises in backward, and names the line.

    Kernels are compiled once for every combination of dtypes and kind of layout, never for a shape. They work under
    torch.compile, torch.func.vmap and torch.func.grad, and gradients of gradients are derived as well.
    """
    return PointwiseKernel(code, reduce, identity, gradient)
