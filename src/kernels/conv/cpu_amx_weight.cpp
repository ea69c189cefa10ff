// Host side of cpu_amx_weight.cl.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <kernels/conv/implicit.hpp>

namespace clprim::conv {
namespace {

cl_long round_up(cl_long a, cl_long b) { return ceil_div(a, b) * b; }

// Words of local memory of a block: packed outputs and rows, panels, a strip, tiles.
cl_long local_words(DataType dtype, cl_long rows, cl_long outputs, cl_long depth)
{
    return 2 * (depth + 16) * amx_side + outputs / amx_side * (16 + amx_words(dtype, depth)) + amx_words(dtype, depth) +
           rows * outputs;
}

// Blocks that fit local memory, by a model in cycles per pixel: products, splitting both sides, packing x.
void choose_tiles(ImplicitProblem& p, const Device& device, DataType dtype)
{
    const cl_long all_rows = p.total_depth(), taps = p.taps[0] * p.taps[1] * p.taps[2];
    const cl_long budget = static_cast<cl_long>(std::min(device.local_memory, local_memory_wanted)) / 4 - 64;
    const double products = dtype == DataType::float32 ? 12.5 : dtype == DataType::float16 ? 8.5 : 3.5;
    const double parts = static_cast<double>(amx_parts(dtype));
    double best = std::numeric_limits<double>::infinity();
    for (const cl_long target : {64, 96, 128, 192}) {
        const cl_long depth = round_up(std::min<cl_long>(target, p.pixels()), amx_side);
        for (cl_long blocks = 1; blocks <= ceil_div(p.rows, amx_side); ++blocks) {
            const cl_long outputs = round_up(ceil_div(p.rows, blocks), amx_side);
            cl_long rows = round_up(all_rows, amx_side);
            while (rows > amx_side && local_words(dtype, rows, outputs, depth) > budget)
                rows -= amx_side;
            rows = round_up(ceil_div(all_rows, ceil_div(all_rows, rows)), amx_side);   // of about the same size all
            if (local_words(dtype, rows, outputs, depth) > budget)
                continue;
            const double shared = std::max<double>(std::min<double>(32.0 / double(taps), double(p.depth)), 1);
            const double cost = (double(rows * outputs) / 1024 * (products + 350.0 / double(depth)) +
                                 double(outputs) * (0.7 + 0.25 * parts) +
                                 double(rows) * (0.5 + 0.25 * parts + 2.5 / shared)) *
                                double(ceil_div(all_rows, rows) * ceil_div(p.rows, outputs));
            if (cost < best) {
                best = cost;
                p.tile_rows = rows;
                p.tile_pixels = outputs;
                p.tile_depth = depth;
            }
        }
    }
    require<NotSupported>(best < std::numeric_limits<double>::infinity(),
                          "conv: the device has too little local memory");
    choose_parts(p, device);
}

}  // namespace

Rejection rejects_cpu_amx_weight(const Call& call, const Device& device)
{
    return rejects_amx(call, device);
}

Rejection cpu_amx_weight_advises_against(const Call& call, const Device&)
{
    const Problem& q = call.problem;
    if (q.out_channels < 96 || q.in_channels * q.taps() < 64 || q.batch * q.out_pixels() < 64)
        return "pays from 96 outputs and 64 weights each per group, and 64 pixels on";
    return {};
}

void run_cpu_amx_weight(Queue& queue, const Call& caller)
{
    run_weight_pass(
        queue, caller, [&](ImplicitProblem& p) { choose_tiles(p, queue.device(), caller.dtype); },
        [&](const Call& call, const ImplicitProblem& p, const Tensor& sums, std::size_t items) {
            const auto local = [](cl_long words) { return LocalMemory{static_cast<std::size_t>(4 * words)}; };
            const cl_long outputs = round_up(p.tile_pixels, amx_side), length = p.tile_depth + 16;
            const std::string options = dtype_options(call) + fmt::format(" -DX={}", name_of(call.dtype));
            const Program& program = queue.context().program("kernels/conv/cpu_amx_weight.cl", options);
            queue.launch(program.kernel("conv_amx_weight"), Range::groups(items), call.x, call.y, sums,
                         local((length + 16) * amx_side), local(length * amx_side),
                         local(outputs / amx_side * (16 + amx_words(call.dtype, p.tile_depth))),
                         local(amx_words(call.dtype, p.tile_depth)),
                         local(round_up(p.tile_rows, amx_side) * outputs), p);
        });
}

}  // namespace clprim::conv
