// Eigenvalues and eigenvectors of general square matrices.
#include <clprim/copy.hpp>
#include <clprim/gemm.hpp>

#include "kernels/linalg/linalg.hpp"
#include "core/operands.hpp"

namespace clprim {
namespace {

using namespace detail;

DataType as_complex(DataType type)
{
    return type == DataType::float32 ? DataType::complex64 : type == DataType::float64 ? DataType::complex128 : type;
}

// Work-items that own a matrix. One on a CPU: the steps of these kernels are short, so that barriers between them cost
// more than what is shared out, and PoCL compiles barriers within this control flow for minutes.
std::size_t eigen_team(const Device& device) { return device.kind == DeviceKind::cpu ? 1 : linalg_team(device); }

Kernel& kernel(Queue& queue, const char* file, const char* name, DataType dtype)
{
    const bool wide = real_type(dtype) == DataType::float64;
    const std::string options = linalg_options(dtype, eigen_team(queue.device())) + define("CX", as_complex(dtype)) +
                                (wide ? " -DEPSILON=0x1p-52 -DTINY=0x1p-1022" : " -DEPSILON=0x1p-23f -DTINY=0x1p-126f");
    return queue.context().program(file, options).kernel(name);
}

}  // namespace

void eigen(Queue& queue, const Tensor& a, const Tensor& values, const Tensor& vectors, const Tensor& info)
{
    detail::check_operands("eigen", {{"a", a}, {"values", values}, {"vectors", vectors, detail::optional},
                                     {"info", info}});
    check_matrices(a, "eigen");
    const std::int64_t batch = a.size(0), n = a.size(1);
    const DataType complex = as_complex(a.dtype), real = real_type(a.dtype);
    check_dense(a, {batch, n, n}, a.dtype, "eigen: a");
    check_dense(values, {batch, n}, complex, "eigen: values");
    check_dense(info, {batch}, DataType::int32, "eigen: info");
    if (vectors.defined())
        check_dense(vectors, {batch, n, n}, complex, "eigen: vectors");
    if (a.numel() == 0) {
        if (info.numel() != 0)
            fill(queue, info, 0);
        return;
    }
    constexpr const char* shared = "kernels/linalg/eigen.cl";
    const char* const schur = is_complex(a.dtype) ? "kernels/linalg/schur_complex.cl" : "kernels/linalg/schur_real.cl";
    Context& context = queue.context();
    const Range groups = Range::groups(static_cast<std::size_t>(batch), eigen_team(queue.device()));
    const auto items = static_cast<cl_ulong>(batch * n);
    const auto size = static_cast<cl_int>(n);
    const Tensor scale = context.empty({batch, n}, real, queue),
                 places = context.empty({batch, n}, DataType::int32, queue),
                 range = context.empty({batch, 3}, DataType::int32, queue),
                 line = context.empty({batch, n}, a.dtype, queue);
    queue.launch(kernel(queue, shared, "balance", a.dtype), groups, a, scale, places, range, size);
    if (!vectors.defined()) {
        queue.launch(kernel(queue, shared, "hessenberg", a.dtype), groups, a, NoTensor{}, line, range, size);
        queue.launch(kernel(queue, schur, "schur", a.dtype), groups, a, NoTensor{}, values, range, info, size);
        return;
    }
    const Tensor z = context.empty(a.shape, a.dtype, queue), x = context.empty(a.shape, a.dtype, queue),
                 rows = context.empty(a.shape, a.dtype, queue);
    queue.launch(kernel(queue, shared, "hessenberg", a.dtype), groups, a, z, line, range, size);
    queue.launch(kernel(queue, schur, "schur", a.dtype), groups, a, z, values, range, info, size);
    queue.launch(kernel(queue, schur, "schur_vectors", a.dtype), Range::linear(items, 16), a, values, x, size, items);
    const Tensor back = z.transpose(1, 2);   // x's rows times Z^T
    gemm(queue, gemm_problem(x, back, rows, {}), x, back, rows, {});
    queue.launch(kernel(queue, shared, "finish_vectors", a.dtype), Range::linear(items, 16), rows, scale, places, range,
                 values, vectors, size, items);
}

}  // namespace clprim
