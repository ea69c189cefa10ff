#include <distributed/staging.hpp>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <clprim/context.hpp>

#include <runtime/errors.hpp>
#include <runtime/stream.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl::distributed {
namespace {

bool lends_memory(const clprim::Device& device)
{
    if (const char* choice = std::getenv("CLPRIM_DISTRIBUTED_STAGING"))
        return std::string_view(choice) == "lent";
    return device.kind == clprim::DeviceKind::cpu && (device.handle.getInfo<CL_DEVICE_TYPE>() & CL_DEVICE_TYPE_CPU);
}

// Where buffers lie in this process. Such a driver maps a buffer by handing out the address that its kernels use, and
// that stays: tensors share buffers, so none can be mapped for as long as one of them is sent.
class Addresses {
public:
    char* of(clprim::Context& context, cl_mem buffer)
    {
        if (char* known = find(buffer))
            return known;
        // One thread at a time: PoCL fails to unmap what another thread maps. Not under mutex_, for the driver may call
        // forget() meanwhile.
        const std::lock_guard one(mapping_);
        if (char* known = find(buffer))
            return known;
        auto& queue = queues_[&context];
        if (!queue)   // of its own, since mapping waits for what is in the queue
            queue = std::make_unique<clprim::Queue>(context, -1, false);
        cl_int code = CL_SUCCESS;
        void* address =
            clEnqueueMapBuffer(queue->handle()(), buffer, CL_TRUE, CL_MAP_READ, 0, 1, 0, nullptr, nullptr, &code);
        TORCH_CHECK(code == CL_SUCCESS, "clEnqueueMapBuffer: ", clprim::opencl_error_name(code));
        code = clEnqueueUnmapMemObject(queue->handle()(), buffer, address, 0, nullptr, nullptr);
        TORCH_CHECK(code == CL_SUCCESS, "clEnqueueUnmapMemObject: ", clprim::opencl_error_name(code));
        clFinish(queue->handle()());
        const auto gone = [](cl_mem buffer, void* self) { static_cast<Addresses*>(self)->forget(buffer); };
        if (clSetMemObjectDestructorCallback(buffer, gone, this) == CL_SUCCESS) {
            const std::lock_guard lock(mutex_);
            addresses_[buffer] = static_cast<char*>(address);
        }
        return static_cast<char*>(address);
    }

private:
    char* find(cl_mem buffer)
    {
        const std::lock_guard lock(mutex_);
        const auto known = addresses_.find(buffer);
        return known == addresses_.end() ? nullptr : known->second;
    }

    void forget(cl_mem buffer)
    {
        const std::lock_guard lock(mutex_);
        addresses_.erase(buffer);
    }

    std::mutex mutex_;   // of addresses_
    std::map<cl_mem, char*> addresses_;
    std::mutex mapping_;   // of queues_
    std::map<const clprim::Context*, std::unique_ptr<clprim::Queue>> queues_;
};

void* host_address(const at::Tensor& tensor)
{
    static auto* const addresses = new Addresses;   // drivers release buffers when the process ends, too
    const clprim::Tensor view = storage_view(tensor);
    return addresses->of(context(tensor.device().index()), view.memory->buffer) + view.memory->offset +
           static_cast<std::size_t>(view.offset) * tensor.element_size();
}

bool adjacent(const std::vector<at::Tensor>& parts)
{
    for (std::size_t i = 1; i < parts.size(); ++i) {
        const auto* end = static_cast<const char*>(parts[i - 1].const_data_ptr()) + parts[i - 1].nbytes();
        if (end != parts[i].const_data_ptr() || !parts[i].is_alias_of(parts[0]))
            return false;
    }
    return true;
}

}  // namespace

Lanes::Lanes(c10::Device device)
    : device_(device), out_(queue_of(new_stream(device.index()))), in_(queue_of(new_stream(device.index()))),
      lends_(lends_memory(context(device.index()).device()))
{
}

HostView::HostView(Lanes& lanes, std::vector<at::Tensor> parts, Use use)
    : lanes_(lanes), parts_(std::move(parts)), use_(use)
{
    for (const at::Tensor& part : parts_)
        count_ += part.numel();
    if (count_ == 0) {
        host_ = at::empty({0}, parts_.at(0).options().device(at::kCPU));
        return;
    }
    if (lanes_.lends()) {
        borrow();
        arrived_ = lanes_.out().record();
        lanes_.out().flush();
    } else {
        fetch();
    }
}

void HostView::fetch()
{
    const c10::DeviceGuard device(lanes_.device());   // pinned memory is of the current device
    host_ = at::empty({count_}, parts_[0].options().device(at::kCPU).pinned_memory(true));
    if (use_ == Use::write)
        return;
    const c10::StreamGuard stream(stream_of(lanes_.out()));
    std::int64_t at = 0;
    for (const at::Tensor& part : parts_) {
        host_.narrow(0, at, part.numel()).copy_(part, true);
        at += part.numel();
    }
    arrived_ = lanes_.out().record();
    lanes_.out().flush();
}

void HostView::borrow()
{
    const auto options = parts_[0].options().device(at::kCPU);
    if (adjacent(parts_)) {
        host_ = at::from_blob(host_address(parts_[0]), {count_}, options);
    } else {
        for (const at::Tensor& part : parts_)
            lent_.push_back(part.numel() == 0 ? at::empty({0}, options)
                                              : at::from_blob(host_address(part), {part.numel()}, options));
    }
}

const at::Tensor& HostView::host()
{
    if (arrived_.recorded())
        arrived_.wait();
    if (!lent_.empty() && !host_.defined()) {
        host_ = at::empty({count_}, lent_[0].options());
        std::int64_t at = 0;
        for (const at::Tensor& part : lent_) {
            if (use_ != Use::write)
                host_.narrow(0, at, part.numel()).copy_(part);
            at += part.numel();
        }
    }
    return host_;
}

void HostView::give_back()
{
    std::int64_t at = 0;
    if (use_ != Use::read && !lent_.empty()) {
        for (const at::Tensor& part : lent_) {
            part.copy_(host_.narrow(0, at, part.numel()));
            at += part.numel();
        }
    } else if (use_ != Use::read && !lanes_.lends() && count_ != 0) {
        const c10::StreamGuard stream(stream_of(lanes_.in()));
        for (const at::Tensor& part : parts_) {
            part.copy_(host_.narrow(0, at, part.numel()), true);
            at += part.numel();
        }
    }
}

}  // namespace torch_ocl::distributed
