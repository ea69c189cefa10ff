#include "onnx/replays.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/memory_history.hpp>
#include <clprim/pointwise.hpp>
#include <clprim/prepared.hpp>
#include <clprim/recording.hpp>

#include "core/dry_run.hpp"
#include "core/hollow.hpp"
#include "core/host_memory.hpp"
#include "core/memory_pool.hpp"
#include "core/planned_memory.hpp"
#include "onnx/host_results.hpp"
#include "onnx/optimize.hpp"

namespace clprim::onnx {

namespace {

// So many kinds of arguments have recordings, and one keeps at most so much memory beside what runs take anyway.
constexpr std::size_t most_entries = 4, most_bytes = std::size_t{64} << 20;
// Integers that few can say how often a loop runs or which branch is taken: they belong to the kind of arguments.
constexpr std::int64_t few = 8;

std::size_t bytes_of(const Value& value)
{
    return static_cast<std::size_t>(value.numel()) * size_of(storage_type(value.type()));
}

bool is_fixed(const Value& value)
{
    return value.on_host() && value.numel() <= few && !is_narrow(value.type()) &&
           class_of(storage_type(value.type())) != floating && class_of(storage_type(value.type())) != complex_type;
}

// What arguments have in common with those that a recording was made of, and which of them are copied to its memory.
struct Kind {
    std::string key;
    std::vector<bool> copied;
};

// Nothing for arguments that no recording can have.
std::optional<Kind> kind_of(const std::vector<Value>& arguments)
{
    Kind kind;
    for (const Value& value : arguments) {
        if (!value.is_none() && (!value.is_tensor() || value.type() == ElementType::string))
            return std::nullopt;
        const bool fixed = value.is_tensor() && is_fixed(value);
        kind.copied.push_back(value.is_tensor() && !fixed);
        if (value.is_tensor()) {
            kind.key += name_of(value.type());
            kind.key += to_string(value.shape());
        }
        if (fixed)
            kind.key.append("=").append(reinterpret_cast<const char*>(value.host_bytes()),
                                        static_cast<std::size_t>(value.numel()) * size_of(storage_type(value.type())));
        kind.key += ';';
    }
    return kind;
}

std::size_t bytes_of(const detail::MemoryPool& pool, const Context& context)
{
    std::size_t sum = 0;
    for (const MemorySegmentInfo& segment : memory_segments(context))
        if (segment.pool == pool.id())
            sum += segment.bytes;
    return sum;
}

// What runs node by node have used, unless it is more than `most`: sessions whose runs are recorded use it no more.
void give_back_unused(Context& context, std::size_t most)
{
    const MemoryStatistics statistics = context.memory_statistics();
    const auto unused =
        static_cast<std::size_t>(statistics.reserved_bytes.current - statistics.allocated_bytes.current);
    if (unused != 0 && unused <= most)
        context.empty_cache();
}

void put(const Value& value, const Tensor& target, Queue& queue)
{
    if (target.numel() == 0)
        return;
    if (value.on_device())
        copy(queue, value.device(queue), target);
    else
        queue.write(*target.memory, static_cast<std::size_t>(target.offset) * size_of(target.dtype),
                    value.host_bytes(), target.nbytes());
}

}  // namespace

struct Replays::Entry {
    enum class State { fresh, warm, recorded, refused };
    std::mutex mutex;                     // of everything here, and of the order in which a run is enqueued
    State state = State::fresh;
    std::vector<bool> copied;             // which arguments are copied to `arguments` at each run
    std::size_t copied_bytes = 0;         // of these and of results on the device, known after the first run
    std::unique_ptr<detail::MemoryPool> pool;
    std::vector<Value> arguments, results;
    std::unique_ptr<Recording> recording;

    void clear()
    {
        recording.reset();
        arguments.clear();
        results.clear();
        pool.reset();
    }
    void refuse()
    {
        state = State::refused;
        clear();
    }
};

Replays::Replays(const Graph& graph) : graph_(graph), recordable_(!detail::dry_run())
{
    for_each_node(graph, [&](const Node& node) { recordable_ = recordable_ && !varies(node); });
}

Replays::~Replays() = default;

std::shared_ptr<Replays::Entry> Replays::entry_for(const std::string& key)
{
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(entries_, key, &decltype(entries_)::value_type::first);
    if (found != entries_.end()) {
        entries_.splice(entries_.begin(), entries_, found);
        return found->second;
    }
    entries_.emplace_front(key, std::make_shared<Entry>());
    if (entries_.size() > most_entries)
        entries_.pop_back();
    return entries_.front().second;
}

// Node by node, with operands as a recording has them: what nodes prepare and choose now is what it will use.
std::vector<Value> Replays::first_run(Entry& entry, std::vector<Value>& arguments, Engine& engine)
{
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        if (!entry.copied[i])
            continue;
        Tensor tensor = arguments[i].device(engine.queue);
        if (!tensor.is_contiguous()) {
            tensor = engine.queue.context().empty(tensor.shape, tensor.dtype, engine.queue);
            copy(engine.queue, arguments[i].device(engine.queue), tensor);
        }
        arguments[i] = Value(tensor, arguments[i].type());
    }
    auto results = run_graph(graph_, arguments, nullptr, engine);
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < arguments.size(); ++i)
        bytes += entry.copied[i] ? bytes_of(arguments[i]) : 0;
    for (const Value& result : results)
        bytes += result.is_tensor() && result.on_device() ? bytes_of(result) : 0;
    const std::lock_guard lock(entry.mutex);
    if (entry.state == Entry::State::fresh)
        entry.state = Entry::State::warm;
    entry.copied_bytes = bytes;
    return results;
}

