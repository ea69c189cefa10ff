// Layer, RMS and group norm.
#include <clprim/norm.hpp>

#include <algorithm>

#include "kernels/norm/gpu_group_norm.hpp"
#include "kernels/team.hpp"
#include "core/gpu_rate.hpp"
#include "core/operands.hpp"

namespace clprim {
namespace {

using detail::AccScalar;
using detail::divide_up;

// What the kernels of one call share.
struct Rows {
    Queue& queue;
    DataType acc;
    detail::Team team;
    const Program& program;
    bool cpu;

    // `row` is the length a team walks at a time, of the tensors given.
    Rows(Queue& queue_, DataType x, DataType weight, std::int64_t row, bool rms,
         std::initializer_list<const Tensor*> tensors)
        : queue(queue_), acc(detail::accumulate_type(x)), team(team_of(queue.device(), row, tensors)),
          program(queue.context().program("kernels/norm/row_norm.cl",
                                          detail::define("X", x) + detail::define("W", weight) +
                                              detail::define_team(team, acc) + (rms ? " -DRMS" : ""))),
          cpu(team.size == 1)
    {
    }

    static detail::Team team_of(const Device& device, std::int64_t row, std::initializer_list<const Tensor*> tensors)
    {
        detail::Team team = detail::team_for_rows(device, row, tensors);
        detail::share_group(team, device);
        return team;
    }
    cl_uint share(std::int64_t rows) const
    {
        return cpu ? divide_up(rows, std::int64_t(queue.device().compute_units) * 16) : 1;
    }
    Range range(std::int64_t rows) const { return Range::groups(divide_up(rows, share(rows)), team.size); }

    void sum_parts(const Tensor& partial, std::int64_t parts, std::int64_t n, const Tensor& grad_weight,
                   const Tensor& grad_bias) const
    {
        queue.launch(program.kernel("sum_parts"),
                     cpu ? Range::linear(n, 64) : detail::column_range(queue.device(), n, parts), partial,
                     cl_uint(parts), cl_uint(n), grad_weight, grad_bias);
    }
};

DataType weight_type(DataType x, std::initializer_list<const Tensor*> tensors, std::int64_t n)
{
    DataType type = x;
    for (const Tensor* t : tensors)
        if (t->defined()) {
            require(t->numel() == n && t->is_contiguous(), "norm: weight, bias and their gradients must be contiguous "
                    "with ", n, " elements, got ", to_string(t->shape));
            type = t->dtype;
        }
    for (const Tensor* t : tensors)
        require(!t->defined() || t->dtype == type, "norm: weight, bias and their gradients differ in dtype");
    return type;
}

std::int64_t row_count(const Tensor& x, std::int64_t n)
{
    require(n > 0 && n < (std::int64_t(1) << 31) && x.numel() % n == 0, "norm: rows of ", n, " do not fit shape ",
            to_string(x.shape));
    return x.numel() / n;
}

// Statistics of rows, of the type of sums.
void require_rows(const Tensor& statistic, const char* name, const Tensor& x, std::int64_t rows)
{
    const DataType acc = detail::accumulate_type(x.dtype);
    require(!statistic.defined() ||
                (statistic.numel() == rows && statistic.is_contiguous() && statistic.dtype == acc),
            "norm: ", name, " must be contiguous, with ", rows, " elements of ", name_of(acc), ", got ",
            to_string(statistic.shape));
}

void require_like(const Tensor& x, const Tensor& other)
{
    require(x.is_contiguous() && other.is_contiguous() && x.numel() == other.numel() && x.dtype == other.dtype,
            "norm: tensors must be contiguous, of one dtype and size, got ", to_string(x.shape), " and ",
            to_string(other.shape));
}

void zero_parameters(Queue& queue, const Tensor& a, const Tensor& b)
{
    const cl_uchar zero = 0;
    for (const Tensor* t : {&a, &b})
        if (t->defined() && t->numel() != 0)
            queue.fill(*t->memory, t->offset * size_of(t->dtype), t->nbytes(), &zero, 1);
}

}  // namespace

void layer_norm(Queue& queue, const LayerNorm& p)
{
    detail::check_operands("layer_norm", {{"x", p.x}, {"y", p.y}, {"weight", p.weight, detail::optional},
                                          {"bias", p.bias, detail::optional}, {"mean", p.mean, detail::optional},
                                          {"rstd", p.rstd}});
    require_like(p.x, p.y);
    if (p.x.numel() == 0)
        return;
    const std::int64_t rows = row_count(p.x, p.n);
    require_rows(p.mean, "mean", p.x, rows);
    require_rows(p.rstd, "rstd", p.x, rows);
    const Rows kernels(queue, p.x.dtype, weight_type(p.x.dtype, {&p.weight, &p.bias}, p.n), p.n, p.rms,
                       {&p.x, &p.y, &p.weight, &p.bias});
    const detail::Team team = kernels.team;
    const Range range = kernels.cpu ? kernels.range(rows)
                                    : Range::groups({std::size_t(divide_up(rows, std::int64_t(team.teams))), 1, 1},
                                                    {team.size, team.teams, 1});
    detail::launch(queue, kernels.program.kernel("layer_norm"), range, p.x, p.weight, p.bias, p.y,
                   p.mean, p.rstd, cl_ulong(rows), cl_uint(p.n), kernels.share(rows), AccScalar{p.eps, kernels.acc});
}

void layer_norm_backward(Queue& queue, const LayerNormBackward& p)
{
    detail::check_operands("layer_norm_backward", {{"grad_output", p.grad_output}, {"x", p.x},
                                                   {"weight", p.weight, detail::optional},
                                                   {"mean", p.mean, detail::optional}, {"rstd", p.rstd},
                                                   {"grad_input", p.grad_input, detail::optional},
                                                   {"grad_weight", p.grad_weight, detail::optional},
                                                   {"grad_bias", p.grad_bias, detail::optional}});
    require_like(p.x, p.grad_output);
    if (p.x.numel() == 0)
        return zero_parameters(queue, p.grad_weight, p.grad_bias);
    const std::int64_t rows = row_count(p.x, p.n);
    require_rows(p.mean, "mean", p.x, rows);
    require_rows(p.rstd, "rstd", p.x, rows);
    const DataType weight = weight_type(p.x.dtype, {&p.weight, &p.grad_weight, &p.grad_bias}, p.n);
    const Rows kernels(queue, p.x.dtype, weight, p.n, p.rms, {&p.x, &p.grad_output, &p.weight, &p.grad_input});
    if (p.grad_input.defined())
        require_like(p.x, p.grad_input);
    // A group keeps sums over its rows, so with gradients of the parameters it takes enough rows to be worth that.
    const bool parameters = p.grad_weight.defined() || p.grad_bias.defined();
    // Groups that a GPU holds at once: this many registers leave half of the room but on Intel's.
    const Device& device = queue.device();
    const std::int64_t items = detail::resident_items(device) / (detail::is_intel(device) ? 1 : 2),
                       units = kernels.cpu ? std::int64_t{device.compute_units}
                                           : std::max<std::int64_t>(items / 256, 1);
    std::int64_t share = kernels.share(rows);
    if (parameters)
        share = std::max(divide_up(rows, units * 8), std::min<std::int64_t>(32, divide_up(rows, units)));
    const std::int64_t groups = divide_up(rows, share);
    Tensor partial;
    if (parameters)
        partial = queue.context().empty({2, groups, p.n}, kernels.acc, queue);
    queue.launch(kernels.program.kernel("layer_norm_backward"), Range::groups(groups, kernels.team.size),
                 p.grad_output, p.x, p.weight, p.mean, p.rstd, p.grad_input, partial, cl_ulong(rows), cl_uint(p.n),
                 cl_uint(share));
    if (parameters)
        kernels.sum_parts(partial, groups, p.n, p.grad_weight, p.grad_bias);
}

namespace {

// x as [samples, groups, channels, inner].
struct Groups {
    std::int64_t samples, groups, channels, inner;

