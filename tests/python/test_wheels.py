"""tools/wheels.py: what wheels say of themselves. (Making them takes packages that tests do without.)"""
import importlib.util
from pathlib import Path

import torch

import clprim


def tool():
    file = Path(__file__).resolve().parents[2] / "tools" / "wheels.py"
    spec = importlib.util.spec_from_file_location("wheels", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_metadata():
    wheels = tool()
    assert wheels.version() == clprim.__version__
    summary, requires, extras, _ = wheels.packages()["torch_ocl"]
    text = wheels.metadata("torch-ocl", summary, requires, extras)
    major, minor = torch.__version__.split(".")[:2]
    assert f"Version: {clprim.__version__}\n" in text and f"Requires-Dist: clprim=={clprim.__version__}\n" in text
    assert f"torch>={major}.{minor}" in text.replace(" ", "") or f"torch=={major}.{minor}" in text.replace(" ", "")