// Where kernels work in this process's memory nothing would be copied but for the recording. Counted in what a node's
// launches take of the host.
bool Replays::copies_too_much(const Entry& entry, const Device& device) const
{
    constexpr std::size_t bytes_of_a_node = 128 << 10;
    return runs_on_host_processor(device) && entry.copied_bytes > bytes_of_a_node * graph_.nodes.size();
}

// A recording in memory of the entry's pool. False where a run cannot be recorded: the entry is refused then.
bool Replays::record_once(Entry& entry, const std::vector<Value>& arguments, Engine& engine)
{
    Queue& queue = engine.queue;
    const detail::MemoryPool::Use use(*entry.pool);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const Value& value = arguments[i];
        if (entry.copied[i])
            entry.arguments.emplace_back(
                queue.context().empty(value.shape(), storage_type(value.type()), queue), value.type());
        else
            entry.arguments.push_back(
                value.is_none() ? Value() : Value::copy_of(value.type(), value.shape(), value.host_bytes()));
    }
    try {
        entry.recording = std::make_unique<Recording>(queue, Recording::Threads::this_one);
        entry.results = run_graph(graph_, entry.arguments, nullptr, engine);
        entry.recording->end();
    } catch (const Cancelled&) {
        entry.refuse();
        throw;
    } catch (const detail::GivenBack&) {         // worth another time when the weights are back
        entry.refuse();
        entry.state = Entry::State::warm;
        throw;
    } catch (const Error&) {                     // a wait, or what the run itself will say
        entry.refuse();
        return false;
    }
    const auto is_plain = [](const Value& value) { return value.is_none() || value.is_tensor(); };
    if (std::ranges::all_of(entry.results, is_plain))
        return true;
    entry.refuse();
    return false;
}

// Twice where that saves memory: what the first recording allocates, and when it gives it back, is planned for the
// second, which finds a place for everything in one piece.
bool Replays::record(Entry& entry, const std::vector<Value>& arguments, Engine& engine)
{
    constexpr std::size_t worth = std::size_t{1} << 20;
    Context& context = engine.queue.context();
    const bool first = !emptied_.exchange(true);
    if (first)
        give_back_unused(context, most_bytes);
    const std::size_t made = Prepared::made();
    std::vector<MemoryRequest> requests;
    entry.pool = std::make_unique<detail::MemoryPool>();
    {
        const detail::AllocationTrace trace(*entry.pool);
        if (!record_once(entry, arguments, engine))
            return false;
        requests = trace.requests();
    }
    // What was prepared while recording is computed by that recording alone, which stays then.
    const bool again = memory_caching(context) && made == Prepared::made();
    const MemoryPlan plan = again ? plan_memory(requests, context.device().max_allocation) : MemoryPlan();
    const std::size_t planned = std::accumulate(plan.arenas.begin(), plan.arenas.end(), std::size_t{0});
    if (again && planned + worth <= bytes_of(*entry.pool, context)) {
        entry.clear();
        entry.pool = std::make_unique<detail::MemoryPool>();
        try {
            const detail::PlannedMemory places(*entry.pool, engine.queue, std::move(requests), plan);
            if (!record_once(entry, arguments, engine))
                return false;
        } catch (const OutOfMemory&) {
            entry.refuse();
            return false;
        }
    }
    if (bytes_of(*entry.pool, context) > most_bytes) {
        entry.refuse();
        return false;
    }
    entry.state = Entry::State::recorded;
    if (first)
        give_back_unused(context, std::numeric_limits<std::size_t>::max());
    return true;
}

// The results are the caller's: the next replay writes to the recording's memory again.
std::vector<Value> Replays::replay(const Entry& entry, const std::vector<Value>& arguments, Engine& engine)
{
    Queue& queue = engine.queue;
    for (std::size_t i = 0; i < arguments.size(); ++i)
        if (entry.copied[i])
            put(arguments[i], entry.arguments[i].device(queue), queue);
    entry.recording->replay(queue);
    std::vector<Value> results;
    for (std::size_t i = 0; i < entry.results.size(); ++i) {
        const Value& result = entry.results[i];
        if (engine.host_results)
            engine.host_results->take(i, result, queue);
        if ((engine.host_results && engine.host_results->has(i)) || !result.is_tensor() || !result.on_device() ||
            result.on_host()) {
            results.push_back(result);
            continue;
        }
        const Tensor from = result.device(queue), own = queue.context().empty(from.shape, from.dtype, queue);
        copy(queue, from, own);
        results.emplace_back(own, result.type());
    }
    return results;
}

std::vector<Value> Replays::run(std::vector<Value> arguments, Engine& engine)
{
    auto kind = recordable_ && !is_recording(engine.queue) ? kind_of(arguments) : std::nullopt;
    if (!kind)
        return run_graph(graph_, arguments, nullptr, engine);
    const auto entry = entry_for(kind->key);
    std::unique_lock lock(entry->mutex);
    const bool node_by_node = engine.surplus != nullptr;
    if (entry->state == Entry::State::warm && copies_too_much(*entry, engine.queue.device()))
        entry->refuse();
    if (entry->state == Entry::State::warm && !node_by_node)
        record(*entry, arguments, engine);
    if (entry->state == Entry::State::recorded && !node_by_node)
        return replay(*entry, arguments, engine);
    const bool first = entry->state == Entry::State::fresh;
    if (first)
        entry->copied = std::move(kind->copied);
    lock.unlock();
    return first ? first_run(*entry, arguments, engine) : run_graph(graph_, arguments, nullptr, engine);
}

}  // namespace clprim::onnx
