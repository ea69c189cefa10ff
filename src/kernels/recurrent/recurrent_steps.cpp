#include <clprim/recurrent.hpp>

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>

#include "core/operands.hpp"

namespace clprim {
namespace {

// recurrent_steps_t of cpu_recurrent_steps.cl
struct Geometry {
    cl_uint steps, batch, hidden;
    cl_uint reversed, has_bias, saves, has_grad_y;
};

constexpr std::int64_t block = 16, most_rows = 8;
// As measured: steps that are worth packing the weights; where those leave the caches that a core has to itself; a step
// of fewer rows takes as long as of that many, since it waits for the weights; two launches a step, in multiplications.
constexpr std::int64_t least_steps = 8, most_hidden = 512, least_rows = 4, launch_cost = 800000;

std::int64_t gates_of(RecurrentCell cell)
{
    return cell == RecurrentCell::lstm ? 4 : cell == RecurrentCell::gru ? 3 : 1;
}

// Sequences of a work-item: as many as leave one for each core.
std::int64_t rows_for(const Device& device, std::int64_t batch)
{
    const std::int64_t cores = std::max<std::int64_t>(device.compute_units, 1);
    const auto each = static_cast<std::uint64_t>(std::max<std::int64_t>((batch + cores - 1) / cores, 1));
    return std::min(static_cast<std::int64_t>(std::bit_ceil(each)), most_rows);
}

struct Shapes {
    std::int64_t steps, batch, hidden, gates;

    Dims all(std::int64_t width) const { return {steps, batch, width}; }
};

class Checks {
public:
    explicit Checks(const char* name) : name_(name) {}

