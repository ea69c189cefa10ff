"""Inductor's scheduling for the device: which operations are fused, and how kernels come into the generated wrapper."""

from __future__ import annotations

import functools

import sympy

import torch
from torch._inductor import config, metrics
from torch._inductor.codegen.common import BackendFeature, PythonPrinter
from torch._inductor.codegen.simd import SIMDScheduling
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
from torch._inductor.utils import get_fused_kernel_name, get_kernel_metadata
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet
from torch.utils._sympy.value_ranges import ValueRanges

from torch_ocl.inductor import combination, runtime
from torch_ocl.inductor.kernel import ElementOnHost, OpenCLKernel
from torch_ocl.inductor.runtime import Ranges
from torch_ocl.inductor.vectors import NotVectors, VectorKernel
from torch_ocl.inductor.versions import exact_outputs


def untimed(decide, option: str):
    """A scheduler's decision whether kernels are better together, which `option` would have it time as Triton's: on the
    device they are put together."""
    @functools.wraps(decide)
    def decided(scheduler, *nodes):
        first = nodes[0][0] if isinstance(nodes[0], (list, tuple)) else nodes[0]
        device = first.get_nodes()[0].get_device()
        if device is None or device.type != "ocl" or not getattr(config, option):
            return decide(scheduler, *nodes)
        with config.patch({option: False}):
            return decide(scheduler, *nodes)
    return decided


def for_gpus(decide, otherwise):
    """What the scheduler looks for in pairs of loops that it might put into another order: how memory would be
    coalesced, and whether they fit together then. It takes a fifth of the time of a transformer's compilation, and more
    with dynamic sizes. On CPUs it is left out (`otherwise` is the answer), as for Inductor's own kernels there."""
    @functools.wraps(decide)
    def decided(scheduler, nodes, *others):
        first = next(iter(nodes), None) if isinstance(nodes, (list, tuple)) else nodes
        device = first.get_device() if first is not None else None
        if device is not None and device.type == "ocl" and Ranges.of(device.index or 0).figures.kind == "cpu":
            return otherwise
        return decide(scheduler, nodes, *others)
    return decided


def of_unbounded(truncdiv):
    """Inductor's bounds of a quotient, which cannot be compared where both numbers may be of any size."""
    def bounds(cls, a, b):
        try:
            return truncdiv.__func__(cls, a, b)
        except TypeError:       # infinity by infinity
            return ValueRanges.unknown()
    return classmethod(bounds)


def of_triton(check):
    """Inductor's check of every number in a kernel, which it writes for Triton. config.nan_asserts has the device's."""
    @functools.wraps(check)
    def checked(buffer, variable) -> None:
        if not isinstance(V.kernel, OpenCLKernel):
            check(buffer, variable)
    return checked


def number_in_identity(identity, precision):
    """What Identity(3) is as a number. PyTorch's class has no such method, so that the larger of 0 and Identity(0) + 1,
    in the index of something concatenated, is refused as not comparable."""
    return identity.args[0].evalf(precision)


def as_traced(run):
    """How a graph is lowered: what a forward pass keeps lies as it was traced where sizes are dynamic, since PyTorch
    takes other strides for constants of the backward pass, which then fails for the next size."""
    @functools.wraps(run)
    def lowered(graph, *inputs):
        dynamic = any(isinstance(x, torch.SymInt) for x in inputs)
        on_device = any(isinstance(x, torch.Tensor) and x.device.type == "ocl" for x in inputs)
        exact = dynamic and on_device and not (graph.is_backward or graph.is_inference)
        with exact_outputs(exact):
            return run(graph, *inputs)
    return lowered


