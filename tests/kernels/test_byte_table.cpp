// Functions of bytes by tables, on devices of any kind.
#include <gtest/gtest.h>

#include <random>

#include <clprim/clprim.hpp>
#include <kernels/integer/byte_table.hpp>

using namespace clprim;

namespace {

Queue& queue() { return Context::get(0).queue(0); }

// y between bytes that must stay, of x that begins within its buffer.
void check(std::int64_t count, const Dims& shape, const Dims& strides, DataType from, DataType to)
{
    constexpr std::int64_t before = 3, after = 70;
    std::mt19937 random(static_cast<unsigned>(count));
    std::uniform_int_distribution<int> any(0, 255);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(before + count + after)), table(256);
    for (auto* numbers : {&bytes, &table})
        for (std::uint8_t& byte : *numbers)
            byte = static_cast<std::uint8_t>(any(random));
    const auto upload = [&](const std::vector<std::uint8_t>& numbers, DataType type) {
        const Tensor t = queue().context().empty({static_cast<std::int64_t>(numbers.size())}, type, queue());
        queue().write(*t.memory, 0, numbers.data(), numbers.size());
        return t;
    };
    const std::vector<std::uint8_t> untouched(bytes.size(), 170);
    const Tensor x = upload(bytes, from), y = upload(untouched, to), values = upload(table, to);
    const auto view = [&](const Tensor& t) { return Tensor{t.memory, before, t.dtype, shape, strides}; };
    detail::look_up_bytes(queue(), view(x), values, view(y));
    std::vector<std::uint8_t> result(bytes.size()), expected = untouched;
    queue().read(*y.memory, 0, result.data(), result.size());
    for (std::int64_t i = before; i < before + count; ++i)
        expected[static_cast<std::size_t>(i)] = table[bytes[static_cast<std::size_t>(i)]];
    EXPECT_EQ(result, expected) << count << " bytes";
}

TEST(ByteTable, HoldsForEveryByteAndNoOther)
{
    for (const DataType from : {DataType::uint8, DataType::int8})
        for (const DataType to : {DataType::uint8, DataType::int8})
            for (const std::int64_t count : {1, 7, 8, 9, 255, 8191, 8192, 8200, 200003})
                check(count, {count}, {1}, from, to);
}

TEST(ByteTable, TakesTensorsThatLieAlike)
{
    check(2 * 3 * 5 * 7, {2, 3, 5, 7}, {105, 1, 21, 3}, DataType::uint8, DataType::int8);
}

TEST(ByteTable, RefusesWhatDoesNotFit)
{
    const auto empty = [](const Dims& shape, DataType type) { return queue().context().empty(shape, type, queue()); };
    const Tensor x = empty({40, 50}, DataType::uint8), y = empty({40, 50}, DataType::int8),
                 table = empty({256}, DataType::int8);
    EXPECT_THROW(detail::look_up_bytes(queue(), x, empty({255}, DataType::int8), y), Error);
    EXPECT_THROW(detail::look_up_bytes(queue(), x, empty({256}, DataType::uint8), y), Error);
    EXPECT_THROW(detail::look_up_bytes(queue(), x, table, empty({50, 40}, DataType::int8)), Error);
    EXPECT_THROW(detail::look_up_bytes(queue(), empty({40, 50}, DataType::int16), table, y), Error);
    EXPECT_THROW(detail::look_up_bytes(queue(), x.slice(1, 0, 9), table, y.slice(1, 0, 9)), Error);
}

}  // namespace
