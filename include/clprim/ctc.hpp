// Connectionist temporal classification: the likelihood of a sequence of labels without an alignment to the input.
#pragma once

#include <span>

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// log_probs [T, N, C], float32 or float64: logarithms of the probabilities of C labels at each step. targets, int64:
// labels [N, S] or one sequence after the other [sum of target_lengths]. Lengths, one for each of N samples, are
// numbers of the host. All contiguous.
struct CtcLoss {
    Tensor log_probs, targets;
    std::span<const std::int64_t> input_lengths, target_lengths;
    std::int64_t blank = 0;

    std::int64_t longest_target() const;
};

// loss[n] = -log of the sum over alignments of the product of their probabilities; infinity where there is none.
// alpha [N, T, 2 * longest_target() + 1]: logarithms of the forward variables, which the gradient needs.
// A label outside [0, C) throws IndexError at the next synchronisation. Throws InvalidArgument for shapes, dtypes and
// lengths that do not fit.
//
// Method: Graves et al., "Connectionist temporal classification" (2006), equations 6-8, in the logarithmic domain.
void ctc_loss(Queue& queue, const CtcLoss& problem, const Tensor& loss, const Tensor& alpha);

// grad_log_probs, written completely: the gradient by log_probs for grad_loss [N], as if these came out of a
// log-softmax (equation 16). zero_infinity: 0 for samples whose loss is infinite, NaN otherwise. Every element is
// written by its owner.
struct CtcLossBackward {
    CtcLoss forward;
    Tensor loss, alpha, grad_loss, grad_log_probs;
    bool zero_infinity = false;
};
void ctc_loss_backward(Queue& queue, const CtcLossBackward& problem);

}  // namespace clprim
CLPRIM_API_END
