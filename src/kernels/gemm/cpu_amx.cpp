// Launches cpu_amx.cl.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <core/host_processor.hpp>
#include <kernels/gemm/cpu_amx.hpp>
#include <kernels/gemm/cpu_blocks.hpp>
#include <kernels/gemm/plan_cache.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t tile_words = 2 * amx_side * amx_side, scratch_words = amx_side * (128 + 16);   // of cpu_amx.cl
constexpr std::int64_t second_level_cache = 1280 << 10;   // of it, what panels may fill
constexpr std::int64_t strip_bytes = 24 << 10;            // of the first-level cache, what a strip may fill
constexpr std::int64_t vector_strip_bytes = 64 << 10;     // by vectors, which take eight rows at a time
// Where elements are one part, sums that rest between chunks cost more than a strip in the second-level cache.
constexpr std::int64_t deep_strip_bytes = 128 << 10;

// Costs are cycles of the slowest core, measured on cores with AMX and AVX-512; cpu_plan.cpp counts in the same ones.
struct Planner {
    Planner(const GemmProblem& problem, bool turned_, const Device& device)
        : p(turned_ ? transposed(problem) : problem), turned(turned_), units(std::max(1u, device.compute_units)),
          by_vectors(!device.amx),
          local_words(static_cast<std::int64_t>(std::min<std::size_t>(device.local_memory, 256 << 10)) / 4)
    {
    }

    GemmProblem p;   // seen the way round that is tried
    bool turned;
    std::int64_t units;
    bool by_vectors;   // of bfloat16
    std::int64_t local_words;
    AmxPlan best{};

    // Splitting an element, by the stride of the direction that vectors run along and of the other, and reading it.
    double splitting(std::int64_t along, std::int64_t across, std::int64_t elements) const
    {
        const double bytes = static_cast<double>(size_of(p.dtype));
        return 0.25 * static_cast<double>(amx_parts(p.dtype)) + (along == 1 ? 0.1 : across == 1 ? 0.6 : 2.5) +
               (elements > (1 << 18) ? bytes * memory : 0);
    }
    static constexpr double memory = 0.2;   // a byte from or to the outer caches
    // Of elements that are one part: rows of words are copied, lines turned in registers, pairs of rows zipped.
    double taking_a() const
    {
        const std::int64_t elements = p.batch * p.m * p.k;
        if (!is_whole())
            return splitting(p.a.column, p.a.row, elements);
        return (p.a.column == 1 ? 0.1 : p.a.row == 1 ? 0.9 : 2.5) + (elements > (1 << 18) ? memory : 0);
    }
    double taking_b() const
    {
        const std::int64_t elements = p.batch * p.k * p.n;
        if (!is_whole())
            return splitting(p.b.column, p.b.row, elements);
        return (p.b.column == 1 ? 0.7 : p.b.row == 1 ? 0.35 : 2.5) + (elements > (1 << 18) ? memory : 0);
    }
    bool is_whole() const { return amx_parts(p.dtype) == 1 && !by_vectors; }
    double block_products(std::int64_t depth) const   // of 32 x 32 sums with 32 k
    {
        if (by_vectors)
            return 1150;
        if (p.dtype == DataType::bfloat16)
            return depth * 2 * amx_side > strip_bytes ? 115 : 95;
        return p.dtype == DataType::float32 ? 400 : 270;
    }
    // Writing sums, and adding to those that rest: beside short products it is not hidden.
    double tile_ends(double chunks) const { return is_whole() ? 150 + 600 * (chunks - 1) : 250 * chunks; }

