// Copies between tensors, wherever they are, and fills.
#include <array>

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <clprim/copy.hpp>
#include <clprim/transfer.hpp>
#include <torch/library.h>

#include <ops/number.hpp>
#include <runtime/allocator.hpp>
#include <runtime/errors.hpp>
#include <runtime/float8.hpp>
#include <runtime/pinned_allocator.hpp>
#include <runtime/stream.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;

// One block of memory without gaps, in any order of the axes, holding its elements as they are.
bool is_plain(const Tensor& tensor)
{
    return tensor.is_non_overlapping_and_dense() && !tensor.is_conj() && !tensor.is_neg();
}

// A tensor of that dtype and device with the layout of another one, without gaps.
Tensor dense_like(const Tensor& tensor, at::ScalarType dtype, c10::Device device)
{
    return at::empty_like(tensor, tensor.options().dtype(dtype).device(device).pinned_memory(false),
                          at::MemoryFormat::Preserve);
}

void copy_on_device(const Tensor& source, const Tensor& target)
{
    const bool raw = source.scalar_type() == target.scalar_type();
    if (!raw && is_float8(source))
        return copy_on_device(float8_to_float(source), target);
    if (!raw && is_float8(target))   // by way of float32, as PyTorch's CPU converts
        return float_to_float8(source.to(at::kFloat), target);
    clprim::CopyOptions options;
    options.conjugate = source.is_conj() != target.is_conj();
    options.negate = source.is_neg() != target.is_neg();
    // A real number has no imaginary part to negate, and a boolean nothing at all.
    clprim::copy(current_queue(target), raw ? storage_view(source) : view(source),
                 raw ? storage_view(target) : view(target), options);
}

void write_plain(const Tensor& source, const Tensor& target, bool non_blocking)
{
    const bool pinned = non_blocking && is_pinned(source.const_data_ptr());
    const clprim::Tensor to = storage_view(target);
    clprim::Queue& queue = current_queue(target);
    queue.write(*to.memory, static_cast<std::size_t>(to.offset) * target.element_size(), source.const_data_ptr(),
                target.nbytes(), pinned);
    if (pinned)
        record_pinned_use(source.const_data_ptr(), queue);
}

void read_plain(const Tensor& source, const Tensor& target, bool non_blocking)
{
    const bool pinned = non_blocking && is_pinned(target.const_data_ptr());
    const clprim::Tensor from = storage_view(source);
    clprim::Queue& queue = current_queue(source);
    queue.read(*from.memory, static_cast<std::size_t>(from.offset) * source.element_size(),
               target.mutable_data_ptr(), target.nbytes(), pinned);
    if (pinned)
        record_pinned_use(target.const_data_ptr(), queue);
}

// Whether a conversion should happen where `from` lies: it moves fewer bytes, or the other side cannot do it.
bool convert_before_transfer(const Tensor& from, const Tensor& to)
{
    return c10::elementSize(from.scalar_type()) > c10::elementSize(to.scalar_type());
}

bool device_computes(const Tensor& on_device, at::ScalarType dtype)
{
    return (dtype != at::kDouble && dtype != at::kComplexDouble) || context(on_device.device().index()).device().fp64;
}

void copy_to_device(const Tensor& source, const Tensor& target, bool non_blocking)
{
    const bool same_type = source.scalar_type() == target.scalar_type();
    const bool convert_on_host = !same_type && (convert_before_transfer(source, target) ||
                                                !device_computes(target, source.scalar_type()));
    // The layout of the target, so that bytes can go straight into it.
    if (is_plain(target) && (same_type || convert_on_host)) {
        if (same_type && is_plain(source) && source.strides() == target.strides())
            return write_plain(source, target, non_blocking);
        const Tensor host = at::empty_strided(target.sizes(), target.strides(), source.options().dtype(target.dtype()));
        host.copy_(source);
        return write_plain(host, target, false);
    }
    Tensor host = source;
    if (convert_on_host || !is_plain(source)) {
        host = dense_like(source, convert_on_host ? target.scalar_type() : source.scalar_type(), source.device());
        host.copy_(source);
    }
    const Tensor staged = at::empty_strided(host.sizes(), host.strides(),
                                            host.options().device(target.device()).pinned_memory(false));
    write_plain(host, staged, non_blocking);
    copy_on_device(staged, target);
}

void copy_to_host(const Tensor& source, const Tensor& target, bool non_blocking)
{
    const bool same_type = source.scalar_type() == target.scalar_type();
    const bool convert_on_device = !same_type && convert_before_transfer(source, target) &&
                                   device_computes(source, source.scalar_type());
    const at::ScalarType transferred = convert_on_device ? target.scalar_type() : source.scalar_type();
    const bool straight = is_plain(target) && transferred == target.scalar_type();
    Tensor packed = source;
    if (convert_on_device || !is_plain(source) || (straight && source.strides() != target.strides())) {
        packed = straight ? at::empty_strided(target.sizes(), target.strides(), source.options().dtype(transferred))
                          : dense_like(source, transferred, source.device());
        copy_on_device(source, packed);
    }
    if (straight)
        return read_plain(packed, target, non_blocking);
    const Tensor host = at::empty_strided(packed.sizes(), packed.strides(), packed.options().device(at::kCPU));
    read_plain(packed, host, false);
    target.copy_(host);
}

