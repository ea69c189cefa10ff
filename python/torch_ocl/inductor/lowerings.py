"""What is left to the device's own operators when a graph is lowered, instead of generated.

Sums into places that several elements share are among it: the device's operators add in a fixed order, a generated
kernel would need atomics, whose sums differ from run to run.
"""

from __future__ import annotations

import functools
import math
from unittest.mock import patch

import sympy

import torch
from torch._inductor import config, ir, lowering
from torch._inductor.utils import sympy_product
from torch._inductor.virtualized import V
from torch._library.utils import get_layout_constraint_tag
from torch.utils import _pytree as pytree
from torch.utils._sympy.functions import FloorDiv

from torch_ocl.inductor import inlining, interpolation, pooling, scans, versions
from torch_ocl.inductor.inlining import on_ocl
from torch_ocl.inductor.runtime import Ranges
from torch_ocl.inductor.types import C_TYPES

aten = torch.ops.aten


def _is_ours(args, kwargs) -> bool:
    leaves = pytree.tree_leaves((args, kwargs), is_leaf=lambda x: isinstance(x, ir.IRNode))
    return any(isinstance(x, ir.IRNode) and (x.get_device() or torch.device("cpu")).type == "ocl" for x in leaves)


def _replace(target, make) -> None:
    """Lowers a packet's overloads by make(overload, former) where tensors are on the device."""
    for overload in (getattr(target, name) for name in target.overloads()):
        former = lowering.lowerings.get(overload)
        if former is None or getattr(former, "_is_fallback_handler", False):
            continue
        ours = make(overload, former)

        def lowered(*args, former=former, ours=ours, **kwargs):
            return (ours if _is_ours(args, kwargs) else former)(*args, **kwargs)

        lowering.lowerings[overload] = functools.wraps(former)(lowered)


def _fallback(overload, former):
    return lowering.fallback_handler(overload, add_to_fallback_set=False)


def _convolution_backward(overload, former):
    """Inductor's own makes every length of a tensor a constant of the graph, to ask for layouts that only Triton's
    templates need."""
    ours = _fallback(overload, former)
    return lambda *args, **kwargs: (former if V.graph.layout_opt else ours)(*args, **kwargs)


def _apart(written, *operands):
    """Operands, copied where they read what is written. PyTorch's pass that has operators work in place looks for later
    readers only, so that x.index_copy(0, index, x) becomes one that reads and writes the same memory."""
    written.realize()
    name = ir.try_get_name(written)

    def copied(operand):
        if not isinstance(operand, ir.TensorBox):
            return operand
        if name not in operand.get_read_names() and name != ir.try_get_name(operand):
            return operand
        copy = lowering.clone(operand)
        copy.realize()
        return copy

    return [copied(operand) for operand in operands]


def _index_put(overload, former):
    in_place = overload._schema.name.endswith("_")

    def lowered(x, indices, values, accumulate=False):
        if in_place:
            values, *indices = _apart(x, values, *indices)
        if not accumulate:
            return former(x, indices, values, accumulate)
        return _accumulate(x if in_place else lowering.clone(x), indices, values)

    return lowered


def _accumulate(x, indices, values):
    if len(x.get_size()) > 0:
        ir.IndexPutFallback(aten.index_put_.default, x, indices, lowering.to_dtype(values, x.get_dtype()), True)
        return x
    ir.IndexPutFallback(aten.index_put_.default, lowering.view(x, [1]), indices, values, True)
    return x


def _masked_index_put_accumulate(overload, former):
    def lowered(x, mask, indices, values):
        sizes = x.get_size()
        inside = [None if index is None else lowering.clamp(index, -sizes[d], sizes[d] - 1)
                  for d, index in enumerate(indices)]
        return _accumulate(lowering.clone(x), inside, lowering.where(mask, values, 0))

    return lowered


def _scatter(overload, former):
    in_place = overload._schema.name.endswith("_")

    def lowered(x, dim, index, src, *, reduce=None, include_self=True):
        if reduce is None:
            return former(x, dim, *(_apart(x, index, src) if in_place else (index, src)))
        return _scatter_reduce(x if in_place else lowering.clone(x), dim, index, src,
                               {"add": "sum", "multiply": "prod"}.get(reduce, reduce), include_self)

    return lowered


