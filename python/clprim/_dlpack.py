"""Arrays of other libraries through DLPack, and tensors for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim._C import Tensor, _from_dlpack_opencl, _to_dlpack_opencl

CPU, OPENCL = 1, 4      # DLPack's device types; of OpenCL's arrays the data are a cl_mem


def from_dlpack(array: Any, device: Any = None) -> Tensor:
    """A device tensor with the elements of an array that has __dlpack__: a copy of one in host memory (NumPy, PyTorch,
    JAX, ...); the memory itself, shared, of one in OpenCL's (kDLOpenCL) in the device's cl_context."""
    if array.__dlpack_device__()[0] != OPENCL:
        return Tensor(np.from_dlpack(array), device)
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:       # of the protocol before it had versions
        capsule = array.__dlpack__()
    return _from_dlpack_opencl(capsule, device)


def exported(tensor: Tensor, dl_device: tuple[int, int] | None = None, max_version: tuple[int, int] | None = None,
             copy: bool | None = None, stream: Any = None) -> Any:
    """Tensor.__dlpack__: a capsule."""
    if dl_device is None or dl_device[0] == CPU:
        if copy is False:
            raise BufferError("device memory has no address on the host: copy=False cannot be had")
        return tensor.numpy().__dlpack__()
    if tuple(dl_device) != (OPENCL, tensor.device.index) or copy:
        raise BufferError(f"a tensor of OpenCL device {tensor.device.index} cannot be had on DLPack's device "
                          f"{tuple(dl_device)}" + (" as a copy" if copy else ""))
    return _to_dlpack_opencl(tensor, max_version)
