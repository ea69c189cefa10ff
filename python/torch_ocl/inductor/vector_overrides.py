"""Inductor's elementwise operations in vectors of 16 elements, for vectors.py. What is missing has no such form."""

from __future__ import annotations

import sympy

import torch
from torch._inductor.codegen.common import CSEVariable
from torch._inductor.utils import get_bounds_index_expr
from torch._inductor.virtualized import V

from torch_ocl.inductor import types
from torch_ocl.inductor.overrides import common_dtype, count_sines, dtype_of, OpenCLOverrides, text

WIDTH = 16
SIGNED = {4: "int", 8: "long"}      # truth values of elements of so many bytes
ARITHMETIC = (torch.float32, torch.float64, torch.int32, torch.int64)


class NotVectors(BaseException):
    """A kernel cannot be written in vectors. No Exception, which Inductor would log as an error of its nodes."""


class Same(str):
    """An expression of a number, the same for all lanes."""


def is_same(x) -> bool:
    return not isinstance(x, CSEVariable) or x in V.kernel.same


def vector_type(dtype: torch.dtype) -> str:
    if dtype in (torch.uint32, torch.uint64):
        raise NotVectors(dtype)
    return f"{'int' if dtype == torch.bool else types.c_type(dtype)}{WIDTH}"


def in_lanes(x, dtype: torch.dtype) -> str:
    """An argument as a vector of a dtype."""
    if not is_same(x):
        return convert(str(x), x.dtype, dtype)
    number = text(x, dtype)
    return f"(int{WIDTH})({number} ? -1 : 0)" if dtype == torch.bool else f"({vector_type(dtype)})({number})"


def convert(value: str, source: torch.dtype, target: torch.dtype) -> str:
    """A vector of the compute type of `source` as one of that of `target`."""
    source, target = types.compute_dtype(source), types.compute_dtype(target)
    if source == target:
        return value
    if target == torch.bool:
        return truth(f"({value} != ({vector_type(source)})(0))", source)
    if source == torch.bool:
        value = f"-{value}"
    elif source.is_floating_point and not (target.is_floating_point or target in (torch.int32, torch.int64)):
        raise NotVectors(f"{source} to {target}")
    return f"convert_{vector_type(target)}({value})"


def truth(value: str, dtype: torch.dtype) -> str:
    """What comparing vectors of a dtype gives, as truth values."""
    return value if dtype.itemsize == 4 else f"convert_int{WIDTH}({value})"


def _arithmetic(*args) -> torch.dtype:
    dtype = common_dtype(*args)
    if dtype not in ARITHMETIC:
        raise NotVectors(f"arithmetic of {dtype}")
    V.kernel.note_dtype(dtype)
    return dtype


def _floating(*args) -> torch.dtype:
    dtype = common_dtype(*args)
    dtype = dtype if dtype.is_floating_point else torch.float32
    V.kernel.note_dtype(dtype)
    return dtype


def _wrapping(operator: str, of_truths: str | None):
    def call(a, b) -> str:
        if of_truths and common_dtype(a, b) == torch.bool:
            return f"({in_lanes(a, torch.bool)} {of_truths} {in_lanes(b, torch.bool)})"
        dtype = _arithmetic(a, b)
        left, right, kind = in_lanes(a, dtype), in_lanes(b, dtype), vector_type(dtype)
        if dtype.is_floating_point:
            return f"{left} {operator} {right}"
        return f"as_{kind}(as_u{kind}({left}) {operator} as_u{kind}({right}))"

    return call


def _function(form: str):
    """Of floating-point vectors. {0}, {1}: the arguments, {t}: the type."""
    def call(*args) -> str:
        dtype = _floating(*args)
        return form.format(*(in_lanes(a, dtype) for a in args), t=vector_type(dtype))

    return call


def _sine(form: str):
    function = _function(form)

    def call(x) -> str:
        count_sines()
        return function(x)

    return call


def _extreme(name: str, of_truths: str):
    def call(a, b) -> str:
        if common_dtype(a, b) == torch.bool:
            return f"({in_lanes(a, torch.bool)} {of_truths} {in_lanes(b, torch.bool)})"
        dtype = _arithmetic(a, b)
        return f"{name}_{vector_type(dtype)}({in_lanes(a, dtype)}, {in_lanes(b, dtype)})"

    return call


