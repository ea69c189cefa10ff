// What the handlers of elementwise operators share: checks of element types, broadcasting, rows of the pointwise table.
#pragma once

#include <array>
#include <vector>

#include <clprim/activation.hpp>

#include "onnx/ops/support.hpp"

namespace clprim::onnx {

// Input `i` has a type of these classes (Accepts), and is neither narrow nor strings; throws otherwise.
void check_type(const Call& call, std::size_t i, unsigned accepts);
// So have all inputs, and all have the same.
void check_types(const Call& call, unsigned accepts);

// The OpenCL C of an elementwise node on floating-point tensors of one dtype, as in a row of the pointwise table; null
// for other nodes. `numbers` are its w0, w1, ...
struct ElementwiseCode {
    const char* code = nullptr;
    std::vector<float> numbers;
};
ElementwiseCode elementwise_code(const Node& node);
// gelu or gelu_tanh of a node of any domain that computes that of its one input; none for other nodes.
Activation gelu_of(const Node& node);
// That of a comparison or an operator of truth values, on operands of one type; null for other nodes.
const char* predicate_code(const Node& node);

// Input `i` as a floating-point tensor: 8-bit floats are converted to float32; throws for other types.
Tensor as_floating(const Call& call, std::size_t i);

// Which axes of input 0 a reduction goes over: its attribute or input 1; where neither says one, all, or none with
// noop_with_empty_axes.
std::vector<bool> reduced_axes(const Call& call);

// y = row(inputs...) broadcast, as output `output` of element type `type`, computed in `common`.
struct ElementwiseCall {
    std::string_view row;
    std::vector<Input> inputs;
    ElementType type;
    DataType common;
    std::vector<Scalar> scalars = {};
    std::size_t output = 0;
};
void pointwise_output(Call& call, const ElementwiseCall& elementwise);

// Calls visit(i, {positions of the operands}) for every element of `shape` in row-major order. Operands are row-major
// and broadcast to it.
template <std::size_t count, class Visit>
void for_each_broadcast(const Dims& shape, const Dims (&operands)[count], Visit&& visit)
{
    const std::size_t dims = shape.size();
    std::array<Dims, count> strides;
    for (std::size_t k = 0; k < count; ++k) {
        strides[k] = Dims(dims, 0);
        const Dims own = contiguous_strides(operands[k]);
        for (std::size_t d = 0; d < own.size(); ++d)
            strides[k][dims - own.size() + d] = operands[k][d] == 1 ? 0 : own[d];
    }
    Dims index(dims, 0);
    std::array<std::size_t, count> at{};
    const auto total = static_cast<std::size_t>(shape.product());
    for (std::size_t i = 0; i < total; ++i) {
        visit(i, at);
        for (std::size_t d = dims; d-- > 0;) {
            const bool wraps = ++index[d] == shape[d];
            for (std::size_t k = 0; k < count; ++k)
                at[k] += static_cast<std::size_t>(wraps ? strides[k][d] * (1 - shape[d]) : strides[k][d]);
            if (!wraps)
                break;
            index[d] = 0;
        }
    }
}

}  // namespace clprim::onnx
