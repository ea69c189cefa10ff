// The steps of one direction of a recurrent layer (rnn_layers.cpp).
#pragma once

#include <ATen/core/Tensor.h>
#include <clprim/recurrent.hpp>

namespace torch_ocl {

using Cell = clprim::RecurrentCell;

struct State {
    at::Tensor h, c;   // [N, P], [N, H]
};

// `gates` [T, N, G H] is what a step adds to its hidden part, the state times `hidden` [G H, P] and, of GRU,
// `hidden_bias`; `projection` [P, H] of LSTM may be undefined. `plain`: by operators that torch.func and
// forward mode know, where fused cells have gradients alone.
struct Steps {
    Cell cell;
    bool reversed;
    at::Tensor gates, hidden, hidden_bias, projection;
    bool plain;
};

// All states [T, N, P] by operators that have derivatives; `state` is the one before the first step, and then
// that after the last.
at::Tensor walk_steps(const Steps& steps, State& state);

// The same with a gradient of its own: one product for the gradient of `hidden` instead of one a step.
// Truncation-free backpropagation through time (Werbos 1990).
at::Tensor walk_steps_as_one(const Steps& steps, State& state);

}  // namespace torch_ocl
