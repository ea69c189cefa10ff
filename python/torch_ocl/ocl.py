"""torch.ocl: the device's functions, named and shaped like those of torch.cuda."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from uuid import UUID

from torch_ocl.memory import *  # noqa: F403
from torch_ocl.random import *  # noqa: F403
from torch_ocl.streams import *  # noqa: F403
from torch_ocl import _state, _surface, memory, random, streams  # noqa: F401 (torch.ocl.memory and the like)

__path__: list[str] = []   # torch.ocl.amp and the like can be imported; torch_ocl._surface finds them
OutOfMemoryError = torch.OutOfMemoryError
AcceleratorError = CudaError = torch.AcceleratorError
has_half = True
has_magma = False


class DeferredCudaCallError(Exception):
    """For code that catches torch.cuda's: nothing is deferred here."""


_is_in_bad_fork = _state.in_bad_fork


def _set_up(extension, reason: str | None) -> None:
    _state.extension = extension
    _state.unavailable_reason = reason


def is_available() -> bool:
    """Whether there is a device. Never raises; unavailable_reason() says why not."""
    return device_count() > 0


def unavailable_reason() -> str | None:
    """Why is_available() is False and what would help; None if it is True."""
    if _state.extension is None:
        return _state.unavailable_reason
    return None if device_count() > 0 else _state.extension.no_device_help()


def device_count() -> int:
    """How many OpenCL devices there are; CLPRIM_DEVICES selects and orders them."""
    return 0 if _state.extension is None else _state.extension.device_count()


def is_initialized() -> bool:
    """Whether this process has used the device."""
    return _state.extension is not None and _state.extension.is_initialized()


def __getattr__(name: str):
    if name == "_initialized":   # torch.utils.checkpoint keeps the generators' states of devices that have this
        return is_initialized()
    if name == "Scheduling" and not _inductor_registered:
        # Inductor asks for this name when it is first used; registering by ourselves says more than answering would.
        _register_inductor()
    found = _surface.look_up(name)
    if found is not None:
        globals()[name] = found
        return found
    raise AttributeError(f"module 'torch.ocl' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_surface.names()})


_inductor_registered = False


def _register_inductor() -> None:
    global _inductor_registered
    _inductor_registered = True
    try:
        from torch_ocl import inductor

        inductor.register()
    except Exception as error:   # who asks for an attribute takes most types for "there is none"
        raise ImportError("the ocl device's code generator for torch.compile could not be loaded") from error


def init() -> None:
    """Opens the current device now instead of at first use."""
    _state.c().init()


_lazy_init = init


def current_device() -> int:
    """Index of this thread's current device."""
    return _state.c().current_device()


def set_device(device) -> None:
    """Makes a device (index, "ocl:1", torch.device) current in this thread; a negative index does nothing."""
    _state.c().set_device(_state.index_of(device))


class device:  # noqa: N801 (named like torch.cuda.device)
    """Context manager that makes a device current; None or a negative index leaves it as it is."""

    def __init__(self, device):
        self.idx = _state.index_of(device, optional=True)
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx = _state.c().exchange_device(self.idx)
        return self

    def __exit__(self, *_):
        _state.c().exchange_device(self.prev_idx)
        return False


class device_of(device):  # noqa: N801
    """Makes the device of a tensor or storage current; no effect for one that is not on an ocl device."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.device.type == "ocl" else -1)


def can_device_access_peer(device, peer_device) -> bool:
    """Whether kernels' copies pass between two devices within one OpenCL context (tensor.to() works either way)."""
    a, b = _state.index_of(device), _state.index_of(peer_device)
    for index in (a, b):
        if not 0 <= index < device_count():
            raise AssertionError(f"Invalid device id: {index}")
    return a != b and _state.c().shares_context(a, b)


# torch.accelerator's names.


def current_accelerator(check_available: bool = False) -> torch.device | None:
    return torch.device("ocl") if is_available() or not check_available else None


current_device_index = current_device_idx = current_device
set_device_index = set_device_idx = set_device


class device_index(device):  # noqa: N801
    """Context manager that makes the device of an index current; None leaves it as it is."""


def ipc_collect() -> None:
    """Does nothing: tensors go to other processes as copies, so nothing waits to be collected."""


def check_error(res: int) -> None:
    """Raises the error that an OpenCL code stands for; 0 is success."""
    if res != 0:
        raise torch.AcceleratorError(f"{_state.c().error_name(res)} ({res})")


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """What happens when an operation makes the host wait for the device: "default" (0) nothing, "warn" (1), "error"
    (2). torch.ocl.synchronize() and events are not meant: their names say that they wait."""
    modes = {"default": 0, "warn": 1, "error": 2}
    mode = modes.get(debug_mode, debug_mode) if isinstance(debug_mode, str) else debug_mode
    if mode not in (0, 1, 2) or isinstance(mode, bool):
        raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
    _state.c().set_sync_debug_mode(mode)


def get_sync_debug_mode() -> int:
    return _state.c().get_sync_debug_mode()


def synchronize(device=None) -> None:
    """Waits for all work on all streams of a device; raises the errors that its kernels met."""
    torch.accelerator.synchronize(_state.index_of(device))


@dataclass(frozen=True)
class DeviceProperties:
    """What OpenCL says about a device. Sizes are in bytes."""

    name: str
    vendor: str
    platform_name: str
    driver_version: str
    id: str
    kind: str
    opencl_version: tuple[int, int]
    total_memory: int
    max_allocation: int
    local_memory: int
    compute_units: int
    max_work_group_size: int
    sub_group_sizes: list[int]
    fp64: bool
    fp16: bool
    unified_memory: bool
    amx: bool
    vnni_bytes: int
    index: int = 0

    # What code for CUDA and XPU reads.

    @property
    def multi_processor_count(self) -> int:
        return self.compute_units

    gpu_subslice_count = max_compute_units = multi_processor_count

    @property
    def major(self) -> int:
        return self.opencl_version[0]

    @property
    def minor(self) -> int:
        return self.opencl_version[1]

    @property
    def uuid(self) -> UUID:
        """The driver's, or one made of what identifies the device where it tells none."""
        from uuid import NAMESPACE_OID, UUID, uuid5

        own = _state.c().device_uuid(self.index)
        return UUID(bytes=own) if own else uuid5(NAMESPACE_OID, f"{self.platform_name}/{self.name}/{self.id}")

    @property
    def warp_size(self) -> int:
        """Work-items that a driver runs in step: the widest sub-group, 1 where it tells of none."""
        return max(self.sub_group_sizes, default=1)

    @property
    def max_threads_per_block(self) -> int:
        return self.max_work_group_size

    max_threads_per_multi_processor = max_threads_per_block

    @property
    def shared_memory_per_block(self) -> int:
        return self.local_memory

    shared_memory_per_block_optin = shared_memory_per_multiprocessor = shared_memory_per_block

    @property
    def is_integrated(self) -> int:
        return int(self.unified_memory)

    is_multi_gpu_board = 0

    @property
    def clock_rate(self) -> int:
        """kHz, the highest."""
        return 1000 * _state.c().clock_rate(self.index)

    @property
    def pci_address(self) -> str:
        return _state.c().pci_address(self.index)

    @property
    def pci_bus_id(self) -> int:
        return int((self.pci_address or "0:0:0.0").split(":")[1], 16)

    @property
    def pci_device_id(self) -> int:
        return int((self.pci_address or "0:0:0.0").split(":")[2].split(".")[0], 16)

    @property
    def pci_domain_id(self) -> int:
        return int((self.pci_address or "0:0:0.0").split(":")[0], 16)

    @property
    def gcnArchName(self) -> str:  # noqa: N802
        return self.name

    has_fp16 = property(lambda self: self.fp16)
    has_fp64 = property(lambda self: self.fp64)
    type = property(lambda self: self.kind)
    version = property(lambda self: f"{self.major}.{self.minor}")

    def __repr__(self) -> str:
        major, minor = self.opencl_version
        return (
            f"DeviceProperties(name='{self.name}', platform='{self.platform_name}', id='{self.id}', "
            f"kind='{self.kind}', opencl={major}.{minor}, driver='{self.driver_version}', "
            f"total_memory={self.total_memory // 2**20}MB, local_memory={self.local_memory // 1024}KB, "
            f"compute_units={self.compute_units}, fp64={self.fp64}, fp16={self.fp16})"
        )


def get_device_properties(device=None) -> DeviceProperties:
    index = _state.index_of(device)
    return DeviceProperties(**_state.c().device_properties(index), index=index)


def get_device_name(device=None) -> str:
    return get_device_properties(device).name


def get_device_capability(device=None) -> tuple[int, int]:
    """The OpenCL version of a device, e.g. (3, 0)."""
    return get_device_properties(device).opencl_version


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """bfloat16 tensors always work: they are stored as such and computed in float32 (emulation, in PyTorch's word)."""
    return including_emulation and is_available()


def is_tf32_supported() -> bool:
    """False: float32 products are computed in float32."""
    return False


def get_arch_list() -> list[str]:
    """Empty: no kernel is compiled ahead for an architecture; drivers compile OpenCL C at first use."""
    return []


def get_gencode_flags() -> str:
    return ""


def clock_rate(device=None) -> int:
    """The device's highest clock in MHz; OpenCL does not tell the current one."""
    return _state.c().clock_rate(_state.index_of(device))


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]


