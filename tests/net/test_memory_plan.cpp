// Places of tensors that take turns in arenas.
#include <gtest/gtest.h>

#include <random>

#include "net/memory_plan.hpp"

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

}  // namespace
