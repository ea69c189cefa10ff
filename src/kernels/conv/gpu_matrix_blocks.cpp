// Host side of gpu_matrix_blocks.cl.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include <kernels/conv/gpu_implicit.hpp>
#include <kernels/conv/gpu_matrix_blocks.hpp>
#include <kernels/gemm/gpu_matrix.hpp>

namespace clprim::conv {
namespace {

using detail::MatrixTile;
using detail::round_up;

// Taps along columns in the other order where they go down.
void let_columns_ascend(ImplicitProblem& p)
{
    if (p.step[2] >= 0)
        return;
    const cl_long last = p.taps[2] - 1;
    p.shift[2] += last * p.step[2];
    p.step[2] = -p.step[2];
    p.tap_first[2] += last * p.tap_period[2];
    p.tap_period[2] = -p.tap_period[2];
}

// The k of a row of taps: runs, each of which kernels read in whole blocks.
struct RowRuns {
    cl_long length, count, step;

    cl_long blocks() const { return count * ceil_div(length, block_k); }
};
RowRuns runs_of_row(const ImplicitProblem& p)
{
    const cl_long step = p.step[2] * p.source_strides[4];
    if (step == p.depth || p.taps[2] == 1)   // the channels of taps follow each other
        return {p.taps[2] * p.depth, 1, step};
    return {p.depth, p.taps[2], step};
}

// The weights of a launch as [group][row of taps][k][row of the result], depth, k and rows filled up with zeros.
Tensor packed(Queue& queue, const Call& call, const ImplicitProblem& p, bool turned)
{
    const PackProblem q = pack_problem(call, false);
    const Tensor& w = call.w;
    const cl_long rows = round_up(p.rows, block_k), depth = runs_of_row(p).blocks() * block_k;
    const cl_int2 axes = {{turned ? 2 : 1, turned ? 1 : 2}};   // of the tensor
    const auto pack = [&] {
        const Tensor whole = queue.context().empty({p.groups, p.taps[1], depth, rows}, w.dtype, queue);
        const auto size = [](cl_long n) { return static_cast<std::size_t>(n); };
        Range range = Range::groups({size(ceil_div(rows, 32)), size(p.groups * p.taps[1]), size(p.depth)}, {32, 1, 1});
        queue.launch(weights_program(queue, w.dtype).kernel("conv_block_weights"), range, w, whole, p, q, axes,
                     static_cast<cl_int>(depth), static_cast<cl_int>(rows));
        return whole;
    };
    if (!call.prepared)
        return pack();
    const cl_long *first = p.tap_first, *period = p.tap_period;
    return call.prepared->get(queue,
                              fmt::format("conv matrix blocks {} {} {} {} {}:{} {}:{}", static_cast<int>(call.pass),
                                          p.groups, turned, depth, first[1], first[2], period[1], period[2]),
                              pack, Prepared::Keeps::all);
}

// Rows of a block, as few of which as possible are beyond an edge; each of them is one more message.
cl_long piece_for(const ImplicitProblem& p)
{
    const auto cost = [&](cl_long rows) {
        return static_cast<double>(round_up(p.out[1], rows)) * (1 + 0.5 / static_cast<double>(rows));
    };
    constexpr cl_long choices[] = {8, 16, 32};
    return *std::ranges::min_element(choices, {}, cost);
}

// The cheapest by the time of the vector engine with the most sub-groups; narrow ones take longer for each sum.
MatrixTile tile_for(const Device& device, detail::MatrixEngineChoice engine, cl_long pixels, cl_long rows,
                    cl_long groups)
{
    if (engine.emulated)
        return {2, 2, 4, 2};
    const auto cost = [&](const MatrixTile& tile) {
        const cl_long tiles = ceil_div(pixels, 32 * tile.sub_groups_m) *
                              ceil_div(rows, 16 * tile.fragments_n * tile.sub_groups_n) * groups;
        const cl_long turns = ceil_div(tiles * tile.sub_groups_m * tile.sub_groups_n, device.compute_units);
        return static_cast<double>(turns) * (tile.fragments_n == 4 ? 4 : 2.5);
    };
    static constexpr MatrixTile tiles[] = {{4, 4, 4, 4}, {4, 2, 4, 4}, {8, 1, 4, 4}, {4, 1, 4, 4}, {4, 1, 4, 2}};
    return *std::ranges::min_element(tiles, {}, cost);
}

bool quads_fit(const ImplicitProblem& p, const Tensor& result, bool channels_innermost)
{
    const cl_long* s = p.result_strides;
    const cl_long all = static_cast<cl_long>(result.buffer_offset()) | s[0] | s[4] |
                        (channels_innermost ? p.rows | s[3] : p.out[1] | s[1]);
    return (channels_innermost ? s[1] : s[3]) == 1 && all % 4 == 0;
}

void launch(Queue& queue, const Call& call, const Tensor& source, ImplicitProblem p, cl_long result_first, bool turned)
{
    if (p.pixels() == 0)
        return;
    let_columns_ascend(p);
    p.taps_inner = 0;
    Tensor result = call.result();
    result.offset += result_first;
    const Tensor weights = packed(queue, call, p, turned);
    const bool channels_innermost = p.result_strides[1] == 1 && p.groups * p.rows > 1;
    const cl_long piece = piece_for(p), width = weights.size(3);
    conv_blocks_problem blocks{};
    blocks.rows = static_cast<cl_int>(p.out[1]);
    const cl_long* s = p.source_strides;
    const RowRuns runs = runs_of_row(p);
    blocks.run = static_cast<cl_int>(runs.length);
    blocks.runs = static_cast<cl_int>(runs.count);
    blocks.run_step = static_cast<cl_int>(runs.step);
    blocks.source_width = static_cast<cl_int>(2 * p.in[2] * s[4]);
    blocks.weights_width = static_cast<cl_int>(2 * width);
    const bool quads = quads_fit(p, result, channels_innermost), strided = p.scale[1] > 1;
    const cl_long farthest = std::max({static_cast<cl_long>(source.buffer_offset()) + s[0] * p.batch,
                                       span_of(call.result()) + static_cast<cl_long>(result.buffer_offset()),
                                       weights.numel()});
    p.out[1] = ceil_div(p.out[1], piece);
    const auto engine = detail::matrix_engine(queue.device());
    const detail::MatrixEngineShape& shape = detail::shape_of(engine.engine);
    const MatrixTile tile = tile_for(queue.device(), engine, p.pixels() * piece, p.rows, p.groups);
    const cl_long rest = runs.length % block_k;   // in the last block
    const int masked = rest == 0 ? 0 : rest > block_k / 2 ? 1 : 2;
    const Program& program = queue.context().program(
        "kernels/conv/gpu_matrix_blocks.cl",
        detail::gemm_options(call.dtype) + detail::matrix_tile_options(engine, tile) +
            fmt::format(" -DOFFSET={} -DPLANES=0 -DINSIDE=0 -DONE_TAP=0 -DA_ALONG_K=1 -DB_ALONG_K=0 -DALIGNED=1 "
                        "-DBLOCKS=1 -DMASKED={} -DPIECE={} -DSTRIDED={:d} -DCHANNELS_INNERMOST={:d} "
                        "-DQUADS_OF_ROWS={:d} -DQUADS={:d} -DACTIVATION={}",
                        farthest < most_distance ? "int" : "long", masked, piece, strided, channels_innermost,
                        !channels_innermost, quads, p.epilogue.activation));
    const cl_long pieces = shape.rows(tile) / piece, channels = shape.columns(tile);
    gpu_conv_problem problem = gpu_problem(p);
    problem.total = static_cast<cl_int>(weights.size(1) * weights.size(2));
    queue.launch(program.kernel("conv_blocks"),
                 Range::groups({static_cast<std::size_t>(ceil_div(p.pixels(), pieces)),
                                static_cast<std::size_t>(ceil_div(p.rows, channels) * p.groups), 1},
                               {static_cast<std::size_t>(shape.items(tile)), 1, 1}),
                 source, weights, call.bias, result, problem, blocks);
}

const Tensor& source_of(const Call& call) { return call.pass == ConvPass::forward ? call.x : call.y; }

// Whether all launches of a call can read its source as a plan says.
bool all_fit(const Call& call, const BlockPlan& plan)
{
    const cl_long offset = plan.copied ? 0 : static_cast<cl_long>(source_of(call).buffer_offset());
    bool good = true;
    for_each_launch(call, [&](ImplicitProblem p, cl_long) {
        plan.tell(p);
        good = good && blocks_fit(p, offset) && !has_planes(p) && p.total_depth() > 0;
    });
    return good;
}

// The same plan for channels that are not filled up to a block but make one with those of other taps.
BlockPlan with_few_channels(const ImplicitProblem& p, BlockPlan plan)
{
    plan.channels = round_up(p.depth, 2);   // blocks begin at whole words
    lay_out_copy(p, plan);
    return plan;
}

// Blocks of k that a call multiplies for all of its pixels, and slabs of gpu_matrix.cl.
cl_long blocks_of(const Call& call, const BlockPlan& plan)
{
    cl_long count = 0;
    for_each_launch(call, [&](ImplicitProblem p, cl_long) {
        plan.tell(p);
        let_columns_ascend(p);
        count += p.pixels() * p.taps[1] * runs_of_row(p).blocks();
    });
    return count;
}
cl_long slabs_of(const Call& call)
{
    cl_long count = 0;
    for_each_launch(call, [&](const ImplicitProblem& p, cl_long) {
        count += p.pixels() * ceil_div(p.taps[0] * p.taps[1] * p.taps[2] * round_up(p.depth, 8), block_k);
    });
    return count;
}

std::optional<BlockPlan> plan_for(const Call& call, const Device& device)
{
    if (!reads_blocks(device))
        return {};
    const ImplicitProblem p = common_problem(call);
    BlockPlan plan;
    plan.channels = round_up(p.depth, block_k);
    plan.turned = p.in[1] == 1 && p.kernel[1] == 1;   // one dimension: columns are many, and better rows
    std::copy_n(p.source_strides, 5, plan.strides);
    if (plan.channels == p.depth && all_fit(call, plan))
        return plan;
    plan.turned = plan.turned || p.result_strides[1] != 1;
    lay_out_copy(p, plan);
    if (const BlockPlan few = with_few_channels(p, plan); p.groups == 1 && all_fit(call, few)) {
        const cl_long blocks = blocks_of(call, plan), fewer = blocks_of(call, few);
        if (fewer < blocks || (fewer == blocks && 2 * few.channels <= plan.channels))
            plan = few;
    }
    if (blocks_of(call, plan) > 2 * slabs_of(call))   // mostly zeros
        return {};
    return all_fit(call, plan) ? std::optional(plan) : std::nullopt;
}

}  // namespace

bool in_blocks(const Call& call, const Device& device)
{
    return plan_for(call, device).has_value() && blocks_work(device, call.dtype);
}

void run_in_blocks(Queue& queue, const Call& call)
{
    const std::optional<BlockPlan> plan = plan_for(call, queue.device());
    require(plan.has_value(), "conv: blocks cannot take the call");
    const Tensor source = plan->copied ? copied(queue, source_of(call), common_problem(call), *plan) : source_of(call);
    for_each_launch(call, [&](ImplicitProblem p, cl_long first) {
        plan->tell(p);
        launch(queue, call, source, p, first, plan->turned);
    });
}

}  // namespace clprim::conv
