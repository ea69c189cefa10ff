// Weight gradients of few channels by matrix instructions: all taps along a row as one tap of more channels.
#include <algorithm>

#include <clprim/copy.hpp>
#include <kernels/conv/gpu_matrix.hpp>
#include <kernels/conv/implicit.hpp>

namespace clprim::conv {

using detail::round_up;

namespace {

// Of a pixel in memory, so that every pixel that a position begins at lies at a multiple of eight elements.
cl_long run_channels(const ImplicitProblem& p) { return p.depth <= 4 && p.scale[2] % 2 == 0 ? 4 : 8; }

}  // namespace

std::optional<Runs> runs_of(ImplicitProblem& p)
{
    if (p.groups > 1 || p.depth >= 8 || p.taps[2] == 1 || p.step[2] != 1)   // more channels are read in place
        return {};
    Runs runs;
    runs.channels = run_channels(p);
    runs.taps = p.taps[2];
    p.depth = round_up(runs.taps * runs.channels, 8);
    for (int i = 0; i < 3; ++i) {
        runs.before[i] = std::max<cl_long>(-p.shift[i], 0);
        p.shift[i] += runs.before[i];
        const cl_long seen = i == 2 ? p.depth / runs.channels : (p.taps[i] - 1) * p.step[i] + 1;
        p.in[i] = std::max(p.in[i] + runs.before[i], (p.out[i] - 1) * p.scale[i] + p.shift[i] + seen);
    }
    p.in[2] = round_up(p.in[2], 8 / runs.channels);
    p.taps[2] = 1;
    cl_long* s = p.source_strides;
    s[1] = 1;
    s[4] = runs.channels;
    s[3] = p.in[2] * s[4];
    s[2] = p.in[1] * s[3];
    s[0] = p.in[0] * s[2];
    return runs;
}

Tensor with_border(Queue& queue, const Call& call, const ImplicitProblem& p, const Runs& runs)
{
    const Problem& q = call.problem;
    const cl_long *from = q.x_strides, *to = p.source_strides;
    Tensor whole = queue.context().empty({std::max<cl_long>(p.batch * to[0], 1)}, call.x.dtype, queue);
    fill_zero(queue, whole);
    const Dims shape{q.batch, q.in[0], q.in[1], q.in[2], q.in_channels};
    Tensor inner(whole.memory, whole.offset, whole.dtype, shape, {to[0], to[2], to[3], to[4], 1});
    for (std::size_t i = 0; i < 3; ++i)
        inner.offset += runs.before[i] * to[2 + i];
    if (inner.numel() > 0)
        copy(queue, Tensor(call.x.memory, call.x.offset, call.x.dtype, shape,
                           {from[0], from[2], from[3], from[4], from[1]}), inner);
    return whole;
}

}  // namespace clprim::conv
