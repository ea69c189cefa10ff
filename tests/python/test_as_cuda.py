"""Scripts written for cuda run on ocl unchanged, in processes of their own: as_cuda changes PyTorch's for good."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).with_name("cuda_script.py")


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=900)


def test_a_training_script_runs_unchanged(device):
    done = run("-m", "torch_ocl", "run", str(SCRIPT), "--epochs", "3")
    assert done.returncode == 0, done.stderr
    assert "loss" in done.stdout.splitlines()[-1]


def test_devices_and_refusals(device):
    """Several small scripts in one process, since each start of Python costs seconds."""
    code = '''
import pickle
import torch
import torch_ocl.as_cuda
assert torch.device("cuda", 0) == torch.device("ocl", 0) and torch.device("cuda").type == "ocl"
assert torch.device(type="cuda", index=0).index == 0 and torch.device("cpu").type == "cpu"
assert pickle.loads(pickle.dumps(torch.device("cuda:0"))) == torch.device("ocl:0")
with torch.device("cuda"):
    assert torch.ones(2).is_cuda
assert torch.nn.Linear(2, 2).to("cuda").weight.is_cuda and torch.ones(2).to(device="cuda").is_cuda
assert torch.ones(2).cuda(0).is_cuda and not torch.ones(2).is_cuda
assert torch.ones(2).cuda("cuda:0").new_zeros(3, device="cuda:0").is_cuda
torch.set_default_device("cuda")
assert torch.rand(2).is_cuda
torch.set_default_device(None)
assert torch.cuda.is_bf16_supported() and torch.cuda.get_device_capability() < (5, 0)
for name in ("cudart", "nccl", "current_blas_handle"):
    try:
        getattr(torch.cuda, name)()
    except NotImplementedError as error:
        assert name in str(error)
    else:
        raise AssertionError(name)
class Twice(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx, x):
        assert not torch.is_autocast_enabled("cuda")
        return x * 2
    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        return grad * 2
x = torch.ones(3, device="cuda", requires_grad=True)
with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
    assert torch.is_autocast_enabled() and torch.get_autocast_gpu_dtype() == torch.bfloat16
    y = Twice.apply(x.half())
y.sum().backward()
assert x.grad.tolist() == [2.0] * 3
with torch.random.fork_rng(devices=[0]):
    a = torch.rand(3, device="cuda")
assert torch.equal(a, torch.rand(3, device="cuda"))
from torch.utils.checkpoint import checkpoint
checkpoint(lambda t: (t * 2).sum(), x, use_reentrant=False).backward()
print("fine")
'''
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("fine")


def test_files_saved_on_cuda(device, tmp_path):
    """Such a file names the place of each storage "cuda:0"."""
    path = tmp_path / "saved_on_cuda.pt"
    tag = torch.serialization.location_tag
    torch.serialization.location_tag = lambda storage: "cuda:0"
    try:
        torch.save({"weight": torch.arange(4.0)}, path)
    finally:
        torch.serialization.location_tag = tag
    code = (f"import torch, torch_ocl.as_cuda; weight = torch.load({str(path)!r})['weight']; "
            "print(weight.device, weight.tolist())")
    done = run("-c", code)
    assert done.stdout.split() == ["ocl:0", "[0.0,", "1.0,", "2.0,", "3.0]"], done.stderr


def test_a_module_and_its_arguments(device, tmp_path):
    (tmp_path / "prints.py").write_text("import sys, torch\nprint(sys.argv[1:], torch.cuda.is_available(), __name__)")
    done = subprocess.run([sys.executable, "-m", "torch_ocl", "run", "-m", "prints", "--one", "2"], cwd=tmp_path,
                          capture_output=True, text=True, timeout=900)
    assert done.stdout.strip() == "['--one', '2'] True __main__", done.stderr


def test_without_a_device(device):
    done = subprocess.run([sys.executable, "-c", "import torch_ocl.as_cuda"], capture_output=True, text=True,
                          timeout=900, env={**__import__("os").environ, "CLPRIM_DEVICES": "no such device"})
    assert done.returncode != 0 and "there is no ocl device to stand for cuda" in done.stderr
