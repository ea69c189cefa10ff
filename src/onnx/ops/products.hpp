// Products of matrices with any number of batch axes.
#pragma once

#include <clprim/gemm.hpp>

#include "onnx/call.hpp"

namespace clprim::onnx {

// c = alpha * a b for a [..., m, k], b [..., k, n], c [..., m, n]; the batch axes of a and b broadcast to c's. Any
// strides of a and b are taken as they are; c must not overlap itself.
void batched_product(Queue& queue, const Tensor& a, const Tensor& b, const Tensor& c, Scalar alpha = 1);

// y [rows, n] = x [rows, k] w [k, n] + bias [n], which may be undefined, where w is of the call's input 1, whole, and
// never changes: on CPUs without tile registers, by a kernel that packs w once. Says whether it did.
bool as_convolution(const Call& call, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                    Activation activation = Activation::none);

// [B, H, S, D] as [B, groups, H / groups, S, D]: heads that share a key, for batched_product.
Tensor grouped(const Tensor& heads, std::int64_t groups);

}  // namespace clprim::onnx
