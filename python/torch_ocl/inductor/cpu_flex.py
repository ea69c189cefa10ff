"""FlexAttention on CPU devices (cpu_flex*.cl): how a problem is cut, and the caller's functions in vectors of scores.

A vector holds 16 scores of neighbouring queries (of neighbouring keys, where the gradients of keys are computed): the
number of the query is a vector then, that of the key, the head and the batch are numbers. What does not depend on the
row, `m`-th entries of captured tensors say, is computed ahead of the rows of a tile.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import sympy

import torch
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer
from torch._inductor.virtualized import V
from torch.utils._sympy.value_ranges import ValueRanges

from torch_ocl.inductor import types
from torch_ocl.inductor.kernel import is_number, OpenCLCSE, OpenCLKernel
from torch_ocl.inductor.overrides import dtype_of, OpenCLOverrides
from torch_ocl.inductor.runtime import Ranges
from torch_ocl.inductor.vector_overrides import (_choose, in_lanes, is_same, NotVectors, truth, vector_type,
                                                 VectorOverrides, WIDTH)
from torch_ocl.inductor.vectors import VectorKernel

CACHE = 208 << 10       # bytes of local memory, which must stay in the second-level cache: kernels/attention/cpu.cpp's
LONG_BLOCK = 1 << 16    # rows


class Cut(NamedTuple):
    """What a work-item owns and passes over, and how many own a block of the mask."""

    panels: int
    columns: int        # of a panel
    others: int         # rows of a tile
    step: int           # from row to row of packed rows
    parts: int

    @property
    def rows(self) -> int:
        return self.panels * self.columns


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _numbers(direction: str, size: int, value_size: int, cut: Cut) -> int:
    """In local memory."""
    lanes = {"forward": size + _up(value_size, 4) + 2,
             "backward_queries": size + value_size + _up(size, 4) + 2,
             "backward_keys": size + value_size + _up(size, 4) + _up(value_size, 4)}[direction]
    rows = 2 * cut.step + cut.columns * (1 if direction == "forward" else 2)
    return cut.rows * lanes + cut.others * rows + cut.columns


def cut_of(direction: str, problem, owners: int) -> Cut | None:
    """As many owned rows as share the packing of others, and as many of these as share loads and stores of sums, as in
    kernels/attention/cpu.cpp; None: for the kernels of other devices. owners: rows of all heads to be owned."""
    query = problem.query
    figures = Ranges.of(query.get_device().index or 0).figures
    if figures.kind != "cpu":
        return None
    size, value_size = (V.graph.sizevars.guard_int(x.get_size()[-1]) for x in (query, problem.value))
    element = 8 if query.get_dtype() == torch.float64 else 4
    columns, step = 128 // element, _up(max(size, value_size), 16) + 16
    own, other = problem.mask["query_block"], problem.mask["key_block"]
    if direction == "backward_keys":
        own, other = other, own
    room = min(figures.local_memory, CACHE) // element - 64
    owners = V.graph.sizevars.optimization_hint(owners)
    most = max(1, owners // (4 * figures.compute_units * columns))     # enough work-items to share among threads
    found = []
    for panels in range(1, min(16, most, -(-own // columns)) + 1):
        if own > LONG_BLOCK and own % (panels * columns):   # the block is cut by the length, which may be dynamic
            continue
        for others in (12, 24, 36, 48, 64, 72, 96, 120, 128):
            cut = Cut(panels, columns, others, step, -(-own // (panels * columns)))
            if _numbers(direction, size, value_size, cut) <= room:
                shared = own / columns / cut.parts, other / -(-other // others)
                found.append((0.3 / shared[0] + 3 / shared[1], cut))
    return min(found)[1] if found else None


class FlexCSE(OpenCLCSE):
    """What does not change from row to row stands ahead of the rows."""

    def generate(self, buffer, expr, **others):
        kernel = V.kernel
        changes = kernel.masks > 0 or kernel.changes(expr)
        variable = super().generate(buffer if changes else kernel.ahead, expr, **others)
        if changes:
            kernel.changing.add(str(variable))
        return variable


class FlexOverrides(VectorOverrides):
    @staticmethod
    def value_expr(expr, dtype):
        if V.kernel.lanes_of(expr):
            raise NotVectors("an index for each lane as a value")
        return VectorOverrides.value_expr(expr, dtype)

    @staticmethod
    def index_expr(expr, dtype):
        return FlexOverrides.value_expr(expr, V.kernel.get_index_dtype_as_torch_dtype()
                                        if dtype in (torch.int32, torch.int64) else dtype)

    def indirect_indexing(self, var, size, check=True, wrap_neg=True):
        return OpenCLOverrides.indirect_indexing(self, var, size, check, wrap_neg)


def _by_number(form: str, least: int = 1, limit: bool = False):
    """Of integers and a number that is known: divisions by a positive one, where no division by zero is to be reported,
    and shifts by less than the integers' bits. {0}, {1}: vectors."""

    def call(a, b) -> str:
        bounds = b.bounds if isinstance(b, CSEVariable) else None
        number = int(bounds.lower) if bounds is not None and bounds.is_singleton() else b
        if dtype_of(a) not in (torch.int32, torch.int64) or not isinstance(number, int) or number < least:
            raise NotVectors("a division or shift by what is not known")
        if limit and number >= 8 * a.dtype.itemsize:
            raise NotVectors("a shift past the width")
        return form.format(a, in_lanes(number, a.dtype))

    return call


