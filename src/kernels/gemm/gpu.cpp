// Launches gpu_tiled.cl and gpu_dot.cl.
#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include <kernels/gemm/gpu_tile.hpp>
#include <kernels/gemm/problem.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t side = GpuTile::side;
constexpr std::int64_t few_rows = 4;

Rejection unsuitable(const GemmProblem& problem, const Device& device)
{
    if (device.kind != DeviceKind::gpu)
        return "for GPUs";
    if (is_complex(problem.dtype))
        return "complex";
    if (problem.k == 0)
        return "k is 0";
    if (device.max_work_group_size < side * side)
        return "work-groups of less than 256 work-items";
    return std::nullopt;
}

// Vectors run along columns, so C should have its columns contiguous; few rows are better than few columns.
bool better_turned(const GemmProblem& p)
{
    if ((p.m == 1) != (p.n == 1))
        return p.n == 1;
    return p.c.column != 1 && p.c.row == 1;
}

// How a product is cut into work-groups: `x` and `y` count them for one part of k, of which there are `splits`.
struct Cut {
    std::int64_t x = 1, y = 1, splits = 1, split_depth = 0;
};

// As many parts of k as bring the number of groups up to `enough`, each a multiple of `step` long.
Cut cut_for(const GemmProblem& problem, std::int64_t x, std::int64_t y, std::int64_t enough, std::int64_t step)
{
    Cut cut{x, y};
    cut.splits = std::clamp<std::int64_t>(enough / (x * y * problem.batch), 1,
                                          std::min<std::int64_t>(64, divide_up(problem.k, step)));
    cut.split_depth = round_up(divide_up(problem.k, cut.splits), step);
    cut.splits = divide_up(problem.k, cut.split_depth);
    return cut;
}

// Runs a kernel that takes (a, b, c, d, partial, problem, alpha, beta, splits, split_depth) on groups of side x side
// work-items.
void launch_cut(Queue& queue, const Program& program, const GemmProblem& problem, const GemmTensors& tensors,
                const Cut& cut)
{
    Tensor partial;
    if (cut.splits > 1)
        partial = queue.context().empty({cut.splits * problem.batch * problem.m * problem.n},
                                        gemm_compute_type(problem.dtype), queue);
    {
        Launch launch(queue, program.kernel("multiply"));
        launch.arg(tensors.a).arg(tensors.b).arg(tensors.c).arg(tensors.d).arg(partial).arg(gemm_arguments(problem));
        add_scalars(launch, problem);
        launch.arg(cut.splits).arg(cut.split_depth);
        const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
        launch.run(Range::groups({size(cut.x), size(cut.y * cut.splits), size(problem.batch)}, {side, side, 1}));
    }
    if (cut.splits > 1)
        combine_partial_products(queue, problem, tensors, partial, static_cast<std::int32_t>(cut.splits));
}

// Whether quads of neighbours along `near` lie at multiples of four elements.
bool in_quads(const Tensor& tensor, std::int64_t near_count, std::int64_t near, std::int64_t far, std::int64_t batch)
{
    return near == 1 && (near_count | far | batch | static_cast<std::int64_t>(tensor.buffer_offset())) % 4 == 0;
}

// From a matrix's first element to beyond its last.
std::int64_t extent(const MatrixLayout& layout, std::int64_t rows, std::int64_t columns)
{
    return (rows - 1) * std::abs(layout.row) + (columns - 1) * std::abs(layout.column) + 1;
}

// Which of gpu_tiled.cl's ways to read and write fits the matrices as they lie.
std::string layout_options(const GemmProblem& p, const GemmTensors& t)
{
    const bool a_along_k = p.a.row != 1 || p.a.column == 1, b_along_k = p.b.column != 1 || p.b.row == 1;
    const bool aligned = (a_along_k ? in_quads(t.a, p.k, p.a.column, p.a.row, p.a.batch)
                                    : in_quads(t.a, p.m, p.a.row, p.a.column, p.a.batch)) &&
                         (b_along_k ? in_quads(t.b, p.k, p.b.row, p.b.column, p.b.batch)
                                    : in_quads(t.b, p.n, p.b.column, p.b.row, p.b.batch)) &&
                         in_quads(t.c, p.n, p.c.column, p.c.row, p.c.batch);
    const std::int64_t farthest = std::max({extent(p.a, p.m, p.k), extent(p.b, p.k, p.n), extent(p.c, p.m, p.n),
                                            extent(p.d, p.m, p.n)});
    return fmt::format(" -DA_ALONG_K={:d} -DB_ALONG_K={:d} -DALIGNED={:d} -DOFFSET={}", a_along_k, b_along_k, aligned,
                       farthest < std::int64_t{1} << 31 ? "int" : "long");
}

}  // namespace

