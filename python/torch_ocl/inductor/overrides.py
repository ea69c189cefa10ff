"""Inductor's elementwise operations as OpenCL C.

Operations return expressions; OpenCLCSE gives them variables of the dtype that Inductor's dtype propagation finds.
Functions come from the library's own kernels/pointwise/math.cl, special.cl and their like, so that compiled code agrees
with the device's operators; there T is float, or double in a kernel that has float64.
"""

from __future__ import annotations

import functools

import sympy

import torch
from torch._inductor.codegen.common import CSEVariable, OpOverrides
from torch._inductor.utils import get_bounds_index_expr, generate_assert, sympy_index_symbol
from torch._inductor.virtualized import V
from torch.utils._sympy.value_ranges import ValueRanges

from torch_ocl.inductor import types
from torch_ocl.inductor.versions import VALUES_APART


def dtype_of(x) -> torch.dtype:
    if isinstance(x, CSEVariable):
        return x.dtype
    if isinstance(x, bool):
        return torch.bool
    return torch.int64 if isinstance(x, (int, sympy.Integer)) else torch.float32


def common_dtype(*args) -> torch.dtype:
    """What an operation on variables is computed in; plain numbers adapt to variables."""
    known = [types.compute_dtype(x.dtype) for x in args if isinstance(x, CSEVariable)]
    return _promoted(*(known or [dtype_of(x) for x in args]))


@functools.cache
def _promoted(*dtypes) -> torch.dtype:
    return functools.reduce(torch.promote_types, dtypes)


def text(x, dtype: torch.dtype) -> str:
    """An argument as an expression of a dtype."""
    if isinstance(x, CSEVariable):
        return types.convert(str(x), x.dtype, dtype)
    if isinstance(x, (bool, int, float, sympy.Number)):
        return types.literal(x if isinstance(x, (bool, int)) else float(x), dtype)
    return f"({types.c_type(dtype)})({x})"


def _wrapping(a, b, operator: str) -> str:
    """a operator b; signed integers wrap, which in C only unsigned ones do."""
    dtype = common_dtype(a, b)
    left, right = text(a, dtype), text(b, dtype)
    if dtype == torch.bool:
        return f"(({left} {operator} {right}) != 0)"
    if dtype in (torch.int32, torch.int64):
        kind, unsigned = types.c_type(dtype), types.UNSIGNED[dtype]
        return f"({kind})(({unsigned}){left} {operator} ({unsigned}){right})"
    if dtype.itemsize < 4 and not dtype.is_floating_point:
        return f"({types.c_type(dtype)})({left} {operator} {right})"
    return f"{left} {operator} {right}"


def _compare(operator: str):
    """Of numbers of one dtype."""

    def call(a, b) -> str:
        dtype = common_dtype(a, b)
        return f"({text(a, dtype)} {operator} {text(b, dtype)})"

    return staticmethod(call)


def _logical(operator: str):
    """Of truth values."""
    return staticmethod(lambda a, b: f"({text(a, torch.bool)} {operator} {text(b, torch.bool)})")


def _bitwise(operator: str):
    """Of integers and of truth values."""

    def call(a, b) -> str:
        dtype = common_dtype(a, b)
        result = f"({text(a, dtype)} {operator} {text(b, dtype)})"
        return f"({result} != 0)" if dtype == torch.bool else f"({types.c_type(dtype)}){result}"

    return staticmethod(call)


def _rounded(name: str):
    """Integers are as they are, as floating-point numbers."""
    return staticmethod(lambda x: f"{name}({x})" if dtype_of(x).is_floating_point else text(x, _floating(x)))


def _floating(*args) -> torch.dtype:
    dtype = common_dtype(*args)
    return dtype if dtype.is_floating_point else torch.float32


def _function(name: str):
    """A function of OpenCL C, which there is for float and for double."""

    def call(*args) -> str:
        dtype = _floating(*args)
        V.kernel.note_dtype(dtype)
        return f"{name}({', '.join(text(a, dtype) for a in args)})"

    return staticmethod(call)


def count_sines() -> None:
    """Four calls may be a sine and a cosine of one of such two, which cpu_sines.cl is for."""
    V.kernel.sines += 1
    if V.kernel.sines > 3:
        V.kernel.includes["kernels/pointwise/cpu_sines.cl"] = None


def _sine(name: str):
    function = _function(name).__func__

    def call(x) -> str:
        count_sines()
        return function(x)

    return staticmethod(call)


def _library(form: str, file: str | None = None):
    """Code of math.cl or of another file: functions of T. {0}, {1}: the arguments."""

    def call(*args) -> str:
        dtype = _floating(*args)
        V.kernel.note_dtype(dtype)
        if file:
            V.kernel.includes[file] = None
        result = form.format(*(text(a, dtype) for a in args))
        return f"({types.c_type(dtype)})({result})"

    return staticmethod(call)


