"""torch.nn.attention.flex_attention on the device: it asks for one of the devices that it knows by name."""

from __future__ import annotations

from torch_ocl import _after_import


def register() -> None:
    _after_import.adapt({"torch.nn.attention.flex_attention": _adapt})


def _adapt(module) -> None:
    former = module._validate_device

    def _validate_device(query, key, value):
        if query.device.type != "ocl":
            former(query, key, value)

    module._validate_device = _validate_device
