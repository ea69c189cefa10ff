// Products by matrix engines: every engine's registers and slabs by emulation, and the device's own where it has one.
#include <limits>

#include <kernels/gemm/gpu_matrix.hpp>

#include "gemm_matrices.hpp"
#include "kernels/matrix_engine_test.hpp"

using namespace clprim;
using namespace clprim::testing_gemm;
using detail::MatrixEngine;

namespace {

struct Engine {
    std::string name;
    detail::MatrixEngineChoice choice;
    Rejection rejects(const GemmProblem& problem, const Device& device) const
    {
        return detail::gpu_matrix_rejects_by(choice, problem, device);
    }
    void run(Queue& q, const GemmProblem& problem, const detail::GemmTensors& tensors) const
    {
        detail::gpu_matrix_by(choice, false, q, problem, tensors);
    }
};

class GemmMatrix : public test::MatrixEngineTest {
protected:
    void SetUp() override
    {
        MatrixEngineTest::SetUp();
        one = {GetParam(), engine};
    }
    Engine one;
};

struct InCut {
    const Engine& one;
    detail::MatrixCut cut;
    std::string name;
    Rejection rejects(const GemmProblem& problem, const Device& device) const { return one.rejects(problem, device); }
    void run(Queue& q, const GemmProblem& problem, const detail::GemmTensors& tensors) const
    {
        detail::gpu_matrix_in(one.choice, cut, q, problem, tensors);
    }
};

constexpr DataType types[] = {DataType::float16, DataType::bfloat16};

}  // namespace

// Whole tiles, edges of all kinds and a rest of k, in groups of eight and element by element, a k that is cut; numbers
// whose sums are exact, so that results must be equal. RoundsOnce has rows by rows.
TEST_P(GemmMatrix, EveryTransposition)
{
    const Order rows = Order::rows_of_fours, columns = Order::columns_of_fours;
    check(one, {2, 72, 72, 40}, rows, columns, rows, DataType::float16, 1, 0);
    check(one, {2, 72, 72, 40}, columns, rows, rows, DataType::bfloat16, 1, 0);
    check(one, {2, 72, 72, 40}, columns, columns, rows, DataType::float16, 1, 0);
    check(one, {1, 70, 83, 37}, Order::rows, Order::columns, Order::rows, DataType::bfloat16, 1, 0);
    check(one, {1, 60, 83, 37}, Order::rows, Order::columns, Order::rows, DataType::float16, 1, 0);
    if (one.choice.engine == MatrixEngine::dpas8) {   // whose sums leave along rows of C, where D is read as well
        check(one, {2, 72, 76, 40}, rows, rows, Order::rows_of_fours, DataType::float16, 2, 1);
        check(one, {1, 70, 83, 37}, Order::rows, Order::rows, Order::rows, DataType::bfloat16, -3, 2);
    }
    if (one.choice.engine == MatrixEngine::mma || one.choice.engine == MatrixEngine::dpas16) {
        check(one, {1, 40, 24, 600}, rows, columns, Order::rows, DataType::float16, 2, 1);
        check(one, {1, 20, 70, 40}, Order::spread, Order::columns, Order::columns, DataType::float16, -3, 2);
    }
}

// Every tile that an engine may take, with k in one part and in several.
TEST_P(GemmMatrix, EveryCut)
{
    int ran = 0;
    for (const auto& [tile, share] : detail::gemm_tiles(one.choice.engine)) {
        if (!detail::tile_fits(one.choice, tile, queue().device()))
            continue;
        for (const bool along_k : {true, false}) {
            if (!detail::tile_suits(one.choice.engine, tile, {264, 280, 1, along_k, along_k}))
                continue;
            const InCut whole{one, {tile, 1}, std::string(one.name) + " whole"}, cut{one, {tile, 2}, one.name + " cut"};
            const Order a = along_k ? Order::rows_of_fours : Order::columns_of_fours;
            const Order b = along_k ? Order::columns_of_fours : Order::rows_of_fours;
            check(whole, {1, 264, 280, 40}, a, b, Order::rows, DataType::float16, 1, 0);
            check(cut, {1, 72, 136, 520}, a, b, Order::rows, DataType::bfloat16, 1, 1);
            ++ran;
        }
    }
    EXPECT_GE(ran, 2);
}

