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
    choose_parts(p, device);
    return tiles;
}

}  // namespace

void run_cpu_implicit_weight(Queue& queue, const Call& caller)
{
    Tiles tiles{};
    const std::size_t bytes = size_of(real_type(caller.dtype));
    run_weight_pass(
        queue, caller, [&](ImplicitProblem& p) { tiles = choose_tiles(p, queue.device(), bytes); },
        [&](const Call& call, const ImplicitProblem& p, const Tensor& sums, std::size_t items) {
            const std::size_t length = static_cast<std::size_t>(p.tile_depth + 16);
            const std::size_t width = static_cast<std::size_t>(tiles.padded_outputs);
            const Program& program =
                queue.context().program("kernels/conv/cpu_implicit_weight.cl", dtype_options(call));
            queue.launch(program.kernel("conv_implicit_weight"), Range::groups(items), call.x, call.y, sums,
                         LocalMemory{length * width * bytes},
                         LocalMemory{static_cast<std::size_t>(tiles.group_rows) * length * bytes},
                         LocalMemory{static_cast<std::size_t>(ceil_div(p.tile_rows, 12) * 12) * width * bytes},
                         static_cast<cl_int>(tiles.group_rows), p);
        });
}

}  // namespace clprim::conv
