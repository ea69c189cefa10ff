"""transformers: Trainer, pipeline() and device_map="auto" take ocl. Trainer and device_map are accelerate's work."""

from __future__ import annotations

import importlib.util

import torch

from torch_ocl import _after_import
from torch_ocl.integrations import _view


def apply(_: str = "transformers") -> None:
    from torch_ocl import integrations

    if importlib.util.find_spec("accelerate") is not None:
        import accelerate  # noqa: F401

        integrations.apply("accelerate")
    # Its modules are imported when they are used, so each is adapted then.
    _after_import.adapt(_ADAPTERS)


def _arguments(module) -> None:
    module.torch = _view.view_of_one
    _view.replace("is_torch_cuda_available", torch.ocl.is_available, module)
    _view.replace("is_torch_bf16_gpu_available", torch.ocl.is_available, module)


def _uses_cuda(module) -> None:
    _view.show_view(module)
    _view.replace("is_torch_cuda_available", torch.ocl.is_available, module)


_ADAPTERS = {
    "transformers.training_args": _arguments,
    "transformers.trainer": _view.show_view,
    "transformers.trainer_utils": _uses_cuda,
    "transformers.trainer_pt_utils": _view.show_view,
    "transformers.pipelines.base": _uses_cuda,
    "transformers.integrations.accelerate": _view.show_view,
}
