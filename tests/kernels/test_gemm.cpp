#include <core/matrix_engine.hpp>
#include <kernels/gemm/cpu_packed.hpp>
#include <kernels/gemm/gpu_tile.hpp>

#include "gemm_matrices.hpp"

using namespace clprim;
using namespace clprim::testing_gemm;

namespace {

class Gemm : public testing::TestWithParam<std::size_t> {
protected:
    void SetUp() override
    {
        if (one.name == "gpu_matrix")
            GTEST_SKIP() << "test_gemm_matrix has it, with fewer programs";
    }
    const detail::GemmImplementation& one = detail::gemm_implementations()[GetParam()];
};

}  // namespace

TEST_P(Gemm, EveryShapeAndTransposition)
{
    for (const Case& c : cases)
        for (const Order a : {Order::rows, Order::columns})
            for (const Order b : {Order::rows, Order::columns})
                for (const double beta : {0.0, 2.0})
                    check(one, c, a, b, Order::rows, DataType::float32, beta == 0 ? 1 : -3, beta);
}

TEST_P(Gemm, EveryLayoutOfC)
{
    for (const Case& c : {Case{1, 13, 33, 17}, Case{2, 33, 64, 270}, Case{1, 1, 40, 9}, Case{1, 70, 2, 9}})
        for (const Order order : {Order::columns, Order::spread})
            for (const Order other : {Order::rows, Order::spread})
                check(one, c, other, other, order, DataType::float32, 2, 1);
}

// Sizes and lines that are multiples of four elements, which kernels may read and write four at a time; large tiles
// with remainders of every kind.
TEST_P(Gemm, LinesOfFours)
{
    const Order rows = Order::rows_of_fours, columns = Order::columns_of_fours;
    for (const Case& c : {Case{1, 132, 260, 44}, Case{2, 64, 68, 20}, Case{1, 3, 72, 340}, Case{2, 1, 68, 600},
                          Case{1, 68, 1, 1100}, Case{2, 7, 100, 340}, Case{1, 16, 68, 600}, Case{1, 72, 12, 1100}})
        for (const Order a : {rows, columns})
            for (const Order b : {rows, columns})
                check(one, c, a, b, rows, DataType::float32, 2, 1);
    for (const DataType type : {DataType::float64, DataType::float16, DataType::bfloat16, DataType::int8})
        if (type != DataType::float64 || queue().device().fp64) {
            check(one, {1, 132, 68, 40}, rows, columns, rows, type, 1, 0);
            check(one, {1, 2, 68, 340}, rows, rows, rows, type, 1, 0);
            check(one, {1, 13, 68, 340}, rows, columns, rows, type, 1, 0);
        }
}

TEST_P(Gemm, EveryDtype)
{
    for (const DataType type : {DataType::float64, DataType::float16, DataType::bfloat16, DataType::int8,
                                DataType::uint8, DataType::int16, DataType::int32, DataType::int64}) {
        if (type == DataType::float64 && !queue().device().fp64)
            continue;
        for (const Case& c : {Case{1, 13, 33, 17}, Case{2, 50, 40, 300}, Case{1, 1, 40, 90}, Case{1, 30, 1, 300},
                              Case{5, 9, 12, 10}})
            for (const Order order : {Order::rows, Order::columns, Order::spread})
                check(one, c, order, order, Order::rows, type, 1, order == Order::rows ? 0 : 1);
    }
}

TEST_P(Gemm, RandomNumbersAgainstDouble)
{
    for (const Case& c : {Case{1, 70, 90, 700}, Case{2, 5, 17, 129}, Case{1, 1, 300, 513}})
        check(one, c, Order::rows, Order::columns, Order::rows, DataType::float32, 1.5, 0.5, false);
    // Odd rows that end where their allocation does: nothing may be read behind them.
    check(one, {1, 128, 128, 33}, Order::rows, Order::columns, Order::rows, DataType::float32, 1, 0, false);
    check(one, {1, 33, 35, 128}, Order::columns, Order::rows, Order::rows, DataType::float32, 1, 0, false);
}

