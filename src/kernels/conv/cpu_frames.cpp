// Convolutions of one channel along one axis: short-time Fourier transforms, resampling, the first layer of networks of
// sound. What the kernel sees at each place, a frame, is a row of a matrix whose rows overlap in memory, so that the
// convolution is a product of matrices as they lie:
//
//     y[n, o, t] = sum over k of w[o, k] x[n, t * stride + k]
#include <kernels/conv/problem.hpp>

#include <algorithm>
#include <optional>

#include <clprim/copy.hpp>
#include <clprim/gemm.hpp>

namespace clprim::conv {
namespace {

// The only axis along which there is more than one place or tap; the last one where there is none.
std::optional<int> only_axis(const Problem& q)
{
    int axis = 2, found = 0;
    for (int i = 0; i < 3; ++i)
        if (q.in[i] != 1 || q.out[i] != 1 || q.kernel[i] != 1 || q.pad[i] != 0)
            axis = i, ++found;
    return found <= 1 ? std::optional(axis) : std::nullopt;
}

// The signal with as many zeros around it as frames reach into, or as it is where they reach into none.
Tensor padded_signal(Queue& queue, const Call& call, int axis)
{
    const Problem& q = call.problem;
    const auto part = [&](const Tensor& of, cl_long row_step, cl_long first, cl_long count) {
        return Tensor(of.memory, of.offset + first, call.dtype, {q.batch, count}, {row_step, 1});
    };
    const cl_long length = (q.out[axis] - 1) * q.stride[axis] + q.kernel[axis], before = q.pad[axis];
    if (before == 0 && length <= q.in[axis])
        return part(call.x, q.x_strides[0], 0, q.in[axis]);
    const Tensor padded = queue.context().empty({q.batch, length}, call.dtype, queue);
    fill(queue, padded, 0);
    const cl_long first = std::max<cl_long>(before, 0), skipped = std::max<cl_long>(-before, 0);
    const cl_long count = std::min(length - first, q.in[axis] - skipped);
    if (count > 0)
        copy(queue, part(call.x, q.x_strides[0], skipped, count), part(padded, length, first, count));
    return padded;
}

}  // namespace

Rejection rejects_cpu_frames(const Call& call, const Device& device)
{
    const Problem& q = call.problem;
    if (device.kind != DeviceKind::cpu)
        return "is made for CPU devices";
    if (call.pass != ConvPass::forward)
        return "computes forward";
    if (!is_floating_point(call.dtype))
        return "computes real numbers";
    if (q.groups != 1 || q.in_channels != 1)
        return "needs one input channel";
    const std::optional<int> axis = only_axis(q);
    if (!axis)
        return "takes one axis";
    if (q.dilation[*axis] != 1 || q.x_strides[2 + *axis] != 1)
        return "needs taps that lie side by side";
    if (call.epilogue.accumulate || !product_activation(call))
        return "adds a bias and activates as products do";
    return {};
}

Rejection cpu_frames_advises_against(const Call& call, const Device&)
{
    const Problem& q = call.problem;
    if (q.taps() < 8 || (q.taps() < 24 && q.out_channels < 8))
        return "is slower with few taps";
    return {};
}

void run_cpu_frames(Queue& queue, const Call& call)
{
    const Problem& q = call.problem;
    const int axis = only_axis(q).value_or(2);
    const Tensor signal = padded_signal(queue, call, axis);
    GemmProblem p;
    p.dtype = call.dtype;
    p.batch = q.batch;
    p.m = q.out[axis], p.n = q.out_channels, p.k = q.kernel[axis];
    p.a = {q.stride[axis], 1, signal.stride(0)};
    p.b = {q.w_strides[2 + axis], q.w_strides[0], 0};
    p.c = {q.y_strides[2 + axis], q.y_strides[1], q.y_strides[0]};
    p.d = {0, 1, 0};
    p.activation = *product_activation(call);
    gemm(queue, p, signal, call.w, call.y, call.epilogue.has_bias ? call.bias : Tensor());
}

}  // namespace clprim::conv
