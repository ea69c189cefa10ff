// Host side of gpu_matrix_lines.cl and gpu_matrix_lines_weight.cl.
#include <algorithm>

#include <fmt/format.h>

#include <kernels/conv/gpu_matrix.hpp>
#include <kernels/conv/gpu_matrix_packed.hpp>
#include <kernels/gemm/gpu_matrix.hpp>
#include <kernels/pointwise/iteration.hpp>

namespace clprim::conv {

#include <kernels/conv/gpu_lines_problem.cl>

namespace {

using detail::round_up;

constexpr cl_long slab = 32;                           // SLAB_K of gemm/fragments.cl
constexpr cl_long most_elements = cl_long{1} << 31;    // of a tensor, which kernels count in int

}  // namespace

GridAxis grid_axis(const ImplicitProblem& p, int axis)
{
    const auto floored = [&](cl_long at) {
        const cl_long scale = p.scale[axis];
        return at >= 0 ? at / scale : -((-at + scale - 1) / scale);
    };
    const cl_long reach = (p.taps[axis] - 1) * p.step[axis];
    const cl_long first = floored(p.shift[axis]), last = floored(p.shift[axis] + reach) + p.out[axis] - 1;
    GridAxis result{};
    result.before = std::max<cl_long>(-first, 0);
    result.seen = std::clamp<cl_long>(ceil_div(p.in[axis], p.scale[axis]), 0, std::max<cl_long>(last + 1, 0));
    result.points = std::max({p.out[axis], last + 1, result.seen + result.before});
    return result;
}

namespace {

struct LinesPlan {
    GridAxis axes[3];
    cl_long points = 1;   // of all images
    cl_long before = 0, after = 0;   // zeros of x's lines