// Slabs that are copied past registers: fewer of them than lie in local memory, as many, and more, with and without a
// rest of k, in all transpositions; operands that cannot be copied so.
TEST_P(GemmMatrix, SlabsInStages)
{
    const bool portable = queue().device().platform_name.find("Portable") != std::string::npos;
    int ran = 0;
    for (const auto& [tile, share] : detail::gemm_tiles(one.choice.engine)) {
        if (tile.stages == 0 || !detail::tile_fits(one.choice, tile, queue().device()))
            continue;
        const InCut whole{one, {tile, 1}, one.name + " whole"}, cut{one, {tile, 2}, one.name + " cut"};
        const Order rows = Order::rows_of_fours, columns = Order::columns_of_fours;
        for (const Order a : {rows, columns})
            for (const Order b : {rows, columns}) {
                const DataType type = a == b ? DataType::float16 : DataType::bfloat16;
                for (const std::int64_t k : {8, 16, 40, 64, 104, 128, 264})
                    check(whole, {1, 72, 136, k}, a, b, Order::rows, type, 1, 0);
                check(cut, {2, 264, 24, 536}, a, b, Order::rows, type, 1, 1);
                if (portable && ++ran)   // its compiler takes minutes
                    return;
            }
        check(whole, {1, 2200, 300, 8}, rows, rows, Order::columns, DataType::float16, -1, 2);   // bands of rows
        check(whole, {1, 45, 83, 43}, Order::rows, Order::rows, Order::rows, DataType::float16, 1, 0);
        check(whole, {1, 70, 83, 37}, Order::spread, Order::columns, Order::rows, DataType::float16, 1, 0);
        ++ran;
    }
    EXPECT_TRUE(ran > 0 || one.choice.engine != MatrixEngine::mma);
}

// What becomes of the sums of warpgroups: bias, activation, C of float32 beside short operands.
TEST_P(GemmMatrix, WhatFollowsWarpgroups)
{
    struct Way {
        DataType type, c_type;
        Activation activation;
        bool bias;
    };
    const std::int64_t batch = 2, m = 136, n = 152, k = 104;
    for (const auto& [tile, share] : detail::gemm_tiles(one.choice.engine)) {
        if (!tile.warpgroups || !detail::tile_fits(one.choice, tile, queue().device()))
            continue;
        for (const Way& way : {Way{DataType::float16, DataType::float16, Activation::relu, true},
                               Way{DataType::bfloat16, DataType::float32, Activation::none, true},
                               Way{DataType::float16, DataType::float32, Activation::gelu_tanh, false},
                               Way{DataType::bfloat16, DataType::bfloat16, Activation::gelu, true}}) {
            std::mt19937 random(13);
            Matrices a = make(batch, m, k, Order::columns_of_fours, random, way.type);
            Matrices b = make(batch, k, n, Order::rows_of_fours, random, way.type);
            Matrices bias = make(1, 1, n, Order::rows, random, way.c_type);
            GemmProblem problem;
            problem.batch = batch, problem.m = m, problem.n = n, problem.k = k;
            problem.dtype = way.type;
            problem.a = a.layout, problem.b = b.layout, problem.c = {n, 1, m * n}, problem.d = {0, 1, 0};
            problem.alpha = 0.25, problem.beta = 0.5;
            problem.add_d = way.bias;
            problem.activation = way.activation;
            const Tensor c = queue().context().empty({batch, m, n}, way.c_type, queue());
            detail::gpu_matrix_in(one.choice, {tile, 1}, queue(), problem,
                                  {a.tensor, b.tensor, c, way.bias ? bias.tensor : Tensor()});
            const std::vector<double> got = download(c);
            for (std::int64_t of = 0; of < batch; ++of)
                for (std::int64_t i = 0; i < m; ++i)
                    for (std::int64_t j = 0; j < n; ++j) {
                        double v = way.bias ? 0.5 * bias.host[static_cast<std::size_t>(j)] : 0;
                        for (std::int64_t kk = 0; kk < k; ++kk)
                            v += 0.25 * at(a, of, i, kk) * at(b, of, kk, j);
                        if (way.activation == Activation::relu)
                            v = std::max(v, 0.0);
                        if (way.activation == Activation::gelu)
                            v = 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
                        if (way.activation == Activation::gelu_tanh)
                            v = 0.5 * v * (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (v + 0.044715 * v * v * v)));
                        const double unit = way.c_type == DataType::bfloat16 ? 0x1p-8 : 0x1p-11;
                        ASSERT_NEAR(got[static_cast<std::size_t>((of * m + i) * n + j)], v, std::fabs(v) * unit + 1e-6)
                            << name_of(way.type) << " to " << name_of(way.c_type) << " " << of << " " << i << " " << j;
                    }
        }
    }
}

