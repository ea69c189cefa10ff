"""Ray Train: TorchTrainer's workers that are given no accelerator of Ray's own train on ocl, each on the device of its
local rank, with the devices' default backends."""

from __future__ import annotations

import contextlib
import sys

import torch

from torch_ocl import _after_import
from torch_ocl.integrations import _view


def apply(_: str = "ray") -> None:
    # `import ray` loads no part of Ray Train.
    _after_import.adapt({"ray.air._internal.device_manager": _managers, "ray.train.torch.torch_trainer": _trainer,
                         "ray.train.v2.torch.torch_trainer": _trainer})


def _managers(module) -> None:
    import ray

    class OCLTorchDeviceManager(module.TorchDeviceManager):
        def is_available(self) -> bool:
            return torch.ocl.is_available()

        def get_devices(self) -> list[torch.device]:
            try:
                rank = ray.train.get_context().get_local_rank() or 0
            except RuntimeError:   # outside of a worker
                rank = 0
            return [torch.device("ocl", rank % torch.ocl.device_count())]

        def set_device(self, device) -> None:
            torch.ocl.set_device(device)

        def supports_stream(self) -> bool:
            return True

        def create_stream(self, device):
            return torch.ocl.Stream(device)

        def get_stream_context(self, stream):
            return torch.ocl.stream(stream) if stream is not None else contextlib.nullcontext()

        def get_current_stream(self):
            return torch.ocl.current_stream()

    module.OCLTorchDeviceManager = OCLTorchDeviceManager
    module.DEFAULT_TORCH_DEVICE_MANAGER_CLS = OCLTorchDeviceManager
    former = module.get_torch_device_manager_by_device_type

    def get_torch_device_manager_by_device_type(device_type: str):
        return OCLTorchDeviceManager() if device_type == "ocl" else former(device_type)

    for name, other in list(sys.modules.items()):   # a worker has imported some before it hears of ocl
        if name.startswith("ray.") and getattr(other, former.__name__, None) is former:
            setattr(other, former.__name__, get_torch_device_manager_by_device_type)
    module._torch_device_manager = None


def _trainer(module) -> None:
    from torch_ocl.integrations import _ray_config

    @_view.wrap(module.TorchTrainer, "__init__")
    def __init__(former, self, *arguments, torch_config=None, scaling_config=None, **named):
        if not any(getattr(scaling_config, name, False) for name in ("use_gpu", "use_tpu")):
            torch_config = _ray_config.with_ocl(torch_config)
        former(self, *arguments, torch_config=torch_config, scaling_config=scaling_config, **named)
