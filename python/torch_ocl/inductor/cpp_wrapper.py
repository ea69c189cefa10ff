"""The wrapper in C++: torch._inductor.config.cpp_wrapper, and AOTInductor's packages.

Operators are called by C functions that PyTorch's generator writes for the device when torch_ocl is built
(cmake/inductor_shims.py), kernels by those of include/torch_ocl/inductor.h.
"""

from __future__ import annotations

import functools
from pathlib import Path

import sympy

from torch._inductor import codecache
from torch._inductor.codegen import cpp_utils
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
from torch._inductor.virtualized import V

from torch_ocl.inductor.kernel import ElementOnHost

_PACKAGE = Path(__file__).absolute().parent.parent
_RANGES = {"linear": "TORCH_OCL_LINEAR", "rows": "TORCH_OCL_ROWS", "tiles": "TORCH_OCL_TILES",
           "outputs": "TORCH_OCL_OUTPUTS", "groups": "TORCH_OCL_GROUPS", "items": "TORCH_OCL_ITEMS",
           "fixed": "TORCH_OCL_FIXED"}


def _header(aot: bool) -> str:
    return str(_PACKAGE / "include" / "torch_ocl" / ("inductor_aot.h" if aot else "inductor_jit.h"))


class OpenCLCppWrapper(CppWrapperCpu):
    """Derived from the CPU's wrapper: that for GPUs is about Triton's kernels."""

    def __init__(self):
        self.device = "ocl"
        super().__init__()
        self.scalars = 0

    @staticmethod
    def create(is_subgraph, subgraph_name, parent_wrapper, partition_signatures=None):
        return OpenCLCppWrapper()

    @staticmethod
    def get_device_include_path_jit(device: str) -> str:
        return _includes(device, False)

    @staticmethod
    def get_device_include_path_aot(device: str) -> str:
        return _includes(device, True)

    @staticmethod
    def get_device_include_path(device: str) -> str:    # before 2.13, for either
        return _includes(device, V.graph.aot_mode)

    # Kernels: called by OpenCLKernel and FlexAttention.

    def define_ocl_kernel(self, name: str, source: str, signature: str, device: int, comment: str = "") -> None:
        from torch_ocl.inductor import runtime

        lines = "".join(f"// {line}\n" for line in comment.splitlines())
        function = runtime.function_name(name)
        text = runtime.complete(function, source)
        if not V.graph.aot_mode:
            runtime.kernel(function, source, signature, device)
        self.define_kernel(name, f'{lines}static torch_ocl_inductor::Kernel {name}(R"CLC({text})CLC", "{function}", '
                                 f'"{signature}");', gpu=False)

    def call_ocl_kernel(self, name: str, device: int, arguments: list, kind: str, numbers: list) -> None:
        """arguments: what OpenCLKernel.arguments gives; numbers: of the range."""
        values = []
        for value, what, dtype in arguments:
            if isinstance(value, ElementOnHost):
                self.scalars += 1
                number = f"ocl_number{self.scalars}"
                self.codegen_tensor_item(dtype, value.tensor(self), number)
                values.append(number)
            else:
                values.append(value if isinstance(value, str) else self.codegen_sizevar(sympy.sympify(value)))
        values = ", ".join(f"torch_ocl_inductor::argument({value})" for value in values)
        sizes = ", ".join(f"static_cast<int64_t>({self.codegen_sizevar(sympy.sympify(n))})" for n in numbers)
        index = "this->device_idx_" if V.graph.aot_mode else device
        self.writeline(f"{name}({index}, {_RANGES[kind]}, {{{sizes}}}, {{{values}}});")

    # Device names.

    def codegen_device(self, device):
        if device.type == "ocl":
            self.used_cached_devices.add("privateuse1")
            return f"cached_torch_device_type_privateuse1, {device.index or 0}"
        return super().codegen_device(device)


def _includes(device: str, aot: bool) -> str:
    if device != "ocl":
        name = "get_device_include_path_aot" if aot else "get_device_include_path_jit"
        return (getattr(CppWrapperCpu, name, None) or CppWrapperCpu.get_device_include_path)(device)
    shims = _PACKAGE / "inductor_shims" / "c_shim_ocl.h"
    return f'#include "{_header(aot)}"\n#include "{shims}"'


def register() -> None:
    """Tells Inductor where the device's headers are, which it may compile ahead."""
    from torch_ocl import _state

    _state.c().share_symbols()
    cpp_utils.DEVICE_TO_ATEN.setdefault("ocl", "at::kPrivateUse1")
    former = codecache._get_cpp_wrapper_header

    @functools.wraps(former)
    def header(device: str, aot_mode: bool = False) -> str:
        return _header(aot_mode) if device.split(":", maxsplit=1)[0] == "ocl" else former(device, aot_mode)

    codecache._get_cpp_wrapper_header = header
