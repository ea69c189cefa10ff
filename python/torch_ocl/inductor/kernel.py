"""One generated kernel: loads, stores, loops and the kernel's text."""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

import sympy

import torch
from torch._inductor.codegen.common import (CSE, CSEVariable, DeferredLine, IndentedBuffer, RemovedArg, TensorArg,
                                             unique)
from torch._inductor.codegen.simd import SIMDKernel
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet
from torch.utils._sympy.symbol import free_symbol_is_type, symbol_is_type, SymT
from torch.utils._sympy.value_ranges import ValueRangeError

from torch_ocl.inductor import types
from torch_ocl.inductor.overrides import OpenCLOverrides, text
from torch_ocl.inductor.printer import OpenCLPrinter
from torch_ocl.inductor.ranges import plan_work
from torch_ocl.inductor.reductions import Reductions
from torch_ocl.inductor.runtime import Ranges
from torch_ocl.inductor.scans import Scans


def is_number(name: str) -> bool:
    """Whether a buffer is in the CPU's memory: the kernel gets values of single elements, as eager operators do."""
    if V.graph.is_unspec_arg(name):
        return True
    buffer = V.graph.try_get_buffer(name)
    return buffer is not None and getattr(buffer.get_device(), "type", "ocl") != "ocl"


class ElementOnHost(NamedTuple):
    """What a call gives for an element of a buffer in the CPU's memory."""

    buffer: str
    index: sympy.Expr       # from the buffer's first element

    def tensor(self, wrapper) -> str:
        """Text of a tensor without dimensions."""
        return wrapper.codegen_reinterpret_view(V.graph.get_buffer(self.buffer), [], [], self.index, wrapper.writeline)


def origins_as_comments(code: str) -> str:
    """config.comment_origin writes pragmas, with lines of Python that a compiler of C takes apart into tokens."""
    return re.sub(r"#pragma CMT (.*)", lambda line: "// " + line[1].rstrip("\\ "), code)


class OpenCLCSE(CSE):
    """Variables are declared with the type of their dtype."""

    def generate(self, buffer, expr, *, dtype=None, assignment=True, **others):
        if assignment and not isinstance(expr, CSEVariable) and dtype is not None:
            self.prefix = f"const {V.kernel.type_of(expr, dtype)} "
        try:
            variable = super().generate(buffer, expr, dtype=dtype, assignment=assignment, **others)
        except ValueRangeError:
            # Two constants, the same when rounded, share a variable that cannot have both bounds.
            others.pop("bounds", None)
            variable = super().generate(buffer, expr, dtype=dtype, assignment=assignment, **others)
        V.kernel.note_variable(variable, expr)
        return variable


