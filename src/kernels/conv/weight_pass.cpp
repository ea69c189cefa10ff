// What both weight gradients of CPUs do on the host.
#include <algorithm>

#include <kernels/conv/implicit.hpp>

namespace clprim::conv {
namespace {

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

void choose_parts(ImplicitProblem& p, const Device& device)
{
    const cl_long pixels = p.pixels();
    const cl_long items = ceil_div(p.total_depth(), p.tile_rows) * ceil_div(p.rows, p.tile_pixels) * p.groups;
    const cl_long wanted = 6 * static_cast<cl_long>(device.compute_units);
    p.parts = std::clamp<cl_long>(ceil_div(wanted, items), 1, std::max<cl_long>(pixels / (2 * p.tile_depth), 1));
    const cl_long share = ceil_div(pixels, p.parts);
    p.tile_depth = ceil_div(share, ceil_div(share, p.tile_depth));   // equal blocks within a share
}

void run_weight_pass(Queue& queue, const Call& caller, const std::function<void(ImplicitProblem&)>& choose_tiles,
                     const WeightLaunch& launch)
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
    choose_tiles(p);

    const bool in_place = p.parts == 1 && real == call.dtype && ordered;
    const Tensor sums = in_place ? call.w : queue.context().empty({p.parts * size}, real, queue);
    launch(call, p, sums, static_cast<std::size_t>(ceil_div(p.total_depth(), p.tile_rows) *
                                                   ceil_div(p.rows, p.tile_pixels) * p.parts * p.groups));
    if (!in_place)
        add_parts(queue, call, sums, p);
}

}  // namespace clprim::conv