# Kernels of one's own.


def compile_kernel(source: str, name: str, *, options: str = "", device=None):
    """A kernel in OpenCL C as a function of tensors and numbers; see torch_ocl.user_kernel.compile_kernel."""
    from torch_ocl import user_kernel

    return user_kernel.compile_kernel(source, name, options=options, device=device)


# What ran on the CPU for want of a kernel.


def fallback_policy() -> str:
    """'error', 'warn' or 'allow'; see set_fallback_policy."""
    return _state.c().fallback_policy()


def set_fallback_policy(policy: str) -> None:
    """What happens to an operator without a kernel for the device.

    'error' raises NotImplementedError, 'warn' runs it on the CPU and warns once per operator (the default), 'allow'
    runs it on the CPU. TORCH_OCL_FALLBACK sets the policy at start.
    """
    _state.c().set_fallback_policy(policy)


def fallback_report() -> dict[str, int]:
    """How often each operator ran on the CPU since start or the last reset_fallback_report()."""
    return _state.c().fallback_report()


def reset_fallback_report() -> None:
    """Forgets the counts; each operator warns anew."""
    _state.c().reset_fallback_report()


@contextlib.contextmanager
def fallback(policy: str):
    """Context manager: another fallback policy for a while."""
    before = fallback_policy()
    set_fallback_policy(policy)
    try:
        yield
    finally:
        set_fallback_policy(before)


# Counters for tests and profiling.


def blocking_calls() -> int:
    """How often this process has waited for a device since start."""
    return _state.c().blocking_calls()


def kernel_launches() -> int:
    """How many kernels this process has launched since start."""
    return _state.c().kernel_launches()


def program_builds(device=None) -> int:
    """How many OpenCL programs this process has compiled (not loaded from the disk cache) for a device."""
    return _state.c().program_builds(_state.index_of(device))
