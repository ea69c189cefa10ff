// How passes map to launches whose source lies at position*scale + shift + tap*step.
#include <algorithm>
#include <numeric>
#include <string>

#include <clprim/copy.hpp>
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
    p.epilogue = call.epilogue;
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

bool weights_in_order(const Problem& q, bool taps_inner)
{
    const cl_long taps = q.taps(), length = q.in_channels * taps;
    bool fits = (q.in_channels == 1 || q.w_strides[1] == (taps_inner ? taps : 1)) &&
                (q.groups * q.out_channels == 1 || q.w_strides[0] == length);
    cl_long stride = taps_inner ? 1 : q.in_channels;
    for (int i = 2; i >= 0; stride *= q.kernel[i], --i)
        fits &= q.kernel[i] == 1 || q.w_strides[2 + i] == stride;
    return fits;
}

PackProblem pack_problem(const Call& call, bool taps_inner)
{
    const Problem& q = call.problem;
    const bool data = call.pass == ConvPass::backward_data;
    PackProblem pack{};
    pack.groups = q.groups;
    pack.rows = data ? q.in_channels : q.out_channels;
    pack.depth = data ? q.out_channels : q.in_channels;
    pack.group_stride = q.out_channels * q.w_strides[0];
    pack.row_stride = q.w_strides[data ? 1 : 0];
    pack.depth_stride = q.w_strides[data ? 0 : 1];
    std::copy_n(q.kernel, 3, pack.taps);
    std::copy_n(q.w_strides + 2, 3, pack.tap_strides);
    pack.taps_inner = taps_inner;
    return pack;
}

LaunchWeights weights_of_launch(const Call& call, const ImplicitProblem& p)
{
    LaunchWeights result{call.w, pack_problem(call, false)};
    for (int i = 0; i < 3; ++i) {
        result.w.offset += p.tap_first[i] * result.taps.tap_strides[i];
        result.taps.tap_strides[i] *= p.tap_period[i];
        result.taps.taps[i] = p.taps[i];
    }
    return result;
}

void add_parts(Queue& queue, const Call& call, const Tensor& sums, const ImplicitProblem& p)
{
    const cl_long size = call.w.numel(), ordered = weights_in_order(call.problem, p.taps_inner);
    const Program& program = queue.context().program("kernels/conv/add_parts.cl", dtype_options(call));
    queue.launch(program.kernel("conv_add_parts"), Range::linear(static_cast<std::size_t>(size), 64), sums, call.w,
                 p.parts, ordered, pack_problem(call, p.taps_inner));
}

void add_parts_looking_again(Queue& queue, const Call& call, const Tensor& sums, const ImplicitProblem& p)
{
    require(!p.taps_inner, "conv: the kernel counts channels first");
    const cl_long size = call.w.numel(), ordered = weights_in_order(call.problem, false);
    const Program& program =
        queue.context().program("kernels/conv/add_parts.cl", dtype_options(call) + " -DLOOK_AGAIN");
    queue.launch(program.kernel("conv_add_parts"), Range::linear(static_cast<std::size_t>(size), 64), sums, call.w,
                 p.parts, ordered, pack_problem(call, false), call.x, call.y, call.problem);
}

void fill_zero(Queue& queue, const Tensor& tensor)
{
    require(tensor.is_non_overlapping_and_dense(), "conv: the result must be dense, got strides ",
            to_string(tensor.strides));
    const double zero = 0;
    queue.fill(*tensor.memory, static_cast<std::size_t>(tensor.offset) * size_of(tensor.dtype), tensor.nbytes(), &zero,
               std::min<std::size_t>(size_of(tensor.dtype), sizeof zero));
}

Tensor weight_matrix(Queue& queue, const Call& call, ImplicitProblem& p)
{
    const Problem& q = call.problem;
    const bool forward = call.pass == ConvPass::forward;
    const cl_long taps = q.taps(), together = q.in_channels * taps;
    const bool taps_inner = weights_in_order(q, true), channels_inner = weights_in_order(q, false);
    p.taps_inner = forward && (taps_inner || !channels_inner);
    PackProblem pack = pack_problem(call, p.taps_inner);
    p.weight_stride = p.depth * taps;
    const DataType real = real_type(call.dtype);
    if (forward && real == call.dtype && (taps_inner || channels_inner))
        return call.w;

    const auto pack_weights = [&] {
        const Tensor packed = queue.context().empty({q.groups * p.rows * p.weight_stride}, real, queue);
        const Program& program = queue.context().program("kernels/conv/cpu_implicit.cl", dtype_options(call));
        if (forward && (taps_inner || channels_inner)) {   // all but the dtype is as it should be
            Tensor line = call.w;
            line.shape = packed.shape;
            line.strides = packed.strides;
            copy(queue, line, packed);
        } else if (!forward && (taps_inner || channels_inner) && together < (1 << 30)) {
            const cl_long items = ceil_div(together, 256) * ceil_div(p.depth, 64) * q.groups;
            pack.row_stride = taps_inner ? taps : 1;
            queue.launch(program.kernel("conv_transpose_weights"), Range::groups(static_cast<std::size_t>(items)),
                         call.w, packed, pack);
        } else {
            queue.launch(program.kernel("conv_pack_weights"),
                         Range::linear(static_cast<std::size_t>(packed.numel()), 64), call.w, packed, pack);
        }
        return packed;
    };
    if (call.prepared)
        return call.prepared->get(queue, forward ? "conv rows"
                                                 : "conv rows of the data gradient " + std::to_string(q.groups),
                                  pack_weights, Prepared::Keeps::all);
    return pack_weights();
}

void merge_positions(ImplicitProblem& p)
{
    const auto dense = [](const cl_long* strides, const cl_long* sizes) {
        return strides[3] == sizes[2] * strides[4] && strides[2] == sizes[1] * strides[3];
    };
    bool plain =
        p.taps[0] * p.taps[1] * p.taps[2] == 1 && dense(p.source_strides, p.in) && dense(p.result_strides, p.out);
    for (int i = 0; i < 3; ++i)
        plain &= p.scale[i] == 1 && p.shift[i] == 0 && p.in[i] == p.out[i];
    const cl_long pixels = p.in[0] * p.in[1] * p.in[2];
    if (plain && pixels < (1 << 30)) {
        p.in[2] = p.out[2] = pixels;
        p.in[0] = p.in[1] = p.out[0] = p.out[1] = 1;
    }
}

void run_implicit_pass(Queue& queue, const Call& caller, ImplicitLaunch launch)
{
    const Call call = with_planar_source(queue, caller);
    ImplicitProblem all = common_problem(call);
    const Tensor weights = weight_matrix(queue, call, all);
    for_each_launch(call, [&](ImplicitProblem p, cl_long first) {
        p.taps_inner = all.taps_inner;
        p.weight_stride = all.weight_stride;
        launch(queue, call, weights, p, first);
    });
}

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
