"""How fast PyTorch takes the device to be where it estimates what is worth computing anew or moving earlier: it knows
GPUs by data sheets, and asks Triton about others, which has no driver for this device (RuntimeError)."""

from __future__ import annotations

import functools

import torch

from torch_ocl import _after_import

# Of usual devices. Estimates are compared with each other only.
GIGABYTES_PER_SECOND = {"cpu": 30.0, "gpu": 300.0}
TERAFLOPS_OF_A_UNIT = {"cpu": 0.06, "gpu": 0.1}


def register() -> None:
    _after_import.adapt({"torch._inductor.utils": _adapt})


def _figures():
    """Of the current device, if PyTorch has no other accelerator."""
    if torch.cuda.is_available() or torch.xpu.is_available() or not torch.ocl.is_available():
        return None
    return torch.ocl.get_device_properties()


def _adapt(module) -> None:
    former_bandwidth, former_speed = module.get_gpu_dram_gbps, module.get_device_tflops

    @functools.wraps(former_bandwidth)
    def get_gpu_dram_gbps() -> float:
        figures = _figures()
        return former_bandwidth() if figures is None else GIGABYTES_PER_SECOND.get(figures.kind, 300.0)

    @functools.wraps(former_speed)
    def get_device_tflops(dtype: torch.dtype) -> float:
        figures = _figures()
        if figures is None:
            return former_speed(dtype)
        return figures.compute_units * TERAFLOPS_OF_A_UNIT.get(figures.kind, 0.1)

    module.get_gpu_dram_gbps, module.get_device_tflops = get_gpu_dram_gbps, get_device_tflops
