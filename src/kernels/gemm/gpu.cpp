// Launches gpu_tiled.cl and gpu_dot.cl.
#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include <kernels/gemm/gpu_cut.hpp>
#include <kernels/gemm/gpu_tile.hpp>

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

// Which of gpu_tiled.cl's ways to read and write fits the matrices as they lie.
std::string layout_options(const GemmProblem& p, const GemmTensors& t)
{
    const bool aligned = operands_in_groups(4, p, t) && in_groups(4, t.c, p.n, p.c.column, p.c.row, p.c.batch);
    return fmt::format(" -DA_ALONG_K={:d} -DB_ALONG_K={:d} -DALIGNED={:d} -DOFFSET={}", a_along_k(p), b_along_k(p),
                       aligned, offset_type(p));
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
    const bool along_k = b_along_k(problem);
    const bool aligned = along_k ? in_groups(4, tensors.b, problem.k, problem.b.row, problem.b.column, problem.b.batch)
                                 : in_groups(4, tensors.b, problem.n, problem.b.column, problem.b.row, problem.b.batch);
    const std::int64_t rows = problem.m == 1 ? 1 : few_rows, columns = along_k ? side : 4 * side;
    const Program& program = queue.context().program(
        "kernels/gemm/gpu_dot.cl", fmt::format("{} -DB_ALONG_K={:d} -DALIGNED={:d} -DROWS={}",
                                               gemm_options(problem.dtype), along_k, aligned, rows));
    launch_cut(queue, program, problem, tensors,
               gpu_cut(problem, divide_up(problem.n, columns), divide_up(problem.m, rows),
                       4 * queue.device().compute_units, 256),
               {side, side});
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
    const GpuCut cut = gpu_cut(problem, divide_up(problem.n, tile.lines), divide_up(problem.m, tile.lines),
                            2 * device.compute_units, 128);
    const bool partial = cut.splits > 1;
    const std::string options =
        gemm_options(problem.dtype) + tile.options() + layout_options(problem, tensors) +
        fmt::format(" -DPARTIAL={:d} -DADD_D={:d} -DACTIVATION={}", partial, problem.add_d && !partial,
                    partial ? 0 : static_cast<int>(problem.activation));
    launch_cut(queue, queue.context().program("kernels/gemm/gpu_tiled.cl", options), problem, tensors, cut,
               {side, side});
}

}  // namespace clprim::detail
