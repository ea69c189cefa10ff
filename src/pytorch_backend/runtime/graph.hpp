// A captured graph: one stream's work, with the pool that its memory comes from.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <clprim/recording.hpp>

#include <runtime/device.hpp>

namespace torch_ocl {

class Graph {
public:
    Graph() = default;
    ~Graph();
    Graph(const Graph&) = delete;

    void capture_begin(std::uint64_t pool);   // of this thread's current stream; pool 0: one of its own
    void capture_end();
    void replay();                            // on the current stream of the captured device
    void reset() noexcept;
    std::uint64_t pool() const { return pool_; }
    std::vector<clprim::RecordedCommand> commands() const;
    void dump(const std::string& path) const;   // as a graph for Graphviz

private:
    std::unique_ptr<clprim::Recording> recording_;
    clprim::Queue* queue_ = nullptr;          // while it captures
    c10::DeviceIndex device_ = 0;
    std::uint64_t pool_ = 0;
};

// Pools live as long as a graph or a torch.ocl.MemPool uses them.
void retain_pool(std::uint64_t pool);
void release_pool(std::uint64_t pool) noexcept;

}  // namespace torch_ocl
