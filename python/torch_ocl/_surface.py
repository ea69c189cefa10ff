"""The names of torch.ocl that are looked up when asked for: submodules and seldom used names, and the names of
torch.cuda, torch.xpu, torch.mps and torch.accelerator that cannot be, with the reason and what to use instead."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys

# Submodules, as torch.ocl.<name>: the module of this package that is one. What is not imported yet is then.
SUBMODULES = {name: f"torch_ocl.{name}" for name in
              ("amp", "graphs", "memory", "nvtx", "profiler", "random", "sparse", "streams", "tunable")}
SUBMODULES |= {"event": "torch_ocl.streams", "comm": "torch.nn.parallel.comm"}
PARTS = {"amp": ("autocast_mode", "common", "grad_scaler")}

# Names of seldom used modules.
ELSEWHERE = {
    **dict.fromkeys(("CUDAGraph", "Graph", "OCLGraph", "XPUGraph", "export_dot", "export_graph_data", "graph",
                     "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"), "torch_ocl.graphs"),
    **dict.fromkeys(("MemPool", "caching_allocator_alloc", "caching_allocator_delete", "caching_allocator_disabled",
                     "caching_allocator_enable", "list_gpu_processes", "memory_snapshot", "use_mem_pool"),
                    "torch_ocl._memory_tools"),
    **dict.fromkeys(("device_memory_used", "memory_usage", "power_draw", "temperature", "utilization"),
                    "torch_ocl._telemetry"),
    **dict.fromkeys(("cl_context", "cl_device", "cl_mem"), "torch_ocl._interop"),
    "profile_kernels": "torch_ocl.profiler",
}
LEGACY_TENSORS = ("BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor",
                  "HalfTensor", "IntTensor", "LongTensor", "ShortTensor")
LEGACY_STORAGES = ("BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage",
                   "ComplexFloatStorage", "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage", "LongStorage",
                   "ShortStorage")
ELSEWHERE |= dict.fromkeys(LEGACY_TENSORS + LEGACY_STORAGES, "torch_ocl._legacy_types")

_ALLOCATOR = ("device memory comes from clprim's caching allocator, which OpenCL's buffers cannot be taken out of; "
              "torch.ocl.MemPool gives allocations a pool of their own")
_CUDA_RUNTIME = "it is the runtime library of CUDA; torch.ocl has functions for what a device can do and tell"
REFUSED = {
    "CUDAPluggableAllocator": _ALLOCATOR,
    "XPUPluggableAllocator": _ALLOCATOR,
    "change_current_allocator": _ALLOCATOR,
    "ExternalStream": "a stream is an OpenCL queue that clprim made, with its own error words and events; pass "
                      "torch.ocl.Stream().native_handle (a cl_command_queue) to the other library instead",
    "get_stream_from_external": "a stream is an OpenCL queue that clprim made, with its own error words and events; "
                                "pass torch.ocl.Stream().native_handle (a cl_command_queue) to the other library "
                                "instead",
    "GreenContext": "OpenCL has no contexts on a part of a device's multiprocessors; streams (torch.ocl.Stream) and "
                    "their priorities share a device",
    "green_contexts": "OpenCL has no contexts on a part of a device's multiprocessors; streams (torch.ocl.Stream) and "
                      "their priorities share a device",
    "gds": "GPUDirect Storage is NVIDIA's; read into pinned memory and copy with non_blocking=True",
    "cudart": _CUDA_RUNTIME,
    "cudaStatus": _CUDA_RUNTIME,
    "current_blas_handle": "products are clprim's own kernels; there is no BLAS library with a handle",
    "current_solver_handle": "linear algebra is clprim's own kernels; there is no solver library with a handle",
    "jiterator": "it compiles CUDA C++; torch_ocl.pointwise_kernel makes elementwise operators of OpenCL C expressions",
    "nccl": "NCCL is NVIDIA's; use torch.distributed",
    "graph_annotations": "they join NVIDIA's graph node numbers to traces; a replayed graph's kernels are in "
                         "torch.profiler's trace by their own names",
    "compile_shader": "it compiles Metal; torch.ocl.compile_kernel compiles OpenCL C",
    "load_metallib": "it loads compiled Metal; torch.ocl.compile_kernel compiles OpenCL C",
}


class Refused:
    """Stands for a name that a device of OpenCL cannot have. Any use raises NotImplementedError with the reason."""

    def __init__(self, name: str, reason: str):
        self.__name__ = self.__qualname__ = name.rpartition(".")[2]
        self.__module__ = "torch.ocl"
        self.reason = reason
        self.__doc__ = f"Not on ocl: {reason}."
        self._full_name = name

    def _refuse(self):
        raise NotImplementedError(f"torch.ocl.{self._full_name} does not exist: {self.reason}")

    def __call__(self, *_, **__):
        self._refuse()

    def __getattr__(self, name: str):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        self._refuse()

    def __instancecheck__(self, _) -> bool:   # nothing is one
        return False

    def __subclasscheck__(self, _) -> bool:
        return False

    def __mro_entries__(self, _):
        self._refuse()

    def __repr__(self) -> str:
        return f"<torch.ocl.{self._full_name}: refused, {self.reason}>"


def look_up(name: str):
    """The object behind a name that torch.ocl has but did not import, or None."""
    if name in SUBMODULES:
        return importlib.import_module(SUBMODULES[name])
    if name in ELSEWHERE:
        return getattr(importlib.import_module(ELSEWHERE[name]), name)
    if name in REFUSED:
        return Refused(name, REFUSED[name])
    return None


def names() -> list[str]:
    return [*SUBMODULES, *ELSEWHERE, *REFUSED]


def _module_behind(fullname: str) -> str | None:
    """Parts of a submodule (torch.cuda.amp has three) are the submodule."""
    outer, _, name = fullname.removeprefix("torch.ocl.").partition(".")
    return SUBMODULES.get(outer) if fullname.startswith("torch.ocl.") and name in ("", *PARTS.get(outer, ())) else None


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes `import torch.ocl.amp` give the module that torch.ocl.amp is."""

    def find_spec(self, fullname, path=None, target=None):
        return importlib.util.spec_from_loader(fullname, self) if _module_behind(fullname) else None

    def create_module(self, spec):
        module = importlib.import_module(_module_behind(spec.name))
        self._specs[spec.name] = getattr(module, "__spec__", None)
        return module

    def exec_module(self, module):
        for name, spec in list(self._specs.items()):   # the module keeps its own name
            if sys.modules.get(name) is module or spec is not None and spec.name == module.__name__:
                module.__spec__ = self._specs.pop(name)

    _specs: dict = {}


def register_submodules() -> None:
    sys.meta_path.append(_Finder())
