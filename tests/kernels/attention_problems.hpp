// Problems of attention and what they come to by the definition, in double.
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include <clprim/attention.hpp>
#include <clprim/copy.hpp>
#include <gtest/gtest.h>

#include "kernels/attention/problem.hpp"
#include "kernels/host_tensor.hpp"

namespace clprim::test {

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
    float softcap = 0;
};

inline void PrintTo(const Case& c, std::ostream* out)
{
    *out << c.batch << ' ' << c.heads << ' ' << c.kv_heads << ' ' << c.queries << ' ' << c.keys << ' ' << c.size << ' '
         << c.value_size << (c.causal ? " causal " : " ") << c.offset << " mask " << static_cast<int>(c.mask)
         << " dropout " << c.dropout << ' ' << name_of(c.dtype) << (c.turned ? " turned" : "") << " softcap "
         << c.softcap;
}

// Philox-4x32-10, from its description.
inline std::array<std::uint32_t, 4> philox(std::uint64_t counter, PhiloxState state)
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

inline std::size_t product(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d)
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
        attention = {q.tensor, k.tensor, v.tensor, mask.tensor, 0.3, c.causal, c.offset, c.dropout, {42, 3}, c.softcap};
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
        return download(queue, floats);
    }

    Both make(const Dims& shape)
    {
        std::normal_distribution<double> normal;
        Values values(product(shape[0], shape[1], shape[2], shape[3]));
        for (double& x : values)
            x = normal(random);
        Both result{blank(shape), {}};
        if (!values.empty())
            copy(queue, upload(queue, values, shape), result.tensor);
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
            copy(queue, upload(queue, seen, shape), mask.tensor);
        } else {
            copy(queue, upload(queue, mask.values, shape), mask.tensor);
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

inline Expected reference(const Problem& p)
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
                const double *q = p.q.values.data() + row * c.size, *dy = p.grad_y.values.data() + row * c.value_size;
                const auto k = [&](std::int64_t j) { return u((kv * c.keys + j) * c.size); };
                const auto v = [&](std::int64_t j) { return u((kv * c.keys + j) * c.value_size); };
                Values s(u(c.keys)), factor(u(c.keys), 1);
                double best = -std::numeric_limits<double>::infinity(), total = 0, delta = 0;
                for (std::int64_t j = 0; j < c.keys; ++j) {
                    for (std::int64_t e = 0; e < c.size; ++e)
                        s[u(j)] += p.attention.scale * q[e] * p.k.values[k(j) + u(e)];
                    if (c.softcap > 0)
                        s[u(j)] = c.softcap * std::tanh(s[u(j)] / c.softcap);
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
                double* y = r.y.data() + row * c.value_size;
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

inline void expect_near(const char* what, const Values& actual, const Values& expected, double tolerance)
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

}  // namespace clprim::test
