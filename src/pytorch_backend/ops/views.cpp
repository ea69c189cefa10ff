// Views share memory and need no kernel: PyTorch's own functions serve this device too.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

namespace torch_ocl {
namespace {

// Whether `tensor.data = from` can work. TensorImpl's own answer knows a fixed list of backends, without this one; with
// its "no", module.to("ocl") would make new parameters and so untie tied weights.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from)
{
    const auto plain = [](const at::Tensor& tensor) {
        return (tensor.is_cpu() || tensor.is_privateuseone()) && tensor.layout() == c10::kStrided && !tensor.is_quantized();
    };
    return plain(self) && plain(from);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("as_strided", at::native::as_strided_tensorimpl);
    m.impl("view", at::native::view);
    m.impl("_reshape_alias", at::native::_reshape_alias);
    m.impl("unfold", at::native::unfold);
    m.impl("view_as_real", at::native::view_as_real);
    m.impl("view_as_complex", at::native::view_as_complex);
    m.impl("is_set_to", at::native::is_set_to);
    m.impl("_has_compatible_shallow_copy_type", has_compatible_shallow_copy_type);
}

}  // namespace
}  // namespace torch_ocl
