"""torch.ocl: the device's functions, named and shaped like those of torch.cuda."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import torch

from torch_ocl.memory import *  # noqa: F403
from torch_ocl.random import *  # noqa: F403
from torch_ocl.streams import *  # noqa: F403
from torch_ocl import _state

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
    raise AttributeError(f"module 'torch.ocl' has no attribute '{name}'")


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

    @property
    def multi_processor_count(self) -> int:
        return self.compute_units

    def __repr__(self) -> str:
        major, minor = self.opencl_version
        return (
            f"DeviceProperties(name='{self.name}', platform='{self.platform_name}', id='{self.id}', "
            f"kind='{self.kind}', opencl={major}.{minor}, driver='{self.driver_version}', "
            f"total_memory={self.total_memory // 2**20}MB, local_memory={self.local_memory // 1024}KB, "
            f"compute_units={self.compute_units}, fp64={self.fp64}, fp16={self.fp16})"
        )


def get_device_properties(device=None) -> DeviceProperties:
    return DeviceProperties(**_state.c().device_properties(_state.index_of(device)))


def get_device_name(device=None) -> str:
    return get_device_properties(device).name


def get_device_capability(device=None) -> tuple[int, int]:
    """The OpenCL version of a device, e.g. (3, 0)."""
    return get_device_properties(device).opencl_version


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """bfloat16 tensors always work: they are stored as such and computed in float32 (emulation, in PyTorch's word)."""
    return including_emulation and is_available()


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

    'error' raises NotImplementedError, 'warn' runs it on the CPU and warns once per operator (the default), 'allow' runs
    it on the CPU. TORCH_OCL_FALLBACK sets the policy at start.
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
