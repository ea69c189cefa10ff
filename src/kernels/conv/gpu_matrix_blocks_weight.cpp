// Host side of gpu_matrix_blocks_weight.cl.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include <clprim/copy.hpp>
#include <kernels/conv/gpu_implicit.hpp>
#include <kernels/conv/gpu_matrix_blocks.hpp>
#include <kernels/gemm/gpu_matrix.hpp>

namespace clprim::conv {
namespace {

using detail::MatrixTile;
using detail::round_up;

// Of a weight gradient: x and dy as they are read, which are turned together, and how rows of dw come in runs.
struct WeightPlan {
    BlockPlan x, dy;
    cl_long run = 0, runs = 0;   // elements of a run, runs for a row of taps
    cl_long rows = 0;            // of the result, to the next image where all are one
    cl_long x_rows = 0;          // of an image of x that are read

    cl_long total(const ImplicitProblem& p) const { return p.taps[x.turned ? 2 : 1] * runs * run; }
};

// Channels of one tap in a run, or of all taps along a row, where those are neighbours and leave fewer unused.
void choose_runs(const ImplicitProblem& p, WeightPlan& plan)
{
    plan.runs = p.taps[plan.x.turned ? 1 : 2];
    plan.run = plan.x.channels = round_up(p.depth, block_k);
    const cl_long few = round_up(p.depth, 4), together = round_up(plan.runs * few, block_k);
    if (p.groups == 1 && p.step[2] == 1 && !plan.x.turned && together < plan.runs * plan.run) {
        plan.x.channels = few;
        plan.run = together;
        plan.runs = 1;
    }
}

ImplicitProblem dy_problem(const Call& call)
{
    const Problem& q = call.problem;
    ImplicitProblem p = forward_problem(call);
    p.depth = q.out_channels;
    std::copy_n(q.y_strides, 5, p.source_strides);
    std::copy_n(q.out, 3, p.in);
    std::fill_n(p.scale, 3, 1);
    return p;
}

// In place, if that can be, or a copy; `apart`: whether the channels of neighbours need not follow each other.
bool lay_out(const ImplicitProblem& p, cl_long offset, BlockPlan& plan, bool apart)
{
    const auto good = [&](cl_long at) {
        ImplicitProblem seen = p;
        plan.tell(seen);
        return blocks_fit(seen, at);
    };
    std::copy_n(p.source_strides, 5, plan.strides);
    if (!plan.image_rows && plan.channels == p.depth && (apart || p.source_strides[4] == p.depth) && good(offset))
        return true;
    lay_out_copy(p, plan);
    return good(0);
}

// Images of few rows become one where that leaves fewer rows of zeros; x's rows that are copied then.
void choose_rows(ImplicitProblem& p, WeightPlan& plan)
{
    plan.rows = p.out[1] == 1 && p.taps[1] == 1 ? p.out[2] : p.out[1];
    if (plan.x.turned || p.batch == 1)
        return;
    const GridAxis axis = grid_axis(p, 1);
    if (13 * axis.points > 10 * round_up(plan.rows, 16) || axis.points >= 2 * plan.rows)
        return;
    plan.rows = plan.dy.image_rows = axis.points;
    plan.x.image_rows = axis.points * p.scale[1];
    p.in[1] = std::min(p.in[1], axis.seen * p.scale[1]);
}

std::optional<WeightPlan> weight_plan(const Call& call, const Device& device)
{
    ImplicitProblem p = forward_problem(call);
    WeightPlan plan;
    plan.x.turned = plan.dy.turned = p.in[1] == 1 && p.taps[1] == 1;
    choose_rows(p, plan);
    plan.dy.channels = round_up(p.rows, 8);
    choose_runs(p, plan);
    const cl_long useful = p.taps[1] * p.taps[2] * round_up(p.depth, 8);   // what slabs would multiply
    if (!reads_blocks(device) || has_planes(p) || plan.total(p) > 2 * useful ||
        (!plan.x.image_rows && 2 * plan.rows <= round_up(plan.rows, 16)))
        return {};   // the last two: mostly zeros
    if (!lay_out(p, static_cast<cl_long>(call.x.buffer_offset()), plan.x, plan.run == plan.x.channels) ||
        !lay_out(dy_problem(call), static_cast<cl_long>(call.y.buffer_offset()), plan.dy, true))
        return {};
    plan.x_rows = p.in[1];
    for (const auto& [side, tensor] : {std::pair{&plan.x, &call.x}, std::pair{&plan.dy, &call.y}}) {
        const cl_long begin = side->copied ? 0 : static_cast<cl_long>(tensor->buffer_offset());
        if (begin + p.batch * side->strides[0] >= most_distance)
            return {};   // the kernel counts in int
    }
    return plan;
}

// Of the block that a work-group computes: outputs by (tap, channel).
MatrixTile weight_tile(detail::MatrixEngineChoice engine, const ImplicitProblem& p)
{
    if (engine.emulated)
        return {2, 1, 2, 4};
    return p.rows <= 64 ? MatrixTile{4, 2, 2, 8} : MatrixTile{8, 2, 2, 8};
}

}  // namespace

bool weight_in_blocks(const Call& call, const Device& device)
{
    return weight_plan(call, device).has_value() && blocks_work(device, call.dtype);
}

void run_weight_in_blocks(Queue& queue, const Call& call)
{
    const std::optional<WeightPlan> plan = weight_plan(call, queue.device());
    require(plan.has_value(), "conv: blocks cannot take the call");
    ImplicitProblem p = forward_problem(call);
    p.in[1] = plan->x_rows;
    const Tensor x = plan->x.copied ? copied(queue, call.x, p, plan->x) : call.x;
    const Tensor dy = plan->dy.copied ? copied(queue, call.y, dy_problem(call), plan->dy) : call.y;
    std::copy_n(plan->dy.strides, 5, p.result_strides);
    p.taps_inner = 0;
    const ImplicitProblem straight = p;
    if (plan->x.image_rows)
        p.out[1] = p.batch * plan->rows;
    plan->x.tell(p);
    conv_blocks_problem blocks{};
    blocks.rows = static_cast<cl_int>(p.out[1]);
    blocks.run = static_cast<cl_int>(plan->run);
    blocks.runs = static_cast<cl_int>(plan->runs);
    blocks.run_step = static_cast<cl_int>(p.step[2] * p.source_strides[4]);
    blocks.source_width = static_cast<cl_int>(2 * p.in[2] * p.source_strides[4]);
    blocks.weights_width = static_cast<cl_int>(2 * p.out[2] * p.result_strides[4]);
    // Two k steps at a time multiply 39 of 100 instructions, one 33, but fewer rows beyond the image's edge.
    const cl_long steps = 5 * round_up(p.out[1], 32) < 6 * round_up(p.out[1], 16) ? 2 : 1;
    p.out[1] = ceil_div(p.out[1], 16 * steps);
    const auto engine = detail::matrix_engine(queue.device());
    const detail::MatrixEngineShape& shape = detail::shape_of(engine.engine);
    const MatrixTile tile = weight_tile(engine, p);
    const cl_long row_blocks = ceil_div(p.rows, shape.rows(tile)) * p.groups;
    const cl_long total = plan->total(straight), column_blocks = ceil_div(total, shape.columns(tile));
    const cl_long lines = p.pixels() / p.out[2], pixels = lines * p.out[2] * 16 * steps;
    const cl_long parts = weight_parts(queue.device(), engine, tile,   // whole rows of pieces
                                       {row_blocks * column_blocks, pixels, ceil_div(pixels, lines)}, call.w.numel());
    const cl_long each = ceil_div(lines, parts);
    p.parts = ceil_div(lines, each);
    const Tensor sums = queue.context().empty({p.parts * call.w.numel()}, DataType::float32, queue);
    const Program& program = queue.context().program(
        "kernels/conv/gpu_matrix_blocks_weight.cl",
        detail::gemm_options(call.dtype) + detail::matrix_tile_options(engine, tile) +
            fmt::format(" -DOFFSET=int -DPLANES=0 -DINSIDE=0 -DONE_TAP=0 -DA_ALONG_K=0 -DB_ALONG_K=0 -DALIGNED=1 "
                        "-DBLOCKS=1 -DSTEPS={} -DSTRIDED={:d}",
                        steps, p.scale[1] > 1));
    gpu_conv_problem problem = gpu_problem(p);
    problem.part_pixels = static_cast<cl_int>(each * p.out[2]);
    problem.result_group = plan->dy.channels;
    problem.total = static_cast<cl_int>(total);
    queue.launch(program.kernel("conv_blocks_weight"),
                 Range::groups({static_cast<std::size_t>(column_blocks), static_cast<std::size_t>(row_blocks),
                                static_cast<std::size_t>(p.parts)},
                               {static_cast<std::size_t>(shape.items(tile)), 1, 1}),
                 x, dy, sums, problem, blocks, static_cast<cl_int>(straight.depth));
    ImplicitProblem ordered = straight;
    ordered.parts = p.parts;
    if (plan->x.image_rows)   // dy has zeros between images
        add_parts_looking_again(queue, call, sums, ordered);
    else
        add_parts(queue, call, sums, ordered);
}

}  // namespace clprim::conv