std::string GpuTile::options() const { return fmt::format(" -DTILE={} -DSLAB_K={}", lines, slab_k); }

std::size_t GpuTile::local_memory(DataType real) const
{
    return static_cast<std::size_t>(2 * slab_k * (lines + 4)) * size_of(real);
}

GpuTile gpu_tile(const Device& device, DataType real, std::int64_t large_tiles)
{
    if (real != DataType::float32 || large_tiles < device.compute_units)
        return {64, 16};
    // Deeper slabs give a loop more sums for its loads and barriers. Intel's compiler for sub-groups of 16 and more
    // keeps the sums in registers with the short ones only.
    const auto& sizes = device.sub_group_sizes;
    const bool deep = device.vendor.starts_with("Advanced Micro Devices") || device.vendor.starts_with("AMD") ||
                      std::find(sizes.begin(), sizes.end(), 8) != sizes.end();
    return {128, deep ? 16 : 8};
}

Rejection gpu_dot_rejects(const GemmProblem& problem, const Device& device)
{
    if (auto reason = unsuitable(problem, device))
        return reason;
    if (std::min(problem.m, problem.n) > few_rows)
        return "more than 4 rows and columns";
    return std::nullopt;
}

void gpu_dot(Queue& queue, const GemmProblem& asked, const GemmTensors& given)
{
    const bool turned = asked.n < asked.m;
    const GemmProblem problem = turned ? transposed(asked) : asked;
    const GemmTensors tensors = turned ? transposed(given) : given;
    const bool along_k = problem.b.column != 1 || problem.b.row == 1;
    const bool aligned = along_k ? in_quads(tensors.b, problem.k, problem.b.row, problem.b.column, problem.b.batch)
                                 : in_quads(tensors.b, problem.n, problem.b.column, problem.b.row, problem.b.batch);
    const std::int64_t rows = problem.m == 1 ? 1 : few_rows, columns = along_k ? side : 4 * side;
    const Program& program = queue.context().program(
        "kernels/gemm/gpu_dot.cl", fmt::format("{} -DB_ALONG_K={:d} -DALIGNED={:d} -DROWS={}",
                                               gemm_options(problem.dtype), along_k, aligned, rows));
    launch_cut(queue, program, problem, tensors,
               cut_for(problem, divide_up(problem.n, columns), divide_up(problem.m, rows),
                       4 * queue.device().compute_units, 256));
}

Rejection gpu_tiled_rejects(const GemmProblem& problem, const Device& device)
{
    if (auto reason = unsuitable(problem, device))
        return reason;
    const DataType real = gemm_compute_type(problem.dtype);
    if (device.local_memory < gpu_tile(device, real, 0).local_memory(real))
        return "too little local memory";
    return std::nullopt;
}

void gpu_tiled(Queue& queue, const GemmProblem& asked, const GemmTensors& given)
{
    const bool turned = better_turned(asked);
    const GemmProblem problem = turned ? transposed(asked) : asked;
    const GemmTensors tensors = turned ? transposed(given) : given;
    const Device& device = queue.device();
    const GpuTile tile = gpu_tile(device, gemm_compute_type(problem.dtype),
                                  divide_up(problem.m, 128) * divide_up(problem.n, 128) * problem.batch);
    const Cut cut = cut_for(problem, divide_up(problem.n, tile.lines), divide_up(problem.m, tile.lines),
                            2 * device.compute_units, 128);
    const bool partial = cut.splits > 1;
    const std::string options =
        gemm_options(problem.dtype) + tile.options() + layout_options(problem, tensors) +
        fmt::format(" -DPARTIAL={:d} -DADD_D={:d} -DACTIVATION={}", partial, problem.add_d && !partial,
                    partial ? 0 : static_cast<int>(problem.activation));
    launch_cut(queue, queue.context().program("kernels/gemm/gpu_tiled.cl", options), problem, tensors, cut);
}

}  // namespace clprim::detail
