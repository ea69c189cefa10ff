// What the registrations of torchvision's operators and of DCNv2 share.
#pragma once

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include <runtime/tensor_view.hpp>

namespace torch_ocl::vision {

struct Named {
    const at::Tensor& tensor;
    const char* name;
};

// As torchvision does: everything on the device and of the dtype of the first.
inline void check_same(const char* op, Named first, std::initializer_list<Named> others)
{
    for (const Named& other : others) {
        TORCH_CHECK(other.tensor.device() == first.tensor.device(),
                    "Expected all tensors to be on the same device, but ", "found at least two devices, ",
                    first.tensor.device(), " and ", other.tensor.device(),
                    "! (when checking "
                    "argument ",
                    other.name, " of ", op, ")");
        TORCH_CHECK(other.tensor.scalar_type() == first.tensor.scalar_type(), "Expected tensor for ", first.name,
                    " to have the same type as tensor for ", other.name, "; but type ", first.tensor.toString(),
                    " does not equal ", other.tensor.toString(), " (while checking arguments for ", op, ")");
    }
}

// A result in the layout of `like`: channels_last stays channels_last.
inline at::Tensor result(at::IntArrayRef sizes, const at::Tensor& like)
{
    return empty(sizes, like.scalar_type(), like.device(), like.suggest_memory_format());
}

inline at::Tensor result_like(const at::Tensor& tensor)
{
    return at::empty_like(tensor, tensor.options(), tensor.suggest_memory_format());
}

// Autocast: these operators run in float32 and give the input's dtype back, as torchvision's do.
inline c10::impl::ExcludeDispatchKeyGuard no_autocast()
{
    return c10::impl::ExcludeDispatchKeyGuard(c10::DispatchKey::AutocastPrivateUse1);
}

inline at::Tensor to_float(const at::Tensor& t)
{
    return at::autocast::cached_cast(at::kFloat, t, c10::DeviceType::PrivateUse1);
}

template <class Signature>
auto find_op(const char* name)
{
    return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace torch_ocl::vision
