"""2:4 semi-structured tensors: PyTorch's class refuses all devices but CUDA before it asks for an operator."""

from __future__ import annotations

import types


def register() -> None:
    from torch.sparse.semi_structured import SparseSemiStructuredTensor

    former = SparseSemiStructuredTensor._validate_device_dim_dtype_shape.__func__

    def _validate_device_dim_dtype_shape(cls, original_tensor):
        if original_tensor.device.type == "ocl":    # all but the device is checked as PyTorch does
            original_tensor = types.SimpleNamespace(
                is_cuda=True, dim=original_tensor.dim, is_contiguous=original_tensor.is_contiguous,
                dtype=original_tensor.dtype, shape=original_tensor.shape)
        former(cls, original_tensor)

    SparseSemiStructuredTensor._validate_device_dim_dtype_shape = classmethod(_validate_device_dim_dtype_shape)
