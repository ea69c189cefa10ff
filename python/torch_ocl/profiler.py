"""Profiles of the device: torch.profiler with ProfilerActivity.PrivateUse1 is the full one (docs/profiler.md); here are
a table of kernels, and torch.cuda.profiler's and torch.mps.profiler's names."""

from __future__ import annotations

import contextlib
from collections import defaultdict

import torch

from torch_ocl import _state, _surface

__all__ = ["KernelTable", "is_capturing_metal", "is_metal_capture_enabled", "metal_capture", "profile",
           "profile_kernels", "start", "stop"]


class KernelTable:
    """What ran on the devices while it was collected. print() shows the table; `commands` has every command, `rows()`
    the sums by name."""

    def __init__(self):
        self._profile = None
        self.commands: list[dict] = []

    def start(self) -> KernelTable:
        if self._profile is not None:
            raise RuntimeError("this table is collecting already")
        self._profile = _state.c().Profile()
        return self

    def stop(self) -> None:
        """Waits for what was enqueued meanwhile, and ends the collection."""
        if self._profile is not None:
            self.commands += self._profile.stop()
            self._profile = None

    def rows(self) -> list[dict]:
        """name, kind, calls, total_us, mean_us, min_us, max_us, percent, bytes; the longest first."""
        groups = defaultdict(list)
        for command in self.commands:
            groups[command["kind"], command["name"]].append(command)
        rows = []
        for (kind, name), commands in groups.items():
            times = [(c["ended"] - c["started"]) / 1000 for c in commands]
            rows.append({"name": name, "kind": kind, "calls": len(times), "total_us": sum(times),
                         "mean_us": sum(times) / len(times), "min_us": min(times), "max_us": max(times),
                         "bytes": sum(c["bytes"] for c in commands)})
        total = sum(row["total_us"] for row in rows) or 1.0
        for row in rows:
            row["percent"] = 100 * row["total_us"] / total
        return sorted(rows, key=lambda row: -row["total_us"])

    def table(self, row_limit: int | None = None) -> str:
        rows = self.rows()
        shown = rows if row_limit is None else rows[:row_limit]
        width = max([len("name"), *(len(row["name"]) for row in shown)])
        line = f"{{:<{width}}}  {{:>8}}  {{:>12}}  {{:>7}}  {{:>10}}  {{:>10}}  {{:>10}}"
        text = [line.format("name", "calls", "total us", "%", "mean us", "min us", "max us")]
        for row in shown:
            text.append(line.format(row["name"], row["calls"], f"{row['total_us']:.1f}", f"{row['percent']:.1f}",
                                    f"{row['mean_us']:.1f}", f"{row['min_us']:.1f}", f"{row['max_us']:.1f}"))
        calls, total = sum(row["calls"] for row in rows), sum(row["total_us"] for row in rows)
        return "\n".join([*text, f"{calls} commands, {total / 1000:.3f} ms on the device"])

    __str__ = table


@contextlib.contextmanager
def profile_kernels():
    """Context manager: a KernelTable of every kernel, copy and fill that is enqueued inside, by any thread.

    >>> with torch.ocl.profile_kernels() as kernels:
    ...     model(x)
    >>> print(kernels)
    """
    table = KernelTable().start()
    try:
        yield table
    finally:
        table.stop()


# torch.cuda.profiler and torch.mps.profiler.

_running: KernelTable | None = None


def start(*_, **__) -> None:
    """Collects a table until stop(), which prints it: OpenCL has no external profiler to switch on. (The arguments of
    torch.mps.profiler.start mean nothing here.)"""
    global _running
    if _running is None:
        _running = KernelTable().start()


def stop() -> None:
    global _running
    if _running is not None:
        table, _running = _running, None
        table.stop()
        print(table)


@contextlib.contextmanager
def profile(*_, **__):
    """Context manager: start() and stop()."""
    start()
    try:
        yield
    finally:
        stop()


_METAL = "it is Apple's capture of Metal commands; torch.profiler writes a trace of the device's"
metal_capture = _surface.Refused("profiler.metal_capture", _METAL)


def is_metal_capture_enabled() -> bool:
    return False


def is_capturing_metal() -> bool:
    return False


def init(*_, **__):
    raise NotImplementedError("torch.ocl.profiler.init: it configures NVIDIA's command-line profiler; use "
                              "torch.profiler")


record_function = torch.profiler.record_function
