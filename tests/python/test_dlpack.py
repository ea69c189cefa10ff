"""DLPack between tensors of the device."""

import gc

import numpy as np
import pytest
import torch

from comparison import device

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32,
          torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex64,
          torch.complex128]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype):
    x = torch.arange(6).to(dtype).to(device)
    y = torch.from_dlpack(x)
    assert y.device == x.device and y.dtype == dtype and y.data_ptr() == x.data_ptr()
    assert y.cpu().tolist() == x.cpu().tolist()


def test_views_share_memory():
    x = torch.arange(24.0).reshape(4, 6).to(device)
    for view in (lambda t: t, lambda t: t.t()[1:, ::2], lambda t: t[2], lambda t: t[1, 3], lambda t: t.expand(2, 4, 6),
                 lambda t: t[:0]):
        for y in (torch.from_dlpack(view(x)), torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(view(x)))):
            assert y.shape == view(x).shape and torch.equal(y.cpu(), view(x).cpu())
    torch.from_dlpack(x[1:, 2:])[0, 0] = -5
    assert x[1, 2].item() == -5


def test_memory_lives_as_long_as_the_last_tensor():
    gc.collect()   # what earlier tests left in reference cycles goes now, not in between
    before = torch.ocl.memory_allocated()
    y = torch.from_dlpack(torch.full((100_000,), 3.0, device=device))
    gc.collect()
    other = torch.zeros(100_000, device=device)
    assert torch.ocl.memory_allocated() >= before + 800_000 and (y == 3).all().item() and (other == 0).all().item()
    del y, other
    assert torch.ocl.memory_allocated() == before
    capsule = torch.ones(100_000, device=device).__dlpack__()
    assert torch.ocl.memory_allocated() > before
    del capsule
    assert torch.ocl.memory_allocated() == before


def test_device_copy_and_version():
    x = torch.arange(4.0).to(device)
    assert tuple(map(int, x.__dlpack_device__())) == (12, 0)
    assert torch.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    assert torch.from_dlpack(x, copy=False).data_ptr() == x.data_ptr()
    host = torch.from_dlpack(x, device="cpu")
    assert host.device.type == "cpu" and host.tolist() == [0, 1, 2, 3]
    assert torch.from_dlpack(torch.ones(3), device=device).device == torch.device(device)
    with pytest.raises(ValueError, match="without copying"):
        torch.from_dlpack(x, device="cpu", copy=False)
    assert torch.from_dlpack(x.__dlpack__(max_version=(1, 0))).tolist() == [0, 1, 2, 3]
    # What PyTorch does for other devices stays as it is.
    assert tuple(map(int, torch.ones(1).__dlpack_device__())) == (1, 0)
    if hasattr(torch.utils.dlpack, "ReadOnlyTensorWrapper"):
        wrapper = torch.utils.dlpack.ReadOnlyTensorWrapper(torch.ones(1))
        assert tuple(map(int, wrapper.__dlpack_device__())) == (1, 0)


def test_refusals():
    x = torch.ones(3, device=device)
    for value in (x.clone().requires_grad_(), torch.complex(x, x).conj()):
        with pytest.raises(BufferError):
            torch.from_dlpack(value)
    with pytest.raises((BufferError, RuntimeError), match="[Dd]evice"):
        np.from_dlpack(x)