    Groups(const Tensor& x, std::int64_t groups_) : groups(groups_)
    {
        require(x.dim() >= 2 && groups > 0 && x.size(1) % groups == 0, "group_norm: ", groups,
                " groups do not divide the channels of ", to_string(x.shape));
        samples = x.size(0);
        channels = x.size(1) / groups;
        inner = x.numel() / std::max<std::int64_t>(1, samples * x.size(1));
        require(channels * inner < (std::int64_t(1) << 31), "group_norm: groups of 2^31 elements are not supported");
    }
};

// [samples, channels, inner] with channels innermost; a row-major tensor with one channel or pixel is not.
bool channels_innermost(const Tensor& x)
{
    return x.dim() == 3 && !x.is_contiguous() && x.stride(1) == 1 && x.stride(2) == x.size(1) &&
           (x.size(0) == 1 || x.stride(0) == x.size(1) * x.size(2));
}

constexpr std::int64_t most_channels = 2048;   // whose coefficients a work-item keeps beside the pixels

// shape_t of cpu_group_norm.cl.
struct ChannelsShape {
    cl_uint groups, channels, inner, part, parts;
};

void group_norm_of_channels(Queue& queue, const GroupNorm& p, const Groups& g)
{
    require(p.y.shape == p.x.shape && p.y.dtype == p.x.dtype && channels_innermost(p.y),
            "group_norm: y must have the layout of x");
    const DataType acc = detail::accumulate_type(p.x.dtype);
    const std::int64_t channels = p.x.size(1), wanted = 4 * std::int64_t(queue.device().compute_units);
    // Vectors of neighbouring channels are taken one after the other: a part stays in the cache meanwhile.
    const std::int64_t cached = divide_up(g.inner * channels * std::int64_t(size_of(p.x.dtype)), 128 << 10);
    const std::int64_t parts = std::clamp<std::int64_t>(std::max(divide_up(wanted, g.samples), cached), 1,
                                                        divide_up(g.inner, 64));
    const std::int64_t part = divide_up(g.inner, parts), used = divide_up(g.inner, part);
    const ChannelsShape shape{cl_uint(g.groups), cl_uint(channels), cl_uint(g.inner), cl_uint(part), cl_uint(used)};
    const Program& program = queue.context().program(
        "kernels/norm/cpu_group_norm.cl",
        detail::define("X", p.x.dtype) + detail::define("W", weight_type(p.x.dtype, {&p.weight, &p.bias}, channels)) +
            detail::define_team(detail::team_for(queue.device()), acc));
    const Tensor partial = queue.context().empty({g.samples, used, 2, channels}, acc, queue);
    const Range range = Range::groups({std::size_t(used), std::size_t(g.samples), 1}, {1, 1, 1});
    queue.launch(program.kernel("sums"), range, p.x, partial, shape);
    const std::size_t bytes = static_cast<std::size_t>(3 * channels + 16) * size_of(acc);
    detail::launch(queue, program.kernel("apply"), range, p.x, p.weight, p.bias, p.y, p.mean, p.rstd, partial, shape,
                   AccScalar{p.eps, acc}, LocalMemory{bytes});
}

}  // namespace

bool group_norm_takes_channels_last(const Device& device, std::int64_t channels)
{
    return device.kind == DeviceKind::cpu && channels >= 16 && channels <= most_channels &&
           device.local_memory >= (3 * most_channels + 16) * sizeof(double);
}

void group_norm(Queue& queue, const GroupNorm& p)
{
    detail::check_operands("group_norm", {{"x", p.x}, {"y", p.y}, {"weight", p.weight, detail::optional},
                                          {"bias", p.bias, detail::optional}, {"mean", p.mean}, {"rstd", p.rstd}});
    const bool innermost = channels_innermost(p.x) && group_norm_takes_channels_last(queue.device(), p.x.size(1));
    if (!innermost)
        require_like(p.x, p.y);
    if (p.x.numel() == 0)
        return;
    const Groups g(p.x, p.groups);
    require_rows(p.mean, "mean", p.x, g.samples * g.groups);
    require_rows(p.rstd, "rstd", p.x, g.samples * g.groups);
    if (innermost)
        return group_norm_of_channels(queue, p, g);
    const DataType weight = weight_type(p.x.dtype, {&p.weight, &p.bias}, p.x.size(1));
    const detail::GroupedShape shape{g.samples, g.groups, g.channels, g.inner};
    if (const auto team = detail::team_for_rows(queue.device(), g.inner, {&p.x, &p.y});
        detail::gpu_group_norm_pays(queue.device(), shape, team))
        return detail::gpu_group_norm(queue, p, shape, weight, team);
    const Rows kernels(queue, p.x.dtype, weight, g.inner, false, {&p.x, &p.y});
    detail::launch(queue, kernels.program.kernel("group_norm"), Range::groups(g.samples * g.groups, kernels.team.size),
                   p.x, p.weight, p.bias, p.y, p.mean, p.rstd, cl_uint(g.groups), cl_uint(g.channels),
                   cl_uint(g.inner), AccScalar{p.eps, kernels.acc});
}

void group_norm_backward(Queue& queue, const GroupNormBackward& p)
{
    detail::check_operands("group_norm_backward", {{"grad_output", p.grad_output}, {"x", p.x},
                                                   {"weight", p.weight, detail::optional}, {"mean", p.mean},
                                                   {"rstd", p.rstd}, {"grad_input", p.grad_input, detail::optional},
                                                   {"grad_weight", p.grad_weight, detail::optional},
                                                   {"grad_bias", p.grad_bias, detail::optional}});
    require_like(p.x, p.grad_output);
    if (p.x.numel() == 0)
        return zero_parameters(queue, p.grad_weight, p.grad_bias);
    if (p.grad_input.defined())
        require_like(p.x, p.grad_input);
    const Groups g(p.x, p.groups);
    require_rows(p.mean, "mean", p.x, g.samples * g.groups);
    require_rows(p.rstd, "rstd", p.x, g.samples * g.groups);
    const std::int64_t channels = p.x.size(1);
    const DataType weight = weight_type(p.x.dtype, {&p.weight, &p.grad_weight, &p.grad_bias}, channels);
    const detail::GroupedShape shape{g.samples, g.groups, g.channels, g.inner};
    if (const auto team = detail::team_for_rows(queue.device(), g.inner, {&p.x, &p.grad_output, &p.grad_input});
        detail::gpu_group_norm_pays(queue.device(), shape, team))
        return detail::gpu_group_norm_backward(queue, p, shape, weight, team);
    const Rows kernels(queue, p.x.dtype, weight, g.inner, false, {&p.x, &p.grad_output, &p.grad_input});
    const Tensor partial = queue.context().empty({2, g.samples, channels}, kernels.acc, queue);
    queue.launch(kernels.program.kernel("group_norm_backward"),
                 Range::groups(g.samples * g.groups, kernels.team.size), p.grad_output, p.x, p.weight, p.mean, p.rstd,
                 p.grad_input, partial, cl_uint(g.groups), cl_uint(g.channels), cl_uint(g.inner));
    if (p.grad_weight.defined() || p.grad_bias.defined())
        kernels.sum_parts(partial, g.samples, channels, p.grad_weight, p.grad_bias);
}

}  // namespace clprim
