// Host side of gpu_matrix.cl, gpu_matrix_weight.cl and gpu_matrix_turned_weight.cl.
#include <algorithm>

#include <fmt/format.h>

#include <clprim/copy.hpp>
#include <core/gpu_rate.hpp>
#include <kernels/conv/gpu_implicit.hpp>
#include <kernels/conv/gpu_matrix.hpp>
#include <kernels/conv/gpu_matrix_packed.hpp>
#include <kernels/conv/gpu_tables.hpp>
#include <kernels/gemm/gpu_matrix.hpp>

namespace clprim::conv {
namespace {

using detail::round_up;

// The weights of a launch as [group, row][tap][channels], in place where they lie so.
Tensor packed_weights(Queue& queue, const Call& call, const ImplicitProblem& p)
{
    const PackProblem q = pack_problem(call, false);
    const Tensor& w = call.w;
    if (call.pass == ConvPass::forward && p.depth == q.depth && w.buffer_offset() % 8 == 0 &&
        weights_in_order(call.problem, false))
        return w;
    const auto pack = [&] {
        Tensor seen(w.memory, w.offset, w.dtype, {q.groups, q.rows, p.taps[0], p.taps[1], p.taps[2], q.depth},
                    {q.group_stride, q.row_stride, 0, 0, 0, q.depth_stride});
        for (std::size_t i = 0; i < 3; ++i) {
            seen.offset += p.tap_first[i] * q.tap_strides[i];
            seen.strides[2 + i] = p.tap_period[i] * q.tap_strides[i];
        }
        return filled_up(queue, seen, p.depth);
    };
    if (!call.prepared)
        return pack();
    const cl_long *first = p.tap_first, *period = p.tap_period;
    return call.prepared->get(queue, fmt::format("conv matrix rows {} {} {}:{}:{} {}:{}:{}",
                                                 static_cast<int>(call.pass), p.groups, first[0], first[1], first[2],
                                                 period[0], period[1], period[2]), pack,
                              Prepared::Keeps::all);
}

bool in_fours(const Tensor& tensor, std::initializer_list<cl_long> numbers)
{
    return tensor.buffer_offset() % 4 == 0 &&
           std::all_of(numbers.begin(), numbers.end(), [](cl_long number) { return number % 4 == 0; });
}

// Whether four pixels of a channel from a multiple of four on are neighbours at a multiple of four elements.
bool quads_of_pixels(const ImplicitProblem& p, const Tensor& result)
{
    const cl_long* s = p.result_strides;
    const bool one_run = s[3] == p.out[2] && s[2] == p.out[1] * s[3];
    const cl_long run = one_run ? p.out[0] * p.out[1] * p.out[2] : p.out[2];
    return s[4] == 1 && in_fours(result, {run, s[0], s[1], one_run ? 0 : s[2], one_run ? 0 : s[3]});
}
bool quads_of_channels(const ImplicitProblem& p, const Tensor& result)
{
    const cl_long* s = p.result_strides;
    return s[1] == 1 && in_fours(result, {p.rows, s[0], s[2], s[3], s[4]});
}

using detail::MatrixExtent;

// The one with the index that a point says; the usual one where it is empty.
const detail::MatrixTile& tile_at(const Queue& queue, detail::MatrixEngineChoice engine, const MatrixExtent& sums,
                                  const Point& point)
{
    const std::int64_t tile = point.empty() ? detail::best_tile(engine, sums, queue.device()) : point.at("tile");
    const detail::MatrixTile& result = detail::matrix_tiles(engine.engine)[static_cast<std::size_t>(tile)].tile;
    require<NotSupported>(detail::tile_fits(engine, result, queue.device()) &&
                              detail::tile_suits(engine.engine, result, sums),
                          "conv: the device or the pass cannot take tile ", tile);
    return result;
}

Space tile_space(const MatrixExtent& sums, const Device& device)
{
    const auto engine = detail::matrix_engine(device);
    const auto tiles = detail::matrix_tiles(engine.engine);
    std::vector<std::int64_t> fitting;
    for (std::size_t i = 0; i < tiles.size(); ++i)
        if (detail::tile_fits(engine, tiles[i].tile, device) && detail::tile_suits(engine.engine, tiles[i].tile, sums))
            fitting.push_back(static_cast<std::int64_t>(i));
    return {{"tile", fitting, detail::best_tile(engine, sums, device)}};
}

// How slabs come to local memory: through registers, past them, or past them and read there by warpgroups. The last two
// take taps of whole slabs.
enum Stages : std::int64_t { through_registers, past_registers, by_warpgroups };

std::vector<std::int64_t> stages_of(const Device& device)
{
    const auto engine = detail::matrix_engine(device);
    if (!detail::copies_past_registers(engine, device))
        return {through_registers};
    if (!detail::has_warpgroups(engine, device))
        return {through_registers, past_registers};
    return {through_registers, past_registers, by_warpgroups};
}

// As an H100 takes the least time: warpgroups where there are blocks enough of 128 pixels and channels that lie apart.
std::int64_t usual_stages(const MatrixExtent& sums, bool pixels_are_rows, const Device& device)
{
    if (detail::matrix_engine(device).emulated)
        return through_registers;
    const std::int64_t most = stages_of(device).back();
    const cl_long blocks = ceil_div(sums.rows, 128) * ceil_div(sums.columns, 128) * sums.groups;
    if (most == by_warpgroups && !pixels_are_rows && sums.rows >= 96 &&
        static_cast<double>(blocks) >= 0.75 * detail::gpu_rate(device).cores)
        return by_warpgroups;
    return std::min<std::int64_t>(most, past_registers);
}

// Elements from the beginning of the buffer to beyond a tensor of `size` elements.
cl_long beyond(const Tensor& tensor, cl_long size) { return static_cast<cl_long>(tensor.buffer_offset()) + size; }

std::string options_for(const Call& call, const ImplicitProblem& p, cl_long farthest)
{
    return detail::gemm_options(call.dtype) +
           fmt::format(" -DOFFSET={} -DALIGNED=1 -DONE_TAP={:d} -DINSIDE={:d} -DPLANES={:d}",
                       farthest < cl_long{1} << 30 ? "uint" : "long", p.taps[0] * p.taps[1] * p.taps[2] == 1,
                       always_inside(p), has_planes(p));
}

// With zeros behind the end, as many as a tap has channels.
Tensor table_for(Queue& queue, const ImplicitProblem& p)
{
    return matrix_table(queue, gpu_problem(p), has_planes(p), static_cast<int>(p.depth / 4 + 8));
}

// Where the taps of each pixel lie, and of some behind the last (gpu_matrix_weight.cl).
Tensor place_table(Queue& queue, const Program& program, const Tensor& x, const gpu_conv_problem& problem)
{
    constexpr cl_long longest = 4;   // words of an entry: an offset of 64 bits, and what is inside
    const cl_int entries = problem.pixels + 4 * 32;
    const Tensor places = queue.context().empty({longest * entries}, DataType::int32, queue);
    queue.launch(program.kernel("conv_matrix_places"), Range::linear(static_cast<std::size_t>(entries), 64), places,
                 static_cast<cl_ulong>(x.buffer_offset()), problem, entries);
    return places;
}

Range groups_of(cl_long x, cl_long y, cl_long z, cl_long items)
{
    return Range::groups({static_cast<std::size_t>(x), static_cast<std::size_t>(y), static_cast<std::size_t>(z)},
                         {static_cast<std::size_t>(items), 1, 1});
}

void launch(Queue& queue, const Call& call, const Packed& source, ImplicitProblem p, cl_long result_first,
            const Point& point)
{
    if (p.pixels() == 0)
        return;
    source.tell(p);
    p.depth = source.channels;
    p.taps_inner = 0;
    Tensor result = call.result();
    result.offset += result_first;
    const Tensor weights = packed_weights(queue, call, p);
    const bool pixels_are_rows = p.result_strides[1] == 1 && p.groups * p.rows > 1;
    const bool quads = pixels_are_rows ? quads_of_channels(p, result) : quads_of_pixels(p, result);
    const auto engine = detail::matrix_engine(queue.device());
    const detail::MatrixEngineShape& shape = detail::shape_of(engine.engine);
    const MatrixExtent sums = pixels_are_rows ? MatrixExtent{p.pixels(), p.rows, p.groups}
                                              : MatrixExtent{p.rows, p.pixels(), p.groups};
    const bool whole = p.depth % 32 == 0 && p.total_depth() > 0;
    const detail::MatrixTile& asked = tile_at(queue, engine, sums, point);
    const std::int64_t stages =
        point.empty() ? usual_stages(sums, pixels_are_rows, queue.device()) : point.at("stages");
    const auto possible = stages_of(queue.device());
    require<NotSupported>(std::ranges::find(possible, stages) != possible.end(),
                          "conv: the device cannot take stages ", stages);
    const detail::MatrixTile tile = !whole || stages == through_registers ? asked
                                    : stages == by_warpgroups
                                        ? detail::warpgroup_tile(engine)
                                        : detail::in_stages(engine, asked, queue.device());
    const cl_long pixels = pixels_are_rows ? shape.rows(tile) : shape.columns(tile);
    const cl_long channels = pixels_are_rows ? shape.columns(tile) : shape.rows(tile);
    const cl_long farthest = std::max({beyond(source.tensor, source.strides[0] * p.batch), span_of(call.result()),
                                       beyond(weights, p.groups * p.rows * p.total_depth())});
    const Program& program = queue.context().program(
        "kernels/conv/gpu_matrix.cl",
        options_for(call, p, farthest) + detail::matrix_tile_options(engine, tile) +
            fmt::format(" -DBLOCKS=0 -DA_ALONG_K=1 -DB_ALONG_K=1 -DPIXELS_ARE_ROWS={:d} -DWHOLE_TAPS={:d} -DPAIRS={:d} "
                        "-DQUADS={:d} -DACTIVATION={}",
                        pixels_are_rows, whole, whole && p.depth % 64 == 0, quads, p.epilogue.activation));
    const gpu_conv_problem problem = gpu_problem(p);
    const Tensor table = table_for(queue, p);
    queue.launch(program.kernel("conv_matrix"),
                 groups_of(ceil_div(p.pixels(), pixels), ceil_div(p.rows, channels) * p.groups, 1, shape.items(tile)),
                 source.tensor, weights, call.bias, result, table, problem);
}

}  // namespace

cl_long weight_parts(const Device& device, detail::MatrixEngineChoice engine, const detail::MatrixTile& tile,
                     const WeightBlocks& blocks, cl_long size)
{
    const cl_long most = std::max<cl_long>(blocks.depth / blocks.least, 1);
    if (engine.emulated)   // for tests, which are to see several
        return std::clamp<cl_long>(4 / blocks.count, 1, most);
    constexpr double usual_share = 0.7;   // of the engine's peak that loops of large tiles reach
    const detail::MatrixEngineShape& shape = detail::shape_of(engine.engine);
    const detail::GpuRate rate = detail::gpu_rate(device);
    const auto number = [](cl_long n) { return static_cast<double>(n); };
    const double engines = number(tile.sub_groups_m * tile.sub_groups_n);
    const double products = number(shape.rows(tile) * shape.columns(tile)) * number(blocks.depth);
    const detail::Workload work{number(blocks.count), engines, products / (engines * rate.matrix * usual_share)};
    return detail::best_parts(rate, work, number(size), most, true).count;
}

bool beyond_matrix_taps(const Problem& problem)
{
    return problem.kernel[0] > MOST_TAPS_Z || problem.kernel[1] > MOST_TAPS_Y || problem.kernel[2] > MOST_TAPS_X;
}

Rejection rejects_gpu_matrix(const Call& call, const Device& device)
{
    if (Rejection reason = detail::matrix_engine_rejects(call.dtype, device))
        return reason;
    if (beyond_matrix_taps(call.problem) && !in_patches(call))
        return fmt::format("kernels beyond {} x {} x {}", MOST_TAPS_Z, MOST_TAPS_Y, MOST_TAPS_X);
    return rejects_gpu_implicit(call, device);
}

Rejection gpu_matrix_advises_against(const Call& call, const Device& device)
{
    const Problem& q = call.problem;
    const double inward = static_cast<double>(q.in_channels), outward = static_cast<double>(q.out_channels);
    const double taps = static_cast<double>(q.taps());
    if (call.pass == ConvPass::backward_weight)
        return detail::matrix_engine_advises_against(outward, inward * taps, device);
    const bool forward = call.pass == ConvPass::forward, by_patches = !forward && in_patches(call);
    const double pixels = static_cast<double>(q.batch * (forward || by_patches ? q.out_pixels() : q.in_pixels()));
    const double channels = forward ? outward : by_patches ? inward * taps : inward;
    return detail::matrix_engine_advises_against(pixels, channels, device);
}

Space gpu_matrix_space(const Call& call, const Device& device)
{
    if (as_matrix_product(call) || in_patches(call) || in_blocks(call, device))
        return {};
    const Problem& q = call.problem;
    const bool forward = call.pass == ConvPass::forward, pixels_are_rows = call.result().stride(1) == 1;
    const cl_long channels = (forward ? q.out_channels : q.in_channels) / q.groups;
    const cl_long pixels = q.batch * (forward ? q.out_pixels() : q.in_pixels());
    const MatrixExtent sums = pixels_are_rows ? MatrixExtent{pixels, channels, q.groups}
                                              : MatrixExtent{channels, pixels, q.groups};
    Space space = tile_space(sums, device);
    space.push_back({"stages", stages_of(device), usual_stages(sums, pixels_are_rows, device)});
    return space;
}

void run_gpu_matrix(Queue& queue, const Call& call) { run_gpu_matrix_at(queue, call, {}); }

void run_gpu_matrix_at(Queue& queue, const Call& call, const Point& point)
{
    if (const auto product = as_matrix_product(call))
        return detail::gpu_matrix(queue, product->problem, product->tensors);
    if (in_patches(call))
        return run_in_patches(queue, call);
    if (in_blocks(call, queue.device()))
        return run_in_blocks(queue, call);
    const Side side = call.pass == ConvPass::forward ? x_side(call) : y_side(call);
    const Packed source = packed(queue, side, false, border_of(call, side));
    for_each_launch(call, [&](const ImplicitProblem& p, cl_long first) {
        launch(queue, call, source, p, first, point);
    });
}

namespace {

// Pixels are many, and cut into as many parts as the device wants.
MatrixExtent weight_sums(const ImplicitProblem& p)
{
    return {p.rows, p.total_depth(), p.groups * ceil_div(p.pixels(), 512), false, false};
}

// By loads that transpose, which the tile behind those for slabs stands for: as many outputs as there are, and for each
// sub-group four fragments of rows, so many sub-groups as leave the fewest without rows.
std::int64_t turned_index() { return std::ssize(detail::matrix_tiles(detail::MatrixEngine::wmma12)); }

detail::MatrixTile turned_tile(const ImplicitProblem& p, bool emulated)
{
    if (emulated)
        return {2, 1, 2, 2};
    const cl_long sub_groups_m = p.rows > 64 ? 2 : 1, sub_groups = ceil_div(p.total_depth(), 64);
    const cl_long blocks = ceil_div(sub_groups * sub_groups_m, 4);
    return {sub_groups_m, ceil_div(sub_groups, blocks), p.rows > 32 ? 4 : 2, 4};
}

std::string turned_options(const ImplicitProblem& p, const detail::MatrixTile& tile, cl_long rows)
{
    int together = 1;
    while (p.depth % (32 * together) == 0 && tile.fragments_n % (2 * together) == 0)
        together *= 2;
    return fmt::format(" -DBLOCKS=1 -DTOGETHER={} -DWHOLE_OUTPUTS={:d}", together, p.rows % rows == 0);
}

bool is_turned(const Call& call, const Device& device, const Point& point)
{
    if (!point.empty())
        return point.at("tile") == turned_index();
    return detail::matrix_engine(device).engine == detail::MatrixEngine::wmma12 && turned_works(device, call.dtype);
}

// x as the kernels read it, which the problem and the runs are told of.
Tensor weight_source(Queue& queue, const Call& call, ImplicitProblem& p, Runs& runs)
{
    if (const auto found = runs_of(p)) {
        runs = *found;
        return with_border(queue, call, p, runs);
    }
    const Packed x = packed(queue, x_side(call), false);
    x.tell(p);
    p.depth = runs.channels = x.channels;
    return x.tensor;
}

}  // namespace

Point turned_point() { return {{"tile", turned_index()}}; }

Space gpu_matrix_weight_space(const Call& call, const Device& device)
{
    const bool turned = is_turned(call, device, {});
    if (in_patches(call) || (!turned && (as_matrix_product(call) || weight_in_blocks(call, device))))
        return {};
    ImplicitProblem p = forward_problem(call);
    if (weight_in_lines(call, device))
        return tile_space(lines_extent(p), device);
    if (!runs_of(p))
        p.depth = round_up(p.depth, 8);
    Space space = tile_space(weight_sums(p), device);
    if (turned) {
        space[0].values.push_back(turned_index());
        space[0].usual = turned_index();
    }
    return space;
}

void run_gpu_matrix_weight(Queue& queue, const Call& call) { run_gpu_matrix_weight_at(queue, call, {}); }

void run_gpu_matrix_weight_at(Queue& queue, const Call& call, const Point& point)
{
    if (in_patches(call))
        return run_in_patches(queue, call);
    const bool turned = is_turned(call, queue.device(), point);
    if (!turned && point.empty()) {
        if (const auto product = as_matrix_product(call))
            return detail::gpu_matrix(queue, product->problem, product->tensors);
        if (weight_in_blocks(call, queue.device()))
            return run_weight_in_blocks(queue, call);
    }
    ImplicitProblem p = forward_problem(call);
    if (p.pixels() == 0)
        return fill_zero(queue, call.w);
    const auto engine = detail::matrix_engine(queue.device());
    if (weight_in_lines(call, queue.device()))
        return run_weight_in_lines(queue, call, tile_at(queue, engine, lines_extent(p), point));
    const Packed dy = packed(queue, y_side(call), true);
    Runs runs;
    const Tensor x = weight_source(queue, call, p, runs);
    std::copy_n(dy.strides, 5, p.result_strides);
    p.taps_inner = 0;
    const detail::MatrixEngineShape& shape = detail::shape_of(engine.engine);
    const cl_long columns = p.total_depth();
    const detail::MatrixTile tile = turned ? turned_tile(p, engine.emulated)
                                           : tile_at(queue, engine, weight_sums(p), point);
    const cl_long row_blocks = ceil_div(p.rows, shape.rows(tile)) * p.groups;
    const cl_long column_blocks = ceil_div(columns, shape.columns(tile));
    p.parts = weight_parts(queue.device(), engine, tile, {row_blocks * column_blocks, p.pixels(), 256}, call.w.numel());
    p.parts = ceil_div(p.pixels(), ceil_div(p.pixels(), p.parts));   // none is empty
    const Tensor sums = queue.context().empty({p.parts * call.w.numel()}, DataType::float32, queue);
    const cl_long farthest = std::max(beyond(x, p.source_strides[0] * p.batch),
                                      beyond(dy.tensor, dy.strides[0] * p.batch));
    const Program& program = queue.context().program(
        turned ? "kernels/conv/gpu_matrix_turned_weight.cl" : "kernels/conv/gpu_matrix_weight.cl",
        options_for(call, p, farthest) + detail::matrix_tile_options(engine, tile) + " -DA_ALONG_K=0 -DB_ALONG_K=0" +
            (turned ? turned_options(p, tile, shape.rows(tile)) : " -DBLOCKS=0"));
    gpu_conv_problem problem = gpu_problem(p);
    problem.result_group = dy.channels;
    const Tensor table = table_for(queue, p);
    const Tensor places = place_table(queue, program, x, problem);
    queue.launch(program.kernel("conv_matrix_weight"), groups_of(column_blocks, row_blocks, p.parts, shape.items(tile)),
                 x, dy.tensor, sums, table, places, problem, static_cast<cl_int>(call.problem.in_channels),
                 static_cast<cl_int>(runs.channels), static_cast<cl_int>(runs.taps));
    add_parts(queue, call, sums, p);
}

}  // namespace clprim::conv
