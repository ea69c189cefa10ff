// What operators offer to fusion in predict mode. An operator class that takes part also derives from Fusible; what it
// leaves as it is here it does not offer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <clprim/operators.hpp>

namespace clprim {

// A row of the table of elementwise operators with its numbers, of one input: what follows an operator.
struct PointwiseStep {
    std::string row;
    std::vector<double> values;
};

class Fusible {
public:
    virtual ~Fusible() = default;

    // This operator with an activation after it, or null.
    virtual std::unique_ptr<Operator> with_activation(Activation) const { return nullptr; }
    // The same with a function that its kernels compute on the way; or null.
    virtual std::unique_ptr<Operator> with_function(const PointwiseStep&) const { return nullptr; }
    // This operator with its output channels scaled and shifted, with the parameters weight and bias that fold() fills
    // from its own; or null.
    virtual std::unique_ptr<Operator> with_scale_shift() const { return nullptr; }
    virtual void fold(Queue&, std::span<const Tensor>, const Tensor&, const Tensor&, std::span<const Tensor>) const {}
    // This operator with a further input of the output's shape, added before an activation; or null.
    virtual std::unique_ptr<Operator> with_residual(Activation) const { return nullptr; }

    // What it is to the operator before it: an activation,
    virtual std::optional<Activation> as_activation() const { return std::nullopt; }
    // another function,
    virtual std::optional<PointwiseStep> as_function() const { return std::nullopt; }
    // a plain sum of two inputs with an activation after it,
    virtual std::optional<Activation> as_residual_sum() const { return std::nullopt; }
    // or y = scale[c] x + shift[c] per channel, which it computes from its parameters into float32 or float64 vectors.
    virtual bool is_scale_shift() const { return false; }
    virtual void scale_shift(Queue&, std::span<const Tensor>, const Tensor&, const Tensor&) const {}
};

}  // namespace clprim
