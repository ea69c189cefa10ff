// Reads and writes through indices against loops on the host.
#include <clprim/clprim.hpp>
#include <clprim/concat.hpp>
#include <clprim/index.hpp>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

using namespace clprim;

namespace {

Queue& queue() { return Context::get().queue(); }

template <class T>
Tensor upload(const Dims& shape, DataType dtype, const std::vector<T>& values)
{
    Tensor tensor = Context::get().empty(shape, dtype, queue());
    queue().write(*tensor.memory, 0, values.data(), values.size() * sizeof(T));
    return tensor;
}

std::vector<float> read(const Tensor& tensor)
{
    std::vector<float> values(tensor.numel());
    queue().read(*tensor.memory, tensor.offset * sizeof(float), values.data(), values.size() * sizeof(float));
    return values;
}

Tensor floats(const Dims& shape)   // 0, 1, 2, ...
{
    std::vector<float> values(shape.product());
    std::iota(values.begin(), values.end(), 0.0f);
    return upload(shape, DataType::float32, values);
}

Tensor indices(const std::vector<std::int64_t>& values)
{
    return upload({static_cast<std::int64_t>(values.size())}, DataType::int64, values);
}

}  // namespace

TEST(Index, SelectTakesRowsAndColumns)
{
    const Tensor input = floats({5, 8});
    const std::vector<std::int64_t> index = {4, -5, 2, 2};
    for (std::size_t axis : {0, 1}) {
        Dims shape = input.shape;
        shape[axis] = 4;
        Tensor out = Context::get().empty(shape, DataType::float32, queue());
        index_select(queue(), input, axis, indices(index), out);
        const auto values = read(out);
        for (std::int64_t i = 0; i < shape[0]; ++i)
            for (std::int64_t j = 0; j < shape[1]; ++j) {
                const std::int64_t k = index[axis ? j : i], at = k < 0 ? k + input.size(axis) : k;
                EXPECT_EQ(values[i * shape[1] + j], axis ? i * 8 + at : at * 8 + j);
            }
    }
}

TEST(Index, ReadsTransposedAndOffsetViews)
{
    const Tensor input = floats({6, 7}).slice(0, 1, 6).transpose(0, 1);   // 7 x 5
    Tensor out = Context::get().empty({7, 2}, DataType::float32, queue());
    index_select(queue(), input, 1, indices({3, 0}), out);
    const auto values = read(out);
    for (int i = 0; i < 7; ++i) {
        EXPECT_EQ(values[2 * i], (3 + 1) * 7 + i);
        EXPECT_EQ(values[2 * i + 1], (0 + 1) * 7 + i);
    }
}

template <class T>
void moves_of_size(DataType dtype, int first, int rows, int columns)
{
    std::vector<T> values(rows * columns + first), result(rows * columns);
    std::iota(values.begin(), values.end(), T(1));
    const Dims shape{rows, columns};
    const Tensor all = upload({static_cast<std::int64_t>(values.size())}, dtype, values);
    const Tensor input{all.memory, all.offset + first, dtype, shape, {columns, 1}};
    std::vector<std::int64_t> index(rows * columns), row(rows), column(columns);
    for (int i = 0; i < rows * columns; ++i)   // a permutation of every column
        index[i] = (i / columns + i % columns) % rows - (i % 3 ? rows : 0);
    for (int i = 0; i < rows; ++i)
        row[i] = (i * 7 + 3) % rows - (i % 2 ? rows : 0);
    for (int i = 0; i < columns; ++i)
        column[i] = (i * 5 + 1) % columns;

    const Tensor places = upload(shape, DataType::int64, index), out = Context::get().empty(shape, dtype, queue());
    const auto check = [&](const char* what, const auto& expected) {
        queue().read(*out.memory, out.offset * sizeof(T), result.data(), result.size() * sizeof(T));
        for (int i = 0; i < rows; ++i)
            for (int j = 0; j < columns; ++j)
                ASSERT_EQ(result[i * columns + j], values[first + expected(i, j)])
                    << what << " of " << rows << " x " << columns << " at " << i << ", " << j;
    };
    const auto wrapped = [&](std::int64_t at) { return at < 0 ? at + rows : at; };
    gather(queue(), input, 0, places, out);
    check("gather", [&](int i, int j) { return wrapped(index[i * columns + j]) * columns + j; });
    scatter(queue(), out, 0, places, input);
    check("scatter", [&](int i, int j) { return (i + rows - j % rows) % rows * columns + j; });
    index_select(queue(), input, 0, indices(row), out);
    check("rows", [&](int i, int j) { return wrapped(row[i]) * columns + j; });
    index_select(queue(), input, 1, indices(column), out);
    check("columns", [&](int i, int j) { return i * columns + column[j]; });
}

