"""Statements of OpenCL C as pointwise kernels have them, read into assignments of variables that are assigned once.

Known are declarations, assignments (also +=, -=, *=, /=), `if` and `else`, blocks, and expressions of numbers, names,
calls, casts, operators and `?:`. Loops, vectors and pointers are not: a NotDerivable says what, and where.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

FLOATING = ("float", "double")
SCALARS = ("bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", *FLOATING)
_NUMBER = r"0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFuUlL]*"
_TOKEN = re.compile(rf"(?P<skip>\s+|//[^\n]*|/\*.*?\*/)|(?P<number>{_NUMBER})|(?P<name>[A-Za-z_]\w*)|"
                    r"(?P<sign><<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%&|^]=|[-+*/%<>=!~&|^?:;,(){}.\[\]#])",
                    re.DOTALL)
_PRECEDENCE = [("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"),
               ("+", "-"), ("*", "/", "%")]


class NotDerivable(ValueError):
    """The code has something that no derivative is known of. line: of the user's text, from 1."""

    def __init__(self, what: str, line: int):
        super().__init__(what)
        self.what, self.line = what, line


@dataclass(frozen=True)
class Node:
    """kind: number, name, call, cast, unary, binary, choice. text: the number, name, function, type or operator."""

    kind: str
    text: str
    parts: tuple[Node, ...] = ()
    line: int = 0

    def __str__(self) -> str:
        if self.kind in ("number", "name"):
            return self.text
        if self.kind == "call":
            return f"{self.text}({', '.join(_bare(p) for p in self.parts)})"
        if self.kind == "cast":
            return f"(({self.text}){self.parts[0]})"
        if self.kind == "unary":
            return f"({self.text}{self.parts[0]})"
        if self.kind == "choice":
            return "({} ? {} : {})".format(*self.parts)
        return f"({self.parts[0]} {self.text} {self.parts[1]})"


def _bare(node: Node) -> str:
    text = str(node)
    return text[1:-1] if node.kind in ("unary", "binary", "choice") else text


@dataclass
class Program:
    """Assignments in order: (variable, type, expression), and the variables that hold the outputs at the end."""

    assignments: list[tuple[str, str, Node]] = field(default_factory=list)
    outputs: list[Node] = field(default_factory=list)


@dataclass
class _Token:
    kind: str
    text: str
    line: int


def _tokens(code: str) -> list[_Token]:
    result, at, line = [], 0, 1
    while at < len(code):
        found = _TOKEN.match(code, at)
        if not found or found["sign"] == "#":
            what = "a preprocessor line" if found else f"the character {code[at]!r}"
            raise NotDerivable(what, line)
        if found.lastgroup != "skip":
            result.append(_Token(found.lastgroup, found[0], line))
        line += found[0].count("\n")
        at = found.end()
    return [*result, _Token("end", "", line)]


