"""What Dynamo and Inductor must know of the device early: told when they are imported, and not before."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import sys

import torch


def register() -> None:
    waiting = {}
    for name, adapt in (("torch._dynamo.device_interface", _register_interface),
                        ("torch._inductor.decomposition", _keep_gradients_of_pooling)):
        if name in sys.modules:
            adapt(sys.modules[name])
        else:
            waiting[name] = adapt
    if waiting:
        sys.meta_path.insert(0, _AfterImport(waiting))


def _register_interface(module) -> None:
    from torch._dynamo.device_interface import register_interface_for_device

    from torch_ocl.inductor.device import OclInterface

    register_interface_for_device("ocl", OclInterface)


def _keep_gradients_of_pooling(module) -> None:
    """Inductor would make them with scatter_add, whose order the device keeps by an operator of its own and several
    launches. Left alone they become sums over windows, fused with what surrounds them."""
    overload = torch.ops.aten.max_pool2d_with_indices_backward.default
    former = module.decompositions.get(overload)
    if former is None:
        return

    @functools.wraps(former)
    def decompose(grad_output, *args, **kwargs):
        return NotImplemented if grad_output.device.type == "ocl" else former(grad_output, *args, **kwargs)

    module.decompositions[overload] = decompose


class _AfterImport(importlib.abc.MetaPathFinder):
    """Sees the imports that it waits for, then leaves."""

    def __init__(self, waiting: dict):
        self.waiting = waiting

    def find_spec(self, name, path=None, target=None):
        adapt = self.waiting.pop(name, None)
        if adapt is None:
            return None
        if not self.waiting:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            adapt(module)

        spec.loader.exec_module = exec_module
        return spec
