// Strided copies with conversion, and fills, against loops on the host.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <numeric>

#include <clprim/clprim.hpp>
#include <clprim/copy.hpp>
#include <kernels/copy/collapse.hpp>

namespace clprim {
namespace {

Queue& queue() { return Context::get(0).queue(); }

template <class T>
Tensor upload(const std::vector<T>& values, DataType type, const Dims& shape)
{
    Tensor tensor = queue().context().empty(shape, type, queue());
    queue().write(*tensor.memory, 0, values.data(), values.size() * sizeof(T));
    return tensor;
}

template <class T>
std::vector<T> download(const Tensor& tensor)   // the whole allocation, in memory order
{
    std::vector<T> values(tensor.memory->requested / sizeof(T));
    queue().read(*tensor.memory, 0, values.data(), values.size() * sizeof(T));
    return values;
}

// Calls visit(source element, target element) for every index.
template <class Visit>
void for_each_index(const Tensor& source, const Tensor& target, Visit visit)
{
    Dims index(source.dim(), 0);
    for (std::int64_t n = 0; n < source.numel(); ++n) {
        std::int64_t from = source.offset, to = target.offset;
        for (std::size_t axis = 0; axis < source.dim(); ++axis) {
            from += index[axis] * source.strides[axis];
            to += index[axis] * target.strides[axis];
        }
        visit(from, to);
        for (std::size_t axis = source.dim(); axis-- > 0;) {
            if (++index[axis] < source.shape[axis])
                break;
            index[axis] = 0;
        }
    }
}

std::vector<int> numbers(std::int64_t count)
{
    std::vector<int> values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), 1);
    return values;
}

void check_copy(const Tensor& source, const Tensor& target)
{
    std::vector<int> expected = download<int>(target);
    const std::vector<int> from = download<int>(source);
    for_each_index(source, target, [&](auto a, auto b) { expected[b] = from[a]; });
    copy(queue(), source, target);
    EXPECT_EQ(download<int>(target), expected) << to_string(source.shape) << to_string(source.strides) << " to "
                                               << to_string(target.strides);
}

Tensor fresh(const Dims& shape) { return upload(numbers(shape.product()), DataType::int32, shape); }

Tensor zeros(const Dims& shape)
{
    return upload(std::vector<int>(static_cast<std::size_t>(shape.product())), DataType::int32, shape);
}

TEST(Copy, Layouts)
{
    check_copy(fresh({7, 5}), zeros({7, 5}));
    check_copy(fresh({7, 5}).transpose(0, 1), zeros({5, 7}));
    check_copy(fresh({70, 45}).transpose(0, 1), zeros({45, 70}));
    check_copy(fresh({3, 70, 45}).transpose(1, 2), zeros({3, 45, 70}));
    check_copy(fresh({2, 9, 33, 40}).permute({0, 2, 3, 1}), zeros({2, 33, 40, 9}));
    check_copy(fresh({2, 33, 40, 9}).permute({0, 3, 1, 2}), zeros({2, 9, 33, 40}));
    check_copy(fresh({6, 300}).slice(1, 3, 290), zeros({6, 300}).slice(1, 1, 288));
    check_copy(fresh({1, 9}).expand({4, 9}), zeros({4, 9}));
    check_copy(fresh({4, 1}).expand({4, 9}), zeros({9, 4}).transpose(0, 1));
    check_copy(fresh({3, 2, 3, 2, 3, 2}).permute({5, 0, 3, 2, 1, 4}), zeros({2, 3, 2, 3, 2, 3}));
    check_copy(fresh({1}), zeros({1}));
    check_copy(fresh({}), zeros({}));
    check_copy(fresh({0, 3}), zeros({0, 3}));
}

