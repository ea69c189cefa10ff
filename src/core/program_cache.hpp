// Programs of one device: in memory by (name, text, options), on disk by a hash of all that decides the binary.
#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <clprim/program.hpp>
#include <core/loaded_program.hpp>

CLPRIM_API_BEGIN
namespace clprim {

class ProgramCache {
public:
    ProgramCache(const Device& device, const cl::Context& context);

    const Program& embedded(std::string_view path, std::string_view options);
    // Lines `#include "path"` of the text are replaced as kernel_source does, once it is built: what is kept stays
    // short.
    const Program& from_text(std::string_view name, std::string_view text, std::string_view options);
    std::size_t builds() const { return builds_; }

private:
    struct Entry {
        std::mutex mutex;               // held while building: a second thread waits for the first one's result
        std::unique_ptr<detail::LoadedProgram> program;
        std::vector<unsigned char> binary;   // where there is no cache on disk to load it from
        std::string stem;               // what it is called among dumped programs
    };
    using Entries = std::unordered_map<std::string, std::shared_ptr<Entry>>;

    const Program& program(std::string_view name, std::string key);
    cl::Program load(std::string_view name, const std::string& key, Entry& entry);
    std::optional<cl::Program> known(const Entry& entry, const std::filesystem::path& file, const std::string& key,
                                     const std::string& options);
    cl::Program build(std::string_view name, const std::string& text, const std::string& options);
    cl::Program completed(std::string_view name, const std::vector<unsigned char>& ptx, const std::string& options);
    cl::Program from_binary(std::vector<unsigned char> binary, const std::string& options);

    const Device& device_;
    cl::Context context_;
    std::string base_options_;
    detail::LoadedPrograms loaded_;
    std::mutex mutex_;
    Entries entries_;
    std::atomic<std::size_t> builds_{0};
};

// The options that every program of a device is built with.
std::string program_base_options(const Device& device);

// From now on this process keeps the binary of every program, as with CLPRIM_KEEP_BINARIES=1, even of drivers where
// that takes longer than building.
void keep_all_binaries();

// A text with its lines `#include "path"` replaced, as in kernel_source.
std::string expanded_source(std::string_view text);

// The cache folder, created: CLPRIM_CACHE_DIR, else clprim below XDG_CACHE_HOME or ~/.cache. Empty path: no disk cache
// (CLPRIM_CACHE_DISABLE=1, or the folder cannot be made).
std::filesystem::path cache_folder();

// A disk entry: whatever does not carry the key and its own checksum is treated as absent. Safe between processes:
// written aside, then renamed.
struct CacheEntry {
    std::string key;
    std::vector<unsigned char> data;
};
std::optional<CacheEntry> load_any_cache_entry(const std::filesystem::path& file);   // whatever its key
std::optional<std::vector<unsigned char>> load_cache_entry(const std::filesystem::path& file, std::string_view key);
void save_cache_entry(const std::filesystem::path& file, std::string_view key,
                      const std::vector<unsigned char>& data) noexcept;
std::string cache_hash(std::string_view text);   // 32 hexadecimal digits

namespace detail {
class FileLock;
}

// Held by the one process that builds a program, so that others which need it wait and then load it. Processes that end
// let go of it; after a minute, or where the folder has no locks, the wait is given up: a program built twice does no
// harm.
class BuildLock {
public:
    explicit BuildLock(const std::filesystem::path& entry);   // of the disk cache; an empty path: nothing is held
    ~BuildLock();
    BuildLock(const BuildLock&) = delete;
    BuildLock& operator=(const BuildLock&) = delete;
    bool waited() const { return waited_; }   // another process held it: look again for what it built

private:
    std::unique_ptr<detail::FileLock> lock_;
    bool waited_ = false;
};

}  // namespace clprim
CLPRIM_API_END
