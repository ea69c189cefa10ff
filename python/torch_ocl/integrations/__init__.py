"""`import torch_ocl.integrations` makes frameworks that know a list of devices know ocl too: accelerate, transformers
(Trainer, pipeline, device_map), Lightning, sentence-transformers, ultralytics, ignite and safetensors. Each is adapted
when it is imported, or at once if it is already. TORCH_OCL_INTEGRATIONS=1 in the environment does the same.

Where a framework has a plugin point it is used. Where it has none, names of its modules in this process are replaced;
installed files stay as they are. A framework whose insides have changed beyond what an adapter knows says so in one
line and is left alone.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys

# A framework's package, and the module here that adapts it.
FRAMEWORKS = {
    "accelerate": "accelerate", "transformers": "transformers", "lightning": "lightning",
    "pytorch_lightning": "lightning", "sentence_transformers": "sentence_transformers", "ultralytics": "ultralytics",
    "ignite": "ignite", "safetensors": "safetensors",
}
_enabled: set[str] = set()


def apply(framework: str) -> None:
    """Adapts an imported framework, once."""
    import torch

    if framework in _enabled or not torch.ocl.is_available():
        return
    _enabled.add(framework)
    module = importlib.import_module(f"torch_ocl.integrations.{FRAMEWORKS[framework]}")
    try:
        module.apply(framework)
    except (AttributeError, ImportError, LookupError, TypeError) as error:
        print(f"torch_ocl: {framework} could not be made to know the ocl device ({type(error).__name__}: {error}); "
              "pass it device='ocl' where it takes one, or use `python -m torch_ocl run`", file=sys.stderr)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Adapts a framework as soon as its package has been imported."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname not in FRAMEWORKS or fullname in _enabled:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        if spec is None or spec.loader is None:
            return spec
        spec.loader = _Loader(spec.loader, fullname)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader, framework: str):
        self._loader, self._framework = loader, framework

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        apply(self._framework)

    def __getattr__(self, name: str):
        return getattr(self._loader, name)


def _enable() -> None:
    from torch_ocl import _watch

    _watch.stop()
    if not any(isinstance(finder, _AfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterImport())
    for framework in FRAMEWORKS:
        if framework in sys.modules:
            apply(framework)


_enable()
