// Attention, forward and backward, against the definition in double, through every implementation.
#include <gtest/gtest.h>

#include "kernels/attention/problem.hpp"
#include "kernels/attention_problems.hpp"

namespace clprim {
namespace {

using namespace test;

double tolerance_of(DataType dtype)
{
    return dtype == DataType::float16 ? 4e-3 : dtype == DataType::bfloat16 ? 3e-2 : 2e-5;
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
    const double tolerance = tolerance_of(c.dtype);
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
    if (c.softcap > 0) {
        EXPECT_THROW(attention_backward(queue, p.attention, results, {p.blank(p.q.tensor.shape), {}, {}}),
                     NotSupported);
        return;
    }
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

class FewQueriesTest : public testing::TestWithParam<Case> {};

// Pieces of keys, several heads on one, pieces that a query does not see; only what is meant for them.
TEST_P(FewQueriesTest, MatchTheDefinition)
{
    const Case c = GetParam();
    Queue& queue = Context::get().queue();
    if (c.dtype == DataType::float64 && !queue.device().fp64)
        GTEST_SKIP() << "no fp64";
    Problem p(c);
    const auto all = detail::attention_forwards();
    const bool cpu = queue.device().kind == DeviceKind::cpu;
    const auto few = std::ranges::find(all, std::string_view{cpu ? "cpu_few" : "gpu_few"},
                                       &detail::AttentionForward::name);
    ASSERT_NE(few, all.end());
    if (const auto reason = few->rejects(p.attention, queue.device()))
        GTEST_SKIP() << *reason;
    prefer_implementation("attention", few->name);
    const Expected expected = reference(p);
    const Tensor y = p.blank(p.grad_y.tensor.shape);
    const Tensor logsumexp = p.empty({c.batch, c.heads, c.queries}, detail::accumulate_type(c.dtype));
    attention(queue, p.attention, y, logsumexp);
    expect_near("y", p.read(y), expected.y, tolerance_of(c.dtype));
    expect_near("logsumexp", p.read(logsumexp), expected.logsumexp, 1e-5);
    const Tensor again = p.blank(y.shape);
    attention(queue, p.attention, again);
    EXPECT_EQ(p.read(again), p.read(y));
    prefer_implementation("attention", "");
}

INSTANTIATE_TEST_SUITE_P(
    Few, FewQueriesTest,
    testing::Values(Case{2, 4, 2, 1, 400, 256, 132, false, 0, Mask::added},
                    Case{1, 2, 1, 1, 300, 128, 128, false, 0, Mask::boolean, 0, DataType::float16, true},
                    Case{1, 6, 2, 3, 330, 64, 36, true, 200},
                    Case{1, 1, 1, 2, 300, 31, 33, false, 0, Mask::none, 0, DataType::bfloat16},
                    Case{1, 1, 1, 1, 6000, 64, 64}, Case{1, 40, 1, 8, 3000, 33, 17, true, 2900, Mask::added, 0,
                                                         DataType::float64, true},
                    Case{1, 8, 2, 8, 700, 80, 96, true, 3, Mask::boolean, 0, DataType::float16},
                    Case{2, 4, 2, 1, 300, 40, 24, false, 0, Mask::added_for_keys, 0, DataType::float64, true},
                    // More rows to a head of keys than there is room for.
                    Case{1, 32, 1, 1, 512, 256, 256, false, 0, Mask::none, 0, DataType::float64},
                    Case{2, 8, 1, 4, 100, 248, 256, false, 0, Mask::added, 0, DataType::float64},
                    Case{1, 64, 1, 4, 127, 250, 250, true, 100, Mask::none, 0, DataType::float64}));

INSTANTIATE_TEST_SUITE_P(
    FewCapped, FewQueriesTest,
    testing::Values(Case{2, 4, 2, 1, 400, 64, 36, false, 0, Mask::added, 0, DataType::float32, false, 2},
                    Case{1, 6, 2, 3, 330, 64, 36, true, 200, Mask::none, 0, DataType::float64, true, 0.5},
                    Case{1, 8, 2, 8, 300, 80, 96, true, 3, Mask::boolean, 0, DataType::float16, false, 50}));
INSTANTIATE_TEST_SUITE_P(
    Capped, AttentionTest,
    testing::Values(Case{2, 4, 2, 19, 130, 64, 36, false, 0, Mask::added, 0, DataType::float32, false, 2},
                    Case{1, 2, 2, 100, 100, 16, 16, true, 0, Mask::none, 0, DataType::float32, true, 50},
                    Case{1, 2, 1, 33, 41, 24, 8, true, 5, Mask::boolean, 0, DataType::float64, false, 0.25},
                    Case{1, 2, 1, 33, 41, 300, 8, false, 0, Mask::none, 0.25, DataType::float32, false, 1},
                    Case{1, 2, 2, 45, 77, 32, 32, false, 0, Mask::added, 0.5, DataType::bfloat16, false, 3},
                    Case{1, 4, 2, 70, 90, 64, 40, true, 20, Mask::none, 0, DataType::float16, true, 4}));
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

// A mask is added, as PyTorch does it: what it hides may be NaN. What a causal query does not see is not looked at.
TEST(AttentionEdges, NaNInAHiddenKey)
{
    Queue& queue = Context::get().queue();
    Values k(20 * 4, 1), added(20);
    k[4 * 11] = std::nan("");
    added[11] = -std::numeric_limits<double>::infinity();
    const Tensor query = test::upload(queue, Values(12, 0.5), {1, 1, 3, 4}),
                 key = test::upload(queue, k, {1, 1, 20, 4}),
                 ones = test::upload(queue, Values(20 * 4, 1), {1, 1, 20, 4}),
                 mask = test::upload(queue, added, {1, 20});
    for (const bool causal : {false, true}) {
        Attention p{query, key, ones, causal ? Tensor() : mask};
        p.causal = causal;
        for (const auto& one : detail::attention_forwards()) {
            if (one.rejects(p, queue.device()))
                continue;
            prefer_implementation("attention", one.name);
            const Tensor y = queue.context().empty({1, 1, 3, 4}, DataType::float32, queue);
            attention(queue, p, y);
            for (const double x : test::download(queue, y))
                EXPECT_TRUE(causal ? std::abs(x - 1) < 1e-6 : std::isnan(x)) << one.name << ' ' << causal << ' ' << x;
        }
    }
    prefer_implementation("attention", "");
}

// Masks of the least number instead of -inf: where a row has it everywhere, its keys are alike.
TEST(AttentionEdges, LeastNumbersHide)
{
    Queue& queue = Context::get().queue();
    constexpr std::int64_t queries = 40, keys = 70;
    for (const auto type : {DataType::float32, DataType::bfloat16}) {
        const double least = type == DataType::float32 ? -std::numeric_limits<float>::max() : -3.3895313892515355e38;
        Values mask(queries * keys, 0), values(keys);
        for (std::int64_t j = 0; j < keys; ++j) {
            values[j] = j;
            mask[5 * keys + j] = least;                             // all
            mask[6 * keys + j] = j < 20 ? 0 : least;
            mask[7 * keys + j] = -std::numeric_limits<double>::infinity();
        }
        const auto upload = [&](const Values& v, const Dims& shape) {
            const Tensor result = queue.context().empty(shape, type, queue);
            copy(queue, test::upload(queue, v, shape), result);
            return result;
        };
        Values q(queries * 8);
        for (std::size_t i = 0; i < q.size(); ++i)
            q[i] = 0.25 * static_cast<double>(i % 3);
        const Attention p{upload(q, {1, 1, queries, 8}), upload(Values(keys * 8, 1), {1, 1, keys, 8}),
                          upload(values, {1, 1, keys, 1}), upload(mask, {queries, keys})};
        for (const auto& one : detail::attention_forwards()) {
            if (one.rejects(p, queue.device()))
                continue;
            prefer_implementation("attention", one.name);
            const Tensor y = queue.context().empty({1, 1, queries, 1}, type, queue),
                         wide = queue.context().empty({1, 1, queries, 1}, DataType::float32, queue);
            attention(queue, p, y);
            copy(queue, y, wide);
            const Values results = test::download(queue, wide);
            EXPECT_NEAR(results[5], 34.5, 0.2) << one.name;
            EXPECT_NEAR(results[6], 9.5, 0.1) << one.name;
            EXPECT_EQ(results[7], 0) << one.name;
            EXPECT_NEAR(results[8], 34.5, 0.2) << one.name;
        }
        prefer_implementation("attention", "");
    }
}

// A cache of fixed length, whose end is hidden by a mask and holds anything.
TEST(AttentionEdges, MaskHidesTheEndOfACache)
{
    Queue& queue = Context::get().queue();
    constexpr std::int64_t length = 600, held = 150;
    Values ones(length * 8), hidden(length, 1);
    for (std::size_t j = 0; j < length; ++j)
        for (std::size_t e = 0; e < 8; ++e)
            ones[8 * j + e] = j < held ? 1 : 1e6;
    for (std::size_t j = held; j < length; ++j)
        hidden[j] = 0;
    const Tensor cache = test::upload(queue, ones, {1, 1, length, 8}),
                 query = test::upload(queue, Values(16, 0.25), {1, 2, 1, 8}),
                 mask = queue.context().empty({1, length}, DataType::boolean, queue);
    copy(queue, test::upload(queue, hidden, {1, length}), mask);
    const Attention p{query, cache, cache, mask};
    for (const auto& one : detail::attention_forwards()) {
        if (one.rejects(p, queue.device()))
            continue;
        prefer_implementation("attention", one.name);
        const Tensor y = queue.context().empty({1, 2, 1, 8}, DataType::float32, queue),
                     logsumexp = queue.context().empty({1, 2, 1}, DataType::float32, queue);
        attention(queue, p, y, logsumexp);
        for (const double x : test::download(queue, y))
            EXPECT_NEAR(x, 1, 1e-5) << one.name;
        for (const double x : test::download(queue, logsumexp))
            EXPECT_NEAR(x, 2 + std::log(held), 1e-5) << one.name;
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
    expect("softcap must be", [&](Attention& p) { p.softcap = -1; });
    expect("y must be float32", [&](Attention& p) { p.query = make({1, 4, 4, 8}); });
    EXPECT_THROW(attention_backward(queue, good, {y, {}, y}, {}), InvalidArgument);
    EXPECT_THROW(attention_backward(queue, good, {y, make({1, 4, 5}), y}, {y, {}, {}}), InvalidArgument);
}

}  // namespace
}  // namespace clprim
