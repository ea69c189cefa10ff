"""transformers: Trainer, pipeline() and device_map="auto" take ocl. Trainer and device_map are accelerate's work."""

from __future__ import annotations

import importlib
import sys

import torch

from torch_ocl.integrations import _view


def apply(_: str = "transformers") -> None:
    from torch_ocl import integrations

    if importlib.util.find_spec("accelerate") is not None:
        import accelerate  # noqa: F401

        integrations.apply("accelerate")
    # Its modules are imported when they are used, so each is adapted then.
    for name, adapt in _ADAPTERS.items():
        if name in sys.modules:
            adapt(sys.modules[name])
    sys.meta_path.insert(0, _Finder())


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


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        if fullname not in _ADAPTERS:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, _ADAPTERS[fullname])
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader, adapt):
        self._loader, self._adapt = loader, adapt

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._adapt(module)
