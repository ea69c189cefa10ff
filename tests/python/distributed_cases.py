"""What the ranks of tests/python/test_distributed.py do. Each returns how far it is from the reference, or raises."""
import datetime
import json
import tempfile
import time

import torch
import torch.distributed as dist

DEVICE = "ocl"
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def close(actual, expected, **tolerances):
    torch.testing.assert_close(actual.cpu(), expected, **tolerances)


def number_of(rank, shape=(3, 5), dtype=torch.float32):
    """The tensor that a rank contributes, known to all."""
    generator = torch.Generator().manual_seed(100 + rank)
    return torch.randint(1, 7, shape, generator=generator).to(dtype)


# ---- collectives

def all_reduce(rank, size):
    operators = {"SUM": torch.add, "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum,
                 "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}
    for dtype in FLOATS + INTEGERS + [torch.bool]:
        for name, operator in operators.items():
            if name.startswith("B") and dtype in FLOATS:
                continue
            parts = [number_of(r, dtype=dtype) if dtype != torch.bool else number_of(r) > 3 for r in range(size)]
            if dtype == torch.bool:
                operator = {"SUM": torch.logical_or, "PRODUCT": torch.logical_and}.get(name, operator)
            expected = parts[0]
            for part in parts[1:]:
                expected = operator(expected, part)
            tensor = parts[rank].to(DEVICE)
            dist.all_reduce(tensor, getattr(dist.ReduceOp, name))
            close(tensor, expected)
    for dtype in FLOATS + [torch.complex64, torch.complex128]:
        tensor = number_of(rank, dtype=dtype).to(DEVICE)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        close(tensor, sum(number_of(r, dtype=dtype) for r in range(size)) / size)
    tensor = number_of(rank).to(DEVICE)
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
    close(tensor, 0.5 * sum(number_of(r) for r in range(size)))
    large = torch.full((5_000_001,), rank + 1.0, device=DEVICE)   # in pieces
    dist.all_reduce(large)
    assert (large == size * (size + 1) / 2).all()
    for layout in (number_of(rank).t(), number_of(rank, (2, 3, 4, 4)).to(memory_format=torch.channels_last)):
        tensor = layout.to(DEVICE)
        dist.all_reduce(tensor)
        shape = (3, 5) if layout.dim() == 2 else (2, 3, 4, 4)
        expected = sum(number_of(r, shape) for r in range(size))
        close(tensor, expected.t() if layout.dim() == 2 else expected, check_stride=False)
    empty = torch.empty(0, device=DEVICE)
    dist.all_reduce(empty)


def all_reduce_sparse(rank, size):
    tensor = torch.sparse_coo_tensor([[rank, 3]], [1.0, 2.0], (4,)).to(DEVICE)
    dist.all_reduce(tensor)
    close(tensor.to_dense(), torch.tensor([1.0, 1.0, 0.0, 4.0]))


def moves(rank, size):
    for dtype in (torch.float32, torch.int16, torch.complex64, torch.float8_e4m3fn, torch.bool):
        mine, parts = number_of(rank).to(dtype).to(DEVICE), [number_of(r).to(dtype) for r in range(size)]
        as_bytes = lambda tensor: tensor.cpu().contiguous().view(torch.uint8)   # noqa: E731  float8 has no comparison

        tensor = mine.clone()
        dist.broadcast(tensor, 1)
        close(as_bytes(tensor), as_bytes(parts[1]))
        gathered = [torch.empty_like(mine) for _ in range(size)]
        dist.all_gather(gathered, mine)
        for got, part in zip(gathered, parts):
            close(as_bytes(got), as_bytes(part))
        whole = torch.empty(3 * size, 5, dtype=dtype, device=DEVICE)
        dist.all_gather_into_tensor(whole, mine)
        close(as_bytes(whole), as_bytes(torch.cat(parts)))
        gathered = [torch.empty_like(mine) for _ in range(size)] if rank == 1 else None
        dist.gather(mine, gathered, 1)
        if rank == 1:
            close(as_bytes(torch.stack([g.cpu() for g in gathered])), as_bytes(torch.stack(parts)))
        dist.scatter(tensor, [part.to(DEVICE) for part in parts] if rank == 0 else None, 0)
        close(as_bytes(tensor), as_bytes(parts[rank]))
    # The rows of an all_gather may be the tensor's own place.
    whole = torch.full((4 * size,), -1.0, device=DEVICE)
    whole[4 * rank:4 * rank + 4] = rank
    dist.all_gather_into_tensor(whole, whole[4 * rank:4 * rank + 4])
    close(whole, torch.arange(float(size)).repeat_interleave(4))
    # Several pieces, and parts of different sizes.
    count = 3_000_001
    whole = torch.empty(count * size, device=DEVICE)
    dist.all_gather_into_tensor(whole, torch.full((count,), float(rank), device=DEVICE))
    assert all((whole[r * count:(r + 1) * count] == r).all() for r in range(size))
    uneven = [torch.empty(r + 1, device=DEVICE) for r in range(size)]
    dist.all_gather(uneven, torch.full((rank + 1,), float(rank), device=DEVICE))
    assert [part.tolist() for part in uneven] == [[float(r)] * (r + 1) for r in range(size)]


def reductions_to_some(rank, size):
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.int16):
        rows = [number_of(r, (2 * size, 3), dtype) for r in range(size)]
        total = sum(rows)
        output = torch.empty(2, 3, dtype=dtype, device=DEVICE)
        dist.reduce_scatter_tensor(output, rows[rank].to(DEVICE))
        close(output, total[2 * rank:2 * rank + 2])
        dist.reduce_scatter(output, list(rows[rank].to(DEVICE).chunk(size)))
        close(output, total[2 * rank:2 * rank + 2])
        tensor = rows[rank].to(DEVICE)
        dist.reduce(tensor, 1)
        close(tensor, total if rank == 1 else rows[rank])   # the others keep what they gave
    output = torch.empty(2, 3, device=DEVICE)
    dist.reduce_scatter_tensor(output, number_of(rank, (2 * size, 3)).to(DEVICE), dist.ReduceOp.AVG)
    close(output, sum(number_of(r, (2 * size, 3)) for r in range(size))[2 * rank:2 * rank + 2] / size)
    uneven = torch.empty(rank + 1, device=DEVICE)
    dist.reduce_scatter(uneven, [torch.full((r + 1,), float(rank + 1), device=DEVICE) for r in range(size)])
    close(uneven, torch.full((rank + 1,), size * (size + 1) / 2))


