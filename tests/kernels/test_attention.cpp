// Attention, forward and backward, against the definition in double, through every implementation.
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include <clprim/attention.hpp>
#include <clprim/copy.hpp>
#include <gtest/gtest.h>

#include "kernels/attention/gpu_matrix.hpp"
#include "kernels/attention/problem.hpp"
#include "kernels/host_tensor.hpp"

namespace clprim {
namespace {

using Values = std::vector<double>;

enum class Mask { none, added, added_for_keys, boolean };

struct Case {
    std::int64_t batch, heads, kv_heads, queries, keys, size, value_size;
    bool causal = false;
    std::int64_t offset = 0;
    Mask mask = Mask::none;
    double dropout = 0;
    DataType dtype = DataType::float32;
    bool turned = false;   // [B, L, H, E] in memory, as it comes from a projection
};

void PrintTo(const Case& c, std::ostream* out)
{
    *out << c.batch << ' ' << c.heads << ' ' << c.kv_heads << ' ' << c.queries << ' ' << c.keys << ' ' << c.size << ' '
         << c.value_size << (c.causal ? " causal " : " ") << c.offset << " mask " << static_cast<int>(c.mask)
         << " dropout " << c.dropout << ' ' << name_of(c.dtype) << (c.turned ? " turned" : "");
}

// Philox-4x32-10, from its description.
std::array<std::uint32_t, 4> philox(std::uint64_t counter, PhiloxState state)
{
    std::array<std::uint32_t, 4> c{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32),
                                   static_cast<std::uint32_t>(state.offset),
                                   static_cast<std::uint32_t>(state.offset >> 32)};
    auto low = static_cast<std::uint32_t>(state.seed), high = static_cast<std::uint32_t>(state.seed >> 32);
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
        c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ low, static_cast<std::uint32_t>(b),
             static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ high, static_cast<std::uint32_t>(a)};
        low += 0x9E3779B9u;
        high += 0xBB67AE85u;
    }
    return c;
}

std::size_t product(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d)
{
    return static_cast<std::size_t>(a * b * c * d);
}

// A tensor and its elements in order, after rounding to the tensor's dtype.
struct Both {
    Tensor tensor;
    Values values;
};

struct Problem {
    Case c;
    Queue& queue = Context::get().queue();
    std::mt19937 random{7};
    Both q, k, v, grad_y, mask;
    Attention attention;

    explicit Problem(const Case& c_) : c(c_)
    {
        q = make({c.batch, c.heads, c.queries, c.size});
        k = make({c.batch, c.kv_heads, c.keys, c.size});
        v = make({c.batch, c.kv_heads, c.keys, c.value_size});
        grad_y = make({c.batch, c.heads, c.queries, c.value_size});
        make_mask();
        attention = {q.tensor, k.tensor, v.tensor, mask.tensor, 0.3, c.causal, c.offset, c.dropout, {42, 3}};
    }

    Tensor empty(const Dims& shape, DataType dtype) const { return queue.context().empty(shape, dtype, queue); }

    // Of the case's dtype and layout, filled with noise so that what is not written shows.
    Tensor blank(const Dims& s) const
    {
        Tensor t = c.turned ? empty({s[0], s[2], s[1], s[3]}, c.dtype).transpose(1, 2) : empty(s, c.dtype);
        if (t.numel() > 0)
            fill(queue, t, 77);
        return t;
    }

    Values read(const Tensor& t) const
    {
        const Tensor floats = empty(t.shape, DataType::float32);
        if (t.numel() == 0)
            return {};
        copy(queue, t, floats);
        return test::download(queue, floats);
    }

    Both make(const Dims& shape)
    {
        std::normal_distribution<double> normal;
        Values values(product(shape[0], shape[1], shape[2], shape[3]));
        for (double& x : values)
            x = normal(random);
        Both result{blank(shape), {}};
        if (!values.empty())
            copy(queue, test::upload(queue, values, shape), result.tensor);
        result.values = read(result.tensor);
        return result;
    }

