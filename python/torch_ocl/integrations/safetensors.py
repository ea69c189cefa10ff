"""safetensors: device="ocl" in load_file, load_model and safe_open. Its reader knows a list of names, and takes any
other accelerator by its index."""

from __future__ import annotations

import torch


def _index(device):
    if isinstance(device, torch.device):
        device = str(device)
    if isinstance(device, str) and (device == "ocl" or device.startswith("ocl:")):
        return torch.device(device).index or 0
    return device


def apply(_: str = "safetensors") -> None:
    import safetensors
    import safetensors.torch as of_torch

    former = safetensors.safe_open

    def safe_open(filename, framework, device="cpu", **named):
        return former(filename, framework, device=_index(device), **named)

    safetensors.safe_open = of_torch.safe_open = safe_open