// Few and many elements along each axis: work-items take several along the one or the other.
TEST(Copy, AxesOfEveryLength)
{
    for (const std::int64_t inner : {1, 3, 15, 63, 65, 259, 1030})
        for (const std::int64_t middle : {1, 2, 3, 4, 5, 9})
            for (const std::int64_t outer : {1, 5, 7}) {
                const Dims shape{2, outer, middle, inner};
                Tensor apart = fresh({2, outer, middle, 2 * inner});
                apart.shape = shape;
                apart.strides[3] = 2;
                check_copy(apart, zeros(shape));
                check_copy(fresh({2, 1, middle, inner}).expand(shape), zeros(shape));
                check_copy(fresh({2, outer + 1, middle, inner + 4}).slice(1, 0, outer).slice(3, 4, inner + 4),
                           zeros(shape));
            }
}

// Squares of pixels among channels, and back.
TEST(Copy, BlocksOfShortAxes)
{
    for (const std::int64_t channels : {1, 3, 4, 17})
        for (const std::int64_t width : {2, 15, 16, 70})
            for (const std::int64_t factor : {2, 3}) {
                check_copy(fresh({2, 6, width, channels, factor, factor}).permute({0, 1, 4, 2, 5, 3}),
                           zeros({2, 6, factor, width, factor, channels}));
                check_copy(fresh({2, 6, factor, width, factor, channels}).permute({0, 1, 3, 5, 2, 4}),
                           zeros({2, 6, width, channels, factor, factor}));
            }
}

template <class T>
void check_transposes(DataType type)
{
    std::vector<std::pair<std::int64_t, std::int64_t>> sizes{{8, 8}, {15, 17}, {33, 63}, {64, 65}, {130, 32}};
    for (std::int64_t channels : {2, 3, 4})   // of pictures, both ways
        sizes.insert(sizes.end(), {{4101, channels}, {channels, 4101}});
    for (const auto& [rows, columns] : sizes) {
        std::vector<T> values(static_cast<std::size_t>(3 * rows * columns));
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<T>(i * 31 + i / 251);
        const Tensor source = upload(values, type, {3, rows, columns}).transpose(1, 2);
        const Tensor target = queue().context().empty(source.shape, type, queue());
        copy(queue(), source, target);
        std::vector<T> expected(values.size());
        for_each_index(source, target, [&](auto a, auto b) { expected[b] = values[a]; });
        EXPECT_EQ(download<T>(target), expected) << name_of(type) << ' ' << rows << 'x' << columns;
    }
}

TEST(Copy, TransposesOfElementsOfEverySize)
{
    check_transposes<std::uint8_t>(DataType::uint8);
    check_transposes<std::uint16_t>(DataType::bfloat16);
    check_transposes<std::uint32_t>(DataType::float32);
    check_transposes<std::uint64_t>(DataType::int64);
}

