// Tables of Fourier transforms that the host computes, in double.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

#include <clprim/queue.hpp>

namespace clprim::detail {

// exp(-2 pi i j / n).
inline std::pair<double, double> root(std::int64_t j, std::int64_t n)
{
    const double angle = -2 * std::numbers::pi * static_cast<double>(j) / static_cast<double>(n);
    return {std::cos(angle), std::sin(angle)};
}

// What lines.cl takes out of tables: roots of unity of a line, real parts before imaginary ones, and turns of a longer
// transform that the line is part of.
template <class R>
std::vector<R> split_roots(std::int64_t n)
{
    std::vector<R> table(2 * static_cast<std::size_t>(n));
    for (std::int64_t j = 0; j < n; ++j) {
        const auto [re, im] = root(j, n);
        table[j] = static_cast<R>(re);
        table[n + j] = static_cast<R>(im);
    }
    return table;
}

inline cl_uint fine_turns(std::int64_t all)
{
    return static_cast<cl_uint>(std::ceil(std::sqrt(static_cast<double>(all))));
}

// The chirp exp(-pi i j^2 / n) of n elements; and its conjugate as a circular filter of m elements, whose distances are
// counted both ways.
template <class R>
std::vector<R> chirp(std::int64_t n)
{
    std::vector<R> table;
    for (std::int64_t j = 0; j < n; ++j)
        for (const double part : {root(j * j % (2 * n), 2 * n).first, root(j * j % (2 * n), 2 * n).second})
            table.push_back(static_cast<R>(part));
    return table;
}

inline std::int64_t padded(std::int64_t n) { return std::bit_ceil(static_cast<std::uint64_t>(2 * n - 1)); }

template <class R>
std::vector<R> chirp_filter(std::int64_t n)
{
    const std::vector<R> one = chirp<R>(n);
    const std::int64_t m = padded(n);
    std::vector<R> table(static_cast<std::size_t>(2 * m));
    for (std::int64_t j = 0; j < n; ++j)
        for (const std::int64_t at : {j, (m - j) % m}) {
            table[2 * at] = one[2 * j];
            table[2 * at + 1] = -one[2 * j + 1];
        }
    return table;
}

template <class R>
std::vector<R> pair_turns(std::int64_t all)
{
    const std::int64_t fine = fine_turns(all);
    std::vector<R> table;
    for (std::int64_t step : {std::int64_t{1}, fine})
        for (std::int64_t j = 0; j < fine; ++j)
            for (const double part : {root(j * step, all).first, root(j * step, all).second})
                table.push_back(static_cast<R>(part));
    return table;
}

template <class R>
std::vector<R> paired_roots(std::int64_t n)
{
    std::vector<R> table;
    for (std::int64_t j = 0; j < n; ++j)
        for (const double part : {root(j, n).first, root(j, n).second})
            table.push_back(static_cast<R>(part));
    return table;
}

}  // namespace clprim::detail
