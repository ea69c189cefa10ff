// Places of tensors that take turns in arenas.
#include <gtest/gtest.h>

#include <random>

#include <core/memory_plan.hpp>

namespace {

using namespace clprim;

TEST(MemoryPlan, RequestsThatLiveTogetherDoNotOverlap)
{
    std::mt19937 random(1);
    for (int round = 0; round < 200; ++round) {
        std::vector<MemoryRequest> requests(1 + random() % 40);
        for (MemoryRequest& r : requests) {
            r.bytes = random() % 5000;
            r.first = static_cast<int>(random() % 30);
            r.last = r.first + static_cast<int>(random() % 8);
        }
        const std::size_t limit = round % 2 ? 8192 : std::size_t(1) << 40;
        const MemoryPlan plan = plan_memory(requests, limit);
        std::size_t most = 0, planned = 0;
        for (int t = 0; t < 40; ++t) {
            std::size_t alive = 0;
            for (const MemoryRequest& r : requests)
                alive += r.first <= t && t <= r.last ? r.bytes : 0;
            most = std::max(most, alive);
        }
        for (const std::size_t bytes : plan.arenas) {
            EXPECT_LE(bytes, limit);
            planned += bytes;
        }
        EXPECT_GE(planned, most);
        for (std::size_t a = 0; a < requests.size(); ++a) {
            EXPECT_EQ(plan.places[a].offset % 512, 0u);
            EXPECT_LE(plan.places[a].offset + requests[a].bytes,
                      plan.arenas[static_cast<std::size_t>(plan.places[a].arena)]);
            for (std::size_t b = 0; b < a; ++b) {
                const bool together = requests[a].first <= requests[b].last && requests[b].first <= requests[a].last;
                const bool apart = plan.places[a].arena != plan.places[b].arena ||
                                   plan.places[a].offset + requests[a].bytes <= plan.places[b].offset ||
                                   plan.places[b].offset + requests[b].bytes <= plan.places[a].offset;
                EXPECT_TRUE(!together || apart);
            }
        }
    }
    // One after another: all share the place of the largest.
    const MemoryPlan chain = plan_memory({{100, 0, 1}, {5120, 2, 3}, {1024, 4, 5}}, 1 << 20);
    EXPECT_EQ(chain.arenas, (std::vector<std::size_t>{5120}));
}

// Against all orders of placing, for few requests: the best of them is a sixth better at most.
TEST(MemoryPlan, IsNearTheBestOfAllOrders)
{
    std::mt19937 random(7);
    for (int round = 0; round < 60; ++round) {
        std::vector<MemoryRequest> requests(6);
        for (MemoryRequest& r : requests) {
            r.bytes = 512 * (1 + random() % 20);
            r.first = static_cast<int>(random() % 6);
            r.last = r.first + static_cast<int>(random() % 4);
        }
        std::vector<std::size_t> order{0, 1, 2, 3, 4, 5};
        std::size_t best = SIZE_MAX;
        do {
            std::vector<std::size_t> offsets(requests.size());
            std::size_t top = 0;
            for (std::size_t i = 0; i < order.size(); ++i) {
                const MemoryRequest& r = requests[order[i]];
                std::size_t offset = 0;
                for (bool moved = true; moved;) {
                    moved = false;
                    for (std::size_t k = 0; k < i; ++k) {
                        const MemoryRequest& o = requests[order[k]];
                        const bool together = r.first <= o.last && o.first <= r.last;
                        if (together && offset < offsets[order[k]] + o.bytes && offsets[order[k]] < offset + r.bytes) {
                            offset = offsets[order[k]] + o.bytes;
                            moved = true;
                        }
                    }
                }
                offsets[order[i]] = offset;
                top = std::max(top, offset + r.bytes);
            }
            best = std::min(best, top);
        } while (std::ranges::next_permutation(order).found);
        const MemoryPlan plan = plan_memory(requests, std::size_t{1} << 40);
        ASSERT_EQ(plan.arenas.size(), 1u);
        EXPECT_GE(plan.arenas[0], most_alive(requests));
        EXPECT_GE(best, most_alive(requests));
        EXPECT_LE(plan.arenas[0], best + best / 5) << round;
    }
}

TEST(MemoryPlan, ReachesTheBoundOnChainsAndResiduals)
{
    std::vector<MemoryRequest> chain, residual;
    for (int i = 0; i < 30; ++i)
        chain.push_back({static_cast<std::size_t>(1024 * (1 + i * 7 % 11)), i, i + 1});
    for (int i = 0; i < 30; ++i)
        residual.push_back({8192, i, i % 3 == 0 ? i + 3 : i + 1});
    for (const auto& requests : {chain, residual})
        EXPECT_EQ(plan_memory(requests, std::size_t{1} << 40).arenas, (std::vector<std::size_t>{most_alive(requests)}));
}

}  // namespace
