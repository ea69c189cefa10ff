"""Streams and events: OpenCL command queues and markers in them."""

from __future__ import annotations

import torch

from torch_ocl import _state

__all__ = ["Event", "Stream", "StreamContext", "current_stream", "default_stream", "set_stream", "stream"]


class Stream(torch.Stream):
    """A queue of work on a device, taken from a pool; work in different streams may overlap."""

    def __new__(cls, device=None, priority: int = 0, **kwargs):
        if "stream_id" in kwargs:
            return super().__new__(cls, priority=priority, **kwargs)
        return super().__new__(cls, device=torch.device("ocl", _state.index_of(device)), priority=priority)

    def __repr__(self) -> str:
        return f"<torch.ocl.Stream device={self.device} id={self.stream_id}>"


class Event(torch.Event):
    """A point in a stream: to wait for, or to measure the time between two of them."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False):
        return super().__new__(cls, "ocl", enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds of device time between this event and a later one."""
        # torch.Event.elapsed_time refuses events of derived classes.
        return _state.c().elapsed_time(self.event_id, end_event.event_id)


def _wrap(stream: torch.Stream) -> Stream:
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def current_stream(device=None) -> Stream:
    """This thread's current stream on a device."""
    return _wrap(torch.accelerator.current_stream(_state.index_of(device)))


def default_stream(device=None) -> Stream:
    """The stream with id 0, which every thread starts with."""
    index = _state.index_of(device)
    current = torch.accelerator.current_stream(index)
    return Stream(stream_id=0, device_index=index, device_type=current.device_type)


def set_stream(stream: torch.Stream | None) -> None:
    """Makes a stream current on its device."""
    if stream is not None:
        _state.c().set_stream(stream.stream_id, stream.device_index)


class StreamContext:
    """Context manager: the stream is current on its device, and the device is current. None does nothing."""

    def __init__(self, stream: torch.Stream | None):
        self.stream = stream

    def __enter__(self):
        if self.stream is not None:
            self._device = _state.c().exchange_device(self.stream.device_index)
            self._former = current_stream(self.stream.device_index)
            set_stream(self.stream)
        return self.stream

    def __exit__(self, *_):
        if self.stream is not None:
            set_stream(self._former)
            _state.c().exchange_device(self._device)
        return False


def stream(stream: torch.Stream | None) -> StreamContext:
    return StreamContext(stream)
