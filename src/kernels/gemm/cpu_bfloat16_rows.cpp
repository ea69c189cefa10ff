// Launches cpu_bfloat16_rows.cl.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <core/host_processor.hpp>
#include <kernels/gemm/cpu_amx.hpp>
#include <kernels/gemm/cpu_blocks.hpp>
#include <kernels/gemm/plan_cache.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t panel = 32, tile = 12;          // PANEL and ROWS_AT_ONCE of the kernel
constexpr std::int64_t longest = 8192;                 // k, a panel of which stays in the second-level cache
constexpr std::int64_t near_rows = 600 << 10;          // bytes of A that stay there while panels pass
constexpr std::int64_t scratch_bytes = 4 * 256, local_bytes = 256 << 10;

// rows_plan of the kernel.
struct KernelPlan {
    std::int64_t block_rows, block_columns, length, pitch;
    std::int32_t shared, plain;
};

struct RowsPlan {
    KernelPlan kernel{};
    bool turned = false;   // computed as C' = B' A'
    double cost = std::numeric_limits<double>::infinity();   // cycles of the slowest core, as of cpu_amx.cpp
};

// What the kernel ends in registers: a bias for each column is D's only row.
bool is_plain(const GemmProblem& p)
{
    const bool bias = p.d.row == 0 && p.d.column == 1 && p.d.batch == 0 && p.beta.to_double() == 1;
    return p.c.column == 1 && p.alpha.to_double() == 1 && (!p.add_d || bias) &&
           (p.activation == Activation::none || p.activation == Activation::relu);
}

// Rows along k that share no lines of a cache.
bool reads_rows(const GemmProblem& p)
{
    return (p.a.column == 1 || p.k == 1) && p.k % 4 == 0 && (p.m == 1 || p.a.row * 2 % 4096 != 0);
}

// Cycles of packing an element, whose lines run along k or across it, or do not lie together.
double packing(std::int64_t along, std::int64_t across) { return along == 1 ? 0.2 : across == 1 ? 0.4 : 2.5; }

struct Planner {
    Planner(const GemmProblem& problem, bool turned_, const Device& device)
        : p(turned_ ? transposed(problem) : problem), turned(turned_), units(std::max(1u, device.compute_units)),
          local(static_cast<std::int64_t>(std::min<std::size_t>(device.local_memory, local_bytes)))
    {
        kernel.length = round_up(p.k, 4);
        // Packed by blocks of 32, and away from one another's lines.
        kernel.pitch = reads_rows(p) ? 0 : round_up(p.k, 32) + 32;
    }

    GemmProblem p;   // seen the way round that is tried
    bool turned;
    std::int64_t units, local;
    KernelPlan kernel{};
    RowsPlan best{};

    void consider(std::int64_t block_rows, std::int64_t block_columns, bool shared)
    {
        const std::int64_t bytes = 16 * block_rows + 2 * kernel.pitch * block_rows + scratch_bytes +
                                   (shared ? 0 : 2 * panel * kernel.length);
        if (bytes > local || (p.prepared_b && !shared))
            return;
        const std::int64_t rows = std::min(p.m, block_rows), columns = std::min(p.n, block_columns);
        const std::int64_t rest = rows % tile, panels = divide_up(columns, panel);
        const auto tiles = static_cast<double>(rows / tile + (rest & 8) / 8 + (rest & 4) / 4 + (rest & 2) / 2 +
                                               (rest & 1));
        // A few rows wait for sums: for each word of k two products a row, six at least.
        const double words = static_cast<double>(kernel.length) / 2;
        const double along = static_cast<double>(rows / tile * 24 + (rest & 8) * 2 + (rest & 4) * 2 +
                                                 (rest & 2 ? 6 : 0) + (rest & 1 ? 6 : 0));
        const double vectors = static_cast<double>(round_up(columns, 16)) / 16;
        const double elements_of_a = static_cast<double>(rows * p.k);
        const double elements_of_b = static_cast<double>(columns * p.k);
        const double ending = is_plain(p) ? 0.15 : p.c.column == 1 ? 0.7 : 3;
        double block = 2000 + 12.0 * static_cast<double>(rows) + along * words * vectors / 2 +
                       tiles * static_cast<double>(panels) * 130 + ending * static_cast<double>(rows * columns);
        if (kernel.pitch)
            block += elements_of_a * packing(p.a.column, p.a.row);
        else if (2 * rows * p.k > near_rows)
            block += elements_of_a * static_cast<double>(panels) * 0.06;
        const double packed = packing(p.b.row, p.b.column);
        block += elements_of_b * (shared ? 0.1 : packed);
        const std::int64_t blocks = divide_up(p.m, block_rows) * divide_up(p.n, block_columns) * p.batch;
        double cost = std::ceil(static_cast<double>(blocks) / static_cast<double>(units)) * block;
        if (shared && !p.prepared_b)
            cost += 15000 + static_cast<double>(p.batch * p.k * p.n) * (packed + 0.2) / static_cast<double>(units);
        if (cost < best.cost) {
            best = {kernel, turned, cost};
            best.kernel.block_rows = block_rows;
            best.kernel.block_columns = block_columns;
            best.kernel.shared = shared;
        }
    }