def _special(form: str):
    return _library(form, "kernels/pointwise/special.cl")


def _bessel(form: str):
    return _library(form, "kernels/pointwise/bessel.cl")


def _by_kind(integer: str, floating: str, boolean: str | None = None):
    """Code for integers, where {t} is the C type, and for floating-point numbers."""

    def call(*args) -> str:
        dtype = common_dtype(*args)
        V.kernel.note_dtype(dtype)
        if dtype == torch.bool:
            if boolean is not None:
                return boolean.format(*(text(a, dtype) for a in args))
            dtype = torch.uint8
        form = floating if dtype.is_floating_point else integer
        kind = types.c_type(dtype)
        return f"({kind})({form.format(*(text(a, dtype) for a in args), t=kind)})"

    return staticmethod(call)


def _division(integer: str, floating: str):
    """The same, with a division of integers by zero reported as the device's operators do."""
    call = _by_kind(integer, floating).__func__

    def checked(a, b) -> str:
        may_be_zero = not isinstance(b, CSEVariable) or (b.bounds.lower <= 0 and b.bounds.upper >= 0)
        if may_be_zero and not common_dtype(a, b).is_floating_point:
            V.kernel.report(f"{b} == 0", "clprim_division_error(errors, operator_code)")
        return call(a, b)

    return staticmethod(checked)


