// Programs whose OpenCL objects may be released and made again. Drivers keep half a megabyte and more for each program,
// and a process that meets ever new dtypes and layouts meets ever new programs; `Program` and `Kernel` themselves are
// small and stay where they are.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include <clprim/program.hpp>

CLPRIM_API_BEGIN
namespace clprim::detail {

class LoadedPrograms;

class LoadedProgram final : public Program {
public:
    // `load` makes the OpenCL program, from the cache on disk as a rule.
    LoadedProgram(const Device& device, LoadedPrograms& all, std::function<cl::Program()> load);
    ~LoadedProgram();

    void create(Kernel& kernel);    // the kernel of its name, which from now on belongs to this program
    void restore(Kernel& kernel);   // as create for a kernel whose handle was released
    bool release();                 // false: a launch is being prepared, or another thread is loading

    // When a kernel was last launched: `now`, where that was since this was last asked.
    std::uint64_t last_used(std::uint64_t now);

private:
    cl::Kernel make(const Kernel& kernel);

    const Device& owner_;
    LoadedPrograms& all_;
    const std::function<cl::Program()> load_;
    std::mutex mutex_;
    cl::Program object_;
    std::vector<Kernel*> kernels_;
    std::uint64_t last_used_ = 0;
    std::uint64_t released_ = 0;    // how many had been released by then
};

// The programs of a device that are loaded. Beyond a bound the one goes that was not launched for the longest time,
// counted in loads. A program that comes back, before as many others went as the limit allows, is part of what a
// process uses over and over: the bound is one more from then on, up to the limit, for a network of so many programs
// would load every one of them in every step. CLPRIM_LOADED_PROGRAMS gives a bound that stays.
class LoadedPrograms {
public:
    // usual: the bound at first; limit: how far it may rise
    explicit LoadedPrograms(std::size_t usual = 256, std::size_t limit = 1024);

    // released: what release_count() said when it was released; 0: it was never loaded.
    void add(LoadedProgram& program, std::uint64_t released);
    void remove(LoadedProgram& program);
    std::uint64_t release_count() const { return release_count_.load(std::memory_order_relaxed); }

private:
    std::size_t most_, limit_;
    std::mutex mutex_;
    std::vector<LoadedProgram*> programs_;
    std::uint64_t load_count_ = 0;
    std::atomic<std::uint64_t> release_count_ = 0;
};

// What the driver says of a kernel that has its handle.
void read_limits(Kernel& kernel, const Device& device);

// Makes the handle of a kernel whose program was released. The kernel's mutex is held.
void restore_kernel(Kernel& kernel);

}  // namespace clprim::detail
CLPRIM_API_END
