#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include <core/environment.hpp>
#include <core/program_cache.hpp>
#include <core/system.hpp>

namespace clprim {
namespace {

constexpr char magic[8] = {'C', 'L', 'P', 'R', 'I', 'M', '0', '1'};

// FNV-1a (Fowler, Noll, Vo) with a chosen start, 64 bits.
std::uint64_t fnv1a(const void* data, std::size_t bytes, std::uint64_t hash)
{
    const auto* at = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < bytes; ++i)
        hash = (hash ^ at[i]) * 0x100000001b3ull;
    return hash;
}

constexpr std::uint64_t first_start = 0xcbf29ce484222325ull, second_start = 0x84222325cbf29ce4ull;

struct Header {
    char magic[8];
    std::uint64_t key_bytes, data_bytes, checksum;
};

std::uint64_t checksum(std::string_view key, const std::vector<unsigned char>& data)
{
    return fnv1a(data.data(), data.size(), fnv1a(key.data(), key.size(), first_start));
}

std::filesystem::path wanted_folder()
{
    if (std::string folder = environment("CLPRIM_CACHE_DIR"); !folder.empty())
        return folder;
    if (const std::string folder = environment("XDG_CACHE_HOME"); !folder.empty())
        return std::filesystem::path(folder) / "clprim";
    if (const std::string home = environment("HOME"); !home.empty())
        return std::filesystem::path(home) / ".cache" / "clprim";
    return {};
}

}  // namespace

std::filesystem::path cache_folder()
{
    static const std::filesystem::path folder = [] {
        if (!environment("CLPRIM_CACHE_DISABLE").empty() && environment("CLPRIM_CACHE_DISABLE") != "0")
            return std::filesystem::path();
        const auto path = wanted_folder();
        std::error_code error;
        if (!path.empty())
            std::filesystem::create_directories(path, error);
        return error ? std::filesystem::path() : path;
    }();
    return folder;
}

std::string cache_hash(std::string_view text)
{
    return fmt::format("{:016x}{:016x}", fnv1a(text.data(), text.size(), first_start),
                       fnv1a(text.data(), text.size(), second_start));
}

std::optional<CacheEntry> load_any_cache_entry(const std::filesystem::path& file)
{
    std::ifstream in(file, std::ios::binary);
    std::error_code error;
    const auto file_bytes = std::filesystem::file_size(file, error);
    Header header{};
    if (!in || error || !in.read(reinterpret_cast<char*>(&header), sizeof header))
        return std::nullopt;
    if (std::memcmp(header.magic, magic, sizeof magic) != 0 || header.key_bytes > file_bytes ||
        header.data_bytes > file_bytes || file_bytes != sizeof header + header.key_bytes + header.data_bytes)
        return std::nullopt;
    CacheEntry entry{std::string(header.key_bytes, '\0'), std::vector<unsigned char>(header.data_bytes)};
    if (!in.read(entry.key.data(), static_cast<std::streamsize>(entry.key.size())) ||
        !in.read(reinterpret_cast<char*>(entry.data.data()), static_cast<std::streamsize>(entry.data.size())))
        return std::nullopt;
    return checksum(entry.key, entry.data) == header.checksum ? std::optional(std::move(entry)) : std::nullopt;
}

std::optional<std::vector<unsigned char>> load_cache_entry(const std::filesystem::path& file, std::string_view key)
{
    auto entry = load_any_cache_entry(file);
    return entry && entry->key == key ? std::optional(std::move(entry->data)) : std::nullopt;
}

void save_cache_entry(const std::filesystem::path& file, std::string_view key,
                      const std::vector<unsigned char>& data) noexcept
try {
    static std::atomic<unsigned> serial{0};
    const std::filesystem::path aside = fmt::format("{}.{}.{}.tmp", file.string(), detail::process_id(), serial++);
    Header header{};
    std::memcpy(header.magic, magic, sizeof magic);
    header.key_bytes = key.size();
    header.data_bytes = data.size();
    header.checksum = checksum(key, data);
    {
        std::ofstream out(aside, std::ios::binary);
        out.write(reinterpret_cast<const char*>(&header), sizeof header);
        out.write(key.data(), static_cast<std::streamsize>(key.size()));
        out.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
        if (!out.flush()) {
            std::error_code ignored;
            std::filesystem::remove(aside, ignored);
            return;
        }
    }
    std::filesystem::rename(aside, file);
} catch (const std::exception&) {
    // The cache is a convenience: a full or read-only disk must not stop the computation.
}

BuildLock::BuildLock(const std::filesystem::path& entry)
{
    if (entry.empty())
        return;
    // A few files for all programs, so that they need not be cleared away. Two programs that share one wait needlessly.
    const std::string name = fmt::format("{}.lock", entry.filename().string().substr(0, 2));
    lock_ = std::make_unique<detail::FileLock>(entry.parent_path() / name);
    using namespace std::chrono_literals;
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (lock_->try_lock() == detail::FileLock::Answer::busy && std::chrono::steady_clock::now() < end) {
        waited_ = true;
        std::this_thread::sleep_for(10ms);
    }
}

BuildLock::~BuildLock() = default;

}  // namespace clprim
