"""Frozen models (config.freezing): what is derived from their weights is kept, in the layout that is fastest."""
import copy

import pytest
import torch
from torch import nn
from torch._inductor import config

from comparison import device as ocl

ours = torch.ops.torch_ocl


class Block(nn.Module):
    """Convolutions of every kind that the device has kernels for, with what follows them."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16)
        self.expand, self.depthwise = nn.Conv2d(16, 48, 1), nn.Conv2d(48, 48, 5, padding=2, groups=48)
        self.squeeze, self.excite = nn.Conv2d(48, 8, 1), nn.Conv2d(8, 48, 1)
        self.project, self.grouped = nn.Conv2d(48, 16, 1), nn.Conv2d(16, 32, 3, padding=1, groups=2)
        self.up, self.head = nn.ConvTranspose2d(32, 16, 2, stride=2), nn.Linear(16, 10)

    def forward(self, x):
        x = nn.functional.hardswish(self.norm(self.first(x)))
        y = nn.functional.relu(self.depthwise(nn.functional.silu(self.expand(x))))
        y = y * nn.functional.hardsigmoid(self.excite(nn.functional.relu(self.squeeze(y.mean((2, 3), keepdim=True)))))
        y = self.up(self.grouped(self.project(y) + x))
        return self.head(y.mean((2, 3))), y


class Turned(nn.Module):
    """A product with a matrix that lies as it is multiplied."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs))

    def forward(self, x):
        return x @ self.weight


def frozen(model, *args):
    torch._dynamo.reset()
    with torch.no_grad(), config.patch(freezing=True, force_disable_caches=True):
        compiled = torch.compile(model, fullgraph=True)
        compiled(*args)
    return compiled


@pytest.mark.parametrize("layout", (torch.contiguous_format, torch.channels_last))
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float64))
def test_results_and_layouts(dtype, layout):
    model, x = Block().eval(), torch.randn(2, 3, 37, 30)
    nn.init.uniform_(model.norm.running_var, 0.5, 2)
    model, x = model.to(dtype), x.to(dtype)
    with torch.no_grad():
        expected = copy.deepcopy(model).double()(x.double())
        mine, images = model.to(ocl, memory_format=layout), x.to(ocl).contiguous(memory_format=layout)
        eager, compiled = mine(images), frozen(mine, images)
        for _ in range(2):
            actual = compiled(images)
            for a, b, e in zip(actual, expected, eager):
                atol = 4e-2 if dtype == torch.bfloat16 else 2e-5
                torch.testing.assert_close(a.cpu().double(), b, atol=atol, rtol=2e-2)
                assert a.stride() == e.stride()


@pytest.mark.parametrize("model, shape", (
    (Block(), (2, 3, 64, 64)), (nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)), (128, 256))))
def test_weights_are_packed_once(model, shape):
    model, x = model.eval().to(ocl), torch.randn(shape).to(ocl)
    compiled = frozen(model, x)
    with torch.no_grad(), torch.ocl.profile_kernels() as kernels:
        compiled(x)
        torch.ocl.synchronize()
    names = {row["name"] for row in kernels.rows()}
    assert any("conv" in name or "multiply" in name for name in names)
    assert not [name for name in names if "pack" in name]


@pytest.mark.parametrize("gradients", (False, True))
def test_layouts_stay_where_weights_are_no_constants(gradients):
    """Dynamo does not see freezing that is an option, and freezes nothing where gradients are recorded."""
    model, x = Block().eval(), torch.randn(2, 3, 64, 64)
    mine, images = copy.deepcopy(model).to(ocl), x.to(ocl)
    torch._dynamo.reset()
    with torch.set_grad_enabled(gradients), config.patch(freezing=gradients, force_disable_caches=True):
        compiled = torch.compile(mine, options=None if gradients else {"freezing": True})
        compiled(images)
        with torch.ocl.profile_kernels() as kernels:
            actual = compiled(images)
            torch.ocl.synchronize()
    for a, b in zip(actual, model(x)):
        torch.testing.assert_close(a.cpu(), b, atol=1e-5, rtol=1e-4)
    names = {row["name"] for row in kernels.rows()}
    assert any("conv" in name for name in names) and not [name for name in names if "channels" in name]


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.float64))
def test_products(dtype):
    """A bias and an activation or none, weights as they are and turned, any number of rows."""
    model = nn.Sequential(nn.Linear(72, 130), nn.GELU(), nn.Linear(130, 600, bias=False), nn.Tanh(), nn.Linear(600, 40),
                          nn.ReLU(), Turned(40, 64)).to(dtype).eval()
    mine = copy.deepcopy(model).to(ocl)
    torch._dynamo.reset()
    with torch.no_grad(), config.patch(freezing=True, force_disable_caches=True):
        compiled = torch.compile(mine, fullgraph=True, dynamic=True)
        for rows in (150, 7, 64, 150):
            x = torch.randn(2, rows, 72, dtype=dtype)
            actual = compiled(x.to(ocl)).cpu()
            torch.testing.assert_close(actual.double(), copy.deepcopy(model).double()(x.double()),
                                       atol=2e-2 if dtype == torch.float16 else 1e-5, rtol=1e-2)


def convolved(x, weight, constant):
    return ours.fused_convolution(x, weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, "none", 0.0, 0.0, constant)


def multiplied(x, weight, constant):
    return ours.fused_addmm(None, x, weight, 1, 1, "none", constant)


@pytest.mark.parametrize("function, x, w", ((convolved, (2, 64, 16, 16), (256, 64, 3, 3)),
                                            (multiplied, (256, 512), (512, 768))))
def test_what_was_kept_goes_with_the_weights(function, x, w):
    if function is multiplied and torch.ocl.get_device_properties(0).kind != "cpu":
        pytest.skip("products of GPUs read matrices as they lie")
    x = torch.randn(x).to(ocl)
    if x.dim() == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    torch.ocl.empty_cache()
    before = torch.ocl.memory_allocated()
    weight = torch.randn(w).to(ocl)
    own = torch.ocl.memory_allocated() - before
    function(x, weight, True)
    torch.ocl.synchronize()
    assert torch.ocl.memory_allocated() - before > own
    del weight
    torch.ocl.empty_cache()
    assert torch.ocl.memory_allocated() == before


@pytest.mark.parametrize("function, x, w", ((convolved, (2, 32, 16, 16), (32, 32, 3, 3)),
                                            (multiplied, (128, 96), (96, 160))))
def test_weights_written_to_after_all(function, x, w):
    x, weight = torch.randn(x).to(ocl), torch.randn(w).to(ocl)
    for _ in range(2):
        torch.testing.assert_close(function(x, weight, True), function(x, weight, False), atol=1e-4, rtol=1e-5)
        weight.mul_(2)


def test_views_of_one_storage():
    x, storage = torch.randn(2, 32, 16, 16).to(ocl), torch.randn(2, 32, 32, 3, 3).to(ocl)
    for weight in (storage[0], storage[1], storage[0].transpose(0, 1)):
        torch.testing.assert_close(convolved(x, weight, True), convolved(x, weight, False), atol=1e-4, rtol=1e-5)


def test_memory_that_another_weight_had():
    x = torch.randn(2, 32, 16, 16).to(ocl)
    for _ in range(40):
        weight = torch.randn(32, 32, 3, 3).to(ocl)
        torch.testing.assert_close(convolved(x, weight, True), convolved(x, weight, False), atol=1e-4, rtol=1e-5)
