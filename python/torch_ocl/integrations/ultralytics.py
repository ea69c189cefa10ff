"""ultralytics: device="ocl" or "ocl:0" in train, val and predict, "ocl:0,1" for a process each; it is treated as
Intel's "xpu" is."""

from __future__ import annotations

import os
import sys
import types

import torch

from torch_ocl.integrations import _view


class _Distributed(types.ModuleType):
    """torch.distributed, whose groups have each device's default backend instead of NCCL."""

    def __getattr__(self, name: str):
        return getattr(torch.distributed, name)

    @staticmethod
    def init_process_group(backend=None, *arguments, **named):
        return torch.distributed.init_process_group(None if backend == "nccl" else backend, *arguments, **named)


def apply(_: str = "ultralytics") -> None:
    from ultralytics.engine import trainer, validator
    from ultralytics.utils import ops, torch_utils

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
    trainer.select_device = select_device
    _view.show_view(trainer)
    _view.know_ocl(validator.BaseValidator, "__call__", "npu", "xpu")
    _view.know_ocl(ops.Profile, "__init__", "npu", "xpu")   # its times wait for the device
    _several_devices(trainer)


def _several_devices(trainer) -> None:
    """It starts a process for each device itself, by a script of its own, which has to know ocl as well."""
    _view.know_ocl(trainer.BaseTrainer, "_setup_ddp", "npu", "xpu")
    if not torch.cuda.is_available():
        trainer.dist = _Distributed("torch.distributed")

    @_view.wrap(trainer, "generate_ddp_command")
    def generate_ddp_command(former, *arguments, **named):
        os.environ.setdefault("TORCH_OCL_INTEGRATIONS", "1")
        return former(*arguments, **named)
