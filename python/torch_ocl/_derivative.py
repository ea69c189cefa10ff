"""Gradients of pointwise kernels, derived from their code.

The code is read into variables that are assigned once (_expression_parser.py); the chain rule then goes backwards
through them. The result is the code of another pointwise kernel, of the same kind, so that it can be derived as well.
"""

from __future__ import annotations

import functools

from torch_ocl._expression_parser import FLOATING, Node, NotDerivable, Parser

_PI = "LIT(3.14159265358979323846)"
_NORMAL_DENSITY = "LIT(0.39894228040143267794) * exp(LIT(-0.5) * {0} * {0})"
_TANH_INNER = "LIT(0.79788456080286535588) * ({0} + LIT(0.044715) * {0} * {0} * {0})"
_LARGER = "({0} > {1} ? LIT(1.0) : {0} == {1} ? LIT(0.5) : LIT(0.0))"
_SMALLER = "({0} < {1} ? LIT(1.0) : {0} == {1} ? LIT(0.5) : LIT(0.0))"
_EXTREMES = {"fmax": _LARGER, "max": _LARGER, "maximum": _LARGER, "fmin": _SMALLER, "min": _SMALLER,
             "minimum": _SMALLER}
_INSIDE = ["(({0} >= {1} && {0} <= {2}) ? LIT(1.0) : LIT(0.0))",
           "(({0} < {1} && {1} <= {2}) ? LIT(1.0) : LIT(0.0))", "(({0} > {2} || {1} > {2}) ? LIT(1.0) : LIT(0.0))"]
_POWER = ["({1} == 0 ? LIT(0.0) : {1} * pow({0}, {1} - 1))", "({0} == 0 ? LIT(0.0) : pow({0}, {1}) * log({0}))"]

