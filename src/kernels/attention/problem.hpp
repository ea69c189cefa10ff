// What the implementations of attention share.
#pragma once

#include <span>

#include <clprim/attention.hpp>
#include <core/choose.hpp>
#include <kernels/team.hpp>

namespace clprim::detail {

// heads_layout, attention_problem, gradient_layouts and attention_dropout of problem.cl.
struct HeadsLayout {
    std::int64_t batch = 0, head = 0, row = 0, column = 0;
};
struct AttentionArguments {
    std::int64_t batch, heads, kv_heads, queries, keys, size, value_size;
    HeadsLayout q, k, v, y, mask;
    std::int64_t causal_offset;
    struct Plain {
        std::int32_t causal, masked;
    };
    struct Capped {
        std::int16_t causal, masked;
        float softcap;
    };
    union {
        Plain plain;
        Capped capped;   // with -DSOFTCAP
    };
};
struct GradientLayouts {
    HeadsLayout y, q, k, v;
    std::int32_t want_q, reserved = 0;
};
struct DropoutArguments {
    std::uint64_t seed, stream;
    std::uint32_t threshold;
    float factor;
};

HeadsLayout layout_of(const Tensor& tensor);          // zeros for an undefined one
AttentionArguments attention_arguments(const Attention& problem, const Tensor& y);
DropoutArguments dropout_arguments(const Attention& problem);
GradientLayouts gradient_layouts(const Tensor& grad_y, const AttentionGradients& gradients);
AccScalar scale_of(const Attention& problem);
std::string attention_options(const Attention& problem);   // "-DX=float16 -DREAL=float", -DDROPOUT, -DSOFTCAP

// In a problem here, masks are of query's dtype and have four axes. y and logsumexp are those of attention().
using AttentionForward = Implementation<Attention, const Tensor&, const Tensor&>;
using AttentionBackward = Implementation<Attention, const AttentionResults&, const AttentionGradients&>;
CLPRIM_API std::span<const AttentionForward> attention_forwards();    // best first, the reference last
CLPRIM_API std::span<const AttentionBackward> attention_backwards();

// delta[b, h, i] = grad_y[i] . y[i], of logsumexp's dtype: what all elements of a row of the gradient of s have in
// common.
Tensor attention_delta(Queue& queue, const Attention& problem, const AttentionResults& results);

inline std::int64_t head_step(const Attention& p)   // 64, 128 or 256: the kernels are built for these
{
    const std::int64_t size = std::max(p.query.size(3), p.value.size(3));
    return size <= 64 ? 64 : size <= 128 ? 128 : 256;
}

// Of kernels for GPUs: whether all lines begin and end at multiples of four elements, which are neighbours; the
// farthest apart that elements of `lines` lines lie.
bool in_quads(const Tensor& tensor);
// -DALIGNED and -DNEIGHBOURS of quads.cl; tensors may be undefined.
std::string quad_options(std::span<const Tensor> tensors);
std::int64_t line_extent(const Tensor& tensor, std::int64_t lines);

Rejection attention_reference_rejects(const Attention&, const Device&);
void attention_reference(Queue&, const Attention&, const Tensor& y, const Tensor& logsumexp);
void attention_reference_backward(Queue&, const Attention&, const AttentionResults&, const AttentionGradients&);
Rejection attention_cpu_rejects(const Attention&, const Device&);
void attention_cpu(Queue&, const Attention&, const Tensor& y, const Tensor& logsumexp);
void attention_cpu_backward(Queue&, const Attention&, const AttentionResults&, const AttentionGradients&);
Rejection attention_cpu_few_rejects(const Attention&, const Device&);
Rejection attention_cpu_few_advises_against(const Attention&, const Device&);
void attention_cpu_few(Queue&, const Attention&, const Tensor& y, const Tensor& logsumexp);
Rejection attention_gpu_matrix_rejects(const Attention&, const Device&);
Rejection attention_gpu_matrix_advises_against(const Attention&, const Device&);
void attention_gpu_matrix(Queue&, const Attention&, const Tensor& y, const Tensor& logsumexp);
Rejection attention_gpu_matrix_backward_rejects(const Attention&, const Device&);
Rejection attention_gpu_matrix_backward_advises_against(const Attention&, const Device&);
void attention_gpu_matrix_backward(Queue&, const Attention&, const AttentionResults&, const AttentionGradients&);
Rejection attention_gpu_few_rejects(const Attention&, const Device&);
void attention_gpu_few(Queue&, const Attention&, const Tensor& y, const Tensor& logsumexp);
Rejection attention_gpu_rejects(const Attention&, const Device&);
void attention_gpu(Queue&, const Attention&, const Tensor& y, const Tensor& logsumexp);
Rejection attention_gpu_backward_rejects(const Attention&, const Device&);
void attention_gpu_backward(Queue&, const Attention&, const AttentionResults&, const AttentionGradients&);

}  // namespace clprim::detail
