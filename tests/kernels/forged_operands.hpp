// What the lists of right calls are made of.
#pragma once

#include <functional>
#include <vector>

#include <clprim/clprim.hpp>
#include <clprim/copy.hpp>

namespace clprim::test {

using Tensors = std::vector<Tensor>;

// A call that is right as it stands.
struct Call {
    const char* name;
    Tensors tensors;
    std::function<void(Queue&, const Tensors&)> act;
};

inline Tensor make(const Dims& shape, DataType type = DataType::float32, double value = 1)
{
    Context& context = Context::get();
    const Tensor t = context.empty(shape, type, context.queue());
    fill(context.queue(), t, value);
    return t;
}

}  // namespace clprim::test
