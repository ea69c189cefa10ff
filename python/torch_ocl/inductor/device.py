"""How Dynamo and Inductor talk to the device: its interface, and lines of generated wrappers."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch._dynamo.device_interface import caching_worker_current_devices, DeviceInterface

from torch_ocl import _state
from torch_ocl.inductor.runtime import last_cache


class OclInterface(DeviceInterface):
    """torch.ocl, by the names that Dynamo and Inductor have for a device's functions."""

    device = torch.ocl.device
    Event = torch.ocl.Event
    Stream = torch.ocl.Stream

    class Worker:
        @staticmethod
        def set_device(device: int) -> None:
            caching_worker_current_devices["ocl"] = device

        @staticmethod
        def current_device() -> int:
            return caching_worker_current_devices.get("ocl", torch.ocl.current_device())

        @staticmethod
        def get_device_properties(device=None):
            figures = torch.ocl.get_device_properties(device)
            # How many work-items Inductor wants to keep busy when it cuts long reductions into several.
            cpu = figures.kind == "cpu"
            return SimpleNamespace(
                name=figures.name, multi_processor_count=figures.compute_units, warp_size=16 if cpu else 32,
                max_threads_per_multi_processor=64 if cpu else 1024, max_threads_per_block=figures.max_work_group_size,
                total_memory=figures.total_memory, last_level_cache_size=last_cache() if cpu else None)

    current_device = staticmethod(torch.ocl.current_device)
    set_device = staticmethod(torch.ocl.set_device)
    device_count = staticmethod(torch.ocl.device_count)
    is_available = staticmethod(torch.ocl.is_available)
    stream = staticmethod(torch.ocl.stream)
    current_stream = staticmethod(torch.ocl.current_stream)
    set_stream = staticmethod(torch.ocl.set_stream)
    synchronize = staticmethod(torch.ocl.synchronize)
    # The figures of Worker: those that the device reports (a sub-group of one lane on some CPU drivers) would cut
    # reductions into pieces of a single element.
    get_device_properties = staticmethod(Worker.get_device_properties)
    memory_allocated = staticmethod(torch.ocl.memory_allocated)

    @staticmethod
    def exchange_device(device: int) -> int:
        return _state.c().exchange_device(device)

    maybe_exchange_device = exchange_device

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return torch.ocl.current_stream(device_idx).stream_id

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        _state.c().set_stream(stream_id, device_index)

    @staticmethod
    def get_compute_capability(device=None):
        major, minor = torch.ocl.get_device_capability(device)
        return f"{major}.{minor}"

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return torch.ocl.is_bf16_supported(including_emulation)

    @classmethod
    def is_dtype_supported(cls, dtype: torch.dtype, including_emulation: bool = False) -> bool:
        return dtype != torch.float64 or torch.ocl.get_device_properties().fp64


def op_overrides():
    """The lines about the device in generated wrappers."""
    from torch._inductor.codegen.common import DeviceOpOverrides

    class OclDeviceOpOverrides(DeviceOpOverrides):
        def import_get_raw_stream_as(self, name: str) -> str:
            return f"def {name}(index):\n    return torch.ocl.current_stream(index).stream_id\n"

        def set_device(self, device_idx) -> str:
            return f"torch.ocl.set_device({device_idx})"

        def synchronize(self) -> str:
            return "torch.ocl.synchronize()"

        def device_guard(self, device_idx) -> str:
            return f"torch.ocl.device({device_idx})"

        def current_device_idx_expr(self) -> str:
            return "torch.ocl.current_device()"

        def current_stream(self) -> str:
            return "torch.ocl.current_stream()"

        def cpp_kernel_type(self) -> str:
            return "void*"

        def cpp_device_guard(self) -> str:
            return "torch_ocl_inductor::DeviceGuard"

        cpp_aoti_device_guard = cpp_stream_guard = cpp_aoti_stream_guard = cpp_device_guard

        def cpp_stream_type(self) -> str:
            return "void*"

    return OclDeviceOpOverrides()