INSTANTIATE_TEST_SUITE_P(All, Gemm, testing::Range(std::size_t{0}, detail::gemm_implementations().size()),
                         [](const auto& info) { return std::string(detail::gemm_implementations()[info.param].name); });

// Every way to cut a problem, whatever the planner would choose here: what it chooses depends on the machine.
TEST(GemmCpuPlans, AllGiveTheSame)
{
    struct Cut {
        std::string name;
        detail::CpuPlan plan;
        Rejection rejects(const GemmProblem& problem, const Device& device) const
        {
            return detail::cpu_packed_rejects(problem, device);
        }
        void run(Queue& queue, const GemmProblem& problem, const detail::GemmTensors& tensors) const
        {
            detail::cpu_packed_by(plan, queue, problem, tensors);
        }
    };
    const Case c{2, 61, 147, 210};
    for (const auto place : {detail::panels_local, detail::panels_own, detail::panels_shared, detail::panels_single})
        for (const std::int64_t splits : {1, 3})
            for (const bool direct : {false, true})
                for (const bool turned : {false, true}) {
                    if ((place == detail::panels_shared && splits > 1) || (direct && place != detail::panels_local))
                        continue;
                    Cut one{"place " + std::to_string(place) + " splits " + std::to_string(splits) +
                                (direct ? " direct" : "") + (turned ? " turned" : ""), {}};
                    const std::int64_t split_depth = splits == 1 ? c.k : 80;
                    one.plan.turned = turned;
                    one.plan.kernel = {place == detail::panels_local ? 36 : 48, 64, splits, split_depth, 64,
                                       place == detail::panels_single ? 48 : direct ? 12 : 24, place, direct, 0};
                    for (const Order order : {Order::rows, Order::columns})
                        for (const double beta : {0.0, 1.0}) {
                            // Only rows of A that are contiguous, the way it is turned, are read directly.
                            const Order a = direct ? (turned ? order : Order::rows) : order;
                            const Order b = direct && turned ? Order::columns : order;
                            check(one, c, a, b, Order::rows, DataType::float32, 1, beta);
                        }
                }
}

namespace {

struct AtPoint {
    const detail::GemmImplementation& one;
    Point point;
    std::string name;
    Rejection rejects(const GemmProblem& problem, const Device& device) const
    {
        return one.rejects(problem, device);
    }
    void run(Queue& queue, const GemmProblem& problem, const detail::GemmTensors& tensors) const
    {
        one.run_at(queue, problem, point, tensors);
    }
};

}  // namespace

// Every point that tuning may take: all of small spaces, an even sample of large ones.
TEST(GemmSpaces, EveryPointGivesTheSame)
{
    GemmProblem like;
    like.m = 61, like.n = 147, like.k = 417;
    int ran = 0, unfit = 0;
    for (const detail::GemmImplementation& one : detail::gemm_implementations()) {
        if (!one.space || one.rejects(like, queue().device()))
            continue;
        const std::vector<Point> points = every_point(one.space(like, queue().device()));
        const std::size_t step = points.size() <= 64 ? 1 : points.size() / 40 | 1;
        for (std::size_t i = 0; i < points.size(); i += step)
            try {
                const AtPoint at{one, points[i], std::string(one.name) + " " + points[i].text()};
                check(at, {1, like.m, like.n, like.k}, Order::rows, Order::columns, Order::rows, DataType::float32, 1,
                      0);
                ++ran;
            } catch (const NotSupported&) {
                ++unfit;
            }
    }
    EXPECT_GE(ran, unfit / 2) << "most points should be worth a trial";
    EXPECT_GT(ran, queue().device().kind == DeviceKind::gpu ? 25 : 10);
}

