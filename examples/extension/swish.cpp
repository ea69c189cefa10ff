// An extension of PyTorch for the ocl device: one operator by an expression, one by a kernel of its own.
//
//     import torch, torch_ocl
//     from torch.utils.cpp_extension import load
//     load("swish", ["swish.cpp"], is_python_module=False, **torch_ocl.extension_options())
//     y = torch.ops.extension_example.swish(x, 1.5)
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <clprim/pointwise.hpp>
#include <torch_ocl/extension.hpp>

namespace {

// y = x sigmoid(beta x); any dtype, any strides.
at::Tensor swish(const at::Tensor& x, double beta)
{
    at::Tensor y = at::empty_like(x);
    clprim::pointwise(torch_ocl::queue_of(x), {torch_ocl::as_clprim(x)}, {torch_ocl::as_clprim(y)}, {beta},
                      "y0 = x0 * sigmoid(w0 * x0);");
    return y;
}

const char* const reverse_source = R"(
__kernel void reverse_rows(__global const float* x, ulong x_offset, __global float* y, ulong y_offset, long columns)
{
    x += x_offset;
    y += y_offset;
    const long row = get_global_id(1), column = get_global_id(0);
    y[row * columns + column] = x[row * columns + columns - 1 - column];
}
)";

// The columns in reverse order.
at::Tensor reverse_rows(const at::Tensor& x)
{
    TORCH_CHECK(x.dim() == 2 && x.scalar_type() == at::kFloat, "reverse_rows: expected a float32 matrix");
    const at::Tensor rows = x.contiguous();
    at::Tensor y = at::empty_like(rows);
    clprim::Queue& queue = torch_ocl::queue_of(x);
    clprim::Kernel& kernel =
        queue.context().program_from_text("reverse_rows", reverse_source, "").kernel("reverse_rows");
    clprim::Launch(queue, kernel)
        .arg(torch_ocl::as_clprim(rows))
        .arg(torch_ocl::as_clprim(y))
        .arg(cl_long(x.size(1)))
        .run({{std::size_t(x.size(1)), std::size_t(x.size(0)), 1}, {}, 2});
    return y;
}

}  // namespace

TORCH_LIBRARY(extension_example, m)
{
    m.def("swish(Tensor x, float beta) -> Tensor");
    m.def("reverse_rows(Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(extension_example, PrivateUse1, m)
{
    m.impl("swish", &swish);
    m.impl("reverse_rows", &reverse_rows);
}
