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
from torch_ocl.inductor.kernel import is_number, OpenCLKernel
from torch_ocl.inductor.reductions import SHORTEST
from torch_ocl.inductor.runtime import last_cache, Ranges
from torch_ocl.inductor.vector_overrides import in_lanes, is_same, NotVectors, Same, VectorOverrides, vector_type, WIDTH
from torch_ocl.inductor.vector_reductions import VectorReductions

LARGEST_ELEMENT = 8     # bytes


class VectorKernel(VectorReductions, OpenCLKernel):
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
        self.start_rows()

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
    def together(self) -> int:
        """The vectors of so many elements begin with the first of them."""
        return self.plane or WIDTH

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
                if not V.graph.sizevars.statically_known_multiple_of(whole, self.together):
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
