// How cpu_packed.cl cuts a problem into blocks, by a model of what each way costs.
#include <algorithm>
#include <cmath>
#include <limits>

#include <core/host_processor.hpp>
#include <kernels/gemm/cpu_blocks.hpp>
#include <kernels/gemm/plan_cache.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t second_level_cache = 1280 << 10;   // of it, what panels may fill

constexpr std::int64_t row_limits[] = {24, 48, 96, 192, 384, 768, 1536, 3072};
constexpr std::int64_t column_limits[] = {32, 64, 128, 256, 384, 512, 768, 1024, 2048};

// The size of equal blocks of at most `limit`, in whole tiles.
std::int64_t block_size(std::int64_t all, std::int64_t limit, std::int64_t tile)
{
    return round_up(divide_up(all, divide_up(all, std::max(limit, tile))), tile);
}

struct Planner {
    Planner(const GemmProblem& problem, bool turned_, const Device& device)
        : p(turned_ ? transposed(problem) : problem), turned(turned_), units(std::max(1u, device.compute_units)),
          element(static_cast<std::int64_t>(size_of(gemm_compute_type(problem.dtype)))), columns(tile_bytes / element),
          tile_rows(cpu_tile_rows(problem.dtype)),
          local_bytes(static_cast<std::int64_t>(std::min<std::size_t>(device.local_memory, 256 << 10)))
    {
        // Where A's columns are contiguous, strips of several tiles read whole lines of cache.
        const bool wide_strip = p.a.row == 1 && p.a.column != 1 &&
                                element * (tile_rows * columns + 48 * a_step) <= local_bytes;
        strip = wide_strip ? 48 : tile_rows;
    }

    GemmProblem p;   // seen the way round that is tried
    bool turned;
    std::int64_t units, element, columns, tile_rows, local_bytes, strip;   // element: bytes of a sum; columns of a tile
    CpuPlan best{};

    // Costs are cycles of the slowest core, measured on AVX-512 cores; only their ratios matter.
    // Packing an element, by the stride of the direction that vectors run along and of the other.
    static double packing(std::int64_t along, std::int64_t across)
    {
        return along == 1 ? 0.45 : across == 1 ? 0.9 : 2.5;
    }
    static constexpr double launch = 15000;   // 5 microseconds
    static constexpr double miss = 0.4;       // an element from or to the outer caches

    // The sums of a block's tiles, for one k: a vector of products per half cycle (a whole one where halves of vectors
    // are computed), and the loads of A where few rows share them.
    double products(std::int64_t rows, std::int64_t wide) const
    {
        const std::int64_t narrow = wide % columns;
        const double panels =
            static_cast<double>(wide / columns) + (narrow == 0 ? 0 : narrow > columns / 2 ? 1 : 0.55);
        const std::int64_t rest = rows % tile_rows;
        const double last = rest == 0 ? 0 : rest <= 4 ? 5 : rest <= 8 ? 8.6 : 12.3;
        return (host_halves_vectors() ? 2 : 1) * panels *
               (static_cast<double>(rows / tile_rows) * (tile_rows == 12 ? 12.3 : 5) + last);
    }

    bool reads_a_directly() const
    {
        return p.a.column == 1 && !meets_in_cache(p.a.row, element) && stores_sums(p.dtype);
    }

    void consider(CpuKernelPlan plan)
    {
        const bool single = plan.panels_place == panels_single, local = single || plan.panels_place == panels_local;
        const bool kept = plan.panels_place == panels_shared && keeps_panels(p);
        plan.strip = single ? plan.block_rows : strip;
        const std::int64_t block_bytes = element * plan.depth * (single ? columns : plan.block_columns);
        const std::int64_t fixed_bytes = element * (tile_rows * columns + plan.strip * a_step);
        if (block_bytes > second_level_cache || fixed_bytes + (local ? block_bytes : 0) > local_bytes)
            return;
        if (plan.panels_place == panels_shared && plan.splits > 1)
            return;
        const double blocks = static_cast<double>(divide_up(p.m, plan.block_rows) * divide_up(p.n, plan.block_columns) *
                                                  plan.splits * p.batch);
        const std::int64_t wide = std::min(p.n, plan.block_columns), high = std::min(p.m, plan.block_rows);
        const double rows = static_cast<double>(high), cols = static_cast<double>(wide);
        const double k = static_cast<double>(std::min(p.k, plan.split_depth));
        const double chunks = std::ceil(k / static_cast<double>(plan.depth));
        const double b_packing = packing(p.b.column, p.b.row);
        const double panel = local                             ? b_packing
                             : plan.panels_place == panels_own ? b_packing + miss
                                                               : miss;
        const double tiles = rows / static_cast<double>(tile_rows) * cols / static_cast<double>(columns);
        const double tiling = products(high, wide) * k * (plan.direct ? 1.08 : 1);
        const double a_reading = plan.direct ? 0.15 : packing(p.a.column, p.a.row);
        const double storing = (2 * chunks - 1) * miss + (p.c.column == 1 ? 0 : 8.0);
        const double block = 1500 + tiling + rows * k * a_reading + cols * k * panel + tiles * chunks * 40 +
                             rows * cols * storing;
        double cost = std::ceil(blocks / static_cast<double>(units)) * block;
        if (plan.panels_place == panels_shared && !kept)
            cost += launch + static_cast<double>(p.batch * p.k * round_up(p.n, columns)) * (b_packing + miss) /
                                 static_cast<double>(units);
        if (plan.splits > 1)
            cost += launch + static_cast<double>(p.batch * p.m * p.n * plan.splits) / static_cast<double>(units);
        if (cost < best.cost)
            best = {plan, turned, cost};
    }