def _scatter_add(overload, former):
    in_place = overload._schema.name.endswith("_")
    return lambda x, dim, index, src: _scatter_reduce(x if in_place else lowering.clone(x), dim, index, src, "sum",
                                                      True)


def _scatter_reduction(overload, former):
    in_place = overload._schema.name.endswith("_")
    return lambda x, dim, index, src, reduce, *, include_self=True: _scatter_reduce(
        x if in_place else lowering.clone(x), dim, index, src, reduce, include_self)


def _scatter_reduce(x, dim, index, src, reduce, include_self):
    if not isinstance(src, ir.TensorBox):
        src = lowering.full_like(index, src, dtype=x.get_dtype())
    index, src = _apart(x, index, src)
    ir.ScatterFallback(aten.scatter_reduce_.two, x, dim, index, src, reduce=reduce, include_self=include_self)
    return x


def _nearest_backward(overload, former):
    """Sums over windows where images were enlarged by whole numbers. Inductor's own for others takes no notice of the
    factors that an interpolation was given."""
    ours = _fallback(overload, former)

    def lowered(x, output_size, input_size, *scales):
        fits = all(_enlarged(small, large, scale)
                   for small, large, scale in zip(input_size[2:], output_size, scales or (None, None)))
        return (former if fits else ours)(x, output_size, input_size, *scales)

    return lowered


def _glu(overload, former):
    """Halves of a length that stays dynamic. Inductor's own makes it a constant."""
    def lowered(x, dim=-1):
        dim = lowering._validate_dim(x, dim, 0)
        length = FloorDiv(x.get_size()[dim], 2)
        first, second = (lowering.slice_(x, dim, start, start + length, clamp=False) for start in (0, length))
        return lowering.mul(first, lowering.sigmoid(second))

    return lowered


def _adaptive_pool(overload, former):
    return pooling.lowering_of(_fallback(overload, former), former)


def _enlarged(small, large, scale) -> bool:
    """Whether one length is a whole multiple of another, by just that factor if one is given."""
    known = V.graph.sizevars.statically_known_equals
    if scale is None:
        return V.graph.sizevars.statically_known_multiple_of(sympy.sympify(large), sympy.sympify(small))
    return scale == int(scale) and known(small * int(scale), large)


def _cat(overload, former):
    """Of many tensors most of which are in memory already: Inductor would copy each by a kernel of its own, one behind
    the other. What is computed only to be joined is written where it belongs by Inductor's."""
    ours = _fallback(overload, former)

    def lowered(tensors, dim=0):
        hint = V.graph.sizevars.optimization_hint
        sizes = [(hint(sympy_product(x.get_size())), _is_in_memory(x)) for x in tensors]
        copied = sum(size for size, in_memory in sizes if in_memory)
        many = len(sizes) > config.max_pointwise_cat_inputs and not config.force_pointwise_cat
        return (ours if many and 2 * copied > sum(size for size, _ in sizes) else former)(tensors, dim)

    return lowered


def _is_in_memory(x) -> bool:
    """Whether a concatenation has to copy a tensor."""
    if not ir.is_storage_and_layout(x):
        return False
    storage, _ = ir.as_storage_and_layout(x, freeze=False)
    return not ir.ConcatKernel.can_realize_into_without_copy(storage)


def _prefer_the_device() -> None:
    """An operation on a number in the CPU's memory (a tensor without dimensions) and a tensor of the device is the
    device's, whichever comes first. Inductor decides that by the list of devices it calls GPUs."""
    former = lowering.is_gpu
    lowering.is_gpu = lambda device: device == "ocl" or former(device)


def _leave_unknown_dtypes() -> None:
    """Operations with a dtype that generated code does not compute with (float8, float64 on a device without it) are
    left to the device's operators, as Inductor leaves complex ones."""
    former = lowering.unsupported_input_tensor

    def unsupported_input_tensor(t, node=None):
        if t.device.type == "ocl" and not t.is_complex():
            if t.dtype not in C_TYPES:
                return True
            if t.dtype == torch.float64 and not Ranges.of(t.device.index or 0).figures.fp64:
                return True
        return former(t, node)

    lowering.unsupported_input_tensor = unsupported_input_tensor


