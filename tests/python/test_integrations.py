"""Frameworks train on ocl after `import torch_ocl.integrations`: their examples, each where the framework is there."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "integrations"
NEEDS = {"train_accelerate.py": ("accelerate",), "train_transformers.py": ("transformers", "accelerate"),
         "train_lightning.py": ("lightning",), "train_ultralytics.py": ("ultralytics",),
         "embed_sentences.py": ("sentence_transformers",), "train_ignite.py": ("ignite", "torchmetrics"),
         "train_ray.py": ("ray.train", "pydantic", "pandas"), "load_safetensors.py": ("safetensors",),
         "quantize_torchao.py": ("torchao",), "quantize_bitsandbytes.py": ("bitsandbytes",)}
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
ACCELERATE = ("-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
              "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0")


def run(*arguments, **environment):
    return subprocess.run([sys.executable, "-W", "ignore", *arguments], capture_output=True, text=True, timeout=900,
                          env={**os.environ, **environment})


def test_every_example_is_listed():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(NEEDS)


@pytest.mark.parametrize("script, arguments", [*((name, ()) for name in NEEDS), ("train_accelerate.py", ("bf16",)),
                                               ("train_accelerate.py", ("fp16",))])
def test_example(device, script, arguments):
    example((), script, *arguments)


@pytest.mark.parametrize("launcher, script, arguments", [
    (ACCELERATE, "train_accelerate.py", ()), (TORCHRUN, "train_transformers.py", ("train",)),
    (TORCHRUN, "train_ignite.py", ()), (TORCHRUN, "train_lightning.py", ("2",)), (TORCHRUN, "embed_sentences.py", ()),
    ((), "train_ultralytics.py", ("ocl:0,1",)), ((), "train_ray.py", ("2",))])
def test_two_processes(device, launcher, script, arguments):
    example(launcher, script, *arguments, CLPRIM_DEVICES="0:0,0:0", OMP_NUM_THREADS="1")


def example(launcher, script, *arguments, **environment):
    missing = [name for name in NEEDS[script] if not is_there(name)]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed")
    done = run(*launcher, str(EXAMPLES / script), *arguments, **environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "ocl" in done.stdout


def is_there(name):
    return importlib.util.find_spec(name.partition(".")[0]) is not None and importlib.util.find_spec(name) is not None


@pytest.fixture
def framework(tmp_path):
    """A folder with something that calls itself a framework."""
    (tmp_path / "ultralytics.py").write_text("import torch\n")
    return str(tmp_path)


def test_a_line_when_a_framework_will_use_the_cpu(device, framework):
    path = os.pathsep.join([framework, *filter(None, [os.environ.get("PYTHONPATH")])])
    code = "import torch, ultralytics, ultralytics; print('done')"
    told = run("-c", code, PYTHONPATH=path, CLPRIM_DEVICE_KIND="gpu")
    assert told.stdout == "done\n"
    assert told.stderr.count("ultralytics does not know the ocl device") == 1 and len(told.stderr.splitlines()) == 1
    # A framework that is imported first imports torch itself.
    told = run("-c", "import ultralytics, ultralytics; print('done')", PYTHONPATH=path, CLPRIM_DEVICE_KIND="gpu")
    assert told.stdout == "done\n" and len(told.stderr.splitlines()) == 1 and "ultralytics does not" in told.stderr
    assert run("-c", code, PYTHONPATH=path, CLPRIM_DEVICE_KIND="cpu").stderr == ""
    assert run("-c", code, PYTHONPATH=path, CLPRIM_DEVICE_KIND="gpu", TORCH_OCL_INTEGRATIONS="0").stderr == ""


def test_a_framework_that_an_adapter_does_not_know(device, framework):
    path = os.pathsep.join([framework, *filter(None, [os.environ.get("PYTHONPATH")])])
    for code, environment in (("import torch_ocl.integrations, ultralytics; print('done')", {}),
                              ("import ultralytics, torch_ocl.integrations; print('done')", {}),
                              ("import torch, ultralytics; print('done')", {"TORCH_OCL_INTEGRATIONS": "1"}),
                              ("import ultralytics; print('done')", {"TORCH_OCL_INTEGRATIONS": "1"})):
        done = run("-c", code, PYTHONPATH=path, **environment)
        assert done.stdout == "done\n", done.stderr
        assert "ultralytics could not be made to know the ocl device" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_lists_of_devices_grow():
    from torch_ocl.integrations import _view

    def choose(name):
        names = {"cuda": 1, "xpu": 2, "mps": 3}   # whose keys are no list
        return name in {"cuda", "xpu"} or any(name == other for other in ("npu", "xpu")) or names.get(name) == 3

    import types
    module = types.SimpleNamespace(choose=choose)
    assert not choose("ocl")
    _view.know_ocl(module, "choose", "cuda", "xpu")
    assert choose("ocl") and choose("cuda") and choose("mps") and not choose("cpu")
    with pytest.raises(LookupError, match="no list of devices with mps"):
        _view.know_ocl(module, "choose", "mps")
