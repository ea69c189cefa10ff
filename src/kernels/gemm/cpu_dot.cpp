// Launches cpu_dot.cl.
#include <algorithm>

#include <fmt/format.h>

#include <core/host_processor.hpp>
#include <kernels/gemm/problem.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t most_rows = 24;   // MOST_ROWS of cpu_dot.cl
constexpr std::int64_t short_sum = 256;   // sums along k of fewer numbers are better made by tiles, if not for few rows

// dot_plan of cpu_dot.cl.
struct DotPlan {
    std::int64_t columns, splits, split_depth;
};

bool turned(const GemmProblem& problem) { return problem.n < problem.m; }

// Along k both matrices must be read in vectors; along columns only B.
bool readable(const GemmProblem& problem)
{
    const bool along_k = problem.b.row == 1 && problem.a.column == 1;
    return along_k || problem.b.column == 1;
}

}  // namespace

Rejection cpu_dot_rejects(const GemmProblem& problem, const Device& device)
{
    if (const Rejection rejection = cpu_vectors_reject(problem, device))
        return rejection;
    const GemmProblem p = turned(problem) ? transposed(problem) : problem;
    if (p.m > most_rows)
        return "more than 24 rows and columns";
    if (!readable(p))
        return "neither k nor columns are contiguous";
    if (p.m > 4 && (p.k < short_sum || p.c.column != 1))
        return "more than 4 rows, and short sums or scattered columns of C";
    return std::nullopt;
}

void cpu_dot(Queue& queue, const GemmProblem& asked, const GemmTensors& given)
{
    const GemmProblem problem = turned(asked) ? transposed(asked) : asked;
    const GemmTensors tensors = turned(asked) ? transposed(given) : given;
    const bool along_k = problem.b.row == 1 && problem.a.column == 1;
    const std::int64_t rows = problem.m == 1 ? 1 : 4;
    const std::int64_t lanes = 64 / static_cast<std::int64_t>(size_of(gemm_compute_type(problem.dtype)));
    const std::int64_t unit = along_k ? 4 : 4 * lanes;   // columns that a work-item computes at a time

    // Work-items: some for each core if there are enough columns and enough to do; else k is split as well.
    const std::int64_t cores = std::max(1u, queue.device().compute_units);
    const std::int64_t work = problem.n * problem.k * problem.batch * divide_up(problem.m, rows);
    const std::int64_t wanted = std::clamp<std::int64_t>(work / 8192, 1, 4 * cores);
    DotPlan plan{};
    plan.columns = round_up(divide_up(problem.n, divide_up(wanted, problem.batch)), unit);
    const std::int64_t column_blocks = divide_up(problem.n, plan.columns);
    plan.splits = std::max<std::int64_t>(1, wanted / (2 * column_blocks * problem.batch));
    plan.split_depth = round_up(divide_up(problem.k, plan.splits), 256);
    plan.splits = divide_up(problem.k, plan.split_depth);

    Tensor partial;
    if (plan.splits > 1)
        partial = queue.context().empty({plan.splits * problem.batch * problem.m * problem.n},
                                        gemm_compute_type(problem.dtype), queue);
    // Xeons with AMX need more lines of memory on the way than one stream to a core has (two cores, matrices beyond the
    // caches, 4096 x 1536: four rows of float32 26 and 33 GB/s, of bfloat16 16 and 30); measured on others one does.
    const Device& device = queue.device();
    const bool streams = along_k && device.amx, in_order = along_k && rows == 1 && device.vnni_bytes == 64 && !streams;
    const bool pairs = in_order && problem.dtype == DataType::bfloat16 && multiplies_bfloat16_by_vectors(device);
    const Program& program = queue.context().program(
        "kernels/gemm/cpu_dot.cl",
        fmt::format("{} -DROWS={}{}{}{}", gemm_options(problem.dtype), rows, along_k ? " -DK_CONTIGUOUS" : "",
                    prefetch_option(device),
                    pairs      ? " -DIN_ORDER -DPAIRS"
                    : in_order ? " -DIN_ORDER"
                    : streams  ? " -DSTREAMS"
                               : ""));
    {
        Launch launch(queue, program.kernel("multiply"));
        launch.arg(tensors.a).arg(tensors.b).arg(tensors.c).arg(tensors.d).arg(partial).arg(gemm_arguments(problem));
        add_scalars(launch, problem);
        launch.arg(plan);
        const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
        launch.run(Range::groups({size(column_blocks), size(plan.splits), size(problem.batch)}, {1, 1, 1}));
    }
    if (plan.splits > 1)
        combine_partial_products(queue, problem, tensors, partial, static_cast<std::int32_t>(plan.splits));
}

}  // namespace clprim::detail
