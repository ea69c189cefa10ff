"""C++ extensions of PyTorch with torch_ocl's headers: the example is built and run."""
import os
import shutil
from pathlib import Path

import pytest
import torch
from torch.utils import cpp_extension

import torch_ocl

SOURCE = Path(__file__).parents[2] / "examples" / "extension" / "swish.cpp"


@pytest.fixture(scope="module")
def operators(tmp_path_factory):
    if not cpp_extension.is_ninja_available() or shutil.which(os.environ.get("CXX", "c++")) is None:
        pytest.skip("ninja and a C++ compiler are needed")
    options = torch_ocl.extension_options()
    options["extra_cflags"] = [*options["extra_cflags"], "-O0"]
    cpp_extension.load("extension_example", [str(SOURCE)], is_python_module=False,
                       build_directory=str(tmp_path_factory.mktemp("extension")), **options)
    return torch.ops.extension_example


def test_example(device, operators):
    x = torch.randn(5, 7)
    torch.testing.assert_close(operators.swish(x.to(device).t(), 1.5).cpu(), (x * torch.sigmoid(1.5 * x)).t())
    assert torch.equal(operators.reverse_rows(x.to(device)).cpu(), x.flip(1))
    half = x.to(device, torch.float16)
    torch.testing.assert_close(operators.swish(half, 1.0).cpu(), torch.nn.functional.silu(x.half()))
    with torch.ocl.stream(torch.ocl.Stream()):
        before = torch.ocl.blocking_calls()
        y = operators.reverse_rows(x.to(device))
        assert torch.ocl.blocking_calls() == before
    with pytest.raises(RuntimeError, match="reverse_rows: expected a float32 matrix"):
        operators.reverse_rows(half)
    torch.ocl.synchronize()
    assert torch.equal(y.cpu(), x.flip(1))
