"""torch.ocl.compile_kernel: kernels in OpenCL C of the caller's own."""
import threading

import pytest
import torch

from scale_kernel import FLOAT as SCALE


@pytest.fixture(scope="module")
def scale():
    return torch.ocl.compile_kernel(SCALE, "scale")


def test_tensors_and_numbers(device, scale):
    x, y = torch.randn(1000), torch.zeros(1000, device=device)
    scale(x.to(device), y, 2.5, 1000, global_size=1024, local_size=64)
    torch.testing.assert_close(y.cpu(), 2.5 * x)
    assert scale.name == "scale" and scale.parameters == "x, y, factor, count"
    assert repr(scale) == "<OpenCL kernel scale(x, y, factor, count)>"


def test_views_begin_at_their_offset(device, scale):
    x = torch.randn(100)
    y = torch.zeros(100, device=device)
    scale(x.to(device)[40:], y[90:], 1.0, 10, global_size=10)
    expected = torch.zeros(100)
    expected[90:] = x[40:50]
    torch.testing.assert_close(y.cpu(), expected)


def test_local_memory_and_two_dimensions(device):
    source = """
        __kernel void transpose(__global const float* x, ulong x_offset, __global float* y, ulong y_offset,
                                __local float* tile, uint size)
        {
            x += x_offset, y += y_offset;
            uint i = get_local_id(0), j = get_local_id(1), n = get_local_size(0);
            tile[j * n + i] = x[get_global_id(1) * size + get_global_id(0)];
            barrier(CLK_LOCAL_MEM_FENCE);
            y[(get_group_id(0) * n + j) * size + get_group_id(1) * n + i] = tile[i * n + j];
        }"""
    kernel = torch.ocl.compile_kernel(source, "transpose")
    x = torch.randn(32, 32)
    y = torch.zeros(32, 32, device=device)
    kernel(x.to(device), y, 8 * 8, 32, global_size=(32, 32), local_size=(8, 8))
    torch.testing.assert_close(y.cpu(), x.t())


def test_dtypes_of_pointers_and_numbers(device):
    source = """
        #define count_t unsigned int
        typedef long wide_t;
        __kernel void numbers(__global wide_t* y, ulong y_offset, const char a, uchar b, short c, ushort d, int e,
                              count_t f, wide_t g, ulong h)
        {
            y += y_offset;
            y[0] = a; y[1] = b; y[2] = c; y[3] = d; y[4] = e; y[5] = f; y[6] = g; y[7] = h;
        }"""
    kernel = torch.ocl.compile_kernel(source, "numbers")
    y = torch.zeros(8, dtype=torch.int64, device=device)
    values = [-128, 255, -(1 << 15), (1 << 16) - 1, -(1 << 31), (1 << 32) - 1, -(1 << 63), (1 << 63) - 1]
    kernel(y, *values, global_size=1)
    assert y.tolist() == values
    with pytest.raises(ValueError, match="argument a: 128 does not fit an integer of 8 bits"):
        kernel(y, 128, *values[1:], global_size=1)
    with pytest.raises(ValueError, match="argument h: -1 does not fit"):
        kernel(y, *values[:7], -1, global_size=1)
    with pytest.raises(TypeError, match="argument e: expected an integer, got float"):
        kernel(y, *values[:4], 0.5, *values[5:], global_size=1)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_sources_of_the_library(device, dtype):
    name = str(dtype).removeprefix("torch.")
    source = f"""
#include "core/dtype.cl"
        __kernel void twice(__global storage_t({name})* x, ulong x_offset)
        {{
            x += x_offset;
            store_{name}(x, get_global_id(0), 2 * load_{name}(x, get_global_id(0)));
        }}"""
    source = source.replace(f"storage_t({name})", f"storage_{name}")
    x = torch.randn(50).to(dtype)
    y = x.to(device)
    torch.ocl.compile_kernel(source, "twice")(y, global_size=50)
    torch.testing.assert_close(y.cpu(), 2 * x)


def test_vectors_complex_numbers_and_own_types(device):
    source = """
        typedef struct { int a, b; } pair_t;
        __kernel void mixed(__global const float4* x, ulong x_offset, __global float2* z, ulong z_offset, pair_t pair)
        {
            x += x_offset, z += z_offset;
            z[0] = (float2)(dot(x[0], (float4)(1)), pair.a * pair.b);
        }"""
    kernel = torch.ocl.compile_kernel(source, "mixed")
    x = torch.arange(8.0)
    z = torch.zeros(1, dtype=torch.complex64, device=device)
    pair = torch.tensor([6, 7], dtype=torch.int32).numpy().tobytes()
    kernel(x.to(device)[4:], z, pair, global_size=1)
    assert z.item() == 22 + 42j
    with pytest.raises(ValueError, match="begins at element"):
        kernel(x.to(device)[1:], z, pair, global_size=1)


def test_reported_indices(device):
    source = """
#include "core/errors.cl"
__kernel void take(__global const float* x, ulong x_offset, __global float* y, ulong y_offset,
                   __global const long* index, ulong index_offset, long size, __global int* errors, int operator_code)
{
    x += x_offset, y += y_offset, index += index_offset;
    const int i = get_global_id(0);
    if (index[i] < 0 || index[i] >= size)
        clprim_index_error(errors, operator_code, index[i], size);
    else
        y[i] = x[index[i]];
}"""
    take = torch.ocl.compile_kernel(source, "take")
    x, y = torch.randn(10, device=device), torch.zeros(2, device=device)
    take(x, y, torch.tensor([3, 9], device=device), 10, global_size=2)
    torch.testing.assert_close(y, x[[3, 9]])
    take(x, y, torch.tensor([3, 12], device=device), 10, global_size=2)
    with pytest.raises(IndexError, match="take: index 12 is out of bounds for dimension with size 10"):
        torch.ocl.synchronize()


