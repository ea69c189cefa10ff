// Gradients of graphs: what a node ai.onnx.preview.training.Gradient computes, as a graph of other operators.
#pragma once

#include <functional>

#include "onnx/graph.hpp"

namespace clprim::onnx {

// The body of a Gradient node, whose inputs are values for its `xs` and then its `zs`, and whose outputs are dy/dx for
// each of `xs`; where y has several elements, their sum is differentiated. Reverse-mode differentiation of what `graph`
// computes between the named values and y, functions and other gradients included; nodes before this one are complete.
// Where the node is given the very values that it names, intermediate results are taken from `graph`, else they are
// computed anew. `slot_of` gives the slot of a name, or absent. An operator without a rule becomes a node "gradient of
// <operator>", which nothing supports. Throws InvalidArgument where names or inputs do not fit, or for more than
// `most_nodes` nodes.
GraphRef differentiate(const Graph& graph, const Node& gradient, const std::function<int(const std::string&)>& slot_of,
                       std::size_t most_nodes);

// One node on the way back, as its rule sees it (gradient_rules.cpp).
class Backward {
public:
    Backward(Graph& body, const Node& node, std::vector<int> gradients)
        : body_(body), node_(node), gradients_(std::move(gradients)), results_(node.inputs.size(), absent)
    {
    }

    const Node& node() const { return node_; }
    std::size_t inputs() const { return node_.inputs.size(); }
    bool has(std::size_t i) const { return i < inputs() && node_.inputs[i] != absent; }
    int x(std::size_t i = 0) const { return node_.inputs.at(i); }
    int y(std::size_t i = 0) const { return node_.outputs.at(i); }
    int g(std::size_t i = 0) const { return gradients_.at(i); }              // of output i; absent if unread
    std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
    float number(std::string_view name, float otherwise) const;

    // New nodes; what nobody reads in the end is dropped.
    int make(const char* op, std::vector<int> inputs, Attributes attributes = {}, const char* domain = "");
    int again(Attributes attributes);                                        // the node itself, with other attributes
    int constant(Value value);
    int scalar(double value, int like);                                      // of the type of `like`
    int add(int a, int b) { return make("Add", {a, b}); }
    int sub(int a, int b) { return make("Sub", {a, b}); }
    int mul(int a, int b) { return make("Mul", {a, b}); }
    int div(int a, int b) { return make("Div", {a, b}); }
    int neg(int a) { return make("Neg", {a}); }
    int reshaped_like(int a, int like);                                      // as many elements in another shape
    int expanded_like(int a, int like);
    int summed_like(int a, int like);                                        // over axes that `like` broadcasts along
    int filled_like(double value, int like);

    void give(std::size_t i, int gradient) { results_.at(i) = gradient; }    // of input i
    void give_summed(std::size_t i, int gradient) { give(i, summed_like(gradient, x(i))); }
    int result(std::size_t i) const { return results_[i]; }

private:
    Graph& body_;
    const Node& node_;
    std::vector<int> gradients_, results_;
};

using GradientRule = void (*)(Backward&);

// Whether an operator passes no gradient on: its outputs are integers, or constant almost everywhere.
bool has_no_gradient(const Node& node);
GradientRule gradient_rule(const Node& node);                                // null if there is none

}  // namespace clprim::onnx