// Few lines at odd places are read as they lie, eight numbers at a time where the allocation goes on behind the last
// one, which it does not behind 256 lines of any length.
TEST_P(GemmMatrix, FewLinesAtOddPlaces)
{
    check(one, {2, 45, 83, 43}, Order::rows, Order::rows, Order::rows, DataType::float16, 1, 0);
    check(one, {1, 83, 45, 37}, Order::columns, Order::rows, Order::rows, DataType::bfloat16, 1, 0);
    check(one, {1, 51, 37, 33}, Order::columns, Order::columns, Order::rows, DataType::float16, 1, 0);
    check(one, {1, 256, 19, 35}, Order::rows, Order::columns, Order::rows, DataType::float16, 1, 0);
    check(one, {1, 9, 11, 3}, Order::rows, Order::columns, Order::rows, DataType::bfloat16, 1, 0);
}

// Lines at odd places that are copied first: of one operand or both, in every direction, with and without a rest of k.
TEST_P(GemmMatrix, OperandsArePadded)
{
    const Order fours = Order::rows_of_fours;
    check(one, {2, 65, 83, 40}, Order::columns, fours, Order::rows, DataType::float16, 1, 0);
    check(one, {1, 72, 81, 37}, Order::columns, Order::rows, Order::columns, DataType::bfloat16, -1, 2);
    if (one.choice.engine != MatrixEngine::mma && one.choice.engine != MatrixEngine::dpas16)
        return;
    for (const Order a : {Order::rows, Order::columns, Order::spread})
        for (const Order b : {Order::rows, Order::columns, Order::spread})
            for (const std::int64_t k : {33, 48}) {
                check(one, {2, 67, 75, k}, a, b, Order::rows, DataType::float16, 1, 0);
                check(one, {1, 64, 72, k + 500}, a, b, Order::columns, DataType::bfloat16, 1, 0);
            }
}

// Numbers of eight bits, whose sums float holds exactly: what comes out is the exact sum rounded once, to infinity
// where it is too large. What is infinite or NaN in one row does not reach the others.
TEST_P(GemmMatrix, RoundsOnce)
{
    const std::int64_t m = 40, n = 48, k = 96;
    for (const DataType type : types) {
        std::mt19937 random(11);
        std::uniform_int_distribution<int> bits(-127, 127);
        Matrices a = make(1, m, k, Order::rows_of_fours, random, type);
        Matrices b = make(1, k, n, Order::rows_of_fours, random, type);
        for (Matrices* matrix : {&a, &b})
            for (double& v : matrix->host)
                v = bits(random) / 32.0;
        b.tensor = upload(b.host, type);
        a.tensor = upload(a.host, type);
        const std::uint16_t special[2] = {type == DataType::float16 ? std::uint16_t{0x7c00} : std::uint16_t{0x7f80},
                                          type == DataType::float16 ? std::uint16_t{0x7e00} : std::uint16_t{0x7fc0}};
        for (const std::int64_t i : {0, 1})   // infinity in row 3, NaN in row 4
            queue().write(*a.tensor.memory, static_cast<std::size_t>(2 * ((3 + i) * a.layout.row + 50)), &special[i],
                          2);
        Tensor c = queue().context().empty({m, n}, type, queue());
        GemmProblem problem;
        problem.m = m, problem.n = n, problem.k = k;
        problem.dtype = type;
        problem.a = a.layout, problem.b = b.layout, problem.c = {n, 1, 0};
        problem.alpha = 512;
        if (const auto reason = one.rejects(problem, queue().device()))
            GTEST_SKIP() << *reason;
        one.run(queue(), problem, {a.tensor, b.tensor, c, {}});
        std::vector<std::uint16_t> got(static_cast<std::size_t>(m * n));
        queue().read(*c.memory, 0, got.data(), got.size() * 2);
        int infinite = 0;
        for (std::int64_t i = 0; i < m; ++i)
            for (std::int64_t j = 0; j < n; ++j) {
                double sum = 0;
                for (std::int64_t kk = 0; kk < k; ++kk)
                    sum += (kk == 50 && i == 3 ? std::numeric_limits<double>::infinity() : at(a, 0, i, kk)) *
                           at(b, 0, kk, j);
                const std::uint16_t expected = rounded_bits(512 * sum, type);
                const std::uint16_t value = got[static_cast<std::size_t>(i * n + j)];
                infinite += type == DataType::float16 && (value & 0x7fff) == 0x7c00;
                if (i == 4 || std::isnan(sum)) {
                    EXPECT_GT(value & 0x7fff, special[0]) << i << " " << j;
                } else
                    ASSERT_EQ(value, expected) << one.name << " " << name_of(type) << " " << i << " " << j;
            }
        EXPECT_TRUE(type == DataType::bfloat16 || infinite > n) << "sums that overflow were to be tried";
    }
}

