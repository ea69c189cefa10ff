"""What is computed anew wherever it is used, and what is written to memory once."""

from __future__ import annotations

from unittest.mock import patch

import sympy

import torch
from torch._inductor import config, ir
from torch._inductor.dependencies import MemoryDep
from torch._inductor.ops_handler import MockHandler, OpCounterCSE
from torch._inductor.utils import cache_on_self, sympy_product
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from torch_ocl.inductor import versions

LARGEST_INLINE = 80     # operations of an expression that is computed anew wherever it is used
LONGEST_TRACED = 320    # the same when what is used twice in an expression counts twice
MOST_DIVISIONS = 128    # in its indices


class _Numbered(MockHandler):
    """Writes indices as numbers, which takes a fraction of the time of printing them."""

    def __init__(self):
        super().__init__()
        self.numbers: dict[sympy.Expr, str] = {}

    def _default(self, name, args, kwargs):
        return super()._default(name, tuple(self._number(a) if isinstance(a, sympy.Expr) else a for a in args), kwargs)

    def _number(self, index: sympy.Expr) -> str:
        return self.numbers.setdefault(index, f"index{len(self.numbers)}")


class _Traced(OpCounterCSE):
    """What Inductor wants to know of an expression, and what this file does, by going through it once, since that takes
    long where views of views are read. OpCounterCSE counts the same operations once, as the kernel's text has them; but
    the expression is traced whole, which takes twice as long for every step of x = x * x, or for every write to a
    slice: `calls` counts all operations."""

    def __init__(self):
        super().__init__(_Numbered())
        self.calls = 0
        self.reads: dict[tuple, None] = {}      # names of tensors and indices; None: of any

    def _default(self, name, args, kwargs):
        self.calls += 1
        return super()._default(name, args, kwargs)

    def load(self, name, index):
        self.calls += 1
        self.reads[name, index] = None
        return super().load(name, index)

    @property
    def divisions(self) -> int:
        """In indices, which views of what is itself a view take apart again and again: Inductor simplifies each of them
        many times, in seconds where there are hundreds."""
        return sum(isinstance(part, (FloorDiv, ModularIndexing)) for index in self.parent_handler.numbers
                   for part in sympy.preorder_traversal(index))

    def load_seed(self, name, offset):
        self.reads[name, sympy.S.Zero] = None
        return super().load_seed(name, offset)

    def bucketize(self, values, boundaries, *others, **named):
        tables = (boundaries, *others[3:4], named.get("sorter"))
        self.reads.update({(table[0], None): None for table in tables if table})
        return super().bucketize(values, boundaries, *others, **named)


@cache_on_self
def _traced(loops) -> _Traced:
    counted = _Traced()
    with V.set_ops_handler(counted), patch.object(ir.FlexibleLayout, "allow_indexing", True):
        loops.inner_fn(*loops.inner_fn_args())
    return counted


@cache_on_self
def _is_long(loops) -> bool:
    traced = _traced(loops)
    return traced.calls > LONGEST_TRACED or traced.divisions > MOST_DIVISIONS


def _elements(loops, name: str, index) -> sympy.Expr:
    """How many elements of a tensor an expression reads."""
    if index is None:
        return V.graph.get_numel(name)
    variables = loops.inner_fn_args()[0]
    return MemoryDep(name, sympy.sympify(index), tuple(variables), tuple(loops.get_size())).get_numel()


def register() -> None:
    """What several kernels use is written to memory once it has been put together from enough operations and tensors.
    Inductor counts every tensor alike. Here those that are small beside the result do not count, such as the four that
    a batch norm has for each channel: reading them again costs less than writing and reading the result, which every
    kernel behind the norm would do."""
    former_reads, former_operations = ir.StorageBox.num_reads, ir.Loops.inner_fn_opcount

    def num_reads(box) -> int:
        count = former_reads(box)
        if count <= config.realize_reads_threshold or not isinstance(box.data, ir.Pointwise) or not on_ocl(box.data):
            return count
        hint = V.graph.sizevars.optimization_hint
        size = hint(sympy_product(box.data.get_size()))
        reads = _traced(box.data).reads
        return sum(1 for name, index in reads if 8 * hint(_elements(box.data, name, index)) >= size)

    def opcount_threshold(loops, threshold: int) -> int:
        if versions.chose_opcount_threshold() or not on_ocl(loops):
            return threshold
        return 0 if _is_long(loops) else max(threshold, LARGEST_INLINE)

    @cache_on_self
    def operations(loops):
        return _traced(loops).getvalue() if on_ocl(loops) else former_operations(loops)

    ir.StorageBox.num_reads = num_reads
    ir.Loops.inner_fn_opcount = operations
    versions.replace_opcount_threshold(opcount_threshold)


def on_ocl(node) -> bool:
    return (node.get_device() or torch.device("cpu")).type == "ocl"
