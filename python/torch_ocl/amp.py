"""torch.ocl.amp: mixed precision by its older names; torch.amp with device_type="ocl" is the same."""

from __future__ import annotations

import functools
import sys

import torch

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]
__path__: list[str] = []   # torch.cuda.amp is a package: `torch.ocl.amp.common` can be imported


class autocast(torch.amp.autocast):  # noqa: N801
    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True):
        super().__init__("ocl", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    def __init__(self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, enabled: bool = True):
        super().__init__("ocl", init_scale=init_scale, growth_factor=growth_factor, backoff_factor=backoff_factor,
                         growth_interval=growth_interval, enabled=enabled)


custom_fwd = functools.partial(torch.amp.custom_fwd, device_type="ocl")
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type="ocl")


def amp_definitely_not_available() -> bool:
    return not torch.ocl.is_available()


autocast_mode = common = grad_scaler = sys.modules[__name__]