TEST(Copy, MoreAxesThanOneLaunchTakes)
{
    const Dims shape{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
    check_copy(fresh(shape).permute({10, 0, 8, 2, 6, 4, 5, 3, 7, 1, 9}), zeros(shape));
}

TEST(Copy, SameElementsIsNothingToDo)
{
    const Tensor x = fresh({3, 4});
    copy(queue(), x, x);
    EXPECT_EQ(download<int>(x), numbers(12));
}

// Few bytes, many, and more than caches hold, from and to anywhere in a line; nothing is written beside them.
TEST(Copy, RunsOfBytes)
{
    for (const std::int64_t count : {1, 63, 700'000, (48 << 20) + 5}) {
        std::vector<std::uint8_t> values(static_cast<std::size_t>(count) + 128);
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);
        const Tensor source = upload(values, DataType::uint8, {static_cast<std::int64_t>(values.size())});
        const std::vector<std::uint8_t> before(values.size(), 7);
        for (const auto& [from, to] : {std::pair{0, 0}, {3, 0}, {0, 61}, {64, 5}}) {
            const Tensor target = upload(before, DataType::uint8, source.shape);
            copy(queue(), source.slice(0, from, from + count), target.slice(0, to, to + count));
            std::vector<std::uint8_t> expected = before;
            std::copy_n(values.begin() + from, count, expected.begin() + to);
            EXPECT_TRUE(download<std::uint8_t>(target) == expected) << count << " from " << from << " to " << to;
        }
    }
}

TEST(Copy, Conversions)
{
    const std::vector<float> values{0.0f, -0.0f, 1.5f, -1.5f, 2.5f, 100.7f, -100.2f};
    const Tensor x = upload(values, DataType::float32, {7});
    const auto converted = [&](DataType type) {
        Tensor y = queue().context().empty({7}, type, queue());
        copy(queue(), x, y);
        return y;
    };
    EXPECT_EQ(download<std::int8_t>(converted(DataType::int8)), (std::vector<std::int8_t>{0, 0, 1, -1, 2, 100, -100}));
    EXPECT_EQ(download<std::int64_t>(converted(DataType::int64)),
              (std::vector<std::int64_t>{0, 0, 1, -1, 2, 100, -100}));
    EXPECT_EQ(download<std::uint8_t>(converted(DataType::uint8)),
              (std::vector<std::uint8_t>{0, 0, 1, 255, 2, 100, 156}));
    EXPECT_EQ(download<std::uint8_t>(converted(DataType::boolean)), (std::vector<std::uint8_t>{0, 0, 1, 1, 1, 1, 1}));
    EXPECT_EQ(download<std::uint16_t>(converted(DataType::float16)),
              (std::vector<std::uint16_t>{0, 0x8000, 0x3e00, 0xbe00, 0x4100, 0x564b, 0xd643}));
    const auto complex = download<float>(converted(DataType::complex64));
    for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_EQ(complex[2 * i], values[i]);
        EXPECT_EQ(complex[2 * i + 1], 0.0f);
    }
}

TEST(Copy, ConjugateAndNegate)
{
    const std::vector<float> parts{1, 2, -3, 4};
    const Tensor x = upload(parts, DataType::complex64, {2});
    const Tensor y = upload(std::vector<float>(4), DataType::complex64, {2});
    copy(queue(), x, y, {.conjugate = true});
    EXPECT_EQ(download<float>(y), (std::vector<float>{1, -2, -3, -4}));
    copy(queue(), x, y, {.conjugate = true, .negate = true});
    EXPECT_EQ(download<float>(y), (std::vector<float>{-1, 2, 3, 4}));
    const Tensor a = upload(std::vector<int>{5, -6}, DataType::int32, {2}), b = zeros({2});
    copy(queue(), a, b, {.conjugate = true, .negate = true});
    EXPECT_EQ(download<int>(b), (std::vector<int>{-5, 6}));
}

TEST(Copy, BadArguments)
{
    EXPECT_THROW(copy(queue(), fresh({2, 3}), zeros({3, 2})), InvalidArgument);
    const Tensor flags = upload(std::vector<std::uint8_t>{1, 0}, DataType::boolean, {2});
    EXPECT_THROW(copy(queue(), flags, flags, {.negate = true}), InvalidArgument);
}

TEST(Copy, SpacesCollapse)
{
    // A contiguous tensor is one axis; a transposed one two; axes of size 1 do not count.
    EXPECT_EQ(collapse({2, 3, 4}, {12, 4, 1}, {12, 4, 1}).rank(), 1u);
    EXPECT_EQ(collapse({2, 1, 4}, {4, 99, 1}, {4, 7, 1}).rank(), 1u);
    EXPECT_EQ(collapse({3, 4}, {1, 3}, {4, 1}).rank(), 2u);
    EXPECT_EQ(collapse({2, 3, 4, 5}, {60, 1, 15, 3}, {60, 20, 5, 1}).rank(), 3u);
    EXPECT_EQ(collapse({}, {}, {}).rank(), 0u);
    EXPECT_TRUE(collapse({1 << 10, 1 << 10}, {1 << 10, 1}, {1, 1 << 10}).fits_32_bits());
    EXPECT_FALSE(collapse({2, 2}, {std::int64_t{1} << 31, 1}, {2, 1}).fits_32_bits());
}

