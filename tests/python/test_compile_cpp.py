"""Inductor's wrapper in C++ (torch._inductor.config.cpp_wrapper); packages of AOTInductor run from Python and C++."""
import copy
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._inductor import config
from torch.nn.attention.flex_attention import flex_attention

from compiled import close, device, gradients, on_device

EXAMPLE = Path(__file__).parents[2] / "examples" / "aot_inductor"

pytestmark = pytest.mark.skipif(shutil.which(os.environ.get("CXX", "g++")) is None, reason="a C++ compiler is needed")


@pytest.fixture(autouse=True)
def nothing_falls_back():
    torch._dynamo.reset()
    torch.ocl.reset_fallback_report()
    yield
    assert torch.ocl.fallback_report() == {}


def everything(x, factors, index, table, half, query):
    """Operators of the device with one result and with several, without a C function, kernels with numbers of the
    CPU's, indices, random numbers, in float16, FlexAttention, a changed argument: one graph, as it takes seconds."""
    rows = F.embedding(index, table) * factors[1] + factors[2]
    values, places = torch.sort(x, -1)
    summed = torch.zeros(8, 16, device=x.device).scatter_add(1, places, values)
    narrow = (x.half() * 2.5 + half).relu()
    complex_size = (torch.complex(x, x + 1) ** 2).abs()
    mean = torch.var_mean(x, 1)
    attended = flex_attention(query, query, query, score_mod=lambda score, b, h, m, n: score - (m - n).abs() * 0.1)
    larger = F.interpolate(x[None, None], scale_factor=2.0, mode="bilinear")
    zeros = torch.bernoulli(torch.zeros_like(x))
    x.add_(1)
    return rows, values, places, summed, narrow, complex_size, mean, x.argmax(1), attended, larger, zeros


def arguments(rows=8):
    torch.manual_seed(3)
    return (torch.randn(rows, 16), torch.tensor([7.0, 1.5, 0.25]), torch.randint(0, 10, (7,)), torch.randn(10, 5),
            torch.randn(16).half(), torch.randn(1, 2, 32, 16))


def test_cpp_wrapper():
    ours = [x if n == 1 else on_device(x) for n, x in enumerate(arguments())]     # factors stay
    theirs = arguments()
    with config.patch(cpp_wrapper=True, force_disable_caches=True):
        compiled = torch.compile(everything, fullgraph=True)
        actual, expected = compiled(*ours), everything(*theirs)
        for a, b in zip(torch.utils._pytree.tree_leaves(actual), torch.utils._pytree.tree_leaves(expected)):
            tolerances = dict(atol=2e-3, rtol=1e-3) if b.dtype == torch.float16 else dict(atol=2e-5, rtol=1e-5)
            torch.testing.assert_close(a.cpu(), b, **tolerances)
        torch.testing.assert_close(ours[0].cpu(), theirs[0])
        ours[2][3] = 100
        with pytest.raises(IndexError, match="index 100 is out of bounds for dimension with size 10"):
            compiled(*ours)
            torch.ocl.synchronize()


def test_cpp_wrapper_trains_with_dynamic_sizes():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                          nn.Linear(4, 5))
    ours = copy.deepcopy(model).to(device)
    with config.patch(cpp_wrapper=True, force_disable_caches=True):
        compiled = torch.compile(ours, dynamic=True, fullgraph=True)
        for shape in ((2, 3, 8, 9), (5, 3, 7, 12)):
            x = torch.randn(shape)
            actual, expected = compiled(x.to(device)), model(x)
            close(actual, expected, atol=1e-5, rtol=1e-5)
            close(gradients(actual, list(ours.parameters())), gradients(expected, list(model.parameters())), atol=2e-5,
                  rtol=1e-4)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("export_model", EXAMPLE / "export_model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = tmp_path_factory.mktemp("package") / "model.pt2"
    module.main(str(path))
    return module.make_model(), path


def images(batch):
    return torch.linspace(-1, 1, batch * 3 * 16 * 16).view(batch, 3, 16, 16)


def test_a_package_runs_from_python(example):
    model, path = example
    package = torch._inductor.aoti_load_package(str(path))
    with pytest.raises(RuntimeError):
        package(images(2))
    with torch.no_grad():
        for batch in (2, 7):
            close(package(images(batch).to(device)), model(images(batch)), atol=1e-6, rtol=1e-5)
        # Constants of a few elements are written into kernels; the others can be replaced.
        weights = {name: 2 * model.state_dict()[name] for name in package.get_constant_fqns()}
        assert weights
        package.load_constants({name: value.to(device) for name, value in weights.items()}, check_full_update=True)
        expected = torch.func.functional_call(model, weights, (images(2),))
        close(package(images(2).to(device)), expected, atol=1e-6, rtol=1e-5)


def test_a_package_runs_from_cpp(example, tmp_path):
    model, path = example
    if not list(Path(sysconfig.get_config_var("LIBDIR")).glob("libpython3*.so")):
        pytest.skip("this Python has no shared library")
    spec = importlib.util.spec_from_file_location("build_options", EXAMPLE / "build_options.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    program = tmp_path / "run_model"
    subprocess.run([os.environ.get("CXX", "g++"), "-O0", str(EXAMPLE / "run_model.cpp"), "-o", str(program),
                    *module.options()], check=True)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([str(program), str(path), "3"], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    scores = torch.tensor([[float(n) for n in line.split()] for line in done.stdout.splitlines()])
    with torch.no_grad():
        torch.testing.assert_close(scores, model(images(3)), atol=1e-5, rtol=1e-4)
