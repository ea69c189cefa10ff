#include <core/memory_plan.hpp>

#include <algorithm>
#include <numeric>

namespace clprim {
namespace {

constexpr std::size_t alignment = 512;

std::size_t rounded(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

// Each request in turn at the lowest offset that is free while it lives.
MemoryPlan place_in_order(const std::vector<MemoryRequest>& requests, const std::vector<std::size_t>& order,
                          std::size_t limit)
{
    MemoryPlan plan;
    plan.places.resize(requests.size());
    std::vector<std::vector<std::size_t>> residents;   // of each arena, by offset
    for (const std::size_t r : order) {
        const MemoryRequest& request = requests[r];
        const std::size_t size = rounded(request.bytes);
        for (std::size_t arena = 0;; ++arena) {
            if (arena == residents.size()) {
                residents.emplace_back();
                plan.arenas.push_back(0);
            }
            std::size_t offset = 0;
            for (const std::size_t other : residents[arena]) {
                const MemoryRequest& o = requests[other];
                if (o.last < request.first || request.last < o.first)
                    continue;
                if (offset + size <= plan.places[other].offset)
                    break;
                offset = std::max(offset, plan.places[other].offset + rounded(o.bytes));
            }
            if (offset + size > limit && !residents[arena].empty())
                continue;
            plan.places[r] = {static_cast<int>(arena), offset};
            plan.arenas[arena] = std::max(plan.arenas[arena], offset + size);
            auto& list = residents[arena];
            list.insert(
                std::upper_bound(list.begin(), list.end(), offset,
                                 [&](std::size_t at, std::size_t other) { return at < plan.places[other].offset; }),
                r);
            break;
        }
    }
    return plan;
}

std::size_t total(const MemoryPlan& plan)
{
    return std::accumulate(plan.arenas.begin(), plan.arenas.end(), std::size_t{0});
}

}  // namespace

std::size_t most_alive(const std::vector<MemoryRequest>& requests)
{
    std::vector<std::pair<std::int64_t, std::int64_t>> changes;   // at a step, by so many bytes; less before more
    for (const MemoryRequest& request : requests) {
        const auto bytes = static_cast<std::int64_t>(rounded(request.bytes));
        changes.emplace_back(request.first, bytes);
        changes.emplace_back(std::int64_t{request.last} + 1, -bytes);
    }
    std::ranges::sort(changes);
    std::int64_t alive = 0, most = 0;
    for (const auto& [step, bytes] : changes)
        most = std::max(most, alive += bytes);
    return static_cast<std::size_t>(most);
}

MemoryPlan plan_memory(const std::vector<MemoryRequest>& requests, std::size_t limit)
{
    const std::size_t least = most_alive(requests);
    MemoryPlan best;
    const auto consider = [&](MemoryPlan plan) {
        if (best.arenas.empty() || total(plan) < total(best))
            best = std::move(plan);
    };
    std::vector<std::size_t> order(requests.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // The largest by a measure first, then again with what ended up on top before all others.
    const auto place_by = [&](const auto& measure) {
        constexpr std::size_t most_steps = 4'000'000, most_rounds = 64;
        const std::size_t pairs = order.size() * order.size();
        const std::size_t rounds = std::min(most_rounds, 1 + most_steps / pairs);
        std::ranges::stable_sort(order, [&](auto a, auto b) { return measure(requests[a]) > measure(requests[b]); });
        for (std::size_t round = 0; round < rounds && (best.arenas.empty() || total(best) > least); ++round) {
            MemoryPlan plan = place_in_order(requests, order, limit);
            const auto is_on_top = [&](std::size_t r) {
                const MemoryPlace& place = plan.places[r];
                return place.offset + rounded(requests[r].bytes) == plan.arenas[static_cast<std::size_t>(place.arena)];
            };
            std::stable_partition(order.begin(), order.end(), is_on_top);
            consider(std::move(plan));
        }
    };
    if (!requests.empty()) {
        place_by([](const MemoryRequest& r) { return static_cast<double>(r.bytes); });
        place_by([](const MemoryRequest& r) {
            return static_cast<double>(r.bytes) * (static_cast<double>(r.last) - r.first + 1);
        });
    }
    return best;
}

}  // namespace clprim
