"""What generated code calls: kernels and their ranges."""

from __future__ import annotations

import functools
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from torch_ocl import _state


@functools.cache
def _source_file(name: str) -> str:
    return (Path(__file__).parent / name).read_text()


@functools.cache
def _builders() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1), thread_name_prefix="ocl-build")


_KINDS = {"t": lambda name: ("tensor", name, [], True, 1), "errors": lambda name: ("errors", name, name)}


@functools.cache
def last_cache() -> int:
    """Bytes of the host's largest cache, or what is usual where the system does not say."""
    known = getattr(os, "sysconf_names", ())
    sizes = (os.sysconf(name) for name in ("SC_LEVEL3_CACHE_SIZE", "SC_LEVEL2_CACHE_SIZE") if name in known)
    return next((size for size in sizes if size > 0), 32 << 20)


def function_name(name: str) -> str:
    """Of a kernel that a wrapper calls by `name`: without its number there, so that equal texts are one program."""
    return re.sub(r"_\d+$", "", name)


def complete(name: str, source: str) -> str:
    """The text that a kernel is built from."""
    text = source.replace("CLPRIM_PRELUDE\n", _source_file("prelude.cl"))
    text = text.replace("CLPRIM_VECTORS\n", _source_file("vectors.cl"))
    return text.replace("CLPRIM_VARIATES\n", _source_file("variates.cl")).replace("KERNEL_NAME", name)


@functools.lru_cache(1024)
def kernel(name: str, source: str, signature: str, device: int):
    """A kernel of generated text, whose compilation goes on beside the caller. signature: "t" for each tensor, the
    types of numbers, "errors" last if the kernel reports bad indices.

    It is asked for when its text is written, so that it is compiled while Inductor writes the rest, and once more when
    the written module is loaded. Equal kernels of several graphs are one."""
    text = complete(name, source)
    parameters = [_KINDS[kind](name) if kind in _KINDS else ("number", name, kind) for kind in signature.split()]
    result = _state.c().Kernel(text, name, "", parameters, False)
    _builders().submit(result.prepare, device)   # what fails here fails again, and is reported, at the first call
    return result


class Ranges:
    """Global and local ranges on a device, by sizes (src/pytorch_backend/inductor/ranges.cpp)."""

    def __init__(self, index: int):
        self.index = index
        self.figures = torch.ocl.get_device_properties(index)
        for kind in ("linear", "rows", "tiles", "outputs", "groups", "items"):
            setattr(self, kind, functools.lru_cache(4096)(functools.partial(self._range, kind)))

    @staticmethod
    @functools.cache
    def of(index: int) -> Ranges:
        return Ranges(index)

    def _range(self, kind: str, *sizes: int) -> dict:
        whole, local = _state.c().inductor_range(self.index, kind, sizes)
        return {"global_size": whole, "local_size": local}


ranges = Ranges.of
