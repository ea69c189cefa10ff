// Host side of cpu_winograd.cl: transforms weights once, cuts a pass into blocks of tiles.
#include <algorithm>
#include <limits>

#include <kernels/conv/implicit.hpp>

namespace clprim::conv {
namespace {

constexpr cl_long points = 16;               // POINTS in cpu_winograd.cl
constexpr cl_long tile_pixels = 6;           // TILE_PIXELS in channel_tiles.cl
constexpr cl_long scratch_bytes = 640 * 1024, most_block = 48;

// Same fields and order as winograd_problem in cpu_winograd.cl.
struct WinogradProblem {
    cl_long batch, rows, depth, in[2], out[2], pad[2], tiles[2];
    cl_long source_strides[3], result_strides[3];
    cl_long block, blocks, pitch, cuts, cut_rows;
    Epilogue epilogue;

    cl_long all_tiles() const { return batch * tiles[0] * tiles[1]; }
};

WinogradProblem winograd_problem(const Call& call)
{
    const Problem& q = call.problem;
    WinogradProblem p{};
    p.batch = q.batch;
    p.rows = q.out_channels;
    p.depth = q.in_channels;
    p.epilogue = call.epilogue;
    p.source_strides[0] = q.x_strides[0];
    p.result_strides[0] = q.y_strides[0];
    for (int i = 0; i < 2; ++i) {
        p.in[i] = q.in[1 + i];
        p.out[i] = q.out[1 + i];
        p.pad[i] = q.pad[1 + i];
        p.tiles[i] = ceil_div(p.out[i], 2);
        p.source_strides[1 + i] = q.x_strides[3 + i];
        p.result_strides[1 + i] = q.y_strides[3 + i];
    }
    return p;
}

// Cycles of the unit that has the most: products by vectors, transforms, weights from a far cache or memory.
double cost_of(const WinogradProblem& p, cl_long items)
{
    const double rounds = double(ceil_div(p.blocks * p.cuts, items));
    const double tiles = double(p.block), rows = double(p.cut_rows);
    return rounds * (points * (tiles / 32 + 0.5) * rows * double(p.depth) +
                     tiles * (60.0 * double(p.depth) + 90.0 * rows) / 16);
}

// As many tiles together as a near cache holds transformed, and as few as give each compute unit a block, of all rows
// or, so that units do not read all weights for a few tiles, of a part.
void choose_block(WinogradProblem& p, const Device& device, DataType dtype)
{
    p.pitch = p.depth + 16;                  // not at whole steps of a page
    const cl_long tiles = p.all_tiles(), units = device.compute_units, panel = channels_panel_rows(device, dtype);
    cl_long most = scratch_bytes / (points * p.pitch * static_cast<cl_long>(size_of(dtype)));
    most = std::clamp<cl_long>(most / tile_pixels * tile_pixels, tile_pixels, most_block);
    WinogradProblem cut = p;
    double best = std::numeric_limits<double>::infinity();
    for (cl_long cuts = 1; cuts == 1 || (cuts <= units && cuts * panel <= p.rows); cuts *= 2) {
        cut.cut_rows = ceil_div(ceil_div(p.rows, panel), cuts) * panel;
        cut.cuts = ceil_div(p.rows, cut.cut_rows);
        const cl_long sharing = ceil_div(units, cut.cuts), blocks = ceil_div(ceil_div(tiles, most), sharing) * sharing;
        cut.block = std::min(most, ceil_div(ceil_div(tiles, blocks), tile_pixels) * tile_pixels);
        cut.blocks = ceil_div(tiles, cut.block);
        if (const double cost = cost_of(cut, units); cost < best) {
            best = cost;
            p = cut;
        }
    }
}

}  // namespace

Rejection rejects_cpu_winograd(const Call& call, const Device& device)
{
    if (Rejection reason = rejects_cpu_channels(call, device))
        return reason;
    const Problem& q = call.problem;
    if (call.pass != ConvPass::forward)
        return "is made for forward passes";
    if (q.groups != 1 || q.in[0] * q.out[0] * q.kernel[0] != 1 || q.pad[0] != 0 || q.kernel[1] != 3 || q.kernel[2] != 3)
        return "takes kernels of 3x3 in one group";
    for (int i = 1; i < 3; ++i)
        if (q.stride[i] != 1 || q.dilation[i] != 1)
            return "takes steps of one";
    if (q.x_strides[1] != 1 || q.in_channels % (call.dtype == DataType::float64 ? 8 : 16) != 0)
        return "needs whole vectors of channels";
    return {};
}

Rejection cpu_winograd_advises_against(const Call& call, const Device&)
{
    if (!call.prepared)
        return "would transform weights that may change";
    const Problem& q = call.problem;
    const WinogradProblem p = winograd_problem(call);
    // Cycles by vectors: products, transforms, weights from a far cache or memory.
    const double vectors = 1.0 / 16, tiles = double(p.all_tiles());
    const double weights = double(p.rows * p.depth);
    const double direct = (9.0 * q.batch * q.out_pixels() * vectors + 9 * 0.25) * weights;
    const double transforms = tiles * (60.0 * p.depth + 90.0 * p.rows) * vectors;
    const double winograd = (points * tiles * vectors + points * 0.5) * weights + transforms;
    if (winograd > direct)
        return "would spend more on weights and transforms than it saves";
    return {};
}

void run_cpu_winograd(Queue& queue, const Call& call)
{
    WinogradProblem p = winograd_problem(call);
    choose_block(p, queue.device(), call.dtype);
    const Program& program = queue.context().program("kernels/conv/cpu_winograd.cl",
                                                     channels_options(queue.device(), call));
    const cl_long panel = channels_panel_rows(queue.device(), call.dtype);
    const auto pack = [&] {
        const cl_long all = ceil_div(p.rows, panel) * panel * p.depth;
        const Tensor packed = queue.context().empty({all * points + p.depth}, call.dtype, queue);
        queue.launch(program.kernel("conv_winograd_pack"), Range::linear(static_cast<std::size_t>(all + p.depth), 64),
                     call.w, packed, pack_problem(call, false));
        return packed;
    };
    const Tensor weights =
        call.prepared ? call.prepared->get(queue, "conv winograd", pack, Prepared::Keeps::all) : pack();
    const cl_long sharing = std::max<cl_long>(queue.device().compute_units / p.cuts, 1);
    const cl_long items = std::min<cl_long>(p.blocks, sharing) * p.cuts;
    const Tensor scratch = queue.context().empty({items * points * p.block * p.pitch}, call.dtype, queue);
    queue.launch(program.kernel("conv_winograd"), Range::groups(static_cast<std::size_t>(items)), call.x, weights,
                 call.bias, call.y, scratch,
                 LocalMemory{static_cast<std::size_t>(points * p.block * panel) * size_of(call.dtype)},
                 LocalMemory{4 * sizeof(cl_int)}, p);
}

}  // namespace clprim::conv
