// Pooling: sliding windows and adaptive ones, in two and three dimensions (one dimension is composed of two).
#include <ATen/native/AdaptivePooling.h>
#include <ATen/native/Pool.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/adaptive_max_pool2d_backward_meta.h>
#include <ATen/ops/adaptive_max_pool2d_meta.h>
#include <ATen/ops/adaptive_max_pool3d_backward_meta.h>
#include <ATen/ops/adaptive_max_pool3d_meta.h>
#include <ATen/ops/avg_pool2d_backward_meta.h>
#include <ATen/ops/avg_pool2d_meta.h>
#include <ATen/ops/avg_pool3d_backward_meta.h>
#include <ATen/ops/avg_pool3d_meta.h>
#include <ATen/ops/max_pool2d_with_indices_backward_meta.h>
#include <ATen/ops/max_pool2d_with_indices_meta.h>
#include <clprim/pool.hpp>
#include <torch/library.h>

#include <ops/pooling.hpp>
#include <runtime/output.hpp>
#include <runtime/structured.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {

using clprim::PoolWindow;

PoolWindow sliding(int rank, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
                   at::IntArrayRef dilation)
{
    PoolWindow window;
    const auto at = [](at::IntArrayRef list, int i) {
        const int64_t value = list.size() == 1 ? list[0] : list[i];
        TORCH_CHECK(value == static_cast<int>(value), "pooling: a window's number ", value, " is out of range");
        return static_cast<int>(value);
    };
    for (int i = 0; i < rank; ++i) {
        window.kernel[i] = at(kernel, i);
        window.stride[i] = at(stride.empty() ? kernel : stride, i);
        window.padding[i] = at(padding, i);
        window.dilation[i] = at(dilation, i);
    }
    return window;
}

namespace {

PoolWindow averaging(PoolWindow window, bool count_include_pad, std::optional<int64_t> divisor_override)
{
    window.count_include_pad = count_include_pad;
    window.divisor_override = static_cast<int>(divisor_override.value_or(0));
    return window;
}

PoolWindow adaptive()
{
    PoolWindow window;
    window.adaptive = true;
    return window;
}

void check_type(const at::Tensor& x, const char* name, bool integers)
{
    const at::ScalarType type = x.scalar_type();
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(type) || (integers && at::isIntegralType(type, false)), '"', name,
                                "\" not implemented for '", c10::toString(type), "'");
}

}  // namespace

void max_pool(int rank, const at::Tensor& self, const at::Tensor& out, const at::Tensor& indices,
              const PoolWindow& window)
{
    check_type(self, "max_pool", !window.adaptive);
    const at::Tensor batch = batched(self, rank);
    const at::MemoryFormat format = batch.suggest_memory_format();
    const at::Tensor x = batch.contiguous(format);
    const Output y(batched(out, rank), format);
    if (indices.defined()) {
        const Output where(batched(indices, rank), format);
        clprim::max_pool(current_queue(self), view(x), view(y.tensor()), view(where.tensor()), window);
        where.finish();
    } else {
        clprim::max_pool(current_queue(self), view(x), view(y.tensor()), {}, window);
    }
    y.finish();
}

namespace {

void max_pool_backward(int rank, const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& indices,
                       const at::Tensor& grad_input, const PoolWindow& window)
{
    check_type(self, "max_pool_backward", false);
    const at::MemoryFormat format = batched(self, rank).suggest_memory_format();
    const at::Tensor dy = batched(grad_output, rank).contiguous(format);
    const at::Tensor where = batched(indices, rank).contiguous(format);
    const Output dx(batched(grad_input, rank), format);
    clprim::max_pool_backward(current_queue(self), view(dy), view(where), view(dx.tensor()), window);
    dx.finish();
}

void average_pool(int rank, const at::Tensor& self, const at::Tensor& out, const PoolWindow& window)
{
    if (self.scalar_type() != at::kLong || window.adaptive)
        check_type(self, "avg_pool", false);
    const at::Tensor batch = batched(self, rank);
    const at::MemoryFormat format = batch.suggest_memory_format();
    const at::Tensor x = batch.contiguous(format);
    const Output y(batched(out, rank), format);
    clprim::average_pool(current_queue(self), view(x), view(y.tensor()), window);
    y.finish();
}

void average_pool_backward(int rank, const at::Tensor& grad_output, const at::Tensor& self,
                           const at::Tensor& grad_input, const PoolWindow& window)
{
    check_type(self, "avg_pool_backward", false);
    const at::MemoryFormat format = batched(self, rank).suggest_memory_format();
    const at::Tensor dy = batched(grad_output, rank).contiguous(format);
    const Output dx(batched(grad_input, rank), format);
    clprim::average_pool_backward(current_queue(self), view(dy), view(dx.tensor()), window);
    dx.finish();
}

// ---- sliding maximum ----

std::tuple<at::Tensor&, at::Tensor&> max_pool2d_out(const at::Tensor& self, at::IntArrayRef kernel,
                                                    at::IntArrayRef stride, at::IntArrayRef padding,
                                                    at::IntArrayRef dilation, bool ceil_mode, at::Tensor& out,
                                                    at::Tensor& indices)
{
    StructuredOut<at::meta::structured_max_pool2d_with_indices> op({out, indices});
    op.meta(self, kernel, stride, padding, dilation, ceil_mode);
    max_pool(2, self, op.output(0), op.output(1), sliding(2, kernel, stride, padding, dilation));
    op.finish();
    return {out, indices};
}

at::Tensor& max_pool2d_backward_out(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel,
                                    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                    bool ceil_mode, const at::Tensor& indices, at::Tensor& grad_input)
{
    StructuredOut<at::meta::structured_max_pool2d_with_indices_backward> op({grad_input});
    op.meta(grad_output, self, kernel, stride, padding, dilation, ceil_mode, indices);
    max_pool_backward(2, grad_output, self, indices, op.output(), sliding(2, kernel, stride, padding, dilation));
    op.finish();
    return grad_input;
}

}  // namespace

