// What sessions do with the constants of their graphs.
#pragma once

#include <set>

#include "onnx/graph.hpp"

namespace clprim::onnx {

bool is_host_tensor(const Value& value);   // of numbers

// The slots whose values others than the graph's own nodes see: callers and subgraphs.
std::set<int> shared_slots(const Graph& graph);

void merge_constants(Graph& graph);        // large ones that are equal become one
void drop_unread(Graph& graph);            // those that nobody reads go

// Tensors of more elements than this are not kept on the host beside the device.
inline constexpr std::int64_t large_constant = 1 << 14;

// When large constants that only the graph's own nodes see come to the device: at once, or as nodes ask for them.
enum class Upload { now, at_first_use };

// At the end, for subgraphs too: constants are uploaded, nodes get places for what they derive from them and from their
// attributes.
void settle_constants(Graph& graph, Queue& queue, Upload upload);

}  // namespace clprim::onnx
