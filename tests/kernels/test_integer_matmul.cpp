// Products of eight-bit integers: every sum is exact.
#include <gtest/gtest.h>

#include <random>

#include <clprim/clprim.hpp>
#include <clprim/integer_matmul.hpp>
#include <core/choose.hpp>

using namespace clprim;

namespace {

Queue& queue() { return Context::get(0).queue(0); }

struct Bytes {
    std::vector<std::int64_t> values;   // of the buffer
    Tensor tensor;                      // [batch, rows, columns] with strides
    std::int64_t at(std::int64_t b, std::int64_t i, std::int64_t j) const
    {
        return values[static_cast<std::size_t>(b * tensor.stride(0) + i * tensor.stride(1) + j * tensor.stride(2))];
    }
};

enum class Order { rows, columns, spread };

// Numbers of the whole range of their type, the extremes often.
Bytes make(std::int64_t batch, std::int64_t rows, std::int64_t columns, Order order, DataType type,
           std::mt19937& random)
{
    Bytes result;
    Dims strides{rows * (columns + 1), columns + 1, 1};
    if (order == Order::columns)
        strides = {columns * (rows + 2), 1, rows + 2};
    if (order == Order::spread)
        strides = {rows * (2 * columns + 3), 2 * columns + 3, 2};
    const std::int64_t count = batch * strides[0] + 4, low = type == DataType::int8 ? -128 : 0;
    std::uniform_int_distribution<int> any(0, 255), choice(0, 3);
    std::vector<std::uint8_t> bytes;
    for (std::int64_t i = 0; i < count; ++i) {
        const int pick = choice(random);
        result.values.push_back(low + (pick == 0 ? 0 : pick == 1 ? 255 : any(random)));
        bytes.push_back(static_cast<std::uint8_t>(result.values.back()));
    }
    result.tensor = queue().context().empty({count}, type, queue());
    queue().write(*result.tensor.memory, 0, bytes.data(), bytes.size());
    result.tensor.shape = {batch, rows, columns};
    result.tensor.strides = strides;
    return result;
}

struct Case {
    std::int64_t batch, m, k, n;
    Order a, b;
    DataType a_type, b_type;
    int zeros;   // 0: none; 1: one each; 2: one for each line
    bool of_b = true;   // B has some where A has
};

// C against sums in 64 bits.
void compare(const Case& one, const Bytes& a, const Bytes& b, const Tensor& c, const Bytes& za, const Bytes& zb)
{
    std::vector<std::int32_t> got(static_cast<std::size_t>(c.numel()));
    queue().read(*c.memory, 0, got.data(), got.size() * 4);
    for (std::int64_t batch = 0; batch < one.batch; ++batch)
        for (std::int64_t i = 0; i < one.m; ++i)
            for (std::int64_t j = 0; j < one.n; ++j) {
                std::int64_t sum = 0;
                const std::int64_t ai = one.zeros ? za.at(0, 0, one.zeros == 2 ? i : 0) : 0;
                const std::int64_t bj = one.zeros && one.of_b ? zb.at(0, 0, one.zeros == 2 ? j : 0) : 0;
                for (std::int64_t k = 0; k < one.k; ++k)
                    sum += (a.at(batch, i, k) - ai) * (b.at(batch, k, j) - bj);
                ASSERT_EQ(got[static_cast<std::size_t>((batch * one.m + i) * one.n + j)], sum)
                    << one.m << " " << one.k << " " << one.n << " zeros " << one.zeros << " at " << i << " " << j;
            }
}

void check(const Case& one)
{
    std::mt19937 random(3);
    const Bytes a = make(one.batch, one.m, one.k, one.a, one.a_type, random);
    const Bytes b = make(one.batch, one.k, one.n, one.b, one.b_type, random);
    const Bytes za = make(1, 1, one.zeros == 2 ? one.m : 1, Order::rows, one.a_type, random);
    const Bytes zb = make(1, 1, one.zeros == 2 ? one.n : 1, Order::rows, one.b_type, random);
    const Tensor c = queue().context().empty({one.batch, one.m, one.n}, DataType::int32, queue());
    const auto line = [](const Bytes& zero) {
        Tensor t = zero.tensor;
        t.shape = {zero.tensor.size(2)};
        t.strides = {1};
        return t;
    };
    IntegerZeros zeros;
    Prepared prepared;
    if (one.zeros) {
        zeros.a = line(za);
        if (one.of_b)
            zeros.b = line(zb);
    }
    for (int round = 0; round < 3; ++round) {   // with nothing prepared, the first time, with what was prepared
        zeros.prepared_b = round ? &prepared : nullptr;
        integer_matmul(queue(), a.tensor, b.tensor, c, zeros);
        if (round != 1)
            compare(one, a, b, c, za, zb);
    }
}

// Of float32: as the sums of integers say, within roundings of a product and a sum.
struct Scaling {
    bool of_columns, with_offset, with_factor;
};

void check_scaled(std::int64_t m, std::int64_t k, std::int64_t n, DataType a_type, Scaling scaling)
{
    const auto [of_columns, with_offset, with_factor] = scaling;
    std::mt19937 random(5);
    const Bytes a = make(1, m, k, Order::rows, a_type, random), b = make(1, k, n, Order::rows, DataType::int8, random),
                zero = make(1, 1, 1, Order::rows, a_type, random);
    const auto floats = [&](std::int64_t count) {
        std::vector<float> numbers;
        for (std::int64_t i = 0; i < count; ++i)
            numbers.push_back(std::uniform_real_distribution<float>(-0.02F, 0.02F)(random));
        Tensor t = queue().context().empty({count}, DataType::float32, queue());
        queue().write(*t.memory, 0, numbers.data(), t.nbytes());
        return std::pair(t, numbers);
    };
    const auto [scale, scales] = floats(of_columns ? n : 1);
    const auto [offset, offsets] = floats(n);
    const auto [factor, factors] = floats(1);
    const auto matrix = [](Tensor t) {
        t.strides = {t.stride(1), t.stride(2)};
        t.shape = {t.size(1), t.size(2)};
        return t;
    };
    const Tensor a_matrix = matrix(a.tensor), b_matrix = matrix(b.tensor);
    Tensor a_zero = zero.tensor;
    a_zero.shape = {1};
    a_zero.strides = {1};
    const Tensor c = queue().context().empty({m, n}, DataType::float32, queue());
    Prepared prepared;
    for (const bool is_prepared : {false, true}) {
        integer_matmul(queue(), a_matrix, b_matrix, c, {a_zero, {}, is_prepared ? &prepared : nullptr},
                       {scale, with_offset ? offset : Tensor(), with_factor ? factor : Tensor()});
        std::vector<float> got(static_cast<std::size_t>(m * n));
        queue().read(*c.memory, 0, got.data(), got.size() * 4);
        for (std::int64_t i = 0; i < m; ++i)
            for (std::int64_t j = 0; j < n; ++j) {
                std::int64_t sum = 0;
                for (std::int64_t l = 0; l < k; ++l)
                    sum += (a.at(0, i, l) - zero.at(0, 0, 0)) * b.at(0, l, j);
                const auto column = static_cast<std::size_t>(j);
                const double scaled = static_cast<double>(sum) * scales[of_columns ? column : 0] *
                                      (with_factor ? factors[0] : 1);
                const double expected = scaled + (with_offset ? offsets[column] : 0);
                ASSERT_NEAR(got[static_cast<std::size_t>(i * n + j)], expected, 2e-7 * std::abs(expected) + 1e-6)
                    << m << " " << k << " " << n << " at " << i << " " << j;
            }
    }
}

}  // namespace

