#include <distributed/shared_segment.hpp>

#include <ctime>
#include <fcntl.h>
#include <linux/futex.h>
#include <random>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include <c10/util/Exception.h>

namespace torch_ocl::distributed {

// What a rank tells the others, in a cache line of its own.
struct alignas(64) SharedSegment::Line {
    std::atomic<std::uint32_t> step;       // the last one that it has announced
    std::atomic<std::uint32_t> sleepers;   // threads that sleep until it announces another
    std::atomic<std::uint32_t> left;
};

namespace {

constexpr std::size_t page = 4096, line_bytes = 64;
constexpr auto between_looks = std::chrono::milliseconds(50);   // whether a rank that does not answer is still there

std::size_t header_bytes(int size) { return (line_bytes * size + line_bytes + page - 1) / page * page; }

std::size_t segment_bytes(int size) { return header_bytes(size) + 2 * SharedSegment::slot_bytes * size; }

void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t value, std::chrono::nanoseconds limit)
{
    constexpr long second = 1'000'000'000;
    const timespec time{static_cast<time_t>(limit.count() / second), static_cast<long>(limit.count() % second)};
    syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}

void wake_all(std::atomic<std::uint32_t>& word)
{
    syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

// A lock on the byte of a rank belongs to its open file and ends with its process, however that ends.
int lock_of(int file, int command, int rank, flock& lock)
{
    lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = rank;
    lock.l_len = 1;
    return fcntl(file, command, &lock);
}

void pause_briefly()
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

}  // namespace

std::string SharedSegment::create(int size)
{
    if (size > most_ranks)
        return {};
    std::random_device random;
    const std::uint64_t number = std::uint64_t{random()} << 32 | random();
    const std::string name = "/clprim-" + std::to_string(number);
    const int file = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return {};
    // Memory that is not there ends a process when it is touched: asked for now, and given up where it is short.
    const bool there = posix_fallocate(file, 0, static_cast<off_t>(segment_bytes(size))) == 0;
    close(file);
    if (there)
        return name;
    forget(name);
    return {};
}

std::shared_ptr<SharedSegment> SharedSegment::open(const std::string& name, int rank, int size)
{
    const int file = shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0600);
    if (file < 0)
        return nullptr;
    flock lock{};
    void* memory = MAP_FAILED;
    if (lock_of(file, F_OFD_SETLK, rank, lock) == 0)
        memory = mmap(nullptr, segment_bytes(size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        close(file);
        return nullptr;
    }
    return std::shared_ptr<SharedSegment>(new SharedSegment(file, memory, rank, size));
}

void SharedSegment::forget(const std::string& name) { shm_unlink(name.c_str()); }

SharedSegment::SharedSegment(int file, void* memory, int rank, int size)
    : file_(file), memory_(static_cast<char*>(memory)), rank_(rank), size_(size)
{
    static_assert(sizeof(Line) == line_bytes && std::atomic<std::uint32_t>::is_always_lock_free);
}

SharedSegment::~SharedSegment()
{
    leave();
    munmap(memory_, segment_bytes(size_));
    close(file_);
}

SharedSegment::Line& SharedSegment::line(int rank) const { return reinterpret_cast<Line*>(memory_)[rank]; }

char* SharedSegment::slot(int rank) const
{
    return memory_ + header_bytes(size_) + (2 * static_cast<std::size_t>(rank) + step_ % 2) * slot_bytes;
}

void SharedSegment::begin(Deadline deadline)
{
    for (int rank = 0; rank < size_; ++rank)
        if (rank != rank_)
            await(rank, step_, deadline);
    ++step_;
}

void SharedSegment::announce()
{
    Line& mine = line(rank_);
    mine.step.store(step_);
    if (mine.sleepers.load() > 0)
        wake_all(mine.step);
}

void SharedSegment::await(int rank, Deadline deadline) { await(rank, step_, deadline); }

void SharedSegment::await_all(Deadline deadline)
{
    for (int rank = 0; rank < size_; ++rank)
        if (rank != rank_)
            await(rank, step_, deadline);
}

bool SharedSegment::alive(int rank) const
{
    flock lock{};
    return lock_of(file_, F_OFD_GETLK, rank, lock) != 0 || lock.l_type != F_UNLCK;
}

void SharedSegment::await(int rank, std::uint32_t step, Deadline deadline)
{
    Line& other = line(rank);
    const auto announced = [&] { return static_cast<std::int32_t>(other.step.load() - step) >= 0; };
    // Another rank that has a processor of its own answers soon; one that shares this one needs it.
    static const bool many = std::thread::hardware_concurrency() > 1;
    for (int turn = 0; many && turn < 300; ++turn) {
        if (announced())
            return;
        pause_briefly();
    }
    for (int turn = 0; turn < 10; ++turn) {
        if (announced())
            return;
        sched_yield();
    }
    while (!announced()) {
        TORCH_CHECK(!left_, "this rank has left the group");
        TORCH_CHECK(other.left.load() == 0, "rank ", rank, " has left the group");
        const auto left = deadline - std::chrono::steady_clock::now();
        TORCH_CHECK(left.count() > 0, "timed out waiting for rank ", rank);
        ++other.sleepers;
        const std::uint32_t seen = other.step.load();
        if (static_cast<std::int32_t>(seen - step) < 0)
            sleep_on(other.step, seen, std::min<std::chrono::nanoseconds>(left, between_looks));
        --other.sleepers;
        TORCH_CHECK(announced() || alive(rank), "rank ", rank, " has ended");
    }
}

void SharedSegment::leave()
{
    if (left_.exchange(true))
        return;
    Line& mine = line(rank_);
    mine.left.store(1);
    wake_all(mine.step);
}

}  // namespace torch_ocl::distributed
