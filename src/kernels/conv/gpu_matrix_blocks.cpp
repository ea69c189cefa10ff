// Host side of gpu_matrix_blocks.cl.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include <clprim/copy.hpp>
#include <kernels/conv/gpu_implicit.hpp>
#include <kernels/conv/gpu_matrix.hpp>
#include <kernels/gemm/gpu_matrix.hpp>

namespace clprim::conv {
namespace {

using detail::MatrixTile;
using detail::round_up;

constexpr cl_long block_k = 32;                          // BLOCK_K of gemm/fragments_blocks.cl
constexpr cl_long most_distance = cl_long{1} << 30;      // elements that kernels count in int, their bytes too

// Rows and columns exchanged.
void turn(ImplicitProblem& p)
{
    for (cl_long* axes : {p.taps, p.in, p.out, p.kernel, p.tap_first, p.tap_period, p.scale, p.shift, p.step,
                          p.source_strides + 2, p.result_strides + 2})
        std::swap(axes[1], axes[2]);
}

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

// Whether block reads can take the images of the source, rows of pixels being rows of a matrix.
bool fits(const ImplicitProblem& p, cl_long offset)
{
    constexpr cl_long longest = 1 << 22, shortest = 32;   // elements of a row
    const cl_long* s = p.source_strides;
    const cl_long aligned = offset | (p.batch > 1 ? s[0] : 0) | (p.scale[1] > 1 ? s[3] : 0);
    return s[1] == 1 && aligned % 32 == 0 && s[3] % 8 == 0 && s[4] % 2 == 0 && p.in[2] * s[4] <= s[3] &&
           s[4] >= p.groups * p.depth && p.in[2] * s[4] >= shortest && p.scale[1] * s[3] < longest && p.in[1] < longest;
}

// The weights of a launch as [group][tap][depth][row], depth and rows filled up with zeros.
Tensor packed(Queue& queue, const Call& call, const ImplicitProblem& p, bool turned)
{
    const PackProblem q = pack_problem(call, false);
    const Tensor& w = call.w;
    const cl_long rows = round_up(p.rows, block_k), total = p.total_depth();
    const int axes[2] = {turned ? 2 : 1, turned ? 1 : 2};   // of the tensor
    const auto pack = [&] {
        const Tensor whole = queue.context().empty({p.groups, p.taps[1], p.taps[2], p.depth, rows}, w.dtype, queue);
        if (rows != p.rows || p.depth != q.depth)
            fill_zero(queue, whole);
        // Taps may go down, which strides cannot: one row of them after the other.
        for (cl_long tap = 0; tap < p.taps[2]; ++tap) {
            const Tensor from(w.memory,
                              w.offset + p.tap_first[1] * q.tap_strides[axes[0]] +
                                  (p.tap_first[2] + tap * p.tap_period[2]) * q.tap_strides[axes[1]],
                              w.dtype, {p.groups, p.taps[1], q.depth, p.rows},
                              {q.group_stride, p.tap_period[1] * q.tap_strides[axes[0]], q.depth_stride, q.row_stride});
            const Tensor to(whole.memory, whole.offset + tap * p.depth * rows, w.dtype, from.shape,
                            {total * rows, p.taps[2] * p.depth * rows, rows, 1});
            copy(queue, from, to);
        }
        return whole;
    };
    if (!call.prepared)
        return pack();
    const cl_long *first = p.tap_first, *period = p.tap_period;
    return call.prepared->get(queue, fmt::format("conv matrix blocks {} {} {} {}:{} {}:{}", static_cast<int>(call.pass),
                                                 p.groups, turned, first[1], first[2], period[1], period[2]), pack,
                              Prepared::Keeps::all);
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
    const cl_long piece = piece_for(p), width = weights.size(4);
    conv_blocks_problem blocks{};
    blocks.rows = static_cast<cl_int>(p.out[1]);
    const cl_long *s = p.source_strides, step = p.step[2] * s[4];
    const bool together = step == p.depth || p.taps[2] == 1;   // the channels of taps along a row follow each other
    blocks.run = static_cast<cl_int>(together ? p.taps[2] * p.depth : p.depth);
    blocks.runs = static_cast<cl_int>(together ? 1 : p.taps[2]);
    blocks.run_step = static_cast<cl_int>(step);
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
    const Program& program = queue.context().program(
        "kernels/conv/gpu_matrix_blocks.cl",
        detail::gemm_options(call.dtype) + detail::matrix_tile_options(engine, tile) +
            fmt::format(" -DOFFSET={} -DPLANES=0 -DINSIDE=0 -DONE_TAP=0 -DA_ALONG_K=1 -DB_ALONG_K=0 -DALIGNED=1 "
                        "-DBLOCKS=1 -DPIECE={} -DSTRIDED={:d} -DCHANNELS_INNERMOST={:d} -DQUADS_OF_ROWS={:d} "
                        "-DQUADS={:d} -DACTIVATION={}",
                        farthest < most_distance ? "int" : "long", piece, strided, channels_innermost,
                        !channels_innermost, quads, p.epilogue.activation));
    const cl_long pieces = shape.rows(tile) / piece, channels = shape.columns(tile);
    queue.launch(program.kernel("conv_blocks"),
                 Range::groups({static_cast<std::size_t>(ceil_div(p.pixels(), pieces)),
                                static_cast<std::size_t>(ceil_div(p.rows, channels) * p.groups), 1},
                               {static_cast<std::size_t>(shape.items(tile)), 1, 1}),
                 source, weights, call.bias, result, gpu_problem(p), blocks);
}

// How a call's source is read: in place, or a copy with channels innermost and columns, or rows, next.
struct Plan {
    bool copied = false, turned = false;
    cl_long channels = 0;   // of a group, which the copy fills up with zeros
    cl_long strides[5] = {};

