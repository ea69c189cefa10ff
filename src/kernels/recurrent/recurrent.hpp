// A whole layer of LSTM or GRU with small states in one launch: a work-group walks through all steps of one sequence in
// one direction and keeps its states in local memory. ONNX's definitions with their default activations.
#pragma once

#include <clprim/queue.hpp>

namespace clprim {

// D directions, T steps, N sequences, I inputs, H hidden; G H are the rows of all gates, in ONNX's order: input,
// output, forget, cell of LSTM (G = 4); update, reset, hidden of GRU (G = 3). Of one dtype, float32, float16 or
// bfloat16.
struct RecurrentLayer {
    enum class Cell { lstm, gru, gru_linear_before_reset };
    Cell cell = Cell::lstm;
    bool reversed = false;         // the only or first direction; the second one always is
    Tensor x;                      // [T, N, I], contiguous; or undefined where `projected` is given
    Tensor weights;                // [D, I, G H], contiguous, with x; or packed bytes, as the recurrent ones
    Tensor weight_scales, weight_zeros;   // of such
    Tensor projected;              // [T, N, D, G H], contiguous: x times the weights plus `bias`
    Tensor recurrent;              // [D, H, G H], contiguous; pack_bytes() where takes_bytes says so
    Tensor panels;                 // of pack_panels(), with projected, in place of recurrent
    Tensor scales, zeros;          // [D, G H] float32, contiguous, with bytes: a column is (byte - zero) scale
    Tensor progress;               // of pack_bytes(), with bytes
    Tensor bias;                   // [D, G H] of x's part, with x; may be undefined
    Tensor recurrent_bias; // [D, H] of the hidden gate's recurrent part, linear_before_reset only; may be undefined
    Tensor lengths;                // [N] int32, contiguous; may be undefined: all are T long
    Tensor h, c;                   // [D, N, H] with the last stride 1, where the states begin; undefined for 0
    Tensor y;                      // [T, D, N, H] with the last stride 1
    Tensor last_h, last_c;         // [D, N, H] with the last stride 1
};

inline constexpr std::int64_t most_recurrent_hidden = 256;

inline constexpr std::int64_t most_recurrent_bytes = 1024;

// Whether the recurrent weights of an LSTM in float32 with so many hidden numbers may be bytes: a quarter of what each
// step reads otherwise.
bool takes_bytes(const Device& device, std::int64_t hidden);

// Whether it multiplies them as bytes: numbers of a sequence's state or input are eight bits between the least and the
// largest then, of short ones sixteen; all sequences of a step are multiplied together, and several cores share them.
bool multiplies_bytes(const Device& device);

// Whether the recurrent weights may be panels, which several sequences of a work-item read together.
bool takes_panels(const Device& device, RecurrentLayer::Cell cell, DataType type);

// Weights [D, G H, H] float32, of any strides but that the gates lie at equal ones, as that kernel reads them.
Tensor pack_panels(Queue& queue, const Tensor& weights, RecurrentLayer::Cell cell);

struct RecurrentBytes {
    Tensor bytes;                  // [D, K, 4 H] int8 or uint8, contiguous, K at most 1024
    Tensor scales, zeros;          // [D, 4 H] float32
    Tensor progress;               // zeros, which launches leave as they were
};

// As the kernels for this device read them: words of four bytes (recurrent_words.cl) on processors that multiply those,
// else what is given.
RecurrentBytes pack_bytes(Queue& queue, const RecurrentBytes& given);

// What RecurrentLayer calls projected: x [T, N, I] float32, contiguous, times packed bytes [D, I, 4 H] on such
// processors, plus bias [D, 4 H], which may be undefined.
void project_bytes(Queue& queue, const Tensor& x, const RecurrentBytes& weights, const Tensor& bias,
                   const Tensor& projected);

// Throws InvalidArgument for shapes that do not fit.
void recurrent_layer(Queue& queue, const RecurrentLayer& layer);

}  // namespace clprim