TEST(IntegerMatmul, ScaledSums)
{
    for (const DataType type : {DataType::uint8, DataType::int8})
        for (const auto& [m, k, n] : {std::array<std::int64_t, 3>{1, 8, 16}, {3, 24, 40}, {9, 64, 33}, {50, 40, 7},
                                      {17, 1032, 48}, {130, 512, 96}, {5, 37, 19}, {7, 1, 1}})
            for (const bool of_columns : {false, true})
                for (const bool with_offset : {false, true})
                    for (const bool with_factor : {false, true})
                        check_scaled(m, k, n, type, {of_columns, with_offset, with_factor});
}

TEST(IntegerMatmul, ScalesThatDoNotFit)
{
    const auto empty = [](Dims shape, DataType type) { return queue().context().empty(shape, type, queue()); };
    const Tensor a = empty({3, 8}, DataType::int8), b = empty({8, 5}, DataType::int8),
                 c = empty({3, 5}, DataType::float32), line = empty({5}, DataType::float32),
                 sums = empty({3, 5}, DataType::int32);
    EXPECT_THROW(integer_matmul(queue(), a, b, c), InvalidArgument);
    EXPECT_THROW(integer_matmul(queue(), a, b, sums, {}, {line, {}}), InvalidArgument);
    EXPECT_THROW(integer_matmul(queue(), a, b, c, {}, {empty({3}, DataType::float32), {}}), InvalidArgument);
    EXPECT_THROW(integer_matmul(queue(), a, b, c, {}, {empty({5}, DataType::float64), {}}), InvalidArgument);
    EXPECT_THROW(integer_matmul(queue(), a, b, c, {}, {line, empty({1}, DataType::float32)}), InvalidArgument);
    EXPECT_THROW(integer_matmul(queue(), a, b, c, {}, {line, {}, line}), InvalidArgument);
    EXPECT_THROW(integer_matmul(queue(), a, b, sums, {}, {{}, {}, empty({1}, DataType::float32)}), InvalidArgument);
    EXPECT_THROW(integer_matmul(queue(), a, b, sums, {}, {{}, line}), InvalidArgument);
}