class OpenCLScheduling(SIMDScheduling):
    kernel_type = OpenCLKernel

    @classmethod
    def get_backend_features(cls, device: torch.device) -> OrderedSet[BackendFeature]:
        return OrderedSet([BackendFeature.INPLACE_BUFFERS, BackendFeature.FOREACH, BackendFeature.SCAN,
                           BackendFeature.TUPLE_REDUCTION])

    def codegen_combo_kernel(self, combo_kernel_node) -> None:
        combination.codegen(self, combo_kernel_node)

    @config.patch({"triton.coalesce_tiling_analysis": False})   # kernels number their elements linearly
    def codegen_node(self, node) -> None:
        super().codegen_node(node)

    def create_kernel_choices(self, kernel_features, kernel_args, kernel_kwargs):
        """The kernel in vectors where that is possible: it comes with its body written."""
        return [self.in_vectors(kernel_features, kernel_args, kernel_kwargs) or
                self.kernel_type(*kernel_args, **kernel_kwargs)]

    def in_vectors(self, features, args, kwargs):
        if not VectorKernel.suits(features):
            return None
        kernels = metrics.generated_kernel_count
        kernel = VectorKernel(*args, **kwargs)
        try:
            super().codegen_node_schedule_with_kernel(features.node_schedule, kernel)
            kernel.check()
        except NotVectors:
            metrics.generated_kernel_count = kernels
            return None
        kernel.is_written = True
        return kernel

    def codegen_node_schedule_with_kernel(self, node_schedule, kernel) -> None:
        if not kernel.is_written:
            super().codegen_node_schedule_with_kernel(node_schedule, kernel)

    @classmethod
    def get_tiling_and_scores(cls, node_schedule, numel, reduction_numel=1, coalesce_analysis=None):
        # Elements are numbered linearly; ranges.py takes rows out of that.
        return cls.create_tiling([numel], [reduction_numel]), None

    def define_kernel(self, src_code: str, node_schedule, kernel: OpenCLKernel) -> str:
        wrapper = V.graph.wrapper_code
        key = (src_code, kernel.signature(), kernel.device_index)
        if key in wrapper.src_to_kernel:
            return wrapper.src_to_kernel[key]
        described = config.triton.descriptive_names     # a way to name kernels, or none
        fused = get_fused_kernel_name(node_schedule, described) if described else ""
        name = "_".join(part for part in ("ocl", fused, wrapper.next_kernel_suffix()) if part)
        wrapper.src_to_kernel[key] = name
        origins, detailed = get_kernel_metadata(node_schedule, wrapper)
        wrapper.define_ocl_kernel(name, src_code, kernel.signature(), kernel.device_index, f"{origins}\n{detailed}")
        return name


class _OnItsDevice:
    """Buffers are made on the device that they were planned for, whichever is current when the code runs."""

    def make_allocation(self, name, device, *args, **kwargs):
        text = super().make_allocation(name, device, *args, **kwargs)
        return text.replace("device='ocl'", f"device='{device}'")


class _CallsKernels:
    """Definitions and calls of kernels in Python; cpp_wrapper.py has those in C++."""

    def define_ocl_kernel(self, name: str, source: str, signature: str, device: int, comment: str = "") -> None:
        done = self.__dict__.setdefault("_ocl_imports", set())
        if not done:
            self.header.writeline("from torch_ocl.inductor import runtime as ocl_runtime")
        if device not in done:
            self.header.writeline(f"ocl_ranges_{device} = ocl_runtime.ranges({device})")
            done.add(device)
        function = runtime.function_name(name)
        runtime.kernel(function, f"\n{source}", signature, device)
        body = f"ocl_runtime.kernel({function!r}, '''\n{source}''', {signature!r}, {device})"
        # An operator's text arguments (kernels of the caller's own) may have several lines.
        comments = [line if line.startswith("#") else f"# {line}" for line in comment.split("\n") if comment]
        self.define_kernel(name, body, "\n".join(comments), gpu=False)

    def call_ocl_kernel(self, name: str, device: int, arguments: list, kind: str, numbers: list) -> None:
        values = [value if isinstance(value, str) else
                  f"{value.tensor(self)}.item()" if isinstance(value, ElementOnHost) else self.number(value)
                  for value, _, _ in arguments]
        sizes = [self.number(n) for n in numbers]
        if kind == "fixed":
            values += [f"global_size=({', '.join(sizes[:3])})", f"local_size=({', '.join(sizes[3:])})"]
        elif all(isinstance(n, (int, sympy.Integer)) for n in numbers):
            chosen = getattr(Ranges.of(device), kind)(*(int(n) for n in numbers))
            values += [f"{key}={value}" for key, value in chosen.items()]
        else:
            values.append(f"**ocl_ranges_{device}.{kind}({', '.join(sizes)})")
        self.writeline(self.wrap_kernel_call(name, values))

    @staticmethod
    def number(value) -> str:
        """A size in the text of a call."""
        return _python_printer.doprint(value)


_python_printer = PythonPrinter()


class OpenCLSubgraphWrapper(_OnItsDevice, _CallsKernels, SubgraphPythonWrapperCodegen):
    pass


class OpenCLWrapper(_OnItsDevice, _CallsKernels, PythonWrapperCodegen):
    @staticmethod
    def create(is_subgraph, subgraph_name, parent_wrapper, partition_signatures=None):
        if is_subgraph:
            return OpenCLSubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)
        return OpenCLWrapper()

    def write_header(self) -> None:
        super().write_header()
        if getattr(config, "annotate_training", False):     # CUDA's ranges by Inductor's own line
            self.header.writeline("from torch_ocl import nvtx")


def define_kernel(wrapper, what: str, source: str, signature: str, device: int) -> str:
    """A kernel of text that is no fusion's, in the wrapper; its name."""
    key = (source, signature, device)
    if key not in wrapper.src_to_kernel:
        name = wrapper.src_to_kernel[key] = f"ocl_{what}_{wrapper.next_kernel_suffix()}"
        wrapper.define_ocl_kernel(name, source, signature, device)
    return wrapper.src_to_kernel[key]
