// Host side of gpu_direct.cl.
#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include <kernels/conv/implicit.hpp>

namespace clprim::conv {
namespace {

constexpr cl_long most_channels = 8;
constexpr std::size_t items = 64;   // of a work-group

bool channels_last(const Call& call)
{
    return call.problem.x_strides[1] == 1 && call.problem.y_strides[1] == 1 && call.problem.groups > 1;
}

// Whether channels are groups of their own and lie at multiples of four elements, as many.
bool quads(const Call& call)
{
    const Problem& p = call.problem;
    const auto whole = [](const cl_long* strides, const Tensor& t) {
        return (strides[0] | strides[2] | strides[3] | strides[4] | static_cast<cl_long>(t.buffer_offset())) % 4 == 0;
    };
    return call.pass != ConvPass::backward_weight && channels_last(call) &&
           std::max(p.in_channels, p.out_channels) == 1 && p.groups % 4 == 0 && whole(p.x_strides, call.x) &&
           whole(p.y_strides, call.y);
}

const Program& direct_program(Queue& queue, const Call& call, const ImplicitProblem& p)
{
    const auto near = [](const Tensor& t) {   // counted from the beginning of its buffer
        return (static_cast<cl_long>(t.buffer_offset()) + span_of(t)) * static_cast<cl_long>(size_of(t.dtype)) <
               cl_long{1} << 31;
    };
    const bool unit = p.scale[2] == 1 && std::abs(p.step[2]) == 1 && !quads(call);
    const char* offset = !(near(call.x) && near(call.w) && near(call.y))        ? "long"
                         : unit || call.pass == ConvPass::backward_weight ? "uint" : "int";
    return queue.context().program("kernels/conv/gpu_direct.cl",
                                   fmt::format("{} -DACTIVATION={} -DOFFSET={} -DCHANNELS_LAST={:d} -DQUADS={:d} "
                                               "-DUNIT={:d}", dtype_options(call.dtype), call.epilogue.activation,
                                               offset, channels_last(call), quads(call), unit));
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
    for_each_launch(call, [&](const ImplicitProblem& p, cl_long first) {
        Tensor result = call.result();
        result.offset += first;
        if (p.pixels() == 0)
            return;
        const cl_long channels = p.groups * p.rows, lines = p.out[0] * p.out[1], x_blocks = ceil_div(p.out[2], 4);
        const bool by_channel = channels_last(call);
        const cl_long inner = x_blocks * (by_channel ? channels / (quads(call) ? 4 : 1) : lines);
        const cl_long groups = ceil_div(inner, items) * p.batch * (by_channel ? lines : channels);
        queue.launch(direct_program(queue, call, p).kernel("conv_direct"),
                     Range::groups({static_cast<std::size_t>(groups), 1, 1}, {items, 1, 1}),
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
    const cl_long tap_blocks = p.depth * p.taps[0] * p.taps[1] * ceil_div(p.taps[2], 4);
    const cl_long least = by_channel ? 64 : 256;   // pixels of a part
    p.parts = std::clamp<cl_long>(ceil_div(wanted, groups * tap_blocks), 1,
                                  std::min(p.pixels() / p.out[2], std::max<cl_long>(p.pixels() / least, 1)));
    const DataType real = real_type(call.dtype);
    const Tensor sums = queue.context().empty({p.parts * call.w.numel()}, real, queue);
    queue.launch(direct_program(queue, call, p).kernel("conv_direct_weight"),
                 Range::groups({static_cast<std::size_t>(groups), static_cast<std::size_t>(tap_blocks),
                                static_cast<std::size_t>(p.parts)}, {items, 1, 1}),
                 call.x, call.y, sums, p);
    add_parts(queue, call, sums, p);
}

}  // namespace clprim::conv
