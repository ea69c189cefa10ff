"""OpenCL's own objects behind tensors and devices, for other libraries of OpenCL (pyopencl, C)."""

from __future__ import annotations

from typing import NamedTuple

import torch

from torch_ocl import _state


class CLMemory(NamedTuple):
    buffer: int     # the handle of a cl_mem; it holds other tensors too
    offset: int     # bytes to the tensor's first element


def cl_mem(tensor: torch.Tensor) -> CLMemory:
    """The cl_mem that holds a tensor, and where in it the tensor begins; strides are those of the tensor. Both are good
    as long as the tensor lives. Order work on it with the current stream: `torch.ocl.current_stream().native_handle`
    is its cl_command_queue."""
    if tensor.device.type != "ocl":
        raise ValueError(f"cl_mem: the tensor is on {tensor.device}, expected one on an ocl device")
    return CLMemory(*_state.c().cl_memory(tensor))


def cl_context(device=None) -> int:
    """The handle of a device's cl_context."""
    return _state.c().cl_handles(_state.index_of(device))[0]


def cl_device(device=None) -> int:
    """The handle of a device's cl_device_id."""
    return _state.c().cl_handles(_state.index_of(device))[1]
