// Sorting, selection and scans against the standard library.
#include <clprim/clprim.hpp>
#include <clprim/scan.hpp>
#include <clprim/sort.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
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

template <class T>
std::vector<T> read(const Tensor& tensor)
{
    std::vector<T> values(tensor.numel());
    queue().read(*tensor.memory, tensor.offset * sizeof(T), values.data(), values.size() * sizeof(T));
    return values;
}

std::vector<float> numbers(std::int64_t n)   // with many ties
{
    std::mt19937 random(7);
    std::vector<float> values(n);
    for (float& v : values)
        v = static_cast<float>(static_cast<int>(random() % 200) - 100);
    return values;
}

std::vector<std::int64_t> stable_order(const float* row, std::int64_t n, bool descending)
{
    std::vector<std::int64_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return descending ? row[a] > row[b] : row[a] < row[b];
    });
    return order;
}

}  // namespace

TEST(Sort, IsStableForRowsOfEveryLength)
{
    for (std::int64_t n : {1, 2, 7, 64, 1000, 1024, 1025, 5001})
        for (bool descending : {false, true}) {
            const std::int64_t rows = 3;
            const auto values = numbers(rows * n);
            const Tensor input = upload({rows, n}, DataType::float32, values);
            Tensor sorted = Context::get().empty({rows, n}, DataType::float32, queue());
            Tensor order = Context::get().empty({rows, n}, DataType::int64, queue());
            sort(queue(), input, 1, descending, sorted, order);
            const auto got = read<std::int64_t>(order);
            const auto got_values = read<float>(sorted);
            for (std::int64_t r = 0; r < rows; ++r) {
                const auto want = stable_order(&values[r * n], n, descending);
                for (std::int64_t i = 0; i < n; ++i) {
                    ASSERT_EQ(got[r * n + i], want[i]) << "row " << r << " place " << i << " of " << n;
                    ASSERT_EQ(got_values[r * n + i], values[r * n + want[i]]);
                }
            }
        }
}

TEST(Sort, LongRowsByDigits)   // on GPUs, several tiles of them by each work-group
{
    const std::int64_t n = 4'000'000;
    const auto values = numbers(n);
    Tensor sorted = Context::get().empty({n}, DataType::float32, queue());
    Tensor order = Context::get().empty({n}, DataType::int64, queue());
    sort(queue(), upload({n}, DataType::float32, values), 0, true, sorted, order);
    EXPECT_EQ(read<std::int64_t>(order), stable_order(values.data(), n, true));
}

TEST(Sort, TopkNarrowsLongRowsTileByTile)
{
    for (std::int64_t k : {1, 5, 256, 300}) {
        const std::int64_t n = 20000;
        const auto values = numbers(n);
        Tensor best = Context::get().empty({k}, DataType::float32, queue());
        Tensor order = Context::get().empty({k}, DataType::int64, queue());
        topk(queue(), upload({n}, DataType::float32, values), 0, true, best, order);
        const auto got = read<std::int64_t>(order);
        const auto want = stable_order(values.data(), n, true);
        EXPECT_EQ(got, std::vector<std::int64_t>(want.begin(), want.begin() + k)) << "k " << k;
    }
}

TEST(Scan, SumsOfShortAndLongLines)
{
    for (std::int64_t n : {1, 5, 300, 70000}) {
        const auto values = numbers(n);
        Tensor out = Context::get().empty({n}, DataType::float32, queue());
        cumulative(queue(), upload({n}, DataType::float32, values), 0, Scan::sum, out);
        const auto got = read<float>(out);
        double sum = 0;
        for (std::int64_t i = 0; i < n; ++i) {
            sum += values[i];
            ASSERT_NEAR(got[i], sum, 1e-6 * std::abs(sum) + 1e-5) << i << " of " << n;
        }
    }
}

TEST(Scan, PositionsOfNonzero)
{
    const std::int64_t n = 10000;
    auto values = numbers(n);
    std::vector<std::int64_t> want;
    for (std::int64_t i = 0; i < n; ++i)
        if ((values[i] = values[i] > 50 ? values[i] : 0) != 0)
            want.push_back(i);
    const Tensor input = upload({n}, DataType::float32, values);
    const NonzeroCounts counts = nonzero_count(queue(), input);
    const std::int64_t total = read<std::int64_t>(counts.totals).back();
    ASSERT_EQ(total, static_cast<std::int64_t>(want.size()));
    Tensor coordinates = Context::get().empty({total, 1}, DataType::int64, queue());
    nonzero_write(queue(), input, counts, coordinates);
    EXPECT_EQ(read<std::int64_t>(coordinates), want);
}

TEST(Search, FindsPlacesAmongBoundaries)
{
    const Tensor boundaries = upload<float>({4}, DataType::float32, {1, 3, 3, 5});
    const Tensor values = upload<float>({5}, DataType::float32, {0, 1, 3, 4, 9});
    Tensor out = Context::get().empty({5}, DataType::int64, queue());
    searchsorted(queue(), {boundaries, {}, false}, values, out);
    EXPECT_EQ(read<std::int64_t>(out), (std::vector<std::int64_t>{0, 0, 1, 3, 4}));
    searchsorted(queue(), {boundaries, {}, true}, values, out);
    EXPECT_EQ(read<std::int64_t>(out), (std::vector<std::int64_t>{0, 1, 3, 3, 4}));
}

TEST(Histogram, FindsBinsAndWhatIsOutside)
{
    constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    const Tensor values = upload<float>({9}, DataType::float32, {0.5f, 1, 1.5f, 2, 3.999f, 4, 4.1f, nan, infinity});
    Tensor out = Context::get().empty({9}, DataType::int64, queue());
    histogram_bins(queue(), values, {1, 4, 3}, out);
    EXPECT_EQ(read<std::int64_t>(out), (std::vector<std::int64_t>{3, 0, 0, 1, 2, 2, 3, 3, 3}));
}

TEST(Histogram, CountsPlacesInRange)
{
    // Few places are counted in local memory, many in global memory.
    for (const std::int64_t bins : {1, 10, 2000, 50000}) {
        constexpr std::int64_t n = 20011;
        std::vector<std::int64_t> places(n);
        std::vector<std::int32_t> want(bins, 3);
        for (std::int64_t i = 0; i < n; ++i) {
            places[i] = i * i % (bins + 7) - 2;
            if (places[i] >= 0 && places[i] < bins)
                ++want[places[i]];
        }
        const Tensor counts = upload({bins}, DataType::int32, std::vector<std::int32_t>(bins, 3));
        count_places(queue(), upload({n}, DataType::int64, places), counts);
        EXPECT_EQ(read<std::int32_t>(counts), want) << bins;
    }
}
