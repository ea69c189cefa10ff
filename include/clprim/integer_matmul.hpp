// Products of matrices of eight-bit integers with exact sums: C = (A - a_zero) (B - b_zero), C of int32, modulo 2^32.
#pragma once

#include <clprim/prepared.hpp>
#include <clprim/queue.hpp>
#include <clprim/tensor.hpp>

CLPRIM_API_BEGIN
namespace clprim {

struct IntegerZeros {
    Tensor a;   // of A's dtype, contiguous: one number, or one for each row; undefined: 0
    Tensor b;   // of B's dtype, contiguous: one number, or one for each column; undefined: 0
    Prepared* prepared_b = nullptr;   // of B and b, if they never change: what is derived from them is kept there
};

// Where C is float32: it is the sums, each times `scale` and `factor`, plus `offset`.
struct IntegerScales {
    Tensor scale;    // float32, contiguous: one number, or one for each column
    Tensor offset;   // float32, contiguous, one for each column; undefined: 0
    Tensor factor = {};   // float32, one number, which scales are multiplied by first; undefined: 1
};

// A [m, k], B [k, n], C [m, n], or three batches of them; A and B of int8 or uint8 each, C of int32, or of float32 with
// scales; any strides, but no overlap in C. Throws InvalidArgument for shapes and dtypes that do not fit.
//
// Method: on CPUs both are packed as pairs of int16 along k, zero points taken off, which processors multiply and add
// in pairs (x86: vpmaddwd), in register tiles as products of floats are; with AMX or VNNI as bytes, fours of which tile
// registers or vectors multiply and add, corrected by lines' sums (src/kernels/integer/cpu_lines.cl). Few rows stream
// B as it lies, or with the numbers of a column side by side, which is prepared once. Sums of prepared B with
// VNNI are scaled in registers, others by a launch of their own. GPUs take matrix engines, for operands as they lie
// where that is along k, or dot products of four bytes.
void integer_matmul(Queue& queue, const Tensor& a, const Tensor& b, const Tensor& c, const IntegerZeros& zeros = {},
                    const IntegerScales& scales = {});

}  // namespace clprim
CLPRIM_API_END
