"""Independent kernels in one launch: a step of an optimizer on all parameters (`_foreach` operators), the counters of
batches that a network's batch norms have, and what torch._inductor.config.combo_kernels puts together.

Each kernel becomes a function of its element's number. The launch's work-groups are shared out among the functions, so
that all work-items of a group call the same one. Kernels whose elements are not numbered in one row, or whose sizes are
known when they run only, are launched by themselves.
"""

from __future__ import annotations

import itertools
import operator

import torch
from torch._inductor import config, metrics
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.virtualized import V

from torch_ocl.inductor.runtime import Ranges
from torch_ocl.inductor.versions import config_patches

LARGEST = 1000          # bytes of arguments: OpenCL promises 1024
LONGEST_REDUCING = 64   # work-items of a group, where an element is a sum


def join_counters(graph: torch.fx.Graph) -> None:
    """Additions of a number to single elements that a graph is given and gets back become one `_foreach` operator.
    Places of a score, which functions of FlexAttention are given, are single elements, too, but do not change."""
    aten = torch.ops.aten
    found: dict[tuple, list] = {}
    for node in graph.nodes:
        if node.target is not aten.add.Tensor or node.kwargs or not isinstance(node.args[1], (int, float)):
            continue
        counter = node.args[0]
        value, result = counter.meta.get("val"), node.meta.get("val")
        if counter.op != "placeholder" or not isinstance(value, torch.Tensor) or value.device.type != "ocl":
            continue
        changed = any(user.target is aten.copy_.default and user.args[0] is counter for user in node.users)
        if changed and value.dim() == 0 and result.dtype == value.dtype:
            found.setdefault((value.device, value.dtype, type(node.args[1]), node.args[1]), []).append(node)
    for (*_, number), nodes in found.items():
        if len(nodes) < 2:
            continue
        with graph.inserting_before(nodes[0]):
            joined = graph.call_function(aten._foreach_add.Scalar, ([node.args[0] for node in nodes], number))
            joined.meta.update(nodes[0].meta, val=[node.meta["val"] for node in nodes])
            for index, node in enumerate(nodes):
                result = graph.call_function(operator.getitem, (joined, index))
                result.meta.update(node.meta)
                node.replace_all_uses_with(result)
        for node in nodes:
            graph.erase_node(node)


def codegen(scheduling, combined) -> None:
    """The kernels of a scheduler's node of several, in as few launches as there can be."""
    groups: dict[tuple, list] = {}
    for node in combined.get_subkernel_nodes():
        kernel = _generate(scheduling, node)
        if kernel is None:
            continue
        if kernel.plan.combinable:
            groups.setdefault((kernel.prologue(), kernel.uses_errors), []).append(kernel)
        else:
            _launch(scheduling, kernel, [kernel])
    for kernels in groups.values():
        for group in _fitting(kernels):
            _launch(scheduling, Combination(group) if len(group) > 1 else group[0], group)
    scheduling.free_buffers_in_scheduler()


def _generate(scheduling, node):
    """A kernel's body and plan, without its text."""
    nodes = [part for part in node.get_nodes() if part.get_name() not in scheduling.scheduler.removed_ops]
    if not nodes:
        return None
    _, (numel, reduced) = max(nodes, key=lambda part: int(part.is_reduction())).group
    schedule = scheduling.generate_node_schedule(nodes, numel, reduced)
    features = SIMDKernelFeatures(schedule, numel, reduced)
    tiling, scores = scheduling.get_tiling_and_scores(schedule, numel, reduced)
    kernel = scheduling.kernel_type(tiling, features=features, tiling_scores=scores)     # of single elements
    scheduling.codegen_node_schedule_with_kernel(schedule, kernel)
    with V.set_kernel_handler(kernel), config.patch(**config_patches(scheduling, schedule)):
        kernel.finish()
    return kernel


def _fitting(kernels):
    """The kernels in groups whose arguments a launch can take."""
    group, size = [], 16
    for kernel in kernels:
        own = sum(16 if kind == "t" else 8 for _, _, kind, _ in kernel.arguments())
        if group and size + own > LARGEST:
            yield group
            group, size = [], 16
        group.append(kernel)
        size += own
    if group:
        yield group


def _launch(scheduling, whole, kernels) -> None:
    """Buffers are taken over from arguments (mark_run) only when all of a launch's kernels have been generated: none of
    them writes what another one reads."""
    nodes = [node for kernel in kernels for node in kernel.features.scheduler_nodes()]
    name = scheduling.define_kernel(whole.text(), nodes, whole)
    for kernel in kernels:
        with V.set_kernel_handler(kernel):
            for node in kernel.features.scheduler_nodes():
                node.mark_run()
    scheduling.codegen_comment(nodes, name)
    whole.call_kernel(name)
    metrics.generated_kernel_count -= len(kernels) - 1      # each counted itself
    for kernel in kernels:
        if config.nan_asserts:
            kernel.codegen_nan_check()
        V.graph.removed_buffers |= kernel.removed_buffers
        V.graph.inplaced_to_remove |= kernel.inplaced_to_remove


class Combination:
    """What a scheduling asks of a kernel, of several."""

    def __init__(self, kernels):
        self.kernels = kernels
        self.device_index = kernels[0].device_index
        counts = [int(kernel.plan.numbers[0]) for kernel in kernels]
        local = Ranges.of(self.device_index).linear(sum(counts))["local_size"]
        self.local = local if isinstance(local, int) else local[0]
        if any(kernel.plan.kind == "outputs" for kernel in kernels):
            self.local = min(self.local, LONGEST_REDUCING)
        self.ends = list(itertools.accumulate(-(-count // self.local) for count in counts))
        self.counts = counts

    def text(self) -> str:
        functions: dict[str, str] = {}       # text: name
        parameters, calls = [], []
        first = 0
        for number, (kernel, count, end) in enumerate(zip(self.kernels, self.counts, self.ends)):
            body = kernel.function()
            name = functions.setdefault(body, f"KERNEL_NAME_{len(functions)}")
            own, names = kernel.renamed_parameters(f"k{number}_")
            parameters += own
            element = f"((index_t)get_group_id(0) - {first}) * {self.local} + (index_t)get_local_id(0)"
            condition = f"if (get_group_id(0) < {end}) " if end != self.ends[-1] else ""
            calls.append(f"{'else ' if number else ''}{condition}{name}({', '.join([element, str(count), *names])});")
            first = end
        if self.kernels[0].uses_errors:
            parameters.append("__global int* errors, int operator_code")
        text = self.kernels[0].prologue()
        text += "".join(body.replace("FUNCTION_NAME", name, 1) for body, name in functions.items())
        lines = "\n".join(f"    {call}" for call in calls)
        attribute = f"__attribute__((reqd_work_group_size({self.local}, 1, 1)))"
        return f"{text}{attribute} __kernel void KERNEL_NAME({', '.join(parameters)})\n{{\n{lines}\n}}\n"

    def signature(self) -> str:
        kinds = [kind for kernel in self.kernels for _, _, kind, _ in kernel.arguments()]
        return " ".join(kinds + ["errors"] * self.kernels[0].uses_errors)

    def call_kernel(self, name: str) -> None:
        wrapper = V.graph.wrapper_code
        for kernel in self.kernels:
            for size in kernel.args.sizevars:
                wrapper.ensure_size_computed(size)
        arguments = [detail for kernel in self.kernels for _, *detail in kernel.arguments()]
        wrapper.call_ocl_kernel(name, self.device_index, arguments, "fixed",
                                [self.ends[-1] * self.local, 1, 1, self.local, 1, 1])
