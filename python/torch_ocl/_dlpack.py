"""DLPack for tensors of the device, within this process: their addresses stand for OpenCL memory and mean nothing to
other libraries, so they go by DLPack's type for extension devices, which those refuse."""

from __future__ import annotations

import functools

import torch
from torch.overrides import has_torch_function_unary
from torch.utils import dlpack


def register() -> None:
    """Tensor.__dlpack_device__ knows an extension device by PyTorch's own name of it only, not by "ocl"."""
    of_pytorch = torch.Tensor.__dlpack_device__

    @functools.wraps(of_pytorch)
    def __dlpack_device__(self):
        if not has_torch_function_unary(self) and self.device.type == "ocl":
            return dlpack.DLDeviceType.kDLExtDev, self.device.index
        return of_pytorch(self)

    torch.Tensor.__dlpack_device__ = __dlpack_device__
    wrapper = getattr(dlpack, "ReadOnlyTensorWrapper", None)
    if wrapper is not None:   # it lets only the functions through that it knows
        wrapper._DLPACK_ALLOWED = wrapper._DLPACK_ALLOWED | {__dlpack_device__}