std::vector<int64_t> max_pool3d_size(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride,
                                     at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode)
{
    const auto one_or_three = [](at::IntArrayRef list) { return list.size() == 1 || list.size() == 3; };
    TORCH_CHECK(one_or_three(kernel), "max_pool3d: kernel_size must either be a single int, or a tuple of three ints");
    TORCH_CHECK(stride.empty() || one_or_three(stride),
                "max_pool3d: stride must either be omitted, a single int, or a tuple of three ints");
    TORCH_CHECK(one_or_three(padding), "max_pool3d: padding must either be a single int, or a tuple of three ints");
    TORCH_CHECK(one_or_three(dilation), "max_pool3d: dilation must be either a single int, or a tuple of three ints");
    TORCH_CHECK(self.dim() == 4 || self.dim() == 5, "max_pool3d: Expected 4D or 5D tensor for input, but got: ",
                self.sizes());
    const PoolWindow w = sliding(3, kernel, stride, padding, dilation);
    std::vector<int64_t> size = self.sizes().vec();
    const int64_t first = self.dim() - 3;
    for (int i = 0; i < 3; ++i)
        size[first + i] = at::native::pooling_output_shape<int64_t>(self.size(first + i), w.kernel[i], w.padding[i],
                                                                    w.stride[i], w.dilation[i], ceil_mode);
    at::native::pool3d_shape_check(self, self.size(-4), w.kernel[0], w.kernel[1], w.kernel[2], w.stride[0],
                                   w.stride[1], w.stride[2], w.padding[0], w.padding[1], w.padding[2], w.dilation[0],
                                   w.dilation[1], w.dilation[2], self.size(-3), self.size(-2), self.size(-1),
                                   size[first], size[first + 1], size[first + 2], "max_pool3d_with_indices_out_cpu()");
    return size;
}

void restride(const at::Tensor& t, at::IntArrayRef size, const at::Tensor& like)
{
    // With the stride that a batch of one would have: unsqueeze's own is no layout's.
    const at::Tensor batch =
        like.dim() == 5 ? like : like.as_strided({1, like.size(0), like.size(1), like.size(2), like.size(3)},
                                                 {like.numel(), like.stride(0), like.stride(1), like.stride(2),
                                                  like.stride(3)});
    if (at::native::resize_output(t, size) && batch.suggest_memory_format() == at::MemoryFormat::ChannelsLast3d)
        t.unsafeGetTensorImpl()->set_sizes_and_strides(size, c10::get_channels_last_strides_3d(size));
}

