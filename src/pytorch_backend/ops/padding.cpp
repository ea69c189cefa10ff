// Padding: reflection_pad, replication_pad and constant_pad_nd. (Circular padding is composed by PyTorch of copies.)
#include <algorithm>
#include <span>

#include <ATen/native/Padding.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/constant_pad_nd_native.h>
#include <ATen/ops/reflection_pad1d_backward_meta.h>
#include <ATen/ops/reflection_pad1d_meta.h>
#include <ATen/ops/reflection_pad3d_meta.h>
#include <ATen/ops/replication_pad1d_backward_meta.h>
#include <ATen/ops/replication_pad1d_meta.h>
#include <ATen/ops/replication_pad2d_meta.h>
#include <ATen/ops/replication_pad3d_meta.h>
#include <c10/core/DeviceGuard.h>
#include <clprim/pad.hpp>
#include <torch/library.h>

#include <ops/number.hpp>
#include <runtime/errors.hpp>
#include <runtime/output.hpp>
#include <runtime/structured.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using clprim::PadMode;

at::Tensor batched(const at::Tensor& t, int axes) { return t.dim() == axes + 1 ? t.unsqueeze(0) : t; }

// PyTorch lists pads from the last axis on, two for each.
clprim::Padding padding_of(at::IntArrayRef pads, PadMode mode)
{
    clprim::Padding padding;
    padding.axes = static_cast<int>(pads.size() / 2);
    padding.mode = mode;
    for (int i = 0; i < padding.axes; ++i)
        padding.before[i] = pads[2 * (padding.axes - 1 - i)];
    return padding;
}

void enqueue(const at::Tensor& self, const clprim::Padding& padding, const at::Tensor& out)
{
    TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != at::kBool, "\"padding\" not implemented for 'Bool'");
    const at::Tensor x = batched(self, padding.axes), y = batched(out, padding.axes);
    const at::MemoryFormat format = x.suggest_memory_format();
    const at::Tensor dense = x.contiguous(format);
    const Output result(y, format);
    translate_errors([&] { clprim::pad(current_queue(self), view(dense), view(result.tensor()), padding); });
    result.finish();
}

void enqueue_backward(const at::Tensor& grad_output, const clprim::Padding& padding, const at::Tensor& grad_input)
{
    const at::Tensor dy = batched(grad_output, padding.axes), dx = batched(grad_input, padding.axes);
    const at::MemoryFormat format = dy.suggest_memory_format();
    const at::Tensor dense = dy.contiguous(format);
    const Output result(dx, format);
    translate_errors([&] { clprim::pad_backward(current_queue(dy), view(dense), view(result.tensor()), padding); });
    result.finish();
}

// ---- operators whose shapes PyTorch works out ----

template <class Meta, PadMode mode>
at::Tensor& structured_pad(const at::Tensor& self, at::IntArrayRef pads, at::Tensor& out)
{
    StructuredOut<Meta> op({out});
    op.meta(self, pads);
    enqueue(self, padding_of(pads, mode), op.output());
    op.finish();
    return out;
}

template <class Meta, PadMode mode>
at::Tensor& structured_pad_backward(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef pads,
                                    at::Tensor& grad_input)
{
    StructuredOut<Meta> op({grad_input});
    op.meta(grad_output, self, pads);
    enqueue_backward(grad_output, padding_of(pads, mode), op.output());
    op.finish();
    return grad_input;
}

// ---- and the others ----

template <int axes>
std::vector<int64_t> padded_sizes(const at::Tensor& self, at::IntArrayRef pads, PadMode mode)
{
    at::native::padding::check_valid_input<axes>(self, pads);
    std::vector<int64_t> sizes = self.sizes().vec();
    for (int i = 0; i < axes; ++i) {
        const int64_t dim = self.dim() - 1 - i, size = self.size(dim), before = pads[2 * i], behind = pads[2 * i + 1];
        TORCH_CHECK(mode == PadMode::replicate || (before < size && behind < size),
                    "Padding size should be less than the corresponding input dimension, but got: padding (", before,
                    ", ", behind, ") at dimension ", dim, " of input ", self.sizes());
        sizes[dim] = size + before + behind;
        TORCH_CHECK(sizes[dim] >= (mode == PadMode::replicate), "padding (", before, ", ", behind,
                    ") leaves no element in dimension ", dim, " of input ", self.sizes());
    }
    return sizes;
}

// Results without strides of their own take the input's memory format.
template <int axes, PadMode mode>
at::Tensor& pad_out(const at::Tensor& self, at::IntArrayRef pads, at::Tensor& out)
{
    const std::vector<int64_t> sizes = padded_sizes<axes>(self, pads, mode);
    const c10::OptionalDeviceGuard guard(self.device());
    if (at::native::resize_output(out, sizes) && out.dim() == axes + 2)
        out.unsafeGetTensorImpl()->empty_tensor_restride(self.suggest_memory_format());
    enqueue(self, padding_of(pads, mode), out);
    return out;
}

