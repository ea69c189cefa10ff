"""One kernel of FlexAttention: its text around the caller's functions, its arguments and its launch."""

from __future__ import annotations

import itertools

import sympy

import torch
from torch._inductor import ir
from torch._inductor.codegen.common import IndentedBuffer
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import CeilDiv, FloorDiv
from torch.utils._sympy.value_ranges import ValueRanges

from torch_ocl.inductor import cpu_flex, types
from torch_ocl.inductor.kernel import OpenCLCSE, OpenCLKernel
from torch_ocl.inductor.overrides import text
from torch_ocl.inductor.ranges import Work
from torch_ocl.inductor.runtime import _source_file, Ranges
from torch_ocl.inductor.vector_overrides import in_lanes, NotVectors

INDICES = ("b", "h", "m", "n")
_DIMENSIONS = ("BATCH", "HEAD", "ROW", "COLUMN")


def tile_of(query, mask: dict, size: int, tensors: int) -> tuple[int, int, int] | None:
    """BLOCK, SIDE_X and SIDE_Y; None: blocks of the mask or local memory are too small for one."""
    figures = Ranges.of(query.get_device().index or 0).figures
    side_x, side_y = (16, 1) if figures.kind == "cpu" else (16, 8)
    width = 8 if query.get_dtype() == torch.float64 else 4
    for block in (32, 16):
        # A tile lies within a block of the mask.
        if mask["query_block"] % block or mask["key_block"] % block:
            continue
        if width * block * (tensors * (size + 1) + 2 * (block + 1) + side_x) <= figures.local_memory:
            return block, side_x, side_y
    return None


class _Given(V.WrapperHandler):
    """Loads of the caller's functions: their arguments are variables of the tile, the others are captured tensors."""

    def __init__(self, kernel: OpenCLKernel, variables: dict):
        super().__init__(V.ops)
        self.kernel, self.variables = kernel, variables

    def load(self, name: str, index: sympy.Expr):
        return self.variables[name] if name in self.variables else V.kernel.load(name, index)


