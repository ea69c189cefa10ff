"""Elementwise kernels and reductions from expressions.

    axpy = clprim.pointwise_kernel("y0 = w0 * x0 + x1;")
    y = axpy(a, b, scalars=[2.0])

    # Sums of x and x * x over all axes but the channel, in one pass.
    moments = clprim.pointwise_kernel("y0 = x0; y1 = x0 * x0;", reduce="a + b", identity="0")
    total, squares = moments(x, dim=(0, 2, 3))

The code is OpenCL C: statements over the inputs x0, x1, ... and the numbers w0, w1, ... that assign the outputs y0, y1,
... Inputs are broadcast like NumPy's and may have any strides. float16 and bfloat16 tensors are computed in float.
"""

from __future__ import annotations

import numpy as np

from clprim._C import Tensor, pointwise_, pointwise_reduce_
from clprim._expression import Expression


class PointwiseKernel(Expression):
    """Call it with tensors of one device; see pointwise_kernel for the fields."""

    def __call__(self, *inputs, scalars=(), out=None, dtype=None, dim=None, keepdim=False):
        """The output, or a tuple of outputs.

        inputs: clprim.Tensor. scalars: numbers w0, ..., of the first output's type. dtype: of the outputs, or a list
        with one for each (default: that of the first input). out: tensors to write instead of new ones. dim, keepdim:
        what a reduction reduces (default: everything).
        """
        if not inputs:
            raise ValueError("at least one input tensor is needed")
        shape = np.broadcast_shapes(*(x.shape for x in inputs))
        kept, reduced = self.kept_shape(shape, dim, keepdim)
        if out is None:
            dtypes = list(dtype) if isinstance(dtype, (list, tuple)) else [dtype or inputs[0].dtype] * self.output_count
            outputs = [Tensor.empty(kept, each, inputs[0].context) for each in dtypes]
        else:
            outputs = list(out) if isinstance(out, (list, tuple)) else [out]
        if len(outputs) != self.output_count:
            raise ValueError(f"the code assigns {self.output_count} outputs, got {len(outputs)}")
        if self.reduce is None:
            pointwise_(list(inputs), outputs, list(scalars), self.code)
        else:
            pointwise_reduce_([inputs[0].expand(shape), *inputs[1:]], [y.reshape(kept) for y in outputs], list(scalars),
                              self.reduction())
            if out is None and not keepdim:
                rest = [size for d, size in enumerate(shape) if d not in reduced]
                outputs = [y.reshape(rest) for y in outputs]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


def pointwise_kernel(code: str, *, reduce: str | None = None, identity: str = "0") -> PointwiseKernel:
    """A function of tensors from OpenCL C statements.

    code: assigns y0, y1, ... from x0, x1, ... and w0, w1, ...; several statements and lines are fine. Besides OpenCL's
        functions it may use clprim's (sigmoid, gelu, maximum, ...: src/kernels/pointwise/math.cl).
    reduce: an associative expression of a and b that merges two values of an output: the outputs are reduced with it.
    identity: the value that changes nothing when merged, as OpenCL C.

    Kernels are compiled once for every combination of dtypes and kind of layout, never for a shape.
    """
    return PointwiseKernel(code, reduce, identity)
