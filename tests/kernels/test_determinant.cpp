// Determinants against elimination in double.
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include <clprim/determinant.hpp>

#include "kernels/host_tensor.hpp"

namespace clprim {
namespace {

double reference(std::vector<double> a, std::size_t n)
{
    double product = 1;
    for (std::size_t k = 0; k < n; ++k) {
        std::size_t pivot = k;
        for (std::size_t row = k; row < n; ++row)
            if (std::abs(a[row * n + k]) > std::abs(a[pivot * n + k]))
                pivot = row;
        if (pivot != k) {
            for (std::size_t column = 0; column < n; ++column)
                std::swap(a[k * n + column], a[pivot * n + column]);
            product = -product;
        }
        product *= a[k * n + k];
        for (std::size_t row = k + 1; row < n && a[k * n + k] != 0; ++row)
            for (std::size_t column = n; column-- > k;)
                a[row * n + column] -= a[row * n + k] / a[k * n + k] * a[k * n + column];
    }
    return product;
}

TEST(Determinant, MatchesReference)
{
    Queue& queue = Context::get(0).queue();
    std::mt19937 random(1);
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (const std::int64_t n : {1, 2, 3, 7, 20, 70}) {
        const auto size = static_cast<std::size_t>(n * n);
        std::vector<double> values(3 * size);
        for (double& value : values)
            value = static_cast<float>(uniform(random));
        const Tensor x = test::upload(queue, values, {3, n, n});
        const Tensor y = queue.context().empty({3}, DataType::float32, queue);
        determinant(queue, x, y);
        const std::vector<double> result = test::download(queue, y);
        for (std::size_t i = 0; i < 3; ++i) {
            const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i * size);
            const double expected =
                reference({begin, begin + static_cast<std::ptrdiff_t>(size)}, static_cast<std::size_t>(n));
            EXPECT_NEAR(result[i], expected, 1e-4 * std::abs(expected) + 1e-6) << n;
        }
    }
}

TEST(Determinant, SingularAndEmpty)
{
    Queue& queue = Context::get(0).queue();
    const Tensor singular = test::upload(queue, {1, 2, 2, 4}, {2, 2});
    const Tensor y = queue.context().empty({}, DataType::float32, queue);
    determinant(queue, singular, y);
    EXPECT_EQ(test::download(queue, y)[0], 0);
    const Tensor empty = queue.context().empty({2, 0, 0}, DataType::float32, queue);
    const Tensor ones = queue.context().empty({2}, DataType::float32, queue);
    determinant(queue, empty, ones);
    EXPECT_EQ(test::download(queue, ones), (std::vector<double>{1, 1}));
    EXPECT_THROW(determinant(queue, queue.context().empty({2, 3}, DataType::float32, queue), y), InvalidArgument);
}

}  // namespace
}  // namespace clprim