def test_errors_of_the_compiler_name_the_line(device):
    source = SCALE.replace("factor * x[i]", "factor * missing[i]")
    with pytest.raises(RuntimeError, match=r"missing(.|\n)*scale:8: y\[i\] = factor \* missing\[i\];"):
        torch.ocl.compile_kernel(source, "scale")
    with pytest.raises(RuntimeError, match=r"scale:3: broken line"):
        torch.ocl.compile_kernel('\n#include "core/dtype.cl"\nbroken line\n' + SCALE, "scale")


def test_refused_declarations():
    for parameters, message in (
        ("__global float* x", "a tensor is `__global float\\* x, ulong x_offset`"),
        ("__global float* x, ulong y_offset", "a tensor is"),
        ("float* x, ulong x_offset", "expected a pointer to __global"),
        ("size_t n", "no kernel arguments of type size_t"),
        ("__global thing* x, ulong x_offset", "no dtype for a pointer to thing"),
    ):
        with pytest.raises(ValueError, match=message):
            torch.ocl.compile_kernel(f"__kernel void k({parameters}) {{}}", "k")
    with pytest.raises(ValueError, match="no `__kernel void other"):
        torch.ocl.compile_kernel(SCALE, "other")


def test_refused_arguments(device, scale):
    x, y = torch.zeros(10, device=device), torch.zeros(10, device=device)
    with pytest.raises(TypeError, match=r"takes 4 arguments \(x, y, factor, count\), got 3"):
        scale(x, y, 1.0, global_size=10)
    with pytest.raises(RuntimeError, match="argument x: expected a tensor on an ocl device, got one on cpu"):
        scale(x.cpu(), y, 1.0, 10, global_size=10)
    with pytest.raises(TypeError, match="argument x: expected a tensor of dtype Float, got Double"):
        scale(x.double(), y, 1.0, 10, global_size=10)
    with pytest.raises(TypeError, match="argument y: expected a tensor, got float"):
        scale(x, 1.0, 1.0, 10, global_size=10)
    with pytest.raises(TypeError, match="argument factor: expected a number"):
        scale(x, y, "1", 10, global_size=10)
    with pytest.raises(TypeError, match="argument count: expected an integer"):
        scale(x, y, 1.0, y, global_size=10)
    with pytest.raises(ValueError, match="global range, 10 in dimension 0, is not a multiple of the local range, 4"):
        scale(x, y, 1.0, 10, global_size=10, local_size=4)
    with pytest.raises(ValueError, match="one to three sizes, got 4"):
        scale(x, y, 1.0, 10, global_size=(1, 1, 1, 1))
    with pytest.raises(ValueError, match="must not be negative"):
        scale(x, y, 1.0, 10, global_size=-1)
    with pytest.raises(ValueError, match="a work-group has"):
        scale(x, y, 1.0, 10, global_size=1 << 20, local_size=1 << 20)
    with pytest.raises(RuntimeError, match="argument y: a tensor that requires grad is written"):
        scale(x, y.requires_grad_(), 1.0, 10, global_size=10)


def test_written_tensors_are_seen_by_autograd(device, scale):
    x = torch.randn(10, device=device, requires_grad=True)
    y = torch.ones(10, device=device)
    product = x * y
    scale(x.detach(), y, 3.0, 10, global_size=10)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_launches_do_not_wait_and_follow_the_stream(device, scale):
    x = torch.randn(1000, device=device)
    ys = [torch.empty(1000, device=device) for _ in range(4)]
    torch.ocl.synchronize()
    before = torch.ocl.blocking_calls()
    stream = torch.ocl.Stream()
    with torch.ocl.stream(stream):
        for k, y in enumerate(ys):
            scale(x, y, float(k), 1000, global_size=1000)
    assert torch.ocl.blocking_calls() == before
    stream.synchronize()
    for k, y in enumerate(ys):
        torch.testing.assert_close(y, k * x)


def test_nothing_to_do_and_absent_tensors(device, scale):
    scale(torch.zeros(0, device=device), torch.zeros(0, device=device), 1.0, 0, global_size=0)
    source = """__kernel void maybe(__global const float* x, ulong x_offset, __global float* y, ulong y_offset)
    {
        y[y_offset] = x ? x[x_offset] : -1;
    }"""
    kernel = torch.ocl.compile_kernel(source, "maybe", options="-cl-mad-enable")
    y = torch.zeros(1, device=device)
    kernel(None, y, global_size=1)
    assert y.item() == -1
    kernel(y + 3, y, global_size=1)
    assert y.item() == 2


def test_programs_are_built_once(device):
    torch.ocl.compile_kernel(SCALE, "scale")
    before = torch.ocl.program_builds()
    kernel = torch.ocl.compile_kernel(SCALE, "scale")
    threads = [threading.Thread(target=lambda: kernel.prepare(0)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.ocl.program_builds() == before
