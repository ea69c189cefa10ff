// Losses that are more than an elementwise formula and a reduction.
#pragma once

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

enum class Reduction { none = 0, mean = 1, sum = 2 };

// Negative log likelihood of x [N, C, ...] (log-probabilities) at target [N, ...] (int64 or uint8):
//     loss_i = -weight[t_i] x_i[t_i], and 0 where t_i == ignore_index
//     mean: sum of losses / sum of weights; of nothing, NaN
// All tensors contiguous; weight [C] optional. loss: shape of target for `none`, else one element, like total_weight
// (the sum of weights; not written for `none`). A target outside [0, C) throws IndexError at the next synchronisation.
struct NllLoss {
    Tensor x, target, weight;
    std::int64_t ignore_index = -100;
    Reduction reduction = Reduction::mean;
};
void nll_loss(Queue& queue, const NllLoss& problem, const Tensor& loss, const Tensor& total_weight);

// Writes grad_input (the shape of problem.x; only that of x is used) completely.
void nll_loss_backward(Queue& queue, const NllLoss& problem, const Tensor& grad_output, const Tensor& total_weight,
                       const Tensor& grad_input);

// Multi-class margin loss of x [N, C] at target [N] (int64): per sample,
//     loss = sum over j != t of weight[t] max(0, margin - x[t] + x[j])^power / C,   power 1 or 2
// and multi-label margin loss at target [N, C], whose rows list labels up to the first negative entry:
//     loss = sum over labels t, others j of max(0, 1 - x[t] + x[j]) / C
// Contiguous floating-point tensors of one dtype; weight [C] optional. A label >= C throws IndexError at the next
// synchronisation. Losses come per sample; `loss` [N].
struct MarginLoss {
    Tensor x, target, weight;
    int power = 1;
    double margin = 1;
};
void multi_margin_loss(Queue& queue, const MarginLoss& problem, const Tensor& loss);
// is_target: shape and dtype of x, written with 1 where an element is a label.
void multilabel_margin_loss(Queue& queue, const MarginLoss& problem, const Tensor& loss, const Tensor& is_target);

// grad_output has one element per sample or one for all; `scale` multiplies it (1 / N for a mean).
struct MarginLossBackward {
    MarginLoss forward;
    Tensor grad_output, grad_input;
    Tensor is_target;                    // multi-label only
    double scale = 1;
};
void multi_margin_loss_backward(Queue& queue, const MarginLossBackward& problem);
void multilabel_margin_loss_backward(Queue& queue, const MarginLossBackward& problem);

}  // namespace clprim
CLPRIM_API_END
