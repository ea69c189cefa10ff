// All steps of one direction of a recurrent layer in one launch, where the device has a kernel for it that pays.
#pragma once

#include <ops/rnn_steps.hpp>

namespace torch_ocl {

bool takes_steps_kernel(const Steps& steps, const State& state, bool backward);

// States [T, N, H] after each step, the last one, and what the way back reads.
struct Launched {
    at::Tensor y;
    State last;
    at::Tensor cells, saved;
};

// `saves`: for launch_back.
Launched launch_steps(const Steps& steps, const State& state, bool saves);

// Gradients of the gates [T, N, G H], of the hidden product (that of the gates but for GRU), and of the state before
// the first step, from those of the states and of the last one, which may be undefined.
struct LaunchedBack {
    at::Tensor gates, hidden;
    State before;
};
LaunchedBack launch_back(const Steps& steps, const State& first, const Launched& launched, const at::Tensor& grad_y,
                         const State& grad_last);

}  // namespace torch_ocl
