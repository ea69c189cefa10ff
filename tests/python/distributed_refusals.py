"""Calls that cannot be right, by the ranks of tests/python/test_distributed_failures.py, and what is left to see of
calls. Each rank gets one error that names the operation, the group and the argument; the group goes on."""
import json

import torch
import torch.distributed as dist
from distributed_bad_input import goes_on
from distributed_cases import DEVICE


def ones(*shape, dtype=torch.float32, device=DEVICE):
    return torch.ones(*shape, dtype=dtype, device=device)


# A call by all ranks: the operation, what its error must say, and the call.
REFUSED = [
    ("reduce", ["to rank 0", "to rank 1"], lambda rank, size: dist.reduce(ones(3), rank)),
    ("broadcast", ["from rank 0", "from rank 1"], lambda rank, size: dist.broadcast(ones(3), rank)),
    ("all_reduce", ["SUM", "MAX"],
     lambda rank, size: dist.all_reduce(ones(3), [dist.ReduceOp.SUM, dist.ReduceOp.MAX][rank])),
    ("all_reduce", ["float32", "float16"],
     lambda rank, size: dist.all_reduce(ones(3, dtype=[torch.float32, torch.float16][rank]))),
    ("all_gather_into_tensor", ["elements"],
     lambda rank, size: dist.all_gather_into_tensor(ones((3 + rank) * size), ones(3 + rank))),
    ("all_gather_into_tensor", ["output"], lambda rank, size: dist.all_gather_into_tensor(ones(5), ones(3))),
    ("reduce_scatter_tensor", ["input"], lambda rank, size: dist.reduce_scatter_tensor(ones(3), ones(5))),
    ("reduce_scatter_tensor", ["float64"],
     lambda rank, size: dist.reduce_scatter_tensor(ones(3), ones(3 * size, dtype=torch.float64))),
    ("scatter", ["scatter_list"], lambda rank, size: dist.scatter(ones(3), [ones(4)] * size if rank == 0 else None, 0)),
    ("gather", ["elements"],
     lambda rank, size: dist.gather(ones(3 + rank), [ones(3)] * size if rank == 0 else None, 0)),
    ("all_reduce", ["BAND of float32"], lambda rank, size: dist.all_reduce(ones(3), dist.ReduceOp.BAND)),
    ("all_reduce", ["Float8_e4m3fn"], lambda rank, size: dist.all_reduce(ones(3).to(torch.float8_e4m3fn))),
]


def refusals(rank, size):
    told = []
    for _, _, call in REFUSED:
        try:
            call(rank, size)
            torch.ocl.synchronize()
            told.append("no error")
        except Exception as error:   # whichever kind
            told.append(f"{type(error).__name__}: {error}")
        goes_on(rank, size)
    return told


def flight_recorder(rank, size):
    """PyTorch's record of what was called last tells each operation, its sizes and dtypes, and whether it has ended."""
    from torch._C import _distributed_c10d as c10d

    group = dist.new_group(list(range(size)))
    hook = c10d.FlightRecorderHook.attach(group)
    try:
        dist.all_reduce(ones(3, 5), group=group)
        dist.broadcast(ones(4, dtype=torch.int32), 0, group=group)
        dump = json.loads(c10d._dump_fr_trace_json())
    finally:
        hook.remove()
    dist.destroy_process_group(group)
    # Those of the program: Gloo, which carries the bytes, records its own.
    return [entry for entry in dump["entries"] if entry["profiling_name"].startswith("c10d:")]
