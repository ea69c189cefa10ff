// Constants of a session that its nodes no longer read, since their kernels keep them in layouts of their own: the
// memory goes back to the device while the first run is still under way. Where a later run reads one after all, all
// come back, and go again during that run but for those that it or any run before it read.
#pragma once

#include <map>

#include "onnx/graph.hpp"

namespace clprim::onnx {

class Surplus {
public:
    explicit Surplus(Graph& graph);

    // To be told before a run in which constants may go.
    void begin();

    // To be told after each node of that graph, when it no longer holds what it was the last to read. What does not go
    // leaves the host.
    void after(const Graph& graph, std::size_t node, Queue& queue);

    // Brings to the device what no node asked for.
    void upload_rest(Queue& queue);

    // Takes the constants that are gone from a graph that was made anew from the same model.
    void restore(const Graph& whole);

private:
    struct Constant {
        std::size_t index;             // among the graph's constants
        bool replaced = true;          // by what each node that read it in this run keeps
        bool gone = false;
    };

    Graph& graph_;
    std::size_t free_on_host_ = 0;                 // bytes since the heap was last trimmed
    std::map<int, Constant> constants_;            // by slot, those that may go
};

}  // namespace clprim::onnx
