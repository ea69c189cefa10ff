"""The threads of a CPU device's driver are kept off the CPU of the thread that launches, which works while it waits."""
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from comparison import device

SCRIPT = """
import os, sys, torch
x = torch.rand(512, 512, device=sys.argv[1])
expected = (x.cpu().double() @ x.cpu().double()).float()
for _ in range(40):      # waits of milliseconds, some of which are looked at
    for _ in range(4):
        y = x @ x
    torch.ocl.synchronize()
torch.testing.assert_close(y.cpu(), expected, rtol=1e-5, atol=1e-3)
def worked(thread):
    try:
        with open(f"/proc/self/task/{thread}/schedstat") as file:
            return int(file.read().split()[0])
    except FileNotFoundError:       # it has ended meanwhile
        return 0

threads = set(map(int, os.listdir("/proc/self/task"))) - {os.getpid()}
print(len(os.sched_getaffinity(max(threads, key=worked))), torch.ocl.get_device_properties(sys.argv[1]).compute_units)
"""


def cpus_of_worker(setting, cpus):
    """How many CPUs the thread may run on that has worked most beside the first one, and how many the driver knows of,
    in a process that has `cpus`."""
    def limit():
        os.sched_setaffinity(0, cpus)

    environment = os.environ | {"CLPRIM_PLACE_THREADS": setting}
    done = subprocess.run([sys.executable, "-c", SCRIPT, device], capture_output=True, text=True, check=True,
                          timeout=300, env=environment, preexec_fn=limit)
    return map(int, done.stdout.split())


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="Linux alone says how long each thread has run")
@pytest.mark.parametrize("setting", ["1", "0"])
def test_driver_threads_leave_the_launching_thread_its_cpu(setting):
    cpus = set(sorted(os.sched_getaffinity(0))[:2])
    if len(cpus) < 2:
        pytest.skip("this process may run on one CPU only")
    # Intel's runtime has a thread less than CPUs, and the waiting thread works; PoCL's waits while others work.
    shared = "Intel" in torch.ocl.get_device_properties(device).platform_name
    of_worker, of_driver = cpus_of_worker(setting, cpus)
    placed = setting == "1" and shared and of_driver == 2 and torch.ocl.get_device_properties(device).kind == "cpu"
    assert of_worker == (1 if placed else 2)