// Views whose strides are negative, along the axis of the indices and across it, in lengths that kernels for CPUs take
// by blocks.
TEST(Index, MovesAlongReversedSides)
{
    const auto reversed = [](Tensor t, std::size_t axis) {
        t.offset += (t.size(axis) - 1) * t.stride(axis);
        t.strides[axis] = -t.stride(axis);
        return t;
    };
    constexpr std::int64_t rows = 7, columns = 150;
    const Dims shape{rows, columns};
    for (const std::size_t turned : {0, 1})
        for (const std::size_t axis : {0, 1}) {
            const std::int64_t length = shape[axis];
            std::vector<std::int64_t> index(rows * columns);   // a permutation of every line
            for (std::int64_t i = 0; i < rows * columns; ++i) {
                const std::int64_t at = axis ? i % columns : i / columns, line = axis ? i / columns : i % columns;
                index[i] = (at * 11 + line) % length - (i % 3 ? length : 0);
            }
            const Tensor places = upload(shape, DataType::int64, index), plain = floats(shape);
            const Tensor gathered = Context::get().empty(shape, DataType::float32, queue());
            const Tensor scattered = Context::get().empty(shape, DataType::float32, queue());
            gather(queue(), reversed(plain, turned), axis, places, gathered);
            scatter(queue(), reversed(scattered, turned), axis, places, plain);
            const auto taken = read(gathered), put = read(scattered);
            for (std::int64_t i = 0; i < rows; ++i)
                for (std::int64_t j = 0; j < columns; ++j) {
                    const std::int64_t at = (index[i * columns + j] + length) % length;
                    const std::int64_t row = axis ? i : at, column = axis ? at : j;
                    const std::int64_t there =
                        (turned ? row : rows - 1 - row) * columns + (turned ? columns - 1 - column : column);
                    ASSERT_EQ(taken[i * columns + j], there) << turned << axis << " at " << i << ", " << j;
                    ASSERT_EQ(put[there], i * columns + j) << turned << axis << " at " << i << ", " << j;
                }
        }
}

// Lines of all lengths, so that GPUs' work-items take several elements along either axis, as vectors and apart, with
// some left over; sources as they are and from an odd place.
TEST(Index, MovesOfAllSizes)
{
    const std::pair<int, int> sizes[] = {{1, 1},    {3, 5},   {8, 8},    {5, 64}, {64, 3},
                                         {2, 1001}, {7, 256}, {130, 12}, {33, 31}};
    for (const auto& [rows, columns] : sizes)
        for (int first : {0, 1}) {
            moves_of_size<std::uint8_t>(DataType::uint8, first, rows, columns);
            moves_of_size<float>(DataType::float32, first, rows, columns);
            moves_of_size<std::int64_t>(DataType::int64, first, rows, columns);
        }
}

// Keys in runs of elements: rows of the last axis move whole.
TEST(Index, KeysCountRunsOfElements)
{
    const Tensor input = floats({6, 5, 8});
    const Tensor keys = Context::get().empty({7, 1}, DataType::int64, queue());
    const Tensor first = indices({5, 0, -1, 3, 2, 2, -6}), second = indices({0, 4, -1, -5, 2, 1, -5});
    const auto column = [](const Tensor& index) {
        return Tensor{index.memory, index.offset, index.dtype, {7, 1}, {1, 1}};
    };
    add_keys(queue(), keys, {"keys", column(first), 6, 5}, true);
    add_keys(queue(), keys, {"keys", column(second), 5, 1}, false);
    const Tensor out = Context::get().empty({7, 8}, DataType::float32, queue());
    Tensor rows = input, wide = keys;
    rows.shape = wide.shape = out.shape;
    rows.strides = {0, 1};
    wide.strides = {1, 0};
    read_through(queue(), rows, {"keys", wide, index_is_key, 8}, out);
    const int a[] = {5, 0, 5, 3, 2, 2, 0}, b[] = {0, 4, 4, 0, 2, 1, 0};
    const auto values = read(out);
    for (int i = 0; i < 7; ++i)
        for (int j = 0; j < 8; ++j)
            EXPECT_EQ(values[i * 8 + j], (a[i] * 5 + b[i]) * 8 + j);

    // A bad index leaves a key that reaches nothing, and is reported once.
    add_keys(queue(), keys, {"bad keys", column(first), 5, 0}, false);
    EXPECT_THROW(queue().finish(), IndexError);
    read_through(queue(), rows, {"keys", wide, index_is_key, 8}, out);
    EXPECT_NO_THROW(queue().finish());
}

