// Arguments of collectives as flat tensors.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace torch_ocl::distributed {

// Results that land beside their tensor, since that one has gaps or another order of its axes.
using Moves = std::vector<std::pair<at::Tensor, at::Tensor>>;   // to, from

at::Tensor flat_source(const at::Tensor& tensor);
at::Tensor flat_target(const at::Tensor& tensor, Moves& moves);      // fresh where it cannot be the tensor itself
at::Tensor flat_in_place(const at::Tensor& tensor, Moves& moves);    // holds what the tensor holds
bool of_one_size(const std::vector<at::Tensor>& tensors);
std::vector<at::Tensor> all_of(const std::vector<at::Tensor>& some, const at::Tensor& last);
std::function<void()> finish(Moves moves, std::function<void()> more = {});

std::string name_of(at::ScalarType dtype);                           // as in torch.float32
std::string described(const at::Tensor& tensor);                     // "float32[2, 3]"
std::string counted(const at::Tensor& tensor);                       // "6 elements of float32"

}  // namespace torch_ocl::distributed
