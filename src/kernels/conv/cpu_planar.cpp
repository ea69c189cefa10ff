// Host side of cpu_planar.cl: maps a pass to launches, chooses block sizes, packs weights where they do not lie right.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <kernels/conv/planar.hpp>

namespace clprim::conv {
namespace {

// One launch: what it computes, which weights it needs, and where its result begins.
struct Part {
    PlanarProblem planar{};
    PackProblem pack{};
    cl_long result_first = 0;
};

// Smallest block sizes that keep all compute units busy for the shortest time, by a model in cycles per unit of depth:
// products, reading the weights once per work-item, packing the source once per work-item.
void choose_tiles(PlanarProblem& p, const Device& device, std::size_t real_size)
{
    const cl_long pixels = p.pixels(), depth = std::max<cl_long>(p.total_depth(), 1);
    p.tile_depth = ceil_div(depth, ceil_div(depth, 288));
    const cl_long budget = static_cast<cl_long>(std::min<std::size_t>(device.local_memory, 256 * 1024) / real_size) -
                           p.tile_depth * wide - 64;
    double best = 1e300;
    for (cl_long row_blocks = 1; row_blocks <= p.rows; row_blocks *= 2) {
        const cl_long rows = std::min(p.rows, ceil_div(ceil_div(p.rows, row_blocks), 12) * 12);
        for (cl_long columns = wide / 2; columns <= 512; columns += wide / 2) {
            if (ceil_div(columns, wide) * wide * (rows + 3) > budget)
                break;
            const double count = double(ceil_div(p.rows, rows)) * ceil_div(pixels, columns) * p.groups;
            const double rounds = std::ceil(count / device.compute_units);
            const double tiles = columns / double(wide / 2) * (columns % wide ? 1.05 : 1.0) / 2;
            const double cost = rounds * (rows * tiles + 0.3 * rows + 0.25 * columns + 40.0 / depth * rows * tiles);
            if (cost < best * (columns >= 64 ? 1.0 : 0.98)) {
                best = cost;
                p.tile_rows = rows;
                p.tile_pixels = columns;
            }
            if (columns >= pixels)
                break;
        }
        if (rows <= 12)
            break;
    }
}

Tensor pack_weights(Queue& queue, const Call& call, const PackProblem& pack)
{
    const DataType real = call.dtype == DataType::float64 ? DataType::float64 : DataType::float32;
    const cl_long taps = pack.taps[0] * pack.taps[1] * pack.taps[2];
    const Tensor packed = queue.context().empty({pack.groups * pack.rows * pack.depth * taps}, real, queue);
    const Program& program = queue.context().program("kernels/conv/cpu_planar.cl", dtype_options(call.dtype));
    if (packed.numel() > 0)
        queue.launch(program.kernel("conv_pack_weights"),
                     Range::linear(static_cast<std::size_t>(pack.groups * pack.rows * pack.depth), 64), call.w, packed,
                     pack);
    return packed;
}

void launch(Queue& queue, const Call& call, Part part)
{
    PlanarProblem& p = part.planar;
    const PackProblem& pack = part.pack;
    if (p.pixels() == 0)
        return;
    // Positions without taps along rows and planes are one long row.
    const auto dense = [](const cl_long* strides, const cl_long* sizes) {
        return strides[3] == sizes[2] * strides[4] && strides[2] == sizes[1] * strides[3];
    };
    if (p.total_depth() == p.depth && dense(p.source_strides, p.in) && dense(p.result_strides, p.out) &&
        std::equal(p.in, p.in + 3, p.out)) {
        bool plain = true;
        for (int i = 0; i < 3; ++i)
            plain &= p.scale[i] == 1 && p.shift[i] == 0;
        if (plain) {
            p.in[2] = p.out[2] = p.in[0] * p.in[1] * p.in[2];
            p.in[0] = p.in[1] = p.out[0] = p.out[1] = 1;
        }
    }
    const std::size_t real_size = call.dtype == DataType::float64 ? 8 : 4;
    choose_tiles(p, queue.device(), real_size);
    p.weight_stride = p.total_depth();

    const bool in_place = real_size == size_of(call.dtype) && pack.row_stride == p.weight_stride &&
                          pack.group_stride == p.rows * pack.row_stride && pack.tap_strides[2] == 1 &&
                          pack.tap_strides[1] == pack.taps[2] && pack.tap_strides[0] == pack.taps[1] * pack.taps[2] &&
                          pack.depth_stride == pack.taps[0] * pack.tap_strides[0];
    const Tensor weights = in_place ? call.w : pack_weights(queue, call, pack);
    Tensor result = call.result();
    result.offset += part.result_first;
    const cl_long groups = ceil_div(p.rows, p.tile_rows) * ceil_div(p.pixels(), p.tile_pixels) * p.groups;
    const std::size_t packed = static_cast<std::size_t>(p.tile_depth * wide + 16) * real_size;
    const std::size_t sums = static_cast<std::size_t>(ceil_div(p.tile_rows, 4) * 4 * ceil_div(p.tile_pixels, wide) * wide) *
                             real_size;
    const Program& program = queue.context().program("kernels/conv/cpu_planar.cl", dtype_options(call.dtype));
    queue.launch(program.kernel("conv_planar"), Range::groups(static_cast<std::size_t>(groups)),
                 call.pass == ConvPass::forward ? call.x : call.y, weights, call.bias, result, LocalMemory{packed},
                 LocalMemory{sums}, p);
}

Part common_part(const Call& call)
{
    const Problem& q = call.problem;
    Part part;
    PlanarProblem& p = part.planar;
    const bool forward = call.pass == ConvPass::forward;
    p.batch = q.batch;
    p.groups = part.pack.groups = q.groups;
    p.rows = part.pack.rows = forward ? q.out_channels : q.in_channels;
    p.depth = part.pack.depth = forward ? q.in_channels : q.out_channels;
    std::copy_n(forward ? q.x_strides : q.y_strides, 5, p.source_strides);
    std::copy_n(forward ? q.y_strides : q.x_strides, 5, p.result_strides);
    std::copy_n(forward ? q.in : q.out, 3, p.in);
    p.has_bias = call.bias.defined();
    p.relu = call.activation == ConvActivation::relu;
    const Tensor& source = forward ? call.x : call.y;
    p.source_size = span_of(source);
    part.pack.group_stride = q.out_channels * q.w_strides[0];
    part.pack.row_stride = q.w_strides[forward ? 0 : 1];
    part.pack.depth_stride = q.w_strides[forward ? 1 : 0];
    return part;
}

void run_forward(Queue& queue, const Call& call)
{
    const Problem& q = call.problem;
    Part part = common_part(call);
    std::copy_n(q.out, 3, part.planar.out);
    for (int i = 0; i < 3; ++i) {
        part.planar.taps[i] = part.pack.taps[i] = q.kernel[i];
        part.planar.scale[i] = q.stride[i];
        part.planar.shift[i] = -q.pad[i];
        part.planar.step[i] = q.dilation[i];
        part.pack.tap_strides[i] = q.w_strides[2 + i];
    }
    launch(queue, call, part);
}

// Positions of x with one residue modulo the stride see every `period`-th tap from `first` on, at unit steps of y.
void run_data(Queue& queue, const Call& call)
{
    const Problem& q = call.problem;
    cl_long residue[3];
    for (residue[0] = 0; residue[0] < q.stride[0]; ++residue[0])
        for (residue[1] = 0; residue[1] < q.stride[1]; ++residue[1])
            for (residue[2] = 0; residue[2] < q.stride[2]; ++residue[2]) {
                Part part = common_part(call);
                PlanarProblem& p = part.planar;
                for (int i = 0; i < 3; ++i) {
                    const cl_long stride = q.stride[i], common = std::gcd(stride, q.dilation[i]);
                    const cl_long period = stride / common;
                    cl_long first = 0;
                    while (first < period && (residue[i] + q.pad[i] - first * q.dilation[i]) % stride != 0)
                        ++first;
                    p.taps[i] = first < period && first < q.kernel[i] ? ceil_div(q.kernel[i] - first, period) : 0;
                    p.scale[i] = 1;
                    p.shift[i] = (residue[i] + q.pad[i] - first * q.dilation[i]) / stride;
                    p.step[i] = -q.dilation[i] / common;
                    p.out[i] = residue[i] < q.in[i] ? ceil_div(q.in[i] - residue[i], stride) : 0;
                    part.result_first += residue[i] * p.result_strides[2 + i];
                    p.result_strides[2 + i] *= stride;
                    part.pack.taps[i] = p.taps[i];
                    part.pack.first += first * q.w_strides[2 + i];
                    part.pack.tap_strides[i] = period * q.w_strides[2 + i];
                }
                launch(queue, call, part);
            }
}

}  // namespace

std::string rejects_cpu_planar(const Call& call, const Device& device)
{
    if (device.kind != DeviceKind::cpu)
        return "is made for CPU devices";
    if (!is_floating_point(call.dtype))
        return "computes floating point dtypes only";
    for (int i = 0; i < 3; ++i)
        if (call.problem.in[i] >= (1 << 30) || call.problem.out[i] >= (1 << 30))
            return "takes axes below 2^30 only";
    if ((call.problem.in_channels + call.problem.out_channels) * call.problem.taps() >= (cl_long{1} << 31))
        return "takes sums of less than 2^31 products only";
    return {};
}

void run_cpu_planar(Queue& queue, const Call& call)
{
    if (call.pass == ConvPass::forward)
        run_forward(queue, call);
    else
        run_data(queue, call);
}

}  // namespace clprim::conv
