"""Puts a device and its backend into PyTorch's tests of torch.distributed, in every process of a test: the one that
collects, the one of a case, and its ranks. Imported first by each of them (`renamed` puts the import into test files).

PYTORCH_SUITES_RANKS says "DEVICE BACKEND RANKS TIMEOUT FOLDER": ranks that find a device, seconds for a case, and a
folder where a file "used" appears when any process of a case opened the device or made a group of its backend.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import multiprocessing
import multiprocessing.util
import os
import re
import sys
import time
from pathlib import Path

INTERNAL = re.compile(r"torch\.testing\._internal\.(distributed($|\.)|common_(distributed|fsdp|dist_composable)$)")
# What stays CUDA's own: settings, versions and libraries.
OWN = r"(?<!backends\.)(?<!version\.)"

CYCLES_PER_SECOND = 1e9
# Helpers that older versions of PyTorch called otherwise.
FORMER = {"test_compiled_fsdp": "compiled_fsdp_test", "PipeliningShapeError": "PipeliningMetadataError",
          "MultiProcContinousTest": "MultiProcContinuousTest",
          "_get_sharding_prop_cache_info": "_get_python_sharding_prop_cache_info"}


def renamed(text: str, device: str, backend: str) -> str:
    """A source that names CUDA and NCCL by hand, naming this device and this backend."""
    text = re.sub(r"^(\s*)import torch\.cuda\.nccl\s*$", r"\1pass", text, flags=re.MULTILINE)
    text = re.sub(rf"{OWN}(?<![a-zA-Z_])cuda(?![a-zA-Z]|\.nccl)", device, text)
    text = re.sub(r"\bis_cuda\b", f"is_{device}", text)
    text = re.sub(r"(?<=[\"':,])nccl(?=[\"',])", backend, text)
    text = re.sub(r"(?<=Backend\.)NCCL\b", backend.upper(), text)
    return re.sub(r"(?<=BackendType\.)NCCL\b", "GLOO" if backend == "gloo" else "CUSTOM", text)


def test_source(text: str, device: str, backend: str, name: str = "") -> str:
    """A test file for `device`, which adapts PyTorch first wherever it is imported."""
    text = renamed(text.replace("super(self.__class__, self)", "super()"), device, backend)
    text = re.sub(rf"\b({'|'.join(FORMER)})\b", lambda match: FORMER[match[0]], text)
    if "gloo" in name and backend != "gloo":       # what tests Gloo tests any backend
        text = re.sub(r"(?<=[\"'])gloo(?=[\"'])", backend, text)
        text = text.replace("c10d.ProcessGroupGloo(", "rank_device.process_group(")
        text = text.replace("dist.barrier(group=pg)", "pg.barrier().wait()")    # PyTorch's takes Gloo's alone
        text = re.sub(r"\bbackend\.create_device\(.*\)$", "pass", text, flags=re.MULTILINE)
    future = [match.end() for match in re.finditer(r"^from __future__ import .*\n", text, re.MULTILINE)]
    place = future[-1] if future else 0
    return f"{text[:place]}import rank_device  # noqa\n{text[place:]}"


class Renaming(importlib.abc.MetaPathFinder):
    """Loads PyTorch's helpers of distributed tests with the device's name in place of CUDA's."""

    def __init__(self, device, backend):
        self.device, self.backend = device, backend

    def find_spec(self, name, path, target=None):
        if not INTERNAL.match(name):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = RenamedLoader(spec.loader.name, spec.loader.path, self)
        return spec


class RenamedLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, name, path, renaming):
        super().__init__(name, path)
        self.renaming = renaming

    def get_code(self, fullname):       # never from a cache
        text = renamed(Path(self.path).read_text(), self.renaming.device, self.renaming.backend)
        return compile(text, self.path, "exec", dont_inherit=True)


def process_group(store, rank, size, options):
    """The backend's group alone, as tests of Gloo make one; tensors are made on its device."""
    import torch
    from torch_ocl import _distributed

    torch.set_default_device(f"ocl:{rank}")
    return _distributed.process_group_class()(store, rank, size, options._timeout, _distributed._engine)


def count_devices_without_drivers(torch, count):
    """Forked ranks can only open drivers that nobody before them opened, and counting devices opens them."""
    for module in (torch.ocl, torch.accelerator):
        module.device_count = lambda: count
        module.is_available = lambda: True


