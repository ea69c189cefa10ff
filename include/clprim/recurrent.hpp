// Cells of recurrent networks from their gates: the elementwise part of a step, what lies between its products.
#pragma once

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// The sum of a step's gates: of x [n, k h], h [n, k h] and of biases [k h] that are defined. Sizes k: 4 for LSTM.
struct Gates {
    Tensor input, hidden, input_bias, hidden_bias;
};

// LSTM (Hochreiter and Schmidhuber 1997) with gates in the order i, f, g, o:
//     c' = sigmoid(f) c + sigmoid(i) tanh(g),   h' = sigmoid(o) tanh(c').
// All tensors have one floating dtype; cx, hy and cy [n, h]; activated [n, 4 h] becomes the gates after their
// functions, which backward reads. Throws InvalidArgument for shapes that do not fit.
struct LstmCell {
    Tensor cx, hy, cy, activated;
};
void lstm_cell(Queue& queue, const Gates& gates, const LstmCell& cell);

// Gradients of the gates [n, 4 h] and of cx from those of hy and cy, of which one may be undefined.
struct LstmCellGradients {
    Tensor hy, cy, gates, cx;
};
void lstm_cell_backward(Queue& queue, const LstmCell& cell, const LstmCellGradients& gradients);

// GRU (Cho et al. 2014, with the hidden part of n gated as cuDNN does it) with gates in the order r, z, n:
//     n' = tanh(n_x + sigmoid(r) n_h),   h' = n' + sigmoid(z) (h - n').
// saved [n, 5 h] becomes r, z, n' after their functions, hx and n_h.
struct GruCell {
    Tensor hx, hy, saved;
};
void gru_cell(Queue& queue, const Gates& gates, const GruCell& cell);

// Gradients of the gates' input and hidden parts [n, 3 h] and of hx from that of hy.
struct GruCellGradients {
    Tensor hy, input, hidden, hx;
};
void gru_cell_backward(Queue& queue, const Tensor& saved, const GruCellGradients& gradients);

// All steps of one direction of a recurrent layer, on CPUs: T steps of N sequences with H hidden numbers,
// float32, all tensors contiguous. The cells are those above and, of h' = f(gates + h hidden), tanh and relu; G gates:
// 4 of lstm, 3 of gru, 1 of those.
enum class RecurrentCell { lstm, gru, tanh, relu };

struct RecurrentSteps {
    RecurrentCell cell = RecurrentCell::lstm;
    bool reversed = false;   // from the last step to the first
    Tensor gates;            // [T, N, G H]: what a step's input and the biases add
    Tensor hidden_bias;      // [3 H] of gru's hidden part; may be undefined
    Tensor h, c;             // [N, H], the states before; c of lstm alone
    Tensor y;                // [T, N, H], the states after each step
    Tensor last_h, last_c;   // [N, H], the states after all; last_c of lstm alone
    Tensor saved;            // [T, N, 4 H] for backward, of lstm and gru; may be undefined in forward
    Tensor cells;            // [T, N, H], lstm's c after each step, with saved
};

// Whether there is such a kernel for this device, and for states y [T, N, H] it is faster than a product and a cell for
// each step. backward: recurrent_steps_backward follows.
bool takes_recurrent_steps(const Device& device, RecurrentCell cell, const Dims& y, DataType dtype, bool backward);

// Writes y, last_h, last_c and, where defined, saved and cells. hidden [G H, H]: the weights of the states. Throws
// InvalidArgument for shapes or dtypes that do not fit and on devices without such a kernel.
void recurrent_steps(Queue& queue, const RecurrentSteps& steps, const Tensor& hidden);

// Backpropagation through time (Werbos 1990). In `states_h` and `states_c` [2, N, H], the latter of lstm alone, part 0
// is the gradient of the last states on entry; afterwards part T mod 2 is that of h and c. The gradient of hidden is
// the product of `hidden` and the states before each step.
struct RecurrentStepsGradients {
    Tensor y;                // [T, N, H]; may be undefined
    Tensor states_h, states_c;
    Tensor gates;            // [T, N, G H], written
    Tensor hidden;           // [T, N, 3 H], written: of gru's hidden part; others have that of gates
};

// gates, hidden_bias, last_h and last_c of `steps` are not read. Errors as above.
void recurrent_steps_backward(Queue& queue, const RecurrentSteps& steps, const Tensor& hidden,
                              const RecurrentStepsGradients& gradients);

}  // namespace clprim
CLPRIM_API_END
