"""Calls of ranks that do not fit each other, ranks that stay away or die, and what goes on afterwards: cases of
tests/python/test_distributed.py."""
import datetime
import os

import torch
import torch.distributed as dist
from distributed_cases import DEVICE

def disagree_in_size(rank, size):
    dist.all_reduce(torch.ones(3 + rank, device=DEVICE))


def disagree_in_dtype(rank, size):
    dist.broadcast(torch.ones(3, device=DEVICE, dtype=[torch.float32, torch.int32][rank]), 0)


def disagree_in_operation(rank, size):
    tensor = torch.ones(3, device=DEVICE)
    dist.all_reduce(tensor) if rank == 0 else dist.broadcast(tensor, 0)


def disagree_in_splits(rank, size):
    splits = [1, 1] if rank == 0 else [2, 1]
    dist.all_to_all_single(torch.empty(2 + rank, device=DEVICE), torch.ones(2, device=DEVICE), splits, [1, 1])


def mixed_devices(rank, size):
    outputs = [torch.empty(2, device=DEVICE), torch.empty(2, device="cpu" if rank == 1 else DEVICE)]
    dist.all_gather(outputs, torch.empty(2, device=DEVICE))


def message_of_another_size(rank, size):
    if rank == 0:
        dist.send(torch.ones(3, device=DEVICE), 1)
    else:
        dist.recv(torch.ones(4, device=DEVICE), 0)


def goes_on(rank, size):
    tensor = torch.ones(3, device=DEVICE)
    dist.all_reduce(tensor)
    assert (tensor == size).all()


def one_stays_away(rank, size):
    if rank == 0:
        # Only now, since connecting may take its time.
        dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=3))
        dist.all_reduce(torch.ones(3, device=DEVICE))


def use_after_failure(rank, size):
    if rank == 0:
        dist.all_reduce(torch.ones(3, device=DEVICE))


def one_dies(rank, size):
    goes_on(rank, size)
    if rank == 1:
        os._exit(3)
    dist.all_reduce(torch.ones(3_000_000, device=DEVICE))
