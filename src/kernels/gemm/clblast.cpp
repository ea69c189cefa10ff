// CLBlast's products, where the library was built with it. Taken where tuning finds it the fastest: it knows many GPUs.
#include <algorithm>
#include <array>
#include <complex>

#ifdef CLPRIM_WITH_CLBLAST
#include <clblast.h>
#endif

#include <core/queue_handle.hpp>
#include <kernels/gemm/problem.hpp>

namespace clprim::detail {

#ifndef CLPRIM_WITH_CLBLAST

Rejection clblast_rejects(const GemmProblem&, const Device&) { return "built without CLBlast"; }
void clblast(Queue&, const GemmProblem&, const GemmTensors&) { throw NotSupported("gemm: built without CLBlast"); }

#else

namespace {

using ::clblast::Transpose;

// A matrix as BLAS has it: one direction contiguous, the other with a leading dimension that covers it.
struct BlasMatrix {
    Transpose transpose = Transpose::kNo;
    std::size_t leading = 0;
};

std::optional<BlasMatrix> blas_matrix(const MatrixLayout& layout, std::int64_t rows, std::int64_t columns)
{
    const auto fits = [](std::int64_t step, std::int64_t size, std::int64_t other) {
        return other == 1 || step >= size;
    };
    if (layout.column == 1 && fits(layout.row, columns, rows))
        return BlasMatrix{Transpose::kNo, static_cast<std::size_t>(std::max(layout.row, columns))};
    if (layout.row == 1 && fits(layout.column, rows, columns))
        return BlasMatrix{Transpose::kYes, static_cast<std::size_t>(std::max(layout.column, rows))};
    return std::nullopt;
}

template <class T>
void run(Queue& queue, const GemmProblem& p, const GemmTensors& t)
{
    const auto a = *blas_matrix(p.a, p.m, p.k), b = *blas_matrix(p.b, p.k, p.n), c = *blas_matrix(p.c, p.m, p.n);
    std::array<T, 2> numbers{};   // alpha, beta
    p.alpha.write(p.dtype, &numbers[0]);
    p.beta.write(p.dtype, &numbers[1]);
    cl_command_queue handle = detail::QueueAccess::handle(queue);
    const auto size = [](std::int64_t value) { return static_cast<std::size_t>(value); };
    const auto status = ::clblast::GemmStridedBatched<T>(
        ::clblast::Layout::kRowMajor, a.transpose, b.transpose, size(p.m), size(p.n), size(p.k), numbers[0],
        t.a.memory->buffer, t.a.buffer_offset(), a.leading, size(p.a.batch), t.b.memory->buffer, t.b.buffer_offset(),
        b.leading, size(p.b.batch), p.add_d ? numbers[1] : T(0), t.c.memory->buffer, t.c.buffer_offset(), c.leading,
        size(p.c.batch), size(p.batch), &handle, nullptr);
    require<Error>(status == ::clblast::StatusCode::kSuccess, "gemm: CLBlast failed with status ",
                   static_cast<int>(status), " for ", describe(p));
    detail::QueueAccess::count_command(queue);
}

}  // namespace

Rejection clblast_rejects(const GemmProblem& problem, const Device& device)
{
    if (device.kind != DeviceKind::gpu)
        return "for GPUs";
    if (device.max_work_group_size < 256)
        return "CLBlast's kernels take up to 256 work-items";
    const bool known = problem.dtype == DataType::float32 || problem.dtype == DataType::float64 ||
                       problem.dtype == DataType::complex64 || problem.dtype == DataType::complex128;
    if (!known)
        return "CLBlast would sum in a narrower type";
    if (problem.k == 0)
        return "k is 0";
    if (problem.activation != Activation::none)
        return "no activation";
    if (problem.add_d && !problem.d_is_c)
        return "adds to C only";
    const auto c = blas_matrix(problem.c, problem.m, problem.n);
    if (!blas_matrix(problem.a, problem.m, problem.k) || !blas_matrix(problem.b, problem.k, problem.n) || !c ||
        c->transpose == Transpose::kYes)
        return "strides that BLAS cannot express";
    return std::nullopt;
}

void clblast(Queue& queue, const GemmProblem& problem, const GemmTensors& tensors)
{
    switch (problem.dtype) {
    case DataType::float32: return run<float>(queue, problem, tensors);
    case DataType::float64: return run<double>(queue, problem, tensors);
    case DataType::complex64: return run<std::complex<float>>(queue, problem, tensors);
    default: return run<std::complex<double>>(queue, problem, tensors);
    }
}

#endif

}  // namespace clprim::detail
