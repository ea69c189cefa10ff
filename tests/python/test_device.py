"""The device as PyTorch's generic code sees it: discovery, properties, current device, generated methods."""

import ast
import copy
import os
import subprocess
import sys
import threading

import pytest
import torch

from comparison import device


def run(code, **environment):
    """Runs code in a fresh interpreter; returns (exit code, output)."""
    env = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout + done.stderr


def test_import_torch_is_enough_and_opens_no_driver():
    code = """
import torch
assert not torch.ocl.is_initialized()
assert not any("intelocl" in line or "pocl" in line for line in open("/proc/self/maps"))
torch.manual_seed(0)
assert not torch.ocl.is_initialized()
x = torch.ones(3, device="ocl")
assert torch.ocl.is_initialized() and x.device == torch.device("ocl:0") and x.sum().item() == 3
"""
    status, output = run(code, TORCH_OCL_FALLBACK="allow")
    assert status == 0, output


def test_intel_runtime_of_the_wheel_is_found_without_settings():
    env = {k: v for k, v in os.environ.items() if k not in ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "CLPRIM_DEVICES")}
    code = "import torch; print([torch.ocl.get_device_properties(i).platform_name for i in range(torch.ocl.device_count())])"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=600)
    if not any((p / "libintelocl.so").exists() for p in _wheel_folders()):
        pytest.skip("intel-opencl-rt is not installed")
    assert "Intel" in done.stdout, done.stdout + done.stderr


def _wheel_folders():
    from pathlib import Path

    return [Path(sys.prefix) / "lib"]


@pytest.mark.parametrize("name, value, said", [
    ("CLPRIM_DEVICES", "no such device", "CLPRIM_DEVICES='no such device' leaves out every OpenCL device; there are "),
    ("OCL_ICD_VENDORS", "/nonexistent", "OCL_ICD_VENDORS='/nonexistent' hides the system's drivers: unset it")])
def test_without_a_device_torch_imports_and_use_says_what_helps(name, value, said):
    code = f"""
import torch
said = {said!r}
assert not torch.ocl.is_available() and torch.ocl.device_count() == 0
assert said in torch.ocl.unavailable_reason(), torch.ocl.unavailable_reason()
assert torch.ocl.memory_allocated() == 0 or True
torch.manual_seed(1)
assert torch.ones(2).sum() == 2
for use in (lambda: torch.ones(1, device="ocl"), lambda: torch.ones(1).to("ocl"), torch.ocl.current_device, torch.ocl.init):
    try:
        use()
    except RuntimeError as error:
        assert said in str(error), error
    else:
        raise AssertionError("no error")
"""
    env = {k: v for k, v in os.environ.items() if k not in ("OCL_ICD_FILENAMES", "CLPRIM_DEVICES")} | {name: value}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=600)
    status, output = done.returncode, done.stdout + done.stderr
    assert status == 0, output


def test_unsupported_torch_is_a_reason_not_a_failure():
    code = """
import torch_ocl
torch_ocl.FIRST_UNSUPPORTED_TORCH = (2, 0)
import torch_ocl._loader as loader
loader.FIRST_UNSUPPORTED_TORCH = (2, 0)
import torch
print(loader._unsupported_version("2.10.1"), loader._unsupported_version("2.16.0a0"))
"""
    status, output = run(code)
    assert status == 0, output
    from torch_ocl import _loader

    assert _loader._unsupported_version("2.11.0") is None
    assert _loader._unsupported_version("2.14.1+cu130") is None
    assert "2.10.1" in _loader._unsupported_version("2.10.1")
    assert _loader._unsupported_version("2.16.0a0") is not None


def test_a_build_for_another_torch_says_which_fits():
    from torch_ocl import _built_for, _loader

    assert _loader.built_for() == _built_for.TORCH
    assert _loader.built_for_another(torch.__version__, _built_for.TORCH) is None
    assert _loader.built_for_another("2.14.0", "2.14.1+cu130") is None
    assert _loader.built_for_another("2.14.0", None) is None
    said = _loader.built_for_another("2.13.1+cpu", "2.14.0")
    assert "built for PyTorch 2.14" in said and "here is PyTorch 2.13.1+cpu" in said
    assert "pip install 'torch>=2.14,<2.15'" in said and "make setup" in said

    # Another PyTorch loads nothing of the C++ part, and importing it goes well.
    code = """
import sys, types
sys.modules["torch_ocl._built_for"] = types.SimpleNamespace(TORCH="2.1.0")
import torch
print(torch.ocl.is_available(), torch.ocl.unavailable_reason())
"""
    status, output = run(code)
    assert status == 0 and "False this torch_ocl was built for PyTorch 2.1," in output, output


