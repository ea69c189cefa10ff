// What the products of eight-bit integers share (clprim/integer_matmul.hpp).
#pragma once

#include <clprim/gemm.hpp>
#include <clprim/integer_matmul.hpp>
#include <core/choose.hpp>

namespace clprim::detail {

// packed_matrix of packed_matrix.cl and gpu.cl.
struct PackedMatrix {
    std::int64_t lines, depth, line_step, k_step, batch_step, zero_step;
};

struct IntegerProduct {
    std::int64_t batch = 1, m = 0, n = 0, k = 0;
    MatrixLayout a, b, c;
    DataType a_type = DataType::int8, b_type = DataType::int8;
    bool a_zero = false, b_zero = false;   // whether there are zero points
    bool row_zeros = false;                // whether A has one for each row
    bool prepared_b = false;               // whether what is derived from B is kept
};
std::string describe(const IntegerProduct&);

struct IntegerTensors {
    Tensor a, b, c;
    IntegerZeros zeros;
    IntegerScales scales = {};             // of cpu_conv alone, where c is float32
};

using IntegerImplementation = Implementation<IntegerProduct, const IntegerTensors&>;
CLPRIM_API std::span<const IntegerImplementation> integer_implementations();
CLPRIM_API IntegerProduct integer_product(const IntegerTensors&);

// Zero points as kernels find them: a step from one line's to the next, -1 where there are none.
inline std::int64_t zero_step(const Tensor& zeros) { return !zeros.defined() ? -1 : zeros.numel() == 1 ? 0 : 1; }

// Lines along k as words of four signed bytes, filled up with zeros, and behind them their sums and zero points.
struct IntegerLines {
    IntegerLines(Tensor all_, std::int64_t lines) : all(std::move(all_)), sums(all)
    {
        sums.offset += all.numel() - 2 * lines;
    }
    Tensor all, sums;
};

}  // namespace clprim::detail