LONGEST_IN_CACHE = 32768    # numbers of a row that a CPU reads again for less than one step of Welford's formula costs


def _variances_in_two_steps() -> None:
    """Variances of rows (layer norms) on CPUs: the mean, then the squares of what is left. Welford's formula, which
    needs one pass over memory, has a longer chain of operations in each turn."""
    former, formed = lowering.use_two_step_variance, lowering.var_mean_sum_

    def use_two_step_variance(x, axis, keepdim, *input_dtype, **named) -> bool:     # without a dtype before 2.13
        if not on_ocl(x) or Ranges.of(x.get_device().index or 0).figures.kind != "cpu":
            return former(x, axis, keepdim, *input_dtype, **named)
        sizes, reduced = x.get_size(), {dim % len(x.get_size()) for dim in axis or range(len(x.get_size()))}
        count = sympy_product(sizes[dim] for dim in reduced)
        rows = min(reduced, default=0) == len(sizes) - len(reduced) > 0
        return bool(rows and isinstance(count, (int, sympy.Integer)) and 1 < count <= LONGEST_IN_CACHE)

    def var_mean_sum_(x, axis, correction, keepdim, return_mean):
        count = sympy_product(x.get_size()[dim] for dim in lowering._validate_reduction_axis(x, axis))
        long = on_ocl(x) and count > versions.TWO_STEP_VARIANCE
        return (_moments if long else formed)(x, axis, correction, keepdim, return_mean)

    lowering.use_two_step_variance, lowering.var_mean_sum_ = use_two_step_variance, var_mean_sum_


def _moments(x, axis, correction, keepdim, return_mean):
    """(variance,) or (variance, mean), by the corrected two-pass algorithm (Chan, Golub, LeVeque 1983, eq. 1.7): what
    is left of a row has a sum, by which the first mean was wrong. A row of equal numbers has that number for a mean,
    and the variance 0, which a norm's 1 / sqrt(eps) would show otherwise. For rows that Inductor takes in Welford's
    formula on its CPU; the sum is a tenth of the time of short ones."""
    axis = lowering._validate_reduction_axis(x, axis)
    count = sympy_product(x.get_size()[dim] for dim in axis)

    def number(value, like):
        constant = ir.IndexingConstant(index=value, dtype=x.get_dtype(), device=x.get_device())
        return ir.ExpandView.create(constant, list(like.get_size()))

    first = lowering.mean(x, axis, keepdim=True)
    if return_mean:
        first.realize()
    away = lowering.sub(x, first)
    rest, squares = lowering.sum_(away, axis, True), lowering.sum_(lowering.square(away), axis, True)
    error = lowering.div(rest, number(count, rest))
    # What is subtracted is never more than the squares but for rounding.
    squares = lowering.relu(lowering.sub(squares, lowering.mul(rest, error)))
    freedom = count - (1 if correction is None else correction)
    variance = lowering.div(squares, number(sympy.Max(freedom, 0), squares))
    found = (variance, lowering.add(first, error)) if return_mean else (variance,)
    return found if keepdim else tuple(lowering.squeeze(each, axis) for each in found)


def _keep_scaled_softmax() -> None:
    """The largest of scaled numbers is looked for among them, as the device's operators do. A pattern of Inductor's has
    the largest of the numbers found, that of the scaled ones, and whether all are finite, for one rounding less."""
    from torch._inductor.fx_passes import joint_graph

    for entries in joint_graph.pass_patterns[1].patterns.values():
        for entry in entries:
            if getattr(entry, "handler", None) in (joint_graph.mul_softmax_pattern, joint_graph.div_softmax_pattern):
                entry.extra_check = functools.partial(_elsewhere, entry.extra_check)


def _elsewhere(former, match) -> bool:
    return match.output_node().meta["val"].device.type != "ocl" and former(match)


def _divide_by_numbers() -> None:
    """Quotients by a number are divisions, as in eager code. Inductor multiplies by its reciprocal except on CPUs,
    which rounds twice: what is quantised by such a scale may become its neighbour. Powers of two make no difference."""
    former = lowering.get_constant_value

    @functools.wraps(former)
    def get_constant_value(x):
        found = former(x)
        return found if found is None or not on_ocl(x) or abs(math.frexp(found.value)[0]) == 0.5 else None

    lowering.get_constant_value = get_constant_value


