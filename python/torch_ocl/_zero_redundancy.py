"""ZeroRedundancyOptimizer.consolidate_state_dict copies states to the host without waiting for the copies, and what it
leaves is read at once (by `state_dict()`, by pickle): so it ends when they have arrived."""

from __future__ import annotations

import functools

import torch
from torch_ocl import _after_import


def register() -> None:
    _after_import.adapt({"torch.distributed.optim.zero_redundancy_optimizer": _adapt})


def _adapt(module) -> None:
    former = module.ZeroRedundancyOptimizer.consolidate_state_dict

    @functools.wraps(former)
    def consolidate_state_dict(self, to: int = 0) -> None:
        former(self, to)
        for device in {parameter.device for group in self.param_groups for parameter in group["params"]}:
            if device.type == "ocl":
                torch.ocl.synchronize(device)

    module.ZeroRedundancyOptimizer.consolidate_state_dict = consolidate_state_dict
