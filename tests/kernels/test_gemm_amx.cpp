// Products by AMX tile registers: every way to cut them, and numbers that are not split.
#include <algorithm>
#include <cmath>
#include <limits>

#include <kernels/gemm/cpu_amx.hpp>

#include "gemm_matrices.hpp"

using namespace clprim;
using namespace clprim::testing_gemm;

namespace {

struct Cut {
    std::string name;
    detail::AmxPlan plan;
    std::optional<std::string> rejects(const GemmProblem&, const Device&) const { return std::nullopt; }
    void run(Queue& q, const GemmProblem& problem, const detail::GemmTensors& tensors) const
    {
        detail::cpu_amx_by(plan, q, problem, tensors);
    }
};

class GemmAmx : public testing::Test {
protected:
    void SetUp() override
    {
        if (!queue().device().amx)
            GTEST_SKIP() << "the processor has no AMX, or CLPRIM_AMX or CLPRIM_DEVICE_KIND forbids it";
    }
};

Cut cut(detail::AmxPanelsPlace place, std::int64_t k, std::int64_t splits, bool turned)
{
    Cut one{"place " + std::to_string(place) + " splits " + std::to_string(splits) + (turned ? " turned" : ""), {}};
    const std::int64_t split_depth = splits == 1 ? k : detail::round_up(detail::divide_up(k, splits), 32);
    one.plan.turned = turned;
    one.plan.kernel = {64, 64, detail::divide_up(k, split_depth), split_depth, 64, place, 0};
    return one;
}

const detail::GemmImplementation& named(std::string_view name)
{
    const auto list = detail::gemm_implementations();
    return *std::ranges::find(list, name, &detail::GemmImplementation::name);
}

// Calls check(cut, case) for all of them.
template <class Check>
void each_cut(Check&& check)
{
    for (const Case& c : cases)
        for (const auto place : {detail::amx_panels_local, detail::amx_panels_own, detail::amx_panels_shared})
            for (const std::int64_t splits : {1, 3})
                for (const bool turned : {false, true})
                    if (place != detail::amx_panels_shared || splits == 1)
                        check(cut(place, c.k, splits, turned), c);
}

TEST_F(GemmAmx, EveryCutGivesTheSame)
{
    each_cut([](const Cut& one, const Case& c) {
        for (const Order a : {Order::rows, Order::columns, Order::spread})
            for (const Order b : {Order::rows, Order::columns, Order::spread})
                check(one, c, a, b, Order::rows, DataType::float32, 1, 0);
        check(one, c, Order::rows, Order::rows, Order::columns, DataType::float32, -2, 1);
        for (const DataType type : {DataType::float16, DataType::bfloat16})
            check(one, c, Order::columns, Order::rows, Order::rows, type, 1, 1);
    });
}

// Few rows by columns that are read where they lie, also the other way round, columns that end within a tile of k, and
// the last ones that share a tile with others.
TEST_F(GemmAmx, FewRows)
{
    for (const Case& c : {Case{1, 5, 16, 32}, Case{1, 16, 33, 95}, Case{2, 17, 100, 64}, Case{1, 32, 250, 1000},
                          Case{3, 2, 47, 130}, Case{1, 24, 4100, 40}, Case{1, 49, 8, 160}, Case{2, 64, 31, 99},
                          Case{1, 100, 150, 70}, Case{1, 128, 160, 64}}) {
        for (const Order order : {Order::rows, Order::columns, Order::spread})
            check(named("cpu_amx_rows"), c, Order::rows, Order::columns, order, DataType::bfloat16, 1, 0);
        check(named("cpu_amx_rows"), c, Order::rows, Order::columns, Order::rows, DataType::bfloat16, -2, 1);
    }
    const auto rejects = [](std::int64_t m, std::int64_t n, std::int64_t k, Order a, Order b, DataType type) {
        std::mt19937 random(1);
        GemmProblem problem;
        problem.m = m, problem.n = n, problem.k = k;
        problem.dtype = type;
        problem.a = make(1, m, k, a, random, type).layout, problem.b = make(1, k, n, b, random, type).layout;
        problem.c = {n, 1, 0};
        return named("cpu_amx_rows").rejects(problem, queue().device()).has_value();
    };
    EXPECT_FALSE(rejects(8, 64, 64, Order::rows, Order::columns, DataType::bfloat16));
    EXPECT_TRUE(rejects(8, 64, 64, Order::columns, Order::columns, DataType::bfloat16));
    EXPECT_TRUE(rejects(8, 64, 64, Order::rows, Order::rows, DataType::bfloat16));
    EXPECT_TRUE(rejects(8, 64, 64, Order::rows, Order::columns, DataType::float16));
    EXPECT_TRUE(rejects(129, 150, 64, Order::rows, Order::columns, DataType::bfloat16));
    EXPECT_TRUE(rejects(8, 15, 64, Order::rows, Order::columns, DataType::bfloat16));
    EXPECT_TRUE(rejects(32, 64, 1 << 20, Order::rows, Order::columns, DataType::bfloat16));
}

// The same cuts by vectors of bfloat16, which stand in for tile registers.
class GemmBfloat16 : public testing::Test {
protected:
    void SetUp() override
    {
        GemmProblem problem;
        problem.m = problem.n = problem.k = 1;
        problem.dtype = DataType::bfloat16;
        if (detail::cpu_bfloat16_rejects(problem, queue().device()))
            GTEST_SKIP() << "for CPUs with AVX-512 BF16 and without AMX";
    }
};

TEST_F(GemmBfloat16, EveryCutGivesTheSame)
{
    each_cut([](const Cut& one, const Case& c) {
        for (const auto& [a, b] : {std::pair{Order::rows, Order::columns}, {Order::columns, Order::rows},
                                   {Order::spread, Order::spread}})
            check(one, c, a, b, Order::rows, DataType::bfloat16, 1, 0);
        check(one, c, Order::rows, Order::rows, Order::columns, DataType::bfloat16, -2, 1);
    });
}

const detail::GemmImplementation& rows_in_place() { return named("cpu_bfloat16_rows"); }

// Rows that are read where they lie or packed, results of every layout and either way round.
TEST_F(GemmBfloat16, RowsOfEveryOrder)
{
    for (const Case& c : cases)
        for (const Order a : {Order::rows, Order::columns, Order::spread})
            for (const Order b : {Order::rows, Order::columns, Order::spread})
                check(rows_in_place(), c, a, b, Order::rows, DataType::bfloat16, 1, 0);
    for (const Case& c : {Case{2, 29, 70, 36}, Case{1, 3, 300, 2048}, Case{1, 40, 32, 33}})
        for (const Order order : {Order::rows, Order::columns, Order::spread})
            check(rows_in_place(), c, Order::rows, Order::columns, order, DataType::bfloat16, -2, 1);
}

// A bias of each column and relu, which end in registers; weights that are packed once.
TEST_F(GemmBfloat16, BiasAndRelu)
{
    const std::int64_t m = 31, n = 80, k = 20;
    std::mt19937 random(3);
    Matrices a = make(1, m, k, Order::rows, random, DataType::bfloat16);
    Matrices b = make(1, k, n, Order::columns, random, DataType::bfloat16);
    Matrices bias = make(1, 1, n, Order::rows, random, DataType::bfloat16);
    Prepared prepared;
    for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu})
        for (Prepared* kept : {static_cast<Prepared*>(nullptr), &prepared, &prepared}) {
            const Tensor c = queue().context().empty({m, n}, DataType::bfloat16, queue());
            GemmProblem problem;
            problem.m = m, problem.n = n, problem.k = k;
            problem.dtype = DataType::bfloat16;
            problem.a = a.layout, problem.b = b.layout, problem.c = {n, 1, 0}, problem.d = {0, 1, 0};
            problem.add_d = true, problem.beta = 1, problem.activation = activation;
            problem.prepared_b = kept;
            rows_in_place().run(queue(), problem, {a.tensor, b.tensor, c, bias.tensor});
            const std::vector<double> got = download(c);
            for (std::int64_t i = 0; i < m; ++i)
                for (std::int64_t j = 0; j < n; ++j) {
                    double sum = at(bias, 0, 0, j);
                    for (std::int64_t kk = 0; kk < k; ++kk)
                        sum += at(a, 0, i, kk) * at(b, 0, kk, j);
                    if (activation == Activation::relu)
                        sum = std::max(sum, 0.0);
                    if (activation == Activation::gelu)
                        sum *= 0.5 * (1 + std::erf(sum * std::sqrt(0.5)));
                    ASSERT_NEAR(got[static_cast<std::size_t>(i * n + j)], sum, std::abs(sum) / 256 + 1e-6)
                        << i << " " << j;
                }
        }
}

