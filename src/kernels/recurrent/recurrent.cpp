#include "kernels/recurrent/recurrent.hpp"

#include <fmt/format.h>

#include <clprim/context.hpp>

#include "core/operands.hpp"
#include "kernels/recurrent/recurrent_panels.hpp"
#include "kernels/recurrent/recurrent_words.hpp"
#include "kernels/team.hpp"

namespace clprim {

using detail::require_shape;

namespace {

// recurrent_t of recurrent.cl
struct Geometry {
    cl_uint steps, batch, inputs, hidden;
    cl_uint reversed, has_bias, has_recurrent_bias, has_lengths, has_h, has_c;
    cl_uint h_direction, h_sample, c_direction, c_sample;
    cl_uint y_step, y_direction, y_sample, last_h_direction, last_h_sample, last_c_direction, last_c_sample;
};

cl_uint u(std::int64_t v) { return static_cast<cl_uint>(v); }

// Of recurrent_cpu.cl, in local memory.
std::size_t cpu_floats(std::int64_t gates, std::int64_t hidden, std::int64_t inputs)
{
    return static_cast<std::size_t>((2 * gates + 2) * hidden + inputs);
}

RecurrentCell steps_cell(RecurrentLayer::Cell cell)
{
    return cell == RecurrentLayer::Cell::lstm ? RecurrentCell::lstm : RecurrentCell::gru;
}

void walk_panels(Queue& queue, const RecurrentLayer& p)
{
    detail::PanelWalk walk;
    walk.cell = steps_cell(p.cell);
    walk.reversed = p.reversed;
    walk.gate = p.cell == RecurrentLayer::Cell::lstm ? std::array<cl_uint, 4>{0, 2, 3, 1}
                                                     : std::array<cl_uint, 4>{1, 0, 2, 0};
    walk.gates = p.projected;
    walk.panels = p.panels;
    walk.bias = p.recurrent_bias;
    walk.lengths = p.lengths;
    walk.h = p.h;
    walk.c = p.c;
    walk.y = p.y;
    walk.last_h = p.last_h;
    walk.last_c = p.last_c;
    detail::walk_panels(queue, walk);
}

}  // namespace

bool takes_panels(const Device& device, RecurrentLayer::Cell cell, DataType type)
{
    return device.kind == DeviceKind::cpu && type == DataType::float32 && cell != RecurrentLayer::Cell::gru;
}

Tensor pack_panels(Queue& queue, const Tensor& weights, RecurrentLayer::Cell cell)
{
    return detail::recurrent_panels(queue, weights, steps_cell(cell));
}

bool takes_bytes(const Device& device, std::int64_t hidden)
{
    return device.kind == DeviceKind::cpu && hidden <= most_recurrent_bytes &&
           (multiplies_bytes(device) || cpu_floats(4, hidden, 0) * sizeof(float) <= device.local_memory);
}

void recurrent_layer(Queue& queue, const RecurrentLayer& p)
{
    using detail::optional;
    detail::check_operands("recurrent_layer", {{"x", p.x, optional},
                                               {"weights", p.weights, optional},
                                               {"projected", p.projected, optional},
                                               {"recurrent", p.recurrent, optional},
                                               {"panels", p.panels, optional},
                                               {"scales", p.scales, optional},
                                               {"zeros", p.zeros, optional},
                                               {"bias", p.bias, optional},
                                               {"recurrent_bias", p.recurrent_bias, optional},
                                               {"lengths", p.lengths, optional},
                                               {"h", p.h, optional},
                                               {"c", p.c, optional},
                                               {"y", p.y},
                                               {"last_h", p.last_h},
                                               {"last_c", p.last_c, optional}});
    const bool is_lstm = p.cell == RecurrentLayer::Cell::lstm;
    const std::int64_t gates = is_lstm ? 4 : 3;
    require(p.x.defined() != p.projected.defined(), "recurrent_layer: expected either x or projected");
    const Device& device = queue.device();
    const bool bytes = p.scales.defined();
    if (bytes && multiplies_bytes(device))
        return detail::walk_layer(queue, p);
    require(p.y.dim() == 4 && p.recurrent.defined() != p.panels.defined(),
            "recurrent_layer: expected y [T, D, N, H] and either recurrent or panels");
    const std::int64_t steps = p.y.size(0), directions = p.y.size(1), batch = p.y.size(2), hidden = p.y.size(3);
    const DataType type = p.y.dtype;
    require(is_floating_point(type) && type != DataType::float64, "recurrent_layer: not implemented for ",
            name_of(type));
    const std::int64_t most = bytes ? most_recurrent_bytes : most_recurrent_hidden;
    require((hidden <= most || p.panels.defined()) && directions <= 2, "recurrent_layer: at most ", most,
            " hidden numbers and 2 directions, got ", hidden, " and ", directions);
    require(!p.panels.defined() || (p.projected.defined() && takes_panels(device, p.cell, type)),
            "recurrent_layer: panels are for projected inputs in float32 on CPUs");
    require(!bytes || (is_lstm && p.projected.defined() && type == DataType::float32 && takes_bytes(device, hidden) &&
                       (p.recurrent.dtype == DataType::int8 || p.recurrent.dtype == DataType::uint8)),
            "recurrent_layer: recurrent weights of bytes are for float32 LSTM with projected inputs on CPUs");
    const std::int64_t inputs = p.x.defined() ? p.x.shape.back() : 0;
    require_shape("recurrent", p.recurrent, {directions, hidden, gates * hidden}, bytes ? p.recurrent.dtype : type);
    require(bytes == p.zeros.defined(), "recurrent_layer: scales and zeros belong together");
    require_shape("scales", p.scales, {directions, gates * hidden}, type);
    require_shape("zeros", p.zeros, {directions, gates * hidden}, type);
    require_shape("x", p.x, {steps, batch, inputs}, type);
    require_shape("weights", p.weights, {directions, inputs, gates * hidden}, type);
    require_shape("projected", p.projected, {steps, batch, directions, gates * hidden}, type);
    require_shape("bias", p.bias, {directions, gates * hidden}, type);
    require_shape("recurrent_bias", p.recurrent_bias, {directions, hidden}, type);
    require_shape("lengths", p.lengths, {batch}, DataType::int32);
    require(!p.x.defined() || (p.weights.defined() && inputs > 0), "recurrent_layer: x needs weights and inputs");
    require(!is_lstm || p.last_c.defined(), "recurrent_layer: LSTM needs last_c");
    for (const auto& [name, state] : {std::pair("h", &p.h), std::pair("c", &p.c), std::pair("last_h", &p.last_h),
                                      std::pair("last_c", &p.last_c)})
        require_shape(name, *state, {directions, batch, hidden}, type, true);
    require_shape("y", p.y, p.y.shape, type, true);
    if (directions * batch * hidden == 0)
        return;
    if (p.panels.defined()) {
        require_shape("panels", p.panels, detail::panels_shape(directions, hidden, gates), type);
        return walk_panels(queue, p);
    }
    const auto stride = [](const Tensor& t, std::size_t axis) { return t.defined() ? u(t.stride(axis)) : 0; };
    const Geometry geometry{u(steps), u(batch), u(inputs), u(hidden), p.reversed, p.bias.defined(),
                            p.recurrent_bias.defined(), p.lengths.defined(), p.h.defined(), p.c.defined(),
                            stride(p.h, 0), stride(p.h, 1), stride(p.c, 0), stride(p.c, 1),
                            u(p.y.stride(0)), u(p.y.stride(1)), u(p.y.stride(2)),
                            stride(p.last_h, 0), stride(p.last_h, 1), stride(p.last_c, 0), stride(p.last_c, 1)};
    std::string options =
        fmt::format("{} -DGATES={} -DAFTER={}", detail::define("X", type), gates,
                    p.cell == RecurrentLayer::Cell::gru_linear_before_reset ? 1 : 0);
    const auto groups = static_cast<std::size_t>(directions * batch);
    const std::size_t memory = cpu_floats(gates, hidden, inputs) * sizeof(float);
    if (device.kind == DeviceKind::cpu && memory <= device.local_memory) {
        options += fmt::format(" -DPLAIN={}", type == DataType::float32 ? 1 : 0);
        if (bytes)
            options += fmt::format(" -DBYTES={}", name_of(p.recurrent.dtype));
        Kernel& kernel =
            queue.context().program("kernels/recurrent/recurrent_cpu.cl", options).kernel("recurrent_layer_cpu");
        queue.launch(kernel, Range::groups(groups), p.x.defined() ? p.x : p.projected, p.weights, p.recurrent, p.scales,
                     p.zeros, p.bias, p.recurrent_bias, p.lengths, p.h, p.c, p.y, p.last_h, p.last_c, geometry,
                     LocalMemory{memory});
        return;
    }
    Kernel& kernel = queue.context().program("kernels/recurrent/recurrent.cl", options).kernel("recurrent_layer");
    const auto lanes = static_cast<std::size_t>(std::min<std::int64_t>((hidden + 15) / 16 * 16, 128));
    queue.launch(kernel, Range::groups(groups, lanes),
                 p.x.defined() ? p.x : p.projected, p.weights, p.recurrent, p.bias, p.recurrent_bias, p.lengths, p.h,
                 p.c, p.y, p.last_h, p.last_c, geometry,
                 LocalMemory{static_cast<std::size_t>(4 * hidden) * sizeof(float)});
}

}  // namespace clprim
