"""Finds the OpenCL drivers, loads the C++ part and registers the device with PyTorch."""

from __future__ import annotations

import importlib
import os
import re

from clprim._drivers import prepare_opencl_loader
from torch_ocl import FIRST_UNSUPPORTED_TORCH, OLDEST_TORCH


def register(torch, modules) -> None:
    """Makes the device "ocl" known. Whatever goes wrong is kept as the reason why torch.ocl is not available."""
    torch.utils.rename_privateuse1_backend("ocl")
    from torch_ocl import (_compile, _distributed, _dlpack, _fake, _flex, _higher_order, _jagged, _multiprocessing,
                           _opcheck, _parallel, _roofline, _semi_structured, _sharding, _storage, _surface, _traced,
                           _watch, _zero_redundancy, ocl)

    reason = _unsupported_version(torch.__version__) or built_for_another(torch.__version__, built_for())
    if reason is None:
        prepare_opencl_loader()
        try:
            importlib.import_module("torch_ocl._C")
        except ImportError as error:
            reason = f"the C++ part of torch_ocl could not be loaded: {error}" + _missing_loader(str(error))
    ocl._set_up(modules.get("torch_ocl._C"), reason)
    if reason is None and _has_own_device(torch):
        modules["torch_ocl._C"].leave_accelerator_to_pytorch_until_used()

    modules["torch.ocl"] = ocl
    torch._register_device_module("ocl", ocl)
    _surface.register_submodules()
    _watch.start()
    if reason is None:   # they speak of operators that the C++ part brings
        for part in (_compile, _distributed, _dlpack, _fake, _flex, _higher_order, _jagged, _multiprocessing,
                     _opcheck, _parallel, _roofline, _semi_structured, _sharding, _storage, _traced,
                     _zero_redundancy):
            part.register()
    torch.utils.generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_packed_sequence=True,
                                                         for_storage=True)


def _has_own_device(torch) -> bool:
    """Whether this PyTorch comes with a device of its own that this machine has, by what the system shows: asking the
    device would keep the process from forking."""
    version, there = torch.version, os.path.exists
    if version.cuda:
        return (os.environ.get("CUDA_VISIBLE_DEVICES", "0") not in ("", "-1", "NoDevFiles")
                and (there("/dev/nvidiactl") or there("/dev/dxg")))
    return bool(version.hip and there("/dev/kfd") or getattr(version, "xpu", None) and there("/dev/dri"))


def _missing_loader(error: str) -> str:
    """What helps where nothing that finds drivers is installed, so that there is no driver either."""
    if "libOpenCL.so" not in error:
        return ""
    return (
        ". That is the OpenCL loader: `pip install intel-opencl-rt intel-cmplr-lib-rt` brings one with a driver for "
        "CPUs, `apt-get install ocl-icd-libopencl1` one for the drivers that are installed"
    )


def _minor(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", text)[:2])


def built_for() -> str | None:
    """The PyTorch whose headers the C++ part was compiled with."""
    try:
        return importlib.import_module("torch_ocl._built_for").TORCH
    except ImportError:
        return None


def built_for_another(text: str, built: str | None) -> str | None:
    """PyTorch's C++ interface changes with every minor version: calls of another one's go astray or do not link."""
    if built is None or _minor(text) == _minor(built):
        return None
    major, minor = _minor(built)
    return (
        f"this torch_ocl was built for PyTorch {major}.{minor}, and here is PyTorch {text}: "
        f"pip install 'torch>={major}.{minor},<{major}.{minor + 1}', or a wheel of torch_ocl for this PyTorch, or "
        "build it anew beside it (`make setup`)"
    )


def _unsupported_version(text: str) -> str | None:
    if OLDEST_TORCH <= _minor(text) < FIRST_UNSUPPORTED_TORCH:
        return None
    return (
        f"torch_ocl works with PyTorch {OLDEST_TORCH[0]}.{OLDEST_TORCH[1]} up to, but not including, "
        f"{FIRST_UNSUPPORTED_TORCH[0]}.{FIRST_UNSUPPORTED_TORCH[1]}; this is PyTorch {text}"
    )