_TRUNCATED, _FLOOR = "({0} % {1})", "({0} / {1} + ({0} % {1} < 0))"      # a vector's comparison is -1 where it is true
_MODULO = "({0} % {1} + (-({0} % {1} < 0) * {1}))"
for _name, _form in (("floordiv", _FLOOR), ("truncdiv", "({0} / {1})"), ("mod", _TRUNCATED), ("fmod", _TRUNCATED),
                     ("remainder", _MODULO)):
    setattr(FlexOverrides, _name, _choose(_name, getattr(OpenCLOverrides, _name), _by_number(_form)))
for _name, _form in (("bitwise_left_shift", "({0} << {1})"), ("bitwise_right_shift", "({0} >> {1})")):
    setattr(FlexOverrides, _name, _choose(_name, getattr(OpenCLOverrides, _name), _by_number(_form, 0, True)))


class FlexVectors(VectorKernel):
    """Writes the caller's functions. lane: the index that is a vector."""

    overrides = FlexOverrides

    def __init__(self, tiling, lane: str, **kwargs):
        super().__init__(tiling, **kwargs)
        self.lane = lane
        self.ahead = IndentedBuffer()
        self.changing = {"score", "grad_score_mod", "n" if lane == "m" else "m"}
        self.only_kind = ""     # the condition under which a function is computed

    def changes(self, expr) -> bool:
        return not self.changing.isdisjoint(re.findall(r"\w+", str(expr)))

    def note_variable(self, variable: CSEVariable, expression=None) -> None:
        super().note_variable(variable, expression)
        if isinstance(expression, str) and re.fullmatch(r"\d+L?", expression):
            value = int(expression.rstrip("L"))
            variable.bounds = ValueRanges(value, value)

    def lanes_of(self, index: sympy.Expr) -> list[str]:
        """The variables in an index that are vectors."""
        known = self.cse.varname_map
        return [s.name for s in sympy.sympify(index).free_symbols if s.name in known and known[s.name] not in self.same]

    def load(self, name: str, index: sympy.Expr) -> CSEVariable:
        prepared = self.prepare_indexing(index)
        lanes = [] if is_number(name) else self.lanes_of(prepared)
        if not lanes:
            with self.of_numbers():
                return OpenCLKernel.load(self, name, index)
        pointer, dtype = self.args.input(name), V.graph.get_dtype(name)
        self.note_dtype(dtype)
        kind = vector_type(types.compute_dtype(dtype))
        place = self.index_to_str(prepared)
        (symbol, *others) = [s for s in prepared.free_symbols if s.name in lanes]
        if not others and symbol.name == self.lane and symbol not in (prepared - symbol).expand().free_symbols:
            first = re.sub(rf"\b{self.lane}\b", f"{self.lane}.s0", place)
            line = f"load16_{types.MEMORY_NAMES[dtype]}({pointer}, {first}, lanes_left)"
        else:
            names = re.compile("|".join(rf"\b{name}\b" for name in lanes))
            parts = [types.load(pointer, names.sub(lambda found: f"{found[0]}.s{lane:x}", place), dtype)
                     for lane in range(WIDTH)]
            parts = [f"{part} ? -1 : 0" if dtype == torch.bool else part for part in parts]
            line = f"({kind})({', '.join(parts)})"
        return self.cse.generate(self.loads, line, dtype=types.compute_dtype(dtype))

    def masked(self, mask, body, other):
        variable = super().masked(mask, body, other)
        self.changing.add(str(variable))
        return variable

    def checked_index(self, variable: CSEVariable, size: sympy.Expr) -> CSEVariable:
        if is_same(variable):
            with self.of_numbers():
                index = super().checked_index(variable, size)
            self.changing.add(str(index))
            self.same.add(index)
            return index
        limit = self.index_to_str(self.prepare_indexing(sympy.sympify(size)))
        known = self.cse.try_get(f"checked {variable} {limit}")
        if known is not None:
            return known
        if variable.dtype not in (torch.int32, torch.int64):
            raise NotVectors(f"indices of {variable.dtype}")
        good, kind = f"good{next(self.flags)}", vector_type(variable.dtype)
        changes = self.masks > 0 or self.changes(variable)
        lines = self.compute if changes else self.ahead
        index = self.cse.newvar(dtype=variable.dtype)
        self.cse.put(f"checked {variable} {limit}", index)
        inside = truth(f"({variable} >= 0) & ({variable} < ({kind})({limit}))", variable.dtype)
        chosen = good if variable.dtype == torch.int32 else f"convert_long16({good})"
        lines.writelines([f"const int16 {good} = {inside};", f"if ({self.only_kind}!all({good}))",
                          f"    clprim_index_error(errors, operator_code, flex_bad_index(convert_long16({variable}), "
                          f"{good}), {limit});",
                          f"const {kind} {index} = {chosen} ? {variable} : ({kind})(0);"])
        self.uses_errors = True
        self.checks[str(index)] = good
        if changes:
            self.changing.add(str(index))
        return index
