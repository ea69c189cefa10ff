// Products of eight-bit integers on GPUs.
#pragma once

#include <core/matrix_engine.hpp>
#include <kernels/integer/products.hpp>

namespace clprim::detail {

// Operands packed for gpu.cl: lines of this many words.
std::int64_t words_of_line(std::int64_t k);
IntegerLines pack_rows(Queue&, const IntegerProduct&, const IntegerTensors&);
IntegerLines pack_columns(Queue&, const IntegerProduct&, const IntegerTensors&);

// Dot products of four bytes (gpu.cl).
Rejection gpu_integer_words_rejects(const IntegerProduct&, const Device&);
void gpu_integer_words(Queue&, const IntegerProduct&, const IntegerTensors&);

// Matrix engines (gpu_matrix.cl).
Rejection gpu_integer_matrix_rejects(const IntegerProduct&, const Device&);
Rejection gpu_integer_matrix_advises_against(const IntegerProduct&, const Device&);
void gpu_integer_matrix(Queue&, const IntegerProduct&, const IntegerTensors&);
// By the engine and the tile that are named.
CLPRIM_API void gpu_integer_matrix_by(MatrixEngineChoice, bool large, Queue&, const IntegerProduct&,
                                      const IntegerTensors&);

}  // namespace clprim::detail
