// How passes map to launches whose source lies at position*scale + shift + tap*step.
#include <algorithm>
#include <numeric>

#include <kernels/conv/implicit.hpp>

namespace clprim::conv {

ImplicitProblem common_problem(const Call& call)
{
    const Problem& q = call.problem;
    const bool forward = call.pass != ConvPass::backward_data;
    ImplicitProblem p{};
    p.batch = q.batch;
    p.groups = q.groups;
    p.rows = forward ? q.out_channels : q.in_channels;
    p.depth = forward ? q.in_channels : q.out_channels;
    std::copy_n(forward ? q.x_strides : q.y_strides, 5, p.source_strides);
    std::copy_n(forward ? q.y_strides : q.x_strides, 5, p.result_strides);
    std::copy_n(forward ? q.in : q.out, 3, p.in);
    std::copy_n(q.kernel, 3, p.kernel);
    p.has_bias = call.bias.defined();
    p.relu = call.activation == ConvActivation::relu;
    p.source_size = span_of(forward ? call.x : call.y);
    return p;
}

ImplicitProblem forward_problem(const Call& call)
{
    const Problem& q = call.problem;
    ImplicitProblem p = common_problem(call);
    for (int i = 0; i < 3; ++i) {
        p.out[i] = q.out[i];
        p.taps[i] = q.kernel[i];
        p.tap_first[i] = 0;
        p.tap_period[i] = 1;
        p.scale[i] = q.stride[i];
        p.shift[i] = -q.pad[i];
        p.step[i] = q.dilation[i];
    }
    return p;
}

namespace {

// Along one axis, the positions of x with one residue modulo the stride see every `period`-th tap from `first` on, at
// equal steps of y.
void set_residue(ImplicitProblem& p, const Problem& q, int axis, cl_long residue)
{
    const cl_long stride = q.stride[axis], dilation = q.dilation[axis], common = std::gcd(stride, dilation);
    const cl_long period = stride / common;
    cl_long first = 0;
    while (first < period && (residue + q.pad[axis] - first * dilation) % stride != 0)
        ++first;
    p.taps[axis] = first < std::min(period, q.kernel[axis]) ? ceil_div(q.kernel[axis] - first, period) : 0;
    p.tap_first[axis] = first;
    p.tap_period[axis] = period;
    p.scale[axis] = 1;
    p.shift[axis] = (residue + q.pad[axis] - first * dilation) / stride;
    p.step[axis] = -dilation / common;
    p.out[axis] = residue < q.in[axis] ? ceil_div(q.in[axis] - residue, stride) : 0;
    p.result_strides[2 + axis] *= stride;
}

}  // namespace

void for_each_launch(const Call& call, const std::function<void(const ImplicitProblem&, cl_long)>& launch)
{
    const Problem& q = call.problem;
    if (call.pass == ConvPass::forward)
        return launch(forward_problem(call), 0);
    const ImplicitProblem all = common_problem(call);
    for (cl_long z = 0; z < q.stride[0]; ++z)
        for (cl_long y = 0; y < q.stride[1]; ++y)
            for (cl_long x = 0; x < q.stride[2]; ++x) {
                ImplicitProblem p = all;
                set_residue(p, q, 0, z);
                set_residue(p, q, 1, y);
                set_residue(p, q, 2, x);
                launch(p, z * q.x_strides[2] + y * q.x_strides[3] + x * q.x_strides[4]);
            }
}

}  // namespace clprim::conv
