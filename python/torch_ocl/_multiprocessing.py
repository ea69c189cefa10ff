"""Tensors and storages of the device in multiprocessing's queues, pipes and arguments.

OpenCL has no memory that two processes share. What is sent is a copy in shared memory of the host, which the receiver
puts on the same device: it gets a tensor of its own. Views keep offset and strides, and share what they shared in the
same message.
"""

from __future__ import annotations

import threading
from multiprocessing import reduction

import torch
from torch.multiprocessing import reductions

from torch_ocl import _state


def register() -> None:
    for kind in (torch.Tensor, torch.nn.Parameter):
        reduction.register(kind, _heard(_reduce_tensor))
    reduction.register(torch.UntypedStorage, _heard(_reduce_storage))
    from torch_ocl import streams

    for kind in (streams.Stream, streams.Event, torch.Stream, torch.Event):
        reduction.register(kind, _heard(_refuse))


def _heard(reduce):
    """A queue pickles in a thread of its own, where an exception is printed and the item lost: its reader would wait
    for ever. The exception is sent to the reader instead."""

    def reduce_or_send_error(value):
        try:
            return reduce(value)
        except Exception as error:   # noqa: BLE001 (whatever it is, somebody has to hear of it)
            if threading.current_thread().name != "QueueFeederThread":
                raise
            return _raise, (f"an object could not be sent to another process: {error}",)

    return reduce_or_send_error


def _raise(message: str):
    raise RuntimeError(message)


def _refuse(value):
    if value.device.type != "ocl":
        return value.__reduce_ex__(2)
    raise TypeError(f"a {type(value).__name__} of an ocl device belongs to its process and cannot be sent to another")


def _reduce_tensor(tensor):
    if tensor.device.type != "ocl" or tensor.layout != torch.strided or tensor.is_nested:
        return reductions.reduce_tensor(tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError("a non-leaf tensor that requires grad cannot be sent to another process, which has no part "
                           "in its graph; send tensor.detach()")
    torch.utils.hooks.warn_if_has_hooks(tensor)
    layout = (tensor.dtype, tensor.storage_offset(), tuple(tensor.size()), tensor.stride())
    flags = (tensor.requires_grad, tensor.is_conj(), tensor.is_neg())
    return _rebuild_tensor, (type(tensor), tensor.untyped_storage(), layout, flags)


def _rebuild_tensor(kind, storage, layout, flags):
    dtype, offset, size, stride = layout
    requires_grad, conjugated, negated = flags
    tensor = torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, size, stride)
    if conjugated:
        tensor = tensor.conj()
    if negated:
        tensor = torch._neg_view(tensor)
    if issubclass(kind, torch.nn.Parameter):
        return kind(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_(requires_grad)


def _reduce_storage(storage):
    if storage.device.type != "ocl":
        return reductions.reduce_storage(storage)
    if _state.in_bad_fork():
        raise RuntimeError("Cannot send a tensor of the ocl device from a forked subprocess. To use it with "
                           "multiprocessing, you must use the 'spawn' start method")
    # Its contents may come from any stream, and this may be a queue's own thread.
    torch.ocl.synchronize(storage.device)
    return _rebuild_storage, (storage.cpu(), storage.device.index)


def _rebuild_storage(storage, index: int):
    contents = torch.empty(0, dtype=torch.uint8).set_(storage)
    return contents.to(torch.device("ocl", index)).untyped_storage()
