"""What torch.distributed needs to know of the device before anybody uses it. Opens no driver."""

from __future__ import annotations

import functools

import torch


def register() -> None:
    if not torch.distributed.is_available():
        return
    from torch.distributed.distributed_c10d import BackendConfig

    BackendConfig.__init__ = _with_processor(BackendConfig.__init__)


def _with_processor(init):
    """Where no backend is named, PyTorch takes that of the accelerator alone and refuses tensors on the CPU. Scripts that
    compute on the CPU must work as without this package, so the CPU keeps the backend that it has without."""

    @functools.wraps(init)
    def initialize(self, backend):
        from torch.distributed import Backend

        kind = torch.accelerator.current_accelerator()
        if str(backend) != Backend.UNDEFINED or kind is None or kind.type != "ocl":
            return init(self, backend)
        chosen = {"cpu": Backend.default_device_backend_map["cpu"]}
        if "ocl" in Backend.default_device_backend_map and torch.ocl.is_available():
            chosen["ocl"] = Backend.default_device_backend_map["ocl"]
        init(self, ",".join(f"{device}:{name}" for device, name in chosen.items()))

    return initialize
