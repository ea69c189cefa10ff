"""Deformable convolution: layout copies counted, workspace bounded, bits independent of threads and queues."""
import hashlib
import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torchvision.ops import deform_conv2d

from torch_ocl.dcn_v2 import DCN

from comparison import device

on_cpu_kind = pytest.mark.skipif(os.environ.get("CLPRIM_DEVICE_KIND") == "gpu", reason="about the kernels for CPUs")


class Copies(TorchDispatchMode):
    """Counts operators that write a tensor anew in another layout."""
    NAMES = ("aten::copy_", "aten::clone", "aten::_to_copy", "aten::contiguous", "aten::_copy_from")

    def __enter__(self):
        self.found = []
        return super().__enter__()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function._schema.name in self.NAMES:
            self.found.append(function._schema.name)
        return function(*args, **(kwargs or {}))


def step(net, x):
    """The layers' outputs and the gradient of x."""
    outputs = []
    hooks = [layer.register_forward_hook(lambda m, i, o: outputs.append(o)) for layer in net]
    x = x.detach().requires_grad_()
    net.zero_grad(set_to_none=True)
    net(x).sum().backward()
    for hook in hooks:
        hook.remove()
    return outputs, x.grad


@on_cpu_kind
def test_channels_last_network_copies_no_layout():
    """Forward and backward of a channels_last network with DCN layers: every activation and gradient is channels_last,
    PyTorch copies nothing, and the kernels that bring planes into rows and back are not launched."""
    net = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.SiLU(), DCN(32, 64, 3, 1, 1), nn.SiLU(),
                        DCN(64, 32, 3, 2, 1))
    x = torch.randn(2, 32, 12, 12)
    plain = net(x)
    net = net.to(device, memory_format=torch.channels_last)
    x = x.to(device).contiguous(memory_format=torch.channels_last)
    with Copies() as copies:
        outputs, grad = step(net, x)
    assert copies.found == []
    assert all(t.is_contiguous(memory_format=torch.channels_last) for t in [*outputs, grad])
    torch.testing.assert_close(outputs[-1].cpu(), plain, rtol=1e-4, atol=1e-5)
    assert layout_launches(torch.channels_last) == 0
    assert layout_launches(torch.contiguous_format) == 4   # x in both passes, gy and gx: the count does count


def layout_launches(memory_format):
    """Launches of one deformable convolution beyond those of its own work: 2 forward (weights are packed), 3 for the
    gradient of weight, 3 for those of data, offset and mask, 1 for bias; for tile registers the weights of both passes
    and the gradient of y are split, too."""
    own = 2 + 3 + 3 + 1 + (3 if torch.ocl.get_device_properties(device).amx else 0)
    g = torch.Generator().manual_seed(0)
    tensors = [torch.randn(4, 32, 6, 6, generator=g), torch.randn(4, 18, 6, 6, generator=g),
               torch.randn(64, 32, 3, 3, generator=g), torch.randn(64, generator=g),
               torch.rand(4, 9, 6, 6, generator=g)]
    tensors = [t.to(device) for t in tensors]
    tensors[0] = tensors[0].contiguous(memory_format=memory_format)
    *leaves, mask = [t.requires_grad_() for t in tensors]
    gy = torch.ones(4, 64, 6, 6, device=device).contiguous(memory_format=memory_format)
    before = torch.ocl.kernel_launches()
    deform_conv2d(*leaves, padding=1, mask=mask).backward(gy)
    return torch.ocl.kernel_launches() - before - own


def workspace(n, c, o, size, kernel=3, rows=True):
    """The bound of docs/deformable_convolution.md in bytes; `rows`: x, y and their gradients lie in planes."""
    pad = lambda v, m: -(-v // m) * m
    pixels, taps, chunks = size[0] * size[1], kernel * kernel, pad(c, 32) // 32
    copies = 4 * n * pixels * (2 * pad(c, 32) + o) if rows else 0
    weights = 4 * taps * (pad(c, 32) * pad(o, 32))
    partial = 4 * max(chunks * taps * 3 * pixels, 16 << 20)
    packed = 4 * pad(n * pixels, 96) * pad(o, 12) + 4 * taps * chunks * pad(o, 12) * 32
    return copies + 2 * weights + max(partial, packed) + (1 << 20)


def training_peak(n, c, o, size):
    """Peak of memory of a training step beyond tensors that PyTorch sees, and in all."""
    torch.ocl.empty_cache()
    base = torch.ocl.memory_allocated()
    leaves = [torch.randn(n, c, *size, device=device), torch.randn(n, 18, *size, device=device),
              torch.randn(o, c, 3, 3, device=device), torch.randn(o, device=device),
              torch.rand(n, 9, *size, device=device)]
    x, offset, weight, bias, mask = [t.requires_grad_() for t in leaves]
    torch.ocl.synchronize()
    torch.ocl.reset_peak_memory_stats()
    y = deform_conv2d(x, offset, weight, bias, padding=1, mask=mask)
    gy = torch.ones_like(y)
    y.backward(gy)
    torch.ocl.synchronize()
    seen = 4 * (2 * sum(t.numel() for t in leaves) + 2 * y.numel())
    assert all(t.grad is not None for t in leaves)
    peak = torch.ocl.max_memory_allocated() - base
    return peak - seen, peak


@on_cpu_kind
@pytest.mark.parametrize("shape", [(2, 64, 48, (40, 50)), (8, 32, 32, (64, 64)), (1, 256, 64, (20, 20))])
def test_workspace_is_bounded(shape):
    extra, _ = training_peak(*shape)
    assert extra <= workspace(*shape)


def test_large_detection_map_trains_in_4_gb():
    """A training step on a map of 1333 x 800 pixels with 64 channels."""
    extra, peak = training_peak(1, 64, 64, (800, 1333))
    assert peak < 4e9, f"{peak / 1e9:.2f} GB, {extra / 1e9:.2f} GB of it workspace"


PRINT_BITS = """
import hashlib, torch
from torchvision.ops import deform_conv2d
import test_deform_conv_memory as test
print(test.bits())
"""


def bits():
    """A digest of output and gradients; many samples fall on the same pixels."""
    g = torch.Generator().manual_seed(5)
    x, offset = torch.randn(3, 64, 11, 9, generator=g), torch.randn(3, 36, 11, 9, generator=g) * 0.3
    weight, mask = torch.randn(40, 64, 3, 3, generator=g), torch.rand(3, 18, 11, 9, generator=g)
    leaves = [t.to(device).requires_grad_() for t in (x, offset, weight, mask)]
    y = deform_conv2d(*leaves[:3], padding=1, mask=leaves[3])
    y.backward(torch.linspace(-1, 1, y.numel()).reshape(y.shape).to(device))
    digest = hashlib.sha256()
    for t in [y.detach(), *(leaf.grad for leaf in leaves)]:
        digest.update(t.cpu().numpy().tobytes())
    return digest.hexdigest()


def test_same_bits_for_any_number_of_threads_and_any_queue():
    expected = bits()
    stream = torch.Stream(device=device)
    with stream:
        assert bits() == expected
    for threads in ("1", "2"):
        environment = os.environ | {"CL_CONFIG_CPU_TBB_NUM_WORKERS": threads, "DPCPP_CPU_NUM_CUS": threads,
                                    "POCL_MAX_PTHREAD_COUNT": threads, "OMP_NUM_THREADS": "1",
                                    "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
        found = subprocess.run([sys.executable, "-c", PRINT_BITS], env=environment, capture_output=True, text=True)
        assert found.stdout.strip() == expected, f"{threads} threads: {found.stdout}{found.stderr}"
