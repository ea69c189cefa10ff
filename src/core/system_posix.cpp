#ifndef _WIN32
#include <core/system.hpp>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <cwctype>
#include <system_error>

#include <dlfcn.h>
#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <csignal>
#include <sched.h>
#include <sys/syscall.h>
#endif
#ifdef __APPLE__
#include <xlocale.h>
#endif

namespace clprim::detail {
namespace {

void* map(std::size_t bytes, int protection, int flags) noexcept
{
    void* const address = ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return address == MAP_FAILED ? nullptr : address;
}

std::int64_t nanoseconds(const timespec& time)
{
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

std::int64_t process_id() noexcept { return ::getpid(); }

std::int64_t thread_id() noexcept
{
#ifdef __linux__
    return ::syscall(SYS_gettid);
#else
    std::uint64_t id = 0;
    ::pthread_threadid_np(nullptr, &id);
    return static_cast<std::int64_t>(id);
#endif
}

#ifdef __linux__
std::vector<std::int64_t> threads()
{
    std::vector<std::int64_t> ids;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", ignored))
        ids.push_back(std::atoll(entry.path().filename().c_str()));
    return ids;
}

std::size_t thread_count() noexcept
{
    struct stat folder;     // whose links are those of any folder and one for each thread
    return ::stat("/proc/self/task", &folder) == 0 ? folder.st_nlink - 2 : 0;
}

std::chrono::nanoseconds running_time(std::int64_t thread) noexcept
{
    // The clock of a thread by its number, as glibc's pthread_getcpuclockid makes it.
    constexpr clockid_t of_thread = 4, scheduled = 2;
    timespec time;
    const auto clock = static_cast<clockid_t>(~static_cast<clockid_t>(thread) * 8 | of_thread | scheduled);
    return std::chrono::nanoseconds(::clock_gettime(clock, &time) == 0 ? nanoseconds(time) : 0);
}

int current_cpu() noexcept { return ::sched_getcpu(); }

CpuSet cpus_of(std::int64_t thread) noexcept
{
    CpuSet cpus;
    cpu_set_t set;
    if (::sched_getaffinity(static_cast<pid_t>(thread), sizeof set, &set) == 0) {
        for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
            cpus.set(cpu, CPU_ISSET(cpu, &set));
    }
    return cpus;
}

bool run_on(std::int64_t thread, const CpuSet& cpus) noexcept
{
    // The number may be that of another process's thread by now.
    if (::syscall(SYS_tgkill, ::getpid(), static_cast<pid_t>(thread), 0) != 0)
        return false;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (cpus.test(cpu))
            CPU_SET(cpu, &set);
    }
    return ::sched_setaffinity(static_cast<pid_t>(thread), sizeof set, &set) == 0;
}
#else
std::chrono::nanoseconds running_time(std::int64_t) noexcept { return {}; }
std::vector<std::int64_t> threads() { return {}; }
std::size_t thread_count() noexcept { return 0; }
int current_cpu() noexcept { return -1; }
CpuSet cpus_of(std::int64_t) noexcept { return {}; }
bool run_on(std::int64_t, const CpuSet&) noexcept { return false; }
#endif

bool allow_tile_registers() noexcept
{
#if defined(__linux__) && defined(__x86_64__)
    constexpr long request_permission = 0x1023, tile_data = 18;    // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA
    return ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    return false;
#endif
}

Function loaded_function(const char* name) noexcept
{
    return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

std::size_t last_level_cache() noexcept
{
    // sysconf counts the caches of all of a processor's parts where a thread fills that of its own.
    std::size_t kib = 0;
    if (std::FILE* const file = std::fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r")) {
        if (std::fscanf(file, "%zuK", &kib) != 1)
            kib = 0;
        std::fclose(file);
    }
    return kib << 10;
}

void* reserve_addresses(std::size_t bytes) noexcept { return map(bytes, PROT_NONE, MAP_NORESERVE); }

void* allocate_pages(std::size_t bytes) noexcept
{
    void* const address = map(bytes, PROT_READ | PROT_WRITE, 0);
#ifdef MADV_HUGEPAGE
    // A large page is there as a whole once a byte of it is touched, too much where there is only one to be filled.
    constexpr std::size_t few = std::size_t{4} << 20;
    if (address && bytes > few)
        ::madvise(address, bytes, MADV_HUGEPAGE);   // refused by systems without such pages, which do without
#endif
    return address;
}

void trim_heap() noexcept
{
#ifdef __GLIBC__
    ::malloc_trim(0);
#endif
}

void release_addresses(void* address, std::size_t bytes) noexcept { ::munmap(address, bytes); }

char32_t in_case(char32_t c, bool upper) noexcept
{
    static const locale_t unicode = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    const auto wide = static_cast<wint_t>(c);
    if (unicode)
        return static_cast<char32_t>(upper ? ::towupper_l(wide, unicode) : ::towlower_l(wide, unicode));
    const bool letter = (c | 32) >= 'a' && (c | 32) <= 'z' && c < 0x80;
    return !letter ? c : upper ? c & ~char32_t{32} : c | 32;
}

bool create_file(const std::filesystem::path& path) noexcept
{
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0)
        ::close(file);
    return file >= 0;
}

FileLock::FileLock(const std::filesystem::path& path) noexcept
    : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666))
{
}

