"""Scans of a generated kernel: inclusive ones, by any associative function of any number of values at once.

Where a work-item owns a row it carries what came before from step to step. Where the lanes of a work-group own it
together, they go along it in tiles. The loop's body falls into phases: what is computed of a tile's elements before the
scan, and what behind it, the elements of both shared out so that neighbouring lanes touch neighbours. In between lie
the values in local memory: a lane scans `span` neighbours in registers, totals of lanes are combined in as many rounds
as their number has bits (Hillis and Steele, "Data parallel algorithms", 1986), and each lane brings what came before to
its own. The order of arguments is that of the elements: the function need not commute.
"""

from __future__ import annotations

import contextlib
import functools
import re
from typing import NamedTuple

import torch
from torch._inductor import ir
from torch._inductor.codegen.common import CSEVariable, DeferredLine, IndentedBuffer
from torch._inductor.virtualized import V

from torch_ocl.inductor import types

LONGEST_SPAN = 8
MOST_LOCAL_MEMORY = 16384   # bytes of values in a tile: a core holds several work-groups
BANKS = 32                  # of local memory: a value for each of so many is left out, so that spans begin in all
DECLARATION = re.compile(r"(?:const )?((?:unsigned )?\w+) (\w+)(?: = .*)?;")


def in_one_part(former):
    """Of ir.Scan.num_splits, which is asked how many work-groups a row should be cut into."""
    @functools.wraps(former)
    def num_splits(cls, device, *args, **kwargs):
        if device.type == "ocl":
            return ir.ReductionHint.DEFAULT, 1
        return former.__func__(cls, device, *args, **kwargs)
    return classmethod(num_splits)


class Phase(NamedTuple):
    """Lines for each element of a tile, and those of the scan behind them."""

    lines: IndentedBuffer
    scan: IndentedBuffer

    def text(self) -> list[str]:
        return [line.line if isinstance(line, DeferredLine) else str(line) for line in self.lines._lines]

    def declared(self) -> dict[str, str]:
        """Variables that later phases may ask for, and their types."""
        found = (DECLARATION.fullmatch(line) for line in self.text())
        return {match[2]: match[1] for match in found if match and match[1] != "return"}

    def names(self) -> set[str]:
        return {name for line in self.text() for name in re.findall(r"\b[A-Za-z_]\w*", line)}


