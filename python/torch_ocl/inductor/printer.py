"""Index and size expressions (sympy) as OpenCL C."""

from __future__ import annotations

import sympy

from torch.utils._sympy.functions import PowByNatural
from torch.utils._sympy.printers import ExprPrinter
from torch.utils._sympy.value_ranges import bound_sympy

from torch_ocl.inductor.types import integer


def _exceeds_index(expr, ranges: dict) -> bool:
    """Whether a part of an expression of indices may be larger than 32 bits. `ranges`: of variables, where known."""
    parts = [e for e in sympy.preorder_traversal(expr) if e.is_Mul or e.is_Pow or isinstance(e, PowByNatural)]
    growing = [e for e in parts if not (e.is_Mul and len(e.args) == 2 and e.args[0] == -1)]
    bounds = (bound_sympy(e, ranges) for e in (growing and [expr, *growing]))
    return any(not (b.lower >= -(1 << 31) and b.upper < 1 << 31) for b in bounds)


class OpenCLPrinter(ExprPrinter):
    """Integers are of index_t's width or long. Sizes and loop variables are never negative, other terms may be."""

    narrow = False   # indices fit 32 bits: divisions, which compilers turn into vectors only then, are made with uint
    values = False   # an expression of values, which may be larger than any index, is being printed

    def print_value(self, expr, ranges: dict) -> str:
        """The expression where it is a tensor's value: no index, for which 32 bits are enough."""
        if not self.narrow or not _exceeds_index(expr, ranges):
            return self.doprint(expr)
        self.narrow, self.values = False, True
        try:
            return self.doprint(expr)
        finally:
            self.narrow, self.values = True, False

    def _print_Symbol(self, expr) -> str:
        name = super()._print_Symbol(expr)
        return f"((long){name})" if self.values and expr.is_integer else name

    def _print_Integer(self, expr) -> str:
        value = int(expr)
        return str(value) if -(1 << 31) < value < 1 << 31 else integer(value)

    def _print_FloorDiv(self, expr) -> str:
        x, divisor = expr.args
        if expr.is_integer is False:
            return f"floor({self._print(x)} / (double)({self._print(divisor)}))"
        return self._divide(x, divisor)

    def _print_ModularIndexing(self, expr) -> str:
        x, divisor, modulus = expr.args
        quotient = self._print(x) if divisor == 1 else self._divide(x, divisor)
        if self._natural(x) and self._natural(divisor) and self._natural(modulus):
            if self.narrow:
                return f"((index_t)((uint)({quotient}) % (uint)({self._print(modulus)})))"
            return f"(({quotient}) % ({self._print(modulus)}))"
        return self._signed("modulo", quotient, self._print(modulus))

    def _divide(self, x, divisor) -> str:
        a, b = self._print(x), self._print(divisor)
        if self._natural(x) and self._natural(divisor):
            return f"((index_t)((uint)({a}) / (uint)({b})))" if self.narrow else f"(({a}) / ({b}))"
        return self._signed("quotient", a, b)

    def _signed(self, name, a, b) -> str:
        return f"((index_t)narrow_{name}((int)({a}), (int)({b})))" if self.narrow else f"index_{name}({a}, {b})"

    @staticmethod
    def _natural(expr) -> bool:
        return bool(expr.is_nonnegative)

    def _print_PythonMod(self, expr) -> str:
        return self._signed("modulo", self._print(expr.args[0]), self._print(expr.args[1]))

    _print_Mod = _print_PythonMod

    def _print_Min(self, expr) -> str:
        return self._fold(expr, "min")

    def _print_Max(self, expr) -> str:
        return self._fold(expr, "max")

    def _fold(self, expr, name: str) -> str:
        kind = "long" if expr.is_integer else "double"
        result = f"({kind})({self._print(expr.args[0])})"
        for arg in expr.args[1:]:
            result = f"{name}({result}, ({kind})({self._print(arg)}))"
        return result

    def _print_Abs(self, expr) -> str:
        x = self._print(expr.args[0])
        return f"((long)abs((long)({x})))" if expr.args[0].is_integer else f"fabs({x})"

    def _print_Where(self, expr) -> str:
        return "(({}) ? ({}) : ({}))".format(*(self._print(a) for a in expr.args))

    def _print_And(self, expr) -> str:
        return "(" + " && ".join(f"({self._print(a)})" for a in expr.args) + ")"

    def _print_Or(self, expr) -> str:
        return "(" + " || ".join(f"({self._print(a)})" for a in expr.args) + ")"

    def _print_Not(self, expr) -> str:
        return f"(!({self._print(expr.args[0])}))"

    def _print_Relational(self, expr) -> str:
        return f"(({self._print(expr.lhs)}) {expr.rel_op} ({self._print(expr.rhs)}))"

    def _print_PowByNatural(self, expr) -> str:
        base, exponent = expr.args
        if isinstance(exponent, sympy.Integer) and 0 <= int(exponent) <= 16:
            return "(" + "*".join([f"({self._print(base)})"] * int(exponent) or ["1"]) + ")"
        return f"index_power({self._print(base)}, {self._print(exponent)})"

    # Floating-point expressions of sizes are made with the widest type the device has.

    def _print_ToFloat(self, expr) -> str:
        return f"((widest)({self._print(expr.args[0])}))"

    def _print_IntTrueDiv(self, expr) -> str:
        return f"((widest)({self._print(expr.args[0])}) / (widest)({self._print(expr.args[1])}))"

    def _print_FloatPow(self, expr) -> str:
        return f"pow((widest)({self._print(expr.args[0])}), (widest)({self._print(expr.args[1])}))"

    def _print_FloatTrueDiv(self, expr) -> str:
        return f"((widest)({self._print(expr.args[0])}) / (widest)({self._print(expr.args[1])}))"

    def _print_Float(self, expr) -> str:
        if expr.is_integer:
            return str(int(expr))
        return f"(widest){super()._print_Float(expr)}"

    def _rounded(self, expr, name: str) -> str:
        return f"((long){name}((widest)({self._print(expr.args[0])})))"

    def _print_FloorToInt(self, expr) -> str:
        return self._rounded(expr, "floor")

    _print_floor = _print_FloorToInt

    def _print_CeilToInt(self, expr) -> str:
        return self._rounded(expr, "ceil")

    _print_ceiling = _print_CeilToInt

    def _print_TruncToInt(self, expr) -> str:
        return self._rounded(expr, "trunc")

    def _print_RoundToInt(self, expr) -> str:
        return self._rounded(expr, "rint")

    def _print_TruncToFloat(self, expr) -> str:
        return f"trunc((widest)({self._print(expr.args[0])}))"

    def _print_RoundDecimal(self, expr) -> str:
        number, digits = expr.args
        scale = f"(widest)1e{abs(int(digits))}"
        x = f"(widest)({self._print(number)})"
        return f"(rint({x} * {scale}) / {scale})" if digits >= 0 else f"(rint({x} / {scale}) * {scale})"

    def _print_Infinity(self, expr) -> str:
        return "(widest)INFINITY"

    def _print_NegativeInfinity(self, expr) -> str:
        return "(-(widest)INFINITY)"

    _print_int_oo = _print_IntInfinity = lambda self, expr: "LONG_MAX"
    _print_NegativeIntInfinity = lambda self, expr: "LONG_MIN"

    def _print_NaN(self, expr) -> str:
        return "(widest)NAN"

    def _print_BooleanTrue(self, expr) -> str:
        return "1"

    def _print_BooleanFalse(self, expr) -> str:
        return "0"


for _name in ("sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "exp", "log", "log2",
              "asinh"):
    setattr(OpenCLPrinter, f"_print_OpaqueUnaryFn_{_name}",
            lambda self, expr, name=_name: f"{name}((widest)({self._print(expr.args[0])}))")
