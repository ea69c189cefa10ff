"""torch.ops.torch_ocl.pointwise: kernels from expressions as an operator with gradients, a rule for vmap, and results
that are known ahead.

    pointwise(Tensor[] inputs, Scalar[] scalars, ScalarType[] dtypes, str code, str? reduce, str identity, str?
    gradient,
              int[] dim) -> Tensor[]

Outputs have the inputs' common shape; of a reduction with 1 in place of the dimensions `dim`.
"""

from __future__ import annotations

import functools
import re

import torch

from clprim._expression import Expression
from torch_ocl._derivative import gradient_code
from torch_ocl._expression_parser import NotDerivable

_NAME = "pointwise_kernel"
_C_TYPES = {torch.bool: "uchar", torch.int8: "char", torch.uint8: "uchar", torch.int16: "short", torch.uint16: "ushort",
            torch.int32: "int", torch.uint32: "uint", torch.int64: "long", torch.uint64: "ulong",
            torch.float16: "float", torch.bfloat16: "float", torch.float32: "float", torch.float64: "double"}
# Reductions to the largest or smallest value, without blanks and with brackets around nothing but arguments.
_EXTREME = re.compile(r"a[<>]=?b\?[ab]:[ab]|b[<>]=?a\?[ab]:[ab]|(?:fmax|max|maximum|fmin|min|minimum)\((?:a,b|b,a)\)")


def launch(inputs, outputs, scalars, code, reduce, identity, shape) -> None:
    """Writes outputs that are there."""
    marked = f'\n#line 1 "{_NAME}"\n{code}\n'
    try:
        if reduce is None:
            torch.ops.torch_ocl.pointwise_(inputs, outputs, scalars, marked)
        else:
            # The size that outputs are reduced over is found from the first input.
            first = [inputs[0].expand(shape), *inputs[1:]]
            torch.ops.torch_ocl.pointwise_reduce_(first, outputs, scalars,
                                                  Expression(marked, reduce, identity).reduction())
    except RuntimeError as error:
        from torch_ocl.user_kernel import _with_source_lines

        text = str(error)
        if "did not compile" not in text:
            raise
        raise RuntimeError(_with_source_lines(text, code, _NAME)) from None


@functools.cache
def _numbered(dtype: int) -> torch.dtype:
    return torch.ops.aten.empty.memory_format([0], dtype=dtype, device="cpu").dtype


def _named(dtypes) -> list[torch.dtype]:
    """PyTorch 2.11 passes kernels in Python the numbers of a list of dtypes."""
    return [dtype if isinstance(dtype, torch.dtype) else _numbered(dtype) for dtype in dtypes]


def _empty_outputs(inputs, dtypes, reduce, dim):
    shape = torch.broadcast_shapes(*(x.shape for x in inputs))
    kept = [1 if reduce is not None and d in dim else size for d, size in enumerate(shape)]
    return [torch.empty(kept, dtype=each, device=inputs[0].device) for each in _named(dtypes)], shape


def _run(inputs, scalars, dtypes, code, reduce, identity, gradient, dim):
    for k, x in enumerate(inputs):
        if x.device.type != "ocl":
            raise RuntimeError(f"{_NAME}: x{k}: expected a tensor on an ocl device, got one on {x.device}")
    outputs, shape = _empty_outputs(inputs, dtypes, reduce, dim)
    launch(inputs, outputs, scalars, code, reduce, identity, shape)
    return outputs


def _fake(inputs, scalars, dtypes, code, reduce, identity, gradient, dim):
    return _empty_outputs(inputs, dtypes, reduce, dim)[0]


# Gradients.

def check_gradient(gradient: str, outputs: int) -> None:
    known = {int(n) for n in re.findall(r"\bd?y(\d+)\b", gradient)}
    if not re.search(r"\bdx\d+\b", gradient):
        raise ValueError(f"pointwise_kernel: gradient must assign dx0, dx1, ..., got {gradient!r}")
    if known and max(known) >= outputs:
        raise ValueError(f"pointwise_kernel: gradient speaks of y{max(known)}, but the code has {outputs} outputs")


def _is_sum(reduce: str, identity: str) -> bool:
    return re.sub(r"\s", "", reduce) in ("a+b", "b+a") and not re.search(r"[1-9A-Za-z_]",
                                                                         re.sub(r"[fF.]", "", identity))


