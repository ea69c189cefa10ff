// Host side of gpu_implicit.cl.
#include <algorithm>

#include <kernels/conv/implicit.hpp>

namespace clprim::conv {
namespace {

constexpr cl_long side = 16, items = side * side;

// The program for tiles of 16 * work: large ones where both sides of the product fill them and the device.
const Program& tiled_program(Queue& queue, const Call& call, cl_long work)
{
    const bool channels_last = call.problem.x_strides[1] == 1 && call.problem.groups * call.problem.in_channels > 1;
    std::string options = dtype_options(call.dtype) + " -DWORK=" + std::to_string(work);
    if (channels_last)
        options += " -DCHANNELS_LAST";
    return queue.context().program("kernels/conv/gpu_implicit.cl", options);
}

cl_long choose_work(const Queue& queue, cl_long rows, cl_long columns, cl_long groups, DataType dtype)
{
    const cl_long blocks = ceil_div(rows, 8 * side) * ceil_div(columns, 8 * side) * groups;
    const bool fills = rows >= 6 * side && columns >= 6 * side &&
                       blocks >= 2 * static_cast<cl_long>(queue.device().compute_units);
    return fills && dtype != DataType::float64 ? 8 : 4;
}

Tensor tap_table(Queue& queue, const Program& program, const ImplicitProblem& p)
{
    const Tensor table = queue.context().empty({4 * std::max<cl_long>(p.total_depth(), 1)}, DataType::int32, queue);
    if (p.total_depth() > 0)
        queue.launch(program.kernel("conv_tap_table"), Range::linear(static_cast<std::size_t>(p.total_depth()), 64),
                     table, p);
    return table;
}

void launch(Queue& queue, const Call& call, ImplicitProblem p, cl_long result_first)
{
    if (p.pixels() == 0)
        return;
    const Problem& q = call.problem;
    p.taps_inner = q.x_strides[1] != 1 || q.groups * q.in_channels == 1;
    p.weight_stride = p.total_depth();
    const cl_long work = choose_work(queue, p.rows, p.pixels(), p.groups, call.dtype), tile = side * work;
    const Program& program = tiled_program(queue, call, work);
    const Tensor table = tap_table(queue, program, p);
    Tensor weights = call.w;
    const bool in_place = call.pass == ConvPass::forward && real_type(call.dtype) == call.dtype &&
                          weights_in_order(q, p.taps_inner);
    if (!in_place) {
        const cl_long size = std::max<cl_long>(p.groups * p.rows * p.weight_stride, 1);
        weights = queue.context().empty({size}, real_type(call.dtype), queue);
        if (p.weight_stride > 0)
            queue.launch(program.kernel("conv_gather_weights"), Range::linear(static_cast<std::size_t>(size), 64),
                         call.w, weights, p, pack_problem(call, p.taps_inner));
    }
    Tensor result = call.result();
    result.offset += result_first;
    const auto groups = Range::groups({static_cast<std::size_t>(ceil_div(p.pixels(), tile)),
                                       static_cast<std::size_t>(ceil_div(p.rows, tile) * p.groups), 1}, {items, 1, 1});
    queue.launch(program.kernel("conv_tiled"), groups, call.pass == ConvPass::forward ? call.x : call.y, weights,
                 call.bias, result, table, p);
}

}  // namespace

std::string rejects_gpu_implicit(const Call& call, const Device& device)
{
    const Problem& q = call.problem;
    if (device.kind != DeviceKind::gpu)
        return "is made for GPUs";
    if (!is_floating_point(call.dtype))
        return "computes floating point dtypes only";
    if (device.max_work_group_size < static_cast<std::size_t>(items))
        return "needs work-groups of 256";
    const cl_long most = cl_long{1} << 31;
    if (std::max(q.in_channels, q.out_channels) * q.taps() >= most / 4)
        return "takes sums of less than 2^29 products only";
    for (const auto& [sizes, strides] : {std::pair{q.in, q.x_strides}, std::pair{q.out, q.y_strides}}) {
        cl_long extent = std::max(q.in_channels, q.out_channels) * strides[1];
        for (int i = 0; i < 3; ++i)
            extent += sizes[i] * strides[2 + i] + q.kernel[i] * q.dilation[i] * strides[2 + i];
        if (extent >= most)
            return "takes images below 2^31 elements only";
    }
    return {};
}

void run_gpu_implicit(Queue& queue, const Call& call)
{
    for_each_launch(call, [&](const ImplicitProblem& p, cl_long first) { launch(queue, call, p, first); });
}

void run_gpu_implicit_weight(Queue& queue, const Call& call)
{
    const Problem& q = call.problem;
    ImplicitProblem p = forward_problem(call);
    if (p.pixels() == 0)
        return fill_zero(queue, call.w);
    p.taps_inner = q.x_strides[1] != 1 || q.groups * q.in_channels == 1;
    p.weight_stride = p.total_depth();
    const cl_long work = choose_work(queue, p.rows, p.weight_stride, p.groups, call.dtype), tile = side * work;
    const cl_long blocks = ceil_div(p.weight_stride, tile) * ceil_div(p.rows, tile) * p.groups;
    const cl_long wanted = 4 * static_cast<cl_long>(queue.device().compute_units);
    p.parts = std::clamp<cl_long>(ceil_div(wanted, blocks), 1, std::max<cl_long>(p.pixels() / 128, 1));
    const DataType real = real_type(call.dtype);
    const bool in_place = p.parts == 1 && real == call.dtype && weights_in_order(q, p.taps_inner);
    const Tensor sums = in_place ? call.w : queue.context().empty({p.parts * call.w.numel()}, real, queue);
    const Program& program = tiled_program(queue, call, work);
    const Tensor table = tap_table(queue, program, p);
    const auto groups = Range::groups({static_cast<std::size_t>(ceil_div(p.weight_stride, tile)),
                                       static_cast<std::size_t>(ceil_div(p.rows, tile) * p.groups),
                                       static_cast<std::size_t>(p.parts)}, {items, 1, 1});
    queue.launch(program.kernel("conv_tiled_weight"), groups, call.x, call.y, sums, table, p);
    if (!in_place)
        add_parts(queue, call, sums, p);
}

}  // namespace clprim::conv
