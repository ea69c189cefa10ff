"""Kernels for CPUs in explicit vectors of 16 elements (vectors.cl).

Compilers make vectors of neighbouring work-items by themselves, but results that they write that way never go past the
cache, and lanes of a reduction that meet in local memory cost more than they compute. Here a work-item computes a
vector of neighbouring elements, or a whole row that is reduced, several vectors at a time. What all lanes share (a
number, a bias of the row) stays a number until it meets a vector.

A kernel is written so if all it does has a form of vectors: tensors lie along the lanes element by element or are the
same for all of them. What has none raises NotVectors, and the kernel is written for single elements (scheduling.py).
"""

from __future__ import annotations

import contextlib

import sympy

import torch
from torch._inductor.codegen.common import CSEVariable, DeferredLine
from torch._inductor.virtualized import V

from torch_ocl.inductor import types
from torch_ocl.inductor.kept import LARGEST, KeptValues
from torch_ocl.inductor.kernel import is_number, OpenCLKernel
from torch_ocl.inductor.reductions import SHORTEST
from torch_ocl.inductor.runtime import last_cache, Ranges
from torch_ocl.inductor.vector_overrides import (convert, in_lanes, is_same, NotVectors, Same, VectorOverrides,
                                                 vector_type, WIDTH)

AT_ONCE = 4             # vectors of a row whose sums are kept apart
ALL_AT_ONCE = 8         # vectors of a short row, which need no loop
AHEAD = 16 << 10        # bytes between a row and the one that is fetched meanwhile
FARTHEST = 128 << 10    # bytes of a row from which on that one would push others out of the cache
LINE = 64               # bytes of a processor's line of memory
LARGEST_ELEMENT = 8     # bytes
FOLDS = {"sum": "{0} + {1}", "prod": "{0} * {1}", "max": "maximum_{2}({0}, {1})", "min": "minimum_{2}({0}, {1})",
         "any": "{0} | {1}"}


