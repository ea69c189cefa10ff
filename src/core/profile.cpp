#include <core/profile.hpp>

#include <algorithm>
#include <chrono>
#include <deque>
#include <limits>
#include <map>
#include <mutex>

#include <clprim/context.hpp>
#include <core/event_bridge.hpp>
#include <core/queue_handle.hpp>
#include <core/system.hpp>

namespace clprim {
namespace detail {

std::atomic<int> active_profiles{0};

std::int64_t profile_time() noexcept
{
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

}  // namespace detail

namespace {

struct Entry {
    ProfiledCommand command;
    cl::Event event;      // null once its times are read
};

// One log for all that collect: each knows the number of its first entry.
struct Log {
    std::mutex mutex;
    std::deque<Entry> entries;
    std::uint64_t first = 0;        // number of entries.front()
    std::size_t read = 0;           // entries before it have their times
    std::map<int, std::int64_t> clock_offsets;   // by device: what turns its time into the host's
};

Log& command_log()
{
    static auto* log = new Log;    // never destroyed: threads may launch until the end
    return *log;
}

thread_local std::vector<std::uint64_t> correlations, annotations;

std::int64_t event_time(cl_event event, cl_profiling_info what)
{
    cl_ulong value = 0;
    if (clGetEventProfilingInfo(event, what, sizeof value, &value, nullptr) != CL_SUCCESS)
        return 0;
    return static_cast<std::int64_t>(value);
}

// Host time less device time. A command's time of being queued lies between two readings of the host's clock; the
// narrowest of a few pairs is taken. (Intel's runtime for CPUs does not tell when a marker was queued, so it is a
// fill.)
std::int64_t measure_clock_offset(Queue& queue)
{
    std::int64_t best = std::numeric_limits<std::int64_t>::max(), offset = 0;
    cl_int code = CL_SUCCESS;
    const cl_int zero = 0;
    const cl::Buffer target(clCreateBuffer(queue.context().handle()(), CL_MEM_READ_WRITE, 64, nullptr, &code));
    if (code != CL_SUCCESS)
        return 0;
    for (int i = 0; i < 5; ++i) {
        cl_event command = nullptr;
        const std::int64_t before = detail::profile_time();
        if (clEnqueueFillBuffer(detail::QueueAccess::handle(queue), target(), &zero, sizeof zero, 0, 64, 0, nullptr,
                                &command) != CL_SUCCESS)
            continue;
        const std::int64_t after = detail::profile_time();
        const cl::Event owner(command);
        clWaitForEvents(1, &command);
        const std::int64_t queued = event_time(command, CL_PROFILING_COMMAND_QUEUED);
        if (queued != 0 && after - before < best) {
            best = after - before;
            offset = before + best / 2 - queued;
        }
    }
    return offset;
}

void read_times(Entry& entry, std::int64_t offset)
{
    ProfiledCommand& command = entry.command;
    const cl_event event = entry.event();
    const std::int64_t started = event_time(event, CL_PROFILING_COMMAND_START);
    const std::int64_t ended = event_time(event, CL_PROFILING_COMMAND_END);
    // A driver without times of its commands: they happened after they were enqueued, for no known time.
    command.started = started != 0 && offset != 0 ? started + offset : command.enqueued;
    command.ended = std::max(command.started, ended != 0 && offset != 0 ? ended + offset : command.started);
    entry.event = cl::Event();
}

// Reads the times of commands that are done, so that drivers do not keep events by the thousand.
void read_finished(Log& log)
{
    for (; log.read < log.entries.size(); ++log.read) {
        Entry& entry = log.entries[log.read];
        const auto offset = log.clock_offsets.find(entry.command.device);
        if (offset == log.clock_offsets.end() || !Event(entry.event).query())
            break;
        read_times(entry, offset->second);
    }
}

constexpr std::size_t entries_before_reading = 1024;

}  // namespace

void detail::add_command(Queue& queue, cl_event event, ProfiledCommand command)
{
    Log& log = command_log();
    command.device = queue.device().index;
    command.queue = queue.id();
    command.enqueued = detail::profile_time();
    command.correlation = correlation();
    command.annotation = annotation();
    thread_local const std::int64_t thread = detail::thread_id();
    command.thread = thread;
    const std::lock_guard lock(log.mutex);
    log.entries.push_back({std::move(command), cl::Event(event)});
    if (log.entries.size() - log.read >= entries_before_reading && log.entries.size() % 64 == 0)
        read_finished(log);
}

Profile::Profile()
{
    Log& log = command_log();
    detail::settle_barriers();
    const std::lock_guard lock(log.mutex);
    if (detail::active_profiles == 0)
        for (int i = 0; i < static_cast<int>(devices().size()); ++i)
            if (Context::created(i))   // anew each time: clocks drift
                log.clock_offsets[i] = measure_clock_offset(Context::get(i).queue(0));
    first_ = log.first + log.entries.size();
    ++detail::active_profiles;
}

Profile::~Profile()
{
    if (!stopped_)
        try {
            stop();
        } catch (const std::exception&) {   // a device that is lost; there is nobody to tell
        }
}

std::vector<ProfiledCommand> Profile::stop()
{
    if (stopped_)
        return {};
    stopped_ = true;
    Log& log = command_log();
    std::vector<ProfiledCommand> result;
    detail::settle_barriers();
    const std::lock_guard lock(log.mutex);
    for (std::size_t i = log.read; i < log.entries.size(); ++i) {
        Entry& entry = log.entries[i];
        const cl_event event = entry.event();
        clWaitForEvents(1, &event);   // a failed command has no times, but the others have
        const int device = entry.command.device;
        if (!log.clock_offsets.count(device))   // opened after the collection began
            log.clock_offsets[device] = measure_clock_offset(Context::get(device).queue(0));
        read_times(entry, log.clock_offsets[device]);
    }
    log.read = log.entries.size();
    const std::size_t begin = first_ - log.first;
    result.reserve(log.entries.size() - begin);
    if (--detail::active_profiles == 0) {
        for (std::size_t i = begin; i < log.entries.size(); ++i)
            result.push_back(std::move(log.entries[i].command));
        log.first += log.entries.size();
        log.entries.clear();
        log.read = 0;
        log.clock_offsets.clear();
    } else {
        for (std::size_t i = begin; i < log.entries.size(); ++i)
            result.push_back(log.entries[i].command);
    }
    return result;
}

void push_correlation(std::uint64_t id) { correlations.push_back(id); }

void pop_correlation()
{
    if (!correlations.empty())
        correlations.pop_back();
}

std::uint64_t correlation() { return correlations.empty() ? 0 : correlations.back(); }

void push_annotation(std::uint64_t id) { annotations.push_back(id); }

void pop_annotation()
{
    if (!annotations.empty())
        annotations.pop_back();
}

std::uint64_t annotation() { return annotations.empty() ? 0 : annotations.back(); }

}  // namespace clprim
