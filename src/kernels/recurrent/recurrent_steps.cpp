#include <clprim/recurrent.hpp>

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/pointwise.hpp>

#include "core/operands.hpp"
#include "kernels/recurrent/recurrent_panels.hpp"

namespace clprim {
namespace {

// recurrent_steps_t of cpu_recurrent_steps.cl
struct Geometry {
    cl_uint steps, batch, hidden, directions;
    cl_uint reversed, saves, has_h, has_c, has_lengths, has_grad_y;
    cl_uint bias_gates;
    cl_uint gate[4];
    cl_uint h_direction, h_sample, c_direction, c_sample;
    cl_uint y_step, y_direction, y_sample, last_h_direction, last_h_sample, last_c_direction, last_c_sample;
    cl_uint begin, end, parts, starts, ends;
};

constexpr std::int64_t block = 16, most_rows = 8;
// As measured: steps that are worth packing the weights; where those leave the caches that a core has to itself; a step
// of fewer rows takes as long as of that many, since it waits for the weights; two launches a step, in multiplications.
constexpr std::int64_t least_steps = 8, most_hidden = 512, least_rows = 4, launch_cost = 800000;

// How all steps are done.
enum class Way {
    walk,        // by one launch, in which a work-item has whole sequences
    by_step,     // by a launch for each, in which all cores share the hidden numbers of a few sequences
    products     // not here: by a product and a cell for each
};

std::int64_t gates_of(RecurrentCell cell)
{
    return cell == RecurrentCell::lstm ? 4 : cell == RecurrentCell::gru ? 3 : 1;
}

cl_uint u(std::int64_t v) { return static_cast<cl_uint>(v); }

// Sequences of a work-item: as many as leave one for each core.
std::int64_t rows_for(const Device& device, std::int64_t batch, std::int64_t directions)
{
    const std::int64_t cores = std::max<std::int64_t>(device.compute_units, 1), walks = batch * directions;
    const auto each = static_cast<std::uint64_t>(std::max<std::int64_t>((walks + cores - 1) / cores, 1));
    return std::min(static_cast<std::int64_t>(std::bit_ceil(each)), most_rows);
}

// batch: sequences of all directions. backward: the way back follows, which is a walk.
Way way_of(const Device& device, RecurrentCell cell, std::int64_t batch, std::int64_t hidden, bool backward)
{
    const std::int64_t rows = rows_for(device, batch, 1), cores = std::max<std::int64_t>(device.compute_units, 1);
    const std::int64_t weights = gates_of(cell) * hidden * hidden;
    const std::int64_t turns = ((batch + rows - 1) / rows + cores - 1) / cores;
    const std::int64_t walk = turns * std::max(rows, least_rows) * weights;
    const std::int64_t shared = std::max(batch, least_rows) * weights / cores;
    if (!backward && batch <= most_rows && (hidden > most_hidden || walk > shared + launch_cost / 2))
        return Way::by_step;
    return hidden <= most_hidden && walk <= shared + launch_cost ? Way::walk : Way::products;
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
    check("saved", p.saved, s.all(4 * s.hidden), backward && s.gates > 1);
    check("cells", p.cells, s.all(s.hidden), is_lstm && p.saved.defined());
    return s;
}

Kernel& kernel_for(Queue& queue, const char* name, RecurrentCell cell, std::int64_t rows, std::int64_t hidden)
{
    require(queue.device().kind == DeviceKind::cpu, name, ": only on CPU devices, got ", queue.device().name);
    return queue.context()
        .program("kernels/recurrent/cpu_recurrent_steps.cl",
                 fmt::format("-DCELL={} -DROWS={} -DSHORT={}", static_cast<int>(cell), rows, hidden < block ? 1 : 0))
        .kernel(name);
}

}  // namespace

namespace detail {

Dims panels_shape(std::int64_t directions, std::int64_t hidden, std::int64_t gates)
{
    return {directions, (hidden + block - 1) / block, hidden, gates, std::min(hidden, block)};
}

Tensor recurrent_panels(Queue& queue, const Tensor& weights, RecurrentCell cell)
{
    const std::int64_t directions = weights.size(0), n = weights.size(2), gates = gates_of(cell);
    const std::int64_t width = std::min(n, block), whole = n / width;
    const Tensor panels = queue.context().empty(panels_shape(directions, n, gates), DataType::float32, queue);
    // The last block ends where the columns do.
    const auto put = [&](std::int64_t first, std::int64_t count, std::int64_t from) {
        const std::int64_t row = weights.stride(1);
        Tensor given = weights;
        given.offset += from * row;
        given.shape = {directions, count, n, gates, width};
        given.strides = {weights.stride(0), width * row, weights.stride(2), n * row, row};
        copy(queue, given, panels.slice(1, first, first + count));
    };
    put(0, whole, 0);
    if (n % width)
        put(whole, 1, n - width);
    return panels;
}

void walk_panels(Queue& queue, const PanelWalk& p)
{
    const std::int64_t steps = p.y.size(0), directions = p.y.size(1), batch = p.y.size(2), hidden = p.y.size(3);
    const bool by_step = way_of(queue.device(), p.cell, batch * directions, hidden, p.saved.defined()) ==
                         Way::by_step;
    const std::int64_t rows = by_step ? static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(batch)))
                                      : rows_for(queue.device(), batch, directions);
    const auto empty = [&](std::int64_t n) {
        return queue.context().empty({n, directions, batch, hidden}, DataType::float32, queue);
    };
    const bool is_lstm = p.cell == RecurrentCell::lstm;
    Tensor h = p.h, c = p.c, cells = p.cells;
    if (is_lstm && !cells.defined())
        cells = empty(2);
    if (by_step && !(h.defined() && (c.defined() || !is_lstm))) {
        const Tensor nothing = empty(1).reshape({directions, batch, hidden});
        fill(queue, nothing, 0);
        h = h.defined() ? h : nothing;
        c = c.defined() ? c : nothing;
    }
    const auto stride = [](const Tensor& t, std::size_t axis) { return t.defined() ? u(t.stride(axis)) : 0; };
    Geometry g{u(steps), u(batch), u(hidden), u(directions), p.reversed, p.saved.defined(), h.defined(), c.defined(),
               p.lengths.defined(), 0, p.bias.defined() ? u(p.bias.size(1) / hidden) : 0, {},
               stride(h, 0), stride(h, 1), stride(c, 0), stride(c, 1),
               u(p.y.stride(0)), u(p.y.stride(1)), u(p.y.stride(2)),
               stride(p.last_h, 0), stride(p.last_h, 1), stride(p.last_c, 0), stride(p.last_c, 1),
               0, u(steps), 1, 1, 1};
    std::copy(p.gate.begin(), p.gate.end(), g.gate);
    Kernel& kernel = kernel_for(queue, "recurrent_steps", p.cell, rows, hidden);
    const std::int64_t walks = (batch + rows - 1) / rows * directions;
    const auto launch = [&] {
        queue.launch(kernel, Range::groups(static_cast<std::size_t>(walks * g.parts)), p.gates, p.panels, p.bias,
                     p.lengths, h, c, p.y, cells, p.saved, p.last_h, p.last_c, g);
    };
    const std::int64_t cores = std::max<std::int64_t>(queue.device().compute_units, 1);
    const std::int64_t parts = std::min((cores + walks - 1) / walks, (hidden + block - 1) / block);
    if (!by_step || parts == 1)         // nobody has to wait for another's part of a step
        return launch();
    g.starts = g.ends = 0;
    g.parts = u(parts);
    for (g.begin = 0; g.begin < g.steps; ++g.begin) {
        g.end = g.begin + 1;
        launch();
    }
    g.parts = g.ends = 1;
    launch();
}

}  // namespace detail