def exchange(rank, size, group=None):
    mine = torch.arange(2.0 * size, device=DEVICE) + 10 * rank
    output = torch.empty_like(mine)
    dist.all_to_all_single(output, mine, group=group)
    close(output, torch.cat([torch.arange(2.0) + 2 * rank + 10 * r for r in range(size)]))
    splits = [r + 1 for r in range(size)]   # rank r gets r + 1 rows of everybody
    rows = torch.full((sum(splits), 2), float(rank), device=DEVICE)
    output = torch.empty(size * (rank + 1), 2, device=DEVICE)
    dist.all_to_all_single(output, rows, [rank + 1] * size, splits, group=group)
    close(output, torch.arange(float(size)).repeat_interleave(rank + 1)[:, None].expand(-1, 2))
    outputs = [torch.empty(3, device=DEVICE, dtype=torch.int32) for _ in range(size)]
    dist.all_to_all(outputs, [torch.full((3,), 10 * rank + r, device=DEVICE, dtype=torch.int32) for r in range(size)],
                    group=group)
    assert [part[0].item() for part in outputs] == [10 * r + rank for r in range(size)]


def even_on_one_rank(rank, size):
    """Rank 0 sends and gets as much of every rank, rank 1 keeps less of its own."""
    splits = [2, 2] if rank == 0 else [2, 1]
    given = number_of(rank, (sum(splits),))
    into = torch.empty(sum(splits), device=DEVICE)
    dist.all_to_all_single(into, given.to(DEVICE), splits, splits)
    own, other = given.split(splits)[rank], number_of(1 - rank, (3 + rank,))[2 * rank:2 * rank + 2]
    close(into, torch.cat([own, other] if rank == 0 else [other, own]))


