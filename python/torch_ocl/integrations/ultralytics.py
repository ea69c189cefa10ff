"""ultralytics: device="ocl" or "ocl:0" in train, val and predict; it is treated as Intel's "xpu" is."""

from __future__ import annotations

import sys

import torch

from torch_ocl.integrations import _view


def apply(_: str = "ultralytics") -> None:
    from ultralytics.utils import torch_utils

    for name in ("parse_device", "select_device"):
        _view.know_ocl(torch_utils, name, "npu", "xpu")
    former = torch_utils.select_device

    def select_device(device="", *arguments, **named):
        """Without a device, ocl instead of the CPU."""
        if device in ("", None) and not torch.cuda.is_available():
            device = "ocl:0"
        return former(device, *arguments, **named)

    for name, module in list(sys.modules.items()):
        if name.startswith("ultralytics") and getattr(module, "select_device", None) is former:
            module.select_device = select_device
    from ultralytics.engine import trainer

    trainer.select_device = select_device
    _view.show_view(trainer)