class OpenCLOverrides(OpOverrides):
    # Constants, conversions, indices.

    @staticmethod
    def constant(value, dtype) -> str:
        return types.literal(value, dtype)

    @staticmethod
    def to_dtype(x, dtype, src_dtype=None, use_compute_types=True) -> str:
        V.kernel.note_dtype(dtype)
        result = text(x, dtype)
        if not use_compute_types and dtype in types.SHORT_FLOATS:
            return f"round_{types.MEMORY_NAMES[dtype]}({result})"
        return result

    @staticmethod
    def to_dtype_bitcast(x, dtype, src_dtype) -> str:
        value = text(x, src_dtype)
        if src_dtype in types.SHORT_FLOATS:
            value = f"float_to_{types.MEMORY_NAMES[src_dtype]}({value})"
        if dtype in types.SHORT_FLOATS:
            return f"{types.MEMORY_NAMES[dtype]}_to_float(as_ushort({value}))"
        return f"as_{types.c_type(dtype)}({value})"

    @staticmethod
    def index_expr(expr, dtype):
        # The requested dtype may be wider than indices are: values keep it (see value_expr).
        narrow = VALUES_APART and dtype in (torch.int32, torch.int64)
        return OpenCLOverrides.value_expr(expr, V.kernel.get_index_dtype_as_torch_dtype() if narrow else dtype)

    @staticmethod
    def value_expr(expr, dtype):
        V.kernel.note_dtype(dtype)
        index = V.kernel.rename_indexing(V.kernel.prepare_indexing(expr))
        ranges = {symbol: ValueRanges(0, length - 1) for tree in V.kernel.range_trees
                  for symbol, length in tree.var_ranges.items() if isinstance(length, sympy.Integer)}
        index = V.kernel.printer.print_value(index, ranges)
        kind = types.c_type(dtype)
        converted = f"(({index}) != 0)" if kind == "bool" else f"({kind})({index})"
        return V.kernel.cse.generate(V.kernel.compute, converted, bounds=get_bounds_index_expr(expr), dtype=dtype)

    def indirect_indexing(self, var, size, check=True, wrap_neg=True):
        """The index that a variable is. One out of range is reported, and becomes 0: nothing is touched outside."""
        if not isinstance(var, CSEVariable):
            return sympy_index_symbol(str(var))
        lower = not var.bounds.lower >= 0
        upper = not isinstance(size, sympy.Number) or not var.bounds.upper < size
        if generate_assert(check) and (lower or upper):
            var = V.kernel.checked_index(var, size)
        return sympy_index_symbol(str(var))

    @staticmethod
    def masked(mask, body, other):
        return V.kernel.masked(mask, body, other)

    @staticmethod
    def where(condition, a, b) -> str:
        dtype = common_dtype(a, b)
        return f"{text(condition, torch.bool)} ? {text(a, dtype)} : {text(b, dtype)}"

    # Arithmetic.

    @staticmethod
    def add(a, b) -> str:
        return _wrapping(a, b, "+")

    @staticmethod
    def sub(a, b) -> str:
        return _wrapping(a, b, "-")

    @staticmethod
    def mul(a, b) -> str:
        return _wrapping(a, b, "*")

    @staticmethod
    def neg(a) -> str:
        return f"-{a}" if dtype_of(a).is_floating_point else _wrapping(0, a, "-")

    @staticmethod
    def truediv(a, b) -> str:
        dtype = _floating(a, b)
        return f"{text(a, dtype)} / {text(b, dtype)}"

    @staticmethod
    def int_truediv(a, b) -> str:
        dtype = torch.float64 if V.kernel.fp64 else torch.float32
        V.kernel.note_dtype(dtype)
        return f"({types.c_type(_floating(a, b))})({text(a, dtype)} / {text(b, dtype)})"

    @staticmethod
    def fma(a, b, c) -> str:
        dtype = _floating(a, b, c)
        return f"fma({text(a, dtype)}, {text(b, dtype)}, {text(c, dtype)})"

    floordiv = _division("quotient_floor_{t}({0}, {1})", "divide_floor({0}, {1})")
    truncdiv = _division("quotient_trunc_{t}({0}, {1})", "trunc({0} / {1})")
    mod = fmod = _division("remainder_trunc_{t}({0}, {1})", "fmod({0}, {1})")
    remainder = _division("remainder_floor_{t}({0}, {1})", "remainder_of({0}, {1})")
    pow = _by_kind("power_{t}({0}, {1})", "pow({0}, {1})")
    maximum = _by_kind("maximum_{t}({0}, {1})", "maximum_{t}({0}, {1})", "({0} || {1})")
    minimum = _by_kind("minimum_{t}({0}, {1})", "minimum_{t}({0}, {1})", "({0} && {1})")
    abs = _by_kind("({0} < 0 ? 0 - {0} : {0})", "fabs({0})", "{0}")
    sign = _by_kind("({0} > 0) - ({0} < 0)", "(({0} > 0) - ({0} < 0))", "{0}")
    relu = _by_kind("maximum_{t}({0}, 0)", "maximum_{t}({0}, 0)", "{0}")
    square = _by_kind("{0} * {0}", "{0} * {0}", "{0}")

    @staticmethod
    def fmaximum(a, b) -> str:
        dtype = common_dtype(a, b)
        x, y = text(a, dtype), text(b, dtype)
        return f"({x} > {y} || {y} != {y} ? {x} : {y})"

    @staticmethod
    def signbit(x) -> str:
        if not dtype_of(x).is_floating_point:
            return f"({x} < 0)"
        return f"(signbit({x}) != 0)"

    @staticmethod
    def frexp(x):
        dtype = _floating(x)
        mantissa = V.kernel.cse.newvar(dtype=dtype)
        exponent = V.kernel.cse.newvar(dtype=torch.int32)
        V.kernel.compute.writelines([
            f"int {exponent};", f"const {types.c_type(dtype)} {mantissa} = frexp({text(x, dtype)}, &{exponent});",
            f"if (!isfinite({text(x, dtype)}))", f"    {exponent} = 0;"])
        return (mantissa, exponent)

    # Rounding.

    floor, ceil, round = _rounded("floor"), _rounded("ceil"), _rounded("rint")

    @staticmethod
    def trunc(x) -> str:
        return f"trunc({x})" if dtype_of(x).is_floating_point else str(x)

    # Comparisons and bits.

    eq, ne = _compare("=="), _compare("!=")
    lt, gt, le, ge = _compare("<"), _compare(">"), _compare("<="), _compare(">=")
    logical_and, logical_or, logical_xor = _logical("&&"), _logical("||"), _logical("!=")
    and_ = bitwise_and = _bitwise("&")
    or_ = bitwise_or = _bitwise("|")
    xor = bitwise_xor = _bitwise("^")

    @staticmethod
    def isnan(x) -> str:
        return f"({x} != {x})" if dtype_of(x).is_floating_point else "false"

    @staticmethod
    def isinf(x) -> str:
        return f"(fabs({x}) == INFINITY)" if dtype_of(x).is_floating_point else "false"

    @staticmethod
    def logical_not(a) -> str:
        return f"(!{text(a, torch.bool)})"

    @staticmethod
    def bitwise_not(x) -> str:
        return f"(!{x})" if dtype_of(x) == torch.bool else f"({types.c_type(dtype_of(x))})(~{x})"

    bitwise_left_shift = _by_kind("shift_left_{t}({0}, {1})", "")
    bitwise_right_shift = _by_kind("shift_right_{t}({0}, {1})", "")
    lshift, rshift = bitwise_left_shift, bitwise_right_shift

    # Random numbers: Philox with the element's place as counter, so that results depend on nothing else.

    @staticmethod
    def load_seed(name, offset) -> str:
        return f"{V.kernel.args.input(name)}[{V.kernel.args.seed_offset('load_seed_offset', offset)}]"

    @staticmethod
    def _words(seed, offset) -> str:
        V.kernel.includes["kernels/random/philox.cl"] = None
        return f"philox((ulong){text(offset, torch.int64)}, 0UL, (ulong){text(seed, torch.int64)})"

    @staticmethod
    def rand(seed, offset) -> str:
        return f"uniform24({OpenCLOverrides._words(seed, offset)}.x)"

    @staticmethod
    def randn(seed, offset) -> str:
        return f"normal_variate({OpenCLOverrides._words(seed, offset)})"

    @staticmethod
    def randint64(seed, offset, low, high) -> str:
        return (f"integer_variate({OpenCLOverrides._words(seed, offset)}, {text(low, torch.int64)}, "
                f"{text(high, torch.int64)})")

    # Functions.

    sqrt, exp, exp2, expm1 = _function("sqrt"), _function("exp"), _function("exp2"), _function("expm1")
    log, log2, log10, log1p = _function("log"), _function("log2"), _function("log10"), _function("log1p")
    sin, cos, tan = _sine("sin"), _sine("cos"), _function("tan")
    asin, acos, atan, atan2 = _function("asin"), _function("acos"), _function("atan"), _function("atan2")
    sinh, cosh = _function("sinh"), _function("cosh")
    asinh, acosh, atanh = _function("asinh"), _function("acosh"), _function("atanh")
    erf, erfc, lgamma = _function("erf"), _function("erfc"), _function("lgamma")
    copysign, hypot, nextafter = _function("copysign"), _function("hypot"), _function("nextafter")
    rsqrt = _library("1 / sqrt({0})")
    reciprocal = _library("1 / {0}")
    tanh, sigmoid = _library("tanh_of({0})"), _library("sigmoid({0})")

    @staticmethod
    def ldexp(x, n) -> str:
        dtype = _floating(x)
        return f"ldexp({text(x, dtype)}, {text(n, torch.int32)})"

    digamma, polygamma = _special("digamma_of({0})"), _special("polygamma_of({0}, {1})")
    zeta = _special("zeta_of({0}, {1})")
    erfinv, erfcx = _special("erfinv_of({0})"), _special("erfcx_of({0})")
    ndtr, ndtri, log_ndtr = _library("normal_cdf({0})"), _special("ndtri_of({0})"), _special("log_ndtr_of({0})")
    i0 = modified_bessel_i0 = _bessel("bessel_i(0, {0})")
    i1 = modified_bessel_i1 = _bessel("bessel_i(1, {0})")
    i0e, i1e = _bessel("scaled_bessel_i(0, {0})"), _bessel("scaled_bessel_i(1, {0})")
    modified_bessel_k0, modified_bessel_k1 = _bessel("bessel_k(0, {0})"), _bessel("bessel_k(1, {0})")
    scaled_modified_bessel_k0 = _bessel("scaled_bessel_k(0, {0})")
    scaled_modified_bessel_k1 = _bessel("scaled_bessel_k(1, {0})")
    bessel_j0, bessel_j1 = _bessel("bessel_j(0, {0})"), _bessel("bessel_j(1, {0})")
    bessel_y0, bessel_y1 = _bessel("bessel_y(0, {0})"), _bessel("bessel_y(1, {0})")
    spherical_bessel_j0 = _bessel("spherical_bessel_j0_of({0})")
    airy_ai = _library("airy_ai({0})", "kernels/pointwise/airy.cl")
    igamma = gammainc = _library("igamma_of({0}, {1})", "kernels/pointwise/incomplete_gamma.cl")
    igammac = gammaincc = _library("igammac_of({0}, {1})", "kernels/pointwise/incomplete_gamma.cl")
    chebyshev_polynomial_t = _special("chebyshev({1}, {0}, {0})")
    chebyshev_polynomial_u = _special("chebyshev({1}, {0}, 2 * {0})")
    chebyshev_polynomial_v = _special("chebyshev({1}, {0}, 2 * {0} - 1)")
    chebyshev_polynomial_w = _special("chebyshev({1}, {0}, 2 * {0} + 1)")
    shifted_chebyshev_polynomial_t = _special("chebyshev({1}, 2 * {0} - 1, 2 * {0} - 1)")
    shifted_chebyshev_polynomial_u = _special("chebyshev({1}, 2 * {0} - 1, 4 * {0} - 2)")
    shifted_chebyshev_polynomial_v = _special("chebyshev({1}, 2 * {0} - 1, 4 * {0} - 3)")
    shifted_chebyshev_polynomial_w = _special("chebyshev({1}, 2 * {0} - 1, 4 * {0} - 1)")
    hermite_polynomial_h, hermite_polynomial_he = _special("hermite_h({1}, {0})"), _special("hermite_he({1}, {0})")
    laguerre_polynomial_l, legendre_polynomial_p = _special("laguerre({1}, {0})"), _special("legendre({1}, {0})")
