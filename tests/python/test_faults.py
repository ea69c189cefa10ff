"""Calls of OpenCL that fail: one clear error, no wrong result, nothing lost, and the device goes on working."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

from faults import fault_layer


# Launches that their thread runs need fewer calls.
@pytest.mark.parametrize("callers", ["0", "1"])
@pytest.mark.parametrize("work, stride, failures", [("Training", 5, 80), ("Copies", 1, 50), ("Graphs", 1, 30),
                                                    ("Profiled", 2, 20), ("Indices", 1, 20), ("Session", 1, 10),
                                                    ("Compiled", 1, 8)])
def test_each_call_fails_once(work, stride, failures, callers):
    layer = fault_layer()
    done = subprocess.run([sys.executable, Path(__file__).with_name("faulty_driver.py"), layer, work, str(stride)],
                          env={**os.environ, "OPENCL_LAYERS": layer, "CLPRIM_CALLER_THREAD": callers},
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > (failures // 2 if callers == "1" else failures)
