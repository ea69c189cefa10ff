// What the nodes of a session take: on the host while they are enqueued, on the device by the times of their commands.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <clprim/onnx.hpp>
#include <clprim/profile.hpp>

#include "onnx/graph.hpp"

namespace clprim::onnx {

class NodeProfile {
public:
    NodeProfile() : collecting_(std::make_unique<Profile>()) {}

    // While it lives, this thread enqueues the node. Nothing without a profile.
    class Scope {
    public:
        Scope(NodeProfile* profile, const Node& node) : profile_(profile), node_(node)
        {
            if (profile_) [[unlikely]]
                begin();
        }
        ~Scope()
        {
            if (profile_) [[unlikely]]
                end();
        }
        Scope(const Scope&) = delete;

    private:
        void begin();
        void end() noexcept;
        NodeProfile* profile_;
        const Node& node_;
        std::int64_t started_ = 0;
    };

    // Both wait for the commands so far.
    std::vector<NodeTime> times(const Graph& graph);
    std::string trace();

private:
    struct Span {
        const Node* node;
        std::int64_t started, ended, thread;   // nanoseconds since 1970
    };
    void collect();

    std::mutex mutex_;
    std::unique_ptr<Profile> collecting_;
    std::vector<Span> spans_;
    std::vector<ProfiledCommand> commands_;    // whose correlation is a node
    std::map<std::uint64_t, const Node*> nodes_;
    std::int64_t collected_ = 0;               // commands enqueued before are in commands_
};

}  // namespace clprim::onnx
