// Host side of cpu_implicit_weight.cl.
#include <algorithm>

#include <kernels/conv/implicit.hpp>

namespace clprim::conv {
namespace {

constexpr cl_long most_pixels = 256;    // MAX_LANES in cpu_implicit_weight.cl

struct Tiles {
    cl_long group_rows, padded_outputs;
};

// Blocks of rows, outputs and pixels that fit local memory, by a model in cycles per pixel: products, transposing dy,
// packing x, reading and writing the sums.
Tiles choose_tiles(ImplicitProblem& p, const Device& device, std::size_t real_size)
{
    const cl_long columns = real_size == 8 ? wide / 2 : wide;
    const cl_long all_rows = p.total_depth(), pixels = p.pixels();
    const cl_long budget = static_cast<cl_long>(std::min(device.local_memory, local_memory_wanted) / real_size) - 64;
    const cl_long taps = p.taps[0] * p.taps[1] * p.taps[2];
    double best = 1e300;
    Tiles tiles{};
    for (const cl_long target : {96, 144, 192, 256}) {
        const cl_long depth = ceil_div(pixels, ceil_div(pixels, std::min(target, most_pixels)));
        for (cl_long blocks = 1; blocks <= ceil_div(p.rows, columns); ++blocks) {
            const cl_long outputs = ceil_div(ceil_div(p.rows, blocks), columns) * columns;
            const cl_long group = std::min<cl_long>(ceil_div(all_rows, 12), p.taps_inner ? 6 : 4) * 12;
            const cl_long most = (budget - (depth + 16) * (outputs + group)) / outputs / 12 * 12;
            if (most < 12)
                continue;
            const cl_long rows = std::min(ceil_div(ceil_div(all_rows, ceil_div(all_rows, most)), 12) * 12, all_rows);
            const double shared = std::max<double>(std::min(group / taps, p.depth), 1);   // channels packed at once
            const double cost = (rows * outputs / double(wide) * (1 + 4.0 / depth) + 0.5 * outputs +
                                 (0.25 + 2.5 / shared) * rows) * ceil_div(all_rows, rows) * ceil_div(p.rows, outputs);
            if (cost < best) {
                best = cost;
                p.tile_rows = rows;
                p.tile_pixels = std::min(outputs, p.rows);
                p.tile_depth = depth;
                tiles = {group, outputs};
            }
        }
    }
    require<NotSupported>(best < 1e300, "conv: the device has too little local memory");
    const cl_long items = ceil_div(all_rows, p.tile_rows) * ceil_div(p.rows, p.tile_pixels) * p.groups;
    const cl_long wanted = 6 * static_cast<cl_long>(device.compute_units);
    p.parts = std::clamp<cl_long>(ceil_div(wanted, items), 1, std::max<cl_long>(pixels / (2 * p.tile_depth), 1));
    const cl_long share = ceil_div(pixels, p.parts);
    p.tile_depth = ceil_div(share, ceil_div(share, p.tile_depth));   // equal blocks within a share
    return tiles;
}

// A product over the same pixels on both sides (1x1) may be computed as dw or transposed: whichever side is the smaller
// is the one that is packed transposed. Worth it for small weights only: the sums end up transposed, too.
bool gains_from_swap(const Call& call)
{
    const Problem& q = call.problem;
    bool same = q.taps() == 1 && q.groups == 1 && q.out_channels >= 2 * q.in_channels && q.in_channels <= 64;
    for (int i = 0; i < 3; ++i)
        same &= q.in[i] == q.out[i] && q.stride[i] == 1 && q.pad[i] == 0;
    return same;
}

Call swapped(Call call)
{
    Problem& q = call.problem;
    std::swap(call.x, call.y);
    std::swap(q.in_channels, q.out_channels);
    std::swap(q.x_strides, q.y_strides);
    std::swap(q.w_strides[0], q.w_strides[1]);
    return call;
}

}  // namespace

void run_cpu_implicit_weight(Queue& queue, const Call& caller)
{
    const Call call = with_planar_source(queue, gains_from_swap(caller) ? swapped(caller) : caller);
    const Problem& q = call.problem;
    ImplicitProblem p = forward_problem(call);
    p.result_size = span_of(call.y);
    const DataType real = real_type(call.dtype);
    const cl_long size = q.groups * q.out_channels * p.total_depth();
    if (p.pixels() == 0)
        return fill_zero(queue, call.w);
    // Rows in the order of dw, unless x has its channels innermost and wants them together.
    const bool channels_last = q.x_strides[1] == 1 && q.in_channels > 1;
    p.taps_inner = !channels_last && !(weights_in_order(q, false) && q.in_channels > 1);
    const bool ordered = weights_in_order(q, p.taps_inner);
    const Tiles tiles = choose_tiles(p, queue.device(), size_of(real));

    const bool in_place = p.parts == 1 && real == call.dtype && ordered;
    const Tensor sums = in_place ? call.w : queue.context().empty({p.parts * size}, real, queue);
    const std::size_t bytes = size_of(real), length = static_cast<std::size_t>(p.tile_depth + 16);
    const std::size_t width = static_cast<std::size_t>(tiles.padded_outputs);
    const cl_long items = ceil_div(p.total_depth(), p.tile_rows) * ceil_div(p.rows, p.tile_pixels) * p.parts * p.groups;
    const Program& program = queue.context().program("kernels/conv/cpu_implicit_weight.cl", dtype_options(call.dtype));
    queue.launch(program.kernel("conv_implicit_weight"), Range::groups(static_cast<std::size_t>(items)), call.x, call.y,
                 sums, LocalMemory{length * width * bytes},
                 LocalMemory{static_cast<std::size_t>(tiles.group_rows) * length * bytes},
                 LocalMemory{static_cast<std::size_t>(ceil_div(p.tile_rows, 12) * 12) * width * bytes},
                 static_cast<cl_int>(tiles.group_rows), p);
    if (!in_place)
        add_parts(queue, call, sums, p);
}

}  // namespace clprim::conv