// float32 by one or three products of bfloat16: within docs/precision.md's bounds of the sum of magnitudes, but not
// within a tenth of them, which would mean that all bits were taken; exact where eight bits hold the operands.
TEST_P(GemmMatrix, Float32OfReducedPrecision)
{
    if (one.choice.engine != MatrixEngine::mma && one.choice.engine != MatrixEngine::dpas16)
        GTEST_SKIP() << "the same kernel splits operands for all engines";
    struct Way {
        Order a, b, c;
        Float32Precision precision;
        std::int64_t batch, m, n, k;
    };
    for (const Way& way : {Way{Order::rows, Order::rows, Order::rows, Float32Precision::high, 1, 70, 83, 37},
                           Way{Order::columns, Order::columns, Order::columns, Float32Precision::high, 2, 40, 72, 40},
                           Way{Order::spread, Order::columns, Order::rows, Float32Precision::medium, 1, 33, 70, 130},
                           Way{Order::rows, Order::spread, Order::rows, Float32Precision::high, 1, 24, 20, 600}})
        for (const bool exact : {false, true}) {
            std::mt19937 random(5);
            Matrices a = make(way.batch, way.m, way.k, way.a, random, DataType::float32, exact);
            Matrices b = make(way.batch, way.k, way.n, way.b, random, DataType::float32, exact);
            Matrices out = make(way.batch, way.m, way.n, way.c, random, DataType::float32, exact);
            GemmProblem problem;
            problem.batch = way.batch, problem.m = way.m, problem.n = way.n, problem.k = way.k;
            problem.a = a.layout, problem.b = b.layout, problem.c = problem.d = out.layout;
            problem.beta = -2;
            problem.add_d = problem.d_is_c = true;
            problem.precision = way.precision;
            detail::gpu_split_by(one.choice, queue(), problem, {a.tensor, b.tensor, out.tensor, out.tensor});
            const std::vector<double> got = download(out.tensor);
            const double bound = way.precision == Float32Precision::high ? 0x1p-16 : 0x1p-8;
            double worst = 0;
            for (std::int64_t batch = 0; batch < way.batch; ++batch)
                for (std::int64_t i = 0; i < way.m; ++i)
                    for (std::int64_t j = 0; j < way.n; ++j) {
                        double& target = at(out, batch, i, j);
                        double sum = -2 * target, magnitude = std::fabs(sum);
                        for (std::int64_t k = 0; k < way.k; ++k) {
                            sum += at(a, batch, i, k) * at(b, batch, k, j);
                            magnitude += std::fabs(at(a, batch, i, k) * at(b, batch, k, j));
                        }
                        const double value = got[static_cast<std::size_t>(&target - out.host.data())];
                        ASSERT_NEAR(value, sum, exact ? 0 : bound * magnitude) << describe(problem);
                        worst = std::max(worst, std::fabs(value - sum) / std::max(magnitude, 1e-30));
                    }
            if (!exact) {
                EXPECT_GT(worst, bound / 60) << describe(problem);
                RecordProperty("worst_of_bound_" + std::to_string(way.k), std::to_string(worst / bound));
            }
        }
}

