// Products of matrices:  C = activation(alpha * A B + beta * D), for each matrix of a batch.
//
// A is m x k, B is k x n, C and D are m x n. Every matrix has its own row, column and batch stride in elements, so
// transposed, sliced and broadcast operands (stride 0, not for C) are taken as they are, without copies. D may be C
// itself, with C's strides (BLAS's beta * C), or a bias with row or column stride 0. Without D, or with beta = 0,
// nothing is added and D is not read: NaN there does not matter. k = 0 gives activation(beta * D).
//
// float16 and bfloat16 are computed and summed in float32 and rounded once; integers wrap around (sums are exact
// modulo their range); complex numbers are multiplied as they are, without conjugation. The same bits every run.
//
// Method: on CPU devices register tiles over packed panels, after Goto and van de Geijn, "Anatomy of high-performance
// matrix multiplication" (2008), and where the processor has AMX, bfloat16 products in tile registers that add up to
// float32 ones (Device::amx; src/kernels/gemm/amx.cl says how); on GPUs tiles in local memory and registers.
#pragma once

#include <clprim/activation.hpp>
#include <clprim/pointwise.hpp>
#include <clprim/prepared.hpp>

CLPRIM_API_BEGIN
namespace clprim {

struct MatrixLayout {
    std::int64_t row = 0, column = 0, batch = 0;   // strides in elements
};

// How many bits of float32 operands a product must take where an engine multiplies bfloat16 (docs/precision.md): all of
// them; 16, by three products; 8, by one. Sums are float32. Without such an engine all of them are taken.
enum class Float32Precision : std::uint8_t { highest, high, medium };

struct GemmProblem {
    std::int64_t batch = 1, m = 0, n = 0, k = 0;
    DataType dtype = DataType::float32;   // of all matrices
    MatrixLayout a, b, c, d;
    Scalar alpha = 1, beta = 1;
    bool add_d = false, d_is_c = false;   // whether D is read, and is C itself; gemm() settles both
    Activation activation = Activation::none;   // none, relu, gelu or gelu_tanh; floating point only
    Float32Precision precision = Float32Precision::highest;
    Prepared* prepared_a = nullptr;   // of A or B, if they never change: what is derived from them is kept there
    Prepared* prepared_b = nullptr;
};

// The problem A B = C of tensors with two dimensions, or three with the batch first. Throws InvalidArgument where
// shapes or dtypes do not fit. D, if defined, is expanded to C's shape.
GemmProblem gemm_problem(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d = {});

// Enqueues the product. Only memory, offset and dtype of the tensors are used; the problem says the rest. Throws
// InvalidArgument (negative sizes, dtypes that differ, boolean, an activation of integers), NotSupported (float64 or
// complex128 on a device without fp64).
void gemm(Queue& queue, const GemmProblem& problem, const Tensor& a, const Tensor& b, const Tensor& c,
          const Tensor& d = {});

// One line that says all that decides the speed of a problem.
std::string describe(const GemmProblem& problem);

}  // namespace clprim
CLPRIM_API_END
