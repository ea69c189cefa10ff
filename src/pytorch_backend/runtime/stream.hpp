// Streams: a PyTorch stream id is the id of a clprim::Queue on its device; 0 is the default stream.
#pragma once

#include <c10/core/Stream.h>
#include <clprim/queue.hpp>

#include <runtime/device.hpp>

namespace torch_ocl {

clprim::Queue& current_queue(c10::DeviceIndex device);      // this thread's current queue on a device, -1: current one
clprim::Queue& queue_of(const c10::Stream& stream);

c10::Stream stream_of(const clprim::Queue& queue);
c10::Stream current_stream(c10::DeviceIndex device);
c10::Stream default_stream(c10::DeviceIndex device);
c10::Stream new_stream(c10::DeviceIndex device, int priority = 0);   // from the device's pool of that priority
c10::Stream callback_stream(c10::DeviceIndex device);       // on which PyTorch runs a callback of a future
bool in_callback();                                         // whether this thread is in one: such a stream is current
c10::Stream exchange_stream(const c10::Stream& stream);     // makes it current on its device; returns the former one

void forget_current_queues() noexcept;                      // of this thread, after a fork

}  // namespace torch_ocl
