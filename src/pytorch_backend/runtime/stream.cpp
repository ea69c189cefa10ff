#include <runtime/stream.hpp>

#include <atomic>

#include <c10/util/Exception.h>

#include <runtime/autograd_threads.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

// Null stands for the default queue, so that a thread which never changes streams needs no set-up.
thread_local clprim::Queue* current_queues[max_devices] = {};

// Queues with even ids have high priority; 0 is the default one.
constexpr int first_callback_queue = 2, last_callback_queue = 4;

}  // namespace

clprim::Queue& current_queue(c10::DeviceIndex device)
{
    if (device < 0)
        device = current_device();
    if (device < max_devices) {
        clprim::Queue*& queue = current_queues[device];
        if (queue == nullptr) [[unlikely]] {
            queue = &context(device).queue(0);
            keep_backward_passes_on_this_thread();
        }
        return *queue;
    }
    return context(device).queue(0);   // throws: no such device
}

clprim::Queue& current_queue(c10::Device device) { return current_queue(device.index()); }
clprim::Queue& current_queue(const at::Tensor& tensor) { return current_queue(tensor.device().index()); }

clprim::Queue& queue_of(const c10::Stream& stream)
{
    TORCH_CHECK(stream.device_type() == device_type, "expected an ocl stream, but got one of ", stream.device_type());
    clprim::Context& owner = context(stream.device_index());
    TORCH_CHECK(stream.id() >= 0 && stream.id() < owner.queue_count(), "ocl:", static_cast<int>(stream.device_index()),
                " has no stream ", stream.id());
    return owner.queue(static_cast<int>(stream.id()));
}

c10::Stream stream_of(const clprim::Queue& queue)
{
    const c10::Device device(device_type, static_cast<c10::DeviceIndex>(queue.device().index));
    return c10::Stream(c10::Stream::UNSAFE, device, queue.id());
}

c10::Stream current_stream(c10::DeviceIndex device) { return stream_of(current_queue(device)); }
c10::Stream default_stream(c10::DeviceIndex device) { return stream_of(context(device).queue(0)); }

c10::Stream new_stream(c10::DeviceIndex device, int priority)
{
    if (priority >= 0)
        return stream_of(context(device).new_queue());
    static std::atomic<unsigned> next{0};
    constexpr unsigned pool = 14;
    return stream_of(context(device).queue(last_callback_queue + 2 + 2 * static_cast<int>(next++ % pool)));
}

c10::Stream callback_stream(c10::DeviceIndex device)
{
    static std::atomic<unsigned> next{0};
    clprim::Context& owner = context(device);
    clprim::Queue& queue = owner.queue(next++ % 2 == 0 ? first_callback_queue : last_callback_queue);
    // What only a callback holds goes with it, when its kernels are merely enqueued (PowerSGD's copies of gradients).
    owner.await_before_reuse(queue);
    return stream_of(queue);
}

bool in_callback()
{
    const clprim::Queue* queue = current_queues[current_device()];   // none: no stream was ever set
    return queue && (queue->id() == first_callback_queue || queue->id() == last_callback_queue);
}

c10::Stream exchange_stream(const c10::Stream& stream)
{
    const c10::Stream former = current_stream(stream.device_index());
    current_queues[stream.device_index()] = &queue_of(stream);
    return former;
}

void forget_current_queues() noexcept
{
    for (auto& queue : current_queues)
        queue = nullptr;
}

}  // namespace torch_ocl
