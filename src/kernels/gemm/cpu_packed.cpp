// Launches cpu_packed.cl: how a problem is cut into blocks, by a model of what each way costs.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include <kernels/gemm/problem.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t depth = 256;        // DEPTH of cpu_packed.cl
constexpr std::int64_t tile_bytes = 128;   // a tile's row: two vectors of 64 bytes

// packed_plan of cpu_packed.cl.
struct KernelPlan {
    std::int64_t block_rows, block_columns, splits, split_depth;
    std::int32_t packed_b, plain_store;
};

struct Plan {
    KernelPlan kernel{};
    int tile_rows = 0;
    bool turned = false;   // computed as C' = B' A'
    double cost = std::numeric_limits<double>::infinity();
};

// What packing one element costs, in cycles, by the stride of the direction that vectors run along and of the other.
double packing_cost(std::int64_t along, std::int64_t across)
{
    return along == 1 ? 0.12 : across == 1 ? 0.3 : 2.0;
}

struct Planner {
    Planner(const GemmProblem& problem, bool turned_, const Device& device)
        : p(turned_ ? transposed(problem) : problem), turned(turned_), units(std::max(1u, device.compute_units)),
          element(static_cast<std::int64_t>(size_of(gemm_compute_type(problem.dtype)))), columns(tile_bytes / element),
          local_bytes(static_cast<std::int64_t>(std::min<std::size_t>(device.local_memory, 256 << 10)))
    {
    }

    GemmProblem p;         // seen the way round that is tried
    bool turned;
    std::int64_t units, element, columns, local_bytes;   // element: bytes of a sum; columns of a tile
    Plan best{};

    // Cost in cycles of the slowest core. The constants are measured on AVX-512 cores; only their ratios matter.
    void consider(int tile_rows, std::int64_t block_rows, std::int64_t block_columns, std::int64_t splits, bool packed_b)
    {
        const std::int64_t split_depth =
            splits == 1 ? p.k : round_up(divide_up(p.k, splits), depth);
        splits = divide_up(p.k, split_depth);
        const std::int64_t chunks = divide_up(split_depth, depth);
        const std::int64_t bytes = element * (tile_rows * columns + block_rows * depth + (packed_b ? 0 : depth * columns) +
                                              (chunks > 1 ? block_rows * block_columns : 0));
        if (bytes > local_bytes)
            return;
        const double blocks = static_cast<double>(divide_up(p.m, block_rows) * divide_up(p.n, block_columns) * splits * p.batch);
        const double rows = static_cast<double>(std::min(round_up(p.m, tile_rows), block_rows));
        const double wide = static_cast<double>(std::min(round_up(p.n, columns), block_columns));
        const double tiles = rows / tile_rows * wide / static_cast<double>(columns);
        const double k = static_cast<double>(split_depth);
        const double step = tile_rows == 12 ? 12 : 7;
        const double a_pack = packing_cost(p.a.column, p.a.row), b_pack = packing_cost(p.b.column, p.b.row);
        const double store = p.c.column == 1 ? 0.3 : 2.0;
        // A panel of B packed before comes from the outer caches once per block; one packed here is at hand.
        const double panel = wide * k * (packed_b ? 0.2 : b_pack);
        const double block = 300 + tiles * (k * step + static_cast<double>(chunks) * 80) + rows * k * a_pack +
                             rows * wide * store + panel;
        double cost = std::ceil(blocks / static_cast<double>(units)) * block;
        if (packed_b)
            cost += launch_cost + static_cast<double>(p.batch * p.k * round_up(p.n, columns)) * (b_pack + 0.1) /
                                      static_cast<double>(units);
        if (splits > 1)
            cost += launch_cost + static_cast<double>(p.batch * p.m * p.n * splits) / static_cast<double>(units);
        if (cost < best.cost)
            best = {{block_rows, block_columns, splits, split_depth, packed_b, 0}, tile_rows, turned, cost};
    }

    void consider_all()
    {
        // Every further tile is a program to build, so only the common dtypes have two; 64-bit integer products would
        // spill from the large one.
        const bool common = p.dtype == DataType::float32 || p.dtype == DataType::float64;
        for (const int tile_rows : {12, 6}) {
            if (!common && tile_rows != (p.dtype == DataType::int64 ? 6 : 12))
                continue;
            const std::int64_t all_rows = round_up(p.m, tile_rows), all_columns = round_up(p.n, columns);
            for (const std::int64_t row_limit : {24, 48, 96, 192}) {
                const std::int64_t row_blocks = divide_up(all_rows, std::max<std::int64_t>(row_limit, tile_rows));
                const std::int64_t block_rows = round_up(divide_up(all_rows, row_blocks), tile_rows);
                for (const std::int64_t column_limit : {32, 64, 128, 256, 320, 384, 768, 1536}) {
                    const std::int64_t column_blocks = divide_up(all_columns, std::max(column_limit, columns));
                    const std::int64_t block_columns = round_up(divide_up(all_columns, column_blocks), columns);
                    for (std::int64_t splits = 1; splits <= 2 * units && (splits - 1) * depth < p.k; splits *= 2)
                        for (const bool packed_b : {false, true})
                            consider(tile_rows, block_rows, block_columns, splits, packed_b);
                    if (column_blocks == 1)
                        break;
                }
                if (row_blocks == 1)
                    break;
            }
        }
    }