def _setup_context(ctx, inputs, output):
    tensors, scalars, dtypes, code, reduce, identity, gradient, dim = inputs
    # What a gradient of the caller's own reads, and where an extreme is, are values of outputs.
    keeps = gradient is not None and reduce is None or reduce is not None and not _is_sum(reduce, identity)
    ctx.save_for_backward(*tensors, *(output if keeps else ()))
    ctx.count = len(tensors)
    ctx.settings = (list(scalars), _named(dtypes), code, reduce, identity, gradient, list(dim))
    ctx.set_materialize_grads(False)


def _backward(ctx, gradients):
    results = _gradients(ctx, gradients, ctx.needs_input_grad[0])
    scalars, *_, dim = ctx.settings
    # An empty list's gradient is an empty list.
    return results, None if scalars else [], None, None, None, None, None, None if dim else []


def _gradients(ctx, gradients, needed):
    saved = list(ctx.saved_tensors)
    inputs, outputs = saved[:ctx.count], saved[ctx.count:]
    scalars, dtypes, code, reduce, identity, gradient, dim = ctx.settings
    wanted = tuple(k for k, is_needed in enumerate(needed) if is_needed)
    given = tuple(k for k, g in enumerate(gradients) if g is not None)
    results = [None] * ctx.count
    if wanted and given:
        if reduce is not None:
            gradients = _before_reduction(ctx.settings, inputs, outputs, gradients)
            outputs = []
        if gradient is None:
            found = _derived(inputs, scalars, dtypes, code, wanted, given, gradients)
        else:
            found = _by_the_caller(ctx.settings, inputs, outputs, wanted, gradients)
        for k, g in found.items():
            results[k] = g.sum_to_size(inputs[k].shape)
    return results


def _refused(what: str, line: int, code: str) -> RuntimeError:
    lines = code.split("\n")
    quoted = f": `{lines[line - 1].strip()}`" if 1 <= line <= len(lines) else ""
    return RuntimeError(f"{_NAME}: no gradient is derived from {what}, line {line}{quoted}; give one with gradient=")


def _before_reduction(settings, inputs, outputs, gradients):
    """Gradients of the values that were reduced."""
    scalars, dtypes, code, reduce, identity, gradient, dim = settings
    if _is_sum(reduce, identity):
        return gradients        # they are broadcast
    form = re.sub(r"\s", "", reduce)
    if not _EXTREME.fullmatch(re.sub(r"(?<!\w)\(([^()]*)\)", r"\1", form)):
        raise RuntimeError(f"{_NAME}: no gradient is derived of a reduction by `{reduce}`: sums, largest and smallest "
                           "values have one")
    values = call([x.detach() for x in inputs], scalars, dtypes, code, None, "0", None, [])
    result = []
    for g, value, extreme in zip(gradients, values, outputs):
        if g is not None:
            # Equal ones share it, as in torch.amax.
            same = (value == extreme).to(g.dtype)
            g = g * same / same.sum(dim, keepdim=True)
        result.append(g)
    return result


def _derived(inputs, scalars, dtypes, code, wanted, given, gradients):
    for what, tensors in (("input", [x.dtype for x in inputs]), ("output", dtypes)):
        for k, dtype in enumerate(tensors):
            if dtype not in _C_TYPES:
                raise RuntimeError(f"{_NAME}: no gradient is derived with {what} {k} of {dtype}; give one with "
                                   "gradient=")
    wanted = tuple(sorted(wanted, key=lambda k: -inputs[k].dtype.itemsize))   # the first one's type is the kernel's T
    try:
        text = gradient_code(code, tuple(_C_TYPES[x.dtype] for x in inputs), len(scalars),
                             tuple(_C_TYPES[d] for d in dtypes), wanted, given)
    except NotDerivable as reason:
        raise _refused(reason.what, reason.line, code) from None
    found = call([*inputs, *(gradients[k] for k in given)], scalars,
                                          [inputs[k].dtype for k in wanted], text, None, "0", None, [])
    return dict(zip(wanted, found))


