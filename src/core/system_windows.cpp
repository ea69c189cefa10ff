#ifdef _WIN32
#include <core/system.hpp>

#include <algorithm>

#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>

namespace clprim::detail {
namespace {

const auto no_file = reinterpret_cast<std::intptr_t>(INVALID_HANDLE_VALUE);

HANDLE handle_of(std::intptr_t file) { return reinterpret_cast<HANDLE>(file); }

std::intptr_t open_file(const std::filesystem::path& path, DWORD access, DWORD disposition) noexcept
{
    constexpr DWORD shared = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    return reinterpret_cast<std::intptr_t>(
        CreateFileW(path.c_str(), access, shared, nullptr, disposition, FILE_ATTRIBUTE_NORMAL, nullptr));
}

std::uint64_t joined(DWORD high, DWORD low) { return std::uint64_t{high} << 32 | low; }

}  // namespace

std::int64_t process_id() noexcept { return GetCurrentProcessId(); }
std::int64_t thread_id() noexcept { return GetCurrentThreadId(); }

std::vector<std::int64_t> threads() { return {}; }
std::size_t thread_count() noexcept { return 0; }
std::chrono::nanoseconds running_time(std::int64_t) noexcept { return {}; }
int current_cpu() noexcept { return -1; }
CpuSet cpus_of(std::int64_t) noexcept { return {}; }
bool run_on(std::int64_t, const CpuSet&) noexcept { return false; }

bool allow_tile_registers() noexcept { return false; }

Function loaded_function(const char* name) noexcept
{
    // There is no one place for all libraries' names: these are the ones that have OpenMP's.
    for (const wchar_t* library : {L"libiomp5md.dll", L"libomp140.x86_64.dll", L"libomp.dll"})
        if (const HMODULE module = GetModuleHandleW(library))
            if (const FARPROC function = GetProcAddress(module, name))
                return reinterpret_cast<Function>(reinterpret_cast<void*>(function));
    return nullptr;
}

std::size_t last_level_cache() noexcept { return 0; }

void* reserve_addresses(std::size_t bytes) noexcept
{
    return VirtualAlloc(nullptr, bytes, MEM_RESERVE, PAGE_NOACCESS);
}

// Large pages ask for a right that users do not have.
void* allocate_pages(std::size_t bytes) noexcept
{
    return VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void trim_heap() noexcept {}

void release_addresses(void* address, std::size_t) noexcept { VirtualFree(address, 0, MEM_RELEASE); }

char32_t in_case(char32_t c, bool upper) noexcept
{
    // In UTF-16, where letters with two cases beyond the first 65,536 take two words in both.
    const bool pair = c >= 0x10000;
    wchar_t words[2] = {static_cast<wchar_t>(pair ? 0xd800 + ((c - 0x10000) >> 10) : c),
                        static_cast<wchar_t>(0xdc00 + (c & 0x3ff))};
    const int count = pair ? 2 : 1;
    wchar_t mapped[2];
    if (LCMapStringEx(LOCALE_NAME_INVARIANT, upper ? LCMAP_UPPERCASE : LCMAP_LOWERCASE, words, count, mapped, count,
                      nullptr, nullptr, 0) != count)
        return c;
    return pair ? 0x10000 + ((mapped[0] & 0x3ffu) << 10) + (mapped[1] & 0x3ffu) : char32_t{mapped[0]};
}

bool create_file(const std::filesystem::path& path) noexcept
{
    const std::intptr_t file = open_file(path, GENERIC_WRITE, CREATE_NEW);
    if (file != no_file)
        CloseHandle(handle_of(file));
    return file != no_file;
}

FileLock::FileLock(const std::filesystem::path& path) noexcept
    : file_(open_file(path, GENERIC_READ | GENERIC_WRITE, OPEN_ALWAYS))
{
}

FileLock::~FileLock()
{
    if (file_ != no_file)
        CloseHandle(handle_of(file_));
}

FileLock::Answer FileLock::try_lock() noexcept
{
    if (file_ == no_file)
        return Answer::impossible;
    OVERLAPPED begin{};
    if (LockFileEx(handle_of(file_), LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &begin))
        return Answer::held;
    return GetLastError() == ERROR_LOCK_VIOLATION ? Answer::busy : Answer::impossible;
}

std::shared_ptr<const InputFile> InputFile::open(const std::filesystem::path& path) noexcept
{
    const std::intptr_t file = open_file(path, GENERIC_READ, OPEN_EXISTING);
    return file == no_file ? nullptr : std::make_shared<const InputFile>(file);
}

InputFile::~InputFile() { CloseHandle(handle_of(file_)); }

std::optional<InputFile::Status> InputFile::status() const noexcept
{
    BY_HANDLE_FILE_INFORMATION found;
    if (GetFileType(handle_of(file_)) != FILE_TYPE_DISK)
        return Status{};
    if (!GetFileInformationByHandle(handle_of(file_), &found))
        return std::nullopt;
    return Status{!(found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY), joined(found.nFileSizeHigh, found.nFileSizeLow),
                  joined(found.nFileIndexHigh, found.nFileIndexLow),
                  static_cast<std::int64_t>(joined(found.ftLastWriteTime.dwHighDateTime,
                                                   found.ftLastWriteTime.dwLowDateTime))};
}

bool InputFile::read(std::uint64_t offset, std::span<std::byte> buffer) const noexcept
{
    while (!buffer.empty()) {
        const auto step = static_cast<DWORD>(std::min<std::size_t>(buffer.size(), std::size_t{1} << 30));
        OVERLAPPED from{};
        from.Offset = static_cast<DWORD>(offset);
        from.OffsetHigh = static_cast<DWORD>(offset >> 32);
        DWORD got = 0;
        if (!ReadFile(handle_of(file_), buffer.data(), step, &got, &from) || got == 0)
            return false;
        offset += got;
        buffer = buffer.subspan(got);
    }
    return true;
}

std::shared_ptr<std::byte[]> InputFile::map(std::uint64_t offset, std::size_t bytes) const noexcept
{
    static const std::uint64_t granularity = [] {
        SYSTEM_INFO info;
        GetSystemInfo(&info);
        return info.dwAllocationGranularity;
    }();
    const auto found = status();
    if (bytes == 0 || !found || offset > found->bytes || bytes > found->bytes - offset)
        return nullptr;
    const HANDLE mapping = CreateFileMappingW(handle_of(file_), nullptr, PAGE_WRITECOPY, 0, 0, nullptr);
    if (!mapping)
        return nullptr;
    const auto before = static_cast<std::size_t>(offset % granularity);
    const std::uint64_t begin = offset - before;
    void* const address = MapViewOfFile(mapping, FILE_MAP_COPY, static_cast<DWORD>(begin >> 32),
                                        static_cast<DWORD>(begin), before + bytes);
    CloseHandle(mapping);                        // the view keeps it
    if (!address)
        return nullptr;
    return {static_cast<std::byte*>(address) + before, [=](std::byte*) { UnmapViewOfFile(address); }};
}

}  // namespace clprim::detail
#endif
