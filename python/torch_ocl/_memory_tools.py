"""Memory pools, raw allocations, and what the allocator did: torch.ocl.memory's seldom used part."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys

import torch

from torch_ocl import _state

__all__ = ["MemPool", "caching_allocator_alloc", "caching_allocator_delete", "caching_allocator_disabled",
           "caching_allocator_enable", "list_gpu_processes", "memory_snapshot", "use_mem_pool"]


# Pools.


class MemPool:
    """Memory that only allocations inside use_mem_pool(pool) share. Freed blocks stay the pool's for reuse; its
    segments go back to the driver when nobody holds the pool, at the next empty_cache()."""

    def __init__(self, allocator=None, use_on_oom: bool = False, no_split: bool = False):
        if allocator is not None:
            raise NotImplementedError("MemPool: allocator must be None: device memory comes from clprim's allocator")
        if use_on_oom or no_split:
            raise NotImplementedError("MemPool: use_on_oom and no_split are not there: a pool's memory is its own, and "
                                      "blocks are split as everywhere")
        self._number = _state.c().new_memory_pool()
        _state.c().retain_pool(self._number)
        self._users = 1

    @property
    def id(self) -> tuple[int, int]:
        return (0, self._number)

    def use_count(self) -> int:
        return self._users

    def snapshot(self, include_traces: bool = True) -> list[dict]:
        """The pool's segments, as memory_snapshot() describes them."""
        return memory_snapshot(self.id, include_traces)

    def __del__(self):
        number, extension = self.__dict__.get("_number"), _state and _state.extension
        if number is not None and extension is not None:
            extension.release_pool(number)


def _pool_number(pool) -> int:
    """Number of a pool given as MemPool, as (0, number) or None (0: a new one)."""
    if pool is None:
        return 0
    return int(pool.id[1] if isinstance(pool, MemPool) else pool[1])


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device=None):
    """What this thread allocates inside comes from the pool, on whichever device it is."""
    before = _state.c().exchange_memory_pool(pool.id[1])
    pool._users += 1
    try:
        yield
    finally:
        pool._users -= 1
        _state.c().exchange_memory_pool(before)


# Blocks without a tensor, and no caching at all.


def caching_allocator_alloc(size: int, device=None, stream=None) -> int:
    """Address that stands for `size` bytes of device memory (it cannot be read from the host). Give it back with
    caching_allocator_delete."""
    index = _state.index_of(device)
    if stream is None:
        stream = torch.ocl.current_stream(index)
    number = stream if isinstance(stream, int) else stream.stream_id
    return _state.c().allocate_raw(int(size), index, number)


def caching_allocator_delete(mem_ptr: int) -> None:
    _state.c().free_raw(mem_ptr)


def caching_allocator_enable(value: bool = True) -> None:
    """Whether freed memory is kept for reuse, on all devices."""
    _state.c().set_memory_caching(bool(value))


@contextlib.contextmanager
def caching_allocator_disabled():
    before = _state.c().memory_caching(_state.index_of(None))
    caching_allocator_enable(False)
    try:
        yield
    finally:
        caching_allocator_enable(before)


def list_gpu_processes(device=None) -> str:
    """This process and what it holds. OpenCL tells nothing of others."""
    from torch_ocl import memory

    index = _state.index_of(device)
    held = memory.memory_reserved(index) / 2**20
    return f"ocl:{index}\nprocess {os.getpid():>10d} uses {held:>12.3f} MB GPU memory (other processes are not known)"


# Snapshots and history, in the format of torch.cuda.memory, which https://pytorch.org/memory_viz and
# torch.cuda._memory_viz read.


def memory_snapshot(mempool_id=None, include_traces: bool = True) -> list[dict]:
    """The allocator's segments with their blocks, of all devices or of one pool."""
    segments = _state.c().memory_snapshot()["segments"]
    return segments if mempool_id is None else [s for s in segments if s["segment_pool_id"] == tuple(mempool_id)]


def _snapshot(device=None, augment_with_fx_traces: bool = False) -> dict:
    """Segments, and what _record_memory_history has recorded, as torch.cuda.memory._snapshot describes them."""
    snapshot = _state.c().memory_snapshot()
    if augment_with_fx_traces:
        from torch.cuda.memory import _augment_memory_snapshot_stack_traces

        snapshot = _augment_memory_snapshot_stack_traces(snapshot)
    return snapshot


def _dump_snapshot(filename: str = "dump_snapshot.pickle", augment_with_fx_traces: bool = False) -> None:
    """_snapshot() in a file for https://pytorch.org/memory_viz."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(augment_with_fx_traces=augment_with_fx_traces), file)


def _record_memory_history(enabled="all", context="all", stacks="all", max_entries=sys.maxsize, device=None,
                           clear_history=False, compile_context=False, global_record_annotations=False,
                           skip_actions=None, **_) -> None:
    """Records every allocation and free with the Python stack that asked for it; see
    torch.cuda.memory._record_memory_history. None ends it."""
    if isinstance(enabled, bool):
        enabled = "all" if enabled else None
    for name, value, known in (("enabled", enabled, (None, "state", "all")),
                               ("context", context, (None, "state", "alloc", "all")),
                               ("stacks", stacks, ("python", "all"))):
        if value not in known:
            raise ValueError(f"_record_memory_history: {name} must be one of {known}, got {value!r}")
    _state.c().record_memory_history(enabled or "", context or "", stacks == "all", min(max_entries, sys.maxsize),
                                     set(skip_actions or ()), clear_history)


def _memory_metadata_supported() -> bool:
    return True


def _set_memory_metadata(metadata: str) -> None:
    """Text that history entries of this thread carry from now on."""
    _state.c().set_memory_metadata(metadata)


def _get_memory_metadata() -> str:
    return _state.c().get_memory_metadata()


def _annotate_tensor(tensor: torch.Tensor, metadata: str) -> None:
    """Adds an entry about a tensor's memory to the history."""
    if tensor.device.type != "ocl":
        raise ValueError(f"expected an ocl tensor, got device {tensor.device}")
    _state.c().annotate_memory(tensor.untyped_storage().data_ptr(), metadata)


def _save_segment_usage(filename: str = "output.svg", snapshot=None) -> None:
    from torch.cuda._memory_viz import segments

    with open(filename, "w") as file:
        file.write(segments(snapshot if snapshot is not None else _snapshot()))


def _save_memory_usage(filename: str = "output.svg", snapshot=None) -> None:
    from torch.cuda._memory_viz import memory

    with open(filename, "w") as file:
        file.write(memory(snapshot if snapshot is not None else _snapshot()))
