// Convolutions no two of whose taps see one number, as a vision transformer's first layer, which cuts an image into
// patches: one product of patches and weights. To other kernels they are many taps of few channels each, and their data
// gradient a launch for each tap.
#include <kernels/conv/gpu_matrix.hpp>

#include <algorithm>
#include <array>
#include <span>

#include <clprim/copy.hpp>

namespace clprim::conv {
namespace {

constexpr cl_long few_channels = 16, least_patch = 32;   // fewer, and longer ones, pay for the copy

struct Axis {
    cl_long size, stride;
};

// Without axes of size 1.
Tensor view(const Tensor& of, std::span<const Axis> axes)
{
    Dims shape, strides;
    for (const Axis& axis : axes)
        if (axis.size != 1) {
            shape.push_back(axis.size);
            strides.push_back(axis.stride);
        }
    if (shape.empty()) {
        shape.push_back(1);
        strides.push_back(1);
    }
    return Tensor(of.memory, of.offset, of.dtype, shape, strides);
}

using Inner = std::array<Axis, 4>;

// A patch's channel and taps in the order in which the weights of an output lie.
Inner inner_axes(const Problem& q, const cl_long (&strides)[5], bool dilated)
{
    Inner axes;
    const bool channels_last = q.w_strides[1] == 1 && q.in_channels > 1;
    axes[channels_last ? 3 : 0] = {q.in_channels, strides[1]};
    for (std::size_t i = 0; i < 3; ++i)
        axes[i + !channels_last] = {q.kernel[i], strides[2 + i] * (dilated ? q.dilation[i] : 1)};
    return axes;
}

// Where the numbers of all patches lie in x.
Tensor patches_of_x(const Call& call)
{
    const Problem& q = call.problem;
    const cl_long* s = q.x_strides;
    const Inner inner = inner_axes(q, q.x_strides, true);
    const Axis axes[] = {{q.batch, s[0]}, {q.out[0], q.stride[0] * s[2]}, {q.out[1], q.stride[1] * s[3]},
                         {q.out[2], q.stride[2] * s[4]}, inner[0], inner[1], inner[2], inner[3]};
    return view(call.x, axes);
}

// The weights, outputs by patch: in place where those of an output lie together.
struct WeightRows {
    Tensor seen;      // in the order of a patch
    bool in_place;
};
WeightRows weight_rows(const Call& call)
{
    const Problem& q = call.problem;
    const Inner inner = inner_axes(q, q.w_strides, false);
    cl_long expected = 1;
    bool dense = true;
    for (auto axis = inner.rbegin(); axis != inner.rend(); expected *= axis->size, ++axis)
        dense = dense && (axis->size == 1 || axis->stride == expected);
    const Axis axes[] = {{q.out_channels, q.w_strides[0]}, inner[0], inner[1], inner[2], inner[3]};
    return {view(call.w, axes), dense};
}

Tensor like(Queue& queue, const Tensor& seen) { return queue.context().empty(seen.shape, seen.dtype, queue); }

// The positions of y as rows; of each image by itself where they cannot be those of one matrix.
bool rows_of_y(const Problem& q, MatrixLayout& layout)
{
    layout = {q.y_strides[4], q.y_strides[1], q.y_strides[0]};
    return q.y_strides[3] == q.out[2] * q.y_strides[4] && q.y_strides[2] == q.out[1] * q.y_strides[3];
}

// Whether every number of x lies in a patch.
bool covers(const Problem& q)
{
    for (int i = 0; i < 3; ++i)
        if (q.in[i] != q.out[i] * q.kernel[i])
            return false;
    return true;
}

}  // namespace

bool in_patches(const Call& call)
{
    const Problem& q = call.problem;
    const bool data = call.pass == ConvPass::backward_data;
    MatrixLayout y;
    if (q.groups != 1 || q.taps() * q.in_channels < least_patch || call.epilogue.accumulate ||
        !product_activation(call) || (data && (call.epilogue.has_bias || call.epilogue.activation)) ||
        !rows_of_y(q, y) || q.batch * q.out_pixels() == 0)
        return false;
    for (int i = 0; i < 3; ++i) {
        const cl_long reach = (q.kernel[i] - 1) * q.dilation[i] + 1;
        if (q.pad[i] != 0 || (q.out[i] > 1 && q.stride[i] < reach) || (q.out[i] - 1) * q.stride[i] + reach > q.in[i])
            return false;
    }
    return beyond_matrix_taps(q) || (q.in_channels < few_channels && q.taps() > 1);
}

void run_in_patches(Queue& queue, const Call& call)
{
    const Problem& q = call.problem;
    const cl_long length = q.in_channels * q.taps();
    const Tensor of_x = patches_of_x(call), patches = like(queue, of_x);
    const WeightRows rows = weight_rows(call);
    const Tensor weights = rows.in_place ? call.w : like(queue, rows.seen);
    const MatrixLayout w{rows.in_place ? q.w_strides[0] : length, 1, 0};
    MatrixLayout y;
    rows_of_y(q, y);
    cl_long images = q.batch, pixels = q.out_pixels();
    Tensor of_y = call.y;
    if (images == 1 || y.batch == pixels * y.row)
        pixels *= images, images = 1;
    if (images > 1 && call.pass == ConvPass::backward_weight) {   // a sum over all images
        const Axis axes[] = {{images, y.batch}, {pixels, y.row}, {q.out_channels, y.column}};
        const Tensor seen = view(call.y, axes);
        of_y = like(queue, seen);
        copy(queue, seen, of_y);
        pixels *= images, images = 1;
        y = {q.out_channels, 1, 0};
    }
    const MatrixLayout x{length, 1, pixels * length};
    GemmProblem p;
    p.dtype = call.dtype;
    p.batch = images;
    if (call.pass != ConvPass::backward_weight && !rows.in_place)
        copy(queue, rows.seen, weights);
    if (call.pass != ConvPass::backward_data)
        copy(queue, of_x, patches);
    switch (call.pass) {
    case ConvPass::forward:
        p.m = pixels, p.n = q.out_channels, p.k = length;
        p.a = x, p.b = {1, w.row, 0}, p.c = y;
        p.d = {0, 1, 0};   // a bias for each channel, which are columns
        p.add_d = call.epilogue.has_bias;
        p.activation = *product_activation(call);
        return detail::gpu_matrix(queue, p, {patches, weights, call.y, call.bias});
    case ConvPass::backward_data:
        p.m = pixels, p.n = length, p.k = q.out_channels;
        p.a = y, p.b = w, p.c = x;
        detail::gpu_matrix(queue, p, {call.y, weights, patches, {}});
        if (!covers(q))
            fill(queue, call.x, 0.0);
        return copy(queue, patches, of_x);
    case ConvPass::backward_weight:
        p.m = q.out_channels, p.n = length, p.k = pixels;
        p.a = {y.column, y.row, 0}, p.b = x, p.c = w;
        detail::gpu_matrix(queue, p, {of_y, patches, weights, {}});
        if (!rows.in_place)
            copy(queue, weights, rows.seen);
    }
}

}  // namespace clprim::conv
