// What the implementations of gemm share.
#pragma once

#include <array>
#include <complex>

#include <clprim/context.hpp>
#include <clprim/gemm.hpp>
#include <core/choose.hpp>
#include <kernels/rounding.hpp>

namespace clprim::detail {

struct GemmTensors {
    Tensor a, b, c, d;
};

using GemmImplementation = Implementation<GemmProblem, const GemmTensors&>;
CLPRIM_API std::span<const GemmImplementation> gemm_implementations();   // best first, the reference last

// The type that sums are kept in, as tensors of it: float32, float64, uint32 or uint64 (integers wrap), or complex.
DataType gemm_compute_type(DataType type);
std::string gemm_options(DataType type);   // "-DX=float16 -DREAL=float"

// Kernel arguments: gemm_problem of problem.cl, then alpha and beta as REAL.
struct GemmArguments {
    std::int64_t batch, m, n, k;
    MatrixLayout a, b, c, d;
    std::int32_t add_d, activation;
};
GemmArguments gemm_arguments(const GemmProblem& problem);
void add_scalars(Launch& launch, const GemmProblem& problem);

// The same product seen as C' = B' A'.
GemmProblem transposed(const GemmProblem& problem);
GemmTensors transposed(const GemmTensors& tensors);

// Complex matrices as real ones: the type of a part, a tensor's real (0) or imaginary (1) parts, and where they lie.
inline DataType part_type(DataType type)
{
    return type == DataType::complex128 ? DataType::float64 : DataType::float32;
}
inline Tensor part(const Tensor& tensor, int which)
{
    return Tensor(tensor.memory, 2 * tensor.offset + which, part_type(tensor.dtype), {}, {});
}
// A factor of any dtype.
inline std::complex<double> complex_value(const Scalar& scalar)
{
    std::array<double, 2> parts{};
    scalar.write(DataType::complex128, parts.data());
    return {parts[0], parts[1]};
}
inline MatrixLayout in_parts(const MatrixLayout& layout)
{
    return {2 * layout.row, 2 * layout.column, 2 * layout.batch};
}

// C from `splits` partial products of the compute type, [split][batch][m][n]: their sum in order, then the epilogue.
void combine_partial_products(Queue& queue, const GemmProblem& problem, const GemmTensors& tensors,
                              const Tensor& partial, std::int32_t splits);

// What every implementation by vectors of a CPU asks for.
inline Rejection cpu_vectors_reject(const GemmProblem& problem, const Device& device)
{
    if (device.kind != DeviceKind::cpu)
        return "for CPU devices";
    if (is_complex(problem.dtype))
        return "complex";
    if (problem.k == 0)
        return "k is 0";
    return std::nullopt;
}

Rejection reference_rejects(const GemmProblem&, const Device&);
void reference(Queue&, const GemmProblem&, const GemmTensors&);
Rejection cpu_amx_rows_rejects(const GemmProblem&, const Device&);
Rejection cpu_amx_rows_advises_against(const GemmProblem&, const Device&);
void cpu_amx_rows(Queue&, const GemmProblem&, const GemmTensors&);
Rejection cpu_amx_rejects(const GemmProblem&, const Device&);
Rejection cpu_amx_advises_against(const GemmProblem&, const Device&);
void cpu_amx(Queue&, const GemmProblem&, const GemmTensors&);
CLPRIM_API Rejection cpu_packed_rejects(const GemmProblem&, const Device&);
void cpu_packed(Queue&, const GemmProblem&, const GemmTensors&);
Space cpu_packed_space(const GemmProblem&, const Device&);
void cpu_packed_at(Queue&, const GemmProblem&, const Point&, const GemmTensors&);
Rejection cpu_small_rejects(const GemmProblem&, const Device&);
void cpu_small(Queue&, const GemmProblem&, const GemmTensors&);
Rejection cpu_dot_rejects(const GemmProblem&, const Device&);
void cpu_dot(Queue&, const GemmProblem&, const GemmTensors&);
Rejection gpu_tiled_rejects(const GemmProblem&, const Device&);
void gpu_tiled(Queue&, const GemmProblem&, const GemmTensors&);
Space gpu_tiled_space(const GemmProblem&, const Device&);
void gpu_tiled_at(Queue&, const GemmProblem&, const Point&, const GemmTensors&);
Rejection gpu_dot_rejects(const GemmProblem&, const Device&);
void gpu_dot(Queue&, const GemmProblem&, const GemmTensors&);
Rejection cpu_complex_rejects(const GemmProblem&, const Device&);
Rejection cpu_complex_advises_against(const GemmProblem&, const Device&);
void cpu_complex(Queue&, const GemmProblem&, const GemmTensors&);
Rejection complex_planes_rejects(const GemmProblem&, const Device&);
void complex_planes(Queue&, const GemmProblem&, const GemmTensors&);
Rejection clblast_rejects(const GemmProblem&, const Device&);
void clblast(Queue&, const GemmProblem&, const GemmTensors&);

}  // namespace clprim::detail
