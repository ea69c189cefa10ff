// Products of eight-bit integers on GPUs: their implementations and what these share.
#pragma once

#include <clprim/gemm.hpp>
#include <clprim/integer_matmul.hpp>
#include <core/choose.hpp>
#include <core/matrix_engine.hpp>

namespace clprim::detail {

// packed_matrix of cpu.cl and gpu.cl.
struct PackedMatrix {
    std::int64_t lines, depth, line_step, k_step, batch_step, zero_step;
};

struct IntegerProduct {
    std::int64_t batch = 1, m = 0, n = 0, k = 0;
    MatrixLayout a, b, c;
    DataType a_type = DataType::int8, b_type = DataType::int8;
    bool a_zero = false, b_zero = false;   // whether there are zero points
};
std::string describe(const IntegerProduct&);

struct IntegerTensors {
    Tensor a, b, c;
    IntegerZeros zeros;
};

using IntegerImplementation = Implementation<IntegerProduct, const IntegerTensors&>;
CLPRIM_API std::span<const IntegerImplementation> integer_gpu_implementations();
CLPRIM_API IntegerProduct integer_product(const IntegerTensors&);

// Lines along k as words of four signed bytes, filled up to whole slabs, and behind them their sums and zero points
// (gpu.cl).
struct IntegerLines {
    IntegerLines(Tensor all_, std::int64_t lines) : all(std::move(all_)), sums(all)
    {
        sums.offset += all.numel() - 2 * lines;
    }
    Tensor all, sums;
};
std::int64_t words_of_line(std::int64_t k);
IntegerLines pack_rows(Queue&, const IntegerProduct&, const IntegerTensors&);
IntegerLines pack_columns(Queue&, const IntegerProduct&, const IntegerTensors&);

Rejection gpu_integer_matrix_rejects(const IntegerProduct&, const Device&);
Rejection gpu_integer_matrix_advises_against(const IntegerProduct&, const Device&);
void gpu_integer_matrix(Queue&, const IntegerProduct&, const IntegerTensors&);
// By the engine and the tile that are named.
CLPRIM_API void gpu_integer_matrix_by(MatrixEngineChoice, bool large, Queue&, const IntegerProduct&,
                                      const IntegerTensors&);

}  // namespace clprim::detail
