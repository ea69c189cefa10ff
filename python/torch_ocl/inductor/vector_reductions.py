"""Reductions of rows in vectors: the loops of VectorKernel (vectors.py), and what its work-items find in them.

A work-item reduces a row, several vectors in a turn. Where a row is cut into planes of elements that lie side by side
(a channel of several images), a loop over planes is around the turns, and the last vector of each may have fewer
elements.
"""

from __future__ import annotations

import sympy

import torch
from torch._inductor.virtualized import V
from torch.utils._sympy.symbol import free_symbol_is_type, SymT

from torch_ocl.inductor import types
from torch_ocl.inductor.kept import LARGEST, KeptValues
from torch_ocl.inductor.ranges import row_of
from torch_ocl.inductor.vector_overrides import convert, in_lanes, NotVectors, vector_type, WIDTH

AT_ONCE = 4             # vectors of a row whose sums are kept apart
ALL_AT_ONCE = 8         # vectors of a short row, which need no loop
AHEAD = 16 << 10        # bytes between a row and the one that is fetched meanwhile
FARTHEST = 128 << 10    # bytes of a row from which on that one would push others out of the cache
LINE = 64               # bytes of a processor's line of memory
LONG_PLANE = 256        # elements from which on whole vectors have a loop for every plane, which divides nothing
FOLDS = {"sum": "{0} + {1}", "prod": "{0} * {1}", "max": "maximum_{2}({0}, {1})", "min": "minimum_{2}({0}, {1})",
         "any": "{0} | {1}"}


