"""How a kernel's elements are shared out among work-items.

Elementwise kernels: a work-item computes an element. Where the fused operations take the linear index apart, the
fastest dimension becomes the first of the range and everything else the second, so that what is the same in a row is
computed once for it and neighbouring work-items touch neighbouring elements, which compilers need to see to make
vectors. Only where rows are short, or do not fit each other, indices are divided element by element. Where a tensor is
read or written across its own rows, work-groups are tiles of 16 columns.

Reductions: see reductions.py.
"""

from __future__ import annotations

import dataclasses

import sympy

import torch
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv

SHORTEST_ROW = 16


@dataclasses.dataclass
class Work:
    header: list[str]                  # lines that find the work-item's element
    lanes: int                         # work-items of a work-group that own an output together
    sizes: dict[str, sympy.Expr]       # arguments that only the header needs
    kind: str                          # of the range, see runtime.py
    numbers: list[sympy.Expr]
    start: tuple[str, ...] = ()        # the header's first lines, where a work-item computes the element of its number

    @property
    def combinable(self) -> bool:
        """Whether the kernel can be a function of the element's number (combination.py)."""
        return bool(self.start) and not self.sizes


def _same(a, b) -> bool:
    return V.graph.sizevars.statically_known_equals(a, b)


def _multiple(a, b) -> bool:
    return V.graph.sizevars.statically_known_multiple_of(a, b)


def plan_work(kernel) -> Work:
    trees = [t for t in kernel.range_trees if not t.is_reduction]
    assert len(trees) <= 1, "elements are numbered linearly"
    tree = trees[0] if trees else None
    numel = tree.numel if tree else sympy.S.One
    if kernel.features.is_reduction():
        return _reduction(kernel, tree, numel)
    entries = list(kernel.entries.values())
    row = row_of(entries, numel)
    return _rows(kernel, entries, numel, row) if row is not None else _linear(kernel, tree, entries, numel)


def _size(kernel, sizes: dict, name: str, value: sympy.Expr) -> str:
    """A size in the kernel's text: a constant, or an argument."""
    value = V.graph.sizevars.simplify(value)
    if isinstance(value, (int, sympy.Integer)):
        return kernel.kexpr(sympy.Integer(value))
    sizes[name] = value
    return name


def row_of(entries, numel) -> sympy.Expr | None:
    """The length of the rows that the elements are cut into; None: they are not."""
    lengths = [e.length for e in entries if e.divisor == 1 and not _same(e.length, numel)]
    lengths += [e.divisor for e in entries if e.divisor != 1]
    hint = V.graph.sizevars.optimization_hint
    if not lengths:
        return None
    row = min(lengths, key=hint)
    if hint(row) < SHORTEST_ROW or not _multiple(numel, row):
        return None
    for e in entries:
        fits = _multiple(e.length, row) if e.divisor == 1 else _multiple(e.divisor, row)
        if not fits:
            return None
    return row


def _linear(kernel, tree, entries, numel) -> Work:
    sizes: dict[str, sympy.Expr] = {}
    limit = _size(kernel, sizes, "element_count", numel)
    start = _own_element(limit, kernel.width)
    header = [f"const index_t {e.name} = {kernel.kexpr(kernel.rename_indexing(e.expr))};" for e in entries]
    if kernel.width > 1:
        header.append(kernel.part("xindex", limit, numel))
    return Work([*start, *header], 1, sizes, "linear", [_vectors(kernel, numel)], start)


def _own_element(limit: str, width: int = 1) -> tuple[str, ...]:
    return f"const index_t xindex = {_item(0, width)};", f"if (xindex >= {limit})", "    return;"


def _item(dimension: int, width: int) -> str:
    """The first element of a work-item."""
    return f"get_global_id({dimension})" + (f" * {width}" if width > 1 else "")


def _vectors(kernel, elements: sympy.Expr) -> sympy.Expr:
    """How many work-items elements take."""
    return FloorDiv(elements + kernel.width - 1, kernel.width) if kernel.width > 1 else elements


def _rows(kernel, entries, numel, row) -> Work:
    sizes: dict[str, sympy.Expr] = {}
    length = _size(kernel, sizes, "row_length", row)
    count = _size(kernel, sizes, "row_count", FloorDiv(numel, row))
    header = [f"const index_t column = {_item(0, kernel.width)}, row = get_global_id(1);",
              f"if (column >= {length} || row >= {count})", "    return;"]
    hint = V.graph.sizevars.optimization_hint
    number = 0

    def size(value) -> str:
        nonlocal number
        number += 1
        return _size(kernel, sizes, f"row_size{number}", value)

    def divided(of, by) -> str:
        quotient = V.graph.sizevars.simplify(FloorDiv(by, row))
        return of if quotient == 1 else f"({of} / {size(quotient)})"

    for e in entries:
        if e.divisor == 1 and _same(e.length, row):
            value = "column"
        elif e.divisor == 1:
            rows = "row"
            if not _same(e.length, numel):
                rows = f"(row % {size(V.graph.sizevars.simplify(FloorDiv(e.length, row)))})"
            value = f"{rows} * {length} + column"
        else:
            value = divided("row", e.divisor)
            if not _same(e.divisor * e.length, numel):
                value = f"{value} % {size(e.length)}"
        header.append(f"const index_t {e.name} = {value};")
    kind = "tiles" if any(_lies_across(kernel, index, hint(row)) for index in kernel.indices) else "rows"
    if kernel.width > 1:
        header.append(kernel.part("column", length, row))
    return Work(header, 1, sizes, kind, [_vectors(kernel, row), FloorDiv(numel, row)])


def _lies_across(kernel, index, row: int) -> bool:
    """Whether elements of neighbouring rows lie closer together than neighbours of a row."""
    hint = V.graph.sizevars.optimization_hint
    entries = [kernel.range_tree_nodes[s] for s in index.free_symbols if s in kernel.range_tree_nodes]

    def place(element: int):
        return index.subs({e.symbol(): element // hint(e.divisor) % hint(e.length) for e in entries})

    try:
        start = place(0)
        column, next_row = (abs(int(hint(place(element) - start))) for element in (1, row))
    except (TypeError, ValueError):     # an index that was read from memory
        return False
    return 0 < next_row < column


def _reduction(kernel, tree, numel) -> Work:
    sizes: dict[str, sympy.Expr] = {}
    entries = list(kernel.entries.values())
    lanes = kernel.lanes
    if lanes > 1:
        header = ["const index_t xindex = get_group_id(0);", "const index_t lane = get_local_id(0);"]
        kind, start = "groups", ()
    else:
        start = _own_element(_size(kernel, sizes, "element_count", numel))
        header, kind = [*start], "outputs"
    header += [f"const index_t {e.name} = {kernel.kexpr(kernel.rename_indexing(e.expr))};" for e in entries]
    numbers = [numel, sympy.Integer(lanes)] if lanes > 1 else [numel]
    if kernel.in_rows:
        kind, numbers = "items", [numel, kernel.features.reduction_numel]
    return Work(header, lanes, sizes | kernel.loop_sizes, kind, numbers, start)
