// Host side of cpu_channels_weight.cl.
#include <algorithm>

#include <kernels/conv/implicit.hpp>

namespace clprim::conv {
namespace {

// Sums of a work-item stay in the second-level cache, a stretch of dy in the first; enough shares of the pixels to
// occupy all compute units, none of few pixels.
void choose_tiles(ImplicitProblem& p, const Device& device, std::size_t real_size)
{
    constexpr cl_long most_outputs = 64, most_stretch = 64, fewest_pixels = 128, step = 8;
    const cl_long most_bytes = std::min<cl_long>(static_cast<cl_long>(device.local_memory), 128 * 1024);
    const cl_long all_rows = p.total_depth(), outputs = std::min(p.rows, most_outputs);
    const cl_long most_rows = most_bytes / static_cast<cl_long>(real_size) / (ceil_div(outputs, wide) * wide);
    p.tile_pixels = outputs;
    p.tile_rows = ceil_div(ceil_div(all_rows, ceil_div(all_rows, most_rows / step * step)), step) * step;
    p.tile_depth = ceil_div(p.out[2], ceil_div(p.out[2], most_stretch));
    const cl_long items = ceil_div(all_rows, p.tile_rows) * ceil_div(p.rows, outputs) * p.groups;
    p.parts = std::clamp<cl_long>(ceil_div(4 * static_cast<cl_long>(device.compute_units), items), 1,
                                  std::max<cl_long>(p.pixels() / fewest_pixels, 1));
}

}  // namespace

Rejection rejects_cpu_channels_weight(const Call& call, const Device& device)
{
    if (Rejection reason = rejects_cpu_implicit(call, device))
        return reason;
    if (call.dtype != real_type(call.dtype))
        return "takes float32 and float64 only";
    const Problem& q = call.problem;
    if (q.y_strides[1] != 1 || (q.x_strides[1] != 1 && q.in_channels * q.groups > 1))
        return "needs tensors with channels innermost";
    if (q.out_channels % 8 != 0)
        return "takes outputs by eights";
    if (span_of(call.x) >= (cl_long{1} << 31) || span_of(call.y) >= (cl_long{1} << 31))
        return "takes tensors of less than 2^31 elements";
    return {};
}

Rejection cpu_channels_weight_advises_against(const Call& call, const Device&)
{
    if (call.problem.in_channels < 4)
        return "would have short tiles of few channels";
    return {};
}

void run_cpu_channels_weight(Queue& queue, const Call& call)
{
    ImplicitProblem p = forward_problem(call);
    if (p.pixels() == 0)
        return fill_zero(queue, call.w);
    merge_positions(p);
    choose_tiles(p, queue.device(), size_of(call.dtype));
    const bool in_place = p.parts == 1 && weights_in_order(call.problem, false);
    const cl_long size = p.groups * p.rows * p.total_depth();
    const Tensor sums = in_place ? call.w : queue.context().empty({p.parts * size}, call.dtype, queue);
    const cl_long items =
        ceil_div(p.total_depth(), p.tile_rows) * ceil_div(p.rows, p.tile_pixels) * p.parts * p.groups;
    const cl_long padded = ceil_div(p.tile_pixels, wide) * wide * p.tile_rows;
    const Program& program = queue.context().program("kernels/conv/cpu_channels_weight.cl", dtype_options(call));
    queue.launch(program.kernel("conv_channels_weight"), Range::groups(static_cast<std::size_t>(items)), call.x, call.y,
                 sums, LocalMemory{static_cast<std::size_t>(padded) * size_of(call.dtype)}, p);
    if (!in_place)
        add_parts(queue, call, sums, p);
}

}  // namespace clprim::conv
