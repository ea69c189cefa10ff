"""Dynamo's interface to the device, registered when Dynamo is imported and not before."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys

_MODULE = "torch._dynamo.device_interface"


def register() -> None:
    if _MODULE in sys.modules:
        _register_interface()
    else:
        sys.meta_path.insert(0, _AfterDynamo())


def _register_interface() -> None:
    from torch._dynamo.device_interface import register_interface_for_device

    from torch_ocl.inductor.device import OclInterface

    register_interface_for_device("ocl", OclInterface)


class _AfterDynamo(importlib.abc.MetaPathFinder):
    """Sees the one import that it waits for, then leaves."""

    def find_spec(self, name, path=None, target=None):
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            _register_interface()

        spec.loader.exec_module = exec_module
        return spec
