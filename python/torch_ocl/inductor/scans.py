"""Scans of a generated kernel: inclusive ones, by any associative function of any number of values at once.

Where a work-item owns a row it carries what came before from step to step. Where the lanes of a work-group own it
together, lanes of a turn are combined in local memory in as many rounds as their number has bits (Hillis and Steele,
"Data parallel algorithms", 1986), then with what the turns before have left. The order of arguments is that of the
elements: the function need not commute.
"""

from __future__ import annotations

import functools

import torch
from torch._inductor import ir
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer

from torch_ocl.inductor import types


def in_one_part(former):
    """Of ir.Scan.num_splits, which is asked how many work-groups a row should be cut into."""
    @functools.wraps(former)
    def num_splits(cls, device, *args, **kwargs):
        if device.type == "ocl":
            return ir.ReductionHint.DEFAULT, 1
        return former.__func__(cls, device, *args, **kwargs)
    return classmethod(num_splits)


class Scans:
    """The part of OpenCLKernel that scans."""

    def scan(self, dtypes, combine_fn, values) -> tuple[CSEVariable, ...]:
        if not self.inside_reduction or self.masks:
            raise NotImplementedError("a scan under a mask")
        kinds = [types.compute_dtype(dtype) for dtype in dtypes]
        for kind in kinds:
            self.note_dtype(kind)
        results = self.declared(kinds, [types.convert(str(v), v.dtype, k) for v, k in zip(values, kinds)])
        carried = [self.cse.newvar(dtype=kind) for kind in kinds]
        for variable in carried:
            self.outside_loop.add(variable)
            self.body.writeline(f"{types.c_type(variable.dtype)} {variable} = 0;")
        shared = [self.of_all_lanes(kind) for kind in kinds] if self.lanes > 1 else []
        if self.lanes > 1:
            self.scan_lanes(combine_fn, kinds, results, shared)
        self.combine(combine_fn, "rindex > 0" if self.lanes == 1 else "turn > 0", carried, results)
        if self.lanes == 1:
            self.compute.writelines([f"{c} = {r};" for c, r in zip(carried, results)])
        else:
            self.exchange(shared, results)
            self.compute.writelines([f"{c} = {s}[{self.lanes - 1}];" for c, s in zip(carried, shared)])
        return tuple(results)

    def declared(self, kinds: list[torch.dtype], values: list[str]) -> list[CSEVariable]:
        """Variables of the loop's body that may change."""
        variables = [self.cse.newvar(dtype=kind) for kind in kinds]
        for variable, value in zip(variables, values):
            self.compute.writeline(f"{types.c_type(variable.dtype)} {variable} = {value};")
        return variables

    def scan_lanes(self, combine_fn, kinds: list[torch.dtype], results: list[CSEVariable], shared: list[str]) -> None:
        """Lane i gets the combination of lanes 0 to i."""
        distance = f"distance{next(self.numbers)}"
        self.compute.writeline(f"for (int {distance} = 1; {distance} < {self.lanes}; {distance} <<= 1) {{")
        with self.compute.indent():
            self.exchange(shared, results)
            before = self.declared(kinds, [f"{s}[max(lane - {distance}, (index_t)0)]" for s in shared])
            self.combine(combine_fn, f"lane >= {distance}", before, results)
        self.compute.writeline("}")

    def of_all_lanes(self, kind: torch.dtype) -> str:
        """An array in local memory with a value for each lane."""
        name, stored = f"scanned{next(self.numbers)}", "uchar" if kind == torch.bool else types.c_type(kind)
        self.local_memory.writeline(f"__local {stored} {name}[{self.lanes}];")
        return name

    def exchange(self, shared: list[str], values: list[CSEVariable]) -> None:
        # Of the round or turn before, every lane has to have read before another one writes.
        self.compute.writeline("barrier(CLK_LOCAL_MEM_FENCE);")
        self.compute.writelines([f"{name}[lane] = {value};" for name, value in zip(shared, values)])
        self.compute.writeline("barrier(CLK_LOCAL_MEM_FENCE);")

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
            self.compute.writelines([f"{r} = {t};" for r, t in zip(results, temporary)])
        self.compute.writeline("}")
