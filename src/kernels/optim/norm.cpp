// Norms of many tensors in two launches.
#include <clprim/optim.hpp>

#include <cmath>

#include <clprim/context.hpp>
#include <core/operands.hpp>
#include <kernels/optim/multi_tensor.hpp>
#include <kernels/team.hpp>

namespace clprim {

void foreach_norm(Queue& queue, const TensorList& tensors, double order, const Tensor& norms)
{
    detail::check_operands("foreach_norm", {{"norms", norms}});
    require(order == 1 || order == 2 || order == INFINITY, "foreach_norm: the order is 1, 2 or infinity, got ", order);
    if (tensors.empty())
        return;
    const DataType dtype = tensors[0].dtype, acc = detail::accumulate_type(dtype);
    multi_tensor_options(std::array{&tensors}, "foreach_norm");
    detail::require_elements("foreach_norm", {"norms", norms}, static_cast<std::int64_t>(tensors.size()), dtype);
    require(norms.is_contiguous(), "foreach_norm: norms must be contiguous");
    const bool cpu = queue.device().kind == DeviceKind::cpu;
    std::vector<std::uint64_t> bounds = {0};
    for (const Tensor& tensor : tensors)
        bounds.push_back(bounds.back() + multi_tensor_parts(queue.device(), tensor));
    const auto count = static_cast<std::int64_t>(bounds.back());
    const Tensor parts = queue.context().empty({std::max<std::int64_t>(count, 1)}, acc, queue);
    TensorList starts(tensors.size(), parts);
    for (std::size_t t = 0; t < tensors.size(); ++t)
        starts[t].offset += static_cast<std::int64_t>(bounds[t]);
    const Tensor limits = queue.context().empty({static_cast<std::int64_t>(bounds.size())}, DataType::uint64, queue);
    queue.write(limits, std::span<const std::uint64_t>(bounds));
    const Program& program = queue.context().program(
        "kernels/optim/norm.cl", detail::concat("-DT=", name_of(dtype), " -DLISTS=2 -DNORM=",
                                                order == INFINITY ? 0 : static_cast<int>(order),
                                                acc == DataType::float64 ? " -DWIDE" : ""));
    launch_multi_tensor(queue, program.kernel("norm_parts"), std::array<const TensorList*, 2>{&tensors, &starts}, {});
    const std::size_t team = cpu ? 1 : detail::team_for(queue.device()).size;
    queue.launch(program.kernel("norm_totals"), Range::groups(tensors.size(), team), parts, limits, norms);
}

}  // namespace clprim
