// Device memory as the engine sees it. Devices that compute on this machine's processor lend their memory itself; for
// others bytes pass through page-locked memory, by copies on two streams of their own.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <clprim/queue.hpp>

namespace torch_ocl::distributed {

class Lanes {   // the two streams of a device in one group
public:
    explicit Lanes(c10::Device device);
    c10::Device device() const { return device_; }
    bool lends() const { return lends_; }        // its memory is memory of this process
    clprim::Queue& out() const { return out_; }  // device to host
    clprim::Queue& in() const { return in_; }    // host to device

private:
    c10::Device device_;
    clprim::Queue &out_, &in_;
    bool lends_;
};

// Some flat device tensors of one dtype, one after the other in host memory. Not for several threads at once.
class HostView {
public:
    enum class Use { read, write, both };
    // Enqueues what brings the bytes to the host (read, both); nothing waits.
    HostView(Lanes& lanes, std::vector<at::Tensor> parts, Use use);
    HostView(const HostView&) = delete;

    const at::Tensor& host();   // waits for the bytes; flat, on the CPU
    void give_back();           // enqueues what brings the bytes to the device (write, both)

private:
    void fetch();
    void borrow();

    Lanes& lanes_;
    std::vector<at::Tensor> parts_;
    Use use_;
    std::int64_t count_ = 0;
    bool borrowed_ = false;
    at::Tensor host_;
    std::vector<at::Tensor> lent_;        // the parts, where they do not follow each other in memory
    clprim::Event arrived_;
};

}  // namespace torch_ocl::distributed