def _compare(operator: str, of_truths: str | None = None):
    def call(a, b) -> str:
        if of_truths is not None and common_dtype(a, b) == torch.bool:
            return f"({of_truths}({in_lanes(a, torch.bool)} ^ {in_lanes(b, torch.bool)}))"
        dtype = _arithmetic(a, b)
        number = _number(b)
        if operator in ("<", ">=") and number is not None and a in V.kernel.places:
            if operator == ">=" and number <= a.bounds.lower:
                return Same("true")
            first, over = V.kernel.places[a]
            if (number - over) % WIDTH == 0:            # a tensor ends between vectors
                return Same(f"({first} {operator} {number})")
        return truth(f"({in_lanes(a, dtype)} {operator} {in_lanes(b, dtype)})", dtype)

    return call


def _number(x) -> int | None:
    """What an integer is known to be."""
    if isinstance(x, CSEVariable):
        return int(x.bounds.lower) if x.bounds.is_singleton() and not x.dtype.is_floating_point else None
    return x if isinstance(x, int) else None


def _logical(operator: str):
    return lambda a, b: f"({in_lanes(a, torch.bool)} {operator} {in_lanes(b, torch.bool)})"


def _bitwise(operator: str):
    def call(a, b) -> str:
        dtype = common_dtype(a, b)
        if dtype not in (torch.bool, torch.int32, torch.int64):
            raise NotVectors(f"bits of {dtype}")
        return f"({in_lanes(a, dtype)} {operator} {in_lanes(b, dtype)})"

    return call


def _rounded(name: str):
    return lambda x: f"{name}({x})" if dtype_of(x).is_floating_point else in_lanes(x, _floating(x))


class _Vectors:
    add, sub, mul = _wrapping("+", "|"), _wrapping("-", None), _wrapping("*", "&")
    truediv = _function("{0} / {1}")
    fma = _function("fma({0}, {1}, {2})")
    pow = _function("pow({0}, {1})")
    maximum, minimum = _extreme("maximum", "|"), _extreme("minimum", "&")
    fmaximum = _function("select({1}, {0}, ({0} > {1}) | ({1} != {1}))")
    eq, ne = _compare("==", "~"), _compare("!=", "")
    lt, gt, le, ge = _compare("<"), _compare(">"), _compare("<="), _compare(">=")
    logical_and, logical_or, logical_xor = _logical("&"), _logical("|"), _logical("^")
    and_ = bitwise_and = _bitwise("&")
    or_ = bitwise_or = _bitwise("|")
    xor = bitwise_xor = _bitwise("^")
    floor, ceil, round = _rounded("floor"), _rounded("ceil"), _rounded("rint")
    rsqrt, reciprocal = _function("1 / sqrt({0})"), _function("1 / {0}")
    tanh, ndtr = _function("tanh_of_{t}({0})"), _function("normal_cdf_{t}({0})")
    sigmoid = _function("1 / (1 + exp(-({0})))")

    @staticmethod
    def neg(a) -> str:
        return f"-{a}" if dtype_of(a).is_floating_point else _Vectors.sub(0, a)

    @staticmethod
    def square(x) -> str:
        return _Vectors.mul(x, x)

    @staticmethod
    def relu(x) -> str:
        return _Vectors.maximum(x, 0)

    @staticmethod
    def abs(x) -> str:
        dtype = _arithmetic(x)
        return f"fabs({x})" if dtype.is_floating_point else f"as_{vector_type(dtype)}(abs({x}))"

    @staticmethod
    def sign(x) -> str:
        dtype = _arithmetic(x)
        signs = f"(({x} < 0) - ({x} > 0))"
        return f"convert_{vector_type(dtype)}({signs})" if dtype.is_floating_point else signs

    @staticmethod
    def trunc(x) -> str:
        return f"trunc({x})" if dtype_of(x).is_floating_point else str(x)

    @staticmethod
    def isnan(x) -> str:
        return truth(f"({x} != {x})", _floating(x)) if dtype_of(x).is_floating_point else in_lanes(False, torch.bool)

    @staticmethod
    def isinf(x) -> str:
        if not dtype_of(x).is_floating_point:
            return in_lanes(False, torch.bool)
        return truth(f"(fabs({x}) == {in_lanes(float('inf'), _floating(x))})", _floating(x))

    @staticmethod
    def logical_not(a) -> str:
        return f"(~{in_lanes(a, torch.bool)})"

    @staticmethod
    def bitwise_not(x) -> str:
        return _Vectors.bitwise_xor(x, True if dtype_of(x) == torch.bool else -1)

    @staticmethod
    def where(condition, a, b) -> str:
        dtype = common_dtype(a, b)
        if dtype.itemsize < 4 and dtype != torch.bool:
            raise NotVectors(f"a choice of {dtype}")
        chosen = in_lanes(condition, torch.bool)
        if dtype.itemsize == 8:
            chosen = f"convert_long{WIDTH}({chosen})"
        return f"select({in_lanes(b, dtype)}, {in_lanes(a, dtype)}, {chosen})"

    @staticmethod
    def to_dtype(x, dtype, src_dtype=None, use_compute_types=True) -> str:
        if not use_compute_types and dtype in types.SHORT_FLOATS:
            raise NotVectors("rounding between operations")
        V.kernel.note_dtype(dtype)
        return in_lanes(x, dtype)