    void consider(const AmxKernelPlan& plan)
    {
        constexpr double launch = 15000;
        const std::int64_t panel = amx_panel_words(p.dtype, plan.depth), panels = plan.block_columns / amx_side * panel;
        const std::int64_t fixed = tile_words + scratch_words + panel;
        const bool shared = plan.panels_place == amx_panels_shared, local = plan.panels_place == amx_panels_local;
        if (4 * panels > second_level_cache || fixed + (local ? panels : 0) > local_words ||
            (shared && plan.splits > 1))
            return;
        const std::int64_t blocks = divide_up(p.m, plan.block_rows) * divide_up(p.n, plan.block_columns) * plan.splits *
                                    p.batch;
        const std::int64_t wide = std::min(p.n, plan.block_columns), high = std::min(p.m, plan.block_rows);
        const double rows = static_cast<double>(high), columns = static_cast<double>(wide);
        const double k = static_cast<double>(std::min(p.k, plan.split_depth));
        const double chunks = std::ceil(k / static_cast<double>(plan.depth)), steps = std::ceil(k / amx_side);
        const double tiles = static_cast<double>(divide_up(high, 16) * divide_up(wide, 16)) / 4;
        const double a_splitting = taking_a(), b_splitting = taking_b();
        const double words = 2 * static_cast<double>(amx_parts(p.dtype));   // bytes of a split element
        // Panels in memory are written once by split_b, or once by each work-item into lines that no cache holds yet.
        if (p.prepared_b && !shared)
            return;
        double panel_cost = shared ? words * memory : b_splitting;
        if (!shared && !local && blocks > units)
            panel_cost += (is_whole() ? 0.5 : 2) * words * memory / chunks;
        const double block_bytes = 4 * rows * columns + 4 * static_cast<double>(panels);
        const double finishing = p.c.column == 1 ? 4 * memory : 8;
        const double far = is_whole() ? 0.06 : memory;   // beside products
        const double resting = block_bytes > 1.6 * (1 << 20) ? 8 * far * (chunks - 1) : 0;
        const double tile = steps * block_products(plan.depth) + tile_ends(chunks);
        const double block = 2000 + tiles * tile + rows * k * a_splitting + columns * k * panel_cost +
                             rows * columns * (finishing + resting);
        double cost = std::ceil(static_cast<double>(blocks) / static_cast<double>(units)) * block;
        if (shared && !p.prepared_b)
            cost += launch + static_cast<double>(p.batch * p.k * p.n) * (b_splitting + 2 * words * memory) /
                                 static_cast<double>(units);
        if (plan.splits > 1)
            cost += launch + static_cast<double>(p.batch * p.m * p.n * plan.splits) / static_cast<double>(units);
        if (cost < best.cost)
            best = {plan, turned, cost};
    }

    void consider_blocks(std::int64_t block_rows, std::int64_t block_columns)
    {
        const std::int64_t strip = by_vectors ? vector_strip_bytes : strip_bytes;
        const std::int64_t longest = strip / (2 * amx_side * amx_parts(p.dtype)) / amx_side * amx_side;
        const std::int64_t deepest = is_whole() ? deep_strip_bytes / (2 * amx_side) : longest;
        for (std::int64_t splits = 1; splits <= 2 * units && (splits - 1) * longest < p.k; splits *= 2) {
            const std::int64_t split_depth = splits == 1 ? p.k : round_up(divide_up(p.k, splits), amx_side);
            for (const std::int64_t limit : {longest, longest * 3 / 4, deepest / 2, deepest * 3 / 4, deepest}) {
                const std::int64_t chunks = divide_up(split_depth, limit);
                AmxKernelPlan plan{block_rows, block_columns, divide_up(p.k, split_depth), split_depth,
                                   round_up(divide_up(split_depth, chunks), amx_side), 0, 0};
                for (const AmxPanelsPlace place : {amx_panels_local, amx_panels_own, amx_panels_shared}) {
                    plan.panels_place = place;
                    consider(plan);
                }
            }
        }
    }

    void consider_all()
    {
        static constexpr std::int64_t rows[] = {32, 64, 128, 256, 512, 1024, 2048, 4096};
        static constexpr std::int64_t columns[] = {32, 64, 128, 256, 512, 1024, 2048};
        for_block_sizes(p, {rows, columns, amx_side, amx_side},
                        [this](std::int64_t high, std::int64_t wide) { consider_blocks(high, wide); });
    }
};

}  // namespace