// Slabs that are copied past registers or go through them, both kinds of order among work-items: one slab and several,
// with a rest and without, lines that tiles do not divide, parts of k.
TEST(GemmSpaces, SlabsPastRegisters)
{
    const auto all = detail::gemm_implementations();
    const auto one = std::ranges::find(all, "gpu_tiled", &detail::GemmImplementation::name);
    ASSERT_NE(one, all.end());
    GemmProblem like;
    like.m = like.n = like.k = 512;
    if (one->rejects(like, queue().device()))
        GTEST_SKIP() << "for GPUs";
    const Space space = one->space(like, queue().device());
    int staged = 0;
    const bool slow = queue().device().platform_name.find("Portable") != std::string::npos;   // its compiler
    for (const std::string_view tile : {"tile=32:slab=8", "tile=64:slab=16", "tile=128:slab=8"})
        for (const int stages : {0, 2, 3})
            for (const int interleaved : {0, 1}) {
                const std::string text = std::string(tile) + ":splits=1:stages=" + std::to_string(stages) +
                                         ":interleaved=" + std::to_string(interleaved);
                if (std::ranges::find(space.back().values, stages) == space.back().values.end())
                    continue;   // a device whose copies past registers do not work
                if (slow && (tile != "tile=32:slab=8" || stages + interleaved == 3))
                    continue;
                staged += stages > 0;
                AtPoint at{*one, Point::parse(text, space), text};
                for (const Order a : {Order::rows, Order::columns})
                    for (const Order b : {Order::rows, Order::columns}) {
                        check(at, {2, 140, 196, 44}, a, b, Order::rows, DataType::float32, 1, 0);
                        check(at, {1, 64, 132, 8}, a, b, Order::rows, DataType::float32, 1, 0);
                        check(at, {1, 36, 40, 4}, a, b, Order::columns, DataType::float32, -2, 1);
                    }
                at.point.set("splits", 2);
                check(at, {1, 68, 72, 308}, Order::rows, Order::rows, Order::rows, DataType::float32, 1, 0);
                check(at, {1, 33, 35, 37}, Order::columns, Order::rows, Order::rows, DataType::float64, 1, 0);
            }
    if (detail::matrix_engine(queue().device(), "").emulated)
        EXPECT_EQ(staged, slow ? 2 : 12);
}

// What was measured to be best on an H100, and what it was before tiles and parts were chosen together: for 128 x 4096
// sums of 4096 products 0.13 ms, not 0.27.
TEST(GemmSpaces, TilesAndPartsOfManyCores)
{
    Device device;
    device.kind = DeviceKind::gpu;
    device.index = 1000;
    device.vendor = "NVIDIA Corporation";
    device.compute_units = 132;
    device.max_work_group_size = 1024;
    device.local_memory = 49148;
    device.extensions = {"cl_nv_compiler_options"};
    const auto best = [&](std::int64_t rows, std::int64_t columns, std::int64_t depth) {
        return detail::best_tiled_cut(device, DataType::float32, {rows, columns, 1, depth,
                                      static_cast<double>(rows * columns), depth / 128});
    };
    const detail::TiledCut large = best(4096, 4096, 4096), few = best(128, 4096, 4096), fewest = best(24, 4096, 4096);
    EXPECT_EQ(large.tile.lines, 128);
    EXPECT_EQ(large.parts, 1);
    EXPECT_EQ(few.tile.lines, 128);
    EXPECT_GE(few.parts, 4);
    EXPECT_LE(few.parts, 8);
    EXPECT_EQ(fewest.tile.lines, 32);
    EXPECT_GE(fewest.parts, 4);
    const auto pixels = [&](int resident) {   // a convolution's: no parts, 128 at a time with slabs of 8
        return detail::best_tiled_cut(device, DataType::float32, {512, 6272, 1, 4608, 0, 1},
                                      [&](detail::GpuTile& tile) {
                                          if (tile.lines == 128)
                                              tile.slab_k = 8, tile.resident = resident;
                                      });
    };
    EXPECT_EQ(pixels(2).tile.lines, 128);
    EXPECT_EQ(pixels(1).tile.lines, 64) << "nothing works while a large tile waits";
}

