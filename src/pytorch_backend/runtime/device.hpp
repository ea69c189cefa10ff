// Devices as PyTorch counts them: index i is clprim::devices()[i]. Nothing here opens a driver before first use.
#pragma once

#include <c10/core/Device.h>
#include <clprim/context.hpp>

namespace torch_ocl {

inline constexpr c10::DeviceType device_type = c10::DeviceType::PrivateUse1;
inline constexpr int max_devices = 64;

c10::DeviceIndex device_count() noexcept;

// The current device of this thread.
c10::DeviceIndex current_device() noexcept;
void set_device(c10::DeviceIndex index);                          // checks the index
c10::DeviceIndex exchange_device(c10::DeviceIndex index);         // set_device; returns the former one
void set_device_unchecked(c10::DeviceIndex index) noexcept;

// Throws a RuntimeError that says what to install, how many devices there are, or that this process is a fork of one
// that used the device. Returns the index with -1 replaced by the current device.
c10::DeviceIndex checked_device(c10::DeviceIndex index);

// The context of a device (-1: the current one), created at first use. Checks as checked_device does.
clprim::Context& context(c10::DeviceIndex index);

bool is_initialized() noexcept;    // whether this process has created a context
bool in_bad_fork() noexcept;       // whether it is the child of one that had

}  // namespace torch_ocl
