"""Memory of the device: statistics and control of the caching allocator."""

from __future__ import annotations

from collections import OrderedDict

import torch

from torch_ocl import _state

__all__ = [
    "current_allocated_memory",
    "driver_allocated_memory",
    "empty_cache",
    "empty_host_cache",
    "get_allocator_backend",
    "get_memory_info",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "max_memory_cached",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "recommended_max_memory",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]


def empty_cache() -> None:
    """Gives memory that no tensor uses back to the driver."""
    if _state.extension is not None and _state.extension.is_initialized():
        _state.extension.empty_cache()


def memory_stats(device=None) -> OrderedDict[str, int]:
    """Statistics of the allocator, with the keys of torch.cuda.memory_stats; empty before the device is first used."""
    if _state.extension is None or not _state.extension.is_initialized():
        return OrderedDict()
    return torch.accelerator.memory.memory_stats(_state.index_of(device))


def memory_stats_as_nested_dict(device=None) -> dict:
    """memory_stats with its keys' parts as dictionaries."""
    return _nested(memory_stats(device))


def _nested(stats) -> dict:
    result: dict = {}
    for key, value in stats.items():
        *path, last = key.split(".")
        place = result
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return result


def _stat(key: str, device) -> int:
    return memory_stats(device).get(key, 0)


def memory_allocated(device=None) -> int:
    """Bytes in tensors now."""
    return _stat("allocated_bytes.all.current", device)


def max_memory_allocated(device=None) -> int:
    """Most bytes in tensors at a time, since start or reset_peak_memory_stats()."""
    return _stat("allocated_bytes.all.peak", device)


def memory_reserved(device=None) -> int:
    """Bytes that the allocator holds now, in tensors or for reuse."""
    return _stat("reserved_bytes.all.current", device)


def max_memory_reserved(device=None) -> int:
    return _stat("reserved_bytes.all.peak", device)


memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def reset_peak_memory_stats(device=None) -> None:
    if _state.extension is not None and _state.extension.is_initialized():
        torch.accelerator.memory.reset_peak_memory_stats(_state.index_of(device))


def reset_accumulated_memory_stats(device=None) -> None:
    if _state.extension is not None and _state.extension.is_initialized():
        torch.accelerator.memory.reset_accumulated_memory_stats(_state.index_of(device))


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def mem_get_info(device=None) -> tuple[int, int]:
    """(free, total) bytes of the device. OpenCL does not tell what other processes use: free is total less reserved."""
    properties = _state.c().device_properties(_state.index_of(device))
    total = properties["total_memory"]
    return max(0, total - memory_reserved(device)), total


get_memory_info = mem_get_info


def get_per_process_memory_fraction(device=None) -> float:
    """What set_per_process_memory_fraction was given; 1.0 without."""
    index = _state.index_of(device)
    limit = _state.c().memory_limit(index)
    return limit / _state.c().device_properties(index)["total_memory"] if limit else 1.0


def get_allocator_backend() -> str:
    return "native"


# torch.mps's names.


def current_allocated_memory() -> int:
    """Bytes in tensors of the current device."""
    return memory_allocated()


def driver_allocated_memory() -> int:
    """Bytes that the allocator holds of the current device, in tensors or for reuse."""
    return memory_reserved()


def recommended_max_memory() -> int:
    """Bytes of the current device's memory."""
    return _state.c().device_properties(_state.index_of(None))["total_memory"]


# Pinned memory of the host.


def empty_host_cache() -> None:
    """Gives pinned memory that no tensor uses back to the driver."""
    if _state.extension is not None and _state.extension.is_initialized():
        _state.extension.empty_host_cache()


def host_memory_stats() -> OrderedDict[str, int]:
    """Statistics of pinned memory, with keys of torch.cuda.host_memory_stats."""
    if _state.extension is None or not _state.extension.is_initialized():
        return OrderedDict()
    return OrderedDict(sorted(_state.extension.host_memory_stats().items()))


def host_memory_stats_as_nested_dict() -> dict:
    return _nested(host_memory_stats())


def reset_peak_host_memory_stats() -> None:
    if _state.extension is not None and _state.extension.is_initialized():
        _state.extension.reset_host_memory_stats(True)


def reset_accumulated_host_memory_stats() -> None:
    if _state.extension is not None and _state.extension.is_initialized():
        _state.extension.reset_host_memory_stats(False)


def set_per_process_memory_fraction(fraction: float, device=None) -> None:
    """Lets this process hold at most that part of the device's memory."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    index = _state.index_of(device)
    total = _state.c().device_properties(index)["total_memory"]
    _state.c().set_memory_limit(index, max(1, int(total * fraction)) if fraction < 1 else 0)


def memory_summary(device=None, abbreviated: bool = False) -> str:
    """The statistics as a table."""
    stats = memory_stats(device)
    rows = [
        ("Allocated memory", "allocated_bytes", True),
        ("Requested memory", "requested_bytes", True),
        ("Active memory", "active_bytes", True),
        ("Reserved memory", "reserved_bytes", True),
        ("Non-releasable memory", "inactive_split_bytes", True),
        ("Allocations", "allocation", False),
        ("Active allocations", "active", False),
        ("Segments", "segment", False),
        ("Non-releasable allocations", "inactive_split", False),
    ]
    if abbreviated:
        rows = [row for row in rows if row[1] in ("allocated_bytes", "reserved_bytes", "allocation", "segment")]
    line = "|" + "=" * 84 + "|"
    out = [
        line,
        f"| {'ocl memory, device ' + str(_state.index_of(device)):<82} |",
        f"| {'retries: ' + str(stats.get('num_alloc_retries', 0)) + ', out of memory: ' + str(stats.get('num_ooms', 0)):<82} |",
        line,
        f"| {'':<26} | {'current':>11} | {'peak':>11} | {'allocated':>11} | {'freed':>11} |",
    ]
    for title, key, is_bytes in rows:
        values = [stats.get(f"{key}.all.{what}", 0) for what in ("current", "peak", "allocated", "freed")]
        out.append(f"| {title:<26} | " + " | ".join(f"{_format(v, is_bytes):>11}" for v in values) + " |")
    return "\n".join(out + [line])


def _format(value: int, is_bytes: bool) -> str:
    if not is_bytes:
        return str(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 10 * 1024 or unit == "GiB":
            return f"{value} {unit}"
        value //= 1024
    return str(value)


def __getattr__(name: str):
    # Pools, raw blocks, snapshots and history are loaded when they are asked for.
    if name == "_memory_tools" or name.startswith("__"):
        raise AttributeError(name)
    from torch_ocl import _memory_tools, _surface

    if name in _surface.REFUSED:
        return _surface.look_up(name)
    if name in vars(_memory_tools):
        return getattr(_memory_tools, name)
    raise AttributeError(f"module 'torch.ocl.memory' has no attribute '{name}'")