// Infinities and NaN reach the row or column that they belong to, and no other.
TEST_F(GemmBfloat16, InfinitiesAndNaN)
{
    constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    const std::int64_t m = 37, n = 50, k = 150;
    for (const auto& [a_value, b_value] : {std::pair{infinity, 1.f}, {-infinity, 1.f}, {nan, 1.f}, {1.f, infinity},
                                          {infinity, -infinity}, {infinity, 0.f}, {0.f, nan}}) {
        std::mt19937 random(5);
        Matrices a = make(1, m, k, Order::rows, random, DataType::bfloat16);
        Matrices b = make(1, k, n, Order::rows, random, DataType::bfloat16);
        at(a, 0, 20, 140) = a_value;
        at(b, 0, 140, 20) = b_value;
        a.tensor = upload(a.host, DataType::bfloat16);
        b.tensor = upload(b.host, DataType::bfloat16);
        const Tensor c = queue().context().empty({m, n}, DataType::bfloat16, queue());
        GemmProblem problem;
        problem.m = m, problem.n = n, problem.k = k;
        problem.dtype = DataType::bfloat16;
        problem.a = a.layout, problem.b = b.layout, problem.c = {n, 1, 0};
        for (const bool in_place : {false, true}) {
            if (in_place)
                rows_in_place().run(queue(), problem, {a.tensor, b.tensor, c, {}});
            else
                detail::cpu_amx_by(cut(detail::amx_panels_shared, k, 1, false).plan, queue(), problem,
                                   {a.tensor, b.tensor, c, {}});
            const std::vector<double> got = download(c);
            for (std::int64_t i = 0; i < m; ++i)
                for (std::int64_t j = 0; j < n; ++j) {
                    double sum = 0;
                    for (std::int64_t kk = 0; kk < k; ++kk)
                        sum += at(a, 0, i, kk) * at(b, 0, kk, j);
                    const double value = got[static_cast<std::size_t>(i * n + j)];
                    if (std::isnan(sum))
                        ASSERT_TRUE(std::isnan(value)) << i << " " << j;
                    else
                        ASSERT_EQ(value, sum) << i << " " << j;   // whole numbers below 256, or infinities
                }
        }
    }
}

