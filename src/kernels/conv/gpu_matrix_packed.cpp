#include <kernels/conv/gpu_matrix_packed.hpp>

#include <algorithm>

#include <clprim/copy.hpp>
#include <kernels/gemm/problem.hpp>

namespace clprim::conv {

using detail::round_up;

namespace {

// A copy of `source` in the middle of zeros: a tensor of `shape`, in which it begins at element `first`.
Tensor amid_zeros(Queue& queue, const Tensor& source, const Dims& shape, cl_long first)
{
    const Tensor whole = queue.context().empty({std::max<cl_long>(shape.product(), 1)}, source.dtype, queue);
    if (shape != source.shape)
        fill_zero(queue, whole);
    if (source.numel() > 0)
        copy(queue, source,
             Tensor(whole.memory, whole.offset + first, source.dtype, source.shape, contiguous_strides(shape)));
    return whole;
}

}  // namespace

bool Side::fits(bool dense) const
{
    const cl_long* s = strides;
    const cl_long all = s[0] | s[2] | s[3] | s[4] | static_cast<cl_long>(tensor.buffer_offset()) | channels;
    const bool equal = s[3] == sizes[2] * s[4] && s[2] == sizes[1] * s[3] &&
                       (batch == 1 || s[0] == sizes[0] * s[2]);
    return all % 8 == 0 && s[1] == 1 && (equal || !dense);
}

Side x_side(const Call& call)
{
    const Problem& q = call.problem;
    return {call.x, q.x_strides, q.in, q.batch, q.groups, q.in_channels};
}
Side y_side(const Call& call)
{
    const Problem& q = call.problem;
    return {call.y, q.y_strides, q.out, q.batch, q.groups, q.out_channels};
}

Tensor filled_up(Queue& queue, const Tensor& source, cl_long length)
{
    Dims shape = source.shape;
    shape[shape.size() - 1] = length;
    return amid_zeros(queue, source, shape, 0);
}

Border border_of(const Call& call, const Side& side)
{
    Border border;
    if (round_up(side.channels, 8) % 32 == 0)
        return border;
    for_each_launch(call, [&](const ImplicitProblem& p, cl_long) {
        for (int i = 0; i < 3; ++i) {
            if (p.pixels() == 0 || p.total_depth() == 0)
                return;
            const cl_long reach = (p.taps[i] - 1) * p.step[i];
            border.before[i] = std::max(border.before[i], -(p.shift[i] + std::min<cl_long>(reach, 0)));
            border.after[i] = std::max(border.after[i], (p.out[i] - 1) * p.scale[i] + p.shift[i] +
                                                            std::max<cl_long>(reach, 0) - (p.in[i] - 1));
        }
    });
    double growth = 1;
    for (int i = 0; i < 3; ++i)
        growth *= static_cast<double>(side.sizes[i] + border.before[i] + border.after[i]) /
                  static_cast<double>(std::max<cl_long>(side.sizes[i], 1));
    return growth < 2 ? border : Border{};
}

Packed packed(Queue& queue, const Side& side, bool dense, const Border& border)
{
    Packed result{side.tensor, {}, side.channels};
    std::copy_n(side.strides, 5, result.strides);
    if (side.fits(dense))
        return result;
    result.channels = round_up(side.channels, 8);
    result.border = border;
    cl_long sizes[3];
    for (int i = 0; i < 3; ++i)
        sizes[i] = side.sizes[i] + border.before[i] + border.after[i];
    const cl_long* s = side.strides;
    const Tensor& t = side.tensor;
    const Tensor seen(t.memory, t.offset, t.dtype,
                      {side.batch, side.sizes[0], side.sizes[1], side.sizes[2], side.groups, side.channels},
                      {s[0], s[2], s[3], s[4], s[1] * side.channels, s[1]});
    result.strides[1] = 1;
    result.strides[4] = side.groups * result.channels;
    result.strides[3] = result.strides[4] * sizes[2];
    result.strides[2] = result.strides[3] * sizes[1];
    result.strides[0] = result.strides[2] * sizes[0];
    cl_long first = 0;
    for (int i = 0; i < 3; ++i)
        first += border.before[i] * result.strides[2 + i];
    result.tensor = amid_zeros(queue, seen, {side.batch, sizes[0], sizes[1], sizes[2], side.groups, result.channels},
                               first);
    return result;
}

}  // namespace clprim::conv
