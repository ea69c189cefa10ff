// Host side of cpu_implicit.cl: maps a pass to launches, chooses block sizes, packs weights where they do not
// lie right.
#include <algorithm>
#include <cmath>

#include <kernels/conv/implicit.hpp>

namespace clprim::conv {
namespace {

// Blocks of k: whole runs of its inner index if they are short, parts of one run otherwise.
void choose_depth(ImplicitProblem& p)
{
    const cl_long most = 288, taps = p.taps[0] * p.taps[1] * p.taps[2];
    cl_long& inner = p.taps_inner ? p.taps_block : p.channels_block;
    cl_long& outer = p.taps_inner ? p.channels_block : p.taps_block;
    const cl_long inner_size = std::max<cl_long>(p.taps_inner ? taps : p.depth, 1);
    const cl_long outer_size = std::max<cl_long>(p.taps_inner ? p.depth : taps, 1);
    inner = ceil_div(inner_size, ceil_div(inner_size, most));
    const bool gaps = p.taps[0] * p.taps[1] * p.taps[2] != p.kernel[0] * p.kernel[1] * p.kernel[2];
    outer = inner < inner_size || gaps ? 1 : std::clamp<cl_long>(most / inner, 1, outer_size);
    outer = ceil_div(outer_size, ceil_div(outer_size, outer));
    p.tile_depth = p.channels_block * p.taps_block;
}

// Smallest block sizes that keep all compute units busy for the shortest time, by a model in cycles per unit of depth:
// products, reading the weights once per work-item, packing the source once per work-item.
double choose_tiles(ImplicitProblem& p, const Device& device, std::size_t real_size)
{
    const cl_long pixels = p.pixels(), depth = std::max<cl_long>(p.total_depth(), 1);
    choose_depth(p);
    const cl_long budget = static_cast<cl_long>(std::min<std::size_t>(device.local_memory, 256 * 1024) / real_size) -
                           p.tile_depth * wide - 64;
    double best = 1e300;
    for (cl_long row_blocks = 1; row_blocks <= p.rows; row_blocks *= 2) {
        const cl_long rows = std::min(p.rows, ceil_div(ceil_div(p.rows, row_blocks), 12) * 12);
        for (cl_long columns = wide / 2; columns <= 512; columns += wide / 2) {
            if (ceil_div(columns, wide) * wide * (rows + 3) > budget)
                break;
            const double count = double(ceil_div(p.rows, rows)) * ceil_div(pixels, columns) * p.groups;
            const double rounds = std::ceil(count / device.compute_units);
            const double tiles = columns / double(wide / 2) * (columns % wide ? 1.05 : 1.0) / 2;
            const double cost = rounds * (rows * tiles + 0.3 * rows + 0.25 * columns + 40.0 / depth * rows * tiles);
            if (cost < best * (columns >= 64 ? 1.0 : 0.98)) {
                best = cost;
                p.tile_rows = rows;
                p.tile_pixels = columns;
            }
            if (columns >= pixels)
                break;
        }
        if (rows <= 12)
            break;
    }
    return best;
}

void launch(Queue& queue, const Call& call, const Tensor& weights, ImplicitProblem p, cl_long result_first)
{
    if (p.pixels() == 0)
        return;
    merge_positions(p);
    const std::size_t real_size = size_of(real_type(call.dtype));
    choose_tiles(p, queue.device(), real_size);
    Tensor result = call.result();
    result.offset += result_first;
    const cl_long items = ceil_div(p.rows, p.tile_rows) * ceil_div(p.pixels(), p.tile_pixels) * p.groups;
    const cl_long columns = ceil_div(p.tile_pixels, wide) * wide, rows = ceil_div(p.tile_rows, 4) * 4;
    const Program& program = queue.context().program("kernels/conv/cpu_implicit.cl", dtype_options(call));
    queue.launch(program.kernel("conv_implicit"), Range::groups(static_cast<std::size_t>(items)),
                 call.pass == ConvPass::forward ? call.x : call.y, weights, call.bias, result,
                 LocalMemory{static_cast<std::size_t>(p.tile_depth * wide) * real_size},
                 LocalMemory{static_cast<std::size_t>(rows * columns) * real_size}, p);
}

}  // namespace

double implicit_cost(ImplicitProblem p, const Device& device)
{
    merge_positions(p);
    return choose_tiles(p, device, sizeof(float)) * static_cast<double>(p.total_depth());
}

Rejection rejects_cpu_implicit(const Call& call, const Device& device)
{
    if (device.kind != DeviceKind::cpu)
        return "is made for CPU devices";
    if (!is_floating_point(call.dtype))
        return "computes floating point dtypes only";
    if (device.local_memory < 128 * 1024)
        return "needs 128 KiB of local memory";
    for (int i = 0; i < 3; ++i)
        if (call.problem.in[i] >= (1 << 30) || call.problem.out[i] >= (1 << 30))
            return "takes axes below 2^30 only";
    if ((call.problem.in_channels + call.problem.out_channels) * call.problem.taps() >= (cl_long{1} << 31))
        return "takes sums of less than 2^31 products only";
    return {};
}

Call with_planar_source(Queue& queue, const Call& call)
{
    constexpr cl_long vector = 16;
    const bool data = call.pass == ConvPass::backward_data;
    const Tensor& source = data ? call.y : call.x;
    const cl_long per_group = data ? call.problem.out_channels : call.problem.in_channels;
    if (per_group >= vector || source.size(1) == 1 || source.stride(1) != 1 || !source.is_channels_last())
        return call;
    Call result = call;
    Tensor& planar = data ? result.y : result.x;
    planar = queue.context().empty(source.shape, source.dtype, queue);
    Problem& q = result.problem;
    const cl_long channels = source.size(1), pixels = data ? q.out_pixels() : q.in_pixels();
    cl_long(&strides)[5] = data ? q.y_strides : q.x_strides;
    const cl_long* sizes = data ? q.out : q.in;
    strides[4] = 1;
    strides[3] = sizes[2];
    strides[2] = sizes[1] * strides[3];
    strides[1] = pixels;
    strides[0] = channels * pixels;
    const Program& program = queue.context().program("kernels/conv/cpu_implicit.cl", dtype_options(call));
    queue.launch(program.kernel("conv_to_planar"), Range::linear(static_cast<std::size_t>(q.batch * pixels), 64),
                 source, planar, q.batch, channels, pixels);
    return result;
}

void run_cpu_implicit(Queue& queue, const Call& caller) { run_implicit_pass(queue, caller, launch); }

}  // namespace clprim::conv