TEST(Fill, EveryTypeAndLayout)
{
    for (int i = 0; i < data_type_count; ++i) {
        const auto type = static_cast<DataType>(i);
        const std::vector<std::byte> zero = element_bytes(type, 0), three = element_bytes(type, {3, 1});
        ASSERT_EQ(three.size(), size_of(type));
        Tensor x;
        x.memory = queue().context().allocate(60 * size_of(type), queue());
        x.dtype = type;
        x.shape = {6, 10};
        x.strides = {10, 1};
        fill(queue(), x, zero);
        const Tensor part = x.slice(0, 1, 5).slice(1, 2, 7);
        fill(queue(), part, three);
        const auto bytes = download<std::byte>(x);
        for (std::size_t n = 0; n < 60; ++n) {
            const bool inside = n / 10 >= 1 && n / 10 < 5 && n % 10 >= 2 && n % 10 < 7;
            EXPECT_EQ(std::memcmp(&bytes[n * size_of(type)], inside ? three.data() : zero.data(), size_of(type)), 0)
                << name_of(type) << " element " << n;
        }
    }
    EXPECT_THROW(fill(queue(), zeros({2}), std::vector<std::byte>(3)), InvalidArgument);
    fill(queue(), zeros({0}), 1.0);
}

TEST(Fill, RowsLongerThanWorkGroups)
{
    // Every second of 601 elements of rows that lie in [7, 3, 2, 601] apart; then of one row.
    Tensor x = zeros({7, 3, 2, 601});
    Tensor part = x.slice(2, 1, 2).slice(1, 0, 2);
    part.shape[3] = 301;
    part.strides[3] = 2;
    fill(queue(), part, 3.0);
    const auto inside = [](std::size_t n) { return n / 601 % 2 == 1 && n / 1202 % 3 < 2 && n % 601 % 2 == 0; };
    std::vector<std::int32_t> got = download<std::int32_t>(x);
    for (std::size_t n = 0; n < got.size(); ++n)
        EXPECT_EQ(got[n], inside(n) ? 3 : 0) << n;
    Tensor row = x.slice(0, 0, 1).slice(1, 2, 3).slice(2, 0, 1);
    row.shape[3] = 301;
    row.strides[3] = 2;
    fill(queue(), row, 5.0);
    got = download<std::int32_t>(x);
    for (std::size_t n = 0; n < got.size(); ++n)
        EXPECT_EQ(got[n], inside(n) ? 3 : n / 601 == 4 && n % 601 % 2 == 0 ? 5 : 0) << n;
}

TEST(Fill, HalfPrecisionRounding)
{
    const auto bits = [](DataType type, double value) {
        std::uint16_t result = 0;
        std::memcpy(&result, element_bytes(type, value).data(), sizeof result);
        return result;
    };
    EXPECT_EQ(bits(DataType::float16, 1.0), 0x3c00);
    EXPECT_EQ(bits(DataType::float16, -2.0), 0xc000);
    EXPECT_EQ(bits(DataType::float16, 65504), 0x7bff);
    EXPECT_EQ(bits(DataType::float16, 65520), 0x7c00);
    EXPECT_EQ(bits(DataType::float16, 65519), 0x7bff);
    EXPECT_EQ(bits(DataType::float16, 0x1p-24), 0x0001);
    EXPECT_EQ(bits(DataType::float16, 0x1p-25), 0x0000);
    EXPECT_EQ(bits(DataType::float16, 0x1.8p-24), 0x0002);
    EXPECT_EQ(bits(DataType::float16, 0x1p-14), 0x0400);
    EXPECT_EQ(bits(DataType::float16, 1.0 + 0x1p-11), 0x3c00);       // a tie, to even
    EXPECT_EQ(bits(DataType::float16, 1.0 + 3 * 0x1p-11), 0x3c02);   // a tie, to even
    EXPECT_EQ(bits(DataType::bfloat16, 1.0), 0x3f80);
    EXPECT_EQ(bits(DataType::bfloat16, 1.0 + 0x1p-8), 0x3f80);
    EXPECT_EQ(bits(DataType::bfloat16, 1.0 + 3 * 0x1p-8), 0x3f82);
}

}  // namespace
}  // namespace clprim
