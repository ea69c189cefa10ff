#include <distributed/staging.hpp>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <clprim/context.hpp>
#include <clprim/interop.hpp>

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

void* host_address(const at::Tensor& tensor) { return clprim::host_address(storage_view(tensor)); }

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
    // An adopted buffer may lie anywhere.
    borrowed_ = lanes_.lends() && std::ranges::all_of(parts_, [](const at::Tensor& part) {
        return part.numel() == 0 || host_address(part);
    });
    if (borrowed_) {
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
    } else if (use_ != Use::read && !borrowed_ && count_ != 0) {
        const c10::StreamGuard stream(stream_of(lanes_.in()));
        for (const at::Tensor& part : parts_) {
            part.copy_(host_.narrow(0, at, part.numel()), true);
            at += part.numel();
        }
    }
}

}  // namespace torch_ocl::distributed