    static constexpr double launch_cost = 15000;   // 5 microseconds
};

Plan make_plan(const GemmProblem& problem, const Device& device)
{
    Plan best;
    for (const bool turned : {false, true}) {
        Planner planner(problem, turned, device);
        planner.consider_all();
        if (planner.best.cost < best.cost)
            best = planner.best;
    }
    return best;
}

// Plans are kept, since making one costs some microseconds. What they depend on is the key.
Plan plan_for(const GemmProblem& p, const Device& device)
{
    const auto kind = [](const MatrixLayout& layout) { return (layout.row == 1) + 2 * (layout.column == 1); };
    const std::array<std::int64_t, 7> key{device.index, p.batch, p.m, p.n, p.k, static_cast<std::int64_t>(p.dtype),
                                          kind(p.a) + 4 * kind(p.b) + 16 * kind(p.c)};
    static std::mutex mutex;
    static std::map<std::array<std::int64_t, 7>, Plan> plans;
    std::lock_guard lock(mutex);
    if (auto found = plans.find(key); found != plans.end())
        return found->second;
    if (plans.size() > 4096)
        plans.clear();
    return plans[key] = make_plan(p, device);
}

}  // namespace

Rejection cpu_packed_rejects(const GemmProblem& problem, const Device& device)
{
    if (device.kind != DeviceKind::cpu)
        return "for CPU devices";
    if (is_complex(problem.dtype))
        return "complex";
    if (problem.k == 0)
        return "k is 0";
    if (device.local_memory < (48 << 10))
        return "less than 48 KiB of local memory";
    return std::nullopt;
}

void cpu_packed(Queue& queue, const GemmProblem& asked, const GemmTensors& given)
{
    const Plan plan = plan_for(asked, queue.device());
    const GemmProblem problem = plan.turned ? transposed(asked) : asked;
    const GemmTensors tensors = plan.turned ? transposed(given) : given;
    KernelPlan cut = plan.kernel;
    const DataType sum_type = gemm_compute_type(problem.dtype);
    const std::int64_t element = static_cast<std::int64_t>(size_of(sum_type)), columns = tile_bytes / element;
    cut.plain_store = size_of(problem.dtype) == size_of(sum_type) && problem.c.column == 1 && !problem.add_d &&
                      problem.activation == Activation::none && problem.alpha.to_double() == 1;
    const Program& program = queue.context().program(
        "kernels/gemm/cpu_packed.cl", fmt::format("{} -DTILE_ROWS={}", gemm_options(problem.dtype), plan.tile_rows));
    const GemmArguments arguments = gemm_arguments(problem);

    Tensor panels, partial;
    if (cut.packed_b) {
        panels = queue.context().empty({problem.batch * problem.k * round_up(problem.n, columns)}, sum_type, queue);
        const auto groups = [](std::int64_t count) { return static_cast<std::size_t>(count); };
        queue.launch(program.kernel("pack_b"),
                     Range::groups({groups(divide_up(problem.n, columns)), groups(divide_up(problem.k, depth)),
                                    groups(problem.batch)}, {1, 1, 1}),
                     tensors.b, panels, arguments);
    }
    if (cut.splits > 1)
        partial = queue.context().empty({cut.splits * problem.batch * problem.m * problem.n}, sum_type, queue);

    const bool rests = cut.split_depth > depth;   // sums wait in local memory between chunks
    const std::int64_t local = plan.tile_rows * columns + cut.block_rows * depth + (cut.packed_b ? 0 : depth * columns) +
                               (rests ? cut.block_rows * cut.block_columns : 0);
    const std::int64_t blocks = divide_up(problem.m, cut.block_rows) * divide_up(problem.n, cut.block_columns) *
                                cut.splits * problem.batch;
    {
        Launch launch(queue, program.kernel("multiply"));
        launch.arg(tensors.a).arg(tensors.b).arg(panels).arg(tensors.c).arg(tensors.d).arg(partial);
        launch.arg(arguments).arg(cut);
        add_scalars(launch, problem);
        launch.arg(LocalMemory{static_cast<std::size_t>(local * element)});
        launch.run(Range::groups(static_cast<std::size_t>(blocks)));
    }
    if (cut.splits > 1)
        combine_partial_products(queue, problem, tensors, partial, static_cast<std::int32_t>(cut.splits));
}

}  // namespace clprim::detail
