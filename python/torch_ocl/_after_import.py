"""Adapts modules as soon as they have been imported."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
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


def when_imported(module, adapter: Callable) -> None:
    """Calls it with a module: at once, or when the import of it that is under way has ended."""
    spec = getattr(module, "__spec__", None)
    if not getattr(spec, "_initializing", False):
        adapter(module)
    elif isinstance(spec, _Watched):
        spec.adapters.append(adapter)
    elif type(spec) is importlib.machinery.ModuleSpec:
        spec.adapters = [adapter]
        spec.__class__ = _Watched


class _Watched(importlib.machinery.ModuleSpec):
    """Python sets `_initializing` to False when the module has run, which nothing else tells."""

    @property
    def _initializing(self) -> bool:
        return "ended" not in self.__dict__

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        if value or "ended" in self.__dict__:
            return
        self.ended = True
        module = sys.modules.get(self.name)
        if module is not None and module.__spec__ is self:   # else it has failed
            for adapter in self.adapters:
                adapter(module)


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
