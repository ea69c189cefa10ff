// Kernels as Inductor's C++ wrapper writes them; included by generated code only.
#pragma once

#include <initializer_list>
#include <mutex>
#include <type_traits>

#include <torch/csrc/inductor/aoti_runtime/utils.h>
#include "inductor.h"

namespace torch_ocl_inductor {

template <class T>
TorchOclArgument argument(const T& value)
{
    if constexpr (std::is_floating_point_v<T>)
        return {nullptr, 0, static_cast<double>(value)};
    else if constexpr (std::is_arithmetic_v<T>)
        return {nullptr, static_cast<std::int64_t>(value), 0};
    else
        return {static_cast<AtenTensorHandle>(value), 0, 0};
}

class Kernel {
public:
    Kernel(const char* source, const char* name, const char* signature)
        : source_(source), name_(name), signature_(signature)
    {
    }

    void operator()(std::int32_t device, TorchOclRange range, std::initializer_list<std::int64_t> sizes,
                    std::initializer_list<TorchOclArgument> arguments)
    {
        std::call_once(made_, [this] {
            AOTI_TORCH_ERROR_CODE_CHECK(torch_ocl_new_kernel(source_, name_, signature_, &kernel_));
        });
        AOTI_TORCH_ERROR_CODE_CHECK(
            torch_ocl_launch(kernel_, device, range, sizes.begin(), arguments.begin(), arguments.size()));
    }

private:
    const char *source_, *name_, *signature_;
    std::once_flag made_;
    TorchOclKernel kernel_ = nullptr;
};

// The device that a graph runs on is current while it runs; its stream is the device's current one.
class DeviceGuard {
public:
    explicit DeviceGuard(std::int32_t index)
    {
        AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_create_device_guard(index, &guard_));
    }
    DeviceGuard(void* /*stream*/, std::int32_t index) : DeviceGuard(index) {}
    DeviceGuard(const DeviceGuard&) = delete;
    DeviceGuard& operator=(const DeviceGuard&) = delete;
    ~DeviceGuard() { aoti_torch_delete_device_guard(guard_); }

    void set_index(std::int32_t index)
    {
        AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_device_guard_set_index(guard_, index));
    }

private:
    DeviceGuardHandle guard_ = nullptr;
};

}  // namespace torch_ocl_inductor
