"""One line on standard error when a framework that does not know ocl is imported while there is a GPU of it."""

from __future__ import annotations

import importlib.abc
import os
import sys

from torch_ocl import _after_import

_TRAINERS = {"accelerate", "transformers", "lightning", "pytorch_lightning", "sentence_transformers", "ultralytics",
             "ignite", "ray.train"}
_OTHERS = {"safetensors", "torchao"}   # they do not choose a device


class _Watcher(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        if fullname in _TRAINERS:
            stop()
            _tell(fullname)
        return None


def _tell(framework: str) -> None:
    import torch

    if "torch_ocl.as_cuda" in sys.modules or torch.cuda.is_available():
        return
    try:
        names = [torch.ocl.get_device_name(i) for i in range(torch.ocl.device_count())
                 if torch.ocl.get_device_properties(i).kind == "gpu"]
    except RuntimeError:
        return
    if names:
        print(f"torch_ocl: {framework} does not know the ocl device by itself and will use the CPU, though there is "
              f"{names[0]}: `import torch_ocl.integrations` first, or set TORCH_OCL_INTEGRATIONS=1", file=sys.stderr)


def start() -> None:
    """Runs while torch is imported, which a framework may be doing in the middle of its own import."""
    wish = os.environ.get("TORCH_OCL_INTEGRATIONS", "")
    if wish == "1":
        sys.meta_path.insert(0, _Enabler())
    elif wish != "0":
        sys.meta_path.insert(0, _Watcher())
    else:
        return
    for name in sorted((_TRAINERS | _OTHERS) & set(sys.modules)):
        if wish == "1":
            _after_import.when_imported(sys.modules[name], _enable)
        elif name in _TRAINERS:
            _after_import.when_imported(sys.modules[name], _tell_of_first)


def _enable(_) -> None:
    import torch_ocl.integrations  # noqa: F401


def _tell_of_first(module) -> None:
    if any(isinstance(finder, _Watcher) for finder in sys.meta_path):
        stop()
        _tell(module.__name__)


class _Enabler(importlib.abc.MetaPathFinder):
    """TORCH_OCL_INTEGRATIONS=1: loads the integrations when the first framework is imported, not with torch."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname in _TRAINERS | _OTHERS:
            stop()
            import importlib.util

            import torch_ocl.integrations  # noqa: F401 (its finder takes over)

            return importlib.util.find_spec(fullname)
        return None


def stop() -> None:
    for finder in list(sys.meta_path):
        if isinstance(finder, (_Watcher, _Enabler)):
            sys.meta_path.remove(finder)
