// Results that a caller wants on the host, read into its own memory straight from where a run left them.
#pragma once

#include <vector>

#include <clprim/onnx.hpp>

#include "onnx/graph.hpp"

namespace clprim::onnx {

class HostResults {
public:
    // Both must live as long. RunOptions::to_host says what is wanted.
    HostResults(const Graph& graph, const RunOptions& options);

    // Waits for result `i` and reads it; does nothing where it was read already or is not for the host.
    void take(std::size_t i, const Value& result, Queue& queue);
    bool has(std::size_t i) const { return taken_[i]; }
    // Whether the host has result `i`, which nobody refers to but the caller, where it lies.
    bool has_in_place(std::size_t i, const Value& result, Queue& queue) const;

private:
    const Graph& graph_;
    const RunOptions& options_;
    std::vector<bool> wanted_, taken_;
};

}  // namespace clprim::onnx