    void make_mask()
    {
        if (c.mask == Mask::none)
            return;
        mask = c.mask == Mask::added_for_keys ? make({c.batch, 1, 1, c.keys}) : make({1, c.heads, c.queries, c.keys});
        for (std::size_t i = 0; i < mask.values.size(); ++i)
            if (mask.values[i] > 0.9 ||
                (c.mask != Mask::added_for_keys && i < static_cast<std::size_t>(c.keys))) // row 0: all
                mask.values[i] = -std::numeric_limits<double>::infinity();
        const Dims shape = mask.tensor.shape;
        if (c.mask == Mask::boolean) {
            Values seen(mask.values.size());
            for (std::size_t i = 0; i < seen.size(); ++i) {
                seen[i] = mask.values[i] > -1e30;
                mask.values[i] = seen[i] != 0 ? 0 : -std::numeric_limits<double>::infinity();
            }
            mask.tensor = empty(shape, DataType::boolean);
            copy(queue, test::upload(queue, seen, shape), mask.tensor);
        } else {
            copy(queue, test::upload(queue, mask.values, shape), mask.tensor);
        }
    }

    double masked(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const
    {
        if (c.causal && j > i + c.offset)
            return -std::numeric_limits<double>::infinity();
        if (c.mask == Mask::none)
            return 0;
        return mask.values[static_cast<std::size_t>(c.mask == Mask::added_for_keys ? b * c.keys + j
                                                                                   : (h * c.queries + i) * c.keys + j)];
    }
};

struct Expected {
    Values y, logsumexp, grad_q, grad_k, grad_v;
};

Expected reference(const Problem& p)
{
    const Case& c = p.c;
    Expected r{Values(p.grad_y.values.size()), Values(product(c.batch, c.heads, c.queries, 1)),
               Values(p.q.values.size()), Values(p.k.values.size()), Values(p.v.values.size())};
    const auto u = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    for (std::int64_t b = 0; b < c.batch; ++b)
        for (std::int64_t h = 0; h < c.heads; ++h)
            for (std::int64_t i = 0; i < c.queries; ++i) {
                const std::int64_t row = (b * c.heads + h) * c.queries + i,
                                   kv = b * c.kv_heads + h / (c.heads / c.kv_heads);
                const double *q = &p.q.values[u(row * c.size)], *dy = &p.grad_y.values[u(row * c.value_size)];
                const auto k = [&](std::int64_t j) { return u((kv * c.keys + j) * c.size); };
                const auto v = [&](std::int64_t j) { return u((kv * c.keys + j) * c.value_size); };
                Values s(u(c.keys)), factor(u(c.keys), 1);
                double best = -std::numeric_limits<double>::infinity(), total = 0, delta = 0;
                for (std::int64_t j = 0; j < c.keys; ++j) {
                    for (std::int64_t e = 0; e < c.size; ++e)
                        s[u(j)] += p.attention.scale * q[e] * p.k.values[k(j) + u(e)];
                    s[u(j)] += p.masked(b, h, i, j);
                    best = std::max(best, s[u(j)]);
                    if (c.dropout > 0) {
                        const auto words =
                            philox(static_cast<std::uint64_t>(row * ((c.keys + 3) / 4) + j / 4), p.attention.state);
                        factor[u(j)] = (words[u(j % 4)] >> 8) * 0x1p-24 < 1 - c.dropout ? 1 / (1 - c.dropout) : 0;
                    }
                }
                r.logsumexp[u(row)] = best;
                if (std::isinf(best))
                    continue;
                for (const double x : s)
                    total += std::exp(x - best);
                r.logsumexp[u(row)] += std::log(total);
                double* y = &r.y[u(row * c.value_size)];
                for (std::int64_t j = 0; j < c.keys; ++j) {
                    s[u(j)] = std::exp(s[u(j)] - r.logsumexp[u(row)]);
                    for (std::int64_t e = 0; e < c.value_size; ++e)
                        y[e] += factor[u(j)] * s[u(j)] * p.v.values[v(j) + u(e)];
                }
                for (std::int64_t e = 0; e < c.value_size; ++e)
                    delta += y[e] * dy[e];
                for (std::int64_t j = 0; j < c.keys; ++j) {
                    double grad_p = 0;
                    for (std::int64_t e = 0; e < c.value_size; ++e) {
                        grad_p += factor[u(j)] * dy[e] * p.v.values[v(j) + u(e)];
                        r.grad_v[v(j) + u(e)] += factor[u(j)] * s[u(j)] * dy[e];
                    }
                    const double grad_s = p.attention.scale * s[u(j)] * (grad_p - delta);
                    for (std::int64_t e = 0; e < c.size; ++e) {
                        r.grad_q[u(row * c.size + e)] += grad_s * p.k.values[k(j) + u(e)];
                        r.grad_k[k(j) + u(e)] += grad_s * q[e];
                    }
                }
            }
    return r;
}

void expect_near(const char* what, const Values& actual, const Values& expected, double tolerance)
{
    ASSERT_EQ(actual.size(), expected.size()) << what;
    int wrong = 0;
    for (std::size_t i = 0; i < actual.size() && wrong < 3; ++i) {
        if (actual[i] == expected[i] || std::abs(actual[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i])))
            continue;
        ADD_FAILURE() << what << '[' << i << "] is " << actual[i] << ", expected " << expected[i];
        ++wrong;
    }
}

