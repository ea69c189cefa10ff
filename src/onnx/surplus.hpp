// Constants of a session that its nodes no longer read, since their kernels keep them in layouts of their own: the
// memory goes back to the device while the first run is still under way. Where a later run reads one after all, all
// come back, and go again during that run but for those that it or any run before it read.
#pragma once

#include <map>

#include "onnx/graph.hpp"

namespace clprim::onnx {

// Whether runs of a graph, with the sizes that callers gave for names, can differ in nothing but the elements of their
// inputs and how many samples these have, so that what a run needed is most likely all that any run needs.
bool runs_alike(const Graph& graph, const std::map<std::string, std::int64_t>& sizes);

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
    std::map<int, Constant> constants_;            // by slot, those that may go
};

}  // namespace clprim::onnx
