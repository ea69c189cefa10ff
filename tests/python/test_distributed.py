"""torch.distributed on the device: two processes against the same on one, on PyTorch's CPU."""
import datetime
import json
import os
import subprocess
import sys
import threading

import pytest
import torch
from torch_ocl import _distributed, _state

import distributed_bad_input as bad_input
import distributed_cases as cases
import distributed_shared_memory as shared_memory
import distributed_training as training
from rank_pool import RankPool

pytestmark = pytest.mark.skipif(not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
                                reason="PyTorch has no Gloo")


def environments(kind):
    if kind == "lent":
        return {}, {}
    # The second rank is another vendor's where there is one; the first passes bytes as discrete GPUs do, and both the
    # network's way.
    first = torch.ocl.get_device_properties(0).platform_name
    listed = subprocess.run([sys.executable, "-c", "import torch\nfor i in range(torch.ocl.device_count()):\n"
                             "    print(torch.ocl.get_device_properties(i).platform_name)"],
                            env={**os.environ, "CLPRIM_DEVICES": "all"}, capture_output=True, text=True, check=True)
    others = sorted(set(listed.stdout.splitlines()) - {first})
    second = {"CLPRIM_DEVICES": others[0]} if others else {}
    network = {"CLPRIM_DISTRIBUTED_SHARED_MEMORY": "0"}
    return {"CLPRIM_DISTRIBUTED_STAGING": "pinned", **network}, {**second, **network}


@pytest.fixture(scope="module", params=["lent", "pinned, two drivers"])
def ranks(request):
    pool = RankPool(environments=environments(request.param))
    pool.kind = request.param
    yield pool
    pool.close()


@pytest.mark.parametrize("case", [cases.all_reduce, cases.all_reduce_sparse, cases.moves, cases.reductions_to_some,
                                  cases.exchange, cases.even_on_one_rank, cases.messages, cases.coalesced,
                                  cases.asynchronous, cases.begun_by_callbacks, cases.memory_of_callbacks,
                                  cases.order_without_elements, cases.profiled, shared_memory.shared_memory,
                                  shared_memory.without_shared_memory],
                         ids=lambda case: case.__name__)
def test_collectives(ranks, case):
    ranks(case)