    // All cuts along k and places of panels, for blocks of this size.
    void consider_blocks(std::int64_t block_rows, std::int64_t block_columns)
    {
        for (std::int64_t splits = 1; splits <= 2 * units && (splits - 1) * longest_chunk < p.k; splits *= 2) {
            const std::int64_t split_depth = splits == 1 ? p.k : round_up(divide_up(p.k, splits), 16);
            for (const std::int64_t limit : {longest_chunk, longest_chunk / 2}) {
                const std::int64_t chunks = divide_up(split_depth, limit);
                const std::int64_t chunk = chunks == 1 ? split_depth : round_up(divide_up(split_depth, chunks), 16);
                CpuKernelPlan plan{
                    block_rows, block_columns, divide_up(p.k, split_depth), split_depth, chunk, 0, 0, 0, 0};
                for (const PanelsPlace place : {panels_local, panels_own, panels_shared, panels_single}) {
                    plan.panels_place = place;
                    // Panels that are kept are cut one way, whatever A has of rows, so that they are kept once.
                    if (place != panels_shared || limit == longest_chunk || !keeps_panels(p))
                        consider(plan);
                }
                if (reads_a_directly()) {
                    plan.panels_place = panels_local;
                    plan.direct = 1;
                    consider(plan);
                }
                if (chunks == 1)
                    break;
            }
        }
    }

    void consider_all()
    {
        for_block_sizes(p, {row_limits, column_limits, tile_rows, columns},
                        [this](std::int64_t high, std::int64_t wide) { consider_blocks(high, wide); });
    }
};

}  // namespace

CpuPlan cpu_plan(const GemmProblem& problem, const Device& device)
{
    static PlanCache<CpuPlan> plans;
    return plans.get(problem, device, cheapest_plan<Planner>);
}

Space cpu_packed_space(const GemmProblem& problem, const Device& device)
{
    const CpuPlan plan = cpu_plan(problem, device);
    const CpuKernelPlan& cut = plan.kernel;
    const auto list = [](const auto& values) {
        return std::vector<std::int64_t>(std::begin(values), std::end(values));
    };
    return {{"rows", list(row_limits), cut.block_rows},
            {"columns", list(column_limits), cut.block_columns},
            {"depth", {96, 192, 384}, std::min(cut.depth, longest_chunk)},
            {"splits", {1, 2, 4, 8}, cut.splits},
            {"place", {panels_local, panels_own, panels_shared, panels_single}, cut.panels_place},
            {"direct", {0, 1}, cut.direct},
            {"turned", {0, 1}, plan.turned}};
}

CpuPlan cpu_plan_at(const GemmProblem& problem, const Device& device, const Point& point)
{
    Planner planner(problem, point.at("turned") != 0, device);
    const GemmProblem& p = planner.p;
    const std::int64_t splits = point.at("splits");
    CpuKernelPlan cut{};
    cut.block_rows = block_size(round_up(p.m, planner.tile_rows), point.at("rows"), planner.tile_rows);
    cut.block_columns = block_size(round_up(p.n, planner.columns), point.at("columns"), planner.columns);
    cut.split_depth = splits == 1 ? p.k : round_up(divide_up(p.k, splits), 16);
    cut.splits = divide_up(p.k, cut.split_depth);
    const std::int64_t chunks = divide_up(cut.split_depth, point.at("depth"));
    cut.depth = chunks == 1 ? cut.split_depth : round_up(divide_up(cut.split_depth, chunks), 16);
    cut.panels_place = static_cast<std::int32_t>(point.at("place"));
    cut.direct = static_cast<std::int32_t>(point.at("direct"));
    require<NotSupported>(!cut.direct || (planner.reads_a_directly() && cut.panels_place == panels_local),
                          "A cannot be read in place");
    planner.consider(cut);
    require<NotSupported>(!std::isinf(planner.best.cost), "panels of ", cut.block_columns, " columns and ", cut.depth,
                          " rows do not fit the caches");
    return planner.best;
}

}  // namespace clprim::detail