    void operator()(const char* argument, const Tensor& tensor, const Dims& shape, bool needed) const
    {
        if (!tensor.defined() && !needed)
            return;
        require(tensor.defined(), name_, ": expected ", argument, " of ", to_string(shape));
        tensor.check(name_, argument);
        require(tensor.shape == shape && tensor.dtype == DataType::float32 && tensor.is_contiguous(), name_, ": ",
                argument, " must be contiguous float32 ", to_string(shape), ", got ", name_of(tensor.dtype), " ",
                to_string(tensor.shape));
    }

private:
    const char* name_;
};

// Of what both directions of time read or write.
Shapes check_steps(const char* name, const RecurrentSteps& p, bool backward)
{
    detail::check_operands(name, {{"y", p.y}});
    require(p.y.dim() == 3, name, ": y must be [T, N, H], got ", to_string(p.y.shape));
    const Shapes s{p.y.size(0), p.y.size(1), p.y.size(2), gates_of(p.cell)};
    const bool is_lstm = p.cell == RecurrentCell::lstm;
    const Checks check(name);
    check("y", p.y, s.all(s.hidden), true);
    check("h", p.h, {s.batch, s.hidden}, true);
    check("c", p.c, {s.batch, s.hidden}, is_lstm);
    check("cells", p.cells, s.all(s.hidden), is_lstm);
    check("saved", p.saved, s.all(4 * s.hidden), backward && s.gates > 1);
    return s;
}

// hidden [G H, H] as the kernel reads it (cpu_recurrent_steps.cl): the last of its blocks ends where the rows do.
Tensor panels_of(Queue& queue, const Tensor& hidden, const Shapes& s)
{
    const std::int64_t n = s.hidden, width = std::min(n, block), whole = n / width;
    const std::int64_t blocks = whole + (n % width ? 1 : 0);
    const Tensor panels = queue.context().empty({blocks, n, s.gates, width}, DataType::float32, queue);
    const Tensor rows = hidden.reshape({s.gates, n, n});
    const auto put = [&](std::int64_t first, std::int64_t count, std::int64_t from) {
        Tensor given = rows.slice(1, from, from + count * width);
        given.shape = {count, n, s.gates, width};
        given.strides = {width * n, 1, n * n, n};
        copy(queue, given, panels.slice(0, first, first + count));
    };
    put(0, whole, 0);
    if (whole < blocks)
        put(whole, 1, n - width);
    return panels;
}

Kernel& kernel_for(Queue& queue, const char* name, const RecurrentSteps& p, const Shapes& s)
{
    require(queue.device().kind == DeviceKind::cpu, name, ": only on CPU devices, got ", queue.device().name);
    return queue.context()
        .program("kernels/recurrent/cpu_recurrent_steps.cl",
                 fmt::format("-DCELL={} -DROWS={} -DSHORT={}", static_cast<int>(p.cell),
                             rows_for(queue.device(), s.batch), s.hidden < block ? 1 : 0))
        .kernel(name);
}

Range range_for(const Queue& queue, const Shapes& s)
{
    const std::int64_t rows = rows_for(queue.device(), s.batch);
    return Range::groups(static_cast<std::size_t>((s.batch + rows - 1) / rows));
}

Geometry geometry_of(const RecurrentSteps& p, const Shapes& s, bool has_grad_y)
{
    const auto u = [](std::int64_t v) { return static_cast<cl_uint>(v); };
    return {u(s.steps), u(s.batch), u(s.hidden), p.reversed, p.hidden_bias.defined(), p.saved.defined(), has_grad_y};
}

}  // namespace

bool takes_recurrent_steps(const Device& device, RecurrentCell cell, const Dims& y, DataType dtype)
{
    if (device.kind != DeviceKind::cpu || dtype != DataType::float32 || y.size() != 3 || y[0] < least_steps)
        return false;
    const std::int64_t batch = y[1], hidden = y[2], rows = rows_for(device, batch);
    if (batch == 0 || hidden == 0 || hidden > most_hidden)
        return false;
    const std::int64_t cores = std::max<std::int64_t>(device.compute_units, 1);
    const std::int64_t weights = gates_of(cell) * hidden * hidden;
    const std::int64_t turns = ((batch + rows - 1) / rows + cores - 1) / cores;
    return turns * std::max(rows, least_rows) * weights <= std::max(batch, least_rows) * weights / cores + launch_cost;
}

void recurrent_steps(Queue& queue, const RecurrentSteps& p, const Tensor& hidden)
{
    static constexpr auto name = "recurrent_steps";
    const Shapes s = check_steps(name, p, false);
    const Checks check(name);
    check("gates", p.gates, s.all(s.gates * s.hidden), true);
    check("hidden", hidden, {s.gates * s.hidden, s.hidden}, true);
    require(p.cell == RecurrentCell::gru || !p.hidden_bias.defined(), name, ": hidden_bias is gru's alone");
    check("hidden_bias", p.hidden_bias, {3 * s.hidden}, false);
    if (p.y.numel() == 0)
        return;
    queue.launch(kernel_for(queue, name, p, s), range_for(queue, s), p.gates, panels_of(queue, hidden, s),
                 p.hidden_bias, p.h, p.c, p.y, p.cells, p.saved, geometry_of(p, s, false));
}

void recurrent_steps_backward(Queue& queue, const RecurrentSteps& p, const Tensor& hidden,
                              const RecurrentStepsGradients& gradients)
{
    static constexpr auto name = "recurrent_steps_backward";
    const Shapes s = check_steps(name, p, true);
    const Checks check(name);
    check("hidden", hidden, {s.gates * s.hidden, s.hidden}, true);
    check("gradient of y", gradients.y, s.all(s.hidden), false);
    check("gradient of h", gradients.states_h, {2, s.batch, s.hidden}, true);
    check("gradient of c", gradients.states_c, {2, s.batch, s.hidden}, p.cell == RecurrentCell::lstm);
    check("gradient of the gates", gradients.gates, s.all(s.gates * s.hidden), true);
    check("gradient of the hidden part", gradients.hidden, s.all(3 * s.hidden), p.cell == RecurrentCell::gru);
    if (p.y.numel() == 0)
        return;
    queue.launch(kernel_for(queue, name, p, s), range_for(queue, s), hidden, p.h, p.c, p.y, p.cells, p.saved,
                 gradients.y, gradients.states_h, gradients.states_c, gradients.gates, gradients.hidden,
                 geometry_of(p, s, gradients.y.defined()));
}

}  // namespace clprim
