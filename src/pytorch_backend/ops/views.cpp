// Views share memory and need no kernel: PyTorch's own functions serve this device too.
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/ops/zeros.h>
#include <c10/core/WrapDimMinimal.h>
#include <torch/library.h>

#include <ops/outputs.hpp>

namespace torch_ocl {
namespace {

// Whether `tensor.data = from` can work. TensorImpl's own answer knows a fixed list of backends, without this one; with
// its "no", module.to("ocl") would make new parameters and so untie tied weights.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from)
{
    const auto plain = [](const at::Tensor& tensor) {
        return (tensor.is_cpu() || tensor.is_privateuseone()) && tensor.layout() == c10::kStrided &&
               !tensor.is_quantized();
    };
    return plain(self) && plain(from);
}

// Each element of the result sums the elements of all windows it lies in.
at::Tensor unfold_backward(const at::Tensor& grad, at::IntArrayRef input_sizes, std::int64_t dim, std::int64_t size,
                           std::int64_t step)
{
    at::Tensor result = at::zeros(input_sizes, grad.options());
    if (input_sizes.empty())
        return result.add_(grad.sum());
    dim = c10::maybe_wrap_dim(dim, static_cast<std::int64_t>(input_sizes.size()));
    const auto positions =
        at::arange(input_sizes[dim], grad.options().dtype(at::kLong)).unfold(0, size, step).flatten();
    const at::Tensor windows = grad.movedim(-1, dim + 1).flatten(dim, dim + 1);
    std::vector<std::int64_t> sizes = input_sizes.vec();    // one window may serve a whole batch, as in istft
    sizes[static_cast<std::size_t>(dim)] = windows.size(dim);
    return result.index_add_(dim, positions, windows.expand(sizes));
}

at::Tensor& narrow_copy_out(const at::Tensor& self, std::int64_t dim, std::int64_t start, std::int64_t length,
                            at::Tensor& out)
{
    TORCH_CHECK(self.scalar_type() == out.scalar_type(), "narrow_copy: expected out of type ", self.scalar_type(),
                ", got ", out.scalar_type());
    const at::Tensor part = self.narrow(dim, start, length);
    return assign_output(out, part);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("narrow_copy.out", narrow_copy_out);
    m.impl("as_strided", at::native::as_strided_tensorimpl);
    m.impl("view", at::native::view);
    m.impl("_reshape_alias", at::native::_reshape_alias);
    m.impl("unfold", at::native::unfold);
    m.impl("unfold_backward", unfold_backward);
    m.impl("view_as_real", at::native::view_as_real);
    m.impl("view_as_complex", at::native::view_as_complex);
    m.impl("is_set_to", at::native::is_set_to);
    m.impl("_has_compatible_shallow_copy_type", has_compatible_shallow_copy_type);
}

}  // namespace
}  // namespace torch_ocl