class Parser:
    """types: of what is known at the start, by name: inputs, numbers, and y0, y1, ... as they are declared; and
    typedefs."""

    def __init__(self, code: str, types: dict[str, str], typedefs: dict[str, str], outputs: int):
        self.tokens = _tokens(code)
        self.at = 0
        self.types = dict(types)
        self.typedefs = typedefs
        self.values: dict[str, Node] = {}      # what a variable of the text holds now
        self.count = 0
        self.program = Program()
        while self.token.kind != "end":
            self.statement()
        for k in range(outputs):
            if f"y{k}" not in self.values:
                raise NotDerivable(f"no value of y{k}", self.token.line)
            self.program.outputs.append(self.values[f"y{k}"])

    # Tokens.

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def take(self, text: str | None = None) -> _Token:
        token = self.token
        if text is not None and token.text != text:
            raise NotDerivable(f"`{token.text or 'the end'}` where `{text}` was expected", token.line)
        self.at += 1
        return token

    def met(self, *texts: str) -> bool:
        if self.token.kind == "sign" and self.token.text in texts:
            self.at += 1
            return True
        return False

    def type_here(self) -> str | None:
        """The C type that begins here, taken; None: there is none."""
        begin = self.at
        while self.token.text == "const":
            self.take()
        text = self.typedefs.get(self.token.text, self.token.text)
        if self.token.kind == "name" and text in SCALARS:
            self.take()
            return text
        self.at = begin
        return None

    # Statements.

    def statement(self) -> None:
        if self.met(";"):
            return
        if self.met("{"):
            while not self.met("}"):
                self.statement()
            return
        if self.token.text == "if":
            self.branches()
            return
        token = self.token
        kind = self.type_here()
        if kind is None and self.tokens[self.at + 1].text not in ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="):
            raise NotDerivable(f"a statement that begins with `{token.text} {self.tokens[self.at + 1].text}`",
                               token.line)
        while True:
            self.assignment(kind)
            if not self.met(","):
                break
        self.take(";")

    def assignment(self, kind: str | None) -> None:
        name = self.take()
        if name.kind != "name" or (kind is None and name.text not in self.types) or re.fullmatch(r"[xw]\d+", name.text):
            raise NotDerivable(f"an assignment to `{name.text}`", name.line)
        if kind is not None:
            self.types[name.text] = kind
            self.values.pop(name.text, None)
            if self.token.text in (",", ";"):
                return
        operator = self.take()
        value = self.expression()
        if operator.text != "=":
            value = Node("binary", operator.text[:-1], (self.value_of(name), value), name.line)
        self.assign(name.text, value, name.line)

    def assign(self, name: str, value: Node, line: int) -> None:
        variable = f"v{self.count}_{name}"
        self.count += 1
        self.program.assignments.append((variable, self.types[name], value))
        self.values[name] = Node("name", variable, (), line)

    def branches(self) -> None:
        """if and else: what either assigns becomes a choice of the two values."""
        line = self.take("if").line
        self.take("(")
        variable = f"v{self.count}_condition"
        self.count += 1
        condition = self.expression()
        self.program.assignments.append((variable, "int", Node("binary", "!=", (condition, Node("number", "0")), line)))
        self.take(")")
        before = dict(self.values)
        self.statement()
        taken, self.values = self.values, dict(before)
        if self.token.text == "else":
            self.take()
            self.statement()
        other = self.values
        self.values = {name: value for name, value in taken.items() if other.get(name) == value}
        for name in dict.fromkeys([*taken, *other]):
            if name in self.values:
                continue
            if name in taken and name in other:
                self.assign(name, Node("choice", "?", (Node("name", variable), taken[name], other[name]), line), line)

    # Expressions.

    def expression(self) -> Node:
        condition = self.binary(0)
        if self.token.text != "?":
            return condition
        line = self.take().line
        first = self.expression()
        self.take(":")
        return Node("choice", "?", (condition, first, self.expression()), line)

    def binary(self, level: int) -> Node:
        if level == len(_PRECEDENCE):
            return self.unary()
        left = self.binary(level + 1)
        while self.token.kind == "sign" and self.token.text in _PRECEDENCE[level]:
            operator = self.take()
            left = Node("binary", operator.text, (left, self.binary(level + 1)), operator.line)
        return left

    def unary(self) -> Node:
        token = self.token
        if self.met("-", "+", "!", "~"):
            return Node("unary", token.text, (self.unary(),), token.line)
        if token.text == "(":
            begin = self.at
            self.take()
            kind = self.type_here()
            if kind is not None and self.met(")"):
                return Node("cast", kind, (self.unary(),), token.line)
            self.at = begin
            self.take()
            inside = self.expression()
            self.take(")")
            return inside
        return self.primary()

    def primary(self) -> Node:
        token = self.take()
        if token.kind == "number":
            return Node("number", token.text, (), token.line)
        if token.kind != "name":
            raise NotDerivable(f"`{token.text or 'the end'}` where a value was expected", token.line)
        if self.met("("):
            parts = []
            while not self.met(")"):
                parts.append(self.expression())
                if self.token.text != ")":
                    self.take(",")
            return Node("call", token.text, tuple(parts), token.line)
        if self.token.text in (".", "[", "++", "--"):
            raise NotDerivable(f"`{token.text}{self.token.text}`", token.line)
        return self.value_of(token)

    def value_of(self, token: _Token) -> Node:
        if token.text in self.values:
            return self.values[token.text]
        if token.text in self.types and not re.fullmatch(r"[xw]\d+", token.text):
            raise NotDerivable(f"`{token.text}` is read before it has a value", token.line)
        return Node("name", token.text, (), token.line)