    explicit LinesPlan(const ImplicitProblem& p) : points(p.batch)
    {
        cl_long distance = 1, behind = 0;
        for (int axis = 2; axis >= 0; --axis) {
            axes[axis] = grid_axis(p, axis);
            before += axes[axis].before * distance;
            behind += std::max<cl_long>((p.shift[axis] + (p.taps[axis] - 1) * p.step[axis]) / p.scale[axis], 0) *
                      distance;
            distance *= axes[axis].points;
        }
        points *= distance;
        before = round_up(before, 8);
        after = round_up(points, slab) - points + behind + 8;
    }
    cl_long depth() const { return round_up(points, slab); }
    cl_long pitch() const { return round_up(before + points + after, LINE_PIECE); }
    cl_long dy_pitch() const { return round_up(depth(), LINE_PIECE); }
};

// Intel's loads of several words want them where words lie.
int shifts_of(detail::MatrixEngine engine) { return engine == detail::MatrixEngine::dpas8 ? 2 : 1; }

cl_long phases(const ImplicitProblem& p) { return p.scale[0] * p.scale[1] * p.scale[2]; }

// Bit 31 stands for all residues from there on.
std::uint32_t residues_read(const ImplicitProblem& p, int axis)
{
    std::uint32_t bits = 0;
    for (cl_long tap = 0; tap < p.taps[axis]; ++tap) {
        const cl_long at = (p.shift[axis] + tap * p.step[axis]) % p.scale[axis];
        bits |= 1U << std::min<cl_long>(at < 0 ? at + p.scale[axis] : at, 31);
    }
    return bits;
}

conv_lines lines_of(const Side& side, const LinesPlan& plan)
{
    conv_lines lines{};
    lines.image = static_cast<cl_int>(side.strides[0]);
    lines.channel = static_cast<cl_int>(side.strides[1]);
    lines.batch = static_cast<cl_int>(side.batch);
    lines.channels = static_cast<cl_int>(side.groups * side.channels);
    for (int i = 0; i < 3; ++i) {
        lines.axis[i] = static_cast<cl_int>(side.strides[2 + i]);
        lines.in[i] = lines.seen[i] = static_cast<cl_int>(side.sizes[i]);
        lines.grid[i] = static_cast<cl_int>(plan.axes[i].points);
        lines.scale[i] = lines.taps[i] = 1;
        lines.read[i] = ~0U;
        const Divider divider(static_cast<std::uint32_t>(plan.axes[i].points));
        lines.magic[i] = divider.magic;
        lines.magic_shift[i] = divider.shift;
    }
    lines.pitch = static_cast<cl_int>(plan.dy_pitch());
    return lines;
}

Tensor as_lines(Queue& queue, const Side& side, const conv_lines& lines, int shifts)
{
    const cl_long copies = cl_long{lines.scale[0]} * lines.scale[1] * lines.scale[2] * shifts;
    const cl_long elements = copies * lines.channels * lines.pitch;
    const Tensor result = queue.context().empty({elements}, side.tensor.dtype, queue);
    const Program& program = queue.context().program(
        "kernels/conv/gpu_matrix_lines.cl",
        fmt::format(" -DCHANNELS_INNERMOST={:d}", lines.channel == 1 && lines.channels > 1 && lines.axis[2] != 1));
    queue.launch(program.kernel("conv_lines_of"),
                 Range::groups({static_cast<std::size_t>(lines.pitch / LINE_PIECE),
                                static_cast<std::size_t>(ceil_div(lines.channels, LINES_TOGETHER)),
                                static_cast<std::size_t>(copies)},
                               {LINE_ITEMS, 1, 1}),
                 side.tensor, result, lines);
    return result;
}

}  // namespace

detail::MatrixExtent lines_extent(const ImplicitProblem& p)
{
    return {p.rows, p.total_depth(), p.groups * ceil_div(p.pixels(), 512)};
}

bool weight_in_lines(const Call& call, const Device& device)
{
    // Loads of NVIDIA's GPUs want their alignment; Intel's others and RDNA 4 read blocks.
    const auto engine = detail::matrix_engine(device).engine;
    if (engine != detail::MatrixEngine::wmma && engine != detail::MatrixEngine::mfma &&
        engine != detail::MatrixEngine::dpas8)
        return false;
    const ImplicitProblem p = forward_problem(call);
    const LinesPlan plan(p);
    const cl_long lines = phases(p) * shifts_of(engine) * p.groups * p.depth;
    const cl_long largest = std::max({plan.pitch() * lines, plan.dy_pitch() * p.groups * p.rows, span_of(call.x),
                                      span_of(call.y)});
    return p.pixels() > 0 && call.x.numel() > 0 && 2 * plan.points <= 3 * p.pixels() && largest < most_elements;
}

void run_weight_in_lines(Queue& queue, const Call& call, const detail::MatrixTile& tile)
{
    ImplicitProblem p = forward_problem(call);
    p.taps_inner = 0;
    const LinesPlan plan(p);
    const Side x_of = x_side(call), y_of = y_side(call);
    conv_lines_weight problem{};
    conv_lines& lines = problem.x = lines_of(x_of, plan);
    lines.pitch = static_cast<cl_int>(plan.pitch());
    lines.before = static_cast<cl_int>(plan.before);
    for (int i = 0; i < 3; ++i) {
        lines.seen[i] = static_cast<cl_int>(plan.axes[i].seen);
        lines.scale[i] = static_cast<cl_int>(p.scale[i]);
        lines.shift[i] = static_cast<cl_int>(p.shift[i]);
        lines.step[i] = static_cast<cl_int>(p.step[i]);
        lines.taps[i] = static_cast<cl_int>(p.taps[i]);
        lines.read[i] = residues_read(p, i);
    }
    const auto engine = detail::matrix_engine(queue.device());
    const int shifts = shifts_of(engine.engine);
    const Tensor x = as_lines(queue, x_of, lines, shifts), dy = as_lines(queue, y_of, lines_of(y_of, plan), 1);
    const detail::MatrixEngineShape& shape = detail::shape_of(engine.engine);
    const cl_long row_blocks = ceil_div(p.rows, shape.rows(tile)) * p.groups;
    const cl_long column_blocks = ceil_div(p.total_depth(), shape.columns(tile));
    const cl_long slabs = plan.depth() / slab;
    p.parts = weight_parts(queue.device(), engine, tile, {row_blocks * column_blocks, plan.depth(), 8 * slab},
                           call.w.numel());
    const cl_long each = ceil_div(slabs, p.parts);
    p.parts = ceil_div(slabs, each);   // none is empty
    problem.dy_pitch = static_cast<cl_int>(plan.dy_pitch());
    problem.rows = static_cast<cl_int>(p.rows);
    problem.depth = static_cast<cl_int>(p.depth);
    problem.total = static_cast<cl_int>(p.total_depth());
    problem.depth_in_all = static_cast<cl_int>(plan.depth());
    problem.part_depth = static_cast<cl_int>(each * slab);
    const Tensor sums = queue.context().empty({p.parts * call.w.numel()}, DataType::float32, queue);
    const cl_long farthest = std::max(x.numel() + static_cast<cl_long>(x.buffer_offset()),
                                      dy.numel() + static_cast<cl_long>(dy.buffer_offset()));
    const Program& program = queue.context().program(
        "kernels/conv/gpu_matrix_lines_weight.cl",
        detail::gemm_options(call.dtype) + detail::matrix_tile_options(engine, tile) +
            fmt::format(" -DSHIFTS={} -DOFFSET={} -DA_ALONG_K=1 -DB_ALONG_K=1 -DALIGNED=1 -DBLOCKS=0", shifts,
                        farthest < cl_long{1} << 30 ? "uint" : "long"));
    queue.launch(program.kernel("conv_lines_weight_sums"),
                 Range::groups({static_cast<std::size_t>(column_blocks), static_cast<std::size_t>(row_blocks),
                                static_cast<std::size_t>(p.parts)},
                               {static_cast<std::size_t>(shape.items(tile)), 1, 1}),
                 x, dy, sums, problem);
    add_parts_looking_again(queue, call, sums, p);
}

}  // namespace clprim::conv
