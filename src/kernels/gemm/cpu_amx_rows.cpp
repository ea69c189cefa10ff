// Launches cpu_amx_rows.cl.
#include <algorithm>

#include <fmt/format.h>

#include <kernels/gemm/problem.hpp>
#include <kernels/rounding.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t side = 16, depth = 32, tile = 1024, most_rows = 128;   // of the kernel

bool turned(const GemmProblem& problem) { return problem.n < problem.m; }

// ROW_TILES of the kernel.
std::int64_t tiles_at_once(const GemmProblem& p) { return p.m > side ? 2 : 1; }

std::size_t local_bytes(const GemmProblem& p)
{
    const std::int64_t tiles = round_up(divide_up(p.m, side), tiles_at_once(p));
    return static_cast<std::size_t>(divide_up(p.k, depth) * tiles * tile);
}

}  // namespace

Rejection cpu_amx_rows_rejects(const GemmProblem& problem, const Device& device)
{
    if (!device.amx)
        return "for CPUs with AMX";
    if (problem.dtype != DataType::bfloat16)
        return "for bfloat16";
    const GemmProblem p = turned(problem) ? transposed(problem) : problem;
    if (p.m < 2 || p.m > most_rows || p.n < side)
        return "takes 2 to 128 rows or columns, and 16 of the others";
    if (p.k < depth || p.b.row != 1 || p.a.column != 1)
        return "reads both matrices along k, of 32 at least";
    if (local_bytes(p) > device.local_memory)
        return "too little local memory";
    return std::nullopt;
}

Rejection cpu_amx_rows_advises_against(const GemmProblem& problem, const Device&)
{
    if (std::min(problem.m, problem.n) < 5)
        return "vectors read for few rows as fast";
    const bool small_first = problem.m <= problem.n;
    if (std::min(problem.m, problem.n) > 2 * side && (small_first ? problem.prepared_b : problem.prepared_a))
        return "columns are packed once for all calls";
    return std::nullopt;
}

void cpu_amx_rows(Queue& queue, const GemmProblem& asked, const GemmTensors& given)
{
    const GemmProblem problem = turned(asked) ? transposed(asked) : asked;
    const GemmTensors tensors = turned(asked) ? transposed(given) : given;
    const Program& program =
        queue.context().program("kernels/gemm/cpu_amx_rows.cl",
                                fmt::format("{} -DROW_TILES={}", gemm_options(problem.dtype), tiles_at_once(problem)));
    const std::int64_t items = reading_items(problem.n * problem.k, queue.device().compute_units);
    const std::int64_t columns = round_up(divide_up(problem.n, items), 2 * side);
    Launch launch(queue, program.kernel("multiply"));
    launch.arg(tensors.a).arg(tensors.b).arg(tensors.c).arg(tensors.d).arg(gemm_arguments(problem));
    add_scalars(launch, problem);
    launch.arg(columns).arg(LocalMemory{local_bytes(problem)});
    launch.run(Range::groups({static_cast<std::size_t>(divide_up(problem.n, columns)),
                              static_cast<std::size_t>(problem.batch)}, {1, 1}));
}

}  // namespace clprim::detail
