// Runs of a session that are alike, done by replaying one recording of them (clprim/recording.hpp): no node is looked
// at, nothing is allocated but the results, nothing is chosen. For small models that is most of what a run costs.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "onnx/call.hpp"

namespace clprim::onnx {

class Replays {
public:
    explicit Replays(const Graph& graph);
    ~Replays();

    // Does a run, the first one with such arguments node by node. Runs that wait for the device in between, draw random
    // numbers, need much memory or would copy more than they compute are never recorded.
    std::vector<Value> run(std::vector<Value> arguments, Engine& engine);

private:
    struct Entry;

    std::shared_ptr<Entry> entry_for(const std::string& key);
    std::vector<Value> first_run(Entry& entry, std::vector<Value>& arguments, Engine& engine);
    bool copies_too_much(const Entry& entry, const Device& device) const;
    static std::vector<Value> replay(const Entry& entry, const std::vector<Value>& arguments, Engine& engine);
    bool record(Entry& entry, const std::vector<Value>& arguments, Engine& engine);
    bool record_once(Entry& entry, const std::vector<Value>& arguments, Engine& engine);

    const Graph& graph_;
    bool recordable_;
    std::atomic<bool> emptied_ = false;    // what runs node by node left was given back
    std::mutex mutex_;
    std::list<std::pair<std::string, std::shared_ptr<Entry>>> entries_;   // the one used last in front
};

}  // namespace clprim::onnx
