// torch.nn.functional.unfold and fold.
#include <ATen/native/Resize.h>
#include <ATen/native/im2col_shape_check.h>
#include <ATen/ops/col2im.h>
#include <ATen/ops/im2col.h>
#include <c10/core/DeviceGuard.h>
#include <clprim/unfold.hpp>
#include <torch/library.h>

#include <runtime/output.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

clprim::Blocks checked_blocks(at::IntArrayRef kernel, at::IntArrayRef dilation, at::IntArrayRef padding,
                              at::IntArrayRef stride)
{
    clprim::Blocks blocks;
    const auto take = [](at::IntArrayRef list, std::array<int, 2>& to, const char* name) {
        TORCH_CHECK(list.size() == 2, "It is expected ", name, " equals to 2, but got size ", list.size());
        for (const int64_t value : list)
            TORCH_CHECK(value == static_cast<int>(value), name, " of ", value, " is out of range");
        to = {static_cast<int>(list[0]), static_cast<int>(list[1])};
    };
    take(kernel, blocks.kernel, "kernel_size");
    take(dilation, blocks.dilation, "dilation");
    take(padding, blocks.padding, "padding");
    take(stride, blocks.stride, "stride");
    return blocks;
}

void check_type(const at::Tensor& self, const char* name)
{
    TORCH_CHECK_NOT_IMPLEMENTED(!at::isIntegralType(self.scalar_type(), false), '"', name, "\" not implemented for '",
                                self.scalar_type(), "'");
}

at::Tensor& resized_copy(at::Tensor& out, const at::Tensor& result)
{
    at::native::resize_output(out, result.sizes());
    return out.copy_(result);
}

at::Tensor& im2col_out(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef dilation,
                       at::IntArrayRef padding, at::IntArrayRef stride, at::Tensor& out)
{
    if (out.is_alias_of(self))      // would be resized before it is read
        return resized_copy(out, at::im2col(self, kernel, dilation, padding, stride));
    check_type(self, "im2col");
    const clprim::Blocks b = checked_blocks(kernel, dilation, padding, stride);
    at::native::im2col_shape_check(self, at::Tensor(), kernel[0], kernel[1], dilation[0], dilation[1], padding[0],
                                   padding[1], stride[0], stride[1]);
    const c10::OptionalDeviceGuard guard(self.device());
    const at::Tensor x = (self.dim() == 3 ? self.unsqueeze(0) : self).contiguous();
    int64_t count = 1;
    for (int i = 0; i < 2; ++i)
        count *= (x.size(2 + i) + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1;
    const std::vector<int64_t> size{x.size(0), x.size(1) * kernel[0] * kernel[1], count};
    at::native::resize_output(out, self.dim() == 3 ? at::IntArrayRef(size).slice(1) : at::IntArrayRef(size));
    const Output columns(out);
    clprim::im2col(current_queue(self), view(x), view(columns.tensor().view(size)), b);
    columns.finish();
    return out;
}

at::Tensor im2col(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef dilation, at::IntArrayRef padding,
                  at::IntArrayRef stride)
{
    at::Tensor out = torch_ocl::empty({0}, self.scalar_type(), self.device());
    return im2col_out(self, kernel, dilation, padding, stride, out);
}

at::Tensor& col2im_out(const at::Tensor& self, at::IntArrayRef output_size, at::IntArrayRef kernel,
                       at::IntArrayRef dilation, at::IntArrayRef padding, at::IntArrayRef stride, at::Tensor& out)
{
    if (out.is_alias_of(self))
        return resized_copy(out, at::col2im(self, output_size, kernel, dilation, padding, stride));
    check_type(self, "col2im");
    TORCH_CHECK(output_size.size() == 2, "It is expected output_size equals to 2, but got size ", output_size.size());
    const clprim::Blocks b = checked_blocks(kernel, dilation, padding, stride);
    at::native::col2im_shape_check(self, at::Tensor(), output_size[0], output_size[1], kernel[0], kernel[1],
                                   dilation[0], dilation[1], padding[0], padding[1], stride[0], stride[1]);
    const c10::OptionalDeviceGuard guard(self.device());
    const at::Tensor columns = (self.dim() == 2 ? self.unsqueeze(0) : self).contiguous();
    const std::vector<int64_t> size{columns.size(0), columns.size(1) / (kernel[0] * kernel[1]), output_size[0],
                                    output_size[1]};
    at::native::resize_output(out, self.dim() == 2 ? at::IntArrayRef(size).slice(1) : at::IntArrayRef(size));
    const Output x(out);
    clprim::col2im(current_queue(self), view(columns), view(x.tensor().view(size)), b);
    x.finish();
    return out;
}

at::Tensor col2im(const at::Tensor& self, at::IntArrayRef output_size, at::IntArrayRef kernel, at::IntArrayRef dilation,
                  at::IntArrayRef padding, at::IntArrayRef stride)
{
    at::Tensor out = torch_ocl::empty({0}, self.scalar_type(), self.device());
    return col2im_out(self, output_size, kernel, dilation, padding, stride, out);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("im2col", im2col);
    m.impl("im2col.out", im2col_out);
    m.impl("col2im", col2im);
    m.impl("col2im.out", col2im_out);
}

}  // namespace
}  // namespace torch_ocl
