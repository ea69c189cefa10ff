#include <clprim/queue.hpp>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <core/caller_queue.hpp>
#include <core/dry_run.hpp>
#include <core/environment.hpp>
#include <core/loaded_program.hpp>
#include <core/operands.hpp>
#include <core/poison.hpp>
#include <core/profile.hpp>
#include <core/queue_handle.hpp>
#include <core/recording.hpp>
#include <core/wait.hpp>

namespace clprim {

std::atomic<std::uint64_t> detail::kernel_launch_count{0};

namespace {

// CLPRIM_SYNC=1 waits after every launch, so that a fault shows at the kernel that caused it.
bool synchronous_launches()
{
    static const bool value = !environment("CLPRIM_SYNC").empty() && environment("CLPRIM_SYNC") != "0";
    return value;
}

std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

std::uint64_t kernel_launches() noexcept { return detail::kernel_launch_count; }

Range Range::linear(std::size_t n, std::size_t local)
{
    Range range;
    range.local = {local, 1, 1};
    range.global = {round_up(std::max<std::size_t>(n, 1), local), 1, 1};
    return range;
}

Range Range::groups(std::array<std::size_t, 3> groups, std::array<std::size_t, 3> local)
{
    Range range;
    range.local = local;
    for (int i = 0; i < 3; ++i) {
        range.global[i] = groups[i] * local[i];
        if (range.global[i] > 1)
            range.dims = i + 1;
    }
    return range;
}

Launch& Launch::set(std::size_t bytes, const void* value)
{
    if (!value && bytes == 0)
        bytes = 1;   // a __local argument that this launch does not use: OpenCL wants at least a byte
    if (detail::dry_run()) [[unlikely]] {
        if (!value)
            detail::add_local_argument(kernel_, bytes);
        return *this;
    }
    if (!kernel_.handle()) [[unlikely]]
        detail::restore_kernel(kernel_);
    if (detail::recording(queue_)) [[unlikely]]
        detail::record_argument(next_, bytes, value);
    const cl_int code = clSetKernelArg(kernel_.handle(), next_, bytes, value);
    if (code != CL_SUCCESS) [[unlikely]]
        throw OpenCLError("clSetKernelArg", code,
                          fmt::format("kernel {}, argument {} of {} bytes; it takes {} arguments", kernel_.name, next_,
                                      bytes, kernel_.argument_count));
    ++next_;
    return *this;
}

Launch& Launch::memory(const Block& block, std::uint64_t offset)
{
    detail::require_here(queue_, block);
    const cl_ulong elements = offset;
    set(sizeof(cl_mem), &block.buffer);
    return set(sizeof elements, &elements);
}

Launch& Launch::arg(NoTensor)
{
    const cl_mem none = nullptr;
    const cl_ulong zero = 0;
    set(sizeof none, &none);
    return set(sizeof zero, &zero);
}

void Launch::run(const Range& range)
{
    if (detail::dry_run()) [[unlikely]]
        return detail::log_launch(kernel_, range);
    require(next_ == kernel_.argument_count, "kernel ", kernel_.name, " takes ", kernel_.argument_count,
            " arguments, got ", next_);
    if (!kernel_.handle()) [[unlikely]]   // of no arguments
        detail::restore_kernel(kernel_);
    kernel_.used = true;
    if (detail::poisons_local_memory()) [[unlikely]]
        detail::poison_local_memory(queue_, kernel_);
    if (Recording::State* recording = detail::recording(queue_)) [[unlikely]]
        return detail::record_kernel(*recording, kernel_, range);
    const std::size_t* local = range.local[0] ? range.local.data() : nullptr;
    const bool profiled = detail::profiling();
    const std::int64_t enqueue_started = profiled ? detail::profile_time() : 0;
    detail::Placement place(queue_, kernel_.cost, range);
    if (!place.by_caller())
        detail::before_launch();
    const cl_int code = clEnqueueNDRangeKernel(place.queue(), kernel_.handle(), range.dims, nullptr,
                                               range.global.data(), local, 0, nullptr, place.event(profiled));
    if (code != CL_SUCCESS) [[unlikely]]
        check_opencl(code, "clEnqueueNDRangeKernel",
                     fmt::format("kernel {}, global {}x{}x{}, local {}x{}x{}", kernel_.name, range.global[0],
                                 range.global[1], range.global[2], range.local[0], range.local[1], range.local[2]));
    const cl_event event = place.enqueued();
    detail::kernel_launch_count.fetch_add(1, std::memory_order_relaxed);
    if (profiled) [[unlikely]] {
        ProfiledCommand command;
        command.name = kernel_.name;
        command.enqueue_started = enqueue_started;
        command.global = range.global;
        command.local = range.local;
        detail::add_command(queue_, event, std::move(command));
    }
    if (synchronous_launches()) [[unlikely]]
        check_opencl(clFinish(detail::QueueAccess::handle(queue_)), "clFinish", kernel_.name);
    else if (!place.by_caller())
        place.counted(queue_.flush_now_and_then());
}

}  // namespace clprim
