#include <runtime/device.hpp>

#include <atomic>
#include <mutex>

#include <pthread.h>

#include <c10/util/Exception.h>

#include <runtime/errors.hpp>
#include <runtime/stream.hpp>

namespace torch_ocl {
namespace {

thread_local c10::DeviceIndex current = 0;
std::atomic<clprim::Context*> contexts[max_devices];
std::atomic<bool> initialized{false};
std::atomic<bool> bad_fork{false};

// OpenCL drivers do not survive fork: their threads are gone in the child. The child may use the CPU as it likes;
// its first use of the device is an error instead of a hang.
void after_fork_in_child()
{
    bad_fork = true;
    for (auto& entry : contexts)
        entry = nullptr;
    forget_current_queues();
}

void mark_initialized()
{
    static std::once_flag once;
    std::call_once(once, [] {
        pthread_atfork(nullptr, nullptr, after_fork_in_child);
        initialized = true;
    });
}

clprim::Context& open_context(c10::DeviceIndex index)
{
    index = checked_device(index);
    mark_initialized();
    clprim::Context& context = translate_errors([&]() -> clprim::Context& { return clprim::Context::get(index); });
    contexts[index] = &context;
    return context;
}

}  // namespace

c10::DeviceIndex device_count() noexcept
{
    static const auto count = static_cast<c10::DeviceIndex>(
        std::min<std::size_t>(clprim::devices().size(), max_devices));
    return count;
}

c10::DeviceIndex current_device() noexcept { return current; }

void set_device(c10::DeviceIndex index) { exchange_device(index); }

void set_device_unchecked(c10::DeviceIndex index) noexcept
{
    if (index >= 0)
        current = index;
}

c10::DeviceIndex exchange_device(c10::DeviceIndex index)
{
    if (index == current || index < 0)
        return current;
    checked_device(index);
    return std::exchange(current, index);
}

c10::DeviceIndex checked_device(c10::DeviceIndex index)
{
    TORCH_CHECK(!bad_fork, "Cannot use the ocl device in a forked subprocess. To use it with multiprocessing, "
                "you must use the 'spawn' start method");
    if (index < 0)
        index = current;
    const int count = device_count();
    TORCH_CHECK(count > 0, clprim::no_device_help());
    TORCH_CHECK(index < count, "invalid device ordinal: ocl:", static_cast<int>(index), " was asked for, but there ",
                count == 1 ? "is 1 ocl device" : "are " + std::to_string(count) + " ocl devices");
    return index;
}

clprim::Context& context(c10::DeviceIndex index)
{
    if (index < 0)
        index = current;
    if (index < max_devices)
        if (clprim::Context* context = contexts[index].load(std::memory_order_acquire)) [[likely]]
            return *context;
    return open_context(index);
}

bool is_initialized() noexcept { return initialized && !bad_fork; }
bool in_bad_fork() noexcept { return bad_fork; }

}  // namespace torch_ocl
