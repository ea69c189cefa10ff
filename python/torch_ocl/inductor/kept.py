"""Values that a work-group keeps from one pass over the reduced elements for the next, on CPUs.

Inductor writes a fused reduction as loops, each of which computes what it needs from memory again: a softmax takes
every exponential twice. Where rows are short enough for local memory, what was costly is written there by the loop that
computes it first, and read by later ones. Elements belong to the same lane in every loop, so that no barrier is needed.

It works on the text of loops: two definitions are the same value if their expressions are, down to what is read from
memory and what was made outside of the loops.
"""

from __future__ import annotations

import dataclasses
import re

from torch._inductor.codegen.common import DeferredLineBase, IndentedBuffer

LARGEST = 32 << 10      # bytes of a work-group, which a processor's nearest cache holds
DEFINITION = re.compile(r"const (\w+) (tmp\d+) = (.+);$")
NAME = re.compile(r"\btmp\d+\b")
IN_LOOP = re.compile(r"\br\d*_\w+|\b(rindex|turn|taken)\b")     # what is another one in every turn
COSTLY = re.compile(r" / |\b(exp\w*|log\w*|a?sinh?|a?cosh?|a?tanh?|atan2|tanh_of|sigmoid|erf\w*|ndtri_of|log_ndtr_of|"
                    r"normal_cdf|lgamma|pow|power_\w+|sqrt)\(")
BYTES = {"float": 4, "double": 8}       # of an element; of one that all lanes of a vector share nothing is kept


class _Keep(DeferredLineBase):
    """At the end of a loop: the stores that later loops turn out to need."""

    def __init__(self, lines: list[str], line: str = "keep"):
        super().__init__(line)
        self.lines = lines

    def __call__(self) -> str | None:
        return self.line.replace("keep", " ".join(self.lines)) if self.lines else None

    def _new_line(self, line: str) -> _Keep:
        return _Keep(self.lines, line)


@dataclasses.dataclass
class _Value:
    name: str               # in the loop that computes it first
    kind: str
    stores: list[str]       # that this loop makes
    array: str = ""         # where it is kept, if a later loop needs it


class KeptValues:
    """width: how many elements a variable has. Vectors of one work-item are kept in its own memory. place: where those
    of a turn are."""

    def __init__(self, elements: int, memory: IndentedBuffer, limit: int, width: int = 1, place: str = "rindex"):
        self.elements, self.memory, self.left, self.width = elements, memory, min(LARGEST, limit), width
        self.place = place
        self.known: dict[str, _Value] = {}      # by expression
        self.values: dict[str, _Value] = {}     # by name
        self.same: dict[str, str] = {}          # a loop's variable: its value's name everywhere
        self.costly: set[str] = set()           # values that took something costly to compute
        self.varying: set[str] = set()          # values that are not the same in every turn
        self.written: set[str] = set()          # pointers through which earlier loops stored

    def loop(self, parts: tuple[IndentedBuffer, ...], written: set[str]) -> None:
        """Takes the lines of a loop, before they become a part of the kernel."""
        stores: list[str] = []
        first: dict[str, _Value] = {}           # made in this loop
        again: dict[str, tuple[IndentedBuffer, int]] = {}      # made before, and where the loop makes them anew
        for part in parts:
            for place, line in enumerate(part._lines):
                found = DEFINITION.match(line) if isinstance(line, str) else None
                if found:
                    kind, name, expression = found.groups()
                    key = f"{kind} {NAME.sub(lambda other: self.same.get(other[0], other[0]), expression)}"
                    if self.written and any(re.search(rf"\b{pointer}\b", key) for pointer in self.written):
                        key = f"{key} in {name}"        # memory has changed since earlier loops
                    if key in self.known:
                        self.same[name] = self.known[key].name
                        again[name] = part, place
                    else:
                        self.same[name] = name
                        first[key] = _Value(name, kind, stores)
        self.take(parts, again)
        for key, value in first.items():
            self.note(value.name, key)
        self.known.update(first)
        self.values.update((value.name, value) for value in first.values())
        self.written |= written
        parts[2].writeline(_Keep(stores))

    def note(self, name: str, key: str) -> None:
        """Whether a new value varies in its loop, and took something costly that is not kept already."""
        operands = set(NAME.findall(key))
        if IN_LOOP.search(key) or operands & self.varying:
            self.varying.add(name)
            unkept = {operand for operand in operands if operand not in self.values or not self.values[operand].array}
            if COSTLY.search(key) or unkept & self.costly:
                self.costly.add(name)

    def take(self, parts, again) -> None:
        """Of what was made before, a loop reads what is costly, makes anew what is not, and leaves the rest out."""
        used: list[str] = []
        for part in parts:
            for line in part._lines:
                text = getattr(line, "line", line)
                found = DEFINITION.match(text)
                if found is None or found[2] not in again:
                    used += NAME.findall(text)
        needed: set[str] = set()
        while used:
            name = used.pop()
            if name in again and name not in needed:
                needed.add(name)
                part, place = again[name]
                if not self.read(part, place, name):
                    used += NAME.findall(DEFINITION.match(part._lines[place])[3])
        for name, (part, place) in again.items():
            if name not in needed:
                part._lines[place] = ""

    def read(self, part: IndentedBuffer, line: int, name: str) -> bool:
        """Has a loop read a value instead of computing it, if that is worth it."""
        value = self.values[self.same[name]]
        element = value.kind.removesuffix("16")
        if value.name not in self.costly or element not in BYTES:
            return False
        vectors = self.width > 1
        place = f"[{self.place}]"
        if not value.array:
            size = self.elements * BYTES[element]
            if size > self.left:
                return False
            self.left -= size
            value.array = f"kept_{value.name}"
            count = -(-self.elements // self.width)
            self.memory.writeline(f"{'' if vectors else '__local '}{value.kind} {value.array}[{count}];")
            value.stores.append(f"{value.array}{place} = {value.name};")
        part._lines[line] = f"const {value.kind} {name} = {value.array}{place};"
        return True
