"""torch.nn.attention.flex_attention on the device: it asks for one of the devices that it knows by name."""

from __future__ import annotations

import sys

_MODULE = "torch.nn.attention.flex_attention"


def register() -> None:
    from torch_ocl._after_import import AfterImport

    if _MODULE in sys.modules:
        _adapt(sys.modules[_MODULE])
    else:
        sys.meta_path.insert(0, AfterImport(lambda name: _adapt if name == _MODULE else None))


def _adapt(module) -> None:
    former = module._validate_device

    def _validate_device(query, key, value):
        if query.device.type != "ocl":
            former(query, key, value)

    module._validate_device = _validate_device
