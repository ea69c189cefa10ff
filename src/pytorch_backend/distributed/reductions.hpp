// How reductions of every dtype become those that engines for the CPU have.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace torch_ocl::distributed {

using RedOp = c10d::ReduceOp::RedOpType;

const char* name_of(RedOp op);
bool averages(RedOp op);

// Why there is no such reduction, or nothing. `op` without PREMUL_SUM, which is a product and a sum.
std::optional<std::string> refuses(RedOp op, at::ScalarType dtype);

// The tensor that an engine reduces instead of a host tensor, with which operation; `back` writes the result into it.
struct Reducible {
    at::Tensor tensor;
    RedOp op;
    std::function<void()> back;   // empty where they share memory
};
Reducible reducible(const at::Tensor& host, RedOp op);

// Reduces what each rank gave into one, on the host, in the order of the ranks; halves are added in float32. The result
// may be one of the rows.
void reduce_rows(const std::vector<at::Tensor>& rows, at::Tensor& result, RedOp op);

// Tensors multiplied by the factor of a PREMUL_SUM.
at::Tensor premultiplied(const at::Tensor& tensor, const c10d::ReduceOp& op);
void premultiply_(at::Tensor& tensor, const c10d::ReduceOp& op);

void divide_(at::Tensor& sum, int size);   // AVG

}  // namespace torch_ocl::distributed
