"""OpenCL device for PyTorch.

`import torch` is enough: PyTorch finds this package by its entry point, and the device is there as "ocl", "ocl:0", ...,
with its functions in `torch.ocl`. Nothing is opened before the device is used.
"""

from __future__ import annotations

__version__ = "0.1.0"

OLDEST_TORCH = (2, 11)
FIRST_UNSUPPORTED_TORCH = (2, 16)


def _autoload() -> None:
    """Entry point of PyTorch's `torch.backends` group. Never raises: PyTorch must import without a working device."""
    import sys

    import torch

    if getattr(torch, "ocl", None) is not None:
        return
    from torch_ocl import _loader

    _loader.register(torch, sys.modules)


def __getattr__(name: str):
    # Functions of the package that need C++ or are seldom used are loaded when asked for.
    import importlib

    if name in ("ocl", "validate", "doctor", "dcn_v2", "pointwise"):
        return importlib.import_module(f"torch_ocl.{name}")
    if name == "pointwise_kernel":
        return importlib.import_module("torch_ocl.pointwise").pointwise_kernel
    if name in ("include_paths", "library_paths", "extension_options"):
        return getattr(importlib.import_module("torch_ocl._extension"), name)
    if name == "kernel_op":
        return importlib.import_module("torch_ocl.kernel_operator").kernel_op
    raise AttributeError(f"module 'torch_ocl' has no attribute '{name}'")


_autoload()
