#include <runtime/memory_history.hpp>

#include <chrono>
#include <deque>
#include <mutex>
#include <set>
#include <unordered_map>

#include <torch/csrc/profiler/combined_traceback.h>
#include <torch/csrc/utils/pybind.h>

#include <clprim/context.hpp>
#include <clprim/memory_history.hpp>

#include <memory_binding.hpp>
#include <runtime/device.hpp>

namespace torch {
// Of torch/csrc/profiler/python/combined_traceback.h, whose other functions need headers that PyTorch does not ship.
std::vector<pybind11::object> py_symbolize(std::vector<CapturedTraceback*>& to_symbolize);
}  // namespace torch

namespace torch_ocl {

std::atomic<bool> detail::memory_history_recorded{false};

namespace {

namespace py = pybind11;
using Traceback = std::shared_ptr<c10::GatheredContext>;

struct Entry {
    std::string action;
    std::uint64_t address = 0;
    std::size_t bytes = 0;
    int queue = 0;
    std::uint64_t pool = 0;
    std::int64_t time_us = 0;
    Traceback traceback;
    std::string metadata;
};

struct Settings {
    bool trace = false;                       // 'all': the history too, not only what is allocated now
    bool of_state = false, of_allocations = false, of_frees = false;   // which tracebacks are gathered
    bool cpp = false;
    std::size_t most = SIZE_MAX;
    std::set<std::string> skipped;
};

struct History {
    std::mutex mutex;
    Settings settings;
    std::array<std::deque<Entry>, max_devices> entries;
    std::unordered_map<const void*, Traceback> live;   // of allocated blocks
};

History& history()
{
    static auto* instance = new History;   // never destroyed: blocks may be freed after static objects
    return *instance;
}

thread_local Traceback current_traceback;   // of the allocation or free that this thread is in
thread_local std::string current_metadata;

std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

void add(int device, Entry entry)
{
    History& all = history();
    entry.time_us =
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count();
    entry.metadata = current_metadata;
    const std::lock_guard lock(all.mutex);
    if (!all.settings.trace || all.settings.skipped.count(entry.action) != 0)
        return;
    auto& entries = all.entries[static_cast<std::size_t>(device)];
    if (entries.size() >= all.settings.most)
        entries.pop_front();
    entries.push_back(std::move(entry));
}

void observe(const clprim::MemoryAction& action)
{
    static constexpr const char* names[] = {"free_completed", "segment_alloc", "segment_free"};
    add(action.device, {names[static_cast<int>(action.kind)], number(action.address), action.bytes, action.queue,
                        action.pool, 0, current_traceback, {}});
}

void report(const clprim::Context& context, const void* address, std::int64_t bytes)
{
    const clprim::MemoryStatistics now = context.memory_statistics();
    c10::reportMemoryUsageToProfiler(const_cast<void*>(address), bytes,
                                     static_cast<std::size_t>(now.allocated_bytes.current),
                                     static_cast<std::size_t>(now.reserved_bytes.current),
                                     {device_type, static_cast<c10::DeviceIndex>(context.device().index)});
}

}  // namespace

MemoryNote::MemoryNote(bool freeing)
    : history_(detail::memory_history_recorded.load(std::memory_order_relaxed)),
      profile_(c10::memoryProfilingEnabled())
{
    if (!history_) [[likely]]
        return;
    bool gathers = false, cpp = false;
    {
        const std::lock_guard lock(history().mutex);
        const Settings& settings = history().settings;
        gathers = freeing ? settings.of_frees : settings.of_state || settings.of_allocations;
        cpp = settings.cpp;
    }
    if (gathers)
        context_ = torch::CapturedTraceback::gather(true, true, cpp);
    current_traceback = context_;
}

MemoryNote::~MemoryNote()
{
    if (history_)
        current_traceback = nullptr;
}

void MemoryNote::allocated(const clprim::Block& block)
{
    if (history_) {
        {
            const std::lock_guard lock(history().mutex);
            history().live[block.address] = context_;
        }
        add(block.context->device().index, {"alloc", number(block.address), block.size, block.queue,
                                            clprim::current_memory_pool(), 0, context_, {}});
    }
    if (profile_)
        report(*block.context, block.address, static_cast<std::int64_t>(block.size));
}

void MemoryNote::out_of_memory(const clprim::Queue& queue, std::size_t bytes)
{
    const clprim::Context& context = queue.context();
    const clprim::MemoryStatistics now = context.memory_statistics();
    const auto reserved = static_cast<std::size_t>(now.reserved_bytes.current);
    if (history_) {
        const std::size_t total = context.device().global_memory;
        add(context.device().index,
            {"oom", total - std::min(total, reserved), bytes, queue.id(), 0, 0, context_, {}});
    }
    if (profile_)
        c10::reportOutOfMemoryToProfiler(static_cast<std::int64_t>(bytes),
                                         static_cast<std::size_t>(now.allocated_bytes.current), reserved,
                                         {device_type, static_cast<c10::DeviceIndex>(context.device().index)});
}

void MemoryNote::free_requested(const clprim::Block& block)
{
    if (!history_)
        return;
    {
        const std::lock_guard lock(history().mutex);
        history().live.erase(block.address);
    }
    add(block.context->device().index,
        {"free_requested", number(block.address), block.size, block.queue, 0, 0, context_, {}});
}

void MemoryNote::freed(const clprim::Context& context, const void* address, std::size_t bytes)
{
    if (profile_)
        report(context, address, -static_cast<std::int64_t>(bytes));
}

namespace {

void record(const std::string& mode, const std::string& context, bool cpp, std::size_t most,
            const std::set<std::string>& skipped, bool clear)
{
    History& all = history();
    const bool enabled = mode == "state" || mode == "all";
    {
        const std::lock_guard lock(all.mutex);
        if (clear)
            for (auto& entries : all.entries)
                entries.clear();
        if (enabled) {
            all.settings.trace = mode == "all";
            all.settings.of_state = context == "state" || context == "alloc" || context == "all";
            all.settings.of_allocations = context == "alloc" || context == "all";
            all.settings.of_frees = context == "all";
            all.settings.cpp = cpp;
            all.settings.most = std::max<std::size_t>(most, 1);
            all.settings.skipped = skipped;
        } else {
            all.live.clear();
            all.settings = {};
        }
    }
    detail::memory_history_recorded = enabled;
    clprim::set_memory_observer(enabled ? &observe : nullptr);
}

// Python's frames of tracebacks, all of them looked up at once.
class Frames {
public:
    void add(const Traceback& traceback)
    {
        auto* captured = dynamic_cast<torch::CapturedTraceback*>(traceback.get());
        if (captured != nullptr && indices_.emplace(captured, tracebacks_.size()).second)
            tracebacks_.push_back(captured);
    }
    void look_up()
    {
        if (!tracebacks_.empty())
            frames_ = torch::py_symbolize(tracebacks_);
    }
    py::object of(const Traceback& traceback) const
    {
        const auto found = indices_.find(dynamic_cast<torch::CapturedTraceback*>(traceback.get()));
        return found == indices_.end() ? py::list() : frames_[found->second];
    }

private:
    std::unordered_map<torch::CapturedTraceback*, std::size_t> indices_;
    std::vector<torch::CapturedTraceback*> tracebacks_;
    std::vector<py::object> frames_;
};

py::dict segment_dict(int device, const clprim::MemorySegmentInfo& segment,
                      const std::unordered_map<const void*, Traceback>& live, const Frames& frames)
{
    using State = clprim::MemoryBlockInfo::State;
    py::list blocks;
    std::size_t allocated = 0, active = 0, requested = 0;
    for (const clprim::MemoryBlockInfo& block : segment.blocks) {
        static constexpr const char* states[] = {"active_allocated", "active_awaiting_free", "inactive"};
        const auto found = live.find(block.address);
        py::dict entry;
        entry["address"] = number(block.address);
        entry["size"] = block.bytes;
        entry["requested_size"] = block.requested;
        entry["state"] = states[static_cast<int>(block.state)];
        entry["frames"] = block.state == State::active && found != live.end() ? frames.of(found->second) : py::list();
        blocks.append(entry);
        allocated += block.state == State::active ? block.bytes : 0;
        active += block.state != State::inactive ? block.bytes : 0;
        requested += block.requested;
    }
    py::dict result;
    result["device"] = device;
    result["address"] = number(segment.address);
    result["total_size"] = segment.bytes;
    result["allocated_size"] = allocated;
    result["active_size"] = active;
    result["requested_size"] = requested;
    result["stream"] = segment.queue;
    result["segment_type"] = segment.small ? "small" : "large";
    result["segment_pool_id"] = py::make_tuple(0, segment.pool);
    result["is_expandable"] = false;
    result["frames"] = py::list();
    result["blocks"] = blocks;
    return result;
}

py::dict entry_dict(const Entry& entry, const Frames& frames)
{
    py::dict result;
    result["action"] = entry.action;
    result[entry.action == "oom" ? "device_free" : "addr"] = entry.address;
    result["size"] = entry.bytes;
    result["stream"] = entry.queue;
    result["time_us"] = entry.time_us;
    result["pool_id"] = py::make_tuple(0, entry.pool);
    result["frames"] = frames.of(entry.traceback);
    if (!entry.metadata.empty())
        result["user_metadata"] = entry.metadata;
    return result;
}

// The dictionary that torch.cuda.memory._snapshot describes.
py::dict snapshot()
{
    History& all = history();
    std::vector<std::deque<Entry>> entries;
    std::unordered_map<const void*, Traceback> live;
    for (int device = 0; device < device_count(); ++device)
        if (clprim::Context::created(device))
            add(device, {"snapshot", 0, 0, 0, 0, 0, nullptr, {}});
    {
        const std::lock_guard lock(all.mutex);
        for (int device = 0; device < device_count(); ++device)
            entries.push_back(all.entries[static_cast<std::size_t>(device)]);
        live = all.live;
    }
    Frames frames;
    for (const auto& of_device : entries)
        for (const Entry& entry : of_device)
            frames.add(entry.traceback);
    for (const auto& [address, traceback] : live)
        frames.add(traceback);
    frames.look_up();

    py::list segments, traces;
    for (int device = 0; device < device_count(); ++device) {
        if (clprim::Context::created(device))
            for (const auto& segment : clprim::memory_segments(clprim::Context::get(device)))
                segments.append(segment_dict(device, segment, live, frames));
        py::list trace;
        for (const Entry& entry : entries[static_cast<std::size_t>(device)])
            trace.append(entry_dict(entry, frames));
        traces.append(trace);
    }
    py::dict settings;
    settings["backend"] = "native";
    py::dict result;
    result["segments"] = segments;
    result["device_traces"] = traces;
    result["allocator_settings"] = settings;
    result["external_annotations"] = py::list();
    return result;
}

void annotate(std::uint64_t address, const std::string& text)
{
    const auto* pointer = reinterpret_cast<const void*>(address);
    for (c10::DeviceIndex device = 0; device < device_count(); ++device)
        if (clprim::Context::created(device))
            if (const clprim::Block* block = context(device).find_block(pointer)) {
                const std::string before = std::exchange(current_metadata, text);
                add(device, {"annotate", number(block->address), block->size, block->queue, 0, 0, nullptr, {}});
                current_metadata = before;
            }
}

}  // namespace

void bind_memory_history(pybind11::module_& m)
{
    m.def("record_memory_history", &record);
    m.def("memory_history_recorded", [] { return detail::memory_history_recorded.load(); });
    m.def("memory_snapshot", &snapshot);
    m.def("set_memory_metadata", [](const std::string& text) { current_metadata = text; });
    m.def("get_memory_metadata", [] { return current_metadata; });
    m.def("annotate_memory", &annotate);
}

}  // namespace torch_ocl
