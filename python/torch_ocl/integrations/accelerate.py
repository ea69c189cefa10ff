"""accelerate: Accelerator() takes ocl, with mixed_precision "bf16" and "fp16", device_map and offloading."""

from __future__ import annotations

import torch

from torch_ocl.integrations import _view


def apply(_: str = "accelerate") -> None:
    import accelerate
    from accelerate import accelerator, big_modeling, hooks, state
    from accelerate.utils import imports, memory, modeling, other

    _view.show_view(state, accelerator, big_modeling, hooks, modeling, memory, other)
    _view.know_ocl(accelerate.Accelerator, "__init__", "xpu", "cuda", "mps")   # mixed_precision="fp16"
    for module in (imports, modeling, accelerator, memory):
        _view.replace("is_bf16_available", lambda ignore_tpu=False: torch.ocl.is_bf16_supported(), module)

    @_view.wrap(state.PartialState, "_prepare_backend")
    def _prepare_backend(former, self, *arguments, **named):
        """One process per device is "MULTI_GPU" to it, by NCCL: by the devices' default backends instead."""
        backend, kind = former(self, *arguments, **named)
        defaults = torch.distributed.Backend.default_device_backend_map
        if backend == "nccl" and "ocl" in defaults:
            backend = f"cpu:{defaults['cpu']},ocl:{defaults['ocl']}"
        return backend, kind

    @_view.wrap(memory, "clear_device_cache")
    def clear_device_cache(former, garbage_collection=False):
        former(garbage_collection)
        torch.ocl.empty_cache()

    accelerator.clear_device_cache = clear_device_cache