for _name in ("sqrt exp exp2 expm1 log log2 log10 log1p tan asin acos atan sinh cosh asinh acosh atanh "
              "erf erfc").split():
    setattr(_Vectors, _name, staticmethod(_function(f"{_name}({{0}})")))
for _name in ("sin", "cos"):
    setattr(_Vectors, _name, staticmethod(_sine(f"{_name}({{0}})")))
for _name in ("atan2", "copysign", "hypot"):
    setattr(_Vectors, _name, staticmethod(_function(f"{_name}({{0}}, {{1}})")))


class VectorOverrides(OpenCLOverrides):
    """Of numbers, the same as in other kernels; with a vector among the arguments, _Vectors'."""

    @staticmethod
    def value_expr(expr, dtype):
        kernel = V.kernel
        if not kernel.in_vectors:
            return OpenCLOverrides.value_expr(expr, dtype)
        index = kernel.rename_indexing(kernel.prepare_indexing(expr))
        step = kernel.lane_step(index)
        if step and dtype not in ARITHMETIC:
            raise NotVectors(f"an index as {dtype}")
        with kernel.of_numbers():
            first = OpenCLOverrides.value_expr(expr, dtype)
        if step == 0:
            return first
        kind = vector_type(dtype)
        lanes = kernel.cse.generate(kernel.compute, f"({kind})({first}) + convert_{kind}(LANES * {step})",
                                    bounds=get_bounds_index_expr(expr), dtype=dtype)
        (*symbols,) = index.free_symbols
        if step == 1 and len(symbols) == 1 and isinstance(index - symbols[0], sympy.Integer):
            kernel.places[lanes] = first, int(index - symbols[0])
        return lanes

    @staticmethod
    def masked(mask, body, other):
        return V.kernel.masked(mask, body, other)

    @staticmethod
    def index_expr(expr, dtype):
        return VectorOverrides.value_expr(expr, V.kernel.get_index_dtype_as_torch_dtype()
                                          if dtype in (torch.int32, torch.int64) else dtype)

    def indirect_indexing(self, var, size, check=True, wrap_neg=True):
        if V.kernel.in_vectors and not is_same(var):
            raise NotVectors("an index for each lane")
        return super().indirect_indexing(var, size, check, wrap_neg)


def _choose(name: str, of_numbers, of_vectors):
    def call(*args, **kwargs):
        if not V.kernel.in_vectors or all(is_same(x) for x in args):
            result = of_numbers(*args, **kwargs)
            return Same(result) if isinstance(result, str) else result
        if of_vectors is None:
            raise NotVectors(name)
        return of_vectors(*args, **kwargs)

    return staticmethod(call)


for _name, _form in list(vars(OpenCLOverrides).items()):
    if isinstance(_form, staticmethod) and not _name.startswith("_") and _name not in vars(VectorOverrides):
        setattr(VectorOverrides, _name, _choose(_name, _form.__func__, getattr(_Vectors, _name, None)))
