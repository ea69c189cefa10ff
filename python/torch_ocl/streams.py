"""Streams and events: OpenCL command queues and markers in them."""

from __future__ import annotations

import torch

from torch_ocl import _state

__all__ = ["Event", "Stream", "StreamContext", "current_stream", "default_stream", "set_stream", "stream"]

DEVICE_TYPE = 20   # of c10::DeviceType::PrivateUse1


class Stream(torch.Stream):
    """A queue of work on a device, taken from a pool; work in different streams may overlap."""

    def __new__(cls, device=None, priority: int = 0, **kwargs):
        if "stream_id" in kwargs:
            return super().__new__(cls, priority=priority, **kwargs)
        index = _state.index_of(device)
        stream_id = _state.c().new_stream(index, priority)
        return super().__new__(cls, stream_id=stream_id, device_index=index, device_type=DEVICE_TYPE)

    @property
    def priority(self) -> int:
        """-1 for a stream of high priority, which drivers with cl_khr_priority_hints prefer; 0 for the others."""
        return -1 if self.stream_id > 0 and self.stream_id % 2 == 0 else 0

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """(lowest, highest); lower numbers have higher priority."""
        return (0, -1)

    @property
    def cuda_stream(self) -> int:
        """The address of its cl_command_queue, by the name that generic code of CUDA reads."""
        return self.native_handle

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


def __getattr__(name: str):
    from torch_ocl import _surface

    if name in ("ExternalStream", "get_stream_from_external"):
        return _surface.look_up(name)
    raise AttributeError(f"module 'torch.ocl.streams' has no attribute '{name}'")