class Scans:
    """The part of OpenCLKernel that scans."""

    def start_scans(self) -> None:
        self.span = 1                                       # neighbours that a lane scans by itself
        self.phases: list[Phase] = []                       # of the loop being written, but for its last one
        self.scanned: dict[tuple, tuple] = {}               # results of its scans

    def choose_span(self) -> None:
        """Tiles no longer than rows, and small enough for several in local memory."""
        length = V.graph.sizevars.optimization_hint(self.features.reduction_numel)
        scans = {id(data.combine_fn): data.dtypes for node in self.features.scheduler_nodes()
                 if isinstance(data := getattr(node.node, "data", None), ir.Scan)}
        size = sum(types.compute_dtype(dtype).itemsize for dtypes in scans.values() for dtype in dtypes)
        most = min(MOST_LOCAL_MEMORY, self.figures.local_memory // 2)
        self.span = LONGEST_SPAN
        while self.span > 1 and (self.span * self.lanes * size > most or self.span * 32 >= 2 * length):
            self.span //= 2
        while self.lanes > 32 and self.span * self.lanes >= 2 * length:
            self.lanes //= 2

    def scan(self, dtypes, combine_fn, values) -> tuple[CSEVariable, ...]:
        if not self.inside_reduction or self.masks:
            raise NotImplementedError("a scan under a mask")
        kinds = [types.compute_dtype(dtype) for dtype in dtypes]
        for kind in kinds:
            self.note_dtype(kind)
        if self.lanes == 1:
            return self.scan_alone(combine_fn, kinds, values)
        key = tuple(kinds), combine_fn, tuple(map(str, values))     # results of one scan are asked for one by one
        if key not in self.scanned:
            self.scanned[key] = self.scan_together(combine_fn, kinds, values)
        return self.scanned[key]

    def scan_alone(self, combine_fn, kinds: list[torch.dtype], values) -> tuple[CSEVariable, ...]:
        results = self.declared(kinds, [types.convert(str(v), v.dtype, k) for v, k in zip(values, kinds)])
        carried = self.carried(kinds)
        self.combine(combine_fn, "rindex > 0", carried, results)
        self.assign(carried, results)
        return tuple(results)

    def scan_together(self, combine_fn, kinds: list[torch.dtype], values) -> tuple[CSEVariable, ...]:
        number = next(self.numbers)
        tile = self.lanes * self.span
        shared = [self.in_local_memory(f"scanned{number}_{i}", kind, tile + tile // BANKS)
                  for i, kind in enumerate(kinds)]
        totals = [self.in_local_memory(f"totals{number}_{i}", kind, 2 * self.lanes) for i, kind in enumerate(kinds)]
        half = f"half{number}"
        self.body.writeline(f"int {half} = 0;")
        carried = self.carried(kinds)
        mine = f"place + place / {BANKS}u"
        self.compute.writelines([f"{name}[{mine}] = {types.convert(str(v), v.dtype, k)};"
                                 for name, v, k in zip(shared, values, kinds)])
        parts = self.loads, self.compute, self.stores
        phase = Phase(_together(parts), IndentedBuffer())
        for part in parts:
            part.clear()
        self.phases.append(phase)
        with self.swap_buffers(phase.scan):
            self.scan_tile(combine_fn, kinds, carried, shared, (totals, half))
        return tuple(self.declared(kinds, [f"{name}[{mine}]" for name in shared]))

    def scan_tile(self, combine_fn, kinds: list[torch.dtype], carried: list[CSEVariable], shared: list[str],
                  exchange: tuple[list[str], str]) -> None:
        """The values of a tile in local memory become their inclusive scan."""
        code = self.compute
        code.writeline("barrier(CLK_LOCAL_MEM_FENCE);")
        own = [str(self.cse.newvar(dtype=kind)) for kind in kinds]
        code.writelines([f"{types.c_type(kind)} {name}[{self.span}];" for kind, name in zip(kinds, own)])
        totals = self.declared(kinds, ["0"] * len(kinds))
        place = f"at + at / {BANKS}u"
        with self.each_of_span(code):
            here = self.declared(kinds, [f"{name}[{place}]" for name in shared])
            self.combine(combine_fn, "k > 0", totals, here)
            self.assign(totals, here)
            code.writelines([f"{name}[k] = {value};" for name, value in zip(own, here)])
        self.combine(combine_fn, "lane == 0 && turn > 0", carried, totals)
        before = self.scan_lanes(combine_fn, kinds, totals, exchange)
        code.writelines([f"{b} = lane > 0 ? {b} : {c};" for b, c in zip(before, carried)])
        names, half = exchange
        code.writelines([f"{c} = {name}[{half} + {self.lanes - 1}];" for c, name in zip(carried, names)])
        with self.each_of_span(code):
            here = self.declared(kinds, [f"{name}[k]" for name in own])
            self.combine(combine_fn, "lane > 0 || turn > 0", before, here)
            code.writelines([f"{name}[{place}] = {value};" for name, value in zip(shared, here)])
        code.writeline("barrier(CLK_LOCAL_MEM_FENCE);")

    def each_of_span(self, code: IndentedBuffer):
        code.writelines(["#pragma unroll", f"for (int k = 0; k < {self.span}; ++k)"])
        return _braces(code, f"const uint at = (uint)lane * {self.span}u + k;")

    def scan_lanes(self, combine_fn, kinds: list[torch.dtype], results: list[CSEVariable],
                   exchange: tuple[list[str], str]) -> list[CSEVariable]:
        """Lane i's total becomes the combination of those of lanes 0 to i; the one before it is returned. Where others
        find them lie two halves in turn: what was there before may still be read."""
        names, half = exchange
        distance = f"distance{next(self.numbers)}"

        def share() -> None:
            self.compute.writeline(f"{half} ^= {self.lanes};")
            self.compute.writelines([f"{name}[{half} + lane] = {value};" for name, value in zip(names, results)])
            self.compute.writeline("barrier(CLK_LOCAL_MEM_FENCE);")

        self.compute.writeline(f"for (int {distance} = 1; {distance} < {self.lanes}; {distance} <<= 1) {{")
        with self.compute.indent():
            share()
            before = self.declared(kinds, [f"{name}[{half} + max((int)lane - {distance}, 0)]" for name in names])
            self.combine(combine_fn, f"lane >= {distance}", before, results)
        self.compute.writeline("}")
        share()
        return self.declared(kinds, [f"{name}[{half} + max((int)lane - 1, 0)]" for name in names])

    def carried(self, kinds: list[torch.dtype]) -> list[CSEVariable]:
        """Variables that keep what came before, from one turn of the loop to the next."""
        variables = [self.cse.newvar(dtype=kind) for kind in kinds]
        for variable in variables:
            self.outside_loop.add(variable)
            self.body.writeline(f"{types.c_type(variable.dtype)} {variable} = 0;")
        return variables

    def declared(self, kinds: list[torch.dtype], values: list[str]) -> list[CSEVariable]:
        """Variables of the loop's body that may change."""
        variables = [self.cse.newvar(dtype=kind) for kind in kinds]
        for variable, value in zip(variables, values):
            self.compute.writeline(f"{types.c_type(variable.dtype)} {variable} = {value};")
        return variables

    def assign(self, to: list[CSEVariable], values: list[CSEVariable]) -> None:
        self.compute.writelines([f"{a} = {b};" for a, b in zip(to, values)])

    def in_local_memory(self, name: str, kind: torch.dtype, count: int) -> str:
        stored = "uchar" if kind == torch.bool else types.c_type(kind)
        self.local_memory.writeline(f"__local {stored} {name}[{count}];")
        return name

    def combine(self, combine_fn, condition: str, before: list[CSEVariable], results: list[CSEVariable]) -> None:
        """results = combine_fn(before, results) where a condition holds."""
        inner = IndentedBuffer()
        with self.swap_buffers(inner):
            combined = combine_fn(tuple(before), tuple(results))
            found = [types.convert(str(c), getattr(c, "dtype", None), r.dtype) for c, r in zip(combined, results)]
            temporary = [self.cse.newvar(dtype=r.dtype) for r in results]
        self.compute.writeline(f"if ({condition}) {{")
        with self.compute.indent():
            self.compute.splice(inner)
            self.compute.writelines([f"const {types.c_type(t.dtype)} {t} = {value};"
                                     for t, value in zip(temporary, found)])
            self.assign(results, temporary)
        self.compute.writeline("}")

    # Loops.

    def write_phases(self, parts, limit: str, whole: bool) -> None:
        """The body of a loop over tiles: a loop over a lane's elements for each phase, and the scans between them.
        whole: rows hold whole turns of all lanes, if not whole tiles."""
        indices, *last = parts
        phases = [*self.phases, Phase(_together(last), IndentedBuffer())]
        header = self.element_of_tile(limit, whole)
        kept: dict[str, str] = {}
        for number, phase in enumerate(phases):
            wanted = set().union(*(later.names() for later in phases[number + 1:]))
            saved = {name: kind for name, kind in phase.declared().items() if name in wanted}
            names = phase.names()
            self.body.writelines([f"{kind} {name}_of[{self.span}];" for name, kind in saved.items()])
            self.body.writelines(["#pragma unroll", f"for (int e = 0; e < {self.span}; ++e)"])
            with _braces(self.body):
                self.body.writelines(header)
                self.body.splice(indices)
                self.body.writelines([f"const {kind} {name} = {name}_of[e];" for name, kind in kept.items()
                                      if name in names])
                self.body.splice(phase.lines)
                self.body.writelines([f"{name}_of[e] = {name};" for name in saved])
            self.body.splice(phase.scan)
            kept |= saved
        self.phases, self.scanned = [], {}

    def element_of_tile(self, limit: str, whole: bool) -> list[str]:
        """Which element of the row a lane has, and where it lies in the tile. Beyond the row's end it is another's
        again, and not live."""
        lines = [f"const int place = e * {self.lanes} + (int)lane;"]
        first, element = f"turn + e * {self.lanes}", "first + lane"
        if self.turns_are_whole and whole:
            lines.append(f"const int live = {first} < {limit};")
            first = f"min({first}, (index_t){limit} - {self.lanes})"
        lines.append(f"const index_t first = {first};")
        if self.turns_are_whole and not whole:
            lines.append(f"const int live = {element} < {limit};")
            element = f"min({element}, (index_t){limit} - 1)"
        return [*lines, f"const index_t rindex = {element};", f"const index_t {self.reduction_tree.name} = rindex;",
                f"const int taken = turn / {self.lanes} + e + 1;"]


def _together(parts) -> IndentedBuffer:
    code = IndentedBuffer()
    for part in parts:
        code.splice(part)
    return code


@contextlib.contextmanager
def _braces(code: IndentedBuffer, *first: str):
    """Lines written inside stand in braces."""
    code.writeline("{")
    with code.indent():
        code.writelines(first)
        yield
    code.writeline("}")
