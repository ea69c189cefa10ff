// Float32 tensors from and to vectors of double, for tests.
#pragma once

#include <vector>

#include <clprim/context.hpp>

namespace clprim::test {

inline Tensor upload(Queue& queue, const std::vector<double>& values, const Dims& shape, const Dims& strides)
{
    const std::vector<float> floats(values.begin(), values.end());
    Tensor t = queue.context().empty(shape, DataType::float32, queue);
    t.strides = strides;
    queue.write(*t.memory, 0, floats.data(), floats.size() * sizeof(float));
    queue.finish();
    return t;
}

inline Tensor upload(Queue& queue, const std::vector<double>& values, const Dims& shape)
{
    return upload(queue, values, shape, contiguous_strides(shape));
}

// All elements in memory order (a dense tensor).
inline std::vector<double> download(Queue& queue, const Tensor& t)
{
    std::vector<float> floats(t.numel());
    queue.read(*t.memory, t.offset * sizeof(float), floats.data(), floats.size() * sizeof(float));
    return {floats.begin(), floats.end()};
}

}  // namespace clprim::test
