// Host side of cpu_channels_bfloat16.cl. Tensors whose channels lie apart are copied where many products follow.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <clprim/copy.hpp>
#include <core/host_processor.hpp>
#include <kernels/conv/implicit.hpp>

namespace clprim::conv {
namespace {

constexpr cl_long panel = 32, tile = 12;   // PANEL and ROWS_AT_ONCE of the kernel
constexpr cl_long most_taps = 25;          // MOST_TAPS there
constexpr cl_long near_bytes = 256 * 1024;
constexpr cl_long patch_channels = 4;      // of copies of images with fewer

// Same fields and order as words_problem of the kernel.
struct WordsProblem {
    cl_long rows, depth, taps, groups;
    cl_long group_stride, row_stride, tap_stride;
    cl_long weight_stride;
};

cl_long taps_of(const ImplicitProblem& p) { return p.taps[0] * p.taps[1] * p.taps[2]; }

// Rows that are computed: of the last panel one vector or two.
cl_long computed_rows(cl_long rows) { return ceil_div(rows, cl_long{16}) * 16; }

bool takes_patches(const Call& call)
{
    const Problem& q = call.problem;
    return call.pass == ConvPass::forward && (q.in_channels == 2 || q.in_channels == 3) && q.groups == 1 &&
           q.kernel[2] > 1 && q.dilation[2] == 1;
}

// Pixels at whole steps of 4096 bytes fall on the same few lines of a cache, too few for those that are read together:
// they are copied where several panels read them. Their pitch, or 0.
cl_long near_pitch(const ImplicitProblem& p)
{
    const bool aliased = p.source_strides[4] * p.scale[2] * cl_long{sizeof(cl_ushort)} % 4096 == 0;
    const cl_long pitch = p.depth + 32;
    return aliased && taps_of(p) == 1 && p.rows >= 4 * panel && pitch * tile * cl_long{sizeof(cl_ushort)} <= near_bytes
               ? pitch
               : 0;
}

// Pixels and rows of a work-item that keep all compute units busy for the shortest time, by a model in cycles.
void choose_tiles(ImplicitProblem& p, const Device& device)
{
    const cl_long pixels = p.pixels(), depth = p.total_depth(), taps = taps_of(p), panels = ceil_div(p.rows, panel);
    const cl_long local = std::min<cl_long>(static_cast<cl_long>(device.local_memory), 128 * 1024);
    cl_long most_pixels = std::max(local / cl_long{sizeof(cl_int) + sizeof(cl_ulong)} / (taps + 1) / tile * tile, tile);
    if (p.tile_depth)
        most_pixels = std::min(most_pixels, near_bytes / (p.tile_depth * cl_long{sizeof(cl_ushort)}) / tile * tile);
    double best = std::numeric_limits<double>::infinity();
    for (cl_long row_cuts = 1; row_cuts <= panels; row_cuts *= 2) {
        const cl_long own_panels = ceil_div(panels, row_cuts), rows = own_panels * panel;
        const cl_long computed = std::min(rows, computed_rows(p.rows));
        for (cl_long tiles = 1;; tiles = std::max(tiles + 1, tiles * 5 / 4)) {
            const cl_long block = tiles * tile;
            if (block > most_pixels)
                break;
            const double items = double(ceil_div(panels, own_panels)) * ceil_div(pixels, block) * p.groups;
            const double rounds = std::ceil(items / device.compute_units);
            const double products = double(block) * double(computed) * double(depth) / 32;
            const double seen = double(std::max<cl_long>(p.taps[1] * p.taps[2], 1));   // taps that see a pixel
            const double source = 2.0 * double(block) * double(depth) / seen;
            // Bytes of weights and of the source as they come, again for each panel where the near cache loses them.
            const double moved = 0.1 * double(rows * depth) + 0.1 * source * (source > 512 * 1024 ? own_panels : 1);
            const double cost = rounds * (products + moved + 4.0 * double(block * (taps + 1)) +
                                          20.0 * double(block * own_panels) + 200.0 * double(own_panels) + 2000);
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

// Weights as rows [group][row][tap][channel], in place where they lie so or as [group][row][channel][tap].
Tensor weight_rows(Queue& queue, const Call& call, const ImplicitProblem& p, WordsProblem& words)
{
    auto [w, from] = weights_of_launch(call, p);
    const bool patches = takes_patches(call);
    if (patches)
        from.taps[2] = call.problem.kernel[2];
    // Taps that lie at equal steps.
    const bool even = (from.taps[1] == 1 || from.tap_strides[1] == from.taps[2] * from.tap_strides[2]) &&
                      (from.taps[0] == 1 || from.tap_strides[0] == from.taps[1] * from.taps[2] * from.tap_strides[2]);
    words.group_stride = from.group_stride;
    words.row_stride = from.row_stride;
    words.tap_stride = from.tap_strides[2];
    const bool neighbours = from.tap_strides[2] == 1 && from.depth_stride == words.taps && words.taps <= most_taps;
    if ((from.depth_stride == 1 || neighbours) && even && !patches)
        return w;
    const cl_long depth = patches ? patch_channels : p.depth;
    Tensor rows = queue.context().empty({from.groups, p.rows, from.taps[0], from.taps[1], from.taps[2], depth},
                                        call.dtype, queue);
    if (depth > from.depth)
        fill_zero(queue, rows);
    words.tap_stride = p.depth;
    words.row_stride = rows.strides[1];
    words.group_stride = rows.strides[0];
    Tensor target = rows;
    target.shape[5] = from.depth;
    w.shape = target.shape;
    w.strides = {from.group_stride, from.row_stride, from.tap_strides[0], from.tap_strides[1], from.tap_strides[2],
                 from.depth_stride};
    copy(queue, w, target);
    return rows;
}

Tensor panel_words(Queue& queue, const Call& call, const Program& program, const ImplicitProblem& p)
{
    const auto pack = [&] {
        WordsProblem words{p.rows, p.depth, taps_of(p), p.groups, 0, 0, 0, p.weight_stride};
        const Tensor packed =
            queue.context().empty({p.groups * p.weight_stride + p.depth / 2}, DataType::uint32, queue);
        if (words.taps == 0) {
            fill_zero(queue, packed);
            return packed;
        }
        const auto count = [](cl_long n) { return static_cast<std::size_t>(n); };
        const Tensor rows = weight_rows(queue, call, p, words);
        const cl_long parts = words.taps > 1 && words.tap_stride == 1 ? ceil_div(p.depth, cl_long{32}) : words.taps;
        queue.launch(program.kernel("conv_channels_words"),
                     Range::groups({count(parts), count(ceil_div(p.rows, cl_long{16})), count(p.groups)}, {1, 1, 1}),
                     rows, packed, words);
        return packed;
    };
    const std::string key = detail::concat("conv words ", call.pass == ConvPass::forward, " ", p.groups, " ", p.rows,
                                           " ", p.depth, " ", taps_of(p), " ", p.tap_first[0], " ", p.tap_first[1],
                                           " ", p.tap_first[2]);
    return call.prepared ? call.prepared->get(queue, key, pack, Prepared::Keeps::all) : pack();
}

Call with_fours(Queue& queue, const Call& call, const Program& program, ImplicitProblem& p)
{
    const PatchProblem patch = cut_patches(call, p, patch_channels);
    Call result = call;
    result.x = queue.context().empty({patch.batch, patch.padded[0], patch.padded[1], patch.padded[2], patch_channels},
                                     call.dtype, queue);
    const cl_long rows = patch.batch * patch.padded[0] * patch.padded[1];
    queue.launch(program.kernel("conv_channels_fours"), Range::groups(static_cast<std::size_t>(rows)), call.x, result.x,
                 patch);
    return result;
}

// Images with few channels are read as they are.
bool copies_x(const Call& call) { return call.problem.x_strides[1] != 1 && !takes_patches(call); }
bool copies_y(const Call& call) { return call.problem.y_strides[1] != 1; }

// Memory for such a tensor with channels innermost, as `strides` then say, with its numbers if they are `read`.
Tensor channels_innermost(Queue& queue, const Tensor& tensor, bool read, cl_long (&strides)[5])
{
    Tensor result = queue.context().empty(tensor.shape, tensor.dtype, queue);
    strides[1] = 1;
    std::int64_t step = tensor.size(1);
    for (std::size_t axis = 5; axis-- > 2;) {
        strides[axis] = step;
        if (axis + tensor.dim() >= 7) {
            const std::size_t own = axis + tensor.dim() - 5;
            result.strides[own] = step;
            step *= tensor.size(own);
        }
    }
    strides[0] = result.strides[0] = step;
    result.strides[1] = 1;
    if (read)
        copy(queue, tensor, result);
    return result;
}

void launch(Queue& queue, const Call& caller, const Program& program, ImplicitProblem p, cl_long result_first)
{
    if (p.pixels() == 0)
        return;
    Call call = caller;
    if (takes_patches(caller)) {
        call = with_fours(queue, caller, program, p);
        call.problem = caller.problem;
    }
    p.weight_stride = computed_rows(p.rows) * p.total_depth() / 2;
    const Tensor words = panel_words(queue, call, program, p);
    merge_positions(p);
    p.tile_depth = near_pitch(p);
    choose_tiles(p, queue.device());
    const cl_long items = ceil_div(p.rows, p.tile_rows) * ceil_div(p.pixels(), p.tile_pixels) * p.groups;
    const cl_long places = p.tile_pixels * (taps_of(p) + 1);
    const auto local = [](cl_long count, std::size_t size) {
        return LocalMemory{static_cast<std::size_t>(std::max<cl_long>(count, 1)) * size};
    };
    Tensor result = call.result();
    result.offset += result_first;
    queue.launch(program.kernel("conv_channels"), Range::groups(static_cast<std::size_t>(items)),
                 call.pass == ConvPass::forward ? call.x : call.y, words, call.bias, result,
                 local(places, sizeof(cl_int)), local(places, sizeof(cl_ulong)),
                 local(p.tile_depth * p.tile_pixels, sizeof(cl_ushort)), p);
}

}  // namespace

Rejection rejects_cpu_channels_bfloat16(const Call& call, const Device& device)
{
    if (Rejection reason = rejects_cpu_bfloat16(call, device))
        return reason;
    const Problem& q = call.problem;
    const bool forward = call.pass == ConvPass::forward, patches = takes_patches(call);
    if (!patches && (forward ? q.in_channels : q.out_channels) % 4 != 0)
        return "needs channels in fours";
    return beyond_places(call, patches ? patch_channels : 0);
}

Rejection cpu_channels_bfloat16_advises_against(const Call& call, const Device&)
{
    const Problem& q = call.problem;
    const bool forward = call.pass == ConvPass::forward;
    constexpr cl_long least_products = 64;   // of a number that is copied
    if ((copies_x(call) || copies_y(call)) &&
        q.in_channels * q.out_channels * q.taps() < least_products * (q.in_channels + q.out_channels))
        return "would copy tensors for few products";
    if ((forward ? q.out_channels : q.in_channels) < 8 || (q.groups > 1 && std::min(q.in_channels, q.out_channels) < 4))
        return "would leave vectors empty";
    return {};
}

void run_cpu_channels_bfloat16(Queue& queue, const Call& asked)
{
    const bool forward = asked.pass == ConvPass::forward, read_result = asked.epilogue.accumulate != 0;
    Call call = asked;
    if (copies_x(call))
        call.x = channels_innermost(queue, call.x, forward || read_result, call.problem.x_strides);
    if (copies_y(call))
        call.y = channels_innermost(queue, call.y, !forward || read_result, call.problem.y_strides);
    const Program& program =
        queue.context().program("kernels/conv/cpu_channels_bfloat16.cl", dtype_options(call));
    for_each_launch(call, [&](const ImplicitProblem& p, cl_long first) { launch(queue, call, program, p, first); });
    if (call.result().memory.get() != asked.result().memory.get())
        copy(queue, call.result(), asked.result());
}

}  // namespace clprim::conv
