// Operators made of other operators: handlers that run ONNX's own operators on values.
#pragma once

#include "onnx/call.hpp"

namespace clprim::onnx {

// Runs an operator of ONNX's domain as a node of operator set 23 would; absent inputs are Value(); "com.microsoft.X" is
// of that domain. What it throws names the operator. `prepared` is Node's.
std::vector<Value> run_operator(const Call& call, std::string_view name, std::vector<Value> inputs,
                                Attributes attributes = {}, std::size_t outputs = 1,
                                std::vector<std::shared_ptr<Prepared>> prepared = {});

// The same for one output, with the call bound.
class Compose {
public:
    explicit Compose(const Call& call) : call_(call) {}
    Value operator()(std::string_view name, std::vector<Value> inputs, Attributes attributes = {}) const
    {
        return run_operator(call_, name, std::move(inputs), std::move(attributes))[0];
    }
    // Of x and, behind it, inputs of the call, which keep what is prepared of them.
    Value with_inputs(std::string_view name, const Value& x, std::span<const std::size_t> inputs,
                      Attributes attributes) const;
    // Input i, or Value() where it is absent.
    Value input(std::size_t i) const { return call_.has(i) ? call_.input(i) : Value(); }
    Value cast(const Value& x, ElementType type) const;
    Value number(double value, ElementType type) const;            // without axes
    // The attributes of the call that have one of these names.
    Attributes attributes(std::initializer_list<std::string_view> names) const;
    Value transposed(const Value& x, std::vector<std::int64_t> order) const;
    Value to_channels_first(const Value& x) const;                  // [N, spatial..., C] to [N, C, spatial...]
    Value to_channels_last(const Value& x) const;

private:
    const Call& call_;
};

}  // namespace clprim::onnx
