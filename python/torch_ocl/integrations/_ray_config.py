"""What Ray Train does in its workers before they train: a configuration of torch.distributed that every process of Ray
can unpickle, whether or not it has heard of ocl."""

from __future__ import annotations

import torch
from ray.train.torch.config import TorchConfig, _TorchBackend


class OCLTorchConfig(TorchConfig):
    @property
    def backend_cls(self):
        return OCLTorchBackend


class OCLTorchBackend(_TorchBackend):
    def on_start(self, worker_group, backend_config) -> None:
        worker_group.execute(_know_ocl)
        super().on_start(worker_group, backend_config)


def with_ocl(config: TorchConfig | None) -> TorchConfig:
    """The same for workers on ocl; one of a class of somebody else's is left alone."""
    if config is not None and type(config) is not TorchConfig:
        return config
    settings = {} if config is None else config.to_dict()
    if settings.get("backend") is None:
        defaults = torch.distributed.Backend.default_device_backend_map
        settings["backend"] = f"cpu:{defaults['cpu']},ocl:{defaults['ocl']}"
    return OCLTorchConfig(**settings)


def _know_ocl() -> None:
    import torch_ocl.integrations  # noqa: F401
