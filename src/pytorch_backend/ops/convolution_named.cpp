// Convolutions that PyTorch's CPU and CUDA have under the names of their algorithms: here all are the device's one.
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <torch/library.h>

#include <ops/outputs.hpp>

namespace torch_ocl {
namespace {

using at::IntArrayRef;
using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

struct Geometry {
    IntArrayRef kernel, stride, padding;
    std::vector<int64_t> dilation, output_padding;
    bool transposed = false;
};

Geometry plain(IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding)
{
    return {kernel, stride, padding, std::vector<int64_t>(kernel.size(), 1), std::vector<int64_t>(kernel.size(), 0)};
}

// For an input on the CPU and a weight or bias here, at::convolution would choose the same operator, without end.
void check_device(const char* name, const Tensor& self, const Tensor& other, const char* other_name)
{
    TORCH_CHECK(!other.defined() || self.device() == other.device(), name,
                ": Expected all tensors to be on the same device, but input is on ", self.device(), " and ", other_name,
                " on ", other.device());
}

void check(const char* name, const Tensor& self, const Tensor& weight, const Geometry& g)
{
    check_device(name, self, weight, "weight");
    const auto rank = static_cast<int64_t>(g.kernel.size());
    TORCH_CHECK(self.dim() == rank + 1 || self.dim() == rank + 2, name, " expected an input of ", rank + 1, " or ",
                rank + 2, " dimensions, got ", self.sizes());
    // Two dimensions: the kernels of all pairs of channels as rows.
    TORCH_CHECK(weight.dim() == 2 || weight.sizes().slice(weight.dim() - rank) == g.kernel, name,
                " expected a weight of kernels ", g.kernel, ", got ", weight.sizes());
}

Tensor kernels(const Tensor& weight, const Geometry& g)
{
    if (weight.dim() != 2)
        return weight;
    std::vector<int64_t> sizes{weight.size(0), -1};
    sizes.insert(sizes.end(), g.kernel.begin(), g.kernel.end());
    return weight.view(sizes);
}

Tensor forward(const char* name, const Tensor& self, const Tensor& weight, const OptionalTensor& bias,
               const Geometry& g)
{
    check(name, self, weight, g);
    check_device(name, self, bias.value_or(Tensor()), "bias");
    const bool batch = self.dim() == static_cast<int64_t>(g.kernel.size()) + 2;
    const Tensor y = at::convolution(batch ? self : self.unsqueeze(0), kernels(weight, g), bias, g.stride, g.padding,
                                     g.dilation, g.transposed, g.output_padding, 1);
    return batch ? y : y.squeeze(0);
}

Tensor conv2d(const Tensor& self, const Tensor& weight, IntArrayRef kernel, const OptionalTensor& bias,
              IntArrayRef stride, IntArrayRef padding)
{
    return forward("_slow_conv2d_forward", self, weight, bias, plain(kernel, stride, padding));
}

Tensor& conv2d_out(const Tensor& self, const Tensor& weight, IntArrayRef kernel, const OptionalTensor& bias,
                   IntArrayRef stride, IntArrayRef padding, Tensor& out)
{
    return assign_output(out, conv2d(self, weight, kernel, bias, stride, padding));
}

Tensor conv3d(const Tensor& self, const Tensor& weight, IntArrayRef kernel, const OptionalTensor& bias,
              IntArrayRef stride, IntArrayRef padding)
{
    return forward("slow_conv3d_forward", self, weight, bias, plain(kernel, stride, padding));
}

Tensor& conv3d_out(const Tensor& self, const Tensor& weight, IntArrayRef kernel, const OptionalTensor& bias,
                   IntArrayRef stride, IntArrayRef padding, Tensor& out)
{
    return assign_output(out, conv3d(self, weight, kernel, bias, stride, padding));
}

Tensor dilated(const Tensor& self, const Tensor& weight, IntArrayRef kernel, const OptionalTensor& bias,
               IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation)
{
    Geometry g = plain(kernel, stride, padding);
    g.dilation = dilation.vec();
    return forward("slow_conv_dilated", self, weight, bias, g);
}

Tensor transposed(const Tensor& self, const Tensor& weight, IntArrayRef kernel, const OptionalTensor& bias,
                  IntArrayRef stride, IntArrayRef padding, IntArrayRef output_padding, IntArrayRef dilation)
{
    Geometry g = plain(kernel, stride, padding);
    g.dilation = dilation.vec();
    g.output_padding = output_padding.vec();
    g.transposed = true;
    return forward("slow_conv_transpose", self, weight, bias, g);
}

Tensor& transposed_out(const Tensor& self, const Tensor& weight, IntArrayRef kernel, const OptionalTensor& bias,
                       IntArrayRef stride, IntArrayRef padding, IntArrayRef output_padding, IntArrayRef dilation,
                       Tensor& out)
{
    return assign_output(out, transposed(self, weight, kernel, bias, stride, padding, output_padding, dilation));
}

Three conv2d_backward(const Tensor& grad_output, const Tensor& self, const Tensor& weight, IntArrayRef kernel,
                      IntArrayRef stride, IntArrayRef padding, std::array<bool, 3> mask)
{
    const Geometry g = plain(kernel, stride, padding);
    check("_slow_conv2d_backward", self, weight, g);
    check_device("_slow_conv2d_backward", self, grad_output, "grad_output");
    const bool batch = self.dim() == 4;
    auto [dx, dw, db] = at::convolution_backward(
        batch ? grad_output : grad_output.unsqueeze(0), batch ? self : self.unsqueeze(0), kernels(weight, g),
        IntArrayRef{weight.size(0)}, g.stride, g.padding, g.dilation, false, g.output_padding, 1, mask);
    return {mask[0] && !batch ? dx.squeeze(0) : dx, mask[1] ? dw.view(weight.sizes()) : dw, db};
}

// A result that is not defined is not wanted.
std::tuple<Tensor&, Tensor&, Tensor&> conv2d_backward_out(const Tensor& grad_output, const Tensor& self,
                                                          const Tensor& weight, IntArrayRef kernel, IntArrayRef stride,
                                                          IntArrayRef padding, Tensor& dx, Tensor& dw, Tensor& db)
{
    const Three results = conv2d_backward(grad_output, self, weight, kernel, stride, padding,
                                          {dx.defined(), dw.defined(), db.defined()});
    if (dx.defined())
        assign_output(dx, std::get<0>(results));
    if (dw.defined())
        assign_output(dw, std::get<1>(results));
    if (db.defined())
        assign_output(db, std::get<2>(results));
    return {dx, dw, db};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_slow_conv2d_forward", conv2d);
    m.impl("_slow_conv2d_forward.output", conv2d_out);
    m.impl("_slow_conv2d_backward.output_mask", conv2d_backward);
    m.impl("_slow_conv2d_backward.grad_input", conv2d_backward_out);
    m.impl("slow_conv3d_forward", conv3d);
    m.impl("slow_conv3d_forward.output", conv3d_out);
    m.impl("slow_conv_dilated2d", dilated);
    m.impl("slow_conv_dilated3d", dilated);
    m.impl("slow_conv_transpose2d", transposed);
    m.impl("slow_conv_transpose2d.out", transposed_out);
    m.impl("slow_conv_transpose3d", transposed);
    m.impl("slow_conv_transpose3d.out", transposed_out);
}

}  // namespace
}  // namespace torch_ocl
