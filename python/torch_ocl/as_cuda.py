"""`import torch_ocl.as_cuda` lets a script that was written for "cuda" run on "ocl", unchanged; so does
`python -m torch_ocl run SCRIPT [arguments]`, or `run -m MODULE [arguments]`.

Afterwards "cuda" names the ocl devices wherever Python gives a device to PyTorch (torch.device, factory functions, .to,
.cuda, Module, Generator, torch.load, autocast, GradScaler, profiler, init_process_group("nccl")), and every public name
of torch.cuda is that of torch.ocl: those that a device of OpenCL cannot have say so when they are used. Tensors are
tensors of ocl: their device prints as "ocl:0", and code that compares `tensor.device.type == "cuda"` is what remains to
be changed (`tensor.is_cuda` is true).
"""

from __future__ import annotations

import argparse
import functools
import os
import runpy
import sys
import types

import torch

from torch_ocl._translate import stand_in, translate

__all__ = ["translate"]

_Device, _Generator = torch.device, torch.Generator


def _translating(function, positions: bool = False):
    """The function, with "cuda" meaning ocl in device=, or in any argument."""

    @functools.wraps(function)
    def call(*arguments, **named):
        if "device" in named:
            named["device"] = translate(named["device"])
        if positions:
            arguments = tuple(translate(argument) if isinstance(argument, (str, _Device)) else argument
                              for argument in arguments)
        return function(*arguments, **named)

    return call


def _redirect_factories() -> None:
    from torch.utils._device import _device_constructors

    constructors = set(_device_constructors())   # kept by PyTorch from now on, with the functions as they were
    for module in (torch, torch.fft, torch.nested, torch.signal.windows, torch.sparse):
        for name, value in list(vars(module).items()):
            try:
                known = value in constructors
            except TypeError:   # not hashable
                continue
            if known or (callable(value) and name.endswith("_like") and module is torch and not name.startswith("_")):
                setattr(module, name, _translating(value))
    for name in ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_tensor", "new_zeros"):
        setattr(torch.Tensor, name, _translating(getattr(torch.Tensor, name)))
    for owner in (torch.Tensor, torch.nn.Module, torch.UntypedStorage, torch.TypedStorage,
                  torch.nn.utils.rnn.PackedSequence):
        for name in ("to", "to_empty"):
            if hasattr(owner, name):
                setattr(owner, name, _translating(getattr(owner, name), positions=True))
    torch.set_default_device = _translating(torch.set_default_device, positions=True)
    torch.set_default_tensor_type = _set_default_tensor_type
    for name in ("pin_memory", "is_pinned"):
        setattr(torch.Tensor, name, _translating(getattr(torch.Tensor, name), positions=True))


_of_pytorch_set_default_tensor_type = torch.set_default_tensor_type


def _set_default_tensor_type(kind) -> None:
    name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}"
    if name.startswith(("torch.cuda.", "torch.ocl.")):
        _of_pytorch_set_default_tensor_type("torch." + name.rpartition(".")[2])
        torch.set_default_device("ocl")
    else:
        _of_pytorch_set_default_tensor_type(kind)


def _redirect_cuda_methods() -> None:
    def on_ocl(device):
        return _Device("ocl", device) if isinstance(device, int) else translate(device or "ocl")

    def tensor_cuda(self, device=None, non_blocking=False, memory_format=torch.preserve_format):
        return self.to(on_ocl(device), non_blocking=non_blocking, memory_format=memory_format)

    def module_cuda(self, device=None):
        return self.to(on_ocl(device))

    def storage_cuda(self, device=None, non_blocking=False):
        return self.to(device=on_ocl(device), non_blocking=non_blocking)

    torch.Tensor.cuda, torch.nn.Module.cuda = tensor_cuda, module_cuda
    torch.UntypedStorage.cuda = torch.TypedStorage.cuda = storage_cuda
    torch.nn.utils.rnn.PackedSequence.cuda = lambda self, *a, **k: self.to(on_ocl(a[0] if a else k.get("device")))
    torch.Tensor.is_cuda = property(lambda self: self.device.type == "ocl")
    of_type = torch.Tensor.type

    @functools.wraps(of_type)
    def tensor_type(self, dtype=None, non_blocking=False, **named):
        if dtype is None:
            return of_type(self).replace("torch.ocl.", "torch.cuda.")
        name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", "")
        made = getattr(torch.ocl, name.rpartition(".")[2], None) if "cuda." in name or hasattr(dtype, "dtype") else None
        if made is not None and hasattr(made, "dtype"):
            return self.to(device="ocl", dtype=made.dtype, non_blocking=non_blocking)
        return of_type(self, dtype, non_blocking, **named)

    torch.Tensor.type = tensor_type


def _redirect_cuda_module() -> None:
    """Every public name of torch.cuda and its submodules becomes torch.ocl's. What PyTorch's own code of CUDA uses
    below an underscore stays, but for what a script's start calls."""
    from torch_ocl import _names

    for name in _names.public_names(torch.cuda):
        of_cuda, ours = getattr(torch.cuda, name), getattr(torch.ocl, name)
        if isinstance(of_cuda, types.ModuleType) and isinstance(ours, types.ModuleType):
            for inner in _names.public_names(of_cuda):
                setattr(of_cuda, inner, getattr(ours, inner))
            for private in ("_snapshot", "_dump_snapshot", "_record_memory_history", "_set_memory_metadata",
                            "_get_memory_metadata", "_annotate_tensor"):
                if name == "memory":
                    setattr(of_cuda, private, getattr(ours, private))
        else:
            setattr(torch.cuda, name, ours)
    torch.cuda.synchronize = torch.ocl.synchronize
    torch.cuda._lazy_init = torch.cuda.init = torch.ocl.init
    torch.cuda._lazy_call = lambda function, **_: function()
    torch.cuda._is_in_bad_fork = torch.ocl._is_in_bad_fork
    torch.cuda.default_generators = torch.ocl.default_generators
    torch.cuda.memory._set_allocator_settings = lambda _: None


