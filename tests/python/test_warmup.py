"""Programs built ahead of their first use (python -m torch_ocl warmup), and what is said while they are built."""

import os
import subprocess
import sys

import pytest

CODE = """
import torch, torchvision
model = torchvision.models.squeezenet1_1().to("ocl:0").eval()
with torch.no_grad():
    model(torch.randn(1, 3, 64, 64).to("ocl:0")).cpu()
print(torch.ocl.program_builds())
"""


def run(arguments, **environment):
    done = subprocess.run([sys.executable, *arguments], env={**os.environ, **environment}, capture_output=True,
                          text=True,
                          timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_what_warmup_built_is_not_built_again(tmp_path):
    pytest.importorskip("torchvision")
    environment = {"CLPRIM_CACHE_DIR": str(tmp_path), "CLPRIM_POISON": "0"}   # which takes a program of its own
    run(["-m", "torch_ocl", "warmup", "squeezenet1_1", "--batch", "1", "--size", "64", "--processes", "2"],
        **environment)
    assert list(tmp_path.glob("*.bin"))
    done = run(["-c", CODE], CLPRIM_PROGRESS="1", **environment)
    assert done.stdout.split()[-1] == "0" and "compiling kernels" not in done.stderr


def test_warmup_names_what_it_does_not_know():
    done = subprocess.run([sys.executable, "-m", "torch_ocl", "warmup", "resnet17"], capture_output=True, text=True,
                          timeout=600)
    assert done.returncode == 2 and "resnet17" in done.stderr