# Derivatives of functions by each argument; {0}, {1}, ...: the arguments. Functions not among them are not derivable.
_RULES: dict[str, list[str]] = {
    "exp": ["exp({0})"], "exp2": ["LIT(0.69314718055994530942) * exp2({0})"],
    "exp10": ["LIT(2.30258509299404568402) * exp10({0})"], "expm1": ["exp({0})"],
    "log": ["1 / {0}"], "log2": ["LIT(1.44269504088896340736) / {0}"], "log10": ["LIT(0.43429448190325182765) / {0}"],
    "log1p": ["1 / (1 + {0})"], "sqrt": ["LIT(0.5) / sqrt({0})"], "rsqrt": ["LIT(-0.5) * rsqrt({0}) / {0}"],
    "cbrt": ["1 / (3 * cbrt({0}) * cbrt({0}))"],
    "sin": ["cos({0})"], "cos": ["-sin({0})"], "tan": ["1 + tan({0}) * tan({0})"],
    "asin": ["1 / sqrt(1 - {0} * {0})"], "acos": ["-1 / sqrt(1 - {0} * {0})"], "atan": ["1 / (1 + {0} * {0})"],
    "sinpi": [f"{_PI} * cospi({{0}})"], "cospi": [f"-{_PI} * sinpi({{0}})"],
    "sinh": ["cosh({0})"], "cosh": ["sinh({0})"], "tanh": ["1 - tanh({0}) * tanh({0})"],
    "tanh_of": ["1 - tanh_of({0}) * tanh_of({0})"], "asinh": ["1 / sqrt({0} * {0} + 1)"],
    "acosh": ["1 / sqrt({0} * {0} - 1)"], "atanh": ["1 / (1 - {0} * {0})"],
    "erf": ["LIT(1.12837916709551257390) * exp(-{0} * {0})"],
    "erfc": ["LIT(-1.12837916709551257390) * exp(-{0} * {0})"],
    "fabs": ["({0} > 0 ? LIT(1.0) : {0} < 0 ? LIT(-1.0) : LIT(0.0))"],
    "degrees": ["LIT(57.2957795130823208768)"], "radians": ["LIT(0.01745329251994329577)"],
    "fma": ["{1}", "{0}", "1"], "mad": ["{1}", "{0}", "1"],
    "mix": ["1 - {2}", "{2}", "{1} - {0}"], "lerp": ["1 - {2}", "{2}", "{1} - {0}"],
    "pow": _POWER, "powr": _POWER, "power": _POWER, "pown": ["{1} * pown({0}, {1} - 1)", "0"],
    "hypot": ["{0} / hypot({0}, {1})", "{1} / hypot({0}, {1})"],
    "atan2": ["{1} / ({0} * {0} + {1} * {1})", "-{0} / ({0} * {0} + {1} * {1})"],
    "fdim": ["({0} > {1} ? LIT(1.0) : LIT(0.0))", "({0} > {1} ? LIT(-1.0) : LIT(0.0))"],
    "clamp": _INSIDE, "clamp_to": _INSIDE, "fmod": ["1", "-trunc({0} / {1})"], "fmod_of": ["1", "-trunc({0} / {1})"],
    "remainder_of": ["1", "-floor({0} / {1})"], "true_divide": ["1 / {1}", "-{0} / ({1} * {1})"],
    "copysign": ["({0} == 0 ? LIT(0.0) : copysign(LIT(1.0), {0}) * copysign(LIT(1.0), {1}))", "0"],
    "product": ["{1}", "{0}"], "square_of": ["2 * {0}"], "inner": ["{1}", "{0}"],
    "fractional": ["1"], "sigmoid": ["sigmoid({0}) * (1 - sigmoid({0}))"],
    "normal_cdf": [_NORMAL_DENSITY], "gelu": [f"normal_cdf({{0}}) + {{0}} * {_NORMAL_DENSITY}"],
    "gelu_tanh": [f"LIT(0.5) * (1 + tanh_of({_TANH_INNER})) + LIT(0.5) * {{0}} * (1 - tanh_of({_TANH_INNER}) * "
                  f"tanh_of({_TANH_INNER})) * LIT(0.79788456080286535588) * (1 + LIT(0.134145) * {{0}} * {{0}})"],
    "softplus": ["({0} * {1} > {2} ? LIT(1.0) : sigmoid({0} * {1}))"], "log_sigmoid": ["sigmoid(-{0})"],
    "log_add_exp": ["sigmoid({0} - {1})", "sigmoid({1} - {0})"],
    "x_log_y": ["log({1})", "{0} / {1}"], "x_log1p_y": ["log1p({1})", "{0} / (1 + {1})"],
    "sinc": [f"({{0}} == 0 ? LIT(0.0) : (cospi({{0}}) - sinc({{0}})) / {{0}})"],
}
_RULES |= {name: [rule, rule.replace("{0}", "{9}").replace("{1}", "{0}").replace("{9}", "{1}")]
           for name, rule in _EXTREMES.items()}
