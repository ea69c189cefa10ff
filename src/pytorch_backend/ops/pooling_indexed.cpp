// Unpooling, fractional pooling and shuffling of channels.
#include <ATen/Context.h>
#include <ATen/native/PixelShuffle.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/fractional_max_pool2d_backward_meta.h>
#include <ATen/ops/fractional_max_pool2d_meta.h>
#include <ATen/ops/fractional_max_pool3d_meta.h>
#include <c10/core/DeviceGuard.h>
#include <clprim/pool.hpp>
#include <torch/library.h>

#include <runtime/output.hpp>
#include <runtime/structured.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

// ---- unpooling ----

template <int rank>
at::Tensor& max_unpool_out(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size,
                           at::Tensor& out)
{
    constexpr const char* name = rank == 2 ? "max_unpooling2d" : "max_unpooling3d";
    // The order of the planes never changes, but PyTorch refuses it on every device: equal indices have one winner.
    at::globalContext().alertNotDeterministic(rank == 2 ? "max_unpooling2d_forward_out"
                                                        : "max_unpooling3d_forward_out");
    TORCH_CHECK(indices.scalar_type() == at::kLong, "elements in indices should be type int64 but got: ",
                indices.scalar_type());
    TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point(), '"', name, "\" not implemented for '", self.scalar_type(),
                                "'");
    TORCH_CHECK(output_size.size() == rank, "There should be exactly ", rank == 2 ? "two elements (height, width)"
                : "three elements (depth, height, width)", " in output_size, but got ", output_size.size(),
                rank == 2 ? " elements." : "");
    TORCH_CHECK(self.dim() == rank + 1 || self.dim() == rank + 2, "Input to ", name, " should be a ", rank + 1,
                "d or ", rank + 2, "d Tensor, but got tensor with dimension: ", self.dim());
    TORCH_CHECK(self.sizes() == indices.sizes(), "Expected shape of indices to be same as that of the input tensor (",
                self.sizes(), ") but got indices tensor with shape: ", indices.sizes());
    for (int64_t i = 1; i < self.dim(); ++i)
        TORCH_CHECK(self.size(i) > 0, name, "_forward: Expected input to have non-zero size for non-batch dimensions, "
                    "but got ", self.sizes(), " with dimension ", i, " being empty.");
    const c10::OptionalDeviceGuard guard(self.device());
    std::vector<int64_t> size = self.sizes().vec();
    std::copy(output_size.begin(), output_size.end(), size.end() - rank);
    if (at::native::resize_output(out, size) && self.dim() == 4 && rank == 2)
        out.unsafeGetTensorImpl()->empty_tensor_restride(self.suggest_memory_format());
    const at::Tensor x = batched(self, rank).contiguous(), where = batched(indices, rank).contiguous();
    const Output y(batched(out, rank));
    clprim::max_unpool(current_queue(self), view(x), view(where), view(y.tensor()));
    y.finish();
    return out;
}

at::Tensor max_unpool2d(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size)
{
    at::Tensor out = torch_ocl::empty({0}, self.scalar_type(), self.device());
    return max_unpool_out<2>(self, indices, output_size, out);
}

at::Tensor& max_unpool3d_out(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size,
                             at::IntArrayRef stride, at::IntArrayRef padding, at::Tensor& out)
{
    TORCH_CHECK(stride.size() == 3,
                "There should be exactly three elements (depth, height, width) in stride, but got: ", stride.size(),
                " elements.");
    TORCH_CHECK(padding.size() == 3, "There should be exactly three elements (depth, height, width) in padding, but "
                "got: ", padding.size(), " elements.");
    TORCH_CHECK(stride[0] > 0 && stride[1] > 0 && stride[2] > 0,
                "strides should be greater than zero, but got stride: ", stride);
    return max_unpool_out<3>(self, indices, output_size, out);
}

at::Tensor max_unpool3d(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size,
                        at::IntArrayRef stride, at::IntArrayRef padding)
{
    at::Tensor out = torch_ocl::empty({0}, self.scalar_type(), self.device());
    return max_unpool3d_out(self, indices, output_size, stride, padding, out);
}

// ---- fractional ----

template <class Meta, int rank>
std::tuple<at::Tensor&, at::Tensor&> fractional_out(const at::Tensor& self, at::IntArrayRef kernel,
                                                    at::IntArrayRef output_size, const at::Tensor& random_samples,
                                                    at::Tensor& out, at::Tensor& indices)
{
    StructuredOut<Meta> op({out, indices});
    op.meta(self, kernel, output_size, random_samples);
    const at::Tensor x = batched(self, rank).contiguous(), samples = random_samples.to(self.scalar_type()).contiguous();
    const Output y(batched(op.output(0), rank)), where(batched(op.output(1), rank));
    std::array<int, 3> size{1, 1, 1};
    std::copy(kernel.begin(), kernel.end(), size.begin());
    TORCH_CHECK(samples.dim() == 3 && samples.size(0) == x.size(0) && samples.size(1) == x.size(1) &&
                    samples.size(2) == rank,
                "fractional_max_pool", rank, "d: Expect _random_samples of shape [", x.size(0), ", ", x.size(1), ", ",
                rank, "] (batch, channels, dimensions), got ", samples.sizes());
    clprim::fractional_max_pool(current_queue(self), view(x), view(samples), size, view(y.tensor()),
                                view(where.tensor()));
    y.finish();
    where.finish();
    op.finish();
    return {out, indices};
}

