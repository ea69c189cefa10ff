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

}  // namespace clprim
CLPRIM_API_END
