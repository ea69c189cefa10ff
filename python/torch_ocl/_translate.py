"""Devices named "cuda" as devices of ocl, for code that was written for the former."""

from __future__ import annotations

import torch

_Device, _Generator = torch.device, torch.Generator


def translate(device):
    """A device as it is meant: "cuda:1" and torch.device("cuda", 1) are ocl:1; everything else stays."""
    if isinstance(device, str):
        if device == "cuda" or device.startswith("cuda:"):
            return "ocl" + device[4:]
        return device
    if isinstance(device, _Device) and device.type == "cuda":
        return _Device("ocl", device.index) if device.index is not None else _Device("ocl")
    return device


def stand_in(real: type, name: str):
    """A type that makes objects of a type of C, after translating devices, and is one to isinstance."""

    class Meta(type):
        def __instancecheck__(cls, value) -> bool:
            return isinstance(value, real)

        def __subclasscheck__(cls, other) -> bool:
            return other is cls or issubclass(other, real)

        def __call__(cls, *arguments, **named):
            if arguments:
                arguments = (translate(arguments[0]), *arguments[1:])
            for key in ("device", "type"):
                if key in named:
                    named[key] = translate(named[key])
            return real(*arguments, **named)

        def __getattr__(cls, attribute):
            return getattr(real, attribute)

        def __hash__(cls):
            return hash(real)

        def __eq__(cls, other):
            return other is cls or other is real

        def __mro_entries__(cls, _):
            return (real,)

    return Meta(name, (), {"__module__": "torch", "__doc__": real.__doc__})