// As accurate as float32: random numbers with all bits, against double.
TEST_F(GemmAmx, KeepsEveryBit)
{
    for (const Case& c : {Case{1, 70, 90, 33}, Case{1, 64, 64, 512}, Case{2, 40, 33, 1500}})
        for (const bool turned : {false, true})
            check(cut(detail::amx_panels_own, c.k, 1, turned), c, Order::rows, Order::columns, Order::rows,
                  DataType::float32, 1, 0, false);
}

// One row of A and one column of B hold numbers that three bfloat16 do not, the rest must not notice.
TEST_F(GemmAmx, NumbersThatAreNotSplit)
{
    constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    const std::int64_t m = 70, n = 75, k = 150;
    for (const auto& [a_value, b_value] : {std::pair{infinity, 1.f}, {-infinity, 1.f}, {nan, 1.f}, {1.f, infinity},
                                          {1.f, nan}, {infinity, -infinity}, {infinity, 0.f}, {3.4e38f, 0.25f},
                                          {0.25f, -3.4e38f}, {1.2345678e-36f, 3.3333333e30f},
                                           {1e20f, 1.2345678e-37f}}) {
        std::mt19937 random(5);
        Matrices a = make(1, m, k, Order::rows, random, DataType::float32, false);
        Matrices b = make(1, k, n, Order::rows, random, DataType::float32, false);
        for (std::int64_t i = 0; i < k; ++i) {
            const bool tiny = std::fabs(a_value) < 1e-30f || std::fabs(b_value) < 1e-30f;   // all of a row or column
            if (i == 140 || tiny) {
                at(a, 0, 40, i) = static_cast<float>(tiny ? a_value * (1 + 0.001 * static_cast<double>(i)) : a_value);
                at(b, 0, i, 20) = b_value;
            }
        }
        a.tensor = upload(a.host, DataType::float32);
        b.tensor = upload(b.host, DataType::float32);
        for (const auto& [place, turned] : {std::pair{detail::amx_panels_local, false},
                                            {detail::amx_panels_own, true}, {detail::amx_panels_shared, false},
                                            {detail::amx_panels_shared, true}}) {
            Tensor c = queue().context().empty({m, n}, DataType::float32, queue());
            GemmProblem problem;
            problem.m = m, problem.n = n, problem.k = k;
            problem.a = a.layout, problem.b = b.layout, problem.c = {n, 1, 0};
            detail::cpu_amx_by(cut(place, k, 1, turned).plan, queue(), problem, {a.tensor, b.tensor, c, {}});
            const std::vector<double> got = download(c);
            for (std::int64_t i = 0; i < m; ++i)
                for (std::int64_t j = 0; j < n; ++j) {
                    double sum = 0, magnitude = 0;
                    for (std::int64_t kk = 0; kk < k; ++kk) {
                        sum += at(a, 0, i, kk) * at(b, 0, kk, j);
                        magnitude += std::fabs(at(a, 0, i, kk) * at(b, 0, kk, j));
                    }
                    if (std::fabs(sum) > std::numeric_limits<float>::max())
                        sum = std::copysign(infinity, sum);
                    const double value = got[static_cast<std::size_t>(i * n + j)];
                    const auto where = ::testing::Message() << a_value << " " << b_value << " at " << i << " " << j;
                    if (std::isnan(sum))
                        ASSERT_TRUE(std::isnan(value)) << where;
                    else if (std::isinf(sum))
                        ASSERT_EQ(value, sum) << where;
                    else
                        ASSERT_NEAR(value, sum, 1.3e-6 * magnitude) << where;
                }
        }
    }
}

}  // namespace
