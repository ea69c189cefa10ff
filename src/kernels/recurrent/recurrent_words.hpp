// What recurrent.cpp and recurrent_words.cpp share.
#pragma once

#include <clprim/error.hpp>

#include "kernels/recurrent/recurrent.hpp"

namespace clprim::detail {

// `strided`: the last stride alone is 1.
inline void require_shape(const char* name, const Tensor& tensor, const Dims& shape, DataType type,
                          bool strided = false)
{
    require(!tensor.defined() || (tensor.shape == shape && tensor.dtype == type &&
                                  (strided ? tensor.numel() == 0 || tensor.stride(tensor.dim() - 1) == 1
                                           : tensor.is_contiguous())),
            "recurrent_layer: ", name, " is ", tensor.defined() ? name_of(tensor.dtype) : "", " ",
            to_string(tensor.shape), ", expected ", strided ? "" : "contiguous ", name_of(type), " ", to_string(shape));
}

// recurrent_layer of an LSTM with packed bytes.
void walk_layer(Queue& queue, const RecurrentLayer& layer);

}  // namespace clprim::detail
