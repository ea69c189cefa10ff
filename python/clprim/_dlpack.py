"""Arrays of other libraries through DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim._C import Tensor


def from_dlpack(array: Any, device: Any = None) -> Tensor:
    """A device tensor with the elements of an array in host memory that has __dlpack__ (NumPy, PyTorch, JAX, ...)."""
    return Tensor(np.from_dlpack(array), device)
