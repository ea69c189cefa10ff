// The launching side of clprim/recording.hpp.
#pragma once

#include <atomic>

#include <clprim/queue.hpp>
#include <clprim/recording.hpp>

namespace clprim::detail {

extern std::atomic<std::uint64_t> kernel_launch_count;
extern std::atomic<int> active_recordings;
Recording::State* find_recording(const Queue& queue) noexcept;

// What records this queue's work, or null.
inline Recording::State* recording(const Queue& queue) noexcept
{
    return active_recordings.load(std::memory_order_relaxed) == 0 ? nullptr : find_recording(queue);
}

// An argument of the launch that this thread prepares; record_kernel takes them all.
void record_argument(unsigned index, std::size_t bytes, const void* value);
void record_kernel(Recording::State& state, const Kernel& kernel, const Range& range);
void record_write(Recording::State& state, Block& target, std::size_t offset, const void* source, std::size_t bytes,
                  bool pinned);
void record_read(Recording::State& state, const Block& source, std::size_t offset, void* target, std::size_t bytes);
void record_copy(Recording::State& state, const Block& source, std::size_t source_offset, Block& target,
                 std::size_t target_offset, std::size_t bytes);
void record_fill(Recording::State& state, Block& target, std::size_t offset, std::size_t bytes, const void* pattern,
                 std::size_t pattern_bytes);

void refuse_while_recording(const Queue& queue, const char* what);
void refuse_event_of_recording(const Queue& queue, cl_event event);   // of another queue

}  // namespace clprim::detail
