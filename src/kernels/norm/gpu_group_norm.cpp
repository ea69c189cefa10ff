// Launches gpu_group_norm.cl.
#include <kernels/norm/gpu_group_norm.hpp>

#include <algorithm>

#include <core/gpu_rate.hpp>

namespace clprim::detail {

namespace {

struct Cut {   // cut_t of gpu_group_norm.cl
    cl_uint groups, channels, inner, part;
};

const Program& program(Queue& queue, DataType x, DataType weight, Team team)
{
    return queue.context().program("kernels/norm/gpu_group_norm.cl",
                                   define("X", x) + define("W", weight) + define_team(team, accumulate_type(x)));
}

// Elements of a part where `lines` lines of `length` elements fill the device; some steps of a work-item at least.
std::int64_t part_of(const Device& device, Team team, std::int64_t lines, std::int64_t length)
{
    constexpr std::int64_t least = 4;
    const std::int64_t step = std::int64_t{team.size} * team.vec;
    const std::int64_t parts = std::clamp<std::int64_t>(resident_items(device) / team.size / lines, 1, 256);
    return std::max(divide_up(length, parts * step), least) * step;
}

Cut cut_of(const GroupedShape& shape, std::int64_t part)
{
    return {cl_uint(shape.groups), cl_uint(shape.channels), cl_uint(shape.inner), cl_uint(part)};
}

// Groups (part of a line, line).
Range parts_of(std::int64_t lines, std::int64_t length, std::int64_t part, Team team)
{
    return Range::groups({std::size_t(divide_up(length, part)), std::size_t(lines), 1}, {team.size, 1, 1});
}

}  // namespace

bool gpu_group_norm_pays(const Device& device, const GroupedShape& shape, Team team)
{
    constexpr std::int64_t worth_a_launch = 32, most_lines = 65535;   // steps of a work-item; groups along an axis
    const std::int64_t step = std::int64_t{team.size} * team.vec, rows = shape.samples * shape.groups;
    return device.kind == DeviceKind::gpu && 2 * rows * team.size <= resident_items(device) &&
           shape.channels * shape.inner >= worth_a_launch * step && rows * shape.channels <= most_lines;
}

void gpu_group_norm(Queue& queue, const GroupNorm& p, const GroupedShape& shape, DataType weight, Team team)
{
    const DataType acc = accumulate_type(p.x.dtype);
    const Program& kernels = program(queue, p.x.dtype, weight, team);
    const std::int64_t rows = shape.samples * shape.groups, lines = rows * shape.channels;
    const std::int64_t row = shape.channels * shape.inner, row_part = part_of(queue.device(), team, rows, row),
                       part = part_of(queue.device(), team, lines, shape.inner);
    const Tensor partial = queue.context().empty({2, rows, divide_up(row, row_part)}, acc, queue);
    queue.launch(kernels.kernel("group_norm_parts"), parts_of(rows, row, row_part, team), p.x, partial,
                 cut_of(shape, row_part));
    launch(queue, kernels.kernel("group_norm_rest"), parts_of(lines, shape.inner, part, team), p.x, p.weight, p.bias,
           p.y, p.mean, p.rstd, partial, cut_of(shape, part), cl_uint(row_part), AccScalar{p.eps, acc});
}

void gpu_group_norm_backward(Queue& queue, const GroupNormBackward& p, const GroupedShape& shape, DataType weight,
                             Team team)
{
    const Program& kernels = program(queue, p.x.dtype, weight, team);
    const std::int64_t lines = shape.samples * shape.groups * shape.channels,
                       part = part_of(queue.device(), team, lines, shape.inner),
                       parts = divide_up(shape.inner, part), channels = shape.groups * shape.channels;
    const Tensor partial =
        queue.context().empty({2, shape.samples, parts, channels}, accumulate_type(p.x.dtype), queue);
    const Range range = parts_of(lines, shape.inner, part, team);
    queue.launch(kernels.kernel("group_norm_sums"), range, p.grad_output, p.x, p.mean, p.rstd, partial,
                 cut_of(shape, part));
    if (p.grad_input.defined())
        queue.launch(kernels.kernel("group_norm_gradient"), range, p.grad_output, p.x, p.weight, p.mean, p.rstd,
                     p.grad_input, partial, cut_of(shape, part));
    const std::int64_t all = shape.samples * parts;
    if (p.grad_weight.defined() || p.grad_bias.defined())
        queue.launch(kernels.kernel("sum_parts"), column_range(queue.device(), channels, all), partial, cl_uint(all),
                     cl_uint(channels), p.grad_weight, p.grad_bias);
}

}  // namespace clprim::detail
