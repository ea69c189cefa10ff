// Programs whose OpenCL objects may be released and made again. Drivers keep half a megabyte and more for each program,
// and a process that meets ever new dtypes and layouts meets ever new programs; `Program` and `Kernel` themselves are
// small and stay where they are.
#pragma once

#include <functional>
#include <list>
#include <mutex>
#include <vector>

#include <clprim/program.hpp>

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

private:
    cl::Kernel make(const Kernel& kernel);

    const Device& owner_;
    LoadedPrograms& all_;
    const std::function<cl::Program()> load_;
    std::mutex mutex_;
    cl::Program object_;
    std::vector<Kernel*> kernels_;
};

// The programs of a device that are loaded; beyond a bound (CLPRIM_LOADED_PROGRAMS) the one loaded first goes. One that
// is still in use costs a few milliseconds then, once in as many loads.
class LoadedPrograms {
public:
    LoadedPrograms();
    void add(LoadedProgram& program);
    void remove(LoadedProgram& program);

private:
    const std::size_t most_;
    std::mutex mutex_;
    std::list<LoadedProgram*> programs_;
};

// What the driver says of a kernel that has its handle.
void read_limits(Kernel& kernel, const Device& device);

// Makes the handle of a kernel whose program was released. The kernel's mutex is held.
void restore_kernel(Kernel& kernel);

}  // namespace clprim::detail