    void consider_all()
    {
        const std::int64_t all_rows = divide_up(p.m, tile), all_panels = divide_up(p.n, panel);
        for (std::int64_t row_blocks = 1;; row_blocks *= 2) {
            for (std::int64_t column_blocks = 1;; column_blocks *= 2) {
                for (const bool shared : {false, true})
                    consider(divide_up(all_rows, row_blocks) * tile, divide_up(all_panels, column_blocks) * panel,
                             shared);
                if (column_blocks >= all_panels)
                    break;
            }
            if (row_blocks >= all_rows)
                break;
        }
    }
};

// Whether it is plain is no part of a plan's key, and settled at launch.
RowsPlan plan_of(const GemmProblem& problem, const Device& device)
{
    static PlanCache<RowsPlan> plans;
    return plans.get(problem, device, cheapest_plan<Planner>);
}

}  // namespace

Rejection cpu_bfloat16_rows_rejects(const GemmProblem& problem, const Device& device)
{
    if (device.amx || !multiplies_bfloat16_by_vectors(device))
        return "for CPUs with AVX-512 BF16 and without AMX";
    if (problem.dtype != DataType::bfloat16)
        return "for bfloat16";
    if (problem.k == 0 || problem.k > longest)
        return "k is 0 or too long";
    if (std::isinf(plan_of(problem, device).cost))
        return "too little local memory";
    return std::nullopt;
}

Rejection cpu_bfloat16_rows_advises_against(const GemmProblem& problem, const Device& device)
{
    const double cost = plan_of(problem, device).cost;
    if (cost > amx_plan(problem, device).cost || cost > cpu_plan(problem, device).cost)
        return "slower than other ways";
    return std::nullopt;
}

void cpu_bfloat16_rows(Queue& queue, const GemmProblem& asked, const GemmTensors& given)
{
    const RowsPlan planned = plan_of(asked, queue.device());
    const GemmProblem problem = planned.turned ? transposed(asked) : asked;
    const GemmTensors tensors = planned.turned ? transposed(given) : given;
    KernelPlan plan = planned.kernel;
    plan.plain = is_plain(problem);
    const Program& program = queue.context().program("kernels/gemm/cpu_bfloat16_rows.cl", gemm_options(problem.dtype));
    const auto count = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    Tensor panels;
    if (plan.shared) {
        const std::int64_t across = divide_up(problem.n, panel);
        const auto split = [&] {
            const Tensor words = queue.context().empty({problem.batch * across * panel * plan.length / 2},
                                                       DataType::uint32, queue);
            queue.launch(program.kernel("split_b"), Range::groups({count(across), count(problem.batch)}, {1, 1}),
                         tensors.b, words, gemm_arguments(problem), plan);
            return words;
        };
        const MatrixLayout& b = problem.b;
        panels = problem.prepared_b ? problem.prepared_b->get(queue,
                                                              fmt::format("gemm_rows {} {} {} {} {} {} {}", problem.k,
                                                                          problem.n, problem.batch, b.row, b.column,
                                                                          b.batch, tensors.b.offset),
                                                              split)
                                    : split();
    }
    const auto local = [&](std::int64_t bytes) { return LocalMemory{count(std::max<std::int64_t>(bytes, 8))}; };
    Launch launch(queue, program.kernel("multiply"));
    launch.arg(tensors.a).arg(tensors.b).arg(panels).arg(tensors.c).arg(tensors.d);
    launch.arg(gemm_arguments(problem)).arg(plan);
    add_scalars(launch, problem);
    launch.arg(local(16 * plan.block_rows)).arg(local(plan.shared ? 0 : 2 * panel * plan.length));
    launch.arg(local(scratch_bytes)).arg(local(2 * plan.pitch * plan.block_rows));
    launch.run(Range::groups(count(divide_up(problem.m, plan.block_rows) * divide_up(problem.n, plan.block_columns) *
                                   problem.batch)));
}

}  // namespace clprim::detail