class FlexKernel:
    """direction: forward, backward_queries, backward_keys. graphs: the caller's functions, as buffers without names."""

    def __init__(self, problem, direction: str, graphs: dict):
        self.problem, self.direction = problem, direction
        self.dtype = problem.query.get_dtype()
        self.real = torch.float64 if self.dtype == torch.float64 else torch.float32
        batch, heads, queries, _ = problem.query.get_size()
        key_heads, keys = problem.key.get_size()[1:3]
        self.owned, self.groups = (keys, key_heads) if direction == "backward_keys" else (queries, heads)
        self.groups = sympy.sympify(batch * self.groups)
        self.cut = cpu_flex.cut_of(direction, problem, self.owned * self.groups)
        self.in_vectors = self.cut is not None and self.real == torch.float32
        try:
            self.write(graphs)
        except NotVectors:
            self.in_vectors = False
            self.write(graphs)

    def write(self, graphs: dict) -> None:
        problem, one = self.problem, sympy.S.One
        tiling, features = {"x": one, "r0_": one}, SIMDKernelFeatures([], one)
        if self.in_vectors:
            lane = "n" if self.direction == "backward_keys" else "m"
            self.kernel = cpu_flex.FlexVectors(tiling, lane, features=features)
        else:
            self.kernel = OpenCLKernel(tiling, features=features)
        self.kernel.printer.narrow = False
        self.kernel.plan = Work([], 1, {}, "linear", [])
        self.kernel.note_dtype(self.real)
        self.defines: dict[str, str] = {}
        self.read, self.written = [], []
        self.variables = itertools.count()
        self.inputs({"Q": problem.query, "K": problem.key, "V": problem.value}, {})
        self.blocks()
        self.functions = {name: self.function(name, graph) for name, graph in graphs.items()}

    # Names in the text.

    def size(self, value) -> str:
        value = V.graph.sizevars.simplify(sympy.sympify(value))
        if value.is_Integer:
            return types.integer(int(value))
        return f"({self.kernel.kexpr(self.kernel.rename_indexing(value))})"

    def place(self, tensor, written: bool) -> str:
        """The tensor's first element."""
        args = self.kernel.args
        name = (args.output if written else args.input)(tensor.get_name())
        (self.written if written else self.read).append(tensor)
        return f"({name} + {self.size(tensor.get_layout().offset)})"

    def inputs(self, heads: dict, rows: dict, written: bool = False) -> None:
        """heads: tensors by batch, head, row and column; rows: contiguous ones by batch, head and row."""
        for name, tensor in (heads | rows).items():
            self.defines[f"FLEX_{name}"] = self.place(tensor, written)
        for name, tensor in heads.items():
            for dimension, stride in zip(_DIMENSIONS, tensor.get_stride()):
                self.defines[f"{name}_{dimension}"] = self.size(stride)

    def outputs(self, heads: dict, rows: dict) -> None:
        self.inputs(heads, rows, True)

    def blocks(self) -> None:
        """How many blocks of keys (of queries) there are for a block, and which; b and h may be broadcast."""
        side = "q" if self.direction == "backward_keys" else "kv"
        mask = self.problem.mask
        has_full = mask[f"full_{side}_num_blocks"] is not None
        self.defines["KINDS"] = "2" if has_full else "1"
        for kind, prefix in (("PARTIAL", ""), ("FULL", "full_")):
            if prefix and not has_full:
                self.defines |= {"FULL_COUNT(b, h, i)": "0L", "FULL_INDEX(b, h, i, at)": "0L"}
                continue
            for name, tensor, places in (("COUNT", mask[f"{prefix}{side}_num_blocks"], "bhi"),
                                         ("INDEX", mask[f"{prefix}{side}_indices"], ("b", "h", "i", "at"))):
                terms = []
                for place, size, stride in zip(places, tensor.get_size(), tensor.get_stride()):
                    where = f"(long)({place}) % {self.size(size)}" if place in ("b", "h") else f"(long)({place})"
                    terms.append(f"({where}) * {self.size(stride)}")
                macro = f"{kind}_{name}({', '.join(places)})"
                self.defines[macro] = f"{self.place(tensor, False)}[{' + '.join(terms)}]"

    # The caller's functions.

    def function(self, name: str, graph) -> str:
        """Statements of a block of their own that compute a function where the tile's text has its variables."""
        kernel = self.kernel
        outer = kernel.body
        kernel.body = kernel.loads = kernel.compute = kernel.stores = body = IndentedBuffer()
        cse = cpu_flex.FlexCSE if self.in_vectors else OpenCLCSE
        kernel.cse = cse(kernel.newvar_prefix, kernel.suffix, iter_buffers=self.variables)
        kernel.checks = {}
        if self.in_vectors:
            kernel.only_kind = "kind == 0 && " if name == "mask" else ""
        with kernel:
            variables = {n: self.argument(n) for n in ("score", *INDICES, "grad_score_mod")}
            with V.set_ops_handler(_Given(kernel, variables)):
                data = graph.data
                result = data.make_loader()(()) if isinstance(data, ir.InputBuffer) else data.inner_fn(())
            result, as_text = getattr(result, "value", result), in_lanes if self.in_vectors else text
            if name == "mask":
                body.writeline(f"seen = seen && {as_text(result, torch.bool)};")
            else:
                body.writeline(f"{'modified' if name == 'score' else 'score_gradient'} = {as_text(result, self.real)};")
        kernel.body = outer
        return "{\n" + body.getvalue() + "}"

    def argument(self, name: str):
        if name not in INDICES:
            return self.kernel.cse.namedvar(name, dtype=self.real)
        batch, heads, queries, _ = self.problem.query.get_size()
        size = {"b": batch, "h": heads, "m": queries, "n": self.problem.key.get_size()[2]}[name]
        size = V.graph.sizevars.simplify(sympy.sympify(size))
        upper = int(size) - 1 if size.is_Integer else (1 << 31) - 1
        index = self.kernel.cse.namedvar(name, bounds=ValueRanges(0, max(upper, 0)), dtype=torch.int32)
        if self.in_vectors and name != self.kernel.lane:
            self.kernel.same.add(index)
        return index

    # The text and the launch.

    def source(self, tile: dict) -> str:
        problem, kernel = self.problem, self.kernel
        _, heads, queries, size = problem.query.get_size()
        key_batch, key_heads, keys, value_size = problem.value.get_size()
        size, value_size = (V.graph.sizevars.guard_int(n) for n in (size, value_size))
        numbers = {"HEADS": heads, "QUERIES": queries, "SIZE": size, "KEY_BATCHES": key_batch, "KEY_HEADS": key_heads,
                   "KEY_COUNT": keys, "VALUE_SIZE": value_size, "GROUP": FloorDiv(heads, key_heads),
                   "QUERY_BLOCK": problem.mask["query_block"], "KEY_BLOCK": problem.mask["key_block"],
                   "HEAD": max(size, value_size)}
        defines = {"X_TYPE": types.storage_type(self.dtype), "X_LOAD(p, i)": types.load("(p)", "i", self.dtype),
                   "X_STORE(p, i, v)": types.store("(p)", "i", "v", self.dtype).rstrip(";"),
                   "SCALE": types.literal(problem.scale, self.real)}
        defines |= {name: self.size(value) for name, value in numbers.items()} | self.defines
        start, prefix = {"REAL": types.c_type(self.real)} | {n: str(v) for n, v in tile.items()}, "flex"
        includes = ""
        if self.cut:
            start |= {"X": types.MEMORY_NAMES[self.dtype]} | ({} if self.in_vectors else {"FLEX_BY_LANE": ""})
            prefix, includes = "cpu_flex", '#include "kernels/attention/tiles.cl"\n'
        parameters, shifts = kernel.parameters()
        opening = "{\n" + "\n".join(shifts)
        attribute = "TILE_TASK"
        if not self.cut:
            attribute = f"__attribute__((reqd_work_group_size({tile['SIDE_X']}, {tile['SIDE_Y']}, 1)))"
        return (kernel.prologue() + _defined(start) + includes + _defined(defines) +
                _source_file("cpu_flex.cl" if self.cut else "flex_attention.cl") +
                f"__kernel {attribute} void KERNEL_NAME({', '.join(parameters)})\n" +
                self.body(prefix).replace("{", opening, 1))

    def body(self, prefix: str) -> str:
        """The kernel's text with the caller's functions in it."""
        body = _source_file(f"{prefix}_{self.direction}.cl")
        body = body.replace("FLEX_GRADIENT", _source_file(f"{prefix}_gradient.cl"))
        body = body.replace("FLEX_MODIFIED\n", _source_file(f"{prefix}_score.cl"))
        for name, function in (("SCORE", "score"), ("MASK", "mask"), ("JOINT", "joint")):
            body = body.replace(f"FLEX_{name}\n", f"{self.functions.get(function, '')}\n")
        return body.replace("FLEX_AHEAD\n", self.kernel.ahead.getvalue() if self.in_vectors else "")

    def launch(self) -> None:
        problem, cut = self.problem, self.cut
        if cut:
            tile = {"PANELS": cut.panels, "ROWS": cut.rows, "OTHERS": cut.others, "STEP": cut.step, "PARTS": cut.parts}
            block = problem.mask["key_block" if self.direction == "backward_keys" else "query_block"]
            owners = (CeilDiv(self.owned, cut.rows) if block % cut.rows == 0 else
                      CeilDiv(self.owned, block) * cut.parts)
            Launch(self, self.source(tile), [owners, sympy.S.One, self.groups], (1, 1))
            return
        size = max(V.graph.sizevars.guard_int(x.get_size()[-1]) for x in (problem.query, problem.value))
        block, *sides = tile_of(problem.query, problem.mask, size, 2 if self.direction == "forward" else 4)
        source = self.source({"BLOCK": block, "SIDE_X": sides[0], "SIDE_Y": sides[1]})
        Launch(self, source, [CeilDiv(self.owned, block) * sides[0], sympy.Integer(sides[1]), self.groups], sides)


