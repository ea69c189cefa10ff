"""What the ranks of tests/python/test_distributed.py do with and without memory that they share."""
import contextlib
import os

import torch
import torch.distributed as dist

from distributed_cases import DEVICE, close, exchange


def shares_memory():
    with open("/proc/self/maps") as maps:
        return sum("/clprim-" in line for line in maps)


def collectives_of(group, rank, size):
    """Few bytes and many, that divide and do not, in every way that an engine moves them."""
    for count in (3, 5_000, 1_300_001):
        parts = [torch.arange(count, dtype=torch.float32) % 97 + r for r in range(size)]
        mine = parts[rank].to(DEVICE)
        total = mine.clone()
        dist.all_reduce(total, group=group)
        close(total, sum(parts))
        largest = mine.half()
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
        close(largest, parts[-1].half())
        rows = torch.empty(size * count, device=DEVICE)
        dist.all_gather_into_tensor(rows, mine, group=group)
        close(rows, torch.cat(parts))
        share = torch.empty(count, device=DEVICE)
        dist.reduce_scatter_tensor(share, rows, group=group)
        close(share, size * parts[rank])
        dist.broadcast(mine, 1, group=group)
        close(mine, parts[1])
    exchange(rank, size, group)


@contextlib.contextmanager
def shared_memory_is(wanted):
    name = "CLPRIM_DISTRIBUTED_SHARED_MEMORY"
    before = os.environ.get(name)
    os.environ[name] = wanted
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def shared_memory(rank, size):
    group, before = dist.new_group(list(range(size))), shares_memory()
    with shared_memory_is("1"):
        collectives_of(group, rank, size)
    assert shares_memory() == before + 1
    dist.destroy_process_group(group)


def without_shared_memory(rank, size):
    """One rank cannot reach it: all use the network."""
    group, before = dist.new_group(list(range(size))), shares_memory()
    with shared_memory_is("0" if rank == 1 else "1"):
        collectives_of(group, rank, size)
    assert shares_memory() == before
    dist.destroy_process_group(group)
