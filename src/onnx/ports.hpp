// The inputs and outputs of a graph: as its model declares them, and as callers give them.
#pragma once

#include <clprim/onnx.hpp>

#include "onnx/graph.hpp"

namespace clprim::onnx {

std::vector<ModelPort> model_ports(const std::vector<Port>& ports);

// Whether a caller must give an input: it has no initializer.
bool is_required(const Graph& graph, std::size_t input);
std::vector<Port> required_inputs(const Graph& graph);

// The port of that name, null if there is none; and the names of all, quoted.
const Port* find_port(const std::vector<Port>& ports, const std::string& name);
std::string names_of(const std::vector<Port>& ports);

// "float32 [n, 3]".
std::string expected(const Port& port);

// Throws InvalidArgument for a value that a port does not take. A declared shape binds names of sizes, for all inputs
// together.
void check_input(const Port& port, const Value& value, std::map<std::string, std::int64_t>& sizes);

// Sizes that the inputs name become numbers. Throws InvalidArgument for a name that they lack and for a size below 1.
void fix_sizes(Graph& graph, const std::map<std::string, std::int64_t>& sizes);

}  // namespace clprim::onnx