class AttentionTest : public testing::TestWithParam<Case> {};

TEST_P(AttentionTest, MatchesTheDefinition)
{
    const Case c = GetParam();
    Queue& queue = Context::get().queue();
    if (c.dtype == DataType::float64 && !queue.device().fp64)
        GTEST_SKIP() << "no fp64";
    Problem p(c);
    const Expected expected = reference(p);
    const double tolerance = c.dtype == DataType::float16 ? 4e-3 : c.dtype == DataType::bfloat16 ? 3e-2 : 2e-5;
    int tried = 0;
    for (const auto& one : detail::attention_forwards()) {
        if (one.rejects(p.attention, queue.device()))
            continue;
        SCOPED_TRACE(one.name);
        ++tried;
        prefer_implementation("attention", one.name);
        const Tensor y = p.blank(p.grad_y.tensor.shape);
        const Tensor logsumexp = p.empty({c.batch, c.heads, c.queries}, detail::accumulate_type(c.dtype));
        attention(queue, p.attention, y, logsumexp);
        expect_near("y", p.read(y), expected.y, tolerance);
        expect_near("logsumexp", p.read(logsumexp), expected.logsumexp, 1e-5);
        const Tensor alone = p.blank(y.shape);
        attention(queue, p.attention, alone);
        EXPECT_EQ(p.read(alone), p.read(y));
    }
    prefer_implementation("attention", "");
    EXPECT_GE(tried, c.size > longest_fused_head ? 1 : 2);

    // Backward gets results that are as exact as their dtypes.
    AttentionResults results{p.blank(p.grad_y.tensor.shape),
                             p.empty({c.batch, c.heads, c.queries}, detail::accumulate_type(c.dtype)), p.grad_y.tensor};
    attention(queue, p.attention, results.y, results.logsumexp);
    tried = 0;
    for (const auto& one : detail::attention_backwards()) {
        if (one.rejects(p.attention, queue.device()))
            continue;
        SCOPED_TRACE(one.name);
        ++tried;
        prefer_implementation("attention_backward", one.name);
        AttentionGradients g{p.blank(p.q.tensor.shape), p.blank(p.k.tensor.shape), p.blank(p.v.tensor.shape)};
        attention_backward(queue, p.attention, results, g);
        expect_near("grad_q", p.read(g.query), expected.grad_q, 2 * tolerance);
        expect_near("grad_k", p.read(g.key), expected.grad_k, 2 * tolerance);
        expect_near("grad_v", p.read(g.value), expected.grad_v, 2 * tolerance);
        AttentionGradients again{p.blank(p.q.tensor.shape), {}, {}}, keys{{}, p.blank(p.k.tensor.shape), {}},
            values{{}, {}, p.blank(p.v.tensor.shape)};
        for (const AttentionGradients* part : {&again, &keys, &values})
            attention_backward(queue, p.attention, results, *part);
        expect_near("grad_q alone", p.read(again.query), expected.grad_q, 2 * tolerance);
        EXPECT_EQ(p.read(keys.key), p.read(g.key));
        EXPECT_EQ(p.read(values.value), p.read(g.value));
    }
    prefer_implementation("attention_backward", "");
    EXPECT_GE(tried, c.size > longest_fused_head ? 1 : 2);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionTest,
    testing::Values(Case{1, 1, 1, 1, 1, 1, 1}, Case{2, 3, 3, 5, 7, 3, 2}, Case{1, 2, 2, 197, 197, 64, 64},
                    Case{2, 2, 2, 33, 130, 20, 36}, Case{1, 2, 2, 130, 33, 36, 20}, Case{1, 1, 1, 300, 300, 16, 16},
                    Case{1, 1, 1, 40, 50, 80, 128}, Case{1, 1, 1, 40, 50, 256, 130}, Case{1, 1, 1, 9, 11, 300, 8},
                    Case{3, 1, 1, 1, 517, 64, 64}, Case{1, 1, 1, 17, 16, 0, 5}));
