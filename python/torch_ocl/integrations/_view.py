"""What adapters are made of: PyTorch as it would look if ocl were cuda, for single modules of a framework, and longer
lists of devices in a framework's functions."""

from __future__ import annotations

import dis
import functools
import itertools
import types

import torch

from torch_ocl._translate import stand_in, translate


class _Amp(types.ModuleType):
    def __init__(self):
        super().__init__("torch.amp")

    def __getattr__(self, name: str):
        return getattr(torch.amp, name)

    @staticmethod
    def GradScaler(device="cuda", *arguments, **named):  # noqa: N802
        return torch.amp.GradScaler(translate(device), *arguments, **named)

    @staticmethod
    def autocast(device_type, *arguments, **named):
        return torch.amp.autocast(translate(device_type), *arguments, **named)


class TorchView(types.ModuleType):
    """The module torch, but for `cuda`, which is torch.ocl, and devices named "cuda", which are those of ocl."""

    def __init__(self, cuda=None):
        super().__init__("torch")
        self._cuda = cuda
        self.device = stand_in(torch.device, "device")
        self.amp = _Amp()
        self.autocast = self.amp.autocast

    @property
    def cuda(self):
        return self._cuda or torch.ocl

    def __getattr__(self, name: str):
        return getattr(torch, name)


class _OneDevice(types.ModuleType):
    """torch.ocl as if there were one device: for frameworks that spread a model over all devices with DataParallel,
    since devices of OpenCL need not be alike."""

    def __getattr__(self, name: str):
        return getattr(torch.ocl, name)

    @staticmethod
    def device_count() -> int:
        return min(1, torch.ocl.device_count())


view = TorchView()
view_of_one = TorchView(_OneDevice("torch.ocl"))


def show_view(*modules) -> None:
    """These modules' name `torch` is the view from now on."""
    for module in modules:
        if getattr(module, "torch", None) is torch:
            module.torch = view


def replace(function_name: str, new, *modules) -> None:
    """The name is the new function in every one of the modules that has it."""
    for module in modules:
        if hasattr(module, function_name):
            setattr(module, function_name, new)


def know_ocl(owner, name: str, *like: str) -> None:
    """Adds "ocl" to every tuple or set of names in a function that has all of `like`: where a framework lists the
    devices that it knows, and offers no other way to add one. LookupError if there is no such list."""
    function = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
    plain = function.__func__ if isinstance(function, (staticmethod, classmethod)) else function
    while hasattr(plain, "__wrapped__"):
        plain = plain.__wrapped__
    code, found = _with_ocl(plain.__code__, set(like))
    if not found:
        raise LookupError(f"{plain.__qualname__} has no list of devices with {', '.join(like)}")
    plain.__code__ = code


def _with_ocl(code: types.CodeType, like: set[str]):
    constants, found = [], False
    # The keys of a dictionary are a tuple too, with a value for each.
    keys = {first.arg for first, second in itertools.pairwise(dis.get_instructions(code))
            if second.opname == "BUILD_CONST_KEY_MAP"}
    for index, constant in enumerate(code.co_consts):
        if isinstance(constant, (tuple, frozenset)) and "ocl" not in constant and index not in keys and \
                all(isinstance(item, str) for item in constant) and like <= set(constant):
            constant, found = type(constant)((*constant, "ocl")), True
        elif isinstance(constant, types.CodeType):
            constant, inner = _with_ocl(constant, like)
            found |= inner
        constants.append(constant)
    return code.replace(co_consts=tuple(constants)), found


def wrap(owner, name: str):
    """Decorator: the function takes the place of owner.name and gets the former one as its first argument."""

    def decorate(function):
        former = getattr(owner, name)

        @functools.wraps(former)
        def call(*arguments, **named):
            return function(former, *arguments, **named)

        setattr(owner, name, call)
        return call

    return decorate
