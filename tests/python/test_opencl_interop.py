"""OpenCL objects in and out: cl_mem of tensors, buffers, contexts and events of other libraries."""
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import clprim


def test_a_tensor_s_buffer_is_adopted_again():
    x = clprim.Tensor(np.arange(24, dtype="f").reshape(4, 6))
    buffer, offset = x.slice(0, 1, 4).cl_mem
    assert offset == x.cl_mem[1] + 6 * 4
    y = clprim.Tensor.from_cl_mem(buffer, (3, 6), "float32", offset)
    np.testing.assert_array_equal(y.numpy(), x.numpy()[1:])
    y.fill(7)
    assert (x.numpy()[1:] == 7).all() and (x.numpy()[0] == np.arange(6)).all()


def test_what_is_wrong_is_named():
    buffer, offset = clprim.Tensor.empty((4,)).cl_mem
    with pytest.raises(ValueError, match="null"):
        clprim.Tensor.from_cl_mem(0, (4,))
    with pytest.raises(ValueError, match="not a multiple of the 4 bytes"):
        clprim.Tensor.from_cl_mem(buffer, (4,), "float32", offset + 2)
    with pytest.raises(ValueError, match="adopt"):
        clprim.Tensor.from_cl_mem(buffer, (1 << 40,), "float32", 0)
    with pytest.raises(ValueError, match="use_context: the context is null"):
        clprim.use_cl_context(0)
    with pytest.raises(ValueError, match="already"):
        clprim.use_cl_context(clprim.Context().cl_context)
    with pytest.raises(ValueError, match="event is null"):
        clprim.Context().wait_for(0)


def test_cl_mem_of_torch(device):
    x = torch.arange(24.0, device=device).reshape(4, 6)
    whole, row = torch.ocl.cl_mem(x), torch.ocl.cl_mem(x[2])
    assert whole.buffer == row.buffer and row.offset - whole.offset == 2 * 6 * 4
    torch.ocl.synchronize()
    shared = clprim.Tensor.from_cl_mem(row.buffer, (6,), "float32", row.offset)
    np.testing.assert_array_equal(shared.numpy(), x[2].cpu().numpy())
    assert torch.ocl.cl_context() == clprim.Context().cl_context and torch.ocl.cl_device() == clprim.Context().cl_device
    with pytest.raises(ValueError, match="expected one on an ocl device"):
        torch.ocl.cl_mem(torch.ones(1))


PYOPENCL = """
import clprim, numpy as np, pyopencl as cl
here = clprim.Context()
device = cl.Device.from_int_ptr(here.cl_device)
context = cl.Context.from_int_ptr(here.cl_context)
queue = cl.CommandQueue(context, device)
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * 100)
program = cl.Program(context, "__kernel void f(__global float* x) { x[get_global_id(0)] = get_global_id(0); }").build()
event = program.f(queue, (100,), None, buffer)
queue.flush()
x = clprim.Tensor.from_cl_mem(buffer.int_ptr, (10, 10))
here.wait_for(event.int_ptr)
y = clprim.matmul(x, x)
expected = np.arange(100, dtype="f").reshape(10, 10)
np.testing.assert_allclose(y.numpy(), expected @ expected)
handle, offset = y.cl_mem
read = np.empty((10, 10), "f")
cl.enqueue_copy(queue, read, cl.Buffer.from_int_ptr(handle), src_offset=offset)
np.testing.assert_allclose(read, expected @ expected)
print("same")
"""


def test_pyopencl():
    pytest.importorskip("pyopencl")
    ran = subprocess.run([sys.executable, "-c", PYOPENCL], capture_output=True, text=True,
                         env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert ran.stdout.strip() == "same", ran.stderr