def messages(rank, size):
    other = 1 - rank
    if rank == 0:
        dist.send(torch.arange(3.0, device=DEVICE), 1, tag=5)
        got = torch.empty(3, device=DEVICE)
        assert dist.recv(got) == 1   # from anybody
        close(got, torch.arange(3.0) + 1)
    else:
        got = torch.empty(3, device=DEVICE)
        assert dist.recv(got, 0, tag=5) == 0
        dist.send(got + 1, 0)
    # Both send first; large enough for several pieces.
    out, into = torch.full((4_500_000,), float(rank), device=DEVICE), torch.empty(4_500_000, device=DEVICE)
    works = [dist.isend(out, other), dist.irecv(into, other)]
    for work in works:
        work.wait()
    assert (into == other).all()
    # Tags are told apart whatever the order; results with gaps.
    first, second = torch.empty(2, 3, device=DEVICE).t(), torch.empty(3, 2, device=DEVICE)
    works = [dist.isend(torch.full((3, 2), 1.0, device=DEVICE), other, tag=1),
             dist.isend(torch.full((3, 2), 2.0, device=DEVICE), other, tag=2),
             dist.irecv(second, other, tag=2), dist.irecv(first, other, tag=1)]
    for work in works:
        work.wait()
    assert (first == 1).all() and (second == 2).all()
    operations = [dist.P2POp(dist.isend, out[:4], other), dist.P2POp(dist.irecv, into[:4], other)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert (into[:4] == other).all()


def profiled(rank, size):
    """Profilers show each operation by its name, with the shapes that it got."""
    tensor, parts = torch.ones(3, 5, device=DEVICE), [torch.empty(3, 5, device=DEVICE) for _ in range(size)]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        dist.all_reduce(tensor)
        dist.all_gather(parts, tensor)
        dist.all_to_all_single(torch.empty(4, device=DEVICE), torch.ones(4, device=DEVICE))
        dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, (rank + 1) % size),
                                dist.P2POp(dist.irecv, parts[0], (rank - 1) % size)])[-1].wait()
        dist.barrier(device_ids=[0])
    shapes = {event.name: event.input_shapes for event in profile.events() if event.name.startswith("occl:")}
    assert shapes["occl:all_reduce"] == shapes["occl:all_gather"] == shapes["occl:recv"] == [[3, 5]], shapes
    assert shapes["occl:all_to_all"] == [[4]] and "occl:barrier" in shapes, shapes
    with tempfile.TemporaryDirectory() as folder:
        profile.export_chrome_trace(f"{folder}/trace.json")
        with open(f"{folder}/trace.json") as trace:
            recorded = (e["args"] for e in json.load(trace)["traceEvents"] if e["name"] == "record_param_comms")
            calls = {call["Collective name"]: call for call in recorded}
    assert calls.keys() >= {"allreduce", "all_gather", "all_to_allv", "send", "recv", "barrier", "wait"}, calls.keys()
    gathered = calls["all_gather"]
    assert (gathered["In msg nelems"], gathered["Out msg nelems"], gathered["Group size"]) == (15, 15 * size, size)
    assert gathered["dtype"] == "Float" and gathered["Process Group Ranks"] == str(list(range(size)))


