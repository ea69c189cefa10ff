// Host side of cpu_channels.cl: packs weights, cuts a pass into work-items. Data passes have a launch for each residue
// of the position modulo the stride.
#include <algorithm>
#include <limits>

#include <core/host_processor.hpp>
#include <kernels/conv/implicit.hpp>

namespace clprim::conv {
namespace {

constexpr cl_long tile_pixels = 6;   // TILE_PIXELS in channel_tiles.cl
constexpr cl_long near_bytes = 192 * 1024;

// Pixels that lie at whole steps of 4096 bytes fall on the same few lines of a cache: those of several taps are copied,
// a tap at a time, unless a work-item reads them a few times only or too few fit. Their pitch, or 0.
cl_long near_pitch(const ImplicitProblem& p, cl_long panel, DataType dtype)
{
    constexpr cl_long lane_slack = 16;
    const cl_long taps = p.taps[0] * p.taps[1] * p.taps[2];
    const cl_long pitch = p.depth + lane_slack;
    const bool aliased = p.source_strides[4] * p.scale[2] * static_cast<cl_long>(size_of(dtype)) % 4096 == 0;
    const cl_long least = pitch * tile_pixels * static_cast<cl_long>(size_of(dtype));
    return aliased && taps > 1 && p.rows >= 4 * panel && least <= near_bytes ? pitch : 0;
}

// Taps whose weights of a panel stay in the second-level cache while all pixels of a work-item read them.
cl_long taps_together(const ImplicitProblem& p, cl_long panel)
{
    constexpr cl_long most = 160 * 1024 / sizeof(cl_float);
    const cl_long taps = std::max<cl_long>(p.taps[0] * p.taps[1] * p.taps[2], 1);
    const cl_long blocks = std::min(ceil_div(taps * p.depth * panel, most), taps);
    return ceil_div(taps, blocks);
}

// Channels of a single tap whose weights of a panel stay in the first-level cache: the sums of longer ones rest in the
// result meanwhile.
cl_long channels_together(const ImplicitProblem& p, cl_long panel)
{
    const cl_long most = 40 * 1024 / sizeof(cl_float) / panel, blocks = ceil_div(p.depth, most);
    return ceil_div(p.depth, std::max<cl_long>(blocks, 1));
}

// Pixels and rows of a work-item that keep all compute units busy for the shortest time, by a model in cycles: of
// products, and of numbers that come from a far cache, weights some two in a cycle and others four; a source that
// leaves the near one comes again for each panel, and sums for each block.
void choose_tiles(ImplicitProblem& p, const Device& device, cl_long panel, DataType dtype)
{
    const cl_long pixels = p.pixels(), depth = p.total_depth(), taps = p.taps[0] * p.taps[1] * p.taps[2];
    const cl_long most_places = std::min<cl_long>(device.local_memory, 128 * 1024) / sizeof(cl_int) / (taps + 1);
    cl_long most_pixels = std::clamp<cl_long>(most_places / tile_pixels * tile_pixels, tile_pixels, 4096);
    if (p.tile_depth)
        most_pixels = std::min(most_pixels, near_bytes / (p.tile_depth * static_cast<cl_long>(size_of(dtype))));
    const cl_long panels = ceil_div(p.rows, panel);
    const cl_long blocks = ceil_div(taps, p.taps_block) * ceil_div(p.depth, p.channels_block);
    double best = std::numeric_limits<double>::infinity();
    for (cl_long row_cuts = 1; row_cuts <= panels; row_cuts *= 2) {
        const cl_long own_panels = ceil_div(panels, row_cuts), rows = own_panels * panel;
        const cl_long computed = std::min(rows, ceil_div(p.rows, cl_long{8}) * 8);   // of a last panel some vectors
        for (cl_long tiles = 1;; tiles = std::max(tiles + 1, tiles * 5 / 4)) {
            const cl_long block = std::min(tiles * tile_pixels, ceil_div(pixels, tile_pixels) * tile_pixels);
            if (block > most_pixels)
                break;
            const double items = double(ceil_div(panels, own_panels)) * ceil_div(pixels, block) * p.groups;
            const double rounds = std::ceil(items / device.compute_units);
            const double source = double(block) * p.depth * std::min<cl_long>(taps, p.scale[1] * p.scale[2]);
            const double near = sizeof(cl_float) * (source * p.channels_block / p.depth +
                                                    double(p.taps_block * p.channels_block * panel));
            const double readings = near > 400 * 1024 ? 2.0 * own_panels : 1;
            const double resting = 0.25 * (blocks - 1) * block * rows;
            const double cost = rounds * (double(block) * computed * (depth + 8) / 16 + 0.5 * rows * depth + resting +
                                          0.25 * source * readings + 8.0 * block * taps + 500);
            if (cost < best) {
                best = cost;
                p.tile_pixels = block;
                p.tile_rows = rows;
            }
            if (block >= pixels)
                break;
        }
    }
}

// Of the taps of one launch.
Tensor packed_weights(Queue& queue, const Call& call, const Program& program, const ImplicitProblem& p, cl_long panel)
{
    const auto pack = [&] {
        const cl_long columns = p.groups * ceil_div(p.rows, panel) * p.total_depth();
        const Tensor packed = queue.context().empty({columns * panel + p.depth}, call.dtype, queue);
        if (columns == 0) {
            fill_zero(queue, packed);
            return packed;
        }
        const auto [w, taps] = weights_of_launch(call, p);
        queue.launch(program.kernel("conv_channels_pack"),
                     Range::linear(static_cast<std::size_t>(columns + p.depth), 64), w, packed, taps);
        return packed;
    };
    const std::string key = detail::concat("conv panels ", call.pass == ConvPass::forward, " ", p.groups, " ", p.rows,
                                           " ", p.total_depth(), " ", p.tap_first[0], " ", p.tap_first[1], " ",
                                           p.tap_first[2]);
    return call.prepared ? call.prepared->get(queue, key, pack, Prepared::Keeps::all) : pack();
}

bool takes_patches(const Call& call)
{
    const Problem& q = call.problem;
    return call.pass == ConvPass::forward && q.in_channels < 8 && q.groups == 1 && q.kernel[2] > 1 &&
           q.dilation[2] == 1;
}

// Whether the taps of a row lie side by side in x as it is, and no window leaves it.
bool holds_patches(const Call& call)
{
    const Problem& q = call.problem;
    bool inside = (q.in_channels == 1 || q.x_strides[1] == 1) && q.x_strides[4] == q.in_channels;
    for (int i = 0; i < 3; ++i)
        inside = inside && q.pad[i] == 0 &&
                 (q.out[i] - 1) * q.stride[i] + (q.kernel[i] - 1) * q.dilation[i] < q.in[i];
    return inside;
}

Call with_patches(Queue& queue, const Call& call, const Program& program, ImplicitProblem& p)
{
    const Problem& q = call.problem;
    if (holds_patches(call)) {
        p.depth = q.in_channels * q.kernel[2];
        p.taps[2] = 1;
        p.source_strides[1] = 1;
        return call;
    }
    const PatchProblem patch = cut_patches(call, p, q.in_channels);
    Call result = call;
    result.x = queue.context().empty({q.batch, patch.padded[0], patch.padded[1], patch.padded[2] * q.in_channels},
                                     call.dtype, queue);
    const cl_long rows = q.batch * patch.padded[0] * patch.padded[1];
    queue.launch(program.kernel("conv_channels_patches"), Range::groups(static_cast<std::size_t>(rows)), call.x,
                 result.x, patch);
    return result;
}

void launch(Queue& queue, const Call& caller, const Program& program, ImplicitProblem p, cl_long result_first)
{
    if (p.pixels() == 0)
        return;
    const cl_long panel = channels_panel_rows(queue.device(), caller.dtype);
    const Tensor weights = packed_weights(queue, caller, program, p, panel);
    const Call call = takes_patches(caller) ? with_patches(queue, caller, program, p) : caller;
    merge_positions(p);
    p.weight_stride = p.total_depth() * panel;
    p.taps_block = taps_together(p, panel);
    p.channels_block = p.taps[0] * p.taps[1] * p.taps[2] > 1 ? p.depth : channels_together(p, panel);
    p.tile_depth = near_pitch(p, panel, call.dtype);
    if (p.tile_depth)
        p.taps_block = 1;
    choose_tiles(p, queue.device(), panel, call.dtype);
    const cl_long items = ceil_div(p.rows, p.tile_rows) * ceil_div(p.pixels(), p.tile_pixels) * p.groups;
    const cl_long places = p.tile_pixels * (p.taps[0] * p.taps[1] * p.taps[2] + 1);
    Tensor result = call.result();
    result.offset += result_first;
    queue.launch(program.kernel("conv_channels"), Range::groups(static_cast<std::size_t>(items)),
                 call.pass == ConvPass::forward ? call.x : call.y, weights, call.bias, result,
                 LocalMemory{static_cast<std::size_t>(places) * sizeof(cl_int)},
                 LocalMemory{static_cast<std::size_t>(std::max<cl_long>(p.tile_depth * p.tile_pixels, 1)) *
                             size_of(call.dtype)}, p);
}

}  // namespace

PatchProblem cut_patches(const Call& call, ImplicitProblem& p, cl_long channels)
{
    const Problem& q = call.problem;
    PatchProblem patch{q.batch, q.in_channels, {}, {}, {}, {}};
    for (int i = 0; i < 3; ++i) {
        patch.in[i] = q.in[i];
        patch.pad[i] = q.pad[i];
        patch.padded[i] = (q.out[i] - 1) * q.stride[i] + (q.kernel[i] - 1) * q.dilation[i] + 1;
        p.in[i] = patch.padded[i];
        p.shift[i] = 0;
    }
    std::copy_n(q.x_strides, 5, patch.strides);
    p.depth = channels * q.kernel[2];
    p.taps[2] = 1;
    p.source_strides[1] = 1;
    p.source_strides[4] = channels;
    p.source_strides[3] = patch.padded[2] * channels;
    p.source_strides[2] = patch.padded[1] * p.source_strides[3];
    p.source_strides[0] = patch.padded[0] * p.source_strides[2];
    return patch;
}

std::string channels_options(const Device& device, const Call& call)
{
    return dtype_options(call) + prefetch_option(device);
}

cl_long channels_panel_rows(const Device& device, DataType dtype)
{
    const bool wide_vectors = device.native_float_lanes * sizeof(cl_float) >= 64;
    return (dtype == DataType::float64 ? 8 : 16) * (wide_vectors ? 2 : 1);
}

Rejection beyond_places(const Call& call, cl_long patch_channels)
{
    const Problem& q = call.problem;
    if (q.taps() > 1024)
        return "takes kernels of 1024 taps at most";
    double padded = double(q.batch * patch_channels);
    for (int i = 0; i < 3; ++i)
        padded *= double(q.out[i] * q.stride[i] + q.kernel[i] * q.dilation[i]);
    if (span_of(call.x) >= (cl_long{1} << 31) || span_of(call.y) >= (cl_long{1} << 31) || padded >= 0x1p31)
        return "takes tensors of less than 2^31 elements";
    return {};
}

Rejection rejects_cpu_channels(const Call& call, const Device& device)
{
    if (Rejection reason = rejects_cpu_implicit(call, device))
        return reason;
    if (call.dtype != real_type(call.dtype))
        return "takes float32 and float64 only";
    const Problem& q = call.problem;
    const bool forward = call.pass == ConvPass::forward;
    if (forward ? q.out_channels < 8 || (q.in_channels < 8 && !takes_patches(call)) : q.out_channels < 8)
        return "needs eight channels in a group";
    if ((q.x_strides[1] != 1 && !takes_patches(call)) || q.y_strides[1] != 1)
        return "needs tensors with channels innermost";
    return beyond_places(call, takes_patches(call) ? q.in_channels : 0);
}

Rejection cpu_channels_advises_against(const Call& call, const Device&)
{
    const Problem& q = call.problem;
    if (call.prepared)
        return {};
    const bool data = call.pass == ConvPass::backward_data;
    const cl_long pixels = q.batch * (data ? q.in_pixels() : q.out_pixels());
    if (pixels < 64)
        return "would pack weights that few pixels read";
    // Of a data pass there are as many launches as strides, and each packs its own weights.
    const cl_long launches = q.stride[0] * q.stride[1] * q.stride[2];
    const double products = double(pixels) * q.groups * q.in_channels * q.out_channels * q.taps();
    if (data && launches > 1 && products < 2e6 * double(launches * launches))
        return "would pack weights in many small launches";
    if (data && q.out_channels < 16)
        return "would have short sums";
    return {};
}

void run_cpu_channels(Queue& queue, const Call& call)
{
    const Program& program = queue.context().program("kernels/conv/cpu_channels.cl",
                                                     channels_options(queue.device(), call));
    for_each_launch(call, [&](const ImplicitProblem& p, cl_long first) { launch(queue, call, program, p, first); });
}

}  // namespace clprim::conv