class VectorKernel(OpenCLKernel):
    overrides = VectorOverrides
    width = WIDTH

    def __init__(self, tiling, **kwargs):
        super().__init__(tiling, **kwargs)
        self.in_rows = self.features.is_reduction()
        self.width = 1 if self.in_rows else WIDTH
        self.same: set[CSEVariable] = set()         # variables that are numbers
        self.numbers_only = 0
        self.past_cache = False                     # whether a result goes there
        self.places: dict[CSEVariable, tuple] = {}  # indices of lanes: the first one, and what it is over a multiple
        self.loops = 0
        self.rows: dict[str, tuple] = {}            # pointers that the first loop reads rows of: index and dtype
        self.fetches: list[str] = []                # lines of a turn that ask for later rows

    @staticmethod
    def suits(features) -> bool:
        """Whether a kernel may be written in vectors at all. Where no result of elementwise operations can go past the
        cache nothing is written in vectors first, which would be as much work again."""
        device = V.graph.get_current_device_or_throw()
        if Ranges.of(device.index or 0).figures.kind != "cpu":
            return False
        hint = V.graph.sizevars.optimization_hint
        if features.is_reduction():
            return hint(features.reduction_numel) > SHORTEST
        return hint(features.numel) >= WIDTH and is_large(hint(features.numel) * LARGEST_ELEMENT)

    # What is a vector.

    @property
    def in_vectors(self) -> bool:
        """Whether what is written now is about all lanes: in a row's kernel, the loops over it."""
        return not self.numbers_only and (self.inside_reduction or not self.in_rows)

    @contextlib.contextmanager
    def of_numbers(self):
        """What is written under it is the same for all lanes."""
        self.numbers_only += 1
        try:
            yield
        finally:
            self.numbers_only -= 1

    @property
    def lane_tree(self):
        return next(tree for tree in self.range_trees if tree.is_reduction == self.in_rows)

    def type_of(self, expression, dtype: torch.dtype) -> str:
        return types.c_type(dtype) if self.is_number(expression) else vector_type(dtype)

    def is_number(self, expression) -> bool:
        return isinstance(expression, Same) or not self.in_vectors

    def note_variable(self, variable: CSEVariable, expression=None) -> None:
        super().note_variable(variable)
        if self.is_number(expression):
            self.same.add(variable)

    def lane_step(self, index: sympy.Expr) -> int:
        """How far an index moves from lane to lane."""
        moving = {}
        for symbol in index.free_symbols:
            entry = self.range_tree_nodes.get(symbol)
            if entry is None or entry.root is not self.lane_tree:
                continue
            if entry.divisor != 1:
                whole = entry.divisor
            else:
                moving[symbol] = symbol + 1
                whole = entry.length
            if entry.divisor != 1 or not V.graph.sizevars.statically_known_equals(whole, entry.root.numel):
                if not V.graph.sizevars.statically_known_multiple_of(whole, WIDTH):
                    raise NotVectors("a vector would go over a row's end")
        step = sympy.S.Zero
        if moving:
            step = (index.subs(moving, simultaneous=True) - index).expand(identity=True)
        if not isinstance(step, sympy.Integer):
            raise NotVectors("lanes are not evenly apart")
        return int(step)

    def check(self) -> None:
        """Once all is written. Compilers make vectors of single elements, too: those of a work-item's own pay for rows,
        and where results go past the cache."""
        if not (self.in_rows or self.past_cache):
            raise NotVectors("results for the cache")

    # Loads and stores.

    def load(self, name: str, index: sympy.Expr) -> CSEVariable:
        if not self.in_vectors:
            return super().load(name, index)
        prepared = self.prepare_indexing(index)
        step = 0 if is_number(name) else self.lane_step(prepared)
        if step == 0:
            with self.of_numbers():
                return super().load(name, index)
        if step != 1:
            raise NotVectors("elements are apart")
        variable = self.args.input(name)
        dtype = V.graph.get_dtype(name)
        self.note_dtype(dtype)
        vector_type(types.compute_dtype(dtype))
        if self.in_rows and not self.loops and not self.masks:
            self.rows.setdefault(str(variable), (prepared, dtype))
        line = f"load16_{types.MEMORY_NAMES[dtype]}({variable}, {self.index_to_str(prepared)}, part)"
        return self.cse.generate(self.loads, line, dtype=types.compute_dtype(dtype))

    def store(self, name: str, index: sympy.Expr, value: CSEVariable, mode=None) -> None:
        if not self.in_vectors:
            return super().store(name, index, value, mode)
        if mode is not None:
            raise NotVectors(mode)
        variable = self.args.output(name)
        dtype = V.graph.get_dtype(name)
        self.note_dtype(dtype)
        index = self.prepare_indexing(index)
        if self.lane_step(index) != 1:
            raise NotVectors("elements are apart")
        streams = self.streams(name, variable, dtype)
        self.past_cache = self.past_cache or streams
        call = "stream16" if streams else "store16"
        line = (f"{call}_{types.MEMORY_NAMES[dtype]}({variable}, {self.index_to_str(index)}, "
                f"{in_lanes(value, dtype)}, part);")
        checks = [self.checks[s.name] for s in sorted(index.free_symbols, key=str) if s.name in self.checks]
        if checks:
            line = f"if ({' && '.join(checks)}) {line}"
        self.stored.add(str(variable))
        self.stores.writeline(DeferredLine(name, line))

    def streams(self, name: str, pointer: str, dtype: torch.dtype) -> bool:
        """Whether a result goes past the cache, as a copy would: large ones are seldom read from there."""
        if name in self.mutations or not pointer.startswith("out_ptr"):
            return False
        size = V.graph.sizevars.optimization_hint(self.lane_tree.numel) * dtype.itemsize
        if self.in_rows:
            size *= V.graph.sizevars.optimization_hint(self.features.numel)
        return is_large(size)

    def masked(self, mask, body, other):
        if self.in_vectors and not is_same(mask):
            raise NotVectors("a mask of lanes")
        return super().masked(mask, body, other)

    def alternatives(self, variable: CSEVariable, *values) -> tuple[str, ...]:
        if not self.in_vectors or all(is_same(value) for value in values):
            self.same.add(variable)
            return super().alternatives(variable, *values)
        return vector_type(variable.dtype), *(in_lanes(value, variable.dtype) for value in values)

    def device_assert_async(self, cond, msg) -> None:
        raise NotVectors("assertions")

    # Reductions.

    def finalize_indexing(self, indices) -> None:
        super().finalize_indexing(indices)
        if not self.in_rows:
            return
        if self.lanes == 1:
            raise NotVectors("outputs lie side by side")
        self.lanes = 1
        length = self.features.reduction_numel
        if isinstance(length, (int, sympy.Integer)):
            self.kept = KeptValues(int(length), self.local_memory, LARGEST, WIDTH)

    def reduce(self, dtype, src_dtype, reduction_type, value):
        if not self.in_vectors or self.masks or reduction_type not in FOLDS:
            raise NotVectors(reduction_type)
        source, target = types.compute_dtype(src_dtype), types.compute_dtype(dtype)
        if reduction_type == "any":
            source = torch.bool
        elif source != target or not source.is_floating_point:
            raise NotVectors(f"{reduction_type} of {source}")
        self.note_dtype(source)
        kind = vector_type(source)
        start = in_lanes(_start(reduction_type, source), source)
        state = self.accumulate_vectors(kind, start, FOLDS[reduction_type], in_lanes(value, source))
        fold = f"any({state}) != 0" if reduction_type == "any" else f"fold_{reduction_type}_{kind}({state})"
        variable = self.cse.newvar(dtype=target)
        self.combines.writeline(f"const {types.c_type(target)} {variable} = {convert(fold, source, target)};")
        self.outside_loop.add(variable)
        self.same.add(variable)
        return variable

    def accumulate_vectors(self, kind: str, start: str, form: str, value: str) -> str:
        """Writes the steps of a reduction of vectors; returns the vector of its results."""
        state = f"acc{next(self.numbers)}"
        every = range(self.at_once)

        def merged(names: list[str]) -> str:
            if len(names) == 1:
                return names[0]
            half = len(names) // 2
            return f"({form.format(merged(names[:half]), merged(names[half:]), kind)})"

        self.body.writeline(f"{kind} {state}[{self.at_once}] = {{{', '.join([start] * self.at_once)}}};")
        stepped = state
        if form == FOLDS["sum"] and self.is_long():
            stepped = f"{state}_block"
            self.block_starts.append(f"{kind} {stepped}[{self.at_once}] = {{{', '.join([start] * self.at_once)}}};")
            self.blocked += [f"{state}[{k}] = {form.format(f'{state}[{k}]', f'{stepped}[{k}]', kind)};" for k in every]
        step = form.format(f"{stepped}[k]", value, kind)
        self.compute.writeline(f"{stepped}[k] = taken_{kind}({stepped}[k], {step}, part);")
        self.combines.writeline(f"const {kind} {state}_all = {merged([f'{state}[{k}]' for k in every])};")
        return f"{state}_all"

    @property
    def at_once(self) -> int:
        """Vectors of a turn."""
        length = self.reduction_tree.numel
        vectors = V.graph.sizevars.optimization_hint(length) // WIDTH
        if isinstance(length, sympy.Integer) and vectors <= ALL_AT_ONCE:
            return vectors
        if vectors >= 4 * AT_ONCE:
            return AT_ONCE
        return next(n for n in (AT_ONCE, 2, 1) if vectors % n == 0)

    @property
    def step(self) -> int:
        """Elements of a turn."""
        return WIDTH * self.at_once

    def write_loop(self, parts) -> None:
        """Turns of `at_once` vectors, then single ones, then the last with fewer elements."""
        self.loops += 1
        self.fetches = self.later_rows() if self.loops == 2 else []
        tree, step = self.reduction_tree, self.step
        length = tree.numel
        if isinstance(length, sympy.Integer):
            limit, whole, vectors = self.kexpr(length), int(length) // step * step, int(length) // WIDTH * WIDTH
        else:
            limit, whole, vectors = "reduced_count", f"reduced_count / {step} * {step}", None
            self.loop_sizes[limit] = length
        if self.blocked:
            size = self.block * step
            self.open(f"for (index_t block = 0; block < {whole}; block += {size}) {{",
                      f"const index_t block_end = min(block + {size}, (index_t)({whole}));", *self.block_starts)
            self.write_turns("block", "block_end", self.at_once, str(WIDTH), parts)
            self.close(*self.blocked)
            self.open("{", *self.block_starts)
        else:
            self.write_turns("0", whole, self.at_once, str(WIDTH), parts)
        if vectors is None:
            self.write_turns(whole, limit, 1, f"min((index_t){WIDTH}, (index_t){limit} - turn)", parts)
        else:
            if whole < vectors:
                self.write_turns(whole, vectors, 1, str(WIDTH), parts)
            if vectors < int(length):
                self.write_turns(vectors, limit, 1, str(int(length) - vectors), parts)
        if self.blocked:
            self.close(*self.blocked)
        self.cse.invalidate(self.outside_loop)
        tree.cache_clear()

    def write_turns(self, first, limit, at_once: int, elements: str, parts) -> None:
        """A loop of `at_once` vectors a turn, of so many elements each."""
        self.open(f"for (index_t turn = {first}; turn < {limit}; turn += {WIDTH * at_once}) {{")
        if at_once > 1:
            self.body.writeline("#pragma unroll")
            self.open(f"for (int k = 0; k < {at_once}; ++k) {{", f"const index_t rindex = turn + {WIDTH} * k;")
        else:
            self.body.writelines(["const int k = 0;", "const index_t rindex = turn;"])
        self.body.writelines([f"const index_t {self.reduction_tree.name} = rindex;", f"const int part = {elements};"])
        self.body.writelines(self.fetches)
        for part in parts:
            self.body.splice(part)
        for _ in range(1 + (at_once > 1)):
            self.close()

    def later_rows(self) -> list[str]:
        """The second pass over a row finds it in the cache, and memory idle: it asks for what the first pass over a
        later row will read. A processor's own prefetching begins anew with that."""
        lines = []
        hint = V.graph.sizevars.optimization_hint
        for pointer, (index, dtype) in self.rows.items():
            size = hint(self.reduction_tree.numel) * dtype.itemsize
            moving = {tree.is_reduction: [s for s in index.free_symbols if s in self.range_tree_nodes
                                          and self.range_tree_nodes[s].root is tree] for tree in self.range_trees}
            if size > FARTHEST or len(moving[True]) != 1 or not moving.get(False):
                continue
            (element,) = moving[True]
            row = index.subs(element, 0)
            if (index - row).expand() != element:
                continue
            number = min(moving[False], key=lambda s: hint(self.range_tree_nodes[s].divisor))
            place = self.index_to_str(row.subs(number, number + max(1, AHEAD // size)))
            lines += [f"PREFETCH({pointer} + ({place}) + rindex{f' + {at}' if at else ''});"
                      for at in range(0, WIDTH, LINE // dtype.itemsize)]
        return lines

    def open(self, *lines: str) -> None:
        self.body.writeline(lines[0])
        self.body._indent += 1
        self.body.writelines(lines[1:])

    def close(self, *lines: str) -> None:
        self.body.writelines(lines)
        self.body._indent -= 1
        self.body.writeline("}")

    @property
    def block(self) -> int:
        turns = V.graph.sizevars.optimization_hint(self.reduction_tree.numel) // self.step
        return 1 << max(4, min(8, (max(turns, 1).bit_length() + 1) // 2))

    def is_long(self) -> bool:
        return V.graph.sizevars.optimization_hint(self.reduction_tree.numel) > 4 * self.block * self.step

    # The text.

    @staticmethod
    def part(first: str, limit: str, length) -> str:
        """How many elements the vector at `first` has, in rows of a length."""
        if length is not None and V.graph.sizevars.statically_known_multiple_of(sympy.sympify(length), WIDTH):
            return f"const int part = {WIDTH};"
        return f"const int part = min((index_t){WIDTH}, (index_t)({limit}) - {first});"

    def attribute(self) -> str:
        # The hint has a compiler leave a work-item's vectors as they are.
        return f"__attribute__((vec_type_hint(float{WIDTH}))) "

    def prologue(self) -> str:
        # As the library's own kernels: VNNI stands for an x86 processor that is the host's.
        fetches = '#define X86_PREFETCH\n' * (self.figures.vnni_bytes > 0) + '#include "core/prefetch.cl"\n'
        return super().prologue() + fetches + "CLPRIM_VECTORS\n"


def is_large(size: int) -> bool:
    """Whether a result of so many bytes goes past the cache: it fills much of it."""
    return size >= last_cache() // 4


def _start(reduction_type: str, dtype: torch.dtype):
    return {"sum": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf"), "any": False}[reduction_type]
