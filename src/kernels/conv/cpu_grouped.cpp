// Host side of cpu_grouped.cl.
#include <algorithm>

#include <fmt/format.h>

#include <kernels/conv/implicit.hpp>

namespace clprim::conv {
namespace {

constexpr cl_long lanes = 16;

const Program& program_for(Queue& queue, const Call& call)
{
    return queue.context().program("kernels/conv/cpu_grouped.cl",
                                   dtype_options(call) + fmt::format(" -DSIDE={}", call.problem.in_channels));
}

// Of the taps of one launch.
Tensor packed_weights(Queue& queue, const Call& call, const Program& program, const ImplicitProblem& p)
{
    const auto pack = [&] {
        const auto [w, taps] = weights_of_launch(call, p);
        const cl_long size = p.groups * p.rows * p.total_depth();
        const Tensor packed = queue.context().empty({std::max<cl_long>(size, 1)}, real_type(call.dtype), queue);
        if (size > 0)
            queue.launch(program.kernel("conv_grouped_pack"), Range::linear(static_cast<std::size_t>(size), 64), w,
                         packed, taps);
        return packed;
    };
    const std::string key = fmt::format("conv groups {} {} {} {} {}", call.pass == ConvPass::forward, p.total_depth(),
                                        p.tap_first[0], p.tap_first[1], p.tap_first[2]);
    return call.prepared ? call.prepared->get(queue, key, pack, Prepared::Keeps::all) : pack();
}

}  // namespace

Rejection rejects_cpu_grouped(const Call& call, const Device& device)
{
    if (Rejection reason = rejects_cpu_implicit(call, device))
        return reason;
    if (real_type(call.dtype) != DataType::float32)
        return "computes in float32";
    const Problem& q = call.problem;
    const cl_long side = q.in_channels;
    if (q.out_channels != side || (side != 1 && side != 2 && side != 4 && side != 8) || q.groups * side < lanes)
        return "needs groups of 1, 2, 4 or 8 channels on both sides, sixteen together";
    if (call.epilogue.accumulate && q.groups * side % lanes != 0)
        return "would add to some channels twice";
    if (q.x_strides[1] != 1 || q.y_strides[1] != 1)
        return "needs tensors with channels innermost";
    if (q.taps() > 512)
        return "takes kernels of 512 taps at most";
    if (span_of(call.x) >= (cl_long{1} << 31) || span_of(call.y) >= (cl_long{1} << 31))
        return "takes tensors of less than 2^31 elements";
    return {};
}

void run_cpu_grouped(Queue& queue, const Call& call)
{
    const Program& program = program_for(queue, call);
    for_each_launch(call, [&](const ImplicitProblem& p, cl_long first) {
        if (p.pixels() == 0)
            return;
        const Tensor weights = packed_weights(queue, call, program, p);
        Tensor result = call.result();
        result.offset += first;
        const cl_long items = p.batch * p.out[0] * p.out[1] * ceil_div(p.groups * p.rows, lanes);
        queue.launch(program.kernel("conv_grouped"), Range::groups(static_cast<std::size_t>(items)),
                     call.pass == ConvPass::forward ? call.x : call.y, weights, call.bias, result, p);
    });
}

void run_cpu_grouped_weight(Queue& queue, const Call& call)
{
    ImplicitProblem p = forward_problem(call);
    if (p.pixels() == 0)
        return fill_zero(queue, call.w);
    const cl_long blocks = ceil_div(p.groups * p.rows, lanes), length = p.total_depth();
    p.parts = std::clamp<cl_long>(ceil_div(4 * static_cast<cl_long>(queue.device().compute_units), blocks), 1,
                                  std::max<cl_long>(p.batch * p.out[0] * p.out[1], 1));
    const Tensor sums = queue.context().empty({p.parts * p.groups * p.rows * length}, DataType::float32, queue);
    queue.launch(program_for(queue, call).kernel("conv_grouped_weight"),
                 Range::groups(static_cast<std::size_t>(blocks * p.parts)), call.x, call.y, sums,
                 LocalMemory{static_cast<std::size_t>(length * lanes) * sizeof(cl_float)}, p);
    add_parts(queue, call, sums, p);
}

}  // namespace clprim::conv
