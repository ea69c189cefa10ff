// Launches cpu_few.cl.
#include <algorithm>
#include <limits>

#include <kernels/attention/problem.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t most_queries = 8;            // beyond, tiles of queries share what is read
constexpr std::int64_t most_rows = 32;              // of a work-item
constexpr std::int64_t most_local = 96 << 10;       // bytes that stay in the second-level cache beside keys
constexpr std::int64_t least_keys = 64;             // of a piece: what it writes is little beside what it reads

// few_plan of cpu_few.cl.
struct Plan {
    std::int64_t rows, blocks, splits, chunk, width, values;
};

std::int64_t lanes_of(const Attention& p) { return 64 / size_of(accumulate_type(p.query.dtype)); }

std::int64_t local_bytes(const Attention& p, const Plan& plan)
{
    return plan.rows * (plan.width + plan.values + plan.chunk + 3) * size_of(accumulate_type(p.query.dtype));
}

std::int64_t room_of(const Device& device)
{
    return std::min<std::int64_t>(static_cast<std::int64_t>(device.local_memory), most_local);
}

// With as many rows as there is room for beside their scores of 2 least_keys keys: pieces can always be cut to fewer.
Plan smallest_plan(const Attention& p, const Device& device)
{
    const std::int64_t lanes = lanes_of(p), rows = p.query.size(1) / p.key.size(1) * p.query.size(2);
    Plan plan{1, 1, 1, 2 * least_keys, std::max(lanes, round_up(p.query.size(3), lanes)),
              std::max(lanes, round_up(p.value.size(3), lanes))};
    const std::int64_t fit = room_of(device) / local_bytes(p, plan);
    plan.blocks = divide_up(rows, std::clamp<std::int64_t>(fit, 1, most_rows));
    plan.rows = divide_up(rows, plan.blocks);
    return plan;
}

// As many pieces as take the least time on all cores, by microseconds for what is read and multiplied and for a launch.
Plan plan_for(const Attention& p, const Device& device)
{
    constexpr double launch = 6, bytes_a_microsecond = 3e4, rows_as_fast = 3;
    Plan plan = smallest_plan(p, device);
    const std::int64_t keys = p.key.size(2), units = std::max(1u, device.compute_units);
    const std::int64_t groups = p.query.size(0) * p.key.size(1) * plan.blocks;
    const double bytes = static_cast<double>(keys * (plan.width + plan.values) * size_of(p.query.dtype));
    const double alone = bytes / bytes_a_microsecond * std::max(1.0, static_cast<double>(plan.rows) / rows_as_fast);
    double best = std::numeric_limits<double>::infinity();
    Plan chosen = plan;
    for (std::int64_t pieces = 1; pieces == 1 || keys >= pieces * least_keys; ++pieces) {
        plan.chunk = round_up(divide_up(keys, pieces), std::min(lanes_of(p), least_keys));
        plan.splits = divide_up(keys, plan.chunk);
        const double cost = alone * static_cast<double>(divide_up(groups * plan.splits, units)) /
                                static_cast<double>(plan.splits) + (plan.splits > 1 ? launch : 0);
        if (local_bytes(p, plan) <= room_of(device) && cost < best)
            best = cost, chosen = plan;
        if (pieces > 4 * units && best < std::numeric_limits<double>::infinity())
            break;
    }
    require(best < std::numeric_limits<double>::infinity(), "attention: no plan of few queries fits local memory");
    return chosen;
}

}  // namespace

Rejection attention_cpu_few_rejects(const Attention& p, const Device& device)
{
    if (device.kind != DeviceKind::cpu)
        return "for CPU devices";
    if (std::max(p.query.size(3), p.value.size(3)) > longest_fused_head)
        return "heads of more than 256 elements";
    if (p.dropout > 0)
        return "dropout";
    if (p.query.size(2) > most_queries)
        return "more than eight queries";
    if (local_bytes(p, smallest_plan(p, device)) > room_of(device))
        return "too little local memory";
    return std::nullopt;
}

// Tiles of queries take as long for one as for a vector's lanes of them. Here each costs the same, more where elements
// are converted for each again, rows end within a vector or numbers are long.
Rejection attention_cpu_few_advises_against(const Attention& p, const Device&)
{
    constexpr std::int64_t any = 4;
    const std::int64_t queries = p.query.size(2), lanes = lanes_of(p);
    const bool whole = p.query.size(3) % lanes == 0 && p.value.size(3) % lanes == 0;
    if (queries > any && (p.query.dtype != DataType::float32 || !whole || p.key.size(2) < lanes))
        return "tiles of queries are faster";
    return std::nullopt;
}

void attention_cpu_few(Queue& queue, const Attention& p, const Tensor& y, const Tensor& logsumexp)
{
    const Plan plan = plan_for(p, queue.device());
    const Program& program = queue.context().program("kernels/attention/cpu_few.cl", attention_options(p));
    const std::int64_t rows = p.query.size(0) * p.query.size(1) * p.query.size(2);
    const auto scratch = [&](const Dims& shape) {
        return queue.context().empty(shape, accumulate_type(p.query.dtype), queue);
    };
    const auto groups = [](std::int64_t count) { return Range::groups(static_cast<std::size_t>(count)); };
    Tensor sums, tops;
    if (plan.splits > 1)
        sums = scratch({plan.splits, rows, plan.values}), tops = scratch({2, plan.splits, rows});
    const AttentionArguments arguments = attention_arguments(p, y);
    launch(queue, program.kernel("forward"),
           groups(p.query.size(0) * p.key.size(1) * plan.blocks * plan.splits), p.query, p.key, p.value, p.mask, y,
           logsumexp, sums, tops, arguments, plan, scale_of(p),
           LocalMemory{static_cast<std::size_t>(local_bytes(p, plan))});
    if (plan.splits > 1)
        launch(queue, program.kernel("combine"), groups(rows), sums, tops, y, logsumexp, arguments, plan);
}

}  // namespace clprim::detail