def adapt_helpers(torch, device, seconds):
    """What tests import from PyTorch's helpers: conditions and processes."""
    import torch.testing._internal.common_cuda as common_cuda
    import torch.testing._internal.common_distributed as common_distributed
    import torch.testing._internal.common_utils as common_utils
    import torch.testing._internal.distributed.multi_threaded_pg as multi_threaded_pg

    def unconditional(*arguments, **named):
        return lambda function: function

    torch.distributed.is_nccl_available = lambda: True
    scaler = torch.amp.GradScaler.__init__
    scaler.__defaults__ = (device, *scaler.__defaults__[1:])
    for name in ("requires_nccl", "requires_nccl_version", "requires_accelerator_dist_backend", "requires_gloo"):
        setattr(common_distributed, name, unconditional)
    # Delays, for overlap and races: of the host, where CUDA has a kernel that waits.
    torch.ocl._sleep = torch.cpu._sleep = lambda cycles: time.sleep(cycles / CYCLES_PER_SECOND)
    common_utils.get_cycles_per_ms = lambda: CYCLES_PER_SECOND / 1000
    fork_workers(torch, common_distributed.MultiProcContinuousTest, device)
    common_distributed.TIMEOUT_OVERRIDE = {}
    common_distributed.TIMEOUT_DEFAULT = seconds
    common_cuda.TEST_MULTIGPU = torch.accelerator.device_count() > 1
    spawn = common_distributed.MultiProcessTestCase._spawn_processes

    def start(self):
        if torch.ocl.is_initialized():
            return spawn(self)
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    common_distributed.MultiProcessTestCase._spawn_processes = start
    threads = common_distributed.MultiThreadedTestCase._spawn_threads

    def start_threads(self):
        if device == "ocl":
            torch.ocl.init()        # else the mesh of each thread would choose a device of its own
        threads(self)

    common_distributed.MultiThreadedTestCase._spawn_threads = start_threads
    join = multi_threaded_pg.Collective.join

    def synchronized_join(self, rank, data):
        if device == "ocl":
            torch.ocl.synchronize()     # the thread that computes for all knows nothing of the others' streams
        return join(self, rank, data)

    multi_threaded_pg.Collective.join = synchronized_join


def fork_workers(torch, cases, device):
    """Workers that serve all cases of a class are forked, as every other process here: each that is spawned imports
    PyTorch and the file again, for longer than a case may take. What the class has prepared before is for no rank."""
    loop, spawn = cases._worker_loop.__func__, cases._spawn_processes.__func__

    def serve(cls, rank, *arguments):
        cls.device = torch.device(device, rank)
        return loop(cls, rank, *arguments)

    def start(cls, world_size):
        torch.multiprocessing.set_start_method("spawn" if torch.ocl.is_initialized() else "fork", force=True)
        return spawn(cls, world_size)

    cases.device = property(lambda self: torch.device(device, self.rank))
    cases._worker_loop, cases._spawn_processes = classmethod(serve), classmethod(start)


def mark_use(torch, folder):
    from torch_ocl._distributed import process_group_class

    if torch.ocl.is_initialized() or process_group_class.cache_info().currsize:
        (Path(folder) / "used").touch()


def watch_use(torch, folder):
    """Each process of a case says at its end whether it opened the device."""
    def at_end(_=None):
        multiprocessing.util.Finalize(None, mark_use, (torch, folder), exitpriority=100)

    multiprocessing.util.register_after_fork(sys.modules[__name__], at_end)
    if multiprocessing.parent_process() is not None:
        at_end()


def adapt():
    device, backend, ranks, seconds, folder = os.environ["PYTORCH_SUITES_RANKS"].split(" ", 4)
    sys.meta_path.insert(0, Renaming(device, backend))

    import torch

    if device == "ocl":
        count_devices_without_drivers(torch, int(ranks))    # before PyTorch's helpers count them
        watch_use(torch, folder)
    else:
        torch.cpu.device_count = lambda: int(ranks)
        torch.accelerator.device_count = lambda: 64     # there is no end of them
        torch._C._get_accelerator = lambda check_available=False: torch.device("cpu")
        torch.accelerator.current_accelerator = lambda check_available=False: torch.device("cpu")
        torch.accelerator.set_device_index = lambda device: None

    import torch.testing._internal.common_cuda as common_cuda
    import torch.testing._internal.common_utils as common_utils

    common_utils.TEST_CUDA = common_cuda.TEST_CUDA = True
    adapt_helpers(torch, device, int(seconds))


if "PYTORCH_SUITES_RANKS" in os.environ:
    adapt()