namespace {

std::tuple<at::Tensor&, at::Tensor&> max_pool3d_out(const at::Tensor& self, at::IntArrayRef kernel,
                                                    at::IntArrayRef stride, at::IntArrayRef padding,
                                                    at::IntArrayRef dilation, bool ceil_mode, at::Tensor& out,
                                                    at::Tensor& indices)
{
    const c10::OptionalDeviceGuard guard(self.device());
    const std::vector<int64_t> size = max_pool3d_size(self, kernel, stride, padding, dilation, ceil_mode);
    restride(out, size, self);
    restride(indices, size, self);
    max_pool(3, self, out, indices, sliding(3, kernel, stride, padding, dilation));
    return {out, indices};
}

std::tuple<at::Tensor, at::Tensor> max_pool3d(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride,
                                              at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode)
{
    at::Tensor out = empty({0}, self.scalar_type(), self.device()), indices = empty({0}, at::kLong, self.device());
    max_pool3d_out(self, kernel, stride, padding, dilation, ceil_mode, out, indices);
    return {out, indices};
}

at::Tensor& max_pool3d_backward_out(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel,
                                    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                    bool ceil_mode, const at::Tensor& indices, at::Tensor& grad_input)
{
    const c10::OptionalDeviceGuard guard(self.device());
    const std::vector<int64_t> size = max_pool3d_size(self, kernel, stride, padding, dilation, ceil_mode);
    TORCH_CHECK(grad_output.sizes() == at::IntArrayRef(size), "max_pool3d_with_indices_backward: expected grad_output "
                "of size ", size, ", but got ", grad_output.sizes());
    TORCH_CHECK(indices.sizes() == at::IntArrayRef(size), "max_pool3d_with_indices_backward: expected indices of size ",
                size, ", but got ", indices.sizes());
    restride(grad_input, self.sizes(), self);
    max_pool_backward(3, grad_output, self, indices, grad_input, sliding(3, kernel, stride, padding, dilation));
    return grad_input;
}

at::Tensor max_pool3d_backward(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel,
                               at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                               bool ceil_mode, const at::Tensor& indices)
{
    at::Tensor grad_input = empty({0}, self.scalar_type(), self.device());
    return max_pool3d_backward_out(grad_output, self, kernel, stride, padding, dilation, ceil_mode, indices,
                                   grad_input);
}

// ---- sliding average ----

template <class Meta, int rank>
at::Tensor& avg_pool_out(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride,
                         at::IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                         std::optional<int64_t> divisor_override, at::Tensor& out)
{
    StructuredOut<Meta> op({out});
    op.meta(self, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override);
    average_pool(rank, self, op.output(),
                 averaging(sliding(rank, kernel, stride, padding), count_include_pad, divisor_override));
    op.finish();
    return out;
}

template <class Meta, int rank>
at::Tensor& avg_pool_backward_out(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel,
                                  at::IntArrayRef stride, at::IntArrayRef padding, bool ceil_mode,
                                  bool count_include_pad, std::optional<int64_t> divisor_override,
                                  at::Tensor& grad_input)
{
    StructuredOut<Meta> op({grad_input});
    op.meta(grad_output, self, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override);
    average_pool_backward(rank, grad_output, self, op.output(),
                          averaging(sliding(rank, kernel, stride, padding), count_include_pad, divisor_override));
    op.finish();
    return grad_input;
}

// ---- adaptive ----

template <int rank>
at::Tensor& adaptive_avg_pool_out(const at::Tensor& self, at::IntArrayRef output_size, at::Tensor& out)
{
    constexpr const char* name = rank == 2 ? "adaptive_avg_pool2d" : "adaptive_avg_pool3d";
    TORCH_CHECK(output_size.size() == rank, name, ": output_size must be ", rank);
    TORCH_CHECK(self.dim() == rank + 1 || self.dim() == rank + 2, name, "(): Expected ", rank + 1, "D or ", rank + 2,
                "D tensor, but got ", self.sizes());
    for (int64_t i = self.dim() - rank; i < self.dim(); ++i)
        TORCH_CHECK(self.size(i) > 0, name, "(): Expected input to have non-zero size for non-batch dimensions, but "
                    "input has sizes ", self.sizes(), " with dimension ", i, " being empty");
    TORCH_CHECK(self.dtype() == out.dtype(), "expected dtype ", self.dtype(), " for `output` but got dtype ",
                out.dtype());
    for (const int64_t size : output_size)
        TORCH_CHECK(size >= 0, name, ": elements of output_size must be greater than or equal to 0 but received ",
                    output_size);
    const c10::OptionalDeviceGuard guard(self.device());
    std::vector<int64_t> size = self.sizes().vec();
    std::copy(output_size.begin(), output_size.end(), size.end() - rank);
    // PyTorch keeps the layout of images only, not that of volumes.
    const bool channels_last = rank == 2 && self.dim() == 4 &&
                               self.suggest_memory_format() != at::MemoryFormat::Contiguous;
    if (at::native::resize_output(out, size) && channels_last)
        out.unsafeGetTensorImpl()->empty_tensor_restride(self.suggest_memory_format());
    if (out.numel() != 0)   // nothing of any dtype
        average_pool(rank, self, out, adaptive());
    return out;
}

template <int rank>
at::Tensor adaptive_avg_pool(const at::Tensor& self, at::IntArrayRef output_size)
{
    at::Tensor out = empty({0}, self.scalar_type(), self.device());
    return adaptive_avg_pool_out<rank>(self, output_size, out);
}

template <int rank>
at::Tensor& adaptive_avg_pool_backward_out(const at::Tensor& grad_output, const at::Tensor& self,
                                           at::Tensor& grad_input)
{
    constexpr const char* name = rank == 2 ? "adaptive_avg_pool2d_backward" : "adaptive_avg_pool3d_backward";
    at::native::adaptive_pool_empty_output_check(grad_output, name);
    TORCH_CHECK(self.dim() == rank + 1 || self.dim() == rank + 2, name, "(): Expected ", rank + 1, "D or ", rank + 2,
                "D tensor, but got ", self.sizes());
    TORCH_CHECK(self.dtype() == grad_output.dtype(), "expected dtype ", self.dtype(),
                " for `grad_output` but got dtype ", grad_output.dtype());
    const c10::OptionalDeviceGuard guard(self.device());
    if (at::native::resize_output(grad_input, self.sizes()) && self.dim() == rank + 2)
        grad_input.unsafeGetTensorImpl()->empty_tensor_restride(self.suggest_memory_format());
    average_pool_backward(rank, grad_output, self, grad_input, adaptive());
    return grad_input;
}

template <int rank>
at::Tensor adaptive_avg_pool_backward(const at::Tensor& grad_output, const at::Tensor& self)
{
    at::Tensor grad_input = empty({0}, self.scalar_type(), self.device());
    return adaptive_avg_pool_backward_out<rank>(grad_output, self, grad_input);
}

template <class Meta, int rank>
std::tuple<at::Tensor&, at::Tensor&> adaptive_max_pool_out(const at::Tensor& self, at::IntArrayRef output_size,
                                                           at::Tensor& out, at::Tensor& indices)
{
    StructuredOut<Meta> op({out, indices});
    op.meta(self, output_size);
    max_pool(rank, self, op.output(0), op.output(1), adaptive());
    op.finish();
    return {out, indices};
}

template <class Meta, int rank>
at::Tensor& adaptive_max_pool_backward_out(const at::Tensor& grad_output, const at::Tensor& self,
                                           const at::Tensor& indices, at::Tensor& grad_input)
{
    StructuredOut<Meta> op({grad_input});
    op.meta(grad_output, self, indices);
    max_pool_backward(rank, grad_output, self, indices, op.output(), adaptive());
    op.finish();
    return grad_input;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("max_pool2d_with_indices.out", max_pool2d_out);
    m.impl("max_pool2d_with_indices_backward.grad_input", max_pool2d_backward_out);
    m.impl("max_pool3d_with_indices", max_pool3d);
    m.impl("max_pool3d_with_indices.out", max_pool3d_out);
    m.impl("max_pool3d_with_indices_backward", max_pool3d_backward);
    m.impl("max_pool3d_with_indices_backward.grad_input", max_pool3d_backward_out);
    m.impl("avg_pool2d.out", avg_pool_out<at::meta::structured_avg_pool2d, 2>);
    m.impl("avg_pool3d.out", avg_pool_out<at::meta::structured_avg_pool3d, 3>);
    m.impl("avg_pool2d_backward.grad_input", avg_pool_backward_out<at::meta::structured_avg_pool2d_backward, 2>);
    m.impl("avg_pool3d_backward.grad_input", avg_pool_backward_out<at::meta::structured_avg_pool3d_backward, 3>);
    m.impl("adaptive_avg_pool2d.out", adaptive_avg_pool_out<2>);
    m.impl("adaptive_avg_pool3d.out", adaptive_avg_pool_out<3>);
    m.impl("_adaptive_avg_pool2d", adaptive_avg_pool<2>);
    m.impl("_adaptive_avg_pool3d", adaptive_avg_pool<3>);
    m.impl("_adaptive_avg_pool2d_backward", adaptive_avg_pool_backward<2>);
    m.impl("_adaptive_avg_pool3d_backward", adaptive_avg_pool_backward<3>);
    m.impl("adaptive_avg_pool3d_backward.grad_input", adaptive_avg_pool_backward_out<3>);
    m.impl("adaptive_max_pool2d.out", adaptive_max_pool_out<at::meta::structured_adaptive_max_pool2d, 2>);
    m.impl("adaptive_max_pool3d.out", adaptive_max_pool_out<at::meta::structured_adaptive_max_pool3d, 3>);
    m.impl("adaptive_max_pool2d_backward.grad_input",
           adaptive_max_pool_backward_out<at::meta::structured_adaptive_max_pool2d_backward, 2>);
    m.impl("adaptive_max_pool3d_backward.grad_input",
           adaptive_max_pool_backward_out<at::meta::structured_adaptive_max_pool3d_backward, 3>);
}

}  // namespace
}  // namespace torch_ocl
