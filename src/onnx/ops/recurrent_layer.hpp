// What RNN, GRU and LSTM have in common, and small layers as one kernel (kernels/recurrent).
#pragma once

#include <vector>

#include "kernels/recurrent/recurrent.hpp"
#include "onnx/ops/recurrent_activations.hpp"

namespace clprim::onnx {

// What all directions of a layer share. Shapes: x [T, N, I], y [T, D, N, H], states [D, N, H] (views of the caller's
// layout).
struct Layer {
    Call& call;
    std::int64_t gates, steps, batch, inputs, hidden;
    std::size_t directions;
    bool first_reversed = false;
    Tensor x, lengths;                // lengths [N, 1] int32, or undefined
    Tensor y, last_h, last_c;         // last_c of LSTM only
    std::vector<RecurrentActivation> activations;

    Layer(Call& call_, std::int64_t gates_);

    bool reversed(std::size_t direction) const { return direction == 1 || first_reversed; }
    bool batch_first() const { return call.integer_attribute("layout", 0) != 0; }
    Tensor state_view(const Tensor& t) const { return batch_first() ? t.transpose(0, 1) : t; }
    Tensor part(std::size_t input, std::size_t direction) const;      // a direction's slice of an input
    Tensor initial_state(std::size_t input, std::size_t direction) const;
    Tensor state_output(std::size_t output) const;
    void check_input(std::size_t input, const Dims& shape) const;
};

// Without the first axis, at one position of it.
Tensor at(const Tensor& t, std::int64_t position);

// x W^T plus the biases of every direction, [T, N, D, gates H]; the last `separate` gates take the bias of x's part
// alone.
Tensor projected(const Layer& layer, std::int64_t separate);

// Whether a layer's states are small, or its recurrent weights bytes, and its activations and options the default ones;
// then a kernel does all of it.
bool is_small_and_plain(const Layer& layer, RecurrentLayer::Cell cell);
void run_as_one(Layer& layer, RecurrentLayer::Cell cell);

// DynamicQuantizeLSTM as such a kernel with the bytes that never change; false where it has none, or nothing to
// compute.
bool run_bytes(Call& call);

}  // namespace clprim::onnx
