// Matrices on host and device, and a product checked against sums in double.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <clprim/clprim.hpp>
#include <clprim/gemm.hpp>
#include <kernels/gemm/problem.hpp>

namespace clprim::testing_gemm {

inline Queue& queue() { return Context::get(0).queue(0); }

// A matrix batch on host and device. Integral test values are exact in every dtype, so results must be equal.
struct Matrices {
    std::vector<double> host;   // [batch][rows][columns], by layout
    MatrixLayout layout;
    Tensor tensor;
};

template <class T>
Tensor upload_as(const std::vector<double>& host, DataType type)
{
    std::vector<T> data(host.begin(), host.end());
    Tensor tensor = queue().context().empty({static_cast<std::int64_t>(host.size())}, type, queue());
    queue().write(*tensor.memory, 0, data.data(), data.size() * sizeof(T));
    return tensor;
}

inline std::uint16_t bfloat16_bits(float v)
{
    std::uint32_t bits;
    std::memcpy(&bits, &v, 4);
    return static_cast<std::uint16_t>(bits >> 16);   // test values have few bits
}

inline double from_half(std::uint16_t bits)
{
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const double v = exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
    return bits >> 15 ? -v : v;
}

inline std::uint16_t half_bits(double v)   // of integers below 2048
{
    if (v == 0)
        return 0;
    const int exponent = std::ilogb(v);
    return static_cast<std::uint16_t>((v < 0) << 15 | (exponent + 15) << 10 |
                                      (static_cast<int>(std::ldexp(std::fabs(v), 10 - exponent)) & 1023));
}

// To nearest, ties to even; of normal numbers, infinities and zero.
inline std::uint16_t rounded_bits(double v, DataType type)
{
    if (std::isnan(v))
        return 0x7fff;
    if (type == DataType::float16) {
        if (std::fabs(v) >= 65520)
            return v < 0 ? 0xfc00 : 0x7c00;
        const int step = v == 0 ? 0 : std::ilogb(v) - 10;
        return half_bits(std::ldexp(std::nearbyint(std::ldexp(v, -step)), step));
    }
    const int step = v == 0 || std::isinf(v) ? 0 : std::ilogb(v) - 7;
    return bfloat16_bits(
        static_cast<float>(std::isinf(v) ? v : std::ldexp(std::nearbyint(std::ldexp(v, -step)), step)));
}

inline Tensor upload(const std::vector<double>& host, DataType type)
{
    std::vector<double> bits = host;
    switch (type) {
    case DataType::float32: return upload_as<float>(host, type);
    case DataType::float64: return upload_as<double>(host, type);
    case DataType::int8: return upload_as<std::int8_t>(host, type);
    case DataType::int16: return upload_as<std::int16_t>(host, type);
    case DataType::int32: return upload_as<std::int32_t>(host, type);
    case DataType::int64: return upload_as<std::int64_t>(host, type);
    case DataType::uint8:
        for (double& v : bits)
            v = static_cast<std::uint8_t>(static_cast<int>(v));
        return upload_as<std::uint8_t>(bits, type);
    case DataType::float16:
        for (double& v : bits)
            v = half_bits(v);
        return upload_as<std::uint16_t>(bits, type);
    case DataType::bfloat16:
        for (double& v : bits)
            v = bfloat16_bits(static_cast<float>(v));
        return upload_as<std::uint16_t>(bits, type);
    default: throw InvalidArgument("no upload");
    }
}

template <class T>
std::vector<double> download_as(const Tensor& tensor)
{
    std::vector<T> data(static_cast<std::size_t>(tensor.numel()));
    queue().read(*tensor.memory, 0, data.data(), data.size() * sizeof(T));
    return {data.begin(), data.end()};
}

inline std::vector<double> download(const Tensor& tensor)
{
    std::vector<double> values;
    switch (tensor.dtype) {
    case DataType::float32: return download_as<float>(tensor);
    case DataType::float64: return download_as<double>(tensor);
    case DataType::int8: return download_as<std::int8_t>(tensor);
    case DataType::int16: return download_as<std::int16_t>(tensor);
    case DataType::int32: return download_as<std::int32_t>(tensor);
    case DataType::int64: return download_as<std::int64_t>(tensor);
    case DataType::uint8:
        values = download_as<std::uint8_t>(tensor);
        for (double& v : values)
            v = static_cast<std::int8_t>(static_cast<int>(v));
        return values;
    case DataType::float16:
        values = download_as<std::uint16_t>(tensor);
        for (double& v : values)
            v = from_half(static_cast<std::uint16_t>(v));
        return values;
    case DataType::bfloat16:
        values = download_as<std::uint16_t>(tensor);
        for (double& v : values) {
            const std::uint32_t bits = static_cast<std::uint32_t>(v) << 16;
            float f;
            std::memcpy(&f, &bits, 4);
            v = f;
        }
        return values;
    default: throw InvalidArgument("no download");
    }
}

// Row-major, column-major, neither stride 1 (with gaps); the same two with lines at multiples of four elements.
enum class Order { rows, columns, spread, rows_of_fours, columns_of_fours };

inline Matrices make(std::int64_t batch, std::int64_t m, std::int64_t n, Order order, std::mt19937& random,
                     DataType type, bool exact = true)
{
    Matrices result;
    const std::int64_t gap = order == Order::spread ? 2 : 1;
    const auto fours = [](std::int64_t size) { return size / 4 * 4 + 8; };
    switch (order) {
    case Order::columns: result.layout = {1, m + 3, n * (m + 3)}; break;
    case Order::rows_of_fours: result.layout = {fours(n), 1, m * fours(n)}; break;
    case Order::columns_of_fours: result.layout = {1, fours(m), n * fours(m)}; break;
    default: result.layout = {gap * (n + 1), gap, gap * m * (n + 1)};
    }
    result.host.resize(static_cast<std::size_t>(batch * result.layout.batch + 1));
    std::uniform_int_distribution<int> small(-1, 1);
    std::normal_distribution<double> normal;
    for (double& v : result.host)
        v = exact ? small(random) : static_cast<float>(normal(random));
    result.tensor = upload(result.host, type);
    return result;
}

inline double& at(Matrices& matrix, std::int64_t b, std::int64_t i, std::int64_t j)
{
    return matrix
        .host[static_cast<std::size_t>(b * matrix.layout.batch + i * matrix.layout.row + j * matrix.layout.column)];
}

struct Case {
    std::int64_t batch, m, n, k;
};
inline const Case cases[] = {{1, 1, 1, 1},    {1, 1, 37, 70},  {1, 45, 1, 300}, {1, 1, 1, 1000}, {1, 12, 32, 256},
                      {1, 13, 33, 17}, {1, 4, 100, 64}, {1, 7, 65, 513}, {1, 64, 64, 64}, {1, 100, 3, 40},
                      {1, 3, 3, 2100}, {1, 50, 70, 600}, {1, 130, 140, 30}, {1, 65, 129, 16}, {1, 200, 33, 5},
                      {3, 5, 6, 7},    {5, 20, 35, 64}, {2, 33, 64, 270}, {1, 24, 70, 600}, {1, 17, 65, 1100},
                      {2, 9, 130, 300}, {7, 8, 8, 8},   {5, 3, 3, 3},   {4, 16, 16, 16}, {3, 33, 20, 17},
                      {2, 64, 8, 32},  {3, 2, 40, 20}};

// Runs one implementation and compares all of C, gaps included.
template <class One>
void check(const One& one, const Case& c, Order a_order, Order b_order, Order c_order,
           DataType type, double alpha, double beta, bool exact = true)
{
    std::mt19937 random(7);
    Matrices a = make(c.batch, c.m, c.k, a_order, random, type, exact);
    Matrices b = make(c.batch, c.k, c.n, b_order, random, type, exact);
    Matrices out = make(c.batch, c.m, c.n, c_order, random, type, exact);
    GemmProblem problem;
    problem.batch = c.batch, problem.m = c.m, problem.n = c.n, problem.k = c.k;
    problem.dtype = type;
    problem.a = a.layout, problem.b = b.layout, problem.c = problem.d = out.layout;
    problem.alpha = is_floating_point(type) ? Scalar(alpha) : Scalar(static_cast<std::int64_t>(alpha));
    problem.beta = is_floating_point(type) ? Scalar(beta) : Scalar(static_cast<std::int64_t>(beta));
    problem.add_d = problem.d_is_c = beta != 0;
    if (one.rejects(problem, queue().device()))
        return;
    one.run(queue(), problem, {a.tensor, b.tensor, out.tensor, beta != 0 ? out.tensor : Tensor()});
    std::vector<double> bound(out.host.size(), 0.0);
    for (std::int64_t bb = 0; bb < c.batch; ++bb)
        for (std::int64_t i = 0; i < c.m; ++i)
            for (std::int64_t j = 0; j < c.n; ++j) {
                double sum = 0, magnitude = 0;
                for (std::int64_t k = 0; k < c.k; ++k) {
                    sum += at(a, bb, i, k) * at(b, bb, k, j);
                    magnitude += std::fabs(at(a, bb, i, k) * at(b, bb, k, j));
                }
                double& target = at(out, bb, i, j);
                bound[static_cast<std::size_t>(&target - out.host.data())] = exact ? 0 : 1e-6 * (magnitude + 1);
                target = alpha * sum + (beta == 0 ? 0 : beta * target);
            }
    const std::vector<double> got = download(out.tensor);
    for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], out.host[i], bound[i]) << one.name << " " << describe(problem) << " element " << i;
}

}  // namespace clprim::testing_gemm