def _flex_attention() -> None:
    """Lowered when they are met, by flex_attention.py, which is imported then."""
    import torch._inductor.kernel.flex  # noqa: F401  (registers those of other devices)

    for name in ("flex_attention", "flex_attention_backward"):
        target = getattr(torch.ops.higher_order, name)
        former = lowering.lowerings[target]

        def lowered(*args, former=former, name=name, **kwargs):
            if not _is_ours(args[:1], {}):
                return former(*args, **kwargs)
            from torch_ocl.inductor import flex_attention

            with V.graph.set_current_device(args[0].get_device()):
                return getattr(flex_attention, "lower_backward" if name.endswith("backward")
                               else "lower_forward")(*args)

        lowering.lowerings[target] = functools.wraps(former)(lowered)


def _fused_products() -> None:
    """What epilogues.py and batch_norms.py put into graphs is known to be the device's, whether unknown operators may
    be called or not (`implicit_fallbacks`)."""
    ours = torch.ops.torch_ocl
    for target in (ours.fused_addmm.default, ours.fused_convolution.default, ours.fused_convolution_add_.default,
                   ours.fold_batch_norm.default):
        lowering.make_fallback(target, lowering.tag_to_layout_constraint(get_layout_constraint_tag(target)))


def _interpolation() -> None:
    """The operators that interpolation.py keeps whole, which PyTorch would decompose, and says so where `CI` is set."""
    for name in interpolation.NAMES:
        for target, constraint in ((getattr(aten, name).default, None),
                                   (getattr(aten, name + "_backward").default, lowering.require_contiguous)):
            if target not in lowering.lowerings and target not in lowering.decompositions:
                lowering.make_fallback(target, constraint, warn=False)


def _keep_what_is_mutated() -> None:
    """A tensor that is overwritten as a whole gets another buffer into its box. What has written into parts of the
    former one (scatter, index_put) would find the new one there, and write into it behind what overwrites it: it has a
    box of its own."""
    former = ir.MutationLayoutSHOULDREMOVE.__init__

    @functools.wraps(former)
    def initialise(self, target) -> None:
        if isinstance(target, ir.TensorBox) and isinstance(target.data, ir.StorageBox) \
                and isinstance(target.data.data, ir.ComputedBuffer) and target.get_device().type == "ocl":
            target = ir.TensorBox(ir.StorageBox(target.data.data))
        former(self, target)

    ir.MutationLayoutSHOULDREMOVE.__init__ = initialise


def register() -> None:
    _keep_what_is_mutated()
    _flex_attention()
    _fused_products()
    _interpolation()
    pooling.sizes_with_ceil_mode()
    inlining.register()
    _divide_by_numbers()
    _keep_scaled_softmax()
    _variances_in_two_steps()
    _leave_unknown_dtypes()
    _prefer_the_device()
    import torch._inductor.kernel.conv  # noqa: F401  (registers what is replaced)

    _replace(aten.cat, _cat)
    _replace(aten.upsample_nearest2d_backward, _nearest_backward)
    for packet in (aten._adaptive_avg_pool2d, aten.adaptive_max_pool2d):
        _replace(packet, _adaptive_pool)
    _replace(aten.glu, _glu)
    _replace(aten.convolution_backward, _convolution_backward)
    for packet in (aten.index_put, aten.index_put_, aten._unsafe_index_put):
        _replace(packet, _index_put)
    _replace(aten._unsafe_masked_index_put_accumulate, _masked_index_put_accumulate)
    _replace(aten.scatter, _scatter)
    _replace(aten.scatter_, _scatter)
    _replace(aten.scatter_add, _scatter_add)
    _replace(aten.scatter_add_, _scatter_add)
    _replace(aten.scatter_reduce, _scatter_reduction)
    _replace(aten.scatter_reduce_, _scatter_reduction)
    for packet in (aten.cumsum, aten.cumprod, aten.logcumsumexp, aten.cummax, aten.cummin):
        _replace(packet, _fallback)
    ir.Scan.num_splits = scans.in_one_part(vars(ir.Scan)["num_splits"])
    # Assertions read their value at once: a message that comes late, or as another kind of error, helps nobody.
    _replace(aten._assert_async, _fallback)
    _replace(aten._functional_assert_async, _fallback)
