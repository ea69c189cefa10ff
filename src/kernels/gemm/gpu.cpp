// Launches gpu_tiled.cl and gpu_dot.cl.
#include <algorithm>

#include <fmt/format.h>

#include <kernels/gemm/problem.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t side = 16;   // work-items along each side of a group, as in both kernels
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

// A kernel that takes (a, b, c, d, partial, problem, alpha, beta, splits, split_depth), on groups of side x side items;
// `blocks` counts the groups of one part of k, which lie along x and y.
struct Grid {
    std::int64_t x, y;
    std::int64_t enough;   // groups that keep the device busy
    std::int64_t step;     // of k
};

void launch_split(Queue& queue, const Program& program, const GemmProblem& problem, const GemmTensors& tensors,
                  const Grid& grid)
{
    const std::int64_t groups = grid.x * grid.y * problem.batch;
    std::int64_t splits = std::clamp<std::int64_t>(grid.enough / groups, 1, std::min<std::int64_t>(
                                                   64, divide_up(problem.k, grid.step)));
    const std::int64_t split_depth = round_up(divide_up(problem.k, splits), grid.step);
    splits = divide_up(problem.k, split_depth);
    Tensor partial;
    if (splits > 1)
        partial = queue.context().empty({splits * problem.batch * problem.m * problem.n},
                                        gemm_compute_type(problem.dtype), queue);
    {
        Launch launch(queue, program.kernel("multiply"));
        launch.arg(tensors.a).arg(tensors.b).arg(tensors.c).arg(tensors.d).arg(partial).arg(gemm_arguments(problem));
        add_scalars(launch, problem);
        launch.arg(splits).arg(split_depth);
        const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
        launch.run(Range::groups({size(grid.x), size(grid.y * splits), size(problem.batch)}, {side, side, 1}));
    }
    if (splits > 1)
        combine_partial_products(queue, problem, tensors, partial, static_cast<std::int32_t>(splits));
}

}  // namespace

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
    const Program& program = queue.context().program(
        "kernels/gemm/gpu_dot.cl",
        fmt::format("{}{}", gemm_options(problem.dtype), problem.b.row == 1 ? " -DK_CONTIGUOUS" : ""));
    launch_split(queue, program, problem, turned ? transposed(given) : given,
                 {divide_up(problem.n, side), problem.m, 4 * queue.device().compute_units, 256});
}

Rejection gpu_tiled_rejects(const GemmProblem& problem, const Device& device)
{
    if (auto reason = unsuitable(problem, device))
        return reason;
    if (device.local_memory < (16 << 10))
        return "less than 16 KiB of local memory";
    return std::nullopt;
}

void gpu_tiled(Queue& queue, const GemmProblem& asked, const GemmTensors& given)
{
    const bool turned = better_turned(asked);
    const GemmProblem problem = turned ? transposed(asked) : asked;
    const Device& device = queue.device();
    // Large tiles need four times fewer reads, but many of them, to fill the device, and float's registers.
    const auto tiles = [&](std::int64_t tile) {
        return divide_up(problem.m, tile) * divide_up(problem.n, tile) * problem.batch;
    };
    const bool large = gemm_compute_type(problem.dtype) == DataType::float32 && device.local_memory >= (32 << 10) &&
                       tiles(128) >= device.compute_units;
    const std::int64_t tile = large ? 128 : 64;
    const Program& program = queue.context().program("kernels/gemm/gpu_tiled.cl",
                                                     fmt::format("{} -DTILE={}", gemm_options(problem.dtype), tile));
    launch_split(queue, program, problem, turned ? transposed(given) : given,
                 {divide_up(problem.n, tile), divide_up(problem.m, tile), 2 * device.compute_units, 128});
}

}  // namespace clprim::detail
