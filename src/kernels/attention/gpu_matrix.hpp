// Attention by matrix instructions on the host side.
#pragma once

#include <kernels/attention/problem.hpp>
#include <kernels/gemm/gpu_matrix.hpp>

namespace clprim::detail {

// What forward and backward share: gpu_matrix_lines.cl on the host side. Words of local memory that lines take.
struct AttentionWords {
    // A work-group owns `own_fragments` fragments of lines and takes `span` others in a step.
    AttentionWords(MatrixEngineChoice engine, const Attention& p, std::int64_t own_fragments, std::int64_t span);

    MatrixEngineChoice engine;
    std::int64_t own, along, turned;   // of own lines; of a step's others along their elements, and turned
    std::int64_t results, dropout;     // of results that gather; of what dropout keeps in a step

    static std::int64_t lines_of(MatrixEngineChoice engine, std::int64_t fragments);
    // Of a work-group that needs so many words in its loop, and before it.
    std::size_t bytes(std::int64_t in_loop, std::int64_t before, std::int64_t sub_groups) const;
};
// 64 or 128, or 256 of forward passes: the kernels are built for these. Of its values, those that a work-group sums.
std::int64_t attention_matrix_head(const Attention& p);
std::int64_t attention_matrix_values(const Attention& p);
std::string attention_matrix_options(MatrixEngineChoice engine, const Attention& p,
                                     std::initializer_list<Tensor> others, const MatrixTile& tile, std::int64_t span);
constexpr std::int64_t attention_matrix_longest = 256, attention_matrix_longest_backward = 128;
Rejection attention_matrix_rejects_shape(const Attention& p, std::int64_t longest);
// By the device's own engine.
Rejection attention_matrix_rejects(const Attention& p, const Device& device, std::int64_t longest);

// By the engine that is named, and its large or small work-groups.
CLPRIM_API Rejection attention_gpu_matrix_rejects_by(MatrixEngineChoice, bool large, const Attention&, const Device&);
CLPRIM_API void attention_gpu_matrix_by(MatrixEngineChoice, bool large, Queue&, const Attention&, const Tensor& y,
                                        const Tensor& logsumexp);
CLPRIM_API Rejection attention_gpu_matrix_backward_rejects_by(MatrixEngineChoice, const Attention&, const Device&);
CLPRIM_API void attention_gpu_matrix_backward_by(MatrixEngineChoice, Queue&, const Attention&, const AttentionResults&,
                                                 const AttentionGradients&);

// Whether the device builds its kernels and computes attention of a type right, as matrix_engine_works says it of
// products: found out once and kept on disk. Waits for the device. try_attention_by asks anew.
CLPRIM_API bool try_attention_by(const Device& device, MatrixEngineChoice engine, DataType type);
bool attention_by_matrix_works(const Device& device, MatrixEngineChoice engine, DataType type);
// The same of its gradients.
CLPRIM_API bool try_attention_backward_by(const Device& device, MatrixEngineChoice engine, DataType type);
bool attention_backward_by_matrix_works(const Device& device, MatrixEngineChoice engine, DataType type);

}  // namespace clprim::detail
