"""Two devices in one process: of one driver in one context, in two contexts, halves of a device, of two drivers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent
ID = torch.ocl.get_device_properties(0).id
PAIRS = {
    "listed twice": {"CLPRIM_DEVICES": f"{ID},{ID}"},
    "two contexts": {"CLPRIM_DEVICES": f"{ID},{ID}", "CLPRIM_SHARED_CONTEXTS": "0"},
    "two halves": {"CLPRIM_DEVICES": f"{ID}/2", "CLPRIM_SHARED_CONTEXTS": "1"},
    "two drivers": {"CLPRIM_DEVICES": "Intel,Portable Computing Language"},
}


def run(arguments, environment):
    return subprocess.run([sys.executable, *map(str, arguments)], env={**os.environ, **environment}, timeout=600,
                          capture_output=True, text=True, cwd=HERE)


@pytest.mark.parametrize("pair", PAIRS)
def test_two_devices(pair):
    # A second driver has every program to compile: the checks that need many are left to the other pairs.
    chosen = "not autocast and not refuse and not converts" if pair == "two drivers" else ""
    files = ["two_devices.py", "test_clprim_package.py::test_a_model_serves_sessions_on_every_device"]
    done = run(["-m", "pytest", "-q", "-p", "no:cacheprovider", *files, "-k", chosen], PAIRS[pair])
    if done.returncode == 5:
        pytest.skip("this machine has no such pair of devices")
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]


EXIT = """
import torch
x = torch.ones(1000, 1000, device="ocl:0")
y = torch.ones(1000, 1000, device="ocl:1")
for _ in range(20):
    x = x @ x * 1e-3
    y.copy_(x)
    x.copy_(y @ y * 1e-3)
a, b = torch.ocl.Stream("ocl:0"), torch.ocl.Stream("ocl:1")
a.wait_stream(torch.ocl.current_stream("ocl:1"))
b.wait_stream(a)
"""


@pytest.mark.parametrize("pair", ["two contexts", "two drivers"])
def test_a_process_ends_with_work_under_way_between_devices(pair):
    done = run(["-c", "import sys, torch\nif torch.ocl.device_count() < 2: sys.exit(5)" + EXIT], PAIRS[pair])
    if done.returncode == 5:
        pytest.skip("this machine has no such pair of devices")
    assert done.returncode == 0, done.stdout + done.stderr


def test_parts_that_a_device_does_not_have():
    code = "import torch; print(torch.ocl.device_count())"
    done = run(["-c", code], {"CLPRIM_DEVICES": f"{ID}/0,{ID}/x,{ID}/100000,{ID}/"})
    assert done.stdout.strip() == "0", done.stdout + done.stderr
