// Non-maximum suppression against the greedy algorithm on the host.
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include <clprim/nms.hpp>
#include <gtest/gtest.h>

#include "kernels/host_tensor.hpp"

namespace {

using namespace clprim;

float overlap(const float* a, const float* b)
{
    const float w = std::max(0.f, std::min(a[2], b[2]) - std::max(a[0], b[0]));
    const float h = std::max(0.f, std::min(a[3], b[3]) - std::max(a[1], b[1]));
    const float inter = w * h;
    return inter / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inter);
}

class NmsTest : public testing::TestWithParam<int> {};

TEST_P(NmsTest, KeepsWhatTheGreedyAlgorithmKeeps)
{
    const int n = GetParam();
    std::mt19937 random(n);
    std::uniform_real_distribution<float> uniform;
    std::vector<float> boxes(4 * n);
    for (int i = 0; i < n; ++i)
        for (int k = 0; k < 2; ++k) {
            boxes[4 * i + k] = 60 * uniform(random);
            boxes[4 * i + 2 + k] = boxes[4 * i + k] + 30 * uniform(random);
        }
    std::vector<std::int64_t> order(n), expected;
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (const std::int64_t i : order)
        if (std::none_of(expected.begin(), expected.end(),
                         [&](std::int64_t k) { return overlap(&boxes[4 * k], &boxes[4 * i]) > 0.5f; }))
            expected.push_back(i);

    Queue& queue = Context::get().queue();
    const Tensor keep = queue.context().empty({n}, DataType::int64, queue),
                 order_tensor = queue.context().empty({n}, DataType::int64, queue),
                 count = queue.context().empty({1}, DataType::int64, queue);
    queue.write(*order_tensor.memory, 0, order.data(), n * sizeof(std::int64_t));
    const Tensor box_tensor = test::upload(queue, {boxes.begin(), boxes.end()}, {n, 4});
    nms(queue, box_tensor, order_tensor, 0.5, keep, count);
    std::int64_t kept = -1;
    queue.read(*count.memory, 0, &kept, sizeof kept);
    ASSERT_EQ(kept, static_cast<std::int64_t>(expected.size()));
    std::vector<std::int64_t> result(kept);
    if (kept)
        queue.read(*keep.memory, 0, result.data(), kept * sizeof(std::int64_t));
    EXPECT_EQ(result, expected);
}

INSTANTIATE_TEST_SUITE_P(Counts, NmsTest, testing::Values(0, 1, 64, 65, 200, 1000));

}  // namespace