TEST(GemmEpilogue, BiasAndActivation)
{
    const std::int64_t m = 30, n = 45, k = 20;
    std::mt19937 random(3);
    Matrices a = make(1, m, k, Order::rows, random, DataType::float32);
    Matrices b = make(1, k, n, Order::columns, random, DataType::float32);
    Matrices row = make(1, 1, n, Order::rows, random, DataType::float32);
    for (const bool along_n : {true, false}) {
        Tensor c = queue().context().empty({m, n}, DataType::float32, queue());
        GemmProblem problem;
        problem.m = m, problem.n = n, problem.k = k;
        problem.a = a.layout, problem.b = b.layout, problem.c = {n, 1, 0};
        problem.d = along_n ? MatrixLayout{0, 1, 0} : MatrixLayout{1, 0, 0};
        problem.activation = Activation::relu;
        gemm(queue(), problem, a.tensor, b.tensor, c, row.tensor);
        const std::vector<double> got = download(c);
        for (std::int64_t i = 0; i < m; ++i)
            for (std::int64_t j = 0; j < n; ++j) {
                double sum = row.host[static_cast<std::size_t>(along_n ? j : i)];
                for (std::int64_t kk = 0; kk < k; ++kk)
                    sum += at(a, 0, i, kk) * at(b, 0, kk, j);
                ASSERT_EQ(got[static_cast<std::size_t>(i * n + j)], std::max(sum, 0.0)) << i << " " << j;
            }
    }
}

// What is kept of B serves any rows of A, and either matrix may be the one that is kept.
TEST(GemmPrepared, OneMatrixForAnyRows)
{
    std::mt19937 random(5);
    for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{147, 210}, {64, 801}, {300, 33}, {40, 400}})
        for (const DataType type : {DataType::float32, DataType::float16, DataType::int32})
            for (const Order order : {Order::rows, Order::columns, Order::spread}) {
                const Matrices b = make(1, k, n, order, random, type);
                Prepared as_b, as_a;
                for (const std::int64_t m : {300, 1, 61, 130, 300, 12}) {
                    const Matrices a = make(1, m, k, Order::rows, random, type);
                    GemmProblem problem;
                    problem.dtype = type;
                    problem.m = m, problem.n = n, problem.k = k;
                    problem.a = a.layout, problem.b = b.layout, problem.c = {n, 1, 0};
                    const Tensor c = queue().context().empty({m, n}, type, queue());
                    gemm(queue(), problem, a.tensor, b.tensor, c);
                    const std::vector<double> expected = download(c);
                    problem.prepared_b = &as_b;
                    gemm(queue(), problem, a.tensor, b.tensor, c);
                    ASSERT_EQ(download(c), expected) << describe(problem);
                    const auto turned = [](const MatrixLayout& of) { return MatrixLayout{of.column, of.row, 0}; };
                    problem.m = n, problem.n = m;
                    problem.a = turned(b.layout), problem.b = turned(a.layout), problem.c = turned(problem.c);
                    problem.prepared_a = &as_a, problem.prepared_b = nullptr;
                    gemm(queue(), problem, b.tensor, a.tensor, c);
                    ASSERT_EQ(download(c), expected) << describe(problem);
                }
            }
}

TEST(GemmErrors, AreClearAndEarly)
{
    Tensor a = queue().context().empty({2, 3}, DataType::float32, queue());
    Tensor b = queue().context().empty({4, 5}, DataType::float32, queue());
    Tensor c = queue().context().empty({2, 5}, DataType::float32, queue());
    EXPECT_THROW(gemm_problem(a, b, c), InvalidArgument);
    GemmProblem problem;
    problem.m = problem.n = problem.k = 2;
    problem.dtype = DataType::int32;
    EXPECT_THROW(gemm(queue(), problem, a, b, c), InvalidArgument);
    problem.dtype = DataType::boolean;
    EXPECT_THROW(gemm(queue(), problem, a, b, c), InvalidArgument);
}

TEST(GemmEmpty, NoSumIsZeroOrBetaD)
{
    Tensor empty = queue().context().empty({0}, DataType::float32, queue());
    Tensor c = upload(std::vector<double>(6, 3.0), DataType::float32);
    GemmProblem problem;
    problem.m = 2, problem.n = 3, problem.k = 0;
    problem.c = problem.d = {3, 1, 0};
    problem.beta = 2;
    gemm(queue(), problem, empty, empty, c, c);
    EXPECT_EQ(download(c), std::vector<double>(6, 6.0));
    problem.beta = 0;
    gemm(queue(), problem, empty, empty, c, c);
    EXPECT_EQ(download(c), std::vector<double>(6, 0.0));
}
