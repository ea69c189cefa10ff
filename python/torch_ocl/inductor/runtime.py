"""What generated code calls: kernels and their ranges."""

from __future__ import annotations

import functools
import os
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


def kernel(name: str, source: str, signature: str, device: int):
    """A kernel of generated text, whose compilation goes on beside the caller. signature: "t" for each tensor, the
    types of numbers, "errors" last if the kernel reports bad indices."""
    text = source.replace("CLPRIM_PRELUDE\n", _source_file("prelude.cl"))
    text = text.replace("CLPRIM_VARIATES\n", _source_file("variates.cl")).replace("KERNEL_NAME", name)
    parameters = [_KINDS[kind](name) if kind in _KINDS else ("number", name, kind) for kind in signature.split()]
    result = _state.c().Kernel(text, name, "", parameters, False)
    _builders().submit(result.prepare, device)   # what fails here fails again, and is reported, at the first call
    return result


class Ranges:
    """Global and local ranges on a device, by the number of elements."""

    def __init__(self, index: int):
        self.index = index
        self.figures = torch.ocl.get_device_properties(index)
        self.cpu = self.figures.kind == "cpu"
        self.largest = min(1024 if self.cpu else 256, self.figures.max_work_group_size)
        self.linear = functools.lru_cache(4096)(self._linear)
        self.rows = functools.lru_cache(4096)(self._rows)
        self.outputs = functools.lru_cache(4096)(self._outputs)
        self.groups = functools.lru_cache(4096)(self._groups)

    @staticmethod
    @functools.cache
    def of(index: int) -> Ranges:
        return Ranges(index)

    def _linear(self, count: int) -> dict:
        """A work-item for each element; smaller groups where one per compute unit would not come out."""
        local = self.largest
        while local > 64 and local * self.figures.compute_units > count:
            local //= 2
        return {"global_size": -(-count // local) * local, "local_size": local}

    def _rows(self, length: int, rows: int) -> dict:
        local = 16
        while local < self.largest and local < length:
            local *= 2
        others = 1
        while not self.cpu and local * others < self.largest and rows % (2 * others) == 0 and rows > 0:
            others *= 2
        return {"global_size": (-(-length // local) * local, rows), "local_size": (local, others)}

    def _outputs(self, count: int) -> dict:
        """A work-item for each output of a reduction."""
        local = 16 if count <= 16 else 64 if self.cpu or count < 65536 else self.largest
        return {"global_size": -(-count // local) * local, "local_size": local}

    def _groups(self, count: int, lanes: int) -> dict:
        return {"global_size": count * lanes, "local_size": lanes}


ranges = Ranges.of
