"""Inductor's scheduling for the device: which operations are fused, and how kernels come into the generated wrapper."""

from __future__ import annotations

import torch
from torch._inductor import config
from torch._inductor.codegen.common import BackendFeature
from torch._inductor.codegen.simd import SIMDScheduling
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
from torch._inductor.utils import get_fused_kernel_name, get_kernel_metadata
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from torch_ocl.inductor.kernel import OpenCLKernel


class OpenCLScheduling(SIMDScheduling):
    kernel_type = OpenCLKernel

    @classmethod
    def get_backend_features(cls, device: torch.device) -> OrderedSet[BackendFeature]:
        return OrderedSet([BackendFeature.INPLACE_BUFFERS])

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
        _import_runtime(wrapper, kernel.device_index)
        origins, detailed = get_kernel_metadata(node_schedule, wrapper)
        body = f"ocl_runtime.kernel({name!r}, '''\n{src_code}''', {kernel.signature()!r}, {kernel.device_index})"
        # An operator's text arguments (kernels of the caller's own) may have several lines.
        comments = [line if line.startswith("#") else f"# {line}" for line in f"{origins}\n{detailed}".split("\n")]
        wrapper.define_kernel(name, body, "\n".join(comments), gpu=False)
        return name


class _OnItsDevice:
    """Buffers are made on the device that they were planned for, whichever is current when the code runs."""

    def make_allocation(self, name, device, *args, **kwargs):
        text = super().make_allocation(name, device, *args, **kwargs)
        return text.replace("device='ocl'", f"device='{device}'")


class OpenCLSubgraphWrapper(_OnItsDevice, SubgraphPythonWrapperCodegen):
    pass


class OpenCLWrapper(_OnItsDevice, PythonWrapperCodegen):
    @staticmethod
    def create(is_subgraph, subgraph_name, parent_wrapper, partition_signatures=None):
        if is_subgraph:
            return OpenCLSubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)
        return OpenCLWrapper()


def define_kernel(wrapper, what: str, source: str, signature: str, device: int) -> str:
    """A kernel of text that is no fusion's, in the wrapper; its name."""
    key = (source, signature, device)
    if key not in wrapper.src_to_kernel:
        name = wrapper.src_to_kernel[key] = f"ocl_{what}_{wrapper.next_kernel_suffix()}"
        _import_runtime(wrapper, device)
        wrapper.define_kernel(name, f"ocl_runtime.kernel({name!r}, '''\n{source}''', {signature!r}, {device})",
                              gpu=False)
    return wrapper.src_to_kernel[key]


def _import_runtime(wrapper, device: int) -> None:
    done = wrapper.__dict__.setdefault("_ocl_imports", set())
    if not done:
        wrapper.header.writeline("from torch_ocl.inductor import runtime as ocl_runtime")
    if device not in done:
        wrapper.header.writeline(f"ocl_ranges_{device} = ocl_runtime.ranges({device})")
        done.add(device)
