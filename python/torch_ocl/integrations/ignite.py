"""ignite: ignite.distributed.device() is ocl, alone and in groups of several processes; the backend "occl", which
"nccl" stands for."""

from __future__ import annotations

import socket

import torch

from torch_ocl.integrations import _view


def apply(_: str = "ignite") -> None:
    from ignite.distributed import auto
    from ignite.distributed.comp_models import base, native

    _view.show_view(base, auto, native)
    model = getattr(native, "_NativeDistModel", None)
    if model is None:   # PyTorch was built without torch.distributed
        return
    native.NCCL = "occl"   # which auto_model() makes DistributedDataParallel for
    model.available_backends = (*model.available_backends, "occl")

    @_view.wrap(model, "backend")
    def backend(former, self) -> str:
        """Groups that name no backend have one for each device, which PyTorch calls undefined."""
        name = former(self)
        return "occl" if name == "undefined" or "occl" in name else name

    create = model.create_from_backend

    def create_from_backend(backend: str, *arguments, **named):
        return create("occl" if backend == "nccl" else backend, *arguments, **named)

    model.create_from_backend = staticmethod(create_from_backend)

    def hostnames(self) -> list[tuple[str, ...]]:
        names = [None] * self.get_world_size()
        torch.distributed.all_gather_object(names, socket.gethostname())
        return [(name,) for name in names]

    model._get_all_hostnames = hostnames
