"""What torch.nn.DataParallel needs: PyTorch has it in general terms, but for four functions that are CUDA's."""

from __future__ import annotations

import contextlib
import functools
import warnings

import torch


def register() -> None:
    for ours in (_broadcast, _broadcast_out, _broadcast_coalesced, _scatter, _scatter_out, _gather, _gather_out):
        setattr(torch._C, ours.__name__, _choosing(ours, getattr(torch._C, ours.__name__, None)))


def _choosing(ours, of_pytorch):
    @functools.wraps(ours)
    def choose(tensors, *arguments):
        some = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        kinds = {tensor.device.type for tensor in some}
        # Indices alone say nothing of their device: with tensors of the CPU they are the accelerator's.
        accelerator = torch.accelerator.current_accelerator()
        if of_pytorch is None or "ocl" in kinds or (kinds == {"cpu"} and accelerator and accelerator.type == "ocl"):
            return ours(tensors, *arguments)
        return of_pytorch(tensors, *arguments)

    return choose


def _move(tensor, index: int):
    return tensor.to("cpu" if index == -1 else torch.device("ocl", index), non_blocking=index != -1)


def _broadcast(tensor, devices):
    return [_move(tensor, index) for index in devices]


def _broadcast_out(tensor, outputs):
    return [output.copy_(tensor, non_blocking=True) for output in outputs]


def _broadcast_coalesced(tensors, devices, buffer_size):
    warnings.warn("torch.nn.DataParallel copies the whole model to every device for each batch, and one Python thread "
                  "each shares this process; torch.nn.parallel.DistributedDataParallel, started by torchrun with one "
                  "process for each ocl device, does neither", stacklevel=2)
    return [[_move(tensor, index) for tensor in tensors] for index in devices]


def _scatter(tensor, devices, sizes=None, dim=0, streams=None):
    parts = tensor.split(list(sizes), dim) if sizes is not None else tensor.chunk(len(devices), dim)
    moved = []
    for i, part in enumerate(parts):
        stream = streams[i] if streams is not None and streams[i] is not None else contextlib.nullcontext()
        with stream:
            moved.append(_move(part, devices[i]))
    return moved


def _scatter_out(tensor, outputs, dim=0, streams=None):
    parts = tensor.split([output.size(dim) for output in outputs], dim)
    return [output.copy_(part, non_blocking=True) for output, part in zip(outputs, parts)]


def _gather(tensors, dim=0, destination=None):
    index = torch.ocl.current_device() if destination is None else destination
    return torch.cat([_move(tensor, index) for tensor in tensors], dim)


def _gather_out(tensors, output, dim=0):
    return torch.cat([tensor.to(output.device) for tensor in tensors], dim, out=output)
