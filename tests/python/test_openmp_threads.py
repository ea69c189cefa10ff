"""PyTorch's own threads, which spin for milliseconds after each kernel on the CPU, let a CPU device have the cores."""
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from comparison import device

cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
SCRIPT = """
import os, sys, torch

def threads():
    return set(os.listdir("/proc/self/task"))

cpus, turns = len(os.sched_getaffinity(0)), int(sys.argv[2])
torch.set_num_threads(cpus)
x, y = torch.rand(1 << 20), torch.rand(512, 512, device=sys.argv[1])
def device_work():
    for _ in range(32):
        y @ y
    torch.ocl.synchronize()

device_work()
before = threads()
first = x.exp()
pool = threads() - before
for _ in range(turns):     # at each moment that is looked at, other threads may have the cores
    device_work()          # for which the driver may make further threads
    if not pool & threads():
        break
    x.exp()                # the same threads, which spin anew
after = threads()
assert torch.equal(x.exp(), first)
print(len(pool), len(pool - after), len(threads() - after), torch.get_num_threads())
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads as Linux shows them")
@pytest.mark.skipif(cpus == 1, reason="OpenMP has no thread but the caller's on one CPU")
@pytest.mark.parametrize("allowed", ["1", "0"])
def test_idle_threads_of_openmp_go_when_a_cpu_device_has_work(allowed):
    paused = allowed == "1" and torch.ocl.get_device_properties(device).kind == "cpu"
    environment = os.environ | {"CLPRIM_PAUSE_OPENMP": allowed, "OMP_NUM_THREADS": str(cpus),
                                "OMP_WAIT_POLICY": "active"}     # spins for minutes, not milliseconds
    done = subprocess.run([sys.executable, "-c", SCRIPT, device, "400" if paused else "10"], capture_output=True,
                          text=True, check=True, timeout=300, env=environment)
    made, gone, made_again, number = map(int, done.stdout.split())
    assert made == cpus - 1 and number == cpus
    assert (gone, made_again) == ((made, made) if paused else (0, 0))