void fractional_backward(int rank, const at::Tensor& grad_output, const at::Tensor& indices,
                         const at::Tensor& grad_input)
{
    const at::Tensor dy = batched(grad_output, rank).contiguous(), where = batched(indices, rank).contiguous();
    const Output dx(batched(grad_input, rank));
    clprim::fractional_max_pool_backward(current_queue(dy), view(dy), view(where), view(dx.tensor()));
    dx.finish();
}

at::Tensor& fractional2d_backward_out(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel,
                                      at::IntArrayRef output_size, const at::Tensor& indices, at::Tensor& grad_input)
{
    StructuredOut<at::meta::structured_fractional_max_pool2d_backward> op({grad_input});
    op.meta(grad_output, self, kernel, output_size, indices);
    fractional_backward(2, grad_output, indices, op.output());
    op.finish();
    return grad_input;
}

at::Tensor& fractional3d_backward_out(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef,
                                      at::IntArrayRef, const at::Tensor& indices, at::Tensor& grad_input)
{
    TORCH_CHECK(grad_output.sizes() == indices.sizes(), "fractional_max_pool3d_backward_out(): gradOutput sizes "
                "unexpected");
    const c10::OptionalDeviceGuard guard(self.device());
    at::native::resize_output(grad_input, self.sizes());
    fractional_backward(3, grad_output, indices, grad_input);
    return grad_input;
}

at::Tensor fractional3d_backward(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel,
                                 at::IntArrayRef output_size, const at::Tensor& indices)
{
    at::Tensor grad_input = torch_ocl::empty({0}, self.scalar_type(), self.device());
    return fractional3d_backward_out(grad_output, self, kernel, output_size, indices, grad_input);
}

// ---- channels ----

at::Tensor channel_shuffle(const at::Tensor& self, int64_t groups)
{
    TORCH_CHECK(self.dim() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes ", self.sizes());
    const int64_t channels = self.size(1);
    TORCH_CHECK(groups > 0, "Number of groups to divide channels in must be positive. Value of groups:", groups);
    TORCH_CHECK(channels % groups == 0, "Number of channels must be divisible by groups. Got ", channels,
                " channels and ", groups, " groups.");
    const std::vector<int64_t> size = self.sizes().vec();
    std::vector<int64_t> split{size[0], groups, channels / groups, -1};
    if (self.numel() == 0)
        return self.alias();
    const at::Tensor shuffled = self.reshape(split).transpose(1, 2).reshape(size);
    return shuffled.contiguous(self.suggest_memory_format());
}

// Channels become squares of pixels and back: a copy between views of six dimensions, in the layout of the input.
at::Tensor pixel_shuffle(const at::Tensor& self, int64_t factor)
{
    at::native::check_pixel_shuffle_shapes(self, factor);
    std::vector<int64_t> size = self.sizes().vec();
    const auto last = static_cast<int64_t>(size.size());
    const int64_t channels = size[last - 3] / (factor * factor), height = size[last - 2], width = size[last - 1];
    size[last - 3] = channels;
    size[last - 2] *= factor;
    size[last - 1] *= factor;
    at::Tensor out = torch_ocl::empty(size, self.scalar_type(), self.device(), self.suggest_memory_format());
    if (out.numel() != 0)
        out.unflatten(-1, {width, factor})
            .unflatten(-3, {height, factor})
            .copy_(self.unflatten(-3, {channels, factor, factor}).movedim({-4, -3}, {-3, -1}));
    return out;
}

at::Tensor pixel_unshuffle(const at::Tensor& self, int64_t factor)
{
    at::native::check_pixel_unshuffle_shapes(self, factor);
    std::vector<int64_t> size = self.sizes().vec();
    const auto last = static_cast<int64_t>(size.size());
    const int64_t channels = size[last - 3], height = size[last - 2] / factor, width = size[last - 1] / factor;
    size[last - 3] *= factor * factor;
    size[last - 2] = height;
    size[last - 1] = width;
    at::Tensor out = torch_ocl::empty(size, self.scalar_type(), self.device(), self.suggest_memory_format());
    if (out.numel() != 0)
        out.unflatten(-3, {channels, factor, factor})
            .copy_(self.unflatten(-1, {width, factor}).unflatten(-3, {height, factor}).movedim({-3, -1}, {-4, -3}));
    return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("pixel_shuffle", pixel_shuffle);
    m.impl("pixel_unshuffle", pixel_unshuffle);
    m.impl("max_unpool2d", max_unpool2d);
    m.impl("max_unpool2d.out", max_unpool_out<2>);
    m.impl("max_unpool3d", max_unpool3d);
    m.impl("max_unpool3d.out", max_unpool3d_out);
    m.impl("fractional_max_pool2d.output", fractional_out<at::meta::structured_fractional_max_pool2d, 2>);
    m.impl("fractional_max_pool3d.output", fractional_out<at::meta::structured_fractional_max_pool3d, 3>);
    m.impl("fractional_max_pool2d_backward.grad_input", fractional2d_backward_out);
    m.impl("fractional_max_pool3d_backward.grad_input", fractional3d_backward_out);
    m.impl("fractional_max_pool3d_backward", fractional3d_backward);
    m.impl("channel_shuffle", channel_shuffle);
}

}  // namespace
}  // namespace torch_ocl
