// Convolutions of one tap that are matrix products of the tensors as they lie.
#include <kernels/conv/gpu_matrix.hpp>

#include <algorithm>

#include <kernels/gemm/gpu_cut.hpp>

namespace clprim::conv {
namespace {

// The pixels of a side as rows, its channels as columns, its images as a batch, where that can be said.
bool pixels_by_channels(const cl_long (&strides)[5], const cl_long (&sizes)[3], MatrixLayout& layout)
{
    layout = {strides[4], strides[1], strides[0]};
    return strides[3] == sizes[2] * strides[4] && strides[2] == sizes[1] * strides[3];
}

bool plain(const Call& call)
{
    const Problem& q = call.problem;
    bool same = q.taps() == 1 && q.groups == 1 && !call.epilogue.accumulate && product_activation(call);
    for (int i = 0; i < 3; ++i)
        same = same && q.stride[i] == 1 && q.pad[i] == 0 && q.in[i] == q.out[i];
    return same;
}

MatrixLayout turned(const MatrixLayout& m) { return {m.column, m.row, m.batch}; }

}  // namespace

std::optional<MatrixProduct> as_matrix_product(const Call& call)
{
    const Problem& q = call.problem;
    MatrixLayout x, y;
    if (!plain(call) || !pixels_by_channels(q.x_strides, q.in, x) || !pixels_by_channels(q.y_strides, q.out, y))
        return {};
    std::int64_t images = q.batch, pixels = q.in_pixels();
    if (images == 1 || (x.batch == pixels * x.row && y.batch == pixels * y.row))
        pixels *= images, images = 1;
    MatrixProduct result;
    GemmProblem& p = result.problem;
    p.dtype = call.dtype;
    p.batch = images;
    const MatrixLayout w{q.w_strides[0], q.w_strides[1], 0};   // outputs by inputs
    switch (call.pass) {
    case ConvPass::forward:
        p.m = pixels, p.n = q.out_channels, p.k = q.in_channels;
        p.a = x, p.b = turned(w), p.c = y;
        result.tensors = {call.x, call.w, call.y, call.bias};
        break;
    case ConvPass::backward_data:
        p.m = pixels, p.n = q.in_channels, p.k = q.out_channels;
        p.a = y, p.b = w, p.c = x;
        result.tensors = {call.y, call.w, call.x, call.bias};
        break;
    case ConvPass::backward_weight:
        if (images > 1)
            return {};   // a sum over images as well
        p.m = q.out_channels, p.n = q.in_channels, p.k = pixels;
        p.a = turned(y), p.b = x, p.c = w;
        result.tensors = {call.y, call.x, call.w, {}};
        break;
    }
    p.d = {0, 1, 0};   // a bias for each channel, which are columns
    p.add_d = call.epilogue.has_bias;
    p.activation = *product_activation(call);
    // What is read element by element is better gathered.
    if (!detail::operands_in_groups(8, p, result.tensors))
        return {};
    return result;
}

}  // namespace clprim::conv
