// Products of eight-bit integers by matrix engines: every engine's registers by emulation, and the device's own where
// it has one. Sums are exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include <clprim/clprim.hpp>
#include <kernels/gemm/gpu_matrix.hpp>
#include <kernels/integer/gpu.hpp>

#include "kernels/matrix_engine_test.hpp"

using namespace clprim;
using detail::MatrixEngine;

namespace {

Queue& queue() { return Context::get(0).queue(0); }

class IntegerMatrix : public test::MatrixEngineTest {};

// Bytes of the whole range, the extremes often: [batch, lines, depth], lines `pitch` apart.
struct Lines {
    Lines(std::int64_t batch, std::int64_t lines_, std::int64_t depth, std::int64_t pitch_, DataType type,
          std::mt19937& random)
        : lines(lines_), pitch(pitch_), is_signed(type == DataType::int8)
    {
        std::uniform_int_distribution<int> any(0, 255), choice(0, 3);
        for (std::int64_t i = 0; i < batch * lines * pitch; ++i) {
            const int pick = choice(random);
            bytes.push_back(static_cast<std::uint8_t>(pick == 0 ? 0x80 : pick == 1 ? 0xff : any(random)));
        }
        tensor = queue().context().empty({static_cast<std::int64_t>(bytes.size())}, type, queue());
        queue().write(*tensor.memory, 0, bytes.data(), bytes.size());
        tensor.shape = {batch, lines, depth};
        tensor.strides = {lines * pitch, pitch, 1};
    }
    std::int32_t at(std::int64_t batch, std::int64_t line, std::int64_t k) const
    {
        const std::uint8_t byte = bytes[static_cast<std::size_t>((batch * lines + line) * pitch + k)];
        return is_signed ? static_cast<std::int8_t>(byte) : byte;
    }
    std::int64_t lines, pitch;
    bool is_signed;
    std::vector<std::uint8_t> bytes;
    Tensor tensor;
};

struct Case {
    std::int64_t batch, m, n, k;
    DataType a, b;
    std::int64_t pad = 0;   // between lines: 16 keeps them readable as they lie, 3 does not
    int a_zeros = 0, b_zeros = 0;   // 0: none; 1: one; 2: one for each line
    bool turned_c = false;
};

void check(detail::MatrixEngineChoice engine, const Case& one)
{
    std::mt19937 random(7);
    const Lines a(one.batch, one.m, one.k, one.k + one.pad, one.a, random);
    const Lines b(one.batch, one.n, one.k, one.k + one.pad, one.b, random);
    const std::int64_t a_count = one.a_zeros == 2 ? one.m : 1, b_count = one.b_zeros == 2 ? one.n : 1;
    const Lines za(1, 1, a_count, a_count, one.a, random), zb(1, 1, b_count, b_count, one.b, random);
    const auto line = [](const Lines& zeros) {
        Tensor t = zeros.tensor;
        t.shape = {t.numel()};
        t.strides = {1};
        return t;
    };
    Tensor c = queue().context().empty({one.batch, one.m, one.n}, DataType::int32, queue());
    if (one.turned_c)
        c.strides = {one.m * one.n, 1, one.m};
    detail::IntegerTensors tensors{a.tensor, b.tensor.transpose(1, 2), c, {}};
    if (one.a_zeros)
        tensors.zeros.a = line(za);
    if (one.b_zeros)
        tensors.zeros.b = line(zb);
    detail::gpu_integer_matrix_by(engine, false, queue(), detail::integer_product(tensors), tensors);
    std::vector<std::int32_t> got(static_cast<std::size_t>(c.numel()));
    queue().read(*c.memory, 0, got.data(), got.size() * 4);
    for (std::int64_t batch = 0; batch < one.batch; ++batch)
        for (std::int64_t i = 0; i < one.m; ++i)
            for (std::int64_t j = 0; j < one.n; ++j) {
                const std::int32_t of_a = one.a_zeros ? za.at(0, 0, one.a_zeros == 2 ? i : 0) : 0;
                const std::int32_t of_b = one.b_zeros ? zb.at(0, 0, one.b_zeros == 2 ? j : 0) : 0;
                std::int64_t sum = 0;
                for (std::int64_t k = 0; k < one.k; ++k)
                    sum += (a.at(batch, i, k) - of_a) * (b.at(batch, j, k) - of_b);
                ASSERT_EQ(got[static_cast<std::size_t>(batch * one.m * one.n +
                                                       (one.turned_c ? j * one.m + i : i * one.n + j))], sum)
                    << one.m << "x" << one.n << "x" << one.k << " at " << batch << " " << i << " " << j;
            }
}

constexpr DataType s = DataType::int8, u = DataType::uint8;

}  // namespace

// As they lie and packed, with all signs that the engine knows, edges, a k of whole slabs and not, parts of k, zero
// points; the rest of the kernel is the same for all engines, so that one tries it.
TEST_P(IntegerMatrix, IsExact)
{
    check(engine, {2, 33, 72, 144, u, s, 16});
    check(engine, {2, 37, 41, 75, u, u, 3, 2, 1});
}

TEST_P(IntegerMatrix, WaysToReadAndWrite)
{
    if (engine.engine != MatrixEngine::mma)
        GTEST_SKIP() << "the same for all engines";
    check(engine, {1, 70, 37, 128, s, s});
    check(engine, {1, 20, 36, 144, s, u, 0, 0, 0, true});
    check(engine, {1, 40, 24, 96, u, s, 0, 1, 0});      // rows as they lie, columns with their sums
    check(engine, {1, 40, 24, 80, s, u, 16, 0, 2});
    check(engine, {1, 24, 18, 64, s, s, 0, 2, 1, true});
    check(engine, {1, 9, 20, 2064, u, s});              // a k that is cut
    check(engine, {1, 9, 20, 1500, u, u, 3, 1, 1});
}

INSTANTIATE_TEST_SUITE_P(Engines, IntegerMatrix, clprim::test::matrix_engines(), clprim::test::name_of_engine);

TEST(IntegerEngines, AreProbedAndChosenWhenAskedFor)
{
    const Device& device = queue().device();
    if (device.kind != DeviceKind::gpu)
        GTEST_SKIP() << "for GPUs";
    EXPECT_TRUE(detail::try_matrix_engine(device, {MatrixEngine::mma, true, true}, DataType::int8));
    if (!detail::matrix_engine(device, "").emulated)
        return;
    EXPECT_FALSE(detail::try_matrix_engine(device, {MatrixEngine::dpas16, false, true}, DataType::int8));
    detail::IntegerProduct product;
    product.m = product.n = product.k = 256;
    const auto list = detail::integer_implementations();
    const auto& matrix = *std::ranges::find(list, "gpu_matrix", &detail::IntegerImplementation::name);
    EXPECT_FALSE(matrix.rejects(product, device));
    EXPECT_TRUE(matrix.advises_against(product, device));
}
