"""What the modules of torch.ocl share: the C++ part, or why it is missing, and device arguments."""

from __future__ import annotations

import torch

extension = None
unavailable_reason: str | None = None


def c():
    """The C++ part; RuntimeError with the reason if it is not there."""
    if extension is None:
        raise RuntimeError(f"torch.ocl is not available: {unavailable_reason}")
    return extension


def in_bad_fork() -> bool:
    """Whether this process is the fork of one that had used the device, which therefore cannot be used here."""
    return extension is not None and extension.in_bad_fork()


def index_of(device, optional: bool = False) -> int:
    """Index of a device given as index, "ocl", "ocl:1", torch.device or None (the current one; -1 if optional)."""
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != "ocl":
            raise ValueError(f"Expected an ocl device, but got: {device}")
        device = device.index
    if device is None:
        return -1 if optional else c().current_device()
    return int(device)
