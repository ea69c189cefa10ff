"""Random operators that a compiled backward pass computes anew (activation checkpointing): the forward pass keeps the
state of the device's generator ahead of each, the backward pass draws with it.

PyTorch has a list of devices whose state may be kept, in two operators of higher order. Its other way, generators as
arguments of graphs, is for the capture of CUDA graphs; Inductor takes it for CUDA and XPU only.
"""

from __future__ import annotations

import functools
from unittest.mock import patch

import torch
from torch._C import DispatchKey
from torch._higher_order_ops.utils import registered_hop_fake_fns
from torch._prims import rng_prims
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode, track_tensor_tree
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree


def _device_of(args, kwargs) -> torch.device | None:
    """That of a random operator: of its tensors, else the one it is told."""
    for value in (kwargs.get("device"), *args):
        if isinstance(value, torch.Tensor):
            return value.device
        if isinstance(value, (str, torch.device)):
            return torch.device(value)
    return None


def _on_ocl(args, kwargs) -> bool:
    return getattr(_device_of(args, kwargs), "type", "") == "ocl"


def _generator_of(args, kwargs) -> torch.Generator:
    index = _device_of(args, kwargs).index
    return torch.ocl.default_generators[torch.accelerator.current_device_index() if index is None else index]


def _run_and_save(op, *args, **kwargs):
    return _generator_of(args, kwargs).get_state(), op(*args, **kwargs)


def _run_with(state, op, *args, **kwargs):
    generator = _generator_of(args, kwargs)
    former = generator.get_state()
    generator.set_state(state)
    try:
        return op(*args, **kwargs)
    finally:
        generator.set_state(former)


def _run_and_save_fake(mode, op, *args, **kwargs):
    with mode:
        return _run_and_save(op, *args, **kwargs)


def _run_and_save_traced(mode, op, *args, **kwargs):
    out = _run_and_save(op, *args, **kwargs)
    of_trace = functools.partial(pytree.tree_map, mode.tracer.unwrap_proxy)
    proxy = mode.tracer.create_proxy("call_function", rng_prims.run_and_save_rng_state,
                                     of_trace((op, *args)), of_trace(kwargs))
    return track_tensor_tree(out, proxy, constant=None, tracer=mode.tracer)


def _served(former, ours, first: int):
    """A kernel that takes `ours` where the random operator is this device's; its arguments begin at number `first`."""
    @functools.wraps(former)
    def kernel(*args, **kwargs):
        return (ours if _on_ocl(args[first:], kwargs) else former)(*args, **kwargs)

    return kernel


def register_operators() -> None:
    save, use = rng_prims.run_and_save_rng_state, rng_prims.run_with_rng_state
    save.py_impl(DispatchKey.PrivateUse1)(_run_and_save)
    use.py_impl(DispatchKey.PrivateUse1)(_run_with)
    for table, operator, key, ours, first in (
            (save.py_kernels, save, DispatchKey.BackendSelect, _run_and_save, 1),
            (use.py_kernels, use, DispatchKey.BackendSelect, _run_with, 2),
            (registered_hop_fake_fns, save, save, _run_and_save, 1),
            (save.python_key_table, save, FakeTensorMode, _run_and_save_fake, 2),   # in older versions
            (save.python_key_table, save, ProxyTorchDispatchMode, _run_and_save_traced, 2)):
        if key in table:
            table[key] = _served(table[key], ours, first)
        operator._dispatch_cache.clear()


def register_partitioners(module) -> None:
    """Of torch._functorch.partitioners: states of this device pass from the forward graph to the backward one."""
    from torch._functorch import config

    former = module.functionalize_rng_ops
    knows_devices = hasattr(module, "supports_graphsafe_rng")   # else CUDA's states and the CPU's are all there are

    @functools.wraps(former)
    def functionalize_rng_ops(joint_module, *args, **kwargs):
        values = pytree.tree_leaves([node.meta.get("val") for node in joint_module.graph.nodes])
        if not any(isinstance(value, torch.Tensor) and value.device.type == "ocl" for value in values):
            return former(joint_module, *args, **kwargs)
        with config.patch(graphsafe_rng_functionalization=False):
            if knows_devices:
                with patch.object(module, "supports_graphsafe_rng", _or_ocl(module.supports_graphsafe_rng)):
                    return former(joint_module, *args, **kwargs)
            graphs = former(joint_module, *args, **kwargs)
            for graph_module in graphs:
                _describe_states(graph_module.graph)
            return graphs

    module.functionalize_rng_ops = functionalize_rng_ops


def _or_ocl(former):
    return lambda device: device.type == "ocl" or former(device)


def _describe_states(graph) -> None:
    """States of this device's generator that were taken for the CPU's, which are longer."""
    for node in graph.nodes:
        if node.target is rng_prims.run_and_save_rng_state:
            states, first = [user for user in node.users if user.args[1] == 0], 1
        elif node.target is rng_prims.run_with_rng_state:
            states, first = [node.args[0]], 2
        else:
            continue
        args, kwargs = map_arg((node.args[first:], node.kwargs), lambda n: n.meta.get("val"))
        if _on_ocl(args, kwargs):
            for state in states:
                state.meta["val"] = state.meta["val"].fake_mode.from_tensor(_generator_of(args, kwargs).get_state())
