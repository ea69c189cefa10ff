// Convolution by matrix instructions on the host side: what its files share.
#pragma once

#include <optional>

#include <kernels/conv/problem.hpp>
#include <kernels/gemm/problem.hpp>

namespace clprim::conv {

struct MatrixProduct {
    GemmProblem problem;
    detail::GemmTensors tensors;
};

// The product that a call of one tap is, if all of its operands can be read eight elements at a time.
std::optional<MatrixProduct> as_matrix_product(const Call& call);

// A forward or data pass by block reads of two dimensions (gpu_matrix_blocks.cl), and whether they can take it.
bool in_blocks(const Call& call, const Device& device);
void run_in_blocks(Queue& queue, const Call& call);
// The same of a weight gradient (gpu_matrix_blocks_weight.cl).
bool weight_in_blocks(const Call& call, const Device& device);
void run_weight_in_blocks(Queue& queue, const Call& call);
// Whether both build on a device and come out right there: found out once, by convolutions whose results are known, and
// kept on disk for as long as driver and kernels stay the same. Waits for the device.
bool blocks_work(const Device& device, DataType type);
// The same of weight gradients by loads that transpose (gpu_matrix_turned_weight.cl), which this point asks for.
bool turned_works(const Device& device, DataType type);
Point turned_point();

}  // namespace clprim::conv
