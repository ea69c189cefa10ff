"""torch.distributed's backend for the device, "occl", and what PyTorch must know of it before anybody uses it. Opens no
driver and connects to nobody: the engine that carries the bytes is made at the first collective on an ocl tensor."""

from __future__ import annotations

import functools
import os

import torch

NAME = "occl"
ENGINES = ("gloo", "mpi", "ucc")


def register() -> None:
    if not torch.distributed.is_available():
        return
    from torch.distributed import Backend
    from torch.distributed.distributed_c10d import BackendConfig

    if NAME not in Backend.backend_list:
        Backend.register_backend(NAME, _create, extended_api=True, devices=["ocl"])
        BackendConfig.__init__ = _with_processor(BackendConfig.__init__)


def _with_processor(init):
    """Where no backend is named, PyTorch takes that of the accelerator alone and refuses tensors on the CPU. Scripts
    that compute on the CPU must work as without this package, so the CPU keeps the backend that it has without."""

    @functools.wraps(init)
    def initialize(self, backend):
        from torch.distributed import Backend

        kind = torch.accelerator.current_accelerator()
        if str(backend) != Backend.UNDEFINED or kind is None or kind.type != "ocl":
            return init(self, backend)
        chosen = {"cpu": Backend.default_device_backend_map["cpu"]}
        if torch.ocl.is_available():
            chosen["ocl"] = Backend.default_device_backend_map["ocl"]
        init(self, ",".join(f"{device}:{name}" for device, name in chosen.items()))

    return initialize


@functools.cache
def process_group_class():
    from torch_ocl import _state

    _state.c().bind_process_group()
    return _state.c().ProcessGroupOCCL


def _create(options, backend_options=None):
    group = process_group_class()(options.store, options.group_rank, options.group_size, options.timeout, _engine,
                                  options.global_ranks_in_group)
    if not options.process_group._device_types and torch.distributed.is_gloo_available():
        # "occl" alone: PyTorch's barriers and objects pass through tensors on the CPU.
        store = torch.distributed.PrefixStore(_unused("cpu"), options.store)
        processor = torch.distributed.ProcessGroupGloo(store, options.group_rank, options.group_size, options.timeout)
        kind = torch.distributed.ProcessGroup.BackendType.GLOO
        options.process_group._register_backend(torch.device("cpu"), kind, processor)
    return group


def _unused(name: str) -> str:
    """A prefix of a store that no former attempt has used: torchrun's store lives on when it restarts the ranks, and
    addresses of dead processes lie in it."""
    return f"{name}/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/"


def _engine(store, rank: int, size: int, timeout):
    """The c10d backend for host memory that carries the bytes of one group."""
    import torch.distributed as dist

    name = os.environ.get("CLPRIM_DISTRIBUTED_ENGINE", "gloo")
    if name not in ENGINES:
        raise ValueError(f"CLPRIM_DISTRIBUTED_ENGINE is '{name}', expected one of {', '.join(ENGINES)}")
    if not getattr(dist, f"is_{name}_available")():
        raise RuntimeError(f"this PyTorch was built without {name}, which was to carry the collectives of ocl tensors; "
                           f"set CLPRIM_DISTRIBUTED_ENGINE to another one of {', '.join(ENGINES)}")
    # A connection of its own: the engine waits for other ranks on threads beside the program's, and whoever waits on a
    # connection of a TCPStore keeps everybody else from writing what a rank may be waiting for.
    store = dist.PrefixStore(_unused(NAME), store.clone())
    store.set_timeout(timeout)
    if name == "mpi":
        if size != dist.get_world_size():
            raise RuntimeError("collectives of ocl tensors through MPI need the group of all ranks")
        return dist.ProcessGroupMPI.create([])
    if name == "ucc":
        from torch.distributed.distributed_c10d import ProcessGroupUCC

        return ProcessGroupUCC(store, rank, size, timeout=timeout)
    options = dist.ProcessGroupGloo._Options()
    # Ranks connect when they first speak to each other: a message between two must not wait for all.
    options._devices = [dist.ProcessGroupGloo.create_default_device(lazy_init=True)]
    options._timeout = timeout
    return dist.ProcessGroupGloo(store, rank, size, options)
