// Convolutions of 16-bit numbers of few bits, whose sums float32 holds exactly: results are exact sums rounded once.
#pragma once

#include <algorithm>
#include <cmath>

#include <clprim/conv.hpp>

#include "gemm_matrices.hpp"
#include "kernels/conv_problems.hpp"
#include "kernels/conv_reference.hpp"

namespace clprim::test {

using testing_gemm::queue, testing_gemm::rounded_bits;

struct ExactCase {
    Dims x, w;
    ConvOptions options;
    Layout layout;
    DataType type;
    const char* implementation = "gpu_matrix";
    bool weight_too = true;   // its gradient as well
};

inline Tensor upload(const Host& host, DataType type)
{
    std::vector<std::uint16_t> bits;
    for (const double v : host.values)
        bits.push_back(rounded_bits(v, type));
    Tensor t = queue().context().empty(host.shape, type, queue());
    t.strides = host.strides;
    queue().write(*t.memory, 0, bits.data(), 2 * bits.size());
    queue().finish();
    return t;
}

inline void compare(const Tensor& result, const Host& exact, const char* what)
{
    std::vector<std::uint16_t> got(exact.values.size());
    queue().read(*result.memory, 2 * static_cast<std::size_t>(result.offset), got.data(), 2 * got.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        const std::uint16_t expected = rounded_bits(exact.values[i], result.dtype);
        const bool nan = (got[i] & 0x7fff) > (result.dtype == DataType::float16 ? 0x7c00 : 0x7f80);
        const bool equal = got[i] == expected || (exact.values[i] == 0 && got[i] << 1 == 0);
        ASSERT_TRUE(std::isnan(exact.values[i]) ? nan : equal)
            << what << " at " << i << " of " << to_string(exact.shape) << ": " << exact.values[i] << " as " << got[i];
    }
}

inline void fill_nan(Host& host) { std::fill(host.values.begin(), host.values.end(), NAN); }

// All passes, and with `all` bias, relu and a result that is added to.
inline void check(const ExactCase& c, bool all = false)
{
    std::mt19937 random(5);
    const Dims y_shape = conv_output_shape(c.x, c.w, c.options);
    Host x(c.x, c.layout, &random), w(c.w, c.layout, &random), y(y_shape, c.layout, &random);
    Host bias({y_shape[1]}, Layout::contiguous, &random);
    Host forward(y_shape, c.layout, nullptr), dx(c.x, c.layout, nullptr), dw(c.w, c.layout, nullptr);
    products({&x, &w, &y}, c.options, [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
        forward.values[yi] += x.values[xi] * w.values[wi];
        dx.values[xi] += y.values[yi] * w.values[wi];
        dw.values[wi] += x.values[xi] * y.values[yi];
    });
    ConvOptions options = c.options;
    options.implementation = c.implementation;
    const Tensor tx = upload(x, c.type), tw = upload(w, c.type), ty = upload(y, c.type), tbias = upload(bias, c.type);
    Host nan = y;
    fill_nan(nan);
    const Tensor result = upload(nan, c.type);
    conv_forward(queue(), tx, tw, Tensor(), result, options);
    compare(result, forward, "forward");
    if (all) {
        Host sum = forward;
        for (std::int64_t i = 0; i < y_shape.product(); ++i)
            sum.values[i] = std::max(0.0, y.values[i] + forward.values[i] +
                                              bias.values[i / y.strides[1] % y_shape[1]]);
        Host biased = forward;
        for (std::int64_t i = 0; i < y_shape.product(); ++i)
            biased.values[i] += bias.values[i / y.strides[1] % y_shape[1]];
        conv_forward(queue(), tx, tw, tbias, result, options);
        compare(result, biased, "forward with bias");
        ConvOptions more = options;
        more.activation = Activation::relu;
        more.accumulate = true;
        const Tensor added = upload(y, c.type);
        conv_forward(queue(), tx, tw, tbias, added, more);
        compare(added, sum, "forward with bias and relu, added to the result");
    }
    nan = x, fill_nan(nan);
    const Tensor data = upload(nan, c.type);
    conv_backward_data(queue(), ty, tw, data, options);
    compare(data, dx, "data gradient");
    if (!c.weight_too)
        return;
    nan = w, fill_nan(nan);
    const Tensor weight = upload(nan, c.type);
    conv_backward_weight(queue(), tx, ty, weight, options);
    compare(weight, dw, "weight gradient");
}

}  // namespace clprim::test
