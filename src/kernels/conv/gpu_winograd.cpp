// Host side of gpu_winograd.cl: weights, then cuts of the tiles, each through the source's transform, sixteen products
// and the result's transform.
#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include <kernels/conv/gpu_implicit.hpp>
#include <kernels/gemm/gpu_cut.hpp>
#include <kernels/pointwise/iteration.hpp>
#include <kernels/team.hpp>

namespace clprim::conv {

#include <kernels/conv/gpu_winograd_problem.cl>

static_assert(sizeof(winograd_problem) == 4 * 8 + 12 * 4, "as OpenCL C lays it out");

namespace {

using detail::round_up;

constexpr cl_long points = 16, weights_side = 16;   // POINTS and SIDE in gpu_winograd.cl
constexpr cl_long most_memory = cl_long{256} << 20; // bytes of V and M together

struct Sizes {
    cl_long rows, depth;     // channels of the result and the source, up to multiples of four
    cl_long tiles[2], all;   // of an image, of all of them
    cl_long pixels;          // of the result

    cl_long elements(cl_long count) const { return points * count * (rows + depth); }   // of V and M
    cl_long weights() const { return points * rows * depth; }
};

Sizes sizes_of(const Call& call)
{
    const Problem& q = call.problem;
    const bool forward = call.pass == ConvPass::forward;
    const cl_long* out = forward ? q.out : q.in;
    const cl_long high = ceil_div(out[1], 2), wide = ceil_div(out[2], 2);
    const cl_long rows = forward ? q.out_channels : q.in_channels, depth = forward ? q.in_channels : q.out_channels;
    return {round_up(rows, 4), round_up(depth, 4), {high, wide}, q.batch * high * wide, q.batch * out[1] * out[2]};
}

bool channels_last(const Call& call) { return call.problem.x_strides[1] == 1 && call.problem.in_channels > 1; }

// How many parts of the tiles go one after the other through the same memory.
cl_long usual_cuts(const Call& call, const Sizes& sizes)
{
    const cl_long bytes = sizes.elements(sizes.all) * static_cast<cl_long>(size_of(real_type(call.dtype)));
    return std::max<cl_long>(ceil_div(bytes, most_memory), 1);
}

// Of `count` tiles: sixteen times channels of the result by tiles, the other way round with channels innermost.
GemmProblem product_of(const Call& call, const Sizes& s, cl_long count)
{
    GemmProblem p;
    p.batch = points;
    p.dtype = real_type(call.dtype);
    p.k = s.depth;
    const MatrixLayout weights{s.rows, 1, s.depth * s.rows};   // k by rows
    if (channels_last(call)) {
        p.m = count;
        p.n = s.rows;
        p.a = {s.depth, 1, count * s.depth};
        p.b = weights;
        p.c = {s.rows, 1, count * s.rows};
    } else {
        p.m = s.rows;
        p.n = count;
        p.a = {weights.column, weights.row, weights.batch};
        p.b = {count, 1, s.depth * count};
        p.c = {count, 1, s.rows * count};
    }
    return p;
}

struct Launches {
    gpu_conv_problem conv{};
    winograd_problem winograd{};
};

Launches launches_of(const Call& call, const Sizes& sizes)
{
    Launches all;
    for_each_launch(call, [&](const ImplicitProblem& p, cl_long) { all.conv = gpu_problem(p); });   // strides are one
    winograd_problem& w = all.winograd;
    const PackProblem weights = pack_problem(call, false);
    w.weights_row = weights.row_stride;
    w.weights_channel = weights.depth_stride;
    for (int i = 0; i < 2; ++i) {
        w.weights_tap[i] = weights.tap_strides[1 + i];
        w.tiles[i] = static_cast<int>(sizes.tiles[i]);
        const Divider divider(static_cast<std::uint32_t>(sizes.tiles[i]));
        w.magic[i] = divider.magic;
        w.magic_shift[i] = divider.shift;
    }
    w.all = static_cast<int>(sizes.all);
    w.rows = static_cast<int>(sizes.rows);
    w.depth = static_cast<int>(sizes.depth);
    return all;
}

Tensor transformed_weights(Queue& queue, const Call& call, const Sizes& sizes, const Program& program,
                           const Launches& all)
{
    const auto transform = [&] {
        const Tensor result = queue.context().empty({sizes.weights()}, real_type(call.dtype), queue);
        const auto groups = [](cl_long channels) { return static_cast<std::size_t>(ceil_div(channels, weights_side)); };
        queue.launch(program.kernel("conv_winograd_weights"),
                     Range::groups({groups(sizes.rows), groups(sizes.depth), 1}, {weights_side, weights_side, 1}),
                     call.w, result, all.conv, all.winograd);
        return result;
    };
    if (!call.prepared)
        return transform();
    return call.prepared->get(queue, fmt::format("conv gpu winograd {}", static_cast<int>(call.pass)), transform);
}

// Groups of 256 along what lies side by side first.
Range tile_range(const Call& call, cl_long channels, cl_long tiles)
{
    const auto near = static_cast<std::size_t>(channels_last(call) ? channels : tiles);
    const auto far = static_cast<std::size_t>(channels_last(call) ? tiles : channels);
    const std::size_t wide = std::min<std::size_t>(std::bit_ceil(near), 64), high = 256 / wide;
    return Range::groups({(near + wide - 1) / wide, (far + high - 1) / high, 1}, {wide, high, 1});
}

bool result_in_pairs(const Call& call, const gpu_conv_problem& p)
{
    const cl_long numbers = p.result_image | p.result_channel | p.result_axis[1] | p.out[2] |
                            static_cast<cl_long>(call.result().buffer_offset());
    return call.dtype == DataType::float32 && p.result_axis[2] == 1 && numbers % 2 == 0;
}

// The forward pass that a weight gradient is derived from: its layouts are those of the gradient.
Call forward_of(const Call& call)
{
    Call forward = call;
    forward.pass = ConvPass::forward;
    return forward;
}

// Gradients of transformed weights, which lie as those do: sums over `count` tiles.
GemmProblem weight_product_of(const Call& call, const Sizes& s, cl_long count)
{
    GemmProblem p;
    p.batch = points;
    p.dtype = real_type(call.dtype);
    p.m = s.depth;
    p.n = s.rows;
    p.k = count;
    const bool last = channels_last(call);
    p.a = last ? MatrixLayout{1, s.depth, count * s.depth} : MatrixLayout{count, 1, count * s.depth};
    p.b = last ? MatrixLayout{s.rows, 1, count * s.rows} : MatrixLayout{1, count, count * s.rows};
    p.c = {s.rows, 1, s.depth * s.rows};
    return p;
}

}  // namespace

Rejection rejects_gpu_winograd(const Call& call, const Device& device)
{
    if (Rejection reason = rejects_gpu_implicit(call, device))
        return reason;
    const Problem& q = call.problem;
    if (q.groups != 1 || q.in[0] * q.out[0] * q.kernel[0] != 1 || q.pad[0] != 0 || q.kernel[1] != 3 || q.kernel[2] != 3)
        return "takes kernels of 3x3 in one group";
    for (int i = 1; i < 3; ++i)
        if (q.stride[i] != 1 || q.dilation[i] != 1)
            return "takes steps of one";
    if (q.in_pixels() * q.out_pixels() * q.in_channels * q.out_channels == 0)
        return "needs channels and positions";
    if (device.max_work_group_size < 256)
        return "needs work-groups of 256";
    const auto local = static_cast<std::size_t>(points * weights_side * (weights_side + 1));
    if (device.local_memory < local * size_of(real_type(call.dtype)))
        return "needs local memory for 256 weights";
    const Sizes sizes = sizes_of(call);
    if (sizes.weights() >= cl_long{1} << 31 || sizes.elements(4) >= cl_long{1} << 29)
        return "takes less than 2^31 transformed weights only";
    return {};
}

namespace {

// What launches of all tiles move, in bytes, and into how many times of `together` tiles they are cut.
struct Moves {
    Sizes sizes;
    double size, real;             // of a number, of a transformed one
    double times;
    cl_long together;
    double transformed, pixels;    // V and M; source and result
    double memory;                 // bytes of a clock
};
Moves moves_of(const Call& call, const Device& device)
{
    const Sizes sizes = sizes_of(call);
    const detail::GpuRate rate = detail::gpu_rate(device);
    const auto size = static_cast<double>(size_of(call.dtype));
    const auto real = static_cast<double>(size_of(real_type(call.dtype)));
    const cl_long cuts = usual_cuts(call, sizes);
    return {sizes, size, real, static_cast<double>(cuts), round_up(ceil_div(sizes.all, cuts), 4),
            real * static_cast<double>(sizes.elements(sizes.all)),
            size * static_cast<double>(sizes.pixels * (sizes.rows + sizes.depth)), rate.bytes * rate.engines};
}

}  // namespace

Rejection gpu_winograd_advises_against(const Call& call, const Device& device)
{
    // An H100 takes 1.1 to 1.25 times as long as gpu_implicit_clocks says, which knows no places of pixels.
    constexpr double worth = 0.95 * 1.15, between = detail::clocks_between_launches;
    const auto [sizes, size, real, times, together, transformed, pixels, memory] = moves_of(call, device);
    const auto weights = static_cast<double>(sizes.weights());
    const double products = std::max(times * detail::gpu_tiled_clocks(product_of(call, sizes, together), device),
                                     (transformed + times * real * weights) / memory);
    double clocks = products + (transformed + pixels) / memory + 2 * times * between;
    if (!call.prepared)
        clocks += (real + size * 9 / points) * weights / memory + between;
    if (clocks > worth * gpu_implicit_clocks(call, device))
        return "would spend more on transforms than it saves";
    return {};
}

Space gpu_winograd_space(const Call& call, const Device&)
{
    return {{"cuts", {1, 2, 4, 8}, usual_cuts(call, sizes_of(call))}};
}

void run_gpu_winograd(Queue& queue, const Call& call) { run_gpu_winograd_at(queue, call, {}); }

void run_gpu_winograd_at(Queue& queue, const Call& call, const Point& point)
{
    const Sizes sizes = sizes_of(call);
    if (sizes.all == 0)
        return;
    Launches all = launches_of(call, sizes);
    const DataType real = real_type(call.dtype);
    const std::string options =
        dtype_options(call) + fmt::format(" -DCHANNELS_LAST={:d} -DPAIRS={:d} -DACTIVATION={}",
                                                channels_last(call), result_in_pairs(call, all.conv),
                                                call.epilogue.activation);
    const Program& program = queue.context().program("kernels/conv/gpu_winograd.cl", options);
    const Tensor U = transformed_weights(queue, call, sizes, program, all);
    const cl_long wanted = std::max(point.empty() ? 1 : point.at("cuts"), usual_cuts(call, sizes));
    const cl_long together = round_up(ceil_div(sizes.all, wanted), 4);
    const Tensor V = queue.context().empty({points * together * sizes.depth}, real, queue);
    const Tensor M = queue.context().empty({points * together * sizes.rows}, real, queue);
    const Tensor& source = call.pass == ConvPass::forward ? call.x : call.y;
    const bool last = channels_last(call);
    for (cl_long first = 0; first < sizes.all; first += together) {
        const cl_long count = std::min(together, round_up(sizes.all - first, 4));
        all.winograd.first = static_cast<int>(first);
        all.winograd.count = static_cast<int>(count);
        queue.launch(program.kernel("conv_winograd_source"), tile_range(call, sizes.depth, count), source, V, all.conv,
                     all.winograd);
        gemm(queue, product_of(call, sizes, count), last ? V : U, last ? U : V, M);
        queue.launch(program.kernel("conv_winograd_result"), tile_range(call, all.conv.rows, count), M, call.bias,
                     call.result(), source, call.w, all.conv, all.winograd);
    }
}

Space gpu_winograd_weight_space(const Call& call, const Device& device)
{
    return gpu_winograd_space(forward_of(call), device);
}

void run_gpu_winograd_weight(Queue& queue, const Call& call) { run_gpu_winograd_weight_at(queue, call, {}); }

void run_gpu_winograd_weight_at(Queue& queue, const Call& call, const Point& point)
{
    const Call forward = forward_of(call);
    const Sizes sizes = sizes_of(forward);
    Launches all = launches_of(forward, sizes);
    const DataType real = real_type(call.dtype);
    const bool last = channels_last(call);
    const Program& program = queue.context().program(
        "kernels/conv/gpu_winograd_weight.cl",
        dtype_options(call) + fmt::format(" -DCHANNELS_LAST={:d} -DPAIRS=0 -DACTIVATION=0", last));
    const cl_long wanted = std::max(point.empty() ? 1 : point.at("cuts"), usual_cuts(forward, sizes));
    const cl_long together = round_up(ceil_div(sizes.all, wanted), 4);
    const Tensor V = queue.context().empty({points * together * sizes.depth}, real, queue);
    const Tensor M = queue.context().empty({points * together * sizes.rows}, real, queue);
    const Tensor U = queue.context().empty({sizes.weights()}, real, queue);
    for (cl_long first = 0; first < sizes.all; first += together) {
        const cl_long count = std::min(together, round_up(sizes.all - first, 4));
        all.winograd.first = static_cast<int>(first);
        all.winograd.count = static_cast<int>(count);
        queue.launch(program.kernel("conv_winograd_source"), tile_range(call, sizes.depth, count), call.x, V, all.conv,
                     all.winograd);
        queue.launch(program.kernel("conv_winograd_gradient"), tile_range(call, sizes.rows, count), call.y, M, all.conv,
                     all.winograd);
        GemmProblem product = weight_product_of(call, sizes, count);
        product.d = product.c;
        gemm(queue, product, V, M, U, first > 0 ? U : Tensor());
    }
    const auto groups = [](cl_long channels) { return static_cast<std::size_t>(ceil_div(channels, weights_side)); };
    queue.launch(program.kernel("conv_winograd_weight"),
                 Range::groups({groups(sizes.rows), groups(sizes.depth), 1}, {weights_side, weights_side, 1}), U,
                 call.w, call.x, call.y, all.conv, all.winograd);
}

Rejection gpu_winograd_weight_advises_against(const Call& call, const Device& device)
{
    constexpr double worth = 0.95, between = detail::clocks_between_launches;
    const auto [sizes, size, real, times, together, transformed, pixels, memory] = moves_of(forward_of(call), device);
    const double products = std::max(times * detail::gpu_tiled_clocks(weight_product_of(call, sizes, together), device),
                                     transformed / memory);
    const double weights = 2 * times * real * static_cast<double>(sizes.weights());
    const double clocks = products + (transformed + pixels + weights) / memory + (2 * times + 1) * between;
    if (clocks > worth * gpu_implicit_weight_clocks(call, device))
        return "would spend more on transforms than it saves";
    return {};
}

}  // namespace clprim::conv
