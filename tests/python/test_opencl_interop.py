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
their_queue = cl.CommandQueue(context, device)
import onnx
from onnx import helper
ports = [helper.make_tensor_value_info(name, 1, ["n", 10]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "g", ports[:1], ports[1:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
session = clprim.Session(model, cl_queue=their_queue.int_ptr)
kernel = cl.Kernel(program, "f")
for turn in range(5):     # the kernel before it and the copy behind it are ordered by the queue alone
    kernel(their_queue, (100,), None, buffer)
    out = session.run_values({"x": x})["y"]
    handle, offset = out.tensor().cl_mem
    cl.enqueue_copy(their_queue, read, cl.Buffer.from_int_ptr(handle), src_offset=offset)
    np.testing.assert_array_equal(read, 2 * np.arange(100, dtype="f").reshape(10, 10))
mixed = cl.CommandQueue(context, device, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
foreign = cl.CommandQueue(cl.Context([device]), device)
for wrong, what in ((mixed, "out of order"), (foreign, "another cl_context")):
    try:
        clprim.Session(model, cl_queue=wrong.int_ptr)
    except clprim.Error as error:
        assert what in str(error), error
    else:
        raise AssertionError(what)
print("same")
"""


def test_pyopencl():
    pytest.importorskip("pyopencl")
    ran = subprocess.run([sys.executable, "-c", PYOPENCL], capture_output=True, text=True,
                         env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert ran.stdout.strip() == "same", ran.stderr


class OnOpenCL:
    """An array of another library on OpenCL's devices, as DLPack sees it."""

    def __init__(self, tensor, versions=True):
        self.tensor, self.versions = tensor, versions

    def __dlpack_device__(self):
        return 4, self.tensor.device.index

    def __dlpack__(self, **options):
        if not self.versions and options:
            raise TypeError("__dlpack__() got an unexpected keyword argument")
        return self.tensor.__dlpack__(dl_device=self.__dlpack_device__(), **options)


@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", "bool", "complex64"])
def test_dlpack_of_opencl_shares_memory(versions, dtype):
    values = (np.arange(24).reshape(4, 6) % 3).astype(dtype)
    x = clprim.Tensor(values)
    view = x.slice(0, 1, 3).permute(1, 0)
    y = clprim.from_dlpack(OnOpenCL(view, versions))
    assert y.shape == (6, 2) and y.strides == view.strides and y.dtype == view.dtype and y.cl_mem == view.cl_mem
    np.testing.assert_array_equal(y.numpy(), values[1:3].T)
    y.fill(1)
    np.testing.assert_array_equal(x.numpy()[1:3], np.ones((2, 6), dtype))
    np.testing.assert_array_equal(x.numpy()[0], values[0])
    del x, view            # the memory lives as long as the last tensor in it
    junk = [clprim.Tensor(np.full((4, 6), 9, "f")) for _ in range(20)]
    np.testing.assert_array_equal(y.numpy(), np.ones((6, 2), dtype))
    assert junk and y.slice(0, 0, 1).numpy().shape == (1, 2)


def test_dlpack_of_opencl_refuses():
    x = clprim.Tensor(np.zeros(4, "f"))
    for device, copy in (((2, 0), None), ((4, x.device.index + 1), None), ((4, x.device.index), True), ((1, 0), False)):
        with pytest.raises(BufferError):
            x.__dlpack__(dl_device=device, copy=copy)
    taken = x.__dlpack__(dl_device=(4, x.device.index))

    class Once(OnOpenCL):
        def __dlpack__(self, **options):
            return taken

    clprim.from_dlpack(Once(x))
    with pytest.raises(ValueError, match="PyCapsule"):
        clprim.from_dlpack(Once(x))
    unused = [x.__dlpack__(dl_device=(4, x.device.index)) for _ in range(10)]      # and dropped
    del unused
    np.testing.assert_array_equal(np.from_dlpack(x), np.zeros(4, "f"))
