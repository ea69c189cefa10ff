"""tools/pytorch_suites on a file with a case of every outcome."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("expecttest")
pytestmark = pytest.mark.tool
TOOL = Path(__file__).resolve().parents[2] / "tools" / "pytorch_suites"

CASES = '''
import ctypes
import time

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, onlyCPU, onlyCUDA
from torch.testing._internal.common_utils import TestCase


class TestThings(TestCase):
    def test_passes(self, device):
        self.assertEqual((torch.ones(3, device=device) * 2).sum().item(), 6)

    def test_fails_here_alone(self, device):
        self.assertEqual(torch.device(device).type, "cpu")

    def test_fails_everywhere(self, device):
        self.fail("always")

    def test_crashes(self, device):
        if torch.device(device).type != "cpu":
            ctypes.string_at(0)

    def test_hangs(self, device):
        if torch.device(device).type != "cpu":
            time.sleep(1000)

    @onlyCUDA
    def test_is_put_on_the_device(self, device):
        self.assertNotIn("cuda", str(device))

    @onlyCPU
    def test_stays_on_the_cpu(self, device):
        self.assertIn("cpu", str(device))


instantiate_device_type_tests(TestThings, globals(), only_for=("cuda", "cpu"))
'''

BY_HAND = '''
import torch
from torch.testing._internal.common_utils import TestCase


class TestByHand(TestCase):
    def test_names_its_device(self):
        self.assertEqual(torch.ones(2, device="xpu:0").device.type, "ocl")
'''

RANKS = '''
from __future__ import annotations

import ctypes
import unittest

import torch
import torch.distributed as dist
from torch.testing._internal.common_cuda import TEST_CUDA
from torch.testing._internal.common_distributed import MultiProcessTestCase, requires_nccl, skip_if_lt_x_gpu

from neighbour import BACKEND


@requires_nccl()
@unittest.skipIf(not TEST_CUDA, "no CUDA")
class TestRanks(MultiProcessTestCase):
    world_size = 2

    def setUp(self):
        super().setUp()
        self._spawn_processes()

    @skip_if_lt_x_gpu(2)
    def test_adds(self):
        dist.init_process_group(BACKEND, f"file://{self.file_name}", rank=self.rank, world_size=2)
        tensor = torch.ones(3, device=f"cuda:{self.rank}")
        dist.all_reduce(tensor)
        self.assertEqual(tensor, torch.full((3,), 2.0, device=tensor.device))

    def test_fails_on_one_rank(self):
        device = torch.empty(0, device="cuda").device
        self.assertTrue(self.rank == 0 or device.type == "cpu", "expected words")

    def test_crashes(self):
        if torch.empty(0, device="cuda").device.type != "cpu":
            ctypes.string_at(0)

    @skip_if_lt_x_gpu(3)
    def test_needs_three(self):
        pass

    def test_of_the_host(self):
        pass
'''


def run(*arguments):
    environment = {name: value for name, value in os.environ.items() if name != "CLPRIM_POISON"}
    done = subprocess.run([sys.executable, TOOL, *map(str, arguments)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def outcomes(report):
    return {outcome["case"].split("::")[1]: outcome["kind"] for file in json.loads(report.read_text())
            for outcome in file["outcomes"]}


@pytest.mark.long
def test_every_outcome(tmp_path):
    (tmp_path / "test_things.py").write_text(CASES)
    report, table = tmp_path / "report.json", tmp_path / "table.md"
    arguments = (tmp_path / "test_things.py", "--timeout", 15, "--results", tmp_path / "results.jsonl", "--json",
                 report)
    run(*arguments, "--markdown", table)
    assert outcomes(report) == {
        "test_passes_DEVICE": "passed", "test_fails_here_alone_DEVICE": "failed",
        "test_fails_everywhere_DEVICE": "other",
        "test_crashes_DEVICE": "crashed", "test_hangs_DEVICE": "hung", "test_is_put_on_the_device_DEVICE": "passed",
        "test_stays_on_the_cpu_DEVICE": "other"}
    assert "| test_things.py | 7 | 7 | 2 | 1 | 1 | 1 | 2 | 40.0 % |" in table.read_text()
    size = (tmp_path / "results.jsonl").stat().st_size
    run(*arguments)     # nothing is run again
    assert (tmp_path / "results.jsonl").stat().st_size == size


def test_devices_named_by_hand(tmp_path):
    (tmp_path / "test_by_hand.py").write_text(BY_HAND)
    run(tmp_path, "--rename", "xpu", "--results", tmp_path / "results.jsonl", "--json", tmp_path / "report.json")
    assert outcomes(tmp_path / "report.json") == {"test_names_its_device": "passed"}


@pytest.mark.long
@pytest.mark.skipif(not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
                    reason="PyTorch has no Gloo")
def test_ranks(tmp_path):
    folder = tmp_path / "distributed"
    folder.mkdir()
    (folder / "neighbour.py").write_text('BACKEND = "cpu:gloo,cuda:nccl"\n')
    (folder / "test_ranks.py").write_text(RANKS)
    run(folder / "test_ranks.py", "--ranks", 2, "--timeout", 300, "--results", tmp_path / "results.jsonl",
        "--json", tmp_path / "report.json")
    assert outcomes(tmp_path / "report.json") == {
        "test_adds": "passed", "test_fails_on_one_rank": "failed", "test_crashes": "crashed",
        "test_needs_three": "other",
        "test_of_the_host": "other"}
    assert "expected words" in (tmp_path / "report.json").read_text()
