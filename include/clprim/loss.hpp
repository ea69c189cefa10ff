// Losses that are more than an elementwise formula and a reduction.
#pragma once

#include <clprim/queue.hpp>

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

}  // namespace clprim
