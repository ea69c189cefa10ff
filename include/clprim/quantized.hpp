// Products with weights of few bits: y = x W^T, where a weight is an integer with a scale and an offset for each group
// of neighbours along the sum. What quantised language models spend their time in.
#pragma once

#include <optional>

#include <clprim/export.hpp>
#include <clprim/float8.hpp>
#include <clprim/queue.hpp>
#include <clprim/tensor.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// W[j][i] = scales[i / group][j] * (q[j][i] - center) + zeros[i / group][j] for outputs j < n and inputs i < k; q is a
// signed byte (bits 8, center 0), a number of eight bits of a floating-point format (bits 8, center 0), or a number of
// four bits from 0 to 15 (bits 4, center 8).
struct QuantizedWeights {
    Tensor values;            // int8 [n, k], or uint8 [n, k] of codes of `format`, or uint8 [n, k / 2] in the order of
                              // pack_int4; contiguous, from a multiple of 16 bytes of its buffer on
    int bits = 8;
    std::optional<Float8> format;   // but e8m0fnu
    std::int64_t group = 0;   // inputs that share a scale: a multiple of 32 that divides k, or k itself
    Tensor scales;            // [k / group, n], of x's dtype, any strides
    Tensor zeros;             // the same; undefined: all zero

    std::int64_t outputs() const { return values.size(0); }
    std::int64_t inputs() const { return values.size(1) * 8 / bits; }
};

// Numbers of four bits, two in a byte, the one of the even input in its high half if `even_high`, else in its low half:
// uint8 [n, k / 2] to the order that kernels read, in which byte i of sixteen holds inputs i and i + 16 of 32, low half
// first. k must be a multiple of 32. Throws InvalidArgument.
void pack_int4(Queue& queue, const Tensor& bytes, const Tensor& packed, bool even_high);

// Whether products may round x to bytes, with a scale for each 32 neighbours of a row, where that is faster.
enum class Inputs { exact, bytes };

// y [m, n] = x [m, k] W^T, x and y of float32, float16 or bfloat16 and with contiguous rows; sums in float32. Up to 16
// rows stream the weights once, on most CPUs 64; more go through weights written out in x's dtype. Throws
// InvalidArgument or NotSupported for shapes, dtypes and groups that do not fit.
void quantized_matmul(Queue& queue, const Tensor& x, const QuantizedWeights& weights, const Tensor& y,
                      Inputs inputs = Inputs::exact);

// The weights as numbers: w [n, k], contiguous, of the scales' dtype.
void dequantize(Queue& queue, const QuantizedWeights& weights, const Tensor& w);

}  // namespace clprim
CLPRIM_API_END