INSTANTIATE_TEST_SUITE_P(
    Heads, AttentionTest,
    testing::Values(Case{2, 4, 2, 19, 23, 8, 8}, Case{1, 6, 1, 40, 40, 32, 32, true},
                    Case{2, 4, 2, 65, 65, 24, 24, true, 0, Mask::added, 0, DataType::float32, true},
                    Case{2, 3, 3, 70, 41, 64, 64, false, 0, Mask::none, 0, DataType::float32, true}));
INSTANTIATE_TEST_SUITE_P(Causal, AttentionTest,
                         testing::Values(Case{1, 2, 2, 100, 100, 16, 16, true}, Case{1, 1, 1, 100, 40, 16, 16, true},
                                         Case{1, 1, 1, 40, 200, 16, 16, true}, Case{1, 1, 1, 3, 150, 16, 16, true, 147},
                                         Case{1, 1, 1, 50, 50, 16, 16, true, -7},
                                         Case{1, 1, 1, 50, 50, 16, 16, true, -60},
                                         Case{1, 1, 1, 50, 50, 16, 16, true, 1000000000000000}));
INSTANTIATE_TEST_SUITE_P(Masks, AttentionTest,
                         testing::Values(Case{2, 2, 2, 45, 77, 16, 16, false, 0, Mask::added},
                                         Case{2, 2, 2, 45, 77, 16, 16, false, 0, Mask::added_for_keys},
                                         Case{2, 2, 2, 45, 77, 16, 16, false, 0, Mask::boolean},
                                         Case{2, 2, 2, 45, 77, 16, 16, true, 0, Mask::boolean}));
INSTANTIATE_TEST_SUITE_P(Dropout, AttentionTest,
                         testing::Values(Case{2, 2, 1, 45, 77, 16, 16, false, 0, Mask::none, 0.3},
                                         Case{1, 2, 2, 70, 70, 16, 16, true, 0, Mask::none, 0.5},
                                         Case{1, 1, 1, 20, 20, 16, 16, false, 0, Mask::none, 1},
                                         Case{1, 2, 2, 70, 70, 16, 16, true, 0, Mask::added, 0.1, DataType::float64}));
INSTANTIATE_TEST_SUITE_P(
    Dtypes, AttentionTest,
    testing::Values(Case{1, 2, 2, 50, 60, 64, 64, false, 0, Mask::added, 0, DataType::float16},
                    Case{1, 2, 2, 50, 60, 64, 40, true, 0, Mask::none, 0, DataType::bfloat16, true},
                    Case{1, 2, 2, 50, 60, 64, 64, false, 0, Mask::added, 0, DataType::float64},
                    Case{1, 4, 2, 50, 60, 100, 64, true, 0, Mask::boolean, 0, DataType::float64, true}));