    void tell(ImplicitProblem& p) const
    {
        p.depth = channels;
        std::copy_n(strides, 5, p.source_strides);
        if (turned)
            turn(p);
    }
};

void lay_out_copy(const ImplicitProblem& p, Plan& plan)
{
    const int outer = plan.turned ? 2 : 1, inner = plan.turned ? 1 : 2;
    const cl_long channels = p.groups * plan.channels;
    plan.copied = true;
    plan.strides[0] = p.in[outer] * round_up(p.in[inner] * channels, block_k);
    plan.strides[1] = 1;
    plan.strides[2] = 0;
    plan.strides[2 + inner] = channels;
    plan.strides[2 + outer] = round_up(p.in[inner] * channels, block_k);
}

const Tensor& source_of(const Call& call) { return call.pass == ConvPass::forward ? call.x : call.y; }

Tensor copied(Queue& queue, const Tensor& t, const ImplicitProblem& p, const Plan& plan)
{
    const cl_long *s = p.source_strides, *d = plan.strides;
    const int outer = plan.turned ? 2 : 1, inner = plan.turned ? 1 : 2;
    const Tensor from(t.memory, t.offset, t.dtype, {p.batch, p.in[outer], p.in[inner], p.groups, p.depth},
                      {s[0], s[2 + outer], s[2 + inner], p.depth * s[1], s[1]});
    const Tensor to = queue.context().empty({p.batch * d[0]}, t.dtype, queue);
    if (plan.channels != p.depth)
        fill_zero(queue, to);
    copy(queue, from, Tensor(to.memory, to.offset, to.dtype, from.shape,
                             {d[0], d[2 + outer], d[2 + inner], plan.channels, 1}));
    return to;
}

// Whether all launches of a call can read its source as a plan says.
bool all_fit(const Call& call, const Plan& plan)
{
    const cl_long offset = plan.copied ? 0 : static_cast<cl_long>(source_of(call).buffer_offset());
    bool good = true;
    for_each_launch(call, [&](ImplicitProblem p, cl_long) {
        plan.tell(p);
        good = good && fits(p, offset) && !has_planes(p) && p.total_depth() > 0;
    });
    return good;
}

bool reads_blocks(const Device& device)
{
    const auto engine = detail::matrix_engine(device);
    return engine.engine == detail::MatrixEngine::dpas16 &&
           (engine.emulated || device.has_extension("cl_intel_subgroup_2d_block_io"));
}

std::optional<Plan> plan_for(const Call& call, const Device& device)
{
    const ImplicitProblem p = common_problem(call);
    Plan plan;
    plan.channels = round_up(p.depth, block_k);
    if (!reads_blocks(device) || plan.channels > 2 * p.depth)   // mostly zeros
        return {};
    plan.turned = p.in[1] == 1 && p.kernel[1] == 1;   // one dimension: columns are many, and better rows
    std::copy_n(p.source_strides, 5, plan.strides);
    if (plan.channels == p.depth && all_fit(call, plan))
        return plan;
    plan.turned = plan.turned || p.result_strides[1] != 1;
    lay_out_copy(p, plan);
    return all_fit(call, plan) ? std::optional(plan) : std::nullopt;
}

// The same of a weight gradient: x and dy as they are read, which are turned together, and how rows of dw come in runs.
struct WeightPlan {
    Plan x, dy;
    cl_long run = 0, runs = 0;   // elements of a run, runs for a row of taps

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
bool lay_out(const ImplicitProblem& p, cl_long offset, Plan& plan, bool apart)
{
    const auto good = [&](cl_long at) {
        ImplicitProblem seen = p;
        plan.tell(seen);
        return fits(seen, at);
    };
    std::copy_n(p.source_strides, 5, plan.strides);
    if (plan.channels == p.depth && (apart || p.source_strides[4] == p.depth) && good(offset))
        return true;
    lay_out_copy(p, plan);
    return good(0);
}

std::optional<WeightPlan> weight_plan(const Call& call, const Device& device)
{
    const ImplicitProblem p = forward_problem(call);
    const cl_long rows = p.out[1] == 1 && p.taps[1] == 1 ? p.out[2] : p.out[1];
    WeightPlan plan;
    plan.x.turned = plan.dy.turned = p.in[1] == 1 && p.taps[1] == 1;
    plan.dy.channels = round_up(p.rows, 8);
    choose_runs(p, plan);
    const cl_long useful = p.taps[1] * p.taps[2] * round_up(p.depth, 8);   // what slabs would multiply
    if (!reads_blocks(device) || has_planes(p) || plan.total(p) > 2 * useful || 2 * rows <= round_up(rows, 16))
        return {};   // the last two: mostly zeros
    if (!lay_out(p, static_cast<cl_long>(call.x.buffer_offset()), plan.x, plan.run == plan.x.channels) ||
        !lay_out(dy_problem(call), static_cast<cl_long>(call.y.buffer_offset()), plan.dy, true))
        return {};
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
    const Tensor x = plan->x.copied ? copied(queue, call.x, p, plan->x) : call.x;
    const Tensor dy = plan->dy.copied ? copied(queue, call.y, dy_problem(call), plan->dy) : call.y;
    std::copy_n(plan->dy.strides, 5, p.result_strides);
    p.taps_inner = 0;
    const ImplicitProblem straight = p;
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
    // Two sub-groups for each vector engine, whole rows of pieces.
    const cl_long sub_groups = row_blocks * column_blocks * tile.sub_groups_m * tile.sub_groups_n;
    const cl_long lines = p.pixels() / p.out[2];
    const cl_long wanted = 2 * cl_long{queue.device().compute_units};
    const cl_long parts = std::clamp<cl_long>(ceil_div(wanted, sub_groups), 1, lines);
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
    add_parts(queue, call, sums, ordered);
}

bool in_blocks(const Call& call, const Device& device)
{
    return plan_for(call, device).has_value() && blocks_work(device, call.dtype);
}

void run_in_blocks(Queue& queue, const Call& call)
{
    const std::optional<Plan> plan = plan_for(call, queue.device());
    require(plan.has_value(), "conv: blocks cannot take the call");
    const Tensor source = plan->copied ? copied(queue, source_of(call), common_problem(call), *plan) : source_of(call);
    for_each_launch(call, [&](ImplicitProblem p, cl_long first) {
        plan->tell(p);
        launch(queue, call, source, p, first, plan->turned);
    });
}

}  // namespace clprim::conv
