#include <core/loaded_program.hpp>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <unordered_map>
#include <utility>

#include <clprim/error.hpp>
#include <core/at_exit.hpp>
#include <core/environment.hpp>

namespace clprim::detail {
namespace {

struct Owners {
    std::mutex mutex;
    std::unordered_map<const Kernel*, LoadedProgram*> programs;
};
Owners& owners()
{
    static auto* const all = new Owners;   // never destroyed: as contexts
    return *all;
}

}  // namespace

void read_limits(Kernel& kernel, const Device& device)
{
    cl_uint arguments = 0;
    check_opencl(clGetKernelInfo(kernel.handle(), CL_KERNEL_NUM_ARGS, sizeof arguments, &arguments, nullptr),
                 "clGetKernelInfo", kernel.name);
    std::size_t items = 0;
    check_opencl(clGetKernelWorkGroupInfo(kernel.handle(), device.handle(), CL_KERNEL_WORK_GROUP_SIZE, sizeof items,
                                          &items, nullptr),
                 "clGetKernelWorkGroupInfo", kernel.name);
    kernel.argument_count = arguments;
    kernel.max_work_group_size = items;
}

LoadedProgram::LoadedProgram(const Device& device, LoadedPrograms& all, std::function<cl::Program()> load)
    : Program(cl::Program(), device), owner_(device), all_(all), load_(std::move(load)), object_(load_())
{
    all_.add(*this, 0);
}

LoadedProgram::~LoadedProgram()
{
    all_.remove(*this);
    std::lock_guard lock(owners().mutex);
    for (const Kernel* kernel : kernels_)
        owners().programs.erase(kernel);
}

cl::Kernel LoadedProgram::make(const Kernel& kernel)
{
    std::optional<std::uint64_t> loaded;
    cl::Kernel result;
    {
        std::lock_guard lock(mutex_);
        if (!object_()) {
            object_ = load_();
            loaded = released_;
        }
        cl_int code = CL_SUCCESS;
        result = cl::Kernel(clCreateKernel(object_(), kernel.name.c_str(), &code));
        check_opencl(code, "clCreateKernel", kernel.name);
    }
    if (loaded)
        all_.add(*this, *loaded);
    return result;
}

void LoadedProgram::create(Kernel& kernel)
{
    kernel.handle = make(kernel);
    read_limits(kernel, owner_);   // before it is known here: a kernel whose limits cannot be read is made anew
    wait_at_exit_before_drivers(owner_);
    std::lock_guard lock(mutex_);
    kernels_.push_back(&kernel);
    std::lock_guard owners_lock(owners().mutex);
    owners().programs.emplace(&kernel, this);
}

void LoadedProgram::restore(Kernel& kernel) { kernel.handle = make(kernel); }

bool LoadedProgram::release()
{
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock)
        return false;
    std::vector<std::unique_lock<std::mutex>> held;
    for (Kernel* kernel : kernels_)
        if (!held.emplace_back(kernel->mutex, std::try_to_lock))
            return false;
    for (Kernel* kernel : kernels_)
        kernel->handle = {};   // the driver keeps it until enqueued work is done
    object_ = {};
    released_ = all_.release_count() + 1;
    return true;
}

std::uint64_t LoadedProgram::last_used(std::uint64_t now)
{
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock)
        return now;
    for (Kernel* kernel : kernels_) {
        const std::unique_lock kernel_lock(kernel->mutex, std::try_to_lock);
        if (!kernel_lock || std::exchange(kernel->used, false))
            last_used_ = now;
    }
    return last_used_;
}

LoadedPrograms::LoadedPrograms(std::size_t usual, std::size_t limit) : most_(usual), limit_(limit)
{
    if (const std::string wanted = environment("CLPRIM_LOADED_PROGRAMS"); !wanted.empty())
        most_ = limit_ = std::max<std::size_t>(1, std::strtoull(wanted.c_str(), nullptr, 10));
}

void LoadedPrograms::add(LoadedProgram& program, std::uint64_t released)
{
    std::lock_guard lock(mutex_);
    std::erase(programs_, &program);   // released by hand, not by add
    if (released > 0 && release_count_ - released < limit_)
        most_ = std::min(most_ + 1, limit_);
    ++load_count_;
    std::vector<std::pair<std::uint64_t, LoadedProgram*>> by_use;
    for (LoadedProgram* other : programs_)
        by_use.emplace_back(other->last_used(load_count_), other);
    if (programs_.size() >= most_) {
        std::ranges::stable_sort(by_use, {}, &std::pair<std::uint64_t, LoadedProgram*>::first);
        for (const auto& [use, oldest] : by_use) {
            if (programs_.size() < most_)
                break;
            if (!oldest->release())
                continue;
            std::erase(programs_, oldest);
            ++release_count_;
        }
    }
    programs_.push_back(&program);
}

void LoadedPrograms::remove(LoadedProgram& program)
{
    std::lock_guard lock(mutex_);
    std::erase(programs_, &program);
}

void restore_kernel(Kernel& kernel)
{
    LoadedProgram* program = nullptr;
    {
        std::lock_guard lock(owners().mutex);
        program = owners().programs.at(&kernel);
    }
    program->restore(kernel);
}

}  // namespace clprim::detail