class VectorReductions:
    """The part of VectorKernel that reduces."""

    def start_rows(self) -> None:
        self.plane = 0                              # elements of a plane, where rows are cut into some
        self.loops = 0
        self.rows: dict[str, tuple] = {}            # pointers that the first loop reads rows of: index and dtype
        self.fetches: list[str] = []                # lines of a turn that ask for later rows
        self.counts = False                         # whether a loop counts its turns, which Welford's formula needs

    def finalize_indexing(self, indices) -> None:
        super().finalize_indexing(indices)
        if not self.in_rows:
            return
        if self.lanes == 1:
            raise NotVectors("outputs lie side by side")
        self.lanes = 1
        length = self.features.reduction_numel
        if isinstance(length, (int, sympy.Integer)):
            self.plane = self.plane_of(indices, int(length))
            vectors, place = -(-int(length) // WIDTH), f"rindex / {WIDTH}"
            if self.plane:
                of_plane = -(-self.plane // WIDTH)
                vectors, place = int(length) // self.plane * of_plane, f"plane * {of_plane} + column / {WIDTH}"
            self.kept = KeptValues(vectors * WIDTH, self.local_memory, LARGEST, WIDTH, place)

    def plane_of(self, indices, length: int) -> int:
        """How many neighbouring elements of a row no index takes apart; 0 where that are all of them, or where vectors
        that know nothing of planes do not end in another one than they begin in."""
        symbols = {s for index in indices for s in index.free_symbols if s in self.range_tree_nodes}
        entries = [self.range_tree_nodes[s] for s in symbols if self.range_tree_nodes[s].root.is_reduction]
        plane = row_of(entries, sympy.Integer(length))
        if not isinstance(plane, (int, sympy.Integer)) or plane % WIDTH == 0 and plane < LONG_PLANE:
            return 0
        return int(plane)

    def reduced_dimension(self, entry) -> str:
        if not self.plane:
            return super().reduced_dimension(entry)
        if entry.divisor == 1:
            planes = int(entry.length) // self.plane
            return "column" if planes == 1 else f"plane % {planes} * {self.plane} + column"
        planes = int(entry.divisor) // self.plane
        return f"{f'plane / {planes}' if planes > 1 else 'plane'} % {int(entry.length)}"

    def reduce(self, dtype, src_dtype, reduction_type, value):
        if not self.in_vectors or self.masks:
            raise NotVectors(reduction_type)
        if reduction_type == "welford_reduce":
            return self.moments(types.compute_dtype(dtype), types.compute_dtype(src_dtype), value)
        if reduction_type not in FOLDS:
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
        return self.found(convert(fold, source, target), target)

    def scan(self, dtypes, combine_fn, values):
        raise NotVectors("scan")

    def found(self, expression: str, dtype: torch.dtype):
        """A variable for what a row's vectors have together."""
        variable = self.cse.newvar(dtype=dtype)
        self.combines.writeline(f"const {types.c_type(dtype)} {variable} = {expression};")
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

    def moments(self, target: torch.dtype, source: torch.dtype, value) -> tuple:
        """Welford's formula in every lane: the mean, the sum of squares of what it leaves, and how many elements.

        A loop's vectors are of three sorts: those of whole turns, single ones, and last ones with fewer elements. Each
        has variables of its own, so that all lanes of one have taken equally many elements."""
        length = self.reduction_tree.numel
        if source != target or not source.is_floating_point or not isinstance(length, sympy.Integer):
            raise NotVectors(f"moments of {source}")
        self.note_dtype(source)
        self.counts = True
        kind, number = vector_type(source), types.c_type(source)
        state = f"acc{next(self.numbers)}"
        sorts = self.at_once + 2
        of_sort = [f"taken{self.loops + 1}[{min(max(k - self.at_once + 1, 0), 2)}]" for k in range(sorts)]
        rest = (self.plane or int(length)) % WIDTH
        self.body.writelines([f"{kind} {state}_mean[{sorts}], {state}_squares[{sorts}];",
                              f"for (int k = 0; k < {sorts}; ++k)", f"    {state}_mean[k] = {state}_squares[k] = 0;"])
        value = in_lanes(value, source)
        self.compute.writelines([
            f"const {kind} {state}_away = {value} - {state}_mean[k + sort];",
            f"{state}_mean[k + sort] += {state}_away * (({number})1 / ({number})turns);",
            f"{state}_squares[k + sort] += {state}_away * ({value} - {state}_mean[k + sort]);"])

        def together(form: str) -> str:
            """The sum over all lanes of a product with how many elements they took; form: of one's variables."""
            terms = [f"({number}){count} * {form.format(k=k)}" for k, count in enumerate(of_sort)]
            terms[-1] = f"taken_{kind}(({kind})(0), {terms[-1]}, {rest})"
            return f"fold_sum_{kind}({' + '.join(terms)})"

        lines, mean = self.combines, f"{state}_all"
        lines.writeline(f"const {number} {state}_start = {state}_mean[0].s0;")
        lines.writeline(f"const {number} {mean} = {state}_start + {together(f'({state}_mean[{{k}}] - {state}_start)')} "
                        f"/ ({number}){int(length)};")
        squares = " + ".join(f"{state}_squares[{k}]" for k in range(sorts - 1))
        squares += f" + taken_{kind}(({kind})(0), {state}_squares[{sorts - 1}], {rest})"
        apart = f"({state}_mean[{{k}}] - {mean}) * ({state}_mean[{{k}}] - {mean})"
        return (self.found(mean, target), self.found(f"fold_sum_{kind}({squares}) + {together(apart)}", target),
                self.found(f"{int(length)}", target))

    @property
    def at_once(self) -> int:
        """Vectors of a turn."""
        length = sympy.Integer(self.plane) if self.plane else self.reduction_tree.numel
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
        """Turns of `at_once` vectors, then single ones, then the last with fewer elements; so in every plane."""
        self.loops += 1
        self.fetches = self.later_rows() if self.loops == 2 and not self.plane else []
        if self.counts:
            self.body.writeline(f"int taken{self.loops}[3] = {{0, 0, 0}};")
        if self.plane:
            self.write_planes(parts)
        else:
            self.write_row(parts)
        self.counts = False
        self.cse.invalidate(self.outside_loop)
        self.reduction_tree.cache_clear()

    def write_planes(self, parts) -> None:
        whole, vectors = self.plane // self.step * self.step, self.plane // WIDTH * WIDTH
        count, first, limit = int(self.reduction_tree.numel) // self.plane, "0", None
        if self.blocked:
            size = max(1, self.block * self.step // self.plane)
            first, limit = "block", "block_end"
            self.open(f"for (index_t block = 0; block < {count}; block += {size}) {{",
                      f"const index_t block_end = min(block + {size}, (index_t){count});", *self.block_starts)
        self.open(f"for (index_t plane = {first}; plane < {limit or count}; ++plane) {{")
        self.write_turns("0", whole, self.at_once, str(WIDTH), parts)
        self.write_rest(whole, vectors, self.plane, parts)
        self.close()
        if self.blocked:
            self.close(*self.blocked)

    def write_row(self, parts) -> None:
        step, length = self.step, self.reduction_tree.numel
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
            self.write_rest(whole, vectors, int(length), parts)
        if self.blocked:
            self.close(*self.blocked)

    def write_rest(self, whole: int, vectors: int, length: int, parts) -> None:
        """What whole turns have left: single vectors, and a last one."""
        if whole < vectors:
            self.write_turns(whole, vectors, 1, str(WIDTH), parts, sort=1)
        if vectors < length:
            self.write_turns(vectors, length, 1, str(length - vectors), parts, sort=2)

    def write_turns(self, first, limit, at_once: int, elements: str, parts, sort: int = 0) -> None:
        """A loop of `at_once` vectors a turn, of so many elements each. sort: see moments()."""
        self.open(f"for (index_t turn = {first}; turn < {limit}; turn += {WIDTH * at_once}) {{")
        if self.counts:
            self.body.writelines([f"const int turns = ++taken{self.loops}[{sort}];",
                                  f"const int sort = {self.at_once + sort - 1 if sort else 0};"])
        place = "column" if self.plane else "rindex"
        if at_once > 1:
            self.body.writeline("#pragma unroll")
            self.open(f"for (int k = 0; k < {at_once}; ++k) {{", f"const index_t {place} = turn + {WIDTH} * k;")
        else:
            self.body.writelines(["const int k = 0;", f"const index_t {place} = turn;"])
        if self.plane:
            self.body.writeline(f"const index_t rindex = plane * {self.plane} + column;")
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
            if free_symbol_is_type(index, (SymT.TMP, SymT.INDIRECT)):     # read from memory, further down in the turn
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


def _start(reduction_type: str, dtype: torch.dtype):
    return {"sum": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf"), "any": False}[reduction_type]