class OpenCLKernel(Scans, Reductions, SIMDKernel):
    """A fused kernel. Reductions have a loop for every pass over the reduced elements; see reductions.py."""

    overrides = OpenCLOverrides
    suffix = ";"
    newvar_prefix = "const float "
    width = 1           # elements of a work-item, and
    in_rows = False     # whether it goes through a whole row that is reduced: see vectors.py
    is_written = False  # the body, when the scheduling asks for it

    def __init__(self, tiling, **kwargs):
        super().__init__(tiling, **kwargs)
        self.cse = OpenCLCSE(self.newvar_prefix, self.suffix)
        self.device_index = V.graph.get_current_device_or_throw().index or 0
        self.figures = Ranges.of(self.device_index).figures
        self.fp64 = self.figures.fp64
        self.cpu = self.figures.kind == "cpu"
        self.printer = OpenCLPrinter()
        self.printer.narrow = self.get_index_dtype_as_torch_dtype() == torch.int32
        self.includes: dict[str, None] = {}
        self.sines = 0
        self.uses_double = False
        self.uses_errors = False
        self.masks = 0                                  # how many masked() surround the code being written
        self.checks: dict[str, str] = {}                # checked indices, and what says that they are good
        self.entries: dict[str, object] = {}            # of the kept dimensions, in order
        self.flags = itertools.count()
        self.on_host: dict[str, dict[sympy.Expr, str]] = {}     # buffers' elements there, and their variables
        self.start_reductions()

    @property
    def kexpr(self):
        return self.printer.doprint

    def dtype_to_str(self, dtype: torch.dtype) -> str:
        return types.c_type(dtype)

    def type_of(self, expression: str, dtype: torch.dtype) -> str:
        """Of a variable that gets an expression."""
        return types.c_type(dtype)

    def note_dtype(self, dtype: torch.dtype) -> None:
        if dtype == torch.float64:
            if not self.fp64:
                raise NotImplementedError(f"the device {self.figures.name} has no float64 arithmetic")
            self.uses_double = True

    # Loads and stores.

    def load(self, name: str, index: sympy.Expr) -> CSEVariable:
        variable = self.args.input(name)
        dtype = V.graph.get_dtype(name)
        self.note_dtype(dtype)
        if is_number(name):
            variable = self.element_on_host(name, variable, index)
            return self.cse.generate(self.compute, types.convert(f"{variable}", None, dtype),
                                     dtype=types.compute_dtype(dtype))
        index = self.prepare_indexing(index)
        line = types.load(variable, self.index_to_str(index), dtype)
        buffer = self.loads
        if self.is_constant_in_loop(index):
            buffer = self.body
        return self.generate_at(buffer, line, types.compute_dtype(dtype))

    def element_on_host(self, name: str, variable: str, index: sympy.Expr) -> str:
        if any(s in self.range_tree_nodes or symbol_is_type(s, (SymT.TMP, SymT.INDIRECT)) for s in index.free_symbols):
            raise NotImplementedError(f"a kernel on the ocl device would read all of {name}, which is on the CPU")
        elements = self.on_host.setdefault(name, {})
        return elements.setdefault(index, f"{variable}_{len(elements)}")

    def generate_at(self, buffer: IndentedBuffer, line: str, dtype: torch.dtype) -> CSEVariable:
        variable = self.cse.generate(buffer, line, dtype=dtype)
        if buffer is self.body:
            self.outside_loop.add(variable)
        return variable

    def is_constant_in_loop(self, index: sympy.Expr) -> bool:
        """Whether a load can stand before the loop: it is the same for all reduced elements, and not under a mask."""
        return (self.inside_reduction and not self.masks and not free_symbol_is_type(index, SymT.TMP)
                and not any(tree.is_reduction and s in tree.var_ranges for tree in self.range_trees
                            for s in index.free_symbols))

    def store(self, name: str, index: sympy.Expr, value: CSEVariable, mode=None) -> None:
        if mode is not None:
            raise NotImplementedError(f"the ocl device's code generator has no stores of mode {mode}")
        variable = self.args.output(name)
        dtype = V.graph.get_dtype(name)
        self.note_dtype(dtype)
        index = self.prepare_indexing(index)
        line = types.store(variable, self.index_to_str(index), text(value, dtype), dtype)
        checks = [self.checks[s.name] for s in sorted(index.free_symbols, key=str) if s.name in self.checks]
        if checks:                                      # nothing is written for an index out of range
            line = f"if ({' && '.join(checks)}) {line}"
        self.stored.add(str(variable))
        if self.inside_reduction:
            line = f"if (live) {line}" if self.turns_are_whole else line
            self.stores.writeline(DeferredLine(name, line))
        else:
            self.store_kept(name, line)

    def masked(self, mask: CSEVariable, body, other) -> CSEVariable:
        """The value of body where the mask is true, else `other`; body is computed, and loads, only there."""
        inner = IndentedBuffer()
        self.masks += 1
        try:
            with self.swap_buffers(inner):
                result = body()
        finally:
            self.masks -= 1
        variable = self.cse.newvar(dtype=result.dtype)
        kind, result, other = self.alternatives(variable, result, other)
        self.compute.writeline(f"{kind} {variable} = {other};")
        self.compute.writeline(f"if ({mask}) {{")
        with self.compute.indent():
            self.compute.splice(inner)
            self.compute.writeline(f"{variable} = {result};")
        self.compute.writeline("}")
        self.note_variable(variable)
        return variable

    def alternatives(self, variable: CSEVariable, *values) -> tuple[str, ...]:
        """The type of a variable that gets one of these values, and they as text."""
        return types.c_type(variable.dtype), *(text(value, variable.dtype) for value in values)

    # Indices.

    def codegen_iteration_ranges_entry(self, entry) -> None:
        if entry.is_reduction:
            self.indexing_code.writeline(f"const index_t {entry.name} = {self.reduced_dimension(entry)};")
        else:
            self.entries[entry.name] = entry

    def checked_index(self, variable: CSEVariable, size: sympy.Expr) -> CSEVariable:
        limit = self.index_to_str(self.prepare_indexing(sympy.sympify(size)))
        known = self.cse.try_get(f"checked {variable} {limit}")
        if known is not None:
            return known
        good = f"good{next(self.flags)}"
        index = self.cse.newvar(dtype=torch.int64)
        self.cse.put(f"checked {variable} {limit}", index)
        self.compute.writeline(f"const int {good} = {variable} >= 0 && {variable} < {limit};")
        self.report(f"!{good}", f"clprim_index_error(errors, operator_code, {variable}, {limit})")
        self.compute.writeline(f"const long {index} = {good} ? (long){variable} : 0L;")
        self.checks[str(index)] = good
        self.note_variable(index)
        return index

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        if expr.is_Symbol and expr.name in self.checks or not (lower or upper):
            return
        index = self.index_to_str(self.prepare_indexing(expr))
        limit = self.index_to_str(self.prepare_indexing(sympy.sympify(size)))
        conditions = [f"({index}) < 0"] * lower + [f"({index}) >= ({limit})"] * upper
        self.report(" || ".join(conditions), f"clprim_index_error(errors, operator_code, {index}, {limit})")

    def report(self, condition: str, call: str) -> None:
        """Writes a call that records an error (core/errors.cl), raised when the host next waits."""
        self.uses_errors = True
        self.compute.writelines([f"if ({condition})", f"    {call};"])

    def device_assert_async(self, cond, msg) -> None:
        raise NotImplementedError("assertions on values are left to the device's operator")

    def note_variable(self, variable: CSEVariable, expression=None) -> None:
        """Variables made outside of loops stay known when a loop ends."""
        if not self.inside_reduction and not self.masks:
            self.outside_loop.add(variable)

    # The text.

    def codegen_kernel(self, name: str = "KERNEL_NAME") -> str:
        self.finish()
        return self.text(name)

    def finish(self) -> None:
        """The body, and which work-item computes which element."""
        self.codegen_body()
        self.plan = plan_work(self)

    def text(self, name: str = "KERNEL_NAME") -> str:
        parameters, shifts = self.parameters()
        return self.prologue() + self.definition(f"{self.attribute()}__kernel void {name}({', '.join(parameters)})",
                                                 shifts, self.plan.header)

    def attribute(self) -> str:
        lanes = self.plan.lanes
        return f"__attribute__((reqd_work_group_size({lanes}, 1, 1))) " if lanes > 1 else ""

    def definition(self, start: str, shifts: list[str], header: list[str]) -> str:
        code = IndentedBuffer()
        code.writelines([start, "{"])
        with code.indent():
            code.writelines(shifts)
            code.splice(self.local_memory)
            code.writelines(header)
            code.splice(self.body)
        code.writeline("}")
        with V.set_kernel_handler(self):      # lines about buffers that the kernel leaves out are dropped now
            return origins_as_comments(code.getvalue())

    def function(self) -> str:
        """The kernel as a function of an element's number and how many there are; see combination.py."""
        parameters, shifts = self.parameters()
        parameters = ["const index_t xindex", "const index_t element_count", *parameters]
        return self.definition(f"void FUNCTION_NAME({', '.join(parameters)})", shifts,
                          ["if (xindex >= element_count)", "    return;", *self.plan.header[len(self.plan.start):]])

    def renamed_parameters(self, prefix: str) -> tuple[list[str], list[str]]:
        """Of a kernel that calls the function, and what it gives it."""
        parameters, given = [], []
        written = self.written()
        for name, _, kind, dtype in self.arguments():
            parameters.append(self.parameter(name, kind, dtype, name in written, prefix))
            given += [f"{prefix}{name}"] + [f"{prefix}{name}_offset"] * (kind == "t")
        return parameters, given + ["errors", "operator_code"] * self.uses_errors

    def prologue(self) -> str:
        number, kind = ("double", "#define T_DOUBLE\n") if self.uses_double else ("float", "")
        wide = self.cpu or not self.printer.narrow
        lines = ['#include "core/dtype.cl"', f"typedef {number} T;", f"typedef {number} R;", "#define T_FLOAT",
                 f"{kind}#define T_SIZE {8 if kind else 4}", f"typedef {'long' if wide else 'int'} index_t;",
                 '#include "kernels/pointwise/math.cl"']
        lines += [f'#include "{path}"' for path in self.includes]
        if self.uses_errors:
            lines.append('#include "core/errors.cl"')
        lines.append("CLPRIM_PRELUDE")
        if "kernels/random/philox.cl" in self.includes:
            lines.append("CLPRIM_VARIATES")
        return "\n".join(lines) + "\n"

    def arguments(self):
        """Names in the kernel, what the call gives (a tensor's name, a size as an expression, an ElementOnHost), what
        they are ("t": a tensor, else a number's type), and dtypes."""
        names, values, details, _ = self.args.python_argdefs()
        result = []
        for name, value, detail in zip(names, values, details):
            if isinstance(detail, TensorArg):
                dtype = detail.dtype
                if is_number(detail.buffer):
                    kind = {torch.bool: "uint8", torch.float16: "float32", torch.bfloat16: "float32"}.get(
                        dtype, str(dtype).removeprefix("torch."))
                    result += [(variable, ElementOnHost(detail.buffer, index), kind, dtype)
                               for index, variable in self.on_host[detail.buffer].items()]
                else:
                    result.append((name.name, value, "t", dtype))
            else:
                is_float = isinstance(value, sympy.Symbol) and value.name.startswith("zuf")
                kind = "int64" if not is_float else "float64" if self.fp64 else "float32"
                result.append((name.name, value, kind, None))
        return result

    def written(self) -> OrderedSet[str]:
        found = OrderedSet(str(inner) for inner in self.args.output_buffers.values())
        return found | OrderedSet(buffer.inner_name for buffer in unique(self.args.inplace_buffers.values())
                                  if not isinstance(buffer, RemovedArg))

    @staticmethod
    def parameter(name: str, kind: str, dtype, written: bool, prefix: str = "") -> str:
        if kind != "t":
            return f"const {types.c_type(getattr(torch, kind))} {prefix}{name}"
        constant = "" if written else "const "
        return f"__global {constant}{types.storage_type(dtype)}* {prefix}{name}, ulong {prefix}{name}_offset"

    def parameters(self) -> tuple[list[str], list[str]]:
        written = self.written()
        arguments = self.arguments()
        parameters = [self.parameter(name, kind, dtype, name in written) for name, _, kind, dtype in arguments]
        shifts = [f"{name} += {name}_offset;" for name, _, kind, _ in arguments if kind == "t"]
        parameters += [f"const long {name}" for name in self.plan.sizes]
        if self.uses_errors:
            parameters.append("__global int* errors, int operator_code")
        return parameters, shifts

    def signature(self) -> str:
        kinds = [kind for _, _, kind, _ in self.arguments()] + ["int64"] * len(self.plan.sizes)
        return " ".join(kinds + ["errors"] * self.uses_errors)

    def call_kernel(self, name: str, node=None, deallocate_ws: bool = True) -> None:
        wrapper = V.graph.wrapper_code
        numbers = [sympy.sympify(n) for n in (*self.plan.sizes.values(), *self.plan.numbers)]
        for size in (*self.args.sizevars, *(s for n in numbers for s in sorted(n.free_symbols, key=str))):
            wrapper.ensure_size_computed(size)
        arguments = [detail for _, *detail in self.arguments()]
        arguments += [(value, "int64", None) for value in self.plan.sizes.values()]
        wrapper.call_ocl_kernel(name, self.device_index, arguments, self.plan.kind, self.plan.numbers)

    def codegen_nan_check(self) -> None:
        """What config.nan_asserts asks for behind every kernel."""
        wrapper = V.graph.wrapper_code
        _, names, signatures, _ = self.args.python_argdefs()
        for name, signature in zip(names, signatures):
            if not isinstance(signature, TensorArg):
                continue
            if V.graph.cpp_wrapper:
                wrapper.writeline(f'AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_check_inf_and_nan("{name}", {name}));')
            else:
                wrapper.writeline(f'assert {name}.isfinite().all().item(), "{name} holds NaN or infinity"')