FileLock::~FileLock()
{
    if (file_ >= 0)
        ::close(static_cast<int>(file_));
}

FileLock::Answer FileLock::try_lock() noexcept
{
    if (file_ < 0)
        return Answer::impossible;
    if (::flock(static_cast<int>(file_), LOCK_EX | LOCK_NB) == 0)
        return Answer::held;
    return errno == EWOULDBLOCK || errno == EINTR ? Answer::busy : Answer::impossible;
}

std::shared_ptr<const InputFile> InputFile::open(const std::filesystem::path& path) noexcept
{
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    return file < 0 ? nullptr : std::make_shared<const InputFile>(file);
}

InputFile::~InputFile() { ::close(static_cast<int>(file_)); }

std::optional<InputFile::Status> InputFile::status() const noexcept
{
    struct stat status {};
    if (::fstat(static_cast<int>(file_), &status) != 0)
        return std::nullopt;
#ifdef __APPLE__
    const timespec written = status.st_mtimespec;
#else
    const timespec written = status.st_mtim;
#endif
    return Status{S_ISREG(status.st_mode), static_cast<std::uint64_t>(status.st_size), status.st_ino,
                  nanoseconds(written)};
}

bool InputFile::read(std::uint64_t offset, std::span<std::byte> buffer) const noexcept
{
    while (!buffer.empty()) {
        const std::size_t step = std::min<std::size_t>(buffer.size(), std::size_t{1} << 30);
        const ssize_t got = ::pread(static_cast<int>(file_), buffer.data(), step, static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        offset += static_cast<std::uint64_t>(got);
        buffer = buffer.subspan(static_cast<std::size_t>(got));
    }
    return true;
}

std::shared_ptr<std::byte[]> InputFile::map(std::uint64_t offset, std::size_t bytes) const noexcept
{
    static const auto granularity = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    const auto found = status();
    if (bytes == 0 || !found || offset > found->bytes || bytes > found->bytes - offset)
        return nullptr;
    // Pages are the process's own once they are written to, which seldom happens: no memory is set aside for it.
    const std::size_t before = offset % granularity, whole = before + bytes;
    void* const address = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                                 static_cast<int>(file_), static_cast<off_t>(offset - before));
    if (address == MAP_FAILED)
        return nullptr;
    return {static_cast<std::byte*>(address) + before, [=](std::byte*) { ::munmap(address, whole); }};
}

}  // namespace clprim::detail
#endif
