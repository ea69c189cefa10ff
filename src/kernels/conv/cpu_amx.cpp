// Host side of cpu_amx.cl.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <core/host_processor.hpp>
#include <core/lru_cache.hpp>
#include <kernels/conv/implicit.hpp>

namespace clprim::conv {
namespace {

constexpr cl_long side = amx_side;

// Mirror of amx_weights in cpu_amx.cl.
struct AmxWeights {
    cl_long strips, blocks, strip_words, image_panels, pixels;
};

cl_long round_up(cl_long a, cl_long b) { return ceil_div(a, b) * b; }

// Blocks of k of about 128, or more of parts that are smaller: panels and strips of them fit in the first-level cache.
// As in cpu_implicit.cpp, whole runs of the inner index if they are short, parts of one run otherwise.
void choose_depth(ImplicitProblem& p, DataType dtype)
{
    const cl_long most = 384 / amx_parts(dtype), taps = p.taps[0] * p.taps[1] * p.taps[2];
    cl_long& inner = p.taps_inner ? p.taps_block : p.channels_block;
    cl_long& outer = p.taps_inner ? p.channels_block : p.taps_block;
    const cl_long inner_size = std::max<cl_long>(p.taps_inner ? taps : p.depth, 1);
    const cl_long outer_size = std::max<cl_long>(p.taps_inner ? p.depth : taps, 1);
    inner = std::min(inner_size, round_up(ceil_div(inner_size, ceil_div(inner_size, most)), side));
    const bool gaps = taps != p.kernel[0] * p.kernel[1] * p.kernel[2];
    outer = inner < inner_size || gaps ? 1 : std::clamp<cl_long>(most / inner, 1, outer_size);
    p.tile_depth = round_up(p.channels_block * p.taps_block, side);
}

// Panels of an image whose pixels are read and written as they lie; 0 where a tap, stride or border is in between, or
// images are smaller than a panel.
cl_long image_panels(const ImplicitProblem& p)
{
    const cl_long image = p.out[0] * p.out[1] * p.out[2];
    bool plain = p.taps[0] * p.taps[1] * p.taps[2] == 1 && image >= side;
    for (int i = 0; i < 3; ++i)
        plain &= p.scale[i] == 1 && p.shift[i] == 0 && p.in[i] == p.out[i];
    for (const cl_long* strides : {p.source_strides, p.result_strides})
        plain &= strides[4] == 1 && strides[3] == p.out[2] && strides[2] == p.out[2] * p.out[1];
    return plain ? ceil_div(image, side) : 0;
}

// Pixels of all panels.
cl_long panel_pixels(const ImplicitProblem& p)
{
    const cl_long panels = image_panels(p);
    return panels ? p.batch * panels * side : p.pixels();
}

cl_long blocks_of(const ImplicitProblem& p)
{
    const cl_long taps = p.taps[0] * p.taps[1] * p.taps[2];
    return std::max<cl_long>(ceil_div(p.depth, p.channels_block) * ceil_div(taps, p.taps_block), 1);
}

// Cycles of the slowest core per k, and the sizes of a work-item's part that give them: products, C's tiles, packing
// and splitting the source, reading the weights' strips.
double choose_tiles(ImplicitProblem& p, const Device& device, DataType dtype)
{
    choose_depth(p, dtype);
    const cl_long pixels = panel_pixels(p), words = 2 * amx_words(dtype, p.tile_depth);
    const cl_long budget = static_cast<cl_long>(std::min<std::size_t>(device.local_memory, 256 * 1024) / 4) -
                           p.tile_depth * side - words - 64;
    const double products = !device.amx                    ? 36
                            : dtype == DataType::float32 ? 12.5
                            : dtype == DataType::float16 ? 8.5
                                                         : 3.5;
    const bool plain = image_panels(p) > 0;
    const double parts = static_cast<double>(amx_parts(dtype)), pack = plain ? 0.05 : 0.3;
    double best = std::numeric_limits<double>::infinity();
    for (cl_long row_blocks = 1; row_blocks <= p.rows; row_blocks *= 2) {
        const cl_long rows = round_up(ceil_div(p.rows, row_blocks), side);
        for (cl_long columns = side; columns <= 1024; columns += side) {
            if (columns * rows > budget)
                break;
            const double count = double(ceil_div(p.rows, rows)) * double(ceil_div(pixels, columns)) * double(p.groups);
            const double rounds = std::ceil(count / device.compute_units);
            const double high = double(round_up(std::min(rows, p.rows), 16)), wide = double(std::min(columns, pixels));
            const double tiles = high * double(round_up(columns, 16)) / 1024.0 *
                                 (products + 250.0 / static_cast<double>(p.tile_depth));
            // Part of the splitting is done beside products of tiles.
            const double split = wide * (plain ? 0.2 : 0.25) * parts,
                         hidden = device.amx ? (plain ? 0.7 : 0.5) * std::min(split, tiles) : 0;
            const double cost = rounds * (tiles + split - hidden + wide * pack + high * 0.4 * parts);
            if (cost < best) {
                best = cost;
                p.tile_rows = rows;
                p.tile_pixels = columns;
            }
            if (columns >= pixels)
                break;
        }
        if (rows <= side)
            break;
    }
    return best;
}

// All that the words of the weights depend on.
std::string words_key(const Call& call, const ImplicitProblem& p)
{
    return fmt::format("conv_amx {} {} {} {} {} {} {} {} {}", name_of(call.dtype), static_cast<int>(call.pass),
                       p.groups, p.taps_inner, p.channels_block, p.taps_block, fmt::join(p.taps, ","),
                       fmt::join(p.tap_first, ","), fmt::join(p.tap_period, ","));
}

void launch(Queue& queue, const Call& call, const Tensor& weights, ImplicitProblem p, cl_long result_first)
{
    if (p.pixels() == 0)
        return;
    merge_positions(p);
    choose_tiles(p, queue.device(), call.dtype);
    Tensor result = call.result();
    result.offset += result_first;
    const cl_long columns = round_up(p.tile_pixels, side), panel_words = amx_words(call.dtype, p.tile_depth);
    const AmxWeights split{ceil_div(p.rows, side), blocks_of(p), 16 + panel_words, image_panels(p), panel_pixels(p)};
    const auto groups = [](cl_long count) { return static_cast<std::size_t>(count); };
    const std::string options = dtype_options(call) + fmt::format(" -DX={}{}", name_of(call.dtype),
                                                                        queue.device().amx ? "" : " -DDOT_VECTOR=64");
    const Program& program = queue.context().program("kernels/conv/cpu_amx.cl", options);
    const auto split_weights = [&] {
        const Tensor words = queue.context().empty({p.groups * split.blocks * split.strips * split.strip_words},
                                                   DataType::uint32, queue);
        queue.launch(program.kernel("conv_amx_weights"),
                     Range::groups({groups(split.strips), groups(split.blocks), groups(p.groups)}, {1, 1, 1}), weights,
                     words, split, p);
        return words;
    };
    const Tensor words = call.prepared ? call.prepared->get(queue, words_key(call, p), split_weights)
                                       : split_weights();
    const cl_long items = ceil_div(p.rows, p.tile_rows) * ceil_div(split.pixels, p.tile_pixels) * p.groups;
    queue.launch(program.kernel("conv_amx"), Range::groups(groups(items)),
                 call.pass == ConvPass::forward ? call.x : call.y, weights, words, call.bias, result,
                 LocalMemory{groups(p.tile_depth * side * 4)}, LocalMemory{groups(2 * panel_words * 4)},
                 LocalMemory{groups(p.tile_rows * columns * 4)}, split, p);
}

// By both models, whose vectors reach four fifths of their peak.
bool compare_models(const Call& call, const Device& device)
{
    double vectors = 0, tiles = 0;
    const ImplicitProblem all = common_problem(call);
    for_each_launch(call, [&](ImplicitProblem p, cl_long) {
        if (p.pixels() == 0 || p.total_depth() == 0)
            return;
        p.taps_inner = call.pass == ConvPass::forward && !weights_in_order(call.problem, false);
        vectors += (host_halves_vectors() ? 2 : 1) * 1.25 * implicit_cost(p, device);
        merge_positions(p);
        const double cycles = choose_tiles(p, device, call.dtype);
        tiles += cycles * static_cast<double>(blocks_of(p) * p.tile_depth);
    });
    if (!call.prepared)
        tiles += 0.5 * static_cast<double>(all.groups * all.rows * all.depth * call.problem.taps());
    return tiles < vectors;
}

// Verdicts are kept, since both models search for the best tiles. What they depend on is the key.
bool pays(const Call& call, const Device& device)
{
    std::string key(reinterpret_cast<const char*>(&call.problem), sizeof call.problem);
    key += fmt::format("{} {} {} {}", device.index, name_of(call.dtype), static_cast<int>(call.pass),
                       call.prepared != nullptr);
    static LruCache<std::string, bool> known(1024);
    return known.get(key, [&] { return compare_models(call, device); });
}

}  // namespace

Rejection rejects_amx(const Call& call, const Device& device)
{
    if (!device.amx)
        return "is made for CPUs with AMX";
    if (call.dtype == DataType::float64)
        return "computes float32, float16 and bfloat16";
    return rejects_cpu_implicit(call, device);
}

Rejection rejects_cpu_amx(const Call& call, const Device& device)
{
    return rejects_amx(call, device);
}

Rejection rejects_cpu_bfloat16(const Call& call, const Device& device)
{
    if (device.amx || !multiplies_bfloat16_by_vectors(device))
        return "is made for CPUs with AVX-512 BF16 and without AMX";
    if (call.dtype != DataType::bfloat16)
        return "computes bfloat16";
    return rejects_cpu_implicit(call, device);
}

Rejection cpu_amx_advises_against(const Call& call, const Device& device)
{
    const Problem& q = call.problem;
    const bool along_channels = q.x_strides[1] == 1 || (q.in_channels < 8 && !rejects_cpu_channels(call, device));
    if (call.prepared && call.pass == ConvPass::forward && call.dtype == DataType::float32 && along_channels &&
        q.in_channels > 1)
        return "splits float32 to parts, which vectors along channels of constant weights outrun";
    if (!pays(call, device))
        return "would be slower than vectors";
    return {};
}

void run_cpu_amx(Queue& queue, const Call& caller) { run_implicit_pass(queue, caller, launch); }

}  // namespace clprim::conv