TEST(IntegerMatmul, SizesAndLayouts)
{
    constexpr DataType s = DataType::int8, u = DataType::uint8;
    for (const Order a : {Order::rows, Order::columns, Order::spread})
        for (const Order b : {Order::rows, Order::columns, Order::spread})
            check({1, 14, 70, 37, a, b, s, s, 0});
    for (const int zeros : {0, 1, 2})
        for (const DataType a : {s, u})
            for (const DataType b : {s, u})
                check({2, 7, 33, 40, Order::rows, Order::rows, a, b, zeros});
    check({1, 1, 1, 1, Order::rows, Order::rows, s, u, 1});
    check({1, 200, 3, 5, Order::rows, Order::columns, u, u, 2});
    check({1, 3, 1100, 90, Order::rows, Order::rows, s, s, 2});        // parts of k
    check({1, 8, 600, 33, Order::rows, Order::rows, s, u, 1});         // two rows, three rows left of a strip
    check({1, 3, 40, 16, Order::rows, Order::rows, u, s, 0});
    check({3, 65, 64, 64, Order::columns, Order::rows, u, s, 1});
    check({1, 1, 96, 50, Order::rows, Order::columns, s, s, 0});
    // Up to 16 rows: columns and k beyond whole vectors, and more k than are kept of A at a time.
    for (const Order b : {Order::rows, Order::columns})
        for (const std::int64_t rows : {1, 2, 3, 7, 16, 17})
            check({1, rows, 45, 150, rows % 2 ? Order::rows : Order::columns, b, u, s, static_cast<int>(rows % 3)});
    check({1, 7, 2100, 130, Order::rows, Order::rows, u, s, 2});
    check({2, 3, 1056, 70, Order::rows, Order::columns, u, s, 2});
}

// Those for CPUs, also where another would be faster; where one cannot do it, the list's first that can.
TEST(IntegerMatmul, EveryImplementation)
{
    constexpr DataType s = DataType::int8, u = DataType::uint8;
    for (const char* name : {"cpu_few_rows", "cpu_amx_rows", "cpu_amx", "cpu_vnni", "cpu_conv", "cpu_pairs"}) {
        SCOPED_TRACE(name);
        prefer_implementation("integer_matmul", name);
        for (const Order a : {Order::rows, Order::columns, Order::spread})
            for (const Order b : {Order::rows, Order::columns, Order::spread})
                check({1, 34, 70, 37, a, b, s, u, 1});
        for (const int zeros : {0, 1, 2})
            for (const DataType a : {s, u})
                for (const DataType b : {s, u})
                    check({2, 18, 33, 40, Order::rows, Order::rows, a, b, zeros});
        check({1, 1, 1, 1, Order::rows, Order::rows, s, u, 1});
        check({2, 40, 1100, 70, Order::rows, Order::rows, u, s, 2});   // whole tiles of registers and edges, parts of k
        check({1, 64, 1090, 64, Order::columns, Order::columns, s, u, 1});
        check({1, 300, 80, 530, Order::rows, Order::rows, u, s, 1});   // work-items in both directions
        for (const std::int64_t rows : {1, 2, 3, 5, 8, 9, 15, 31, 33})   // every rest of registers
            for (const std::int64_t columns : {1, 15, 16, 17, 33})
                check({1, rows, 2 * rows + columns, columns, Order::rows, Order::columns, rows % 2 ? u : s,
                       columns % 2 ? u : s, static_cast<int>((rows + columns) % 3)});
        // Rows of A that are read where they lie: whole tiles, edges of either kind, parts of k.
        for (const std::int64_t rows : {1, 16, 32, 47, 600})
            for (const std::int64_t k : {64, 1024, 2112})
                for (const int zeros : {0, 1, 2})
                    check({rows == 47 ? 2 : 1, rows, k, rows == 600 ? 64 : 67, Order::rows, Order::rows,
                           k == 64 ? s : u, s, zeros, false});
    }
    prefer_implementation("integer_matmul", "");
}

TEST(IntegerMatmul, SaysWhatDoesNotFit)
{
    const auto empty = [](Dims shape, DataType type) {
        return queue().context().empty(std::move(shape), type, queue());
    };
    const Tensor a = empty({4, 8}, DataType::int8), b = empty({8, 5}, DataType::int8);
    const Tensor c = empty({4, 5}, DataType::int32);
    EXPECT_THROW(integer_matmul(queue(), a, b, empty({4, 6}, DataType::int32)), InvalidArgument);
    EXPECT_THROW(integer_matmul(queue(), a, b, empty({4, 5}, DataType::float32)), InvalidArgument);
    EXPECT_THROW(integer_matmul(queue(), empty({4, 8}, DataType::int16), b, c), InvalidArgument);
    EXPECT_THROW(integer_matmul(queue(), a, b, c, {empty({3}, DataType::int8), {}}), InvalidArgument);
    EXPECT_THROW(integer_matmul(queue(), a, b, c, {{}, empty({5}, DataType::uint8)}), InvalidArgument);
    const Tensor none = empty({4, 0}, DataType::int8), nothing = empty({0, 5}, DataType::int8);
    integer_matmul(queue(), none, nothing, c);
    std::int32_t zeros[20];
    queue().read(*c.memory, 0, zeros, sizeof zeros);
    for (const std::int32_t value : zeros)
        EXPECT_EQ(value, 0);
}
