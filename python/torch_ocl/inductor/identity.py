"""What is done to graphs before they are lowered, and what decides the generated code beside them, for the keys of
Inductor's caches."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import torch
from torch._inductor.custom_graph_pass import CustomGraphModulePass

import torch_ocl
from torch_ocl.inductor import autotune, batch_norms, combination, epilogues


class GraphPass(CustomGraphModulePass):
    """Its name in the keys of Inductor's caches is this code generator's and its devices'."""

    def __call__(self, gm: torch.fx.GraphModule) -> None:
        batch_norms.fold(gm.graph)
        epilogues.fuse(gm.graph)
        combination.join_counters(gm.graph)
        autotune.tune(gm.graph)

    def uuid(self) -> str:
        return _identity()


@functools.cache
def _identity() -> str:
    text = torch_ocl.__version__
    for file in sorted(Path(__file__).parent.glob("*.*")):
        if file.suffix in (".py", ".cl"):
            text += file.name + file.read_text()
    for index in range(torch.ocl.device_count()):
        text += repr(torch.ocl.get_device_properties(index))
    return hashlib.sha256(text.encode()).hexdigest()
