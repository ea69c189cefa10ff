// Attention by matrix instructions on the host side.
#pragma once

#include <kernels/attention/problem.hpp>
#include <kernels/gemm/gpu_matrix.hpp>

namespace clprim::detail {

// By the engine that is named, and its large or small work-groups.
CLPRIM_API Rejection attention_gpu_matrix_rejects_by(MatrixEngineChoice, bool large, const Attention&, const Device&);
CLPRIM_API void attention_gpu_matrix_by(MatrixEngineChoice, bool large, Queue&, const Attention&, const Tensor& y,
                                        const Tensor& logsumexp);

// Whether the device builds its kernels and computes attention of a type right, as matrix_engine_works says it of
// products: found out once and kept on disk. Waits for the device. try_attention_by asks anew.
CLPRIM_API bool try_attention_by(const Device& device, MatrixEngineChoice engine, DataType type);
bool attention_by_matrix_works(const Device& device, MatrixEngineChoice engine, DataType type);

}  // namespace clprim::detail
