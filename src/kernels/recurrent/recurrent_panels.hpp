// All steps of recurrent layers by weights in panels (cpu_recurrent_steps.cl): what clprim/recurrent.hpp and
// recurrent.hpp ask of the kernel. The callers have checked the shapes.
#pragma once

#include <array>

#include <clprim/recurrent.hpp>

namespace clprim::detail {

// D directions, T steps, N sequences, H hidden numbers; all float32.
struct PanelWalk {
    RecurrentCell cell = RecurrentCell::lstm;
    bool reversed = false;               // the only or first direction; the second one always is
    std::array<cl_uint, 4> gate{0, 1, 2, 3};   // where a row has the input's, forget's, new and output's gate of lstm,
                                               // and the reset, update and new of gru
    Tensor gates;                        // [T, N, D, G H], contiguous
    Tensor panels;                       // of recurrent_panels
    Tensor bias;                         // [D, 3 H] of gru's hidden part, or [D, H] of the new gate's, contiguous
    Tensor lengths;                      // [N] int32, contiguous; may be undefined
    Tensor h, c;                         // [D, N, H] with the last stride 1; undefined for 0
    Tensor y;                            // [T, D, N, H] with the last stride 1
    Tensor last_h, last_c;               // [D, N, H] with the last stride 1
    Tensor cells, saved;                 // of RecurrentSteps, of one direction, for backward
};

// Of `gates` gates a cell.
Dims panels_shape(std::int64_t directions, std::int64_t hidden, std::int64_t gates);

// Weights [D, G H, H] of the states, of any strides but that the gates lie at equal ones.
Tensor recurrent_panels(Queue& queue, const Tensor& weights, RecurrentCell cell);

void walk_panels(Queue& queue, const PanelWalk& walk);

}  // namespace clprim::detail