def coalesced(rank, size):
    tensors = [torch.full((3,), rank + 1.0, device=DEVICE), torch.full((2, 2), rank + 2.0, device=DEVICE).t()]
    with dist._coalescing_manager(async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    assert (tensors[0] == 3).all() and (tensors[1] == 5).all()
    outputs = [torch.empty(2 * size, device=DEVICE) for _ in range(2)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for i, output in enumerate(outputs):
            dist.all_gather_into_tensor(output, torch.full((2,), rank + 10.0 * i, device=DEVICE))
    manager.wait()
    assert [output.tolist() for output in outputs] == [[0, 0, 1, 1], [10, 10, 11, 11]]


def asynchronous(rank, size):
    tensor = torch.ones(1000, device=DEVICE)
    for _ in range(5):
        tensor = tensor * 2   # still on the stream when the collective is called
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    assert work.is_completed() and work.is_success()
    close(tensor + 1, torch.full((1000,), 65.0))
    other_stream = torch.ocl.Stream()
    with torch.ocl.stream(other_stream):
        mine = torch.full((1000,), 3.0, device=DEVICE) * 2
        dist.all_reduce(mine, async_op=True).wait()
        doubled = mine * 2
    other_stream.synchronize()
    close(doubled, torch.full((1000,), 24.0))
    future = dist.all_reduce(torch.full((7,), 1.0, device=DEVICE), async_op=True).get_future()
    result = future.then(lambda f: f.value()[0] * 10).wait()
    close(result, torch.full((7,), 10.0 * size))
    parts = [torch.empty(2, device=DEVICE) for _ in range(size)]
    gathered = dist.all_gather(parts, torch.full((2,), float(rank), device=DEVICE), async_op=True).get_future().wait()
    close(gathered[0], torch.arange(size).float()[:, None].expand(size, 2))
    # A callback may wait for another collective.
    chained = dist.all_reduce(torch.ones(2, device=DEVICE), async_op=True).get_future().then(
        lambda f: dist.all_reduce(f.value()[0], async_op=True).get_future().wait()[0])
    close(chained.wait(), torch.full((2,), float(size * size)))
    # Memory that the caller drops is not reused under a collective.
    for _ in range(20):
        dist.all_reduce(torch.ones(50_000, device=DEVICE), async_op=True)
        torch.zeros(50_000, device=DEVICE)
    dist.barrier(device_ids=[0])


def begun_by_callbacks(rank, size):
    """A callback runs at another time on each rank: before the program's other collectives on the first, behind them on
    the second. Both kinds of one size and dtype would go through if they were taken for each other."""
    def follow(future):
        time.sleep(0.3 * rank)
        doubled = future.value()[0] * 2
        first = dist.all_reduce(doubled, async_op=True).get_future().wait()[0]
        return dist.all_reduce(first + 1, async_op=True).get_future().wait()[0]

    chained = []
    for start in (1.0, 2.0):
        future = dist.all_reduce(torch.full((6,), start, device=DEVICE), async_op=True).get_future()
        chained.append(future.then(follow))
    time.sleep(0.3 * (1 - rank))
    others = [torch.full((6,), float(value), device=DEVICE) for value in (10, 20, 30)]
    works = [dist.all_reduce(other, async_op=True) for other in others]
    dist.all_reduce(others[0])
    for work in works:
        work.wait()
    for start, future in zip((1.0, 2.0), chained, strict=True):
        close(future.wait(), torch.full((6,), size * (2.0 * start * size * size + 1)))
    for other, expected in zip(others, (10 * size * size, 20 * size, 30 * size), strict=True):
        close(other, torch.full((6,), float(expected)))
    # A future that is asked for when its operation has long ended keeps that order.
    work = dist.all_reduce(torch.ones(3, device=DEVICE), async_op=True)
    work.wait()
    close(work.get_future().then(lambda f: f.value()[0] + 1).wait(), torch.full((3,), size + 1.0))


def memory_of_callbacks(rank, size):
    """What only a callback holds goes with it, when its kernels have just been enqueued. The program, on another
    stream, must not get that memory before they are done."""
    eye = torch.eye(700, device=DEVICE)
    for _ in range(4):
        work = dist.all_reduce(torch.ones(3, device=DEVICE), async_op=True)
        work.wait()
        held = [torch.full((700, 700), 3.0, device=DEVICE)]

        def callback(future, held=held):
            product = eye
            for _ in range(10):
                product = product @ eye
            return held.pop() @ product

        result = work.get_future().then(callback)   # the operation has ended: it runs here and now
        others = [torch.full((700, 700), float(i), device=DEVICE) for i in range(3)]
        close(result.wait(), torch.full((700, 700), 3.0))
        for i, other in enumerate(others):
            close(other, torch.full((700, 700), float(i)))


def order_without_elements(rank, size):
    """Who waits for a collective waits for what its caller's stream had to do before, even if it moves nothing: hooks
    of DistributedDataParallel pass empty tensors where a bucket has none of a kind, and read others in callbacks."""
    empty = torch.empty(0, device=DEVICE)
    operations = (lambda: dist.all_reduce(empty, async_op=True), lambda: dist.broadcast(empty, 0, async_op=True),
                  lambda: dist.all_gather_into_tensor(torch.empty(0, device=DEVICE), empty, async_op=True),
                  lambda: (dist.isend if rank == 0 else dist.irecv)(empty, 1 - rank))
    other, twice = torch.ocl.Stream(), 2 * torch.eye(700, device=DEVICE)
    for operation in operations:
        product = twice
        for _ in range(10):
            product = product @ twice
        work = operation()
        with torch.ocl.stream(other):
            work.wait()
            seen = product.diagonal().clone()
        other.synchronize()
        close(seen, torch.full((700,), 2.0 ** 11))
        for _ in range(10):
            product = product @ twice
        later = operation().get_future().then(lambda f, product=product: product.diagonal().clone())
        close(later.wait(), torch.full((700,), 2.0 ** 21))


def groups(rank, size):
    several = [dist.new_group([0, 1]) for _ in range(3)] + [dist.new_group([1]), dist.new_group(backend="occl")]
    for index, group in enumerate(several):
        if index == 3 and rank == 0:
            continue
        tensor = torch.full((4,), 1.0, device=DEVICE)
        dist.all_reduce(tensor, group=group)
        assert (tensor == (1 if index == 3 else size)).all()
    objects = [None] * size
    dist.all_gather_object(objects, ("rank", rank), group=several[0])
    assert objects == [("rank", r) for r in range(size)]
    listed = [rank]
    dist.broadcast_object_list(listed, 1, device=torch.device(DEVICE, 0))
    assert listed == [1]
    for group in several[:3]:
        dist.destroy_process_group(group)
    return dist.get_backend_config()


def aborted(rank, size):
    group, called = dist.new_group([0, 1]), []
    backend = group._get_backend(torch.device(DEVICE))
    if hasattr(backend, "register_abort_hook"):
        backend.register_abort_hook(1, lambda: called.append(1))
    else:
        called.append(1)
    if rank == 0:
        work = dist.all_reduce(torch.ones(2, device=DEVICE), group=group, async_op=True)   # which no other rank joins
        backend.abort()
        try:
            work.wait()
        except dist.DistBackendError as error:
            assert "all_reduce" in str(error) and "aborted" in str(error), error
            assert called == [1]
        else:
            raise AssertionError("the collective ended without an error")


def engines_beside_the_program(rank, size):
    """Ranks that wait for each other in the rendezvous: rank 0 connects a group, rank 1 joins when rank 0 says so."""
    group = dist.new_group([0, 1])
    store = dist.distributed_c10d._get_default_store()
    tensor = torch.full((4,), rank + 1.0, device=DEVICE)
    if rank == 0:
        work = dist.all_reduce(tensor, group=group, async_op=True)
        time.sleep(0.5)   # by now its engine waits for rank 1
        store.set("rank 0 has begun", "yes")
        work.wait()
    else:
        store.wait(["rank 0 has begun"], datetime.timedelta(seconds=200))
        dist.all_reduce(tensor, group=group)
    assert (tensor == 3).all()
    store.delete_key("rank 0 has begun")
    dist.barrier()
