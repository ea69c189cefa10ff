// What the handlers of many families share.
#pragma once

#include <clprim/pointwise.hpp>

#include "onnx/call.hpp"

namespace clprim::onnx {

// numpy's broadcast of two shapes; throws InvalidArgument where they do not fit.
Dims broadcast(const Dims& a, const Dims& b);
Dims broadcast_inputs(const Call& call);

// Strides of a dense tensor (N, C, spatial...) with the channels innermost.
Dims channels_last_strides(const Dims& shape);

// The last of the integers (int64, contiguous) that kernels before have written; waits for them.
std::int64_t last_integer(const Call& call, const Tensor& integers);

// x itself if it is of that type, else a contiguous copy that is.
Tensor converted(const Call& call, const Tensor& x, DataType type);

// x, whose shape `shape` broadcasts to, summed over the axes along which it does; x itself where there is none.
Tensor summed_to(const Call& call, const Tensor& x, const Dims& shape);

// y = row(inputs...) broadcast, as output 0 of type `type`; computed in the type of input 0 unless `common` says else.
void pointwise_output(Call& call, std::string_view row, std::span<const Tensor> inputs, DataType type,
                      std::span<const Scalar> scalars = {});

}  // namespace clprim::onnx