AmxPlan amx_plan(const GemmProblem& problem, const Device& device)
{
    static PlanCache<AmxPlan> plans;
    return plans.get(problem, device, cheapest_plan<Planner>);
}

static Rejection has_no_plan(const GemmProblem& problem, const Device& device)
{
    if (problem.k == 0)
        return "k is 0";
    if (std::isinf(amx_plan(problem, device).cost))
        return "too little local memory";
    return std::nullopt;
}

Rejection cpu_amx_rejects(const GemmProblem& problem, const Device& device)
{
    if (!device.amx)
        return "for CPUs with AMX";
    if (problem.dtype != DataType::float32 && problem.dtype != DataType::float16 && problem.dtype != DataType::bfloat16)
        return "for float32, float16 and bfloat16";
    return has_no_plan(problem, device);
}

Rejection cpu_amx_advises_against(const GemmProblem& problem, const Device& device)
{
    if (amx_plan(problem, device).cost > cpu_plan(problem, device).cost)
        return "slower than by vectors";
    return std::nullopt;
}

// float32 and float16 would take more products than their vectors do.
Rejection cpu_bfloat16_rejects(const GemmProblem& problem, const Device& device)
{
    if (device.amx || !multiplies_bfloat16_by_vectors(device))
        return "for CPUs with AVX-512 BF16 and without AMX";
    if (problem.dtype != DataType::bfloat16)
        return "for bfloat16";
    return has_no_plan(problem, device);
}

void cpu_amx(Queue& queue, const GemmProblem& problem, const GemmTensors& tensors)
{
    cpu_amx_by(amx_plan(problem, queue.device()), queue, problem, tensors);
}

void cpu_amx_by(const AmxPlan& plan, Queue& queue, const GemmProblem& asked, const GemmTensors& given)
{
    const GemmProblem problem = plan.turned ? transposed(asked) : asked;
    const GemmTensors tensors = plan.turned ? transposed(given) : given;
    AmxKernelPlan cut = plan.kernel;
    cut.plain = sums_are_results(problem);
    const Program& program = queue.context().program(
        "kernels/gemm/cpu_amx.cl", gemm_options(problem.dtype) + (queue.device().amx ? "" : " -DDOT_VECTOR=64"));
    const auto groups = [](std::int64_t count) { return static_cast<std::size_t>(count); };
    const auto local = [](std::int64_t words) { return LocalMemory{static_cast<std::size_t>(4 * words)}; };
    const std::int64_t panel = amx_panel_words(problem.dtype, cut.depth);

    Tensor panels;
    if (cut.panels_place == amx_panels_own)
        panels = queue.context().empty({block_count(problem, cut) * (cut.block_columns / amx_side) * panel},
                                       DataType::uint32, queue);
    if (cut.panels_place == amx_panels_shared) {
        const std::int64_t across = divide_up(problem.n, amx_side), along = divide_up(problem.k, cut.depth);
        const auto split = [&] {
            const Tensor words =
                queue.context().empty({problem.batch * along * across * panel}, DataType::uint32, queue);
            queue.launch(program.kernel("split_b"),
                         Range::groups({groups(across), groups(along), groups(problem.batch)}, {1, 1, 1}), tensors.b,
                         words, gemm_arguments(problem), cut, local(scratch_words));
            return words;
        };
        const MatrixLayout& b = problem.b;
        panels = problem.prepared_b
                     ? problem.prepared_b->get(queue,
                                               fmt::format("gemm_amx {} {} {} {} {} {} {} {} {}",
                                                           name_of(problem.dtype), cut.depth, problem.k, problem.n,
                                                           problem.batch, b.row, b.column, b.batch, tensors.b.offset),
                                               split, Prepared::Keeps::all)
                     : split();
    }
    const std::int64_t words = tile_words + scratch_words + panel +
                               (cut.panels_place == amx_panels_local ? cut.block_columns / amx_side * panel : 0);
    multiply_blocks(queue, program, problem, cut,
                    {tensors, panels, cut.panels_place == amx_panels_shared, DataType::float32,
                     static_cast<std::size_t>(4 * words)});
}

}  // namespace clprim::detail