TEST(Index, ReduceAddsInTheOrderOfTheIndex)
{
    Tensor self = upload<float>({3, 2}, DataType::float32, {1, 2, 3, 4, 5, 6});
    index_reduce(queue(), self, 0, indices({2, 0, 2, -3}), floats({4, 2}), IndexReduce::sum);
    EXPECT_EQ(read(self), (std::vector<float>{1 + 2 + 6, 2 + 3 + 7, 3, 4, 5 + 0 + 4, 6 + 1 + 5}));
    index_reduce(queue(), self, 0, indices({1, 1}), floats({2, 2}), IndexReduce::assign);
    EXPECT_EQ(read(self)[2], 2);
}

TEST(Index, ABadIndexIsReportedAndTouchesNothing)
{
    for (bool write : {false, true}) {
        Tensor self = floats({4, 4}), other = Context::get().empty({2, 4}, DataType::float32, queue());
        const Tensor index = indices({1, 1000000});
        if (write)
            index_copy(queue(), self, 0, index, other);
        else
            index_select(queue(), self, 0, index, other);
        try {
            queue().finish();
            FAIL() << "no IndexError";
        } catch (const IndexError& error) {
            EXPECT_NE(std::string(error.what()).find(write ? "index_copy" : "index_select"), std::string::npos);
        }
        EXPECT_NO_THROW(queue().finish());
    }
    EXPECT_THROW(index_select(queue(), floats({2, 2}), 0, indices({0}), floats({2, 2})), InvalidArgument);
}

TEST(Index, NegativeIndicesAreRefusedWhereTheCallerSaysSo)
{
    const Along refused(0, NegativeIndex::refused, "an operator");
    const Tensor index = indices({1, -1});
    for (int which = 0; which < 4; ++which) {
        Tensor self = floats({4, 3}), rows = floats({2, 3});
        const Tensor wide{index.memory, index.offset, index.dtype, {2, 3}, {1, 0}};
        which == 0   ? index_select(queue(), self, refused, index, rows)
        : which == 1 ? index_reduce(queue(), self, refused, index, rows, IndexReduce::sum)
        : which == 2 ? scatter(queue(), self, refused, wide, rows)
                     : gather(queue(), self, refused, wide, rows);
        try {
            queue().finish();
            FAIL() << "no IndexError";
        } catch (const IndexError& error) {
            EXPECT_STREQ(error.what(), "an operator: index -1 is out of bounds for dimension with size 4");
        }
        if (which == 1 || which == 2) {
            EXPECT_EQ(read(self)[9], 9);   // the last row is as it was
        }
    }
}

TEST(Concat, AlongEveryAxis)
{
    const Tensor a = floats({2, 3, 4}), b = floats({2, 5, 4});
    Tensor out = Context::get().empty({2, 8, 4}, DataType::float32, queue());
    concat(queue(), std::vector<Tensor>{a, b}, 1, out);
    const auto values = read(out);
    for (int n = 0; n < 2; ++n)
        for (int i = 0; i < 8; ++i)
            for (int j = 0; j < 4; ++j)
                EXPECT_EQ(values[(n * 8 + i) * 4 + j], i < 3 ? (n * 3 + i) * 4 + j : (n * 5 + i - 3) * 4 + j);
    EXPECT_THROW(concat(queue(), std::vector<Tensor>{a}, 1, out), InvalidArgument);
}