// By every matrix engine, each by its emulation; what the cases above take, where they are of 16 bits, is that of mma.
class AttentionMatrix : public testing::TestWithParam<const char*> {};

TEST_P(AttentionMatrix, MatchesTheDefinition)
{
    Queue& queue = Context::get().queue();
    const Device& device = queue.device();
    if (device.kind != DeviceKind::gpu || device.platform_name.find("Portable") != std::string::npos)
        GTEST_SKIP() << "for GPUs, and one engine is enough on PoCL, whose compiler takes minutes for all of them";
    const detail::MatrixEngineChoice engine = detail::matrix_engine(device, GetParam());
    // Compiling takes most of the time: one case for each engine but one of each kind.
    const bool both = engine.engine == detail::MatrixEngine::dpas16;
    const bool longer = engine.engine != detail::MatrixEngine::wmma;
    for (const Case& c : {Case{1, 4, 2, 50, 77, 64, 64, true, 0, Mask::none, 0, DataType::float16},
                          Case{1, 2, 2, 40, 50, 128, 88, false, 0, Mask::added, 0, DataType::bfloat16, true}}) {
        if (!both && longer != (c.size > 64))
            continue;
        Problem p(c);
        if (c.mask != Mask::none)
            p.attention.mask = p.mask.tensor.expand({c.batch, c.heads, c.queries, c.keys});
        p.attention.scale = c.causal ? 0.3 : -0.05;   // the sign of the scale goes to the queries
        if (detail::attention_gpu_matrix_rejects_by(engine, false, p.attention, device))
            continue;
        const Expected expected = reference(p);
        const Tensor y = p.blank(p.grad_y.tensor.shape);
        const Tensor logsumexp = p.empty({c.batch, c.heads, c.queries}, DataType::float32);
        detail::attention_gpu_matrix_by(engine, false, queue, p.attention, y, logsumexp);
        expect_near("y", p.read(y), expected.y, c.dtype == DataType::float16 ? 4e-3 : 3e-2);
        expect_near("logsumexp", p.read(logsumexp), expected.logsumexp, 1e-5);
    }
}

INSTANTIATE_TEST_SUITE_P(Emulated, AttentionMatrix,
                         testing::Values("emulated_dpas16", "emulated_dpas8", "emulated_wmma", "emulated_wmma12",
                                         "emulated_mfma"),
                         [](const auto& info) { return std::string(info.param); });

TEST(AttentionByMatrix, IsProbed)
{
    const Device& device = Context::get().queue().device();
    if (device.kind != DeviceKind::gpu || device.platform_name.find("Portable") != std::string::npos)
        GTEST_SKIP() << "for GPUs; PoCL's compiler takes minutes";
    EXPECT_TRUE(detail::try_attention_by(device, {detail::MatrixEngine::mma, true, true}, DataType::float16));
    if (detail::matrix_engine(device, "").emulated) {
        EXPECT_FALSE(detail::try_attention_by(device, {detail::MatrixEngine::dpas16, false, true}, DataType::float16));
    }
}

