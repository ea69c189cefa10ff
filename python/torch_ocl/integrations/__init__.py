"""`import torch_ocl.integrations` makes frameworks that know a list of devices know ocl too: accelerate, transformers
(Trainer, pipeline, device_map), Lightning, sentence-transformers, ultralytics, ignite, Ray Train, safetensors and
torchao. Each is adapted when it is imported, or at once if it is already. TORCH_OCL_INTEGRATIONS=1 in the environment
does the same.

Where a framework has a plugin point it is used. Where it has none, names of its modules in this process are replaced;
installed files stay as they are. A framework whose insides have changed beyond what an adapter knows says so in one
line and is left alone.
"""

from __future__ import annotations

import importlib
import sys

from torch_ocl._after_import import AfterImport, when_imported

# A framework's package, and the module here that adapts it.
FRAMEWORKS = {
    "accelerate": "accelerate", "transformers": "transformers", "lightning": "lightning",
    "pytorch_lightning": "lightning", "sentence_transformers": "sentence_transformers", "ultralytics": "ultralytics",
    "ignite": "ignite", "ray": "ray", "safetensors": "safetensors", "torchao": "torchao",
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


def _adapter_of(name: str):
    return (lambda _: apply(name)) if name in FRAMEWORKS and name not in _enabled else None


_after_import = AfterImport(_adapter_of)


def _enable() -> None:
    from torch_ocl import _watch

    _watch.stop()
    if _after_import not in sys.meta_path:
        sys.meta_path.insert(0, _after_import)
    for framework in FRAMEWORKS:
        if framework in sys.modules:
            when_imported(sys.modules[framework], lambda module: apply(module.__name__))


_enable()
