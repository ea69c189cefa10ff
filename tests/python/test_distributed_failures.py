"""Ranks that call something wrong, stay away or die: one error on each that says what it was; processes that end."""
import datetime
import os
import socket
import subprocess
import sys

import pytest
import torch
from torch_ocl import _distributed

import distributed_refusals as refusals
from rank_pool import RankPool, rendezvous
from since import since

pytestmark = pytest.mark.skipif(not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
                                reason="PyTorch has no Gloo")


@pytest.fixture(scope="module")
def ranks():
    pool = RankPool()
    yield pool
    pool.close()


def test_calls_that_cannot_be_right(ranks):
    for rank, told in enumerate(ranks(refusals.refusals)):
        for (operation, words, _), text in zip(refusals.REFUSED, told, strict=True):
            for word in (operation, "default_pg", *words):
                assert word in text, (rank, operation, word, text)


@since("2.14", "flight recorder for every backend",
       hasattr(getattr(torch._C, "_distributed_c10d", None), "FlightRecorderHook"))
def test_flight_recorder(ranks):
    for entries in ranks(refusals.flight_recorder):
        called = [(entry["profiling_name"], entry["input_sizes"], entry["input_dtypes"], entry["retired"])
                  for entry in entries]
        assert called == [("c10d:allreduce", [[3, 5]], ["Float"], True), ("c10d:broadcast", [[4]], ["Int"], True)]


@pytest.mark.parametrize("engine", ["mpi", "ucc", "pigeons"])
def test_engines_that_are_not_there(device, monkeypatch, engine):
    if engine != "pigeons" and getattr(torch.distributed, f"is_{engine}_available")():
        pytest.skip(f"PyTorch has {engine}")
    monkeypatch.setenv("CLPRIM_DISTRIBUTED_ENGINE", engine)
    group = _distributed.process_group_class()(torch.distributed.HashStore(), 0, 2, datetime.timedelta(seconds=60),
                                               _distributed._engine)
    with pytest.raises(Exception, match="CLPRIM_DISTRIBUTED_ENGINE") as error:
        group.allreduce([torch.ones(2, device=device)]).wait()
    assert engine in str(error.value) and "all_reduce" in str(error.value) and "gloo" in str(error.value)


SCRIPT = """
import datetime, os, sys, time
import torch
import torch.distributed as dist

what, rank = sys.argv[1], int(os.environ["RANK"])
dist.init_process_group(timeout=datetime.timedelta(seconds=120))
dist.all_reduce(torch.ones(3, device="ocl"))
print("connected", flush=True)
if what == "disagree":
    dist.all_reduce(torch.ones(3 + rank, device="ocl"))
elif what == "die" and rank == 1:
    os.kill(os.getpid(), 9)
elif what == "late":
    dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=2))
    if rank == 1:
        sys.stdin.read()
        sys.exit()
work = dist.all_reduce(torch.ones(3_000_000, device="ocl"), async_op=True)
work.wait()
"""


def start(tmp_path, what, environment, ranks=2):
    script = tmp_path / "rank.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, **environment, "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2"}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return [subprocess.Popen([sys.executable, "-W", "ignore", str(script), what], text=True, **pipes,
                             env={**environment, "RANK": str(rank)}) for rank in range(ranks)]


@pytest.mark.parametrize("what, codes, words", [
    ("disagree", (1, 1), "the ranks disagree: rank 0 calls all_reduce SUM of 3 elements"),
    ("die", (1, -9), "a peer is gone"), ("late", (1, 0), "timed out after 2000 ms")])
def test_processes_end(tmp_path, what, codes, words):
    """By themselves, when nobody catches the error: with works and threads under way."""
    store, meeting = rendezvous()   # served as long as it is referred to
    ranks = start(tmp_path, what, meeting)
    for rank, code in enumerate(codes):
        output, errors = ranks[rank].communicate(timeout=600)
        assert ranks[rank].returncode == code, (rank, errors[-2000:])
        assert output == "connected\n"
        if code == 1:
            assert errors.count("DistBackendError:") == 1, errors
            assert "all_reduce" in errors and "default_pg" in errors and words in errors, errors


def test_a_port_in_use(tmp_path):
    """The rank that is to serve the store says so at once, which ends the others where a launcher started them."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        process, = start(tmp_path, "port", {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}, ranks=1)
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 1 and "EADDRINUSE" in errors and port in errors, errors


def test_a_process_may_end_while_a_callback_of_a_future_runs():
    """The thread that runs it must not let go of Python objects while the interpreter ends."""
    code = """
import time, torch, torch.distributed as dist

class Slow:
    def __del__(self):
        time.sleep(0.2)

def last_call():
    slow = Slow()
    def then(future, slow=slow):
        time.sleep(0.2)
        return future.value()
    dist.all_reduce(torch.ones(1 << 20, device="ocl"), async_op=True).get_future().then(then)

dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
for _ in range(3):
    last_call()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