TEST(AttentionEdges, NothingToSeeIsZero)
{
    Queue& queue = Context::get().queue();
    const auto make = [&](const Dims& shape) { return queue.context().empty(shape, DataType::float32, queue); };
    Attention p{make({2, 2, 3, 4}), make({2, 2, 0, 4}), make({2, 2, 0, 5}), {}};
    const Tensor y = make({2, 2, 3, 5}), logsumexp = make({2, 2, 3}), grad = make({2, 2, 3, 4});
    fill(queue, y, 1);
    fill(queue, grad, 1);
    attention(queue, p, y, logsumexp);
    EXPECT_EQ(test::download(queue, y), Values(60, 0.0));
    EXPECT_EQ(test::download(queue, logsumexp), Values(12, -std::numeric_limits<double>::infinity()));
    attention_backward(queue, p, {y, logsumexp, y}, {grad, make({2, 2, 0, 4}), make({2, 2, 0, 5})});
    EXPECT_EQ(test::download(queue, grad), Values(48, 0.0));
    p = {make({2, 2, 0, 4}), make({2, 2, 3, 4}), make({2, 2, 3, 5}), {}};
    attention(queue, p, make({2, 2, 0, 5}));
    const Tensor grad_k = make({2, 2, 3, 4});
    fill(queue, grad_k, 1);
    attention_backward(queue, p, {make({2, 2, 0, 5}), make({2, 2, 0}), make({2, 2, 0, 5})}, {{}, grad_k, {}});
    EXPECT_EQ(test::download(queue, grad_k), Values(48, 0.0));
}

// As softmax does it: NaN and +inf spoil their row and no other.
TEST(AttentionEdges, NaNStaysInItsRow)
{
    Queue& queue = Context::get().queue();
    Values q(40 * 4, 0.5);
    q[4 * 33] = std::nan("");
    q[4 * 7] = std::numeric_limits<double>::infinity();
    const Tensor query = test::upload(queue, q, {1, 1, 40, 4}),
                 ones = test::upload(queue, Values(20 * 4, 1), {1, 1, 20, 4});
    for (const auto& one : detail::attention_forwards()) {
        const Attention p{query, ones, ones, {}};
        if (one.rejects(p, queue.device()))
            continue;
        prefer_implementation("attention", one.name);
        const Tensor y = queue.context().empty({1, 1, 40, 4}, DataType::float32, queue);
        attention(queue, p, y);
        const Values values = test::download(queue, y);
        for (std::size_t i = 0; i < values.size(); ++i)
            EXPECT_TRUE(i / 4 == 33 || i / 4 == 7 ? std::isnan(values[i]) : std::abs(values[i] - 1) < 1e-6)
                << one.name << ' ' << i;
    }
    prefer_implementation("attention", "");
}

TEST(AttentionErrors, NameTheArgument)
{
    Queue& queue = Context::get().queue();
    const auto make = [&](const Dims& shape, DataType type = DataType::float32) {
        return queue.context().empty(shape, type, queue);
    };
    const Attention good{make({1, 4, 5, 8}), make({1, 2, 6, 8}), make({1, 2, 6, 3}), {}};
    const Tensor y = make({1, 4, 5, 3});
    EXPECT_NO_THROW(attention(queue, good, y));
    const auto expect = [&](const char* text, auto change) {
        Attention p = good;
        change(p);
        try {
            attention(queue, p, y);
            ADD_FAILURE() << "no error: " << text;
        } catch (const InvalidArgument& error) {
            EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
        }
    };
    expect("must have four axes", [&](Attention& p) { p.query = make({4, 5, 8}); });
    expect("one floating-point dtype", [&](Attention& p) { p.key = make({1, 2, 6, 8}, DataType::float16); });
    expect("do not fit", [&](Attention& p) { p.key = make({1, 2, 6, 7}); });
    expect("cannot share", [&](Attention& p) { p.key = make({1, 3, 6, 8}), p.value = make({1, 3, 6, 3}); });
    expect("mask must be boolean or float32", [&](Attention& p) { p.mask = make({5, 6}, DataType::int32); });
    expect("does not broadcast", [&](Attention& p) { p.mask = make({5, 5}); });
    expect("dropout must lie in", [&](Attention& p) { p.dropout = 1.5; });
    expect("y must be float32", [&](Attention& p) { p.query = make({1, 4, 4, 8}); });
    EXPECT_THROW(attention_backward(queue, good, {y, {}, y}, {}), InvalidArgument);
    EXPECT_THROW(attention_backward(queue, good, {y, make({1, 4, 5}), y}, {y, {}, {}}), InvalidArgument);
}

}  // namespace
}  // namespace clprim
