"""Adapts modules as soon as they have been imported."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable


class AfterImport(importlib.abc.MetaPathFinder):
    """`adapter_of(name)` says what to call with the module of that name when it has run; None: nothing."""

    def __init__(self, adapter_of: Callable[[str], Callable | None]):
        self._adapter_of = adapter_of

    def find_spec(self, fullname, path=None, target=None):
        adapt = self._adapter_of(fullname)
        if adapt is None:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, adapt)
        return spec


_waiting: dict[str, Callable] = {}
_finder = AfterImport(_waiting.get)


def adapt(adapters: dict[str, Callable]) -> None:
    """Calls each with the module of its name: at once where that is imported, else when it will be."""
    for name, adapter in adapters.items():
        if name in sys.modules:
            adapter(sys.modules[name])
        else:
            _waiting[name] = adapter
    if _waiting and _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


class _Loader(importlib.abc.Loader):
    def __init__(self, loader, adapt: Callable):
        self._loader, self._adapt = loader, adapt

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._adapt(module)

    def __getattr__(self, name: str):
        return getattr(self._loader, name)
