"""torch.ocl in compiled code, where PyTorch breaks the graph at functions that it does not know by name: what tells of
the devices is a constant. `with torch.ocl.device(...)` still breaks it: graphs of the backend aot_eager would not know
the device that is current in them."""

from __future__ import annotations

import torch

from torch_ocl import _after_import, _traced_streams

_CONSTANTS = ("is_available", "device_count")
# Checked in every call: another device may be current.
_CHECKED = ("current_device", "is_initialized", "get_device_name", "get_device_capability", "is_bf16_supported")


def register() -> None:
    _after_import.adapt({"torch._dynamo.trace_rules": _name_functions,
                         "torch._dynamo.variables.torch": _adapt_functions,
                         "torch._dynamo.variables.streams": _traced_streams.refuse_contexts,
                         "torch._dynamo.variables.user_defined": _traced_streams.construct})


def _name_functions(module) -> None:
    for name in (*_CONSTANTS, *_CHECKED, *_traced_streams.FUNCTIONS):
        module.manual_torch_name_rule_map[f"torch.ocl.{name}"] = module.TorchInGraphFunctionVariable
    module.get_torch_obj_rule_map.cache_clear()
    module.add("torch_ocl.streams")     # frames of its own, behind a graph break, are not compiled


def _adapt_functions(module) -> None:
    _fold_constants(module)
    _traced_streams.handle_functions(module)


def _fold_constants(module) -> None:
    module.constant_fold_functions.update(dict.fromkeys(getattr(torch.ocl, name) for name in (*_CONSTANTS, *_CHECKED)))
    module.constant_fold_functions_need_guards.update(dict.fromkeys(getattr(torch.ocl, name) for name in _CHECKED))
