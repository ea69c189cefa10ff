// Assertions about values on the device. The value is read at once: a message that comes late, or as another kind of
// error, helps nobody.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace torch_ocl {

namespace {

void assert_message(const at::Tensor& self, std::string_view message)
{
    TORCH_CHECK(self.item().to<bool>(), message.empty() ? "Assertion is failed" : message);
}

void assert_nonzero(const at::Tensor& self)
{
    assert_message(self, "Expected Tensor with single nonzero value, but got zero");
}

at::Tensor assert_functional(const at::Tensor& self, std::string_view message, const at::Tensor& token)
{
    assert_message(self, message);
    return token.clone();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_assert_async", assert_nonzero);
    m.impl("_assert_async.msg", assert_message);
    m.impl("_functional_assert_async.msg", assert_functional);
}

}  // namespace torch_ocl