def _by_the_caller(settings, inputs, outputs, wanted, gradients):
    scalars, dtypes, code, reduce, identity, gradient, dim = settings
    assigned = sorted({int(n) for n in re.findall(r"\bdx(\d+)\b", gradient)})
    if assigned[-1] >= len(inputs):
        raise RuntimeError(f"{_NAME}: gradient assigns dx{assigned[-1]}, but there are {len(inputs)} inputs")
    missing = [k for k in wanted if k not in assigned]
    if missing:
        raise RuntimeError(f"{_NAME}: x{missing[0]} requires grad, but gradient= does not assign dx{missing[0]}")
    operands, places = list(inputs), {}
    shape = torch.broadcast_shapes(*(x.shape for x in inputs))
    for k in sorted({int(n) for n in re.findall(r"\by(\d+)\b", gradient)}):
        if not outputs:
            outputs = call(inputs, scalars, dtypes, code, None, "0", None, [])
        places[f"y{k}"] = len(operands)
        operands.append(outputs[k])
    for k in sorted({int(n) for n in re.findall(r"\bdy(\d+)\b", gradient)}):
        places[f"dy{k}"] = len(operands)
        operands.append(gradients[k] if gradients[k] is not None
                        else torch.zeros(shape, dtype=dtypes[k], device=inputs[0].device))
    places = {name: f"x{at}" for name, at in places.items()} | {f"dx{k}": f"y{i}" for i, k in enumerate(assigned)}
    text = re.sub(r"\b(?:d[xy]|y)\d+\b", lambda m: places.get(m[0], m[0]), gradient)
    found = call(operands, scalars, [inputs[k].dtype for k in assigned], text, None, "0", None, [])
    return {k: g for k, g in zip(assigned, found) if k in wanted}


def _mapped_first(inputs, in_dims):
    """The mapped dimension becomes the first one; inputs of fewer dimensions are broadcast behind it."""
    ranks = [x.dim() - (d is not None) for x, d in zip(inputs, in_dims)]
    rank = max(ranks)
    moved = []
    for x, d, own in zip(inputs, in_dims, ranks):
        if d is not None:
            x = x.movedim(d, 0)
            x = x.reshape(x.shape[0], *[1] * (rank - own), *x.shape[1:])
        moved.append(x)
    return moved


def _vmap(info, in_dims, inputs, *settings):
    *others, dim = settings
    outputs = torch.ops.torch_ocl.pointwise(_mapped_first(inputs, in_dims[0]), *others, [d + 1 for d in dim])
    return outputs, [0] * len(outputs)


class _Transformed(torch.autograd.Function):
    """The operator under torch.func's transforms, which gradients of torch.library's operators do not work in."""

    @staticmethod
    def forward(settings, *inputs):
        return tuple(torch.ops.torch_ocl.pointwise(list(inputs), *settings))

    @staticmethod
    def setup_context(ctx, inputs, output):
        settings, *tensors = inputs
        _setup_context(ctx, (tensors, *settings), output)

    @staticmethod
    def backward(ctx, *gradients):
        return None, *_gradients(ctx, gradients, ctx.needs_input_grad[1:])

    @staticmethod
    def vmap(info, in_dims, settings, *inputs):
        *others, dim = settings
        outputs = _Transformed.apply((*others, [d + 1 for d in dim]), *_mapped_first(inputs, in_dims[1:]))
        return outputs, tuple(0 for _ in outputs)


def call(inputs, *settings):
    if torch._C._are_functorch_transforms_active():
        return list(_Transformed.apply(settings, *inputs))
    return torch.ops.torch_ocl.pointwise(inputs, *settings)


def _register() -> None:
    library = torch.library.Library("torch_ocl", "FRAGMENT")
    library.define("pointwise(Tensor[] inputs, Scalar[] scalars, ScalarType[] dtypes, str code, str? reduce, "
                   "str identity, str? gradient, int[] dim) -> Tensor[]", tags=(torch.Tag.pt2_compliant_tag,))
    library.impl("pointwise", _run, "CompositeExplicitAutograd")
    name = "torch_ocl::pointwise"
    torch.library.register_fake(name, _fake, lib=library)
    torch.library.register_autograd(name, _backward, setup_context=_setup_context, lib=library)
    torch.library.register_vmap(name, _vmap, lib=library)
    for name in ("pointwise_", "pointwise_reduce_"):
        torch.library.register_fake(f"torch_ocl::{name}", lambda inputs, outputs, scalars, code: None, lib=library)
    globals()["_library"] = library      # what it registered lives as long as it does


_register()