template <int axes, PadMode mode>
at::Tensor pad(const at::Tensor& self, at::IntArrayRef pads)
{
    at::Tensor out = torch_ocl::empty({0}, self.scalar_type(), self.device());
    return pad_out<axes, mode>(self, pads, out);
}

template <int axes, PadMode mode>
at::Tensor& pad_backward_out(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef pads,
                             at::Tensor& grad_input)
{
    const std::vector<int64_t> sizes = padded_sizes<axes>(self, pads, mode);
    TORCH_CHECK(grad_output.sizes() == sizes, "grad_output has shape ", grad_output.sizes(), ", expected ",
                at::IntArrayRef(sizes));
    const c10::OptionalDeviceGuard guard(self.device());
    if (at::native::resize_output(grad_input, self.sizes()) && self.dim() == axes + 2)
        grad_input.unsafeGetTensorImpl()->empty_tensor_restride(self.suggest_memory_format());
    enqueue_backward(grad_output, padding_of(pads, mode), grad_input);
    return grad_input;
}

template <int axes, PadMode mode>
at::Tensor pad_backward(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef pads)
{
    at::Tensor grad_input = torch_ocl::empty({0}, self.scalar_type(), self.device());
    return pad_backward_out<axes, mode>(grad_output, self, pads, grad_input);
}

// ---- padding with a number ----

// Nothing but less of a tensor stays PyTorch's: a copy of a view.
at::Tensor constant_pad(const at::Tensor& self, at::IntArrayRef pads, const at::Scalar& value)
{
    const auto axes = static_cast<int64_t>(pads.size() / 2);
    const bool grows = std::ranges::any_of(pads, [](int64_t pad) { return pad > 0; });
    if (pads.size() % 2 != 0 || axes > self.dim() || !grows)
        return at::native::constant_pad_nd(self, pads, value);
    std::vector<int64_t> sizes = self.sizes().vec();
    clprim::Dims before(sizes.size(), 0);
    for (int64_t i = 0; i < axes; ++i) {
        const auto dim = static_cast<std::size_t>(self.dim() - 1 - i);
        before[dim] = pads[2 * i];
        sizes[dim] += pads[2 * i] + pads[2 * i + 1];
        if (sizes[dim] < 0 || std::min(pads[2 * i], pads[2 * i + 1]) < -self.sizes()[dim])
            return at::native::constant_pad_nd(self, pads, value);   // says what is wrong
    }
    const c10::OptionalDeviceGuard guard(self.device());
    const at::Tensor out = torch_ocl::empty(sizes, self.scalar_type(), self.device(), self.suggest_memory_format());
    const ElementBytes element = element_bytes(value, self.scalar_type());
    clprim::pad_constant(current_queue(self), storage_view(self), storage_view(out), before,
                         std::span(element).first(self.element_size()));
    return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    using namespace at::meta;
    constexpr PadMode reflect = PadMode::reflect, replicate = PadMode::replicate;
    m.impl("constant_pad_nd", constant_pad);
    m.impl("reflection_pad1d.out", structured_pad<structured_reflection_pad1d, reflect>);
    m.impl("reflection_pad1d_backward.grad_input",
           structured_pad_backward<structured_reflection_pad1d_backward, reflect>);
    m.impl("reflection_pad2d", pad<2, reflect>);
    m.impl("reflection_pad2d.out", pad_out<2, reflect>);
    m.impl("reflection_pad2d_backward", pad_backward<2, reflect>);
    m.impl("reflection_pad2d_backward.grad_input", pad_backward_out<2, reflect>);
    m.impl("reflection_pad3d", pad<3, reflect>);
    m.impl("reflection_pad3d.out", structured_pad<structured_reflection_pad3d, reflect>);
    m.impl("reflection_pad3d_backward", pad_backward<3, reflect>);
    m.impl("reflection_pad3d_backward.grad_input", pad_backward_out<3, reflect>);
    m.impl("replication_pad1d.out", structured_pad<structured_replication_pad1d, replicate>);
    m.impl("replication_pad1d_backward.grad_input",
           structured_pad_backward<structured_replication_pad1d_backward, replicate>);
    m.impl("replication_pad2d", pad<2, replicate>);
    m.impl("replication_pad2d.out", structured_pad<structured_replication_pad2d, replicate>);
    m.impl("replication_pad2d_backward", pad_backward<2, replicate>);
    m.impl("replication_pad2d_backward.grad_input", pad_backward_out<2, replicate>);
    m.impl("replication_pad3d", pad<3, replicate>);
    m.impl("replication_pad3d.out", structured_pad<structured_replication_pad3d, replicate>);
    m.impl("replication_pad3d_backward", pad_backward<3, replicate>);
    m.impl("replication_pad3d_backward.grad_input", pad_backward_out<3, replicate>);
}

}  // namespace
}  // namespace torch_ocl