bool takes_recurrent_steps(const Device& device, RecurrentCell cell, const Dims& y, DataType dtype, bool backward)
{
    if (device.kind != DeviceKind::cpu || dtype != DataType::float32 || y.size() != 3 || y[0] < least_steps ||
        y[1] == 0 || y[2] == 0)
        return false;
    return way_of(device, cell, y[1], y[2], backward) != Way::products;
}

void recurrent_steps(Queue& queue, const RecurrentSteps& p, const Tensor& hidden)
{
    static constexpr auto name = "recurrent_steps";
    const Shapes s = check_steps(name, p, false);
    const bool is_lstm = p.cell == RecurrentCell::lstm;
    const Checks check(name);
    check("gates", p.gates, s.all(s.gates * s.hidden), true);
    check("hidden", hidden, {s.gates * s.hidden, s.hidden}, true);
    check("last_h", p.last_h, {s.batch, s.hidden}, true);
    check("last_c", p.last_c, {s.batch, s.hidden}, is_lstm);
    require(p.cell == RecurrentCell::gru || !p.hidden_bias.defined(), name, ": hidden_bias is gru's alone");
    check("hidden_bias", p.hidden_bias, {3 * s.hidden}, false);
    if (p.y.numel() == 0)
        return;
    const auto of_one = [&](const Tensor& t) {   // direction
        return t.defined() ? t.reshape({1, s.batch, s.hidden}) : t;
    };
    detail::PanelWalk walk;
    walk.cell = p.cell;
    walk.reversed = p.reversed;
    walk.gates = p.gates;
    walk.panels = detail::recurrent_panels(queue, hidden.reshape({1, s.gates * s.hidden, s.hidden}), p.cell);
    walk.bias = p.hidden_bias.defined() ? p.hidden_bias.reshape({1, 3 * s.hidden}) : Tensor();
    walk.h = of_one(p.h);
    walk.c = of_one(p.c);
    walk.y = p.y.reshape({s.steps, 1, s.batch, s.hidden});
    walk.cells = p.saved.defined() ? p.cells : Tensor();
    walk.saved = p.saved;
    walk.last_h = of_one(p.last_h);
    walk.last_c = of_one(p.last_c);
    detail::walk_panels(queue, walk);
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
    const std::int64_t rows = rows_for(queue.device(), s.batch, 1);
    Geometry g{};
    g.steps = u(s.steps);
    g.batch = u(s.batch);
    g.hidden = u(s.hidden);
    g.reversed = p.reversed;
    g.has_grad_y = gradients.y.defined();
    queue.launch(kernel_for(queue, name, p.cell, rows, s.hidden),
                 Range::groups(static_cast<std::size_t>((s.batch + rows - 1) / rows)), hidden, p.h, p.c, p.y, p.cells,
                 p.saved, gradients.y, gradients.states_h, gradients.states_c, gradients.gates, gradients.hidden, g);
}

}  // namespace clprim