// The bytes of a plain tensor into one of the same dtype and strides on another device.
void move_plain(const Tensor& source, const Tensor& target)
{
    const clprim::Tensor from = storage_view(source), to = storage_view(target);
    const std::size_t size = source.element_size();
    clprim::copy_between({current_queue(source), *from.memory, static_cast<std::size_t>(from.offset) * size},
                         {current_queue(target), *to.memory, static_cast<std::size_t>(to.offset) * size},
                         source.nbytes());
}

// Work of the current streams of both devices: packed and narrowed on the source, spread and widened on the target.
void copy_between_devices(const Tensor& source, const Tensor& target)
{
    const bool same_type = source.scalar_type() == target.scalar_type();
    const auto converts = [&](const Tensor& on) {
        return device_computes(on, source.scalar_type()) && device_computes(on, target.scalar_type());
    };
    const bool source_can = converts(source), target_can = converts(target);
    if (!same_type && !source_can && !target_can) {   // neither has float64: the host converts, and waits
        const Tensor host = dense_like(source, source.scalar_type(), at::kCPU);
        copy_to_host(source, host, false);
        return copy_to_device(host, target, false);
    }
    const bool convert_on_source =
        !same_type && source_can && (!target_can || convert_before_transfer(source, target));
    const at::ScalarType transferred = convert_on_source ? target.scalar_type() : source.scalar_type();
    const bool straight = is_plain(target) && transferred == target.scalar_type();
    Tensor packed = source;
    if (convert_on_source || !is_plain(source) || (straight && source.strides() != target.strides())) {
        packed = straight ? at::empty_strided(target.sizes(), target.strides(), source.options().dtype(transferred))
                          : dense_like(source, transferred, source.device());
        copy_on_device(source, packed);
    }
    if (straight)
        return move_plain(packed, target);
    const Tensor arrived =
        at::empty_strided(packed.sizes(), packed.strides(), packed.options().device(target.device()));
    move_plain(packed, arrived);
    copy_on_device(arrived, target);
}

Tensor copy_from(const Tensor& self, const Tensor& dst, bool non_blocking)
{
    if (dst.numel() == 0 && self.numel() == 0)
        return dst;
    const Tensor source = self.sizes() == dst.sizes() ? self : self.expand(dst.sizes());
    if (dst.numel() == 0 || self.is_same(dst))
        return dst;
    at::assert_no_internal_overlap(dst);
    at::assert_no_partial_overlap(dst, source);
    if (source.is_complex() && !dst.is_complex() && dst.scalar_type() != at::kBool) {
        TORCH_WARN_ONCE("Casting complex values to real discards the imaginary part");
    }
    translate_errors([&] {
        if (!dst.is_privateuseone())
            copy_to_host(source, dst, non_blocking);
        else if (!source.is_privateuseone())
            copy_to_device(source, dst, non_blocking);
        else if (source.device() == dst.device())
            copy_on_device(source, dst);
        else
            copy_between_devices(source, dst);
    });
    return dst;
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& dst)
{
    if (self.sizes() != dst.sizes())
        dst.resize_(self.sizes());
    return copy_from(self, dst, false);
}

at::Scalar local_scalar_dense(const Tensor& self)
{
    TORCH_CHECK(self.numel() == 1, "a Tensor with ", self.numel(), " elements cannot be converted to Scalar");
    const Tensor host = at::detail::empty_cpu({}, self.scalar_type());
    translate_errors([&] { read_plain(self, host, false); });
    return at::native::_local_scalar_dense_cpu(host);
}

Tensor& fill_scalar(Tensor& self, const at::Scalar& value)
{
    const ElementBytes element = element_bytes(value, self.scalar_type());
    if (self.numel() != 0)      // a number that does not fit is refused all the same
        clprim::fill(current_queue(self), storage_view(self), std::span(element).first(self.element_size()));
    return self;
}

Tensor& fill_tensor(Tensor& self, const Tensor& value)
{
    TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
                " dimensions.");
    if (value.device() != self.device())
        return fill_scalar(self, value.item());
    return self.copy_(value);
}

Tensor& zero(Tensor& self)
{
    const std::array<std::byte, 16> zeros{};
    clprim::fill(current_queue(self), storage_view(self), std::span(zeros).first(self.element_size()));
    return self;
}

void record_stream(Tensor& self, c10::Stream stream)
{
    device_allocator().recordStream(self.storage().data_ptr(), stream);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_copy_from", copy_from);
    m.impl("_copy_from_and_resize", copy_from_and_resize);
    m.impl("_local_scalar_dense", local_scalar_dense);
    m.impl("fill_.Scalar", fill_scalar);
    m.impl("fill_.Tensor", fill_tensor);
    m.impl("zero_", zero);
    m.impl("record_stream", record_stream);
}

// _copy_from reads the lazy conjugate and negative bits itself; resolving them before would copy through _copy_from
// again, for ever.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

}  // namespace
}  // namespace torch_ocl