def test_count_name_properties_capability():
    assert torch.ocl.is_available() and torch.ocl.unavailable_reason() is None
    count = torch.ocl.device_count()
    assert count >= 1 and torch.accelerator.device_count() == count
    properties = torch.ocl.get_device_properties(device)
    assert properties.name == torch.ocl.get_device_name(0) and properties.name in repr(properties)
    assert properties.total_memory > 0 and properties.compute_units >= 1 and properties.kind in ("cpu", "gpu")
    assert torch.ocl.get_device_capability() == properties.opencl_version >= (1, 2)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ocl.get_device_properties(count)
    with pytest.raises(ValueError, match="Expected an ocl device"):
        torch.ocl.get_device_name("cpu")


def test_accelerator_api():
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator().type == "ocl"
    assert torch.accelerator.current_device_index() == 0
    torch.accelerator.synchronize()
    torch.accelerator.set_device_index(0)
    stream = torch.accelerator.current_stream()
    torch.accelerator.set_stream(stream)
    assert torch.accelerator.memory.memory_allocated() == torch.ocl.memory_allocated()
    if hasattr(torch.accelerator, "get_device_capability"):
        dtypes = torch.accelerator.get_device_capability(0)["supported_dtypes"]
        assert torch.float32 in dtypes and torch.int64 in dtypes


def test_the_accelerator_is_pytorchs_own_until_this_device_is_used():
    code = """
import torch, torch_ocl._C as C
assert C.leave_accelerator_to_pytorch_until_used()
asked = torch._C._accelerator_getAccelerator
try:
    before = asked().type
except RuntimeError:
    before = None                       # a PyTorch without a device of its own
assert before != "ocl", before
for device in ("cpu", "ocl", "cpu"):
    x = torch.arange(4.0, device=device, requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [0, 2, 4, 6], (device, x.grad)
assert asked().type == "ocl"
"""
    run(code)


@pytest.mark.parametrize("cuda, variables, files, there", [
    ("13.0", {}, {"/dev/nvidiactl"}, True), ("13.0", {}, set(), False),
    ("13.0", {"CUDA_VISIBLE_DEVICES": ""}, {"/dev/nvidiactl"}, False), (None, {}, {"/dev/nvidiactl"}, False)])
def test_a_device_of_pytorchs_own_is_seen_without_being_asked(monkeypatch, cuda, variables, files, there):
    from types import SimpleNamespace

    from torch_ocl import _loader

    system = SimpleNamespace(environ=variables, path=SimpleNamespace(exists=files.__contains__))
    monkeypatch.setattr(_loader, "os", system)
    version = SimpleNamespace(cuda=cuda, hip=None)
    assert _loader._has_own_device(SimpleNamespace(version=version)) is there


def test_invalid_device_index():
    for use in (lambda: torch.empty(1, device=f"ocl:{torch.ocl.device_count()}"), lambda: torch.ocl.set_device(63)):
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            use()


@pytest.mark.skipif("CLPRIM_DEVICES" in os.environ or "CLPRIM_DEVICE_KIND" in os.environ, reason="devices were chosen")
def test_the_processor_counts_once_and_not_beside_gpus():
    code = """
import torch
kinds = [torch.ocl.get_device_properties(i) for i in range(torch.ocl.device_count())]
print([(p.id, p.kind, p.platform_name) for p in kinds])
"""
    every = ast.literal_eval(run(code, CLPRIM_DEVICES="all")[1].splitlines()[-1])
    listed = ast.literal_eval(run(code)[1].splitlines()[-1])
    assert set(listed) <= set(every) and len(listed) == torch.ocl.device_count()
    if all(kind == "cpu" for _, kind, _ in every):
        assert len({platform for _, _, platform in listed}) == 1, listed
    else:
        assert all(kind == "gpu" for _, kind, _ in listed), listed
    for identity, _, platform in every:      # the others are there for the asking
        assert ast.literal_eval(run(code, CLPRIM_DEVICES=identity)[1].splitlines()[-1])[0][2] == platform


