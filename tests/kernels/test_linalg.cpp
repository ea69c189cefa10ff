// Factorisations against their definitions, multiplied out in double; sizes below, at and beyond one panel.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include <clprim/linalg.hpp>

#include "kernels/host_tensor.hpp"

namespace clprim {
namespace {

using Matrix = std::vector<double>;   // n x n, row-major

Matrix random_matrix(std::size_t n, unsigned seed)
{
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    Matrix a(n * n);
    for (double& value : a)
        value = uniform(random);
    return a;
}

Matrix product(const Matrix& a, const Matrix& b, std::size_t n, bool transpose_b = false)
{
    Matrix c(n * n);
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t k = 0; k < n; ++k)
            for (std::size_t j = 0; j < n; ++j)
                c[i * n + j] += a[i * n + k] * (transpose_b ? b[j * n + k] : b[k * n + j]);
    return c;
}

void expect_near(const Matrix& a, const Matrix& b, double tolerance)
{
    for (std::size_t i = 0; i < a.size(); ++i)
        ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

class Linalg : public testing::TestWithParam<std::int64_t> {
protected:
    Queue& queue = Context::get(0).queue();
    std::int64_t n = GetParam();
    std::size_t size = static_cast<std::size_t>(n);
    Matrix a = random_matrix(size, 1);
    double tolerance = 2e-6 * static_cast<double>(n * n);
    Tensor empty(const Dims& shape, DataType type = DataType::float32)
    {
        return queue.context().empty(shape, type, queue);
    }
};

TEST_P(Linalg, SolvesByLu)
{
    for (std::size_t i = 0; i < size; ++i)
        a[i * size + (i + 1) % size] += 4;   // well conditioned, but not without exchanges
    const Matrix x = random_matrix(size, 2);
    const Tensor lu = test::upload(queue, a, {1, n, n}), pivots = empty({1, n}, DataType::int32),
                 info = empty({1}, DataType::int32);
    lu_factor(queue, lu, pivots, info);
    for (const bool adjoint : {false, true}) {
        Matrix left = a;
        if (adjoint)
            for (std::size_t i = 0; i < a.size(); ++i)
                left[i] = a[i % size * size + i / size];
        const Tensor b = test::upload(queue, product(left, x, size), {1, n, n});
        lu_solve(queue, lu, pivots, b, adjoint);
        expect_near(test::download(queue, b), x, tolerance);
    }
}

TEST_P(Linalg, CholeskyMultipliesOut)
{
    Matrix positive = product(a, a, size, true);
    for (std::size_t i = 0; i < size; ++i)
        positive[i * (size + 1)] += 1;
    const Tensor l = test::upload(queue, positive, {1, n, n}), info = empty({1}, DataType::int32);
    cholesky(queue, l, info);
    Matrix lower = test::download(queue, l);
    for (std::size_t i = 0; i < size; ++i)
        std::fill(lower.begin() + static_cast<std::ptrdiff_t>(i * size + i + 1),
                  lower.begin() + static_cast<std::ptrdiff_t>((i + 1) * size), 0.0);
    expect_near(product(lower, lower, size, true), positive, tolerance);
}

TEST_P(Linalg, EigenvaluesMultiplyOut)
{
    Matrix symmetric = a;
    for (std::size_t i = 0; i < a.size(); ++i)
        symmetric[i] += a[i % size * size + i / size];
    const Tensor work = test::upload(queue, symmetric, {1, n, n}), vectors = empty({1, n, n}), values = empty({1, n});
    jacobi_eigh(queue, work, vectors, values);
    const Matrix v = test::download(queue, vectors), w = test::download(queue, values);
    Matrix scaled(v.size()), transposed(v.size());
    for (std::size_t i = 0; i < v.size(); ++i) {
        scaled[i] = w[i / size] * v[i];
        transposed[i % size * size + i / size] = v[i];
    }
    EXPECT_TRUE(std::is_sorted(w.begin(), w.end()));
    expect_near(product(transposed, scaled, size), symmetric, tolerance);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Linalg, testing::Values(1, 2, 7, 64, 65, 100));

TEST(LinalgErrors, AreFoundBeforeAnyLaunch)
{
    Queue& queue = Context::get(0).queue();
    const Tensor a = queue.context().empty({2, 3, 4}, DataType::float32, queue);
    const Tensor info = queue.context().empty({2}, DataType::int32, queue);
    EXPECT_THROW(cholesky(queue, a, info), InvalidArgument);
    EXPECT_THROW(lu_factor(queue, a, info, info), InvalidArgument);
    EXPECT_THROW(triangular_solve(queue, a, true, false, a), InvalidArgument);
    EXPECT_THROW(jacobi_svd(queue, a.transpose(1, 2), a, info), InvalidArgument);
}

}  // namespace
}  // namespace clprim
