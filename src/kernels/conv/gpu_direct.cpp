// Host side of gpu_direct.cl.
#include <algorithm>

#include <kernels/conv/implicit.hpp>

namespace clprim::conv {
namespace {

constexpr cl_long most_channels = 8;

bool channels_last(const Call& call)
{
    return call.problem.x_strides[1] == 1 && call.problem.y_strides[1] == 1 && call.problem.groups > 1;
}

const Program& direct_program(Queue& queue, const Call& call)
{
    return queue.context().program("kernels/conv/gpu_direct.cl",
                                   dtype_options(call.dtype) + (channels_last(call) ? " -DCHANNELS_LAST" : ""));
}

}  // namespace

Rejection rejects_gpu_direct(const Call& call, const Device& device)
{
    if (Rejection reason = rejects_gpu_implicit(call, device))
        return reason;
    if (call.problem.groups == 1 || std::max(call.problem.in_channels, call.problem.out_channels) > most_channels)
        return "needs groups of at most 8 channels";
    return {};
}

void run_gpu_direct(Queue& queue, const Call& call)
{
    const Program& program = direct_program(queue, call);
    for_each_launch(call, [&](const ImplicitProblem& p, cl_long first) {
        Tensor result = call.result();
        result.offset += first;
        if (p.pixels() > 0)
            queue.launch(program.kernel("conv_direct"),
                         Range::linear(static_cast<std::size_t>(p.pixels() * p.groups * p.rows), 64),
                         call.pass == ConvPass::forward ? call.x : call.y, call.w, call.bias, result, p,
                         pack_problem(call, true));
    });
}

void run_gpu_direct_weight(Queue& queue, const Call& call)
{
    ImplicitProblem p = forward_problem(call);
    if (p.pixels() == 0)
        return fill_zero(queue, call.w);
    p.taps_inner = 1;
    const bool by_channel = channels_last(call);
    const cl_long outputs = p.groups * p.rows, groups = by_channel ? ceil_div(outputs, 64) : outputs;
    const cl_long wanted = (by_channel ? 64 : 4) * static_cast<cl_long>(queue.device().compute_units);
    p.parts = std::clamp<cl_long>(ceil_div(wanted, groups * p.total_depth()), 1, std::max<cl_long>(p.pixels() / 64, 1));
    const DataType real = real_type(call.dtype);
    const Tensor sums = queue.context().empty({p.parts * call.w.numel()}, real, queue);
    queue.launch(direct_program(queue, call).kernel("conv_direct_weight"),
                 Range::groups({static_cast<std::size_t>(groups), static_cast<std::size_t>(p.total_depth()),
                                static_cast<std::size_t>(p.parts)}, {64, 1, 1}),
                 call.x, call.y, sums, p);
    add_parts(queue, call, sums, p);
}

}  // namespace clprim::conv
