"""Reductions of a generated kernel.

An output is owned by a work-item, where neighbouring outputs lie side by side in memory, or by a work-group whose
`lanes` work-items step through the reduced elements side by side. Every pass over the reduced elements is a loop; what
its lanes have found is combined in local memory, in a fixed order, so that results have the same bits every run.
"""

from __future__ import annotations

import itertools
import re

import sympy

import torch
from torch._inductor import ir
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from torch_ocl.inductor import types
from torch_ocl.inductor.kept import KeptValues
from torch_ocl.inductor.runtime import Ranges

CPU_LANES, GPU_LANES = 16, 256
SHORTEST = 32   # elements that a work-item reduces by itself


SMALLEST_PART = 4096   # elements that are worth a part of a reduction of their own, on a CPU


def split_factor(former):
    """Inductor's choice of how many parts a long reduction with few outputs is cut into. Its figures are a GPU's, whose
    hundreds of threads per unit a CPU does not have: there a part for each of some work-groups per core is enough."""
    def reduction_split_factor(self, device, reduction_numel_hint, numel_hint, inner_reduction):
        if device.type != "ocl" or Ranges.of(device.index or 0).figures.kind != "cpu":
            return former(self, device, reduction_numel_hint, numel_hint, inner_reduction)
        units = Ranges.of(device.index or 0).figures.compute_units
        outputs = numel_hint if inner_reduction else -(-numel_hint // CPU_LANES)   # work-groups there are already
        smallest = SMALLEST_PART if inner_reduction else SMALLEST_PART // CPU_LANES
        if outputs >= 2 * units:
            return 1
        parts = min(-(-4 * units // max(outputs, 1)), reduction_numel_hint // smallest)
        if parts < 2:
            return 1
        even = [n for n in range(parts, 2 * parts) if reduction_numel_hint % n == 0]   # no part is shorter
        return even[0] if even else parts

    return reduction_split_factor


class Accumulator:
    """The state of one reduction: a C type, what it begins with, how a value is taken in and two states merged."""

    def __init__(self, kind: str, start: str, take: str, merge: str, blocked: bool = False):
        self.kind, self.start, self.take, self.merge, self.blocked = kind, start, take, merge, blocked


class Reductions:
    """The part of OpenCLKernel that reduces."""

    def start_reductions(self) -> None:
        self.outside_loop: OrderedSet[CSEVariable] = OrderedSet()
        self.local_memory = IndentedBuffer()
        self.combines = IndentedBuffer()       # after the loop: results of the lanes together
        self.kept_stores = IndentedBuffer()    # of results, after that
        self.blocked: list[str] = []           # lines that fold the sums of a block
        self.block_starts: list[str] = []
        self.loop_sizes: dict[str, sympy.Expr] = {}
        self.numbers = itertools.count()
        self.lanes = 1
        self.indices: list[sympy.Expr] = []
        self.kept: KeptValues | None = None
        self.turns_are_whole = False           # lanes beyond the last element compute it, too: a scan has barriers
        self.stored: set[str] = set()          # pointers that the loop being written stores through
        self.start_scans()

    def finalize_indexing(self, indices) -> None:
        super().finalize_indexing(indices)
        self.indices = list(indices)        # where tensors are read and written
        if self.features.is_reduction():
            scans = self.features.contains_op("scan")
            self.lanes = 1 if scans and self.cpu else self.choose_lanes(indices)
            if scans and self.lanes > 1:
                self.choose_span()
            length = self.features.reduction_numel
            whole = V.graph.sizevars.statically_known_multiple_of(length, self.lanes * self.span)
            self.turns_are_whole = scans and not whole
            if self.cpu and self.lanes > 1 and isinstance(length, (int, sympy.Integer)):
                self.kept = KeptValues(int(length), self.local_memory, self.figures.local_memory // 2)

    def choose_lanes(self, indices) -> int:
        hint = V.graph.sizevars.optimization_hint
        outputs, length = hint(self.features.numel), hint(self.features.reduction_numel)
        if length <= SHORTEST or (outputs >= 16 and self.outputs_are_neighbours(indices)):
            return 1
        lanes = min(CPU_LANES if self.cpu else GPU_LANES, self.figures.max_work_group_size)
        while not self.cpu and lanes > 32 and lanes >= 2 * length:
            lanes //= 2
        return lanes

    def outputs_are_neighbours(self, indices) -> bool:
        """Whether most tensors have neighbouring outputs closer together than the elements of one reduction. Those that
        lack one of the dimensions are small beside the others, and read fast either way."""
        votes = 0
        for index in indices:
            reduced = [self.stride_of(index, tree) for tree in self.range_trees if tree.is_reduction]
            kept = [self.stride_of(index, tree) for tree in self.range_trees if not tree.is_reduction]
            if reduced and kept and reduced[0] and kept[0]:
                votes += 1 if abs(kept[0]) < abs(reduced[0]) else -1
        return votes > 0

    def stride_of(self, index, tree) -> int:
        """How far neighbouring elements of a dimension are apart; 0 if it does not matter to the index."""
        entries = [self.range_tree_nodes[s] for s in index.free_symbols if s in self.range_tree_nodes]
        entries = [e for e in entries if e.root is tree]
        if not entries:
            return 0
        fastest = min(entries, key=lambda e: V.graph.sizevars.optimization_hint(e.divisor)).symbol()
        start = {s: sympy.S.Zero for s in index.free_symbols if s in self.range_tree_nodes}
        step = index.subs({**start, fastest: sympy.S.One}) - index.subs(start)
        try:
            return int(V.graph.sizevars.optimization_hint(step))
        except (TypeError, ValueError):     # an index that was read from memory
            return 0

    @property
    def reduction_tree(self):
        return next(tree for tree in self.range_trees if tree.is_reduction)

    def reduced_dimension(self, entry) -> str:
        """The index in one of the dimensions that are reduced. Where rows hold whole turns of all lanes, lanes are in
        the same row: it is found once for them, and compilers see that they touch neighbouring elements."""
        index = self.kexpr(self.rename_indexing(entry.expr))
        inner = entry.divisor == 1
        row = entry.length if inner else entry.divisor
        if self.lanes == 1 or not V.graph.sizevars.statically_known_multiple_of(row, self.lanes):
            return index
        of_turn = re.sub(rf"\b{self.reduction_tree.name}\b", "first" if self.span > 1 else "turn", index)
        return f"{of_turn} + lane" if inner else of_turn

    # One reduction.

    def reduction(self, dtype, src_dtype, reduction_type, value):
        key = (src_dtype, reduction_type, value)
        if key not in self.cse.reduction_cache:
            self.cse.reduction_cache[key] = self.reduce(dtype, src_dtype, reduction_type, value)
        return self.cse.reduction_cache[key]

    def reduce(self, dtype, src_dtype, reduction_type, value):
        if not self.inside_reduction or self.masks:
            raise NotImplementedError("a reduction under a mask")
        values = value if isinstance(value, tuple) else (value,)
        source = types.compute_dtype(src_dtype)
        target = types.compute_dtype(dtype)
        for each in (source, target):
            self.note_dtype(each)
        if source == torch.bool and reduction_type in ("sum", "prod"):
            source = torch.int64
        if reduction_type in ("sum", "prod", "xor_sum") and not target.is_floating_point and target != torch.bool:
            source = target
        texts = [types.convert(str(v), v.dtype, source) for v in values]
        form = accumulator(reduction_type, source, texts, self.reduced_index())
        state = self.accumulate(form)
        if reduction_type in ("welford_reduce", "welford_combine"):
            return tuple(self.result(f"{state}.{field}", source, target) for field in ("mean", "squares", "weight"))
        if reduction_type == "online_softmax_reduce":
            return tuple(self.result(f"{state}.{field}", source, target) for field in ("top", "sum"))
        if reduction_type.endswith("_with_value"):
            return (self.result(f"{state}.value", source, source),
                    self.result(f"{state}.index", torch.int64, torch.int64))
        if reduction_type.endswith("_value"):
            return self.result(f"{state}.value", source, target)
        if reduction_type in ("argmax", "argmin"):
            return self.result(f"{state}.index", torch.int64, target)
        return self.result(state, source, target)

    def reduced_index(self) -> str:
        """The number of the reduced element, which decides between equal extremes."""
        return "rindex"

    def accumulate(self, form: Accumulator) -> str:
        """Writes the steps and the combination of a reduction; returns the variable of its result."""
        state = f"acc{next(self.numbers)}"
        merge = form.merge.format
        blocked = form.blocked and self.is_long()
        self.body.writeline(f"{form.kind} {state} = {form.start};")
        stepped = state
        if blocked:
            stepped = f"{state}_block"
            self.block_starts.append(f"{form.kind} {stepped} = {form.start};")
            self.blocked.append(f"{state} = {merge(state, stepped)};")
        step = f"{stepped} = {form.take.format(stepped)};"
        self.compute.writeline(f"if (live) {step}" if self.turns_are_whole else step)
        if self.lanes > 1:
            self.combine_lanes(form, state)
        return state

    def combine_lanes(self, form: Accumulator, state: str) -> None:
        shared = f"{state}_lanes"
        merge = form.merge.format
        stored = "uchar" if form.kind == "bool" else form.kind
        self.local_memory.writeline(f"__local {stored} {shared}[{self.lanes}];")
        lines = self.combines
        lines.writeline(f"{shared}[lane] = {state};")
        lines.writeline("barrier(CLK_LOCAL_MEM_FENCE);")
        if self.cpu:    # every lane adds up all of them: the same work, which the compiler does once
            lines.writelines([f"{state} = {shared}[0];", f"for (int k = 1; k < {self.lanes}; ++k)",
                              f"    {state} = {merge(state, f'{shared}[k]')};"])
            return
        lines.writelines([
            f"for (int k = {self.lanes // 2}; k > 0; k >>= 1) {{", "    if (lane < k)",
            f"        {shared}[lane] = {merge(f'{shared}[lane]', f'{shared}[lane + k]')};",
            "    barrier(CLK_LOCAL_MEM_FENCE);", "}", f"{state} = {shared}[0];"])

    def result(self, expression: str, source: torch.dtype, target: torch.dtype) -> CSEVariable:
        variable = self.cse.newvar(dtype=target)
        self.combines.writeline(
            f"const {types.c_type(target)} {variable} = {types.convert(expression, source, target)};")
        self.outside_loop.add(variable)
        return variable

    @property
    def block(self) -> int:
        """Steps of a lane after which its sums are folded into a total: about the square root of all, which keeps
        rounding errors smallest."""
        steps = V.graph.sizevars.optimization_hint(self.reduction_tree.numel) // self.lanes
        return 1 << max(4, min(8, (max(steps, 1).bit_length() + 1) // 2))

    def is_long(self) -> bool:
        return V.graph.sizevars.optimization_hint(self.reduction_tree.numel) > 4 * self.block * self.lanes

    # Stores of what is the same for all reduced elements.

    def store_kept(self, name: str, line: str) -> None:
        from torch._inductor.codegen.common import DeferredLine

        if self.features.is_reduction() and self.lanes > 1:
            line = f"if (lane == 0) {line}"
        buffer = self.kept_stores if self.features.is_reduction() else self.stores
        buffer.writeline(DeferredLine(name, line))

    # Loops.

    def codegen_body(self) -> None:
        """Moves what was written since the last time into the body: as a loop, if it was inside the reduction."""
        parts = (self.indexing_code, self.loads, self.compute, self.stores)
        pending = any(parts) or self.combines or self.kept_stores
        if not pending:
            return
        if self.inside_reduction and any(parts):
            # What else is changed may be read and written through two pointers, which hides the change from it.
            if self.kept and not set(self.mutations) - set(self.args.inplace_buffers):
                self.kept.loop(parts, self.stored)
            self.stored = set()
            self.write_loop(parts)
        else:
            for part in parts:
                self.body.splice(part)
        self.body.splice(self.combines)
        if self.kept_stores:
            if self.lanes > 1 and (self.args.inplace_buffers or self.mutations):
                # Other lanes may still have to read what lane 0 is about to overwrite.
                self.body.writeline("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);")
            self.body.splice(self.kept_stores)
        for part in (*parts, self.combines, self.kept_stores):
            part.clear()
        self.blocked.clear()
        self.block_starts.clear()

    def write_loop(self, parts) -> None:
        tree = self.reduction_tree
        length = tree.numel
        if isinstance(length, sympy.Integer):
            limit = self.kexpr(length)
        else:
            limit = "reduced_count"
            self.loop_sizes[limit] = length
        first = "0"
        body = self.body
        opened = 0
        if self.blocked:
            step = self.block * self.lanes
            body.writeline(f"for (index_t block = 0; block < {limit}; block += {step}) {{")
            body._indent += 1
            body.writeline(f"const index_t block_end = min(block + {step}, (index_t){limit});")
            body.writelines(self.block_starts)
            first, limit = "block", "block_end"
        if self.cpu and calls_at_strides("\n".join(part.getvalue() for part in parts)):
            body.writeline("#pragma clang loop vectorize(disable)")
        # All lanes take the same number of turns: compilers see neighbouring lanes at neighbouring elements.
        body.writeline(f"for (index_t turn = {first}; turn < {limit}; turn += {self.lanes * self.span}) {{")
        body._indent += 1
        whole = V.graph.sizevars.statically_known_multiple_of(length, self.lanes)
        if self.span > 1 or self.phases:
            self.write_phases(parts, limit, whole)
        else:
            element = f"turn{' + lane' if self.lanes > 1 else ''}"
            if self.turns_are_whole:
                body.writeline(f"const int live = {element} < {limit};")
                element = f"min({element}, (index_t){limit} - 1)"
            body.writeline(f"const index_t rindex = {element};")
            if self.lanes > 1 and not self.turns_are_whole and not whole:
                body.writeline(f"if (rindex < {limit}) {{")
                body._indent += 1
                opened = 1
            body.writeline(f"const index_t {tree.name} = rindex;")
            body.writeline(f"const int taken = turn / {self.lanes} + 1;")
            for part in parts:
                body.splice(part)
        for _ in range(1 + opened):
            body._indent -= 1
            body.writeline("}")
        if self.blocked:
            body.writelines(self.blocked)
            body._indent -= 1
            body.writeline("}")
        self.cse.invalidate(self.outside_loop)
        tree.cache_clear()


def calls_at_strides(loop: str) -> bool:
    """Whether a loop calls functions and reads elements that are not neighbours: Intel's compiler for CPUs ends the
    process with an error of its own where it makes vectors of some of these (a sum of fmod)."""
    calls = set(re.findall(r"\b([a-z_]\w*)\(", loop)) - {"fabs", "min", "max"}
    return bool(calls) and re.search(r"\[[^\]]*\*", loop) is not None


def accumulator(reduction_type: str, dtype: torch.dtype, values: list[str], index: str) -> Accumulator:
    """How a reduction is made. In `take` and `merge` {0} is the state, in `merge` {1} the other one."""
    kind = types.c_type(dtype)
    x = values[0]

    def start(name: str = reduction_type) -> str:
        return types.literal(ir.Reduction.default_accumulator(name, dtype), dtype)

    def operator(form: str, begin: str, blocked: bool = False) -> Accumulator:
        return Accumulator(kind, begin, form.format("{0}", x), form, blocked)

    if reduction_type == "sum":
        if dtype in (torch.int32, torch.int64):     # wrapping
            unsigned = types.UNSIGNED[dtype]
            return operator(f"({kind})(({unsigned}){{0}} + ({unsigned}){{1}})", "0")
        return operator("{0} + {1}", "0", dtype.is_floating_point)
    if reduction_type == "prod":
        if dtype in (torch.int32, torch.int64):
            unsigned = types.UNSIGNED[dtype]
            return operator(f"({kind})(({unsigned}){{0}} * ({unsigned}){{1}})", "1")
        return operator("{0} * {1}", "1")
    if reduction_type in ("max", "min"):
        return operator(f"{reduction_type}imum_{kind}({{0}}, {{1}})", start())
    if reduction_type == "fmax":
        return operator("fmax({0}, {1})", start("max"))
    if reduction_type == "any":
        return operator("({0} || {1})", "false")
    if reduction_type == "xor_sum":
        return operator("({0} ^ {1})", "0")
    if reduction_type.startswith(("argmax", "argmin")):
        name = reduction_type[3:6]
        state = f"place_{kind}"
        return Accumulator(state, f"{{{start(name)}, LONG_MAX}}",
                           f"place_{name}_{kind}({{0}}, ({state}){{{{{x}, {index}}}}})",
                           f"place_{name}_{kind}({{0}}, {{1}})")
    if reduction_type == "welford_reduce":
        return Accumulator(f"moments_{kind}", "{0, 0, 0}", f"moments_take_{kind}({{0}}, {x}, taken)",
                           f"moments_merge_{kind}({{0}}, {{1}})")
    if reduction_type == "welford_combine":
        other = f"(moments_{kind}){{{{{', '.join(values)}}}}}"
        return Accumulator(f"moments_{kind}", "{0, 0, 0}", f"moments_merge_{kind}({{0}}, {other})",
                           f"moments_merge_{kind}({{0}}, {{1}})")
    if reduction_type == "online_softmax_reduce":
        merge = f"softmax_merge_{kind}({{0}}, {{1}})"
        return Accumulator(f"softmax_{kind}", f"{{-({kind})INFINITY, 0}}",
                           f"softmax_merge_{kind}({{0}}, (softmax_{kind}){{{{{x}, 1}}}})", merge)
    raise NotImplementedError(f"the ocl device's code generator has no reduction {reduction_type}")
