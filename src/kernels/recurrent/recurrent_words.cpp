// LSTMs with weights of bytes on CPUs that multiply those.
#include "kernels/recurrent/recurrent_words.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/pointwise.hpp>

#include "core/operands.hpp"
#include "kernels/integer/cpu.hpp"
#include "kernels/rounding.hpp"

namespace clprim {

namespace {

// PANEL, ROWS of recurrent_project.cl, PROGRESS and what of that is left for claims.
constexpr std::int64_t panel = 16, project_rows = 16, progress_ints = 128, most_parts = 64;

// walk_t of recurrent_walk.cl
struct Walk {
    cl_uint steps, batch, inputs, hidden;
    cl_uint reversed, has_bias, has_lengths, has_h, has_c;
    cl_uint h_direction, h_sample, c_direction, c_sample;
    cl_uint y_step, y_direction, y_sample, last_h_direction, last_h_sample, last_c_direction, last_c_sample;
    cl_uint directions, samples, parts;
};

// projection of recurrent_project.cl
struct Projection {
    cl_uint rows, inputs, hidden, has_bias, blocks;
};

cl_uint u(std::int64_t v) { return static_cast<cl_uint>(v); }
std::size_t size(std::int64_t v) { return static_cast<std::size_t>(v); }

std::int64_t blocks_of(std::int64_t hidden) { return detail::divide_up(hidden, panel); }

// Of words and sums.
Dims words_shape(std::int64_t directions, std::int64_t count, std::int64_t hidden)
{
    return {directions * blocks_of(hidden) * 4 * panel * (detail::round_up(count, std::int64_t{64}) / 4 + 1)};
}

std::int64_t most_teams(const Device& device) { return std::max<std::int64_t>(2, device.compute_units); }

// What a team has to itself. Cores are given sequences first, and share some where there are fewer, or where a core's
// cache would not keep the weights from one step to the next; shares that take less time than waiting for each other
// are none.
struct Teams {
    std::int64_t samples = 0, parts = 0, count = 0;

