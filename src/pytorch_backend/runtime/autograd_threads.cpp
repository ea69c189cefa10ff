#include <runtime/autograd_threads.hpp>

#include <future>
#include <thread>

#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/autograd.h>

#include <runtime/device.hpp>

namespace torch_ocl {
namespace {

void allow_device_threads(bool allowed) { c10::AutogradState::get_tls_state().set_multithreading_enabled(allowed); }

// A pass without numbers. The thread takes it after it has let go of the one before.
void run_nothing(c10::DeviceIndex device)
{
    const auto options = at::TensorOptions(c10::Device(device_type, device));
    const at::Tensor leaf = at::empty({0}, options).requires_grad_();
    allow_device_threads(true);
    torch::autograd::grad({leaf.alias()}, {leaf}, {at::empty({0}, options)});
}

}  // namespace

void keep_backward_passes_on_this_thread()
{
    if (device_count() == 1)
        allow_device_threads(false);
}

void let_go_of_backward_passes(std::chrono::milliseconds at_most)
{
    if (!is_initialized())
        return;
    std::promise<void> promise;
    const std::future<void> done = promise.get_future();
    std::thread([promise = std::move(promise)]() mutable {
        try {
            for (c10::DeviceIndex device = 0; device < device_count(); ++device)
                if (clprim::Context::created(device))
                    run_nothing(device);
        } catch (const std::exception&) {   // the process ends anyway
        }
        promise.set_value();
    }).detach();
    done.wait_for(at_most);
}

}  // namespace torch_ocl
