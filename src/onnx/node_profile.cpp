#include "onnx/node_profile.hpp"

#include <limits>

#include <nlohmann/json.hpp>

#include <core/profile.hpp>
#include <core/system.hpp>

namespace clprim::onnx {

namespace {

std::uint64_t id_of(const Node& node) { return reinterpret_cast<std::uintptr_t>(&node); }

std::string label(const Node& node) { return node.name.empty() ? node.op_type : node.op_type + " " + node.name; }

constexpr double nanoseconds_per_millisecond = 1e6, nanoseconds_per_microsecond = 1e3;

const char* name_of(ProfiledCommand::Kind kind)
{
    switch (kind) {
    case ProfiledCommand::Kind::write: return "copy to the device";
    case ProfiledCommand::Kind::read: return "copy to the host";
    case ProfiledCommand::Kind::copy: return "copy";
    case ProfiledCommand::Kind::fill: return "fill";
    case ProfiledCommand::Kind::kernel: break;
    }
    return "kernel";
}

}  // namespace

void NodeProfile::Scope::begin()
{
    push_correlation(id_of(node_));
    started_ = clprim::detail::profile_time();
}

void NodeProfile::Scope::end() noexcept
{
    pop_correlation();
    thread_local const std::int64_t thread = clprim::detail::thread_id();
    const std::lock_guard lock(profile_->mutex_);
    profile_->spans_.push_back({&node_, started_, clprim::detail::profile_time(), thread});
    profile_->nodes_.emplace(id_of(node_), &node_);
}

// The next collection begins before the last one ends, so that no command of another thread is lost; what both have
// counts once.
void NodeProfile::collect()
{
    auto next = std::make_unique<Profile>();
    const std::int64_t now = clprim::detail::profile_time();
    for (ProfiledCommand& command : collecting_->stop())
        if (command.enqueue_started >= collected_ && command.enqueue_started < now &&
            nodes_.contains(command.correlation))
            commands_.push_back(std::move(command));
    collecting_ = std::move(next);
    collected_ = now;
}

std::vector<NodeTime> NodeProfile::times(const Graph& graph)
{
    const std::lock_guard lock(mutex_);
    collect();
    std::map<const Node*, NodeTime> sums;
    for (const Span& span : spans_) {
        NodeTime& time = sums[span.node];
        time.host_milliseconds += static_cast<double>(span.ended - span.started) / nanoseconds_per_millisecond;
        ++time.calls;
    }
    for (const ProfiledCommand& command : commands_)
        sums[nodes_.at(command.correlation)].milliseconds +=
            static_cast<double>(command.ended - command.started) / nanoseconds_per_millisecond;
    std::vector<NodeTime> result;
    for_each_node(graph, [&](const Node& node) {
        if (const auto found = sums.find(&node); found != sums.end()) {
            found->second.name = node.name;
            found->second.op_type = node.op_type;
            result.push_back(found->second);
        }
    });
    return result;
}

std::string NodeProfile::trace()
{
    const std::lock_guard lock(mutex_);
    collect();
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    for (const Span& span : spans_)
        first = std::min(first, span.started);
    const auto microseconds = [](std::int64_t time) { return static_cast<double>(time) / nanoseconds_per_microsecond; };
    const auto event = [&](const std::string& name, std::int64_t started, std::int64_t ended) {
        return nlohmann::json{{"name", name}, {"ph", "X"}, {"ts", microseconds(started - first)},
                              {"dur", microseconds(ended - started)}};
    };
    const auto track = [](nlohmann::json& json, const std::string& process, std::int64_t thread) {
        json["pid"] = process;
        json["tid"] = thread;
    };
    nlohmann::json events = nlohmann::json::array();
    for (const Span& span : spans_) {
        nlohmann::json json = event(label(*span.node), span.started, span.ended);
        track(json, "host", span.thread);
        events.push_back(std::move(json));
    }
    for (const ProfiledCommand& command : commands_) {
        const bool is_kernel = command.kind == ProfiledCommand::Kind::kernel;
        nlohmann::json json = event(is_kernel ? command.name : name_of(command.kind), command.started, command.ended);
        track(json, "device " + std::to_string(command.device), command.queue);
        json["args"]["node"] = label(*nodes_.at(command.correlation));
        if (is_kernel) {
            json["args"]["global"] = command.global;
            json["args"]["local"] = command.local;
        } else {
            json["args"]["bytes"] = command.bytes;
        }
        events.push_back(std::move(json));
    }
    return nlohmann::json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump(
        -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace clprim::onnx
