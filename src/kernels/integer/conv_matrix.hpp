// Convolutions of eight-bit integers by the matrix engines of GPUs.
#pragma once

#include <clprim/integer_conv.hpp>
#include <core/choose.hpp>

namespace clprim::detail {

#include <kernels/integer/conv_problem.cl>

struct IntegerConvTensors {
    Tensor x, w, y;   // x with its channels innermost
};

// Why the engine cannot compute one, or should not: groups, channels not in sixteens, or mostly edges.
Rejection conv_matrix_rejects(const integer_conv_problem& p, const IntegerConvTensors& t, const Device& device);
// `lines`: the weights [output][tap, channel], contiguous.
void conv_matrix(Queue& queue, const integer_conv_problem& p, const IntegerConvTensors& t, const Tensor& lines,
                 const IntegerConv& conv);

}  // namespace clprim::detail
