// Norms of many tensors, against the definition in double.
#include <cmath>
#include <random>

#include <clprim/optim.hpp>
#include <gtest/gtest.h>

#include "kernels/host_tensor.hpp"

namespace {

using namespace clprim;

TEST(Optim, NormsOfManyTensors)
{
    Queue& queue = Context::get().queue();
    std::mt19937 random(1);
    std::normal_distribution<double> normal;
    const std::vector<std::int64_t> sizes = {1, 5, 1023, 1024, 1025, 4096, 70000, 300000, 16, 0};
    std::vector<std::vector<double>> values;
    TensorList tensors;
    for (const std::int64_t size : sizes) {
        std::vector<double>& v = values.emplace_back(size);
        for (double& e : v)
            e = float(normal(random));
        tensors.push_back(test::upload(queue, v, {size}));
    }
    const auto count = std::int64_t(sizes.size());
    const Tensor norms = test::upload(queue, std::vector<double>(count, 7), {count});
    for (const double order : {1.0, 2.0, double(INFINITY)}) {
        foreach_norm(queue, tensors, order, norms);
        const auto got = test::download(queue, norms);
        for (std::int64_t t = 0; t < count; ++t) {
            double sum = 0;
            for (const double e : values[t])
                sum = order == 1 ? sum + std::abs(e) : order == 2 ? sum + e * e : std::max(sum, std::abs(e));
            ASSERT_NEAR(got[t], order == 2 ? std::sqrt(sum) : sum, 2e-6 * sum + 1e-6) << sizes[t] << " " << order;
        }
        foreach_norm(queue, tensors, order, norms);
        EXPECT_EQ(test::download(queue, norms), got);   // the same bits every time
    }
    EXPECT_THROW(foreach_norm(queue, tensors, 3, norms), InvalidArgument);
    EXPECT_THROW(foreach_norm(queue, {tensors[0]}, 2, norms), InvalidArgument);
}

}  // namespace