def _redirect_mixed_precision() -> None:
    autocast, scaler = torch.amp.autocast_mode.autocast, torch.amp.grad_scaler.GradScaler
    for owner in (autocast, scaler):
        owner.__init__ = _translating(owner.__init__, positions=True)
        owner.__init__ = _with_default_device(owner.__init__, owner is scaler)

    def named_type(function):
        @functools.wraps(function)
        def call(*arguments, **named):
            if "device_type" in named:
                named["device_type"] = translate(named["device_type"])
            return function(*(translate(a) if isinstance(a, str) else a for a in arguments), **named)
        return call

    for name in ("is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype",
                 "is_autocast_available"):
        for owner in (torch, torch.amp, torch.amp.autocast_mode):
            if hasattr(owner, name):
                setattr(owner, name, named_type(getattr(owner, name)))
    of_enabled = torch.is_autocast_enabled
    torch.is_autocast_enabled = lambda device_type="ocl": of_enabled(device_type)
    torch.get_autocast_gpu_dtype = lambda: torch.get_autocast_dtype("ocl")
    torch.set_autocast_gpu_dtype = lambda dtype: torch.set_autocast_dtype("ocl", dtype)
    for name in ("custom_fwd", "custom_bwd"):
        setattr(torch.amp, name, named_type(getattr(torch.amp, name)))
    for name in ("autocast", "GradScaler", "custom_fwd", "custom_bwd"):
        for module in (torch.cuda.amp, torch.cuda.amp.autocast_mode, torch.cuda.amp.grad_scaler):
            if hasattr(module, name):
                setattr(module, name, getattr(torch.ocl.amp, name))


def _with_default_device(init, is_scaler: bool):
    @functools.wraps(init)
    def call(self, *arguments, **named):
        if "device_type" in named:
            named["device_type"] = translate(named["device_type"])
        if is_scaler and not arguments and "device" not in named:   # its default is "cuda"
            named["device"] = "ocl"
        return init(self, *arguments, **named)

    return call


def _redirect_files() -> None:
    load = torch.load

    @functools.wraps(load)
    def load_on_ocl(f, map_location=None, *arguments, **named):
        if isinstance(map_location, dict):
            map_location = {translate(key): translate(value) for key, value in map_location.items()}
            map_location |= {key.replace("ocl", "cuda"): value for key, value in map_location.items()}
        else:
            map_location = translate(map_location)
        return load(f, map_location, *arguments, **named)

    torch.load = load_on_ocl

    def restore(storage, location):
        """Files that were saved on CUDA say "cuda:0"."""
        if location.startswith("cuda"):
            index = _Device(location).index or 0
            return storage.to(device=_Device("ocl", min(index, torch.ocl.device_count() - 1)))
        return None

    torch.serialization.register_package(5, lambda _: None, restore)


def _redirect_profiler() -> None:
    kinds = torch.profiler.ProfilerActivity
    init = torch.profiler.profiler._KinetoProfile.__init__

    @functools.wraps(init)
    def of_ocl(self, *arguments, **named):
        if arguments:
            named["activities"], arguments = arguments[0], arguments[1:]
        if named.get("activities") is not None:
            named["activities"] = [kinds.PrivateUse1 if kind == kinds.CUDA else kind for kind in named["activities"]]
        return init(self, *arguments, **named)

    torch.profiler.profiler._KinetoProfile.__init__ = of_ocl
    old = torch.autograd.profiler.profile.__init__

    @functools.wraps(old)
    def of_old(self, enabled=True, *, use_cuda=False, use_device=None, **named):
        return old(self, enabled, use_device="ocl" if use_cuda else translate(use_device), **named)

    torch.autograd.profiler.profile.__init__ = of_old


def _redirect_distributed() -> None:
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d

    def default_for_nccl(backend):
        # NCCL is NVIDIA's: the default takes a backend for each kind of device.
        return None if isinstance(backend, str) and "nccl" in backend.lower() else backend

    def wrap(function, position: int):
        @functools.wraps(function)
        def call(*arguments, **named):
            arguments = list(arguments)
            if len(arguments) > position:
                arguments[position] = default_for_nccl(arguments[position])
            if "backend" in named:
                named["backend"] = default_for_nccl(named["backend"])
            for key in ("device_id",):
                if key in named:
                    named[key] = translate(named[key])
            return function(*arguments, **named)
        return call

    for name, position in (("init_process_group", 0), ("new_group", 2)):
        wrapped = wrap(getattr(distributed_c10d, name), position)
        setattr(distributed_c10d, name, wrapped)
        setattr(torch.distributed, name, wrapped)
    distributed_c10d.is_nccl_available = torch.distributed.is_nccl_available = lambda: True


def _install() -> None:
    if not torch.ocl.is_available():
        raise RuntimeError(f"torch_ocl.as_cuda: there is no ocl device to stand for cuda: "
                           f"{torch.ocl.unavailable_reason()}")
    _redirect_cuda_module()
    torch.device = stand_in(_Device, "device")
    torch.Generator = stand_in(_Generator, "Generator")
    _redirect_factories()
    _redirect_cuda_methods()
    _redirect_mixed_precision()
    _redirect_files()
    _redirect_profiler()
    _redirect_distributed()


_install()


def main(arguments) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_ocl run",
                                     description="run a script written for cuda on the ocl device")
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module's name")
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    sys.argv = [given.script, *given.arguments]
    if given.module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(given.script, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(given.script)))
        runpy.run_path(given.script, run_name="__main__")
    return 0
