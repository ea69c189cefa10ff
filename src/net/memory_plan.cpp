#include "net/memory_plan.hpp"

#include <algorithm>
#include <numeric>

namespace clprim {
namespace {

constexpr std::size_t alignment = 512;

std::size_t rounded(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace

MemoryPlan plan_memory(const std::vector<MemoryRequest>& requests, std::size_t limit)
{
    MemoryPlan plan;
    plan.places.resize(requests.size());
    std::vector<std::size_t> order(requests.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return requests[a].bytes > requests[b].bytes; });
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

}  // namespace clprim
