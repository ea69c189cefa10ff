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
         "load_safetensors.py": ("safetensors",), "quantize_torchao.py": ("torchao",)}


def run(*arguments, **environment):
    return subprocess.run([sys.executable, "-W", "ignore", *arguments], capture_output=True, text=True, timeout=900,
                          env={**os.environ, **environment})


def test_every_example_is_listed():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(NEEDS)


@pytest.mark.parametrize("script, arguments", [*((name, ()) for name in NEEDS), ("train_accelerate.py", ("bf16",)),
                                               ("train_accelerate.py", ("fp16",))])
def test_example(device, script, arguments):
    missing = [name for name in NEEDS[script] if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed")
    done = run(str(EXAMPLES / script), *arguments)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "ocl" in done.stdout


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
    assert run("-c", code, PYTHONPATH=path, CLPRIM_DEVICE_KIND="cpu").stderr == ""
    assert run("-c", code, PYTHONPATH=path, CLPRIM_DEVICE_KIND="gpu", TORCH_OCL_INTEGRATIONS="0").stderr == ""


def test_a_framework_that_an_adapter_does_not_know(device, framework):
    path = os.pathsep.join([framework, *filter(None, [os.environ.get("PYTHONPATH")])])
    for code, environment in (("import torch_ocl.integrations, ultralytics; print('done')", {}),
                              ("import ultralytics, torch_ocl.integrations; print('done')", {}),
                              ("import torch, ultralytics; print('done')", {"TORCH_OCL_INTEGRATIONS": "1"})):
        done = run("-c", code, PYTHONPATH=path, **environment)
        assert done.stdout == "done\n", done.stderr
        assert "ultralytics could not be made to know the ocl device" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_lists_of_devices_grow():
    from torch_ocl.integrations import _view

    def choose(name):
        return name in ("cuda", "xpu") or any(name == other for other in ("npu", "xpu"))

    import types
    module = types.SimpleNamespace(choose=choose)
    assert not choose("ocl")
    _view.know_ocl(module, "choose", "cuda", "xpu")
    assert choose("ocl") and choose("cuda") and not choose("cpu")
    with pytest.raises(LookupError, match="no list of devices with mps"):
        _view.know_ocl(module, "choose", "mps")
