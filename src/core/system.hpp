// What the library asks of the operating system beyond the standard library, in system_posix.cpp (Linux, macOS) and
// system_windows.cpp.
#pragma once

#include <bitset>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <clprim/export.hpp>

namespace clprim::detail {

std::int64_t process_id() noexcept;
CLPRIM_API std::int64_t thread_id() noexcept;   // as tools of the system show it

// The process's threads, none where the system does not say. How many there are is told faster.
CLPRIM_API std::vector<std::int64_t> threads();
std::size_t thread_count() noexcept;
// How long one of them has run on a processor, to the moment; 0 if there is none (any more), or as above.
std::chrono::nanoseconds running_time(std::int64_t thread) noexcept;

// The logical processors that a thread may run on: none where the system does not say, and beyond those counted here.
using CpuSet = std::bitset<1024>;
int current_cpu() noexcept;                         // the calling thread's; -1: the system does not say
CLPRIM_API CpuSet cpus_of(std::int64_t thread) noexcept;
// Whether one of the process's threads is made to run on these alone, from now on.
bool run_on(std::int64_t thread, const CpuSet& cpus) noexcept;

// Whether this process may use AMX's tile registers, which the system has to be asked for.
bool allow_tile_registers() noexcept;

// A C function by its name, of any library that the process has loaded for all to use; null: none has it.
using Function = void (*)();
Function loaded_function(const char* name) noexcept;

// Bytes of the largest cache that a core can fill; 0: the system does not say.
std::size_t last_level_cache() noexcept;

// Addresses at which there is nothing: an access faults. Null if there are none left.
void* reserve_addresses(std::size_t bytes) noexcept;
// Pages of zeros, large ones where the system has them. Null without memory.
void* allocate_pages(std::size_t bytes) noexcept;
// What the process's heap holds free goes back to the system, where that can be asked for.
void trim_heap() noexcept;
void release_addresses(void* address, std::size_t bytes) noexcept;   // all of what either gave

// A character in upper or lower case by Unicode's simple mappings, of ASCII alone where the system has no others.
char32_t in_case(char32_t c, bool upper) noexcept;

// Makes an empty file; false where there is one, or none can be made. Of several processes one is told true.
bool create_file(const std::filesystem::path& path) noexcept;

// A lock among processes, by a file that is made where there is none and stays. Given back with this.
class FileLock {
public:
    enum class Answer { held, busy, impossible };

    explicit FileLock(const std::filesystem::path& path) noexcept;
    ~FileLock();
    FileLock(const FileLock&) = delete;

    Answer try_lock() noexcept;

private:
    std::intptr_t file_;
};

// A file that is open for reading: it can be read after it was replaced, moved or deleted.
class CLPRIM_API InputFile {
public:
    struct Status {
        bool regular;                        // no folder, pipe or device
        std::uint64_t bytes, number;         // number: the file system's, of this file
        std::int64_t written;                // when, in the system's smallest steps
        friend bool operator==(const Status&, const Status&) = default;
    };

    static std::shared_ptr<const InputFile> open(const std::filesystem::path& path) noexcept;   // null if it cannot be
    explicit InputFile(std::intptr_t file) : file_(file) {}
    ~InputFile();
    InputFile(const InputFile&) = delete;

    std::optional<Status> status() const noexcept;
    // Fills a buffer from a place of the file; false if it ends before that, or cannot be read.
    bool read(std::uint64_t offset, std::span<std::byte> buffer) const noexcept;
    // Bytes of the file, which the system reads when they are first looked at; what is written to them is private. Null
    // if the file ends before that, there are none, or the system has no place. Looking at what the file lost since
    // then ends the process.
    std::shared_ptr<std::byte[]> map(std::uint64_t offset, std::size_t bytes) const noexcept;

private:
    std::intptr_t file_;
};

}  // namespace clprim::detail
