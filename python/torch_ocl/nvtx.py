"""torch.ocl.nvtx: ranges by the names of torch.cuda.nvtx. They are torch.profiler's: a range is in its trace."""

from __future__ import annotations

import itertools
import threading
from contextlib import contextmanager

import torch

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

_stacks = threading.local()
_started: dict[int, torch.profiler.record_function] = {}
_numbers = itertools.count(1)


def _enter(message: str):
    recorded = torch.profiler.record_function(message)
    recorded.__enter__()
    return recorded


def range_push(msg: str) -> int:
    """Begins a range inside this thread's current one; returns its depth."""
    stack = _stacks.__dict__.setdefault("ranges", [])
    stack.append(_enter(msg))
    return len(stack) - 1


def range_pop() -> int:
    """Ends this thread's innermost range; returns its depth, -1 if there is none."""
    stack = _stacks.__dict__.setdefault("ranges", [])
    if not stack:
        return -1
    stack.pop().__exit__(None, None, None)
    return len(stack)


def range_start(msg: str) -> int:
    """Begins a range; returns what range_end ends it by."""
    number = next(_numbers)
    _started[number] = _enter(msg)
    return number


def range_end(range_id: int) -> None:
    recorded = _started.pop(range_id, None)
    if recorded is not None:
        recorded.__exit__(None, None, None)


# What Inductor's code calls for config.annotate_training.
_device_range_start, _device_range_end = range_start, range_end


def mark(msg: str) -> None:
    """A range of no length."""
    _enter(msg).__exit__(None, None, None)


@contextmanager
def range(msg: str, *args, **kwargs):
    """Context manager and decorator: a range of that name, formatted with the arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