    Teams(const Device& device, std::int64_t directions, std::int64_t batch, std::int64_t hidden)
    {
        constexpr std::int64_t least = 128 * 1024, kept = 1024 * 1024;   // weights of a part; what a cache keeps
        const auto units = std::max<std::int64_t>(1, device.compute_units);
        const auto sharing = std::clamp<std::int64_t>(detail::divide_up(4 * hidden * hidden, kept), 1, units);
        samples = detail::divide_up(batch, std::clamp<std::int64_t>(units / (directions * sharing), 1, batch));
        count = directions * detail::divide_up(batch, samples);
        parts = std::clamp<std::int64_t>(units / count, 1, std::min(most_parts, blocks_of(hidden)));
        parts = std::clamp<std::int64_t>(4 * hidden * hidden / least, 1, parts);
    }
};

}  // namespace

bool multiplies_bytes(const Device& device) { return device.kind == DeviceKind::cpu && device.vnni_bytes; }

RecurrentBytes pack_bytes(Queue& queue, const RecurrentBytes& given)
{
    const Device& device = queue.device();
    if (!multiplies_bytes(device))
        return given;
    const DataType type = given.bytes.dtype;
    require(given.bytes.dim() == 3 && given.bytes.is_contiguous() &&
                (type == DataType::int8 || type == DataType::uint8) && given.bytes.size(2) % 4 == 0 &&
                given.bytes.size(1) <= most_recurrent_bytes && given.bytes.numel() > 0,
            "pack_bytes: expected contiguous bytes [D, K, 4 H] with K of at most ", most_recurrent_bytes, ", got ",
            name_of(type), " ", to_string(given.bytes.shape));
    const std::int64_t directions = given.bytes.size(0), count = given.bytes.size(1), hidden = given.bytes.size(2) / 4;
    Context& context = queue.context();
    RecurrentBytes packed{context.empty(words_shape(directions, count, hidden), DataType::int32, queue), given.scales,
                          given.zeros, context.empty({most_teams(device) * progress_ints}, DataType::int32, queue)};
    fill(queue, packed.progress, 0.0);
    const bool shifted = type == DataType::uint8;
    if (shifted) {
        packed.zeros = context.empty(given.zeros.shape, given.zeros.dtype, queue);
        pointwise(queue, {given.zeros}, {packed.zeros}, {}, "y0 = x0 - 128;");
    }
    const Program& program = context.program("kernels/recurrent/recurrent_pack.cl",
                                             fmt::format("-DBYTES={} -DLOWEST={} {}", name_of(type),
                                                         shifted ? 128 : 0, detail::dot_options(device)));
    queue.launch(program.kernel("pack_words"),
                 Range::groups({size(4 * blocks_of(hidden)), size(directions), 1}, {1, 1, 1}), given.bytes,
                 packed.bytes, u(count), u(hidden));
    return packed;
}

void project_bytes(Queue& queue, const Tensor& x, const RecurrentBytes& weights, const Tensor& bias,
                   const Tensor& projected)
{
    using detail::require_shape;
    detail::check_operands("project_bytes", {{"x", x}, {"weights", weights.bytes}, {"scales", weights.scales},
                                             {"zeros", weights.zeros}, {"bias", bias, detail::optional},
                                             {"projected", projected}});
    const Device& device = queue.device();
    require(x.dim() == 3 && projected.dim() == 4 && projected.size(3) % 4 == 0 && multiplies_bytes(device),
            "project_bytes: expected x [T, N, I] and projected [T, N, D, 4 H] on a CPU that multiplies bytes");
    const std::int64_t rows = x.size(0) * x.size(1), inputs = x.size(2), directions = projected.size(2),
                       width = projected.size(3), hidden = width / 4;
    constexpr DataType real = DataType::float32;
    require_shape("x", x, x.shape, real);
    require_shape("projected", projected, {x.size(0), x.size(1), directions, width}, real);
    require_shape("weights", weights.bytes, words_shape(directions, inputs, hidden), DataType::int32);
    require_shape("weight_scales", weights.scales, {directions, width}, real);
    require_shape("weight_zeros", weights.zeros, {directions, width}, real);
    require_shape("bias", bias, {directions, width}, real);
    if (projected.numel() == 0)
        return;
    // Some work-items for each core.
    const std::int64_t row_blocks = detail::divide_up(rows, project_rows), blocks = blocks_of(hidden);
    const std::int64_t wanted = 4 * std::max<std::int64_t>(1, device.compute_units);
    const std::int64_t cuts =
        std::clamp<std::int64_t>(detail::divide_up(wanted, row_blocks * directions), 1, blocks);
    const Projection p{u(rows), u(inputs), u(hidden), bias.defined(), u(detail::divide_up(blocks, cuts))};
    queue.launch(queue.context().program("kernels/recurrent/recurrent_project.cl", detail::dot_options(device))
                     .kernel("project"),
                 Range::groups({size(row_blocks), size(detail::divide_up(blocks, std::int64_t{p.blocks})),
                                size(directions)}, {1, 1, 1}),
                 x, weights.bytes, weights.scales, weights.zeros, bias, projected, p);
}

namespace detail {

void walk_layer(Queue& queue, const RecurrentLayer& p)
{
    require(p.y.dim() == 4 && p.recurrent.dim() == 1 && p.cell == RecurrentLayer::Cell::lstm,
            "recurrent_layer: packed bytes are for LSTM, with y [T, D, N, H]");
    const std::int64_t steps = p.y.size(0), directions = p.y.size(1), batch = p.y.size(2), hidden = p.y.size(3);
    const std::int64_t inputs = p.x.defined() ? p.x.shape.back() : 0, width = 4 * hidden;
    require(hidden <= most_recurrent_bytes && inputs <= most_recurrent_bytes && directions <= 2,
            "recurrent_layer: at most ", most_recurrent_bytes, " hidden numbers and inputs and 2 directions, got ",
            hidden, ", ", inputs, " and ", directions);
    constexpr DataType real = DataType::float32;
    require(p.zeros.defined() && p.progress.defined() && p.last_c.defined() &&
                p.x.defined() == p.weights.defined() && p.x.defined() == p.weight_scales.defined() &&
                p.x.defined() == p.weight_zeros.defined(),
            "recurrent_layer: scales and zeros belong together, and to progress");
    const Device& device = queue.device();
    require_shape("recurrent", p.recurrent, words_shape(directions, hidden, hidden), DataType::int32);
    require_shape("progress", p.progress, {most_teams(device) * progress_ints}, DataType::int32);
    require_shape("weights", p.weights, words_shape(directions, inputs, hidden), DataType::int32);
    for (const auto& [name, column] : {std::pair("scales", &p.scales), std::pair("zeros", &p.zeros),
                                       std::pair("weight_scales", &p.weight_scales),
                                       std::pair("weight_zeros", &p.weight_zeros), std::pair("bias", &p.bias)})
        require_shape(name, *column, {directions, width}, real);
    require_shape("x", p.x, {steps, batch, inputs}, real);
    require_shape("projected", p.projected, {steps, batch, directions, width}, real);
    require_shape("lengths", p.lengths, {batch}, DataType::int32);
    for (const auto& [name, state] : {std::pair("h", &p.h), std::pair("c", &p.c), std::pair("last_h", &p.last_h),
                                      std::pair("last_c", &p.last_c)})
        require_shape(name, *state, {directions, batch, hidden}, real, true);
    require_shape("y", p.y, p.y.shape, real, true);
    if (directions * batch * hidden == 0)
        return;
    const auto stride = [](const Tensor& t, std::size_t axis) { return t.defined() ? u(t.stride(axis)) : 0; };
    const Teams teams(device, directions, batch, hidden);
    const Walk walk{u(steps), u(batch), u(inputs), u(hidden), p.reversed, p.bias.defined(), p.lengths.defined(),
                    p.h.defined(), p.c.defined(), stride(p.h, 0), stride(p.h, 1), stride(p.c, 0), stride(p.c, 1),
                    u(p.y.stride(0)), u(p.y.stride(1)), u(p.y.stride(2)), stride(p.last_h, 0), stride(p.last_h, 1),
                    stride(p.last_c, 0), stride(p.last_c, 1), u(directions), u(teams.samples), u(teams.parts)};
    Kernel& kernel =
        queue.context().program("kernels/recurrent/recurrent_walk.cl", dot_options(device)).kernel("walk_layer");
    queue.launch(kernel, Range::groups(size(teams.count * teams.parts)), p.x.defined() ? p.x : p.projected, p.weights,
                 p.weight_scales, p.weight_zeros, p.bias, p.recurrent, p.scales, p.zeros, p.lengths, p.h, p.c, p.y,
                 p.last_h, p.last_c, p.progress, walk);
}

}  // namespace detail

}  // namespace clprim
