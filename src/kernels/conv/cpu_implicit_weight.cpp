// Host side of cpu_implicit_weight.cl.
#include <algorithm>

#include <kernels/conv/implicit.hpp>

namespace clprim::conv {
namespace {

void choose_tiles(ImplicitProblem& p, const Device& device, std::size_t real_size)
{
    const cl_long columns = real_size == 8 ? wide / 2 : wide;
    const cl_long rows = p.total_depth(), pixels = p.pixels();
    const cl_long budget = static_cast<cl_long>(std::min(device.local_memory, local_memory_wanted) / real_size);
    p.tile_pixels = std::min<cl_long>(ceil_div(p.rows, ceil_div(p.rows, 128)), p.rows);
    p.tile_pixels = std::min(ceil_div(p.tile_pixels, columns) * columns, p.rows);
    const cl_long width = ceil_div(p.tile_pixels, columns) * columns;
    p.tile_depth = std::min<cl_long>(192, pixels);
    const cl_long room = budget - (p.tile_depth + 16) * (width + 12) - 64;
    const cl_long most = std::max<cl_long>(room / width / 12 * 12, 12);
    p.tile_rows = std::min(ceil_div(ceil_div(rows, ceil_div(rows, most)), 12) * 12, rows);
    const cl_long blocks = ceil_div(rows, p.tile_rows) * ceil_div(p.rows, p.tile_pixels) * p.groups;
    const cl_long wanted = 6 * static_cast<cl_long>(device.compute_units);
    p.parts = std::clamp<cl_long>(ceil_div(wanted, blocks), 1, std::max<cl_long>(pixels / (2 * p.tile_depth), 1));
    // Shares of whole blocks of pixels.
    const cl_long share = ceil_div(pixels, p.parts);
    p.tile_depth = ceil_div(share, ceil_div(share, p.tile_depth));
}

}  // namespace

std::string rejects_cpu_implicit_weight(const Call& call, const Device& device)
{
    return rejects_cpu_implicit(call, device);
}

void run_cpu_implicit_weight(Queue& queue, const Call& call)
{
    const Problem& q = call.problem;
    ImplicitProblem p{};
    PackProblem pack{};
    p.batch = q.batch;
    p.groups = pack.groups = q.groups;
    p.rows = pack.rows = q.out_channels;
    p.depth = pack.depth = q.in_channels;
    std::copy_n(q.x_strides, 5, p.source_strides);
    std::copy_n(q.y_strides, 5, p.result_strides);
    std::copy_n(q.in, 3, p.in);
    std::copy_n(q.out, 3, p.out);
    for (int i = 0; i < 3; ++i) {
        p.taps[i] = pack.taps[i] = q.kernel[i];
        p.scale[i] = q.stride[i];
        p.shift[i] = -q.pad[i];
        p.step[i] = q.dilation[i];
        pack.tap_strides[i] = q.w_strides[2 + i];
    }
    pack.row_stride = q.w_strides[0];
    pack.depth_stride = q.w_strides[1];
    p.source_size = span_of(call.x);
    p.result_size = span_of(call.y);
    const DataType real = real_type(call.dtype);
    const cl_long size = q.groups * q.out_channels * p.total_depth();
    if (p.pixels() == 0) {
        const double zero = 0;
        require(call.w.is_non_overlapping_and_dense(), "conv: the weight gradient must be dense");
        queue.fill(*call.w.memory, call.w.offset * size_of(call.dtype), call.w.nbytes(), &zero, size_of(call.dtype));
        return;
    }
    choose_tiles(p, queue.device(), size_of(real));

    const bool in_place = p.parts == 1 && real == call.dtype && call.w.is_contiguous();
    const Tensor sums = in_place ? call.w : queue.context().empty({p.parts * size}, real, queue);
    const cl_long columns = real == DataType::float64 ? wide / 2 : wide;
    const std::size_t bytes = size_of(real), length = static_cast<std::size_t>(p.tile_depth + 16);
    const std::size_t width = static_cast<std::size_t>(ceil_div(p.tile_pixels, columns) * columns);
    const cl_long groups = ceil_div(p.total_depth(), p.tile_rows) * ceil_div(p.rows, p.tile_pixels) * p.parts * p.groups;
    const Program& program = queue.context().program("kernels/conv/cpu_implicit_weight.cl", dtype_options(call.dtype));
    queue.launch(program.kernel("conv_implicit_weight"), Range::groups(static_cast<std::size_t>(groups)), call.x, call.y,
                 sums, LocalMemory{length * width * bytes}, LocalMemory{(12 * length + 16) * bytes},
                 LocalMemory{static_cast<std::size_t>(ceil_div(p.tile_rows, 12) * 12) * width * bytes}, p);
    if (!in_place)
        queue.launch(program.kernel("conv_add_parts"), Range::linear(static_cast<std::size_t>(size), 64), sums, call.w,
                     p.parts, pack);
}

}  // namespace clprim::conv
