// Philox against its published test vectors, and that numbers are functions of seed, offset and position alone.
#include <clprim/clprim.hpp>
#include <clprim/keyed_random.hpp>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

using namespace clprim;

namespace {

Context& context() { return Context::get(); }
Queue& queue() { return context().queue(); }

template <class T>
std::vector<T> read(const Tensor& tensor)
{
    std::vector<T> values(tensor.numel());
    queue().read(*tensor.memory, tensor.offset * sizeof(T), values.data(), values.size() * sizeof(T));
    return values;
}

std::vector<float> draw(Distribution distribution, double a, double b, std::int64_t n, PhiloxState state = {42, 7})
{
    Tensor out = context().empty({n}, DataType::float32, queue());
    random_fill(queue(), out, distribution, a, b, state);
    return read<float>(out);
}

}  // namespace

TEST(Philox, GivesThePublishedWords)   // Random123, kat_vectors: philox4x32 10
{
    Tensor out = context().empty({2}, DataType::int64, queue());
    random_integers(queue(), out, 0, 0, {0, 0});
    const auto words = read<std::uint64_t>(out);
    EXPECT_EQ(words[0], 0xe169c58d6627e8d5u);
    EXPECT_EQ(words[1], 0x9b00dbd8bc57ac4cu);
}

TEST(Random, APrefixDoesNotDependOnTheLength)
{
    const auto longer = draw(Distribution::uniform, 0, 1, 1001), shorter = draw(Distribution::uniform, 0, 1, 13);
    for (std::size_t i = 0; i < shorter.size(); ++i)
        EXPECT_EQ(longer[i], shorter[i]);
    EXPECT_NE(draw(Distribution::uniform, 0, 1, 13, {42, 8}), shorter);
    EXPECT_NE(draw(Distribution::uniform, 0, 1, 13, {43, 7}), shorter);
}

TEST(Random, MomentsOfTheDistributions)
{
    const struct {
        Distribution distribution;
        double a, b, mean, variance;
    } cases[] = {
        {Distribution::uniform, -1, 3, 1, 16.0 / 12},
        {Distribution::normal, 2, 3, 2, 9},
        {Distribution::exponential, 0.5, 0, 2, 4},
        {Distribution::geometric, 0.25, 0, 4, 12},
        {Distribution::bernoulli, 0.3, 0, 0.3, 0.21},
        {Distribution::log_normal, 0, 0.5, std::exp(0.125), (std::exp(0.25) - 1) * std::exp(0.25)},
    };
    for (const auto& c : cases) {
        const std::int64_t n = 100000;
        const auto values = draw(c.distribution, c.a, c.b, n);
        double sum = 0, squares = 0;
        for (float v : values)
            sum += v, squares += double(v) * v;
        const double mean = sum / n, variance = squares / n - mean * mean;
        EXPECT_NEAR(mean, c.mean, 5 * std::sqrt(c.variance / n)) << "case " << &c - cases;
        EXPECT_NEAR(variance, c.variance, 0.06 * c.variance) << "case " << &c - cases;
    }
}

TEST(Random, DropoutScalesWhatItKeeps)
{
    const std::int64_t n = 10000;
    Tensor input = context().empty({n}, DataType::float32, queue()),
           out = context().empty({n}, DataType::float32, queue());
    Tensor mask = context().empty({n}, DataType::boolean, queue());
    const std::vector<float> ones(n, 1.0f);
    queue().write(*input.memory, 0, ones.data(), n * sizeof(float));
    dropout(queue(), input, 0.25, {1, 2}, out, mask);
    const auto values = read<float>(out);
    const auto kept = read<std::uint8_t>(mask);
    int count = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        EXPECT_EQ(values[i], kept[i] ? 1 / 0.75f : 0.0f);
        count += kept[i];
    }
    EXPECT_NEAR(count, 7500, 220);
}

TEST(KeyedRandom, IsTheStreamOfTheKey)
{
    Tensor keys = context().empty({1, 2}, DataType::uint64, queue());
    const std::uint64_t zeros[2] = {0, 0};
    queue().write(*keys.memory, keys.offset * 8, zeros, sizeof(zeros));
    Tensor derived = context().empty({2, 1, 2}, DataType::uint64, queue());
    derive_keys(queue(), keys, 0, derived);
    const auto words = read<std::uint64_t>(derived);   // the published words of counter 0
    EXPECT_EQ(words[0], 0xe169c58d6627e8d5u);
    EXPECT_EQ(words[1], 0x9b00dbd8bc57ac4cu);
    Tensor uniform = context().empty({1, 7}, DataType::float32, queue());
    keyed_fill(queue(), uniform, keys, Distribution::uniform, 0, 1);
    const auto numbers = read<float>(uniform);
    const std::uint32_t first[4] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};
    for (int i = 0; i < 4; ++i)
        EXPECT_EQ(numbers[i], static_cast<float>(first[i] & 0xffffff) / (1 << 24));
    EXPECT_EQ(numbers[4], static_cast<float>(words[2] & 0xffffff) / (1 << 24));
    EXPECT_THROW(keyed_fill(queue(), uniform, keys, Distribution::cauchy, 0, 1), Error);
    EXPECT_THROW(derive_keys(queue(), uniform, 0, derived), Error);
}