def by_threads(serve, outcomes):
    """Runs serve(rank) for all ranks; each leaves "done" in its outcome."""
    threads = [threading.Thread(target=serve, args=(rank,)) for rank in range(len(outcomes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == ["done"] * len(outcomes)


@pytest.mark.parametrize("shared", ["0", "1"])
def test_three_ranks(shared, monkeypatch):
    """Threads are the ranks, each with the backend of its own: three processes would take long to start."""
    monkeypatch.setenv("CLPRIM_DISTRIBUTED_SHARED_MEMORY", shared)
    store, size = torch.distributed.HashStore(), 3
    outcomes = [None] * size

    def serve(rank):
        limit = datetime.timedelta(seconds=300)
        group = _distributed.process_group_class()(store, rank, size, limit, _distributed._engine)
        for count in (5, 70_001, 700_001):
            for dtype in (torch.float32, torch.bfloat16, torch.int64):
                parts = [(torch.arange(count) % 5 + r).to(dtype) for r in range(size)]
                tensor = parts[rank].to("ocl")
                group.allreduce([tensor]).wait()
                torch.testing.assert_close(tensor.cpu(), sum(part.double() for part in parts).to(dtype))
                rows = torch.empty(size * count, dtype=dtype, device="ocl")
                group._allgather_base(rows, parts[rank].to("ocl")).wait()
                assert torch.equal(rows.cpu(), torch.cat(parts))
                into = torch.empty_like(rows)
                group.alltoall_base(into, rows, [], []).wait()
                assert torch.equal(into.cpu(), parts[rank].repeat(size))
        outcomes[rank] = "done"

    by_threads(serve, outcomes)


def test_ranks_in_threads_meet_in_memory_just_made():
    """All ask the driver at once where a buffer lies, which PoCL answers to one thread at a time."""
    size = 3
    for turn in range(12):
        store, outcomes, begin = torch.distributed.HashStore(), [None] * size, threading.Barrier(size)
        tensors = torch.ones((size, 300_000 * (turn + 1)), device="ocl")
        torch.ocl.synchronize()

        def serve(rank):
            limit = datetime.timedelta(seconds=60)
            group = _distributed.process_group_class()(store, rank, size, limit, _distributed._engine)
            begin.wait()
            group.allreduce([tensors[rank]]).wait()
            assert bool((tensors[rank] == size).all())
            outcomes[rank] = "done"

        by_threads(serve, outcomes)
        del tensors
        torch.ocl.empty_cache()


def test_more_ranks_than_speak_to_each_other():
    """Agreements go round by round, from each rank to those at distances of powers of two."""
    store, size = torch.distributed.HashStore(), 9
    outcomes = [None] * size

    def serve(rank):
        limit = datetime.timedelta(seconds=300)
        group = _distributed.process_group_class()(store, rank, size, limit, _distributed._engine)
        tensor = torch.full((5,), float(rank), device="ocl")
        group.allreduce([tensor]).wait()
        assert tensor.tolist() == [36.0] * 5
        with pytest.raises(torch.distributed.DistBackendError) as told:
            group.allreduce([torch.ones(4 if rank == 5 else 3, device="ocl")]).wait()
        error = str(told.value)
        assert "rank 5 calls all_reduce SUM of 4 elements of float32" in error, error
        assert "rank 0, 1, 2, 3, 4, 6, 7, 8 calls all_reduce SUM of 3" in error, error
        group.allreduce([tensor]).wait()
        assert tensor.tolist() == [9 * 36.0] * 5
        outcomes[rank] = "done"

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLPRIM_DISTRIBUTED_SHARED_MEMORY", "0")
        by_threads(serve, outcomes)


@pytest.mark.skipif(not getattr(_state.extension, "has_kineto", False), reason="no plugin interface for profilers")
def test_collectives_beside_the_backward_pass(ranks, tmp_path):
    """While bucket after bucket waits for the other rank, the kernels of the backward pass run."""
    ranks(training.overlapped_step, str(tmp_path))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    reductions = [event for event in events if event.get("name") == "occl:all_reduce" and event.get("ph") == "X"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    assert len(reductions) >= 3, len(reductions)
    first = min(reductions, key=lambda event: event["ts"])
    beside = [kernel for kernel in kernels if first["ts"] < kernel["ts"]
              and kernel["ts"] + kernel["dur"] < first["ts"] + first["dur"]]
    assert len(beside) >= 5, (len(beside), len(kernels))


def test_ranks_that_wait_for_each_other(ranks):
    ranks(cases.engines_beside_the_program)


def test_abort(ranks):
    ranks(cases.aborted)
    ranks(bad_input.goes_on)


def test_groups(ranks):
    assert ranks(cases.groups) == ["cpu:gloo,ocl:occl"] * 2


@pytest.mark.parametrize("case", [training.data_parallel, training.communication_hooks, training.uneven_inputs,
                                  training.synchronized_batch_norm, training.sharded_optimizer, training.fully_sharded,
                                  training.fully_sharded_1, training.tensor_parallel, training.sharded_attention,
                                  training.pipeline, training.checkpoint],
                         ids=lambda case: case.__name__)
def test_training(ranks, case):
    if ranks.kind != "lent" and case not in (training.data_parallel, training.fully_sharded, training.pipeline):
        pytest.skip("staging and drivers do not matter any more")
    ranks(case)


@pytest.mark.parametrize("case, words", [
    (bad_input.disagree_in_size, ["all_reduce", "default_pg", "rank 0 calls all_reduce SUM of 3 elements of float32",
                              "rank 1 calls all_reduce SUM of 4 elements"]),
    (bad_input.disagree_in_dtype, ["broadcast", "default_pg", "float32", "int32"]),
    (bad_input.disagree_in_operation, ["default_pg", "rank 0 calls all_reduce", "rank 1 calls broadcast"]),
    (bad_input.disagree_in_splits, ["all_to_all_single", "default_pg", "room for"]),
    (bad_input.mixed_devices, ["all_gather", "default_pg", "tensor_list[1] is on cpu"]),
], ids=lambda value: getattr(value, "__name__", ""))
def test_every_rank_is_told_what_is_wrong(ranks, case, words):
    for kind, value in ranks.outcomes(case):
        assert kind == "error", kind
        for word in words:
            assert word in value[1], value[1]
    ranks(bad_input.goes_on)


def test_message_of_another_size(ranks):
    sender, receiver = ranks.outcomes(bad_input.message_of_another_size)
    assert sender[0] == "result" and receiver[0] == "error"
    assert "rank 0 sent 3 elements of float32, but the tensor given has 4" in receiver[1][1]
    ranks(bad_input.goes_on)


def test_timeout_and_a_rank_that_dies():
    pool = RankPool()
    try:
        pool(bad_input.goes_on)
        (kind, error), _ = pool.outcomes(bad_input.one_stays_away)
        assert kind == "error"
        assert "all_reduce" in error[1] and "default_pg" in error[1] and "timed out after 3000 ms" in error[1]
        (kind, error), _ = pool.outcomes(bad_input.use_after_failure)
        assert kind == "error" and "the group can no longer be used: all_reduce" in error[1]
    finally:
        pool.close()
    pool = RankPool()
    try:
        survivor, dead = pool.outcomes(bad_input.one_dies)
        assert dead[0] == "gone" and survivor[0] == "error"
        assert "all_reduce" in survivor[1][1] and "a peer is gone" in survivor[1][1]
    finally:
        pool.close()
    assert not any(process.is_alive() for process in pool.processes)


ELASTIC = """
import os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

folder, attempt = sys.argv[1], int(os.environ["TORCHELASTIC_RESTART_COUNT"])
dist.init_process_group("occl")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 1).to("ocl"))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
path, begin = os.path.join(folder, "state.pt"), 0
if os.path.exists(path):
    state = torch.load(path, map_location="ocl")
    begin = state["step"]
    model.module.load_state_dict(state["model"])
for step in range(begin, 6):
    optimizer.zero_grad()
    model(torch.full((2, 4), 0.1 * (step + rank), device="ocl")).sum().backward()
    optimizer.step()
    if rank == 0:
        torch.save({"step": step + 1, "model": model.module.state_dict()}, path + ".new")
        os.replace(path + ".new", path)
    dist.barrier()
    if step == 2 and rank == 1 and attempt == 0:
        os._exit(9)
if rank == 0:
    print("begun at", begin, "restarts", attempt, "weight %.6f" % model.module.weight[0, 0].item())
dist.destroy_process_group()
"""


def test_torchrun_restarts_from_the_checkpoint(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(ELASTIC)
    run = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
                          "--max-restarts=1", "--monitor-interval=0.1", str(script), str(tmp_path)],
                         env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stderr[-4000:]
    torch.manual_seed(0)
    weight = torch.nn.Linear(4, 1).weight[0, 0].item()
    for step in range(6):   # the gradient of a sum of two rows, averaged over both ranks
        weight -= 0.1 * 2 * 0.1 * (step + 0.5)
    assert run.stdout.split() == ["begun", "at", "3", "restarts", "1", "weight", f"{weight:.6f}"], run.stdout


def test_data_parallel_says_what_to_use():
    with pytest.warns(UserWarning, match="DistributedDataParallel"):
        torch._C._broadcast_coalesced([torch.ones(2, device="ocl")], [0], 1 << 20)   # what DataParallel begins with