TEST_P(GemmMatrix, Float32OfReducedPrecisionKeepsInfinities)
{
    if (one.choice.engine != MatrixEngine::mma)
        GTEST_SKIP() << "the same kernel splits operands for all engines";
    constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    const std::int64_t m = 5, n = 6, k = 40;
    std::vector<double> a(m * k, 1.5), b(n * k, 0.3);
    a[0 * k + 7] = infinity, a[1 * k + 9] = nan, a[2 * k + 3] = 3.4e38f, a[3 * k + 1] = -infinity;
    b[4 * k + 20] = infinity;   // column 4; b is stored by columns
    for (const Float32Precision precision : {Float32Precision::high, Float32Precision::medium}) {
        GemmProblem problem;
        problem.m = m, problem.n = n, problem.k = k;
        problem.a = {k, 1, 0}, problem.b = {1, k, 0}, problem.c = {n, 1, 0};
        problem.precision = precision;
        Tensor c = queue().context().empty({m, n}, DataType::float32, queue());
        detail::gpu_split_by(one.choice, queue(), problem,
                             {upload(a, DataType::float32), upload(b, DataType::float32), c, {}});
        const std::vector<double> got = download(c);
        for (std::int64_t j = 0; j < n; ++j) {
            EXPECT_EQ(got[static_cast<std::size_t>(j)], infinity);
            EXPECT_TRUE(std::isnan(got[static_cast<std::size_t>(n + j)]));
            if (j != 4) {
                EXPECT_NEAR(got[static_cast<std::size_t>(2 * n + j)] / (0.3 * 3.4e38), 1, 0x1p-7);
            }
            EXPECT_TRUE(j == 4 ? std::isnan(got[static_cast<std::size_t>(3 * n + j)])
                               : got[static_cast<std::size_t>(3 * n + j)] == -infinity);
            if (j != 4) {
                EXPECT_NEAR(got[static_cast<std::size_t>(4 * n + j)], 18, 0.15);
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Engines, GemmMatrix, clprim::test::matrix_engines(), clprim::test::name_of_engine);

TEST(MatrixEngines, AreNamedAndNeverEmulatedUnasked)
{
    const Device& device = queue().device();
    EXPECT_EQ(detail::matrix_engine(device, "none").engine, MatrixEngine::none);
    EXPECT_TRUE(detail::matrix_engine(device, "emulated_wmma").emulated);
    EXPECT_FALSE(detail::matrix_engine(device, "dpas8").emulated);
    for (const char* name : {"tensor", "emulated_none", "emulated_"})
        EXPECT_THROW(detail::matrix_engine(device, name), InvalidArgument) << name;
    if (!detail::matrix_engine(device, "").emulated)
        return;
    GemmProblem problem;
    problem.m = problem.n = problem.k = 256;
    problem.dtype = DataType::float16;
    for (const auto& one : detail::gemm_implementations()) {
        if (one.name == "gpu_matrix") {
            EXPECT_TRUE(one.rejects(problem, device) || one.advises_against(problem, device));
        }
    }
}

// What is believed of a device is what it computes.
TEST(MatrixEngines, AreProbed)
{
    const Device& device = queue().device();
    if (device.kind != DeviceKind::gpu)
        GTEST_SKIP() << "for GPUs";
    EXPECT_TRUE(detail::try_matrix_engine(device, {MatrixEngine::mma, true, true}, DataType::float16));
    EXPECT_TRUE(detail::try_matrix_engine(device, {MatrixEngine::mma, true, true}, DataType::bfloat16));
    EXPECT_TRUE(detail::try_copies_past_registers(device, {MatrixEngine::mma, true, true}));
    EXPECT_TRUE(detail::try_warpgroups(device, {MatrixEngine::mma, true, true}));
    if (detail::matrix_engine(device, "").emulated) {
        EXPECT_FALSE(detail::try_matrix_engine(device, {MatrixEngine::dpas16, false, true}, DataType::float16));
    }
}

// As users force it, with what follows a product: bias and activation.
TEST(MatrixEngines, BiasAndActivationWhenAskedFor)
{
    const std::int64_t m = 40, n = 48, k = 40;
    std::mt19937 random(3);
    for (const DataType type : types) {
        Matrices a = make(1, m, k, Order::rows_of_fours, random, type);
        Matrices b = make(1, k, n, Order::rows_of_fours, random, type);
        Matrices bias = make(1, 1, n, Order::rows, random, type);
        Tensor c = queue().context().empty({m, n}, type, queue());
        GemmProblem problem;
        problem.m = m, problem.n = n, problem.k = k;
        problem.dtype = type;
        problem.a = a.layout, problem.b = b.layout, problem.c = {n, 1, 0}, problem.d = {0, 1, 0};
        problem.alpha = 0.25;
        problem.activation = Activation::gelu_tanh;
        prefer_implementation("gemm", "gpu_matrix");
        gemm(queue(), problem, a.tensor, b.tensor, c, bias.tensor);
        prefer_implementation("gemm", "");
        const std::vector<double> got = download(c);
        for (std::int64_t i = 0; i < m; ++i)
            for (std::int64_t j = 0; j < n; ++j) {
                double v = 0;
                for (std::int64_t kk = 0; kk < k; ++kk)
                    v += 0.25 * at(a, 0, i, kk) * at(b, 0, kk, j);
                v += bias.host[static_cast<std::size_t>(j)];
                v = 0.5 * v * (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (v + 0.044715 * v * v * v)));
                ASSERT_NEAR(got[static_cast<std::size_t>(i * n + j)], v,
                            std::fabs(v) * (type == DataType::float16 ? 6e-4 : 5e-3) + 1e-6) << i << " " << j;
            }
    }
}