_RULES |= {f"{kind}_{name}": _RULES[name] for kind in ("native", "half")
           for name in ("exp", "exp2", "log", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan")}
_RULES |= {f"convert_{name}": ["1"] for name in FLOATING}
# Functions that do not change around almost every point.
_CONSTANT = {"floor", "ceil", "trunc", "rint", "round", "sign", "sign_of", "step", "isnan", "isinf", "isfinite",
             "signbit", "isequal", "isnotequal", "isgreater", "isgreaterequal", "isless", "islessequal", "ilogb",
             "LIT", "nonzero", "divide_floor", "divide_trunc", "greatest_common_divisor", "least_common_multiple",
             *(f"convert_{name}" for name in ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong"))}
_STEPS = ("<", ">", "<=", ">=", "==", "!=", "&&", "||", "&", "|", "^", "<<", ">>", "%", "!", "~")


class _Derivation:
    def __init__(self, parser: Parser, differentiable: set[str], wide: str):
        self.assignments = parser.program.assignments
        self.wide = wide                            # the type of adjoints
        self.active = set(differentiable)           # variables that depend on what is differentiated by
        self.adjoints: dict[str, list[str]] = {}
        self.lines: list[str] = []
        for variable, kind, value in self.assignments:
            if kind in FLOATING and self.depends(value):
                self.active.add(variable)

    def depends(self, node: Node) -> bool:
        if node.kind == "name":
            return node.text in self.active
        if node.kind == "call" and node.text in _CONSTANT or node.kind == "cast" and node.text not in FLOATING:
            return False
        if node.kind in ("binary", "unary") and node.text in _STEPS:
            return False
        parts = node.parts[1:] if node.kind == "choice" else node.parts
        return any(self.depends(p) for p in parts)

    def run(self, outputs: list[tuple[Node, str]]) -> None:
        """outputs: the variables that are outputs, and the names of their gradients."""
        self.lines += [f"const {kind} {variable} = {value};" for variable, kind, value in self.assignments]
        for node, gradient in outputs:
            self.back(node, gradient)
        for variable, _, value in reversed(self.assignments):
            if variable in self.adjoints:
                self.back(value, self.sum_of(variable))

    def sum_of(self, variable: str) -> str:
        terms = self.adjoints.pop(variable)
        return terms[0] if len(terms) == 1 else self.named(" + ".join(terms))

    def named(self, text: str) -> str:
        if text.replace("_", "").isalnum() and not text[0].isdigit():
            return text
        name = f"a{len(self.lines)}_"
        self.lines.append(f"const {self.wide} {name} = {text};")
        return name

    def back(self, node: Node, adjoint: str) -> None:
        """Hands the derivative by a node on to what it is made of."""
        if not self.depends(node):
            return
        if node.kind == "name":
            self.adjoints.setdefault(node.text, []).append(adjoint)
            return
        adjoint = self.named(adjoint)
        parts = node.parts
        if node.kind == "cast" or node.kind == "unary" and node.text == "+":
            self.back(parts[0], adjoint)
        elif node.kind == "unary":
            self.back(parts[0], f"-{adjoint}")
        elif node.kind == "choice":
            self.back(parts[1], f"({parts[0]} ? {adjoint} : 0)")
            self.back(parts[2], f"({parts[0]} ? 0 : {adjoint})")
        elif node.kind == "binary":
            self.binary(node, adjoint)
        else:
            self.call(node, adjoint)

    def binary(self, node: Node, adjoint: str) -> None:
        a, b = node.parts
        if node.text in ("+", "-"):
            self.back(a, adjoint)
            self.back(b, adjoint if node.text == "+" else f"-{adjoint}")
        elif node.text == "*":
            self.back(a, f"{adjoint} * {b}")
            self.back(b, f"{adjoint} * {a}")
        else:
            self.back(a, f"{adjoint} / {b}")
            self.back(b, f"-{adjoint} * {a} / ({b} * {b})")

    def call(self, node: Node, adjoint: str) -> None:
        rules = _RULES.get(node.text)
        if rules is None:
            raise NotDerivable(f"the function {node.text}", node.line)
        # An argument may be a number without a point; the rules divide.
        arguments = [f"({p})" if p.kind != "number" or not p.text.isdigit() else f"({self.wide})({p})"
                     for p in node.parts]
        for k, part in enumerate(node.parts):
            if self.depends(part):
                if k >= len(rules):
                    raise NotDerivable(f"the function {node.text} by its argument {k + 1}", node.line)
                if rules[k] != "0":
                    self.back(part, f"{adjoint} * ({rules[k].format(*arguments)})")


@functools.lru_cache(1024)
def gradient_code(code: str, inputs: tuple[str, ...], numbers: int, outputs: tuple[str, ...],
                  wanted: tuple[int, ...], given: tuple[int, ...]) -> str:
    """Code that assigns y_i the gradient by the input wanted[i], from the inputs x0, ... and behind them the gradients
    of the outputs `given`. inputs, outputs: C types of their variables, by place. Throws NotDerivable."""
    types = {f"x{k}": kind for k, kind in enumerate(inputs)} | {f"y{k}": kind for k, kind in enumerate(outputs)}
    types |= {f"w{k}": outputs[0] for k in range(numbers)}
    typedefs = {f"typeof_{name}": kind for name, kind in types.items()} | {"T": outputs[0], "R": outputs[0]}
    parser = Parser(code, types, typedefs, len(outputs))
    wide = "double" if "double" in (*inputs, *outputs) else "float"
    derivation = _Derivation(parser, {f"x{k}" for k in wanted}, wide)
    derivation.run([(parser.program.outputs[j], f"x{len(inputs) + place}") for place, j in enumerate(given)])
    lines = derivation.lines
    for place, k in enumerate(wanted):
        terms = derivation.adjoints.get(f"x{k}", ["0"])
        lines.append(f"y{place} = {' + '.join(terms)};")
    return "\n".join(lines)
