"""torch.set_float32_matmul_precision and the flags of torch.backends: how many bits products of float32 take where a
matrix engine multiplies bfloat16. The engine is an emulated one, in a process whose device is a GPU."""

import json
import os
import subprocess
import sys

import pytest
import torch

PROGRAM = """
import json, os, torch
torch.manual_seed(0)
a, b, bias = torch.randn(70, 200), torch.randn(200, 65), torch.randn(65)
exact = a.double() @ b.double()
magnitude = a.double().abs() @ b.double().abs()
def error(product):
    return ((product.cpu().double() - exact).abs() / magnitude).max().item()
def measured():
    x, y = a.to("ocl"), b.to("ocl")
    return [error(x @ y), error(torch.addmm(bias.to("ocl"), x, y) - bias.to("ocl")),
            error(torch.bmm(x[None], y[None])[0]), error(torch.nn.functional.linear(x, y.t().contiguous()))]
result = {}
for name in ("highest", "high", "medium"):
    torch.set_float32_matmul_precision(name)
    result[name] = measured()
torch.set_float32_matmul_precision("highest")
torch.backends.cuda.matmul.fp32_precision = "tf32"
result["cuda"] = measured()
torch.backends.cuda.matmul.fp32_precision = "ieee"
torch.backends.mkldnn.matmul.fp32_precision = "bf16"
result["mkldnn"] = measured()
torch.backends.mkldnn.matmul.fp32_precision = "ieee"
result["again"] = measured()
print(json.dumps(result))
"""


def measured(**environment):
    done = subprocess.run([sys.executable, "-c", PROGRAM], env={**os.environ, **environment}, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_an_engine_takes_as_many_bits_as_are_asked_for(device):
    result = measured(CLPRIM_DEVICE_KIND="gpu", CLPRIM_MATRIX_ENGINE="emulated_mma")
    for name in ("highest", "again"):
        assert max(result[name]) < 2**-21
    for name in ("high", "cuda"):       # docs/precision.md
        assert 2**-21 < min(result[name]) and max(result[name]) < 2**-16
    for name in ("medium", "mkldnn"):
        assert 2**-14 < min(result[name]) and max(result[name]) < 2**-8


@pytest.mark.parametrize("name", ["high", "medium"])
def test_without_an_engine_nothing_changes(device, name):
    if os.environ.get("CLPRIM_MATRIX_ENGINE"):
        pytest.skip("an engine is asked for")
    a, b = torch.randn(70, 80, device=device), torch.randn(80, 65, device=device)
    before = a @ b
    torch.set_float32_matmul_precision(name)
    try:
        assert torch.equal(a @ b, before)
    finally:
        torch.set_float32_matmul_precision("highest")