def test_current_device_is_per_thread():
    seen = []
    with torch.ocl.device(0):
        thread = threading.Thread(target=lambda: seen.append(torch.ocl.current_device()))
        thread.start()
        thread.join()
    assert seen == [0]


def test_generated_methods():
    x = torch.ones(2, 3)
    y = x.ocl()
    assert y.is_ocl and not x.is_ocl and y.device.type == "ocl"
    assert y.untyped_storage().is_ocl
    module = torch.nn.Linear(3, 2).ocl()
    assert all(p.is_ocl for p in module.parameters())
    module.cpu()
    assert not any(p.is_ocl for p in module.parameters())


def test_module_to_keeps_tied_weights():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(3, 3, bias=False)
            self.b = torch.nn.Linear(3, 3, bias=False)
            self.b.weight = self.a.weight

    model = Tied().to(device)
    assert model.a.weight is model.b.weight and model.a.weight.is_ocl
    assert len(list(model.parameters())) == 1
    clone = copy.deepcopy(model)
    assert clone.a.weight is clone.b.weight and clone.a.weight.data_ptr() != model.a.weight.data_ptr()


def test_printing():
    x = torch.tensor([[1.0, 2.5], [float("nan"), -1e6]], device=device)
    assert "device='ocl:0'" in repr(x) and "nan" in repr(x)
    for dtype in (torch.float16, torch.bfloat16, torch.int8, torch.int64, torch.bool, torch.complex64):
        assert "ocl:0" in repr(torch.ones(3, dtype=dtype).to(device))
    assert "size=(0, 3)" in repr(torch.empty(0, 3, device=device))


def test_default_device_and_factories():
    with torch.device("ocl"):
        x = torch.empty(3)
        assert x.is_ocl and torch.zeros(2, 2).is_ocl
    y = torch.empty_like(x, device="cpu")
    assert not y.is_ocl
    assert torch.empty(2, 3, 4, 5, device=device, memory_format=torch.channels_last).stride() == (60, 1, 15, 3)
    assert torch.empty_strided((2, 3), (1, 2), device=device).stride() == (1, 2)
    assert torch.tensor(3, device=device).item() == 3
    assert torch.scalar_tensor(2.5, device=device).item() == 2.5
    with pytest.raises(RuntimeError, match="negative dimension"):
        torch.empty(-1, device=device)
    with pytest.raises((RuntimeError, NotImplementedError), match="pinned|strided"):
        torch.empty(2, device=device, pin_memory=True)


def test_threads_and_autograd_threads():
    results = [None] * 4

    def work(i):
        x = torch.full((64,), float(i), device=device, requires_grad=True)
        y = (x * x).sum()
        y.backward()
        results[i] = x.grad.cpu()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, grad in enumerate(results):
        torch.testing.assert_close(grad, torch.full((64,), 2.0 * i))


def test_backward_passes_run_on_the_calling_thread(device):
    """With one device; unless the thread is told otherwise after it has first used the device."""
    x, seen = torch.ones(2, device=device, requires_grad=True), []
    x.register_hook(lambda grad: seen.append(threading.get_ident()))
    alone = torch.ocl.device_count() == 1
    x.exp().sum().backward()
    with torch.autograd.set_multithreading_enabled(True):
        x.exp().sum().backward()
    x.exp().sum().backward()
    here = threading.get_ident()
    assert [thread == here for thread in seen] == [alone, False, alone]


def test_a_process_may_end_while_the_device_thread_lets_go_of_a_backward_pass():
    """A pass owns the context of its caller, here the last that does; without the GIL nobody may let go of it."""
    code = """
import contextvars, time, torch

class Slow:
    def __del__(self):
        time.sleep(0.5)

value = contextvars.ContextVar("value")

def backward():
    value.set(Slow())
    torch.ones(4, device="ocl", requires_grad=True).sum().backward()

contextvars.copy_context().run(backward)
"""
    assert run(code) == (0, "")


@pytest.mark.parametrize("name, value", [("CLPRIM_IMPLEMENTATION", "nonsense"), ("CLPRIM_TUNE_SECONDS", "soon")])
def test_a_wrong_variable_of_choices_is_an_error(name, value):
    code = "import torch; x = torch.ones(8, 8, device='ocl'); x @ x"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {name: value}, capture_output=True, text=True)
    assert done.returncode == 1 and f"RuntimeError: {name}: expected" in done.stderr, done.stderr
