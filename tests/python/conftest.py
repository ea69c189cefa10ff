"""What every Python test shares.

Tests run with the fallback policy `error`: an operator that has no kernel fails its test instead of quietly running on
the CPU. A test about falling back says so with @pytest.mark.allow_fallback. Memory is poisoned (CLPRIM_POISON), so that
no kernel counts on fresh memory.
"""
import os
import zlib
from pathlib import Path

os.environ.setdefault("CLPRIM_POISON", "1")
os.environ.setdefault("CLPRIM_PROGRESS", "0")   # some tests read what a process says
if "PYTEST_XDIST_WORKER" in os.environ:   # processes side by side (tools/test.sh) would only wait for each other's threads
    processes = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // processes)))

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

import comparison  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--sample", type=int, default=1, metavar="N", help="run one test of N, the same ones each time")


def pytest_configure(config):
    config.addinivalue_line("markers", "allow_fallback: operators may run on the CPU in this test")
    config.addinivalue_line("markers", "tool: about a tool, whatever the driver: in no sample")
    config.addinivalue_line("markers", "long: begins before the others, which fill the time of processes beside it")
    if not hasattr(torch, "ocl") or not torch.ocl.is_available():
        raise pytest.UsageError("no OpenCL device: `python -m torch_ocl doctor` says what is missing")
    if "OCLGRIND_LOG" in os.environ:
        torch.autograd.set_multithreading_enabled(False)   # the simulator serves one thread


def pytest_report_header():
    properties = torch.ocl.get_device_properties(comparison.device)
    return f"{comparison.device}: {properties.name} [{properties.platform_name}, {properties.driver_version}], torch {torch.__version__}"


def pytest_collection_modifyitems(config, items):
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    every = config.getoption("--sample")
    if every > 1:
        # By name, so that a new test does not change which others are run.
        chosen = [zlib.crc32(item.nodeid.encode()) % every == 0 and item.get_closest_marker("tool") is None
                  for item in items]
        config.hook.pytest_deselected(items=[item for item, taken in zip(items, chosen) if not taken])
        items[:] = [item for item, taken in zip(items, chosen) if taken]


@pytest.fixture(scope="session")
def device():
    return torch.device(comparison.device)


@pytest.fixture(autouse=True)
def same_numbers_every_run(request):
    """In whatever order and process tests run; RNG is a test module's generator of NumPy."""
    torch.manual_seed(0)
    if generator := getattr(request.module, "RNG", None):
        generator.bit_generator.state = np.random.default_rng(0).bit_generator.state


@pytest.fixture(autouse=True)
def no_findings():
    """Under tools/oclgrind.sh what the simulator has found fails the test that it was found in."""
    log = os.environ.get("OCLGRIND_LOG")
    known = os.path.getsize(log) if log and os.path.exists(log) else 0
    yield
    if log:
        torch.ocl.synchronize()
        found = Path(log).read_text()[known:] if os.path.exists(log) else ""
        assert not found, found[:3000]


@pytest.fixture(autouse=True)
def no_silent_fallback(request):
    allowed = request.node.get_closest_marker("allow_fallback")
    before = torch.ocl.fallback_policy()
    torch.ocl.set_fallback_policy("allow" if allowed else "error")
    yield
    torch.ocl.set_fallback_policy(before)