def _defined(macros: dict[str, str]) -> str:
    return "".join(f"#define {name} {value}\n" for name, value in macros.items())


class Launch(ir.ExternKernel):
    """The kernel in the graph: it writes buffers that are there."""

    def __init__(self, flex: FlexKernel, source: str, global_size: list, local_size):
        device = flex.problem.query.get_device()
        captures = [c for c in flex.problem.captures if isinstance(c, ir.IRNode) and c.has_tensor_output()]
        inputs = [*flex.read, *captures, *flex.written]
        self.flex, self.source, self.global_size, self.local_size = flex, source, global_size, local_size
        kernel = flex.kernel
        sizes = [*kernel.args.sizevars, *global_size]
        super().__init__(None, ir.NoneLayout(device=device), self.unwrap_storage(inputs), tuple(sizes))
        self.name = V.graph.register_buffer(self)
        V.graph.register_operation(self)
        self.mutation_outputs = [ir.MutationOutput(ir.NoneLayout(device=device), x, self) for x in flex.written]

    def should_allocate(self) -> bool:
        return False

    def has_side_effects(self) -> bool:
        return False

    def codegen(self, wrapper) -> None:
        from torch_ocl.inductor.scheduling import define_kernel

        kernel = self.flex.kernel
        name = define_kernel(wrapper, f"flex_{self.flex.direction}", self.source, kernel.signature(),
                             kernel.device_index)
        for size in (*kernel.args.sizevars, *(s for n in self.global_size for s in sorted(n.free_symbols, key=str))):
            wrapper.ensure_size_computed(size)
        numbers = [V.graph.sizevars.simplify(n) for n in self.global_size]
        numbers += [sympy.Integer(n) for n in (*self.local_size, 1)]
        wrapper.call_ocl_kernel(name, kernel.device_index, [detail for _, *detail in kernel.arguments()], "fixed",
                                numbers)
