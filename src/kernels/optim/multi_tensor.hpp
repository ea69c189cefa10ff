// One launch over many tensors (multi_tensor.cl): grouping by buffers, and the table.
#pragma once

#include <functional>
#include <span>
#include <string>

#include <clprim/optim.hpp>

namespace clprim {

// The dtypes and shapes of lists, checked: equal lengths; every list but `steps` (-1: none) has the dtype of the first
// and its elements the numel of the first list's; those of `steps` have one element of `steps_type`. Build options for
// the lists: -DT, -DLISTS, -DWIDE.
std::string multi_tensor_options(std::span<const TensorList* const> lists, std::string_view name, int steps = -1,
                                 DataType steps_type = DataType::float32);

// Launches `kernel` for all tensors, in as many launches as their buffers need (mostly one). `scalars` as for foreach;
// `more` sets the arguments after the table and the buffers.
void launch_multi_tensor(Queue& queue, Kernel& kernel, std::span<const TensorList* const> lists,
                         std::span<const double> scalars, const std::function<void(Launch&)>& more = {});

// Into how many parts a launch cuts a tensor: work-groups, on CPUs work-items.
std::uint64_t multi_tensor_parts(const Device& device, const Tensor& tensor);

}  // namespace clprim
