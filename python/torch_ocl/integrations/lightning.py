"""Lightning: an accelerator "ocl" in its registries, which "auto" and "gpu" choose; precision "16-mixed" and
"bf16-mixed". For the packages lightning and pytorch_lightning."""

from __future__ import annotations

import functools
import importlib

import torch

from torch_ocl.integrations import _view


def apply(package: str) -> None:
    if package == "lightning":
        pytorch, fabric = "lightning.pytorch", "lightning.fabric"
    else:
        pytorch, fabric = "pytorch_lightning", "lightning_fabric"
    for root, registry, connector in (
            (fabric, "ACCELERATOR_REGISTRY", "connector"),
            (pytorch, "AcceleratorRegistry", "trainer.connectors.accelerator_connector")):
        accelerators = importlib.import_module(f"{root}.accelerators")
        _adapt(accelerators, getattr(accelerators, registry), importlib.import_module(f"{root}.{connector}"))
        _view.show_view(importlib.import_module(f"{root}.plugins.precision.fsdp"))   # its autocast is for "cuda"
        _keep_streams(importlib.import_module(f"{root}.strategies.ddp").DDPStrategy)


def _keep_streams(strategy) -> None:
    """DistributedDataParallel finds the device of a module by itself; told one, Lightning opens a stream of CUDA."""
    name = next(name for name in ("determine_ddp_device_ids", "_determine_ddp_device_ids") if hasattr(strategy, name))
    given = getattr(strategy, name)

    @functools.wraps(given)
    def determine(self):
        return None if self.root_device.type == "ocl" else given(self)

    setattr(strategy, name, determine)


def _adapt(accelerators, registry, connector) -> None:
    class OCLAccelerator(accelerators.Accelerator):
        """Devices of OpenCL."""

        def setup_device(self, device: torch.device) -> None:
            if device.type != "ocl":
                raise ValueError(f"Device should be ocl, got {device} instead")
            torch.ocl.set_device(device)

        def teardown(self) -> None:
            torch.ocl.empty_cache()

        def get_device_stats(self, device) -> dict:
            return torch.ocl.memory_stats(device)

        @staticmethod
        def parse_devices(devices) -> list[int]:
            count = torch.ocl.device_count()
            if isinstance(devices, str):
                devices = [int(part) for part in devices.split(",") if part.strip()] if "," in devices else int(devices)
            if isinstance(devices, int):
                devices = list(range(count if devices == -1 else devices))
            wrong = [index for index in devices if not 0 <= index < count]
            if wrong or not devices:
                raise ValueError(f"devices: there are {count} ocl devices, but {devices} were asked for")
            return list(devices)

        @staticmethod
        def get_parallel_devices(devices: list[int]) -> list[torch.device]:
            return [torch.device("ocl", index) for index in devices]

        @staticmethod
        def auto_device_count() -> int:
            return 1   # devices of OpenCL need not be alike

        @staticmethod
        def is_available() -> bool:
            return torch.ocl.is_available()

        @staticmethod
        def name() -> str:
            return "ocl"

        @classmethod
        def register_accelerators(cls, accelerator_registry) -> None:
            accelerator_registry.register("ocl", cls, description=cls.__name__)

    OCLAccelerator.register_accelerators(registry)
    accelerators.OCLAccelerator = OCLAccelerator
    owner = getattr(connector, "_AcceleratorConnector", None) or connector._Connector
    _view.know_ocl(owner, "_choose_strategy", "cuda", "gpu", "mps")
    _view.know_ocl(owner, "_check_and_init_precision", "cpu", "mps")
    _view.know_ocl(owner, "_check_strategy_and_fallback", "cuda", "gpu")   # FSDP
    owner._choose_auto_accelerator = staticmethod(lambda: "ocl")
    owner._choose_gpu_accelerator_backend = staticmethod(lambda: "ocl")
