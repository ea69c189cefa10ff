// torch.autocast("ocl"): the casts that PyTorch lists for its accelerators.
#include <ATen/Operators.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace torch_ocl {
namespace {

using at::IntArrayRef, at::Scalar, at::ScalarType, at::Tensor;   // the lists in autocast_mode.h name them so
#if __has_include(<ATen/core/Dimname.h>)                         // before 2.13
using at::DimnameList;
#endif

Tensor binary_cross_entropy_refused(const Tensor&, const Tensor&, const std::optional<Tensor>&,
                                        std::int64_t)
{
    TORCH_CHECK(
        false,
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: in half "
        "precision the logarithm overflows. Use binary_cross_entropy_with_logits or BCEWithLogitsLoss, which are "
        "safe, or disable autocast around the loss.");
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m)
{
#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
    AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
#define FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
    AT_FORALL_FP32(FLOAT32)
#define FLOAT32_RESULT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
    AT_FORALL_FP32_SET_OPT_DTYPE(FLOAT32_RESULT)
    AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
#define WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
    AT_FORALL_PROMOTE(WIDEST)
    KERNEL_PRIVATEUSEONE(stack, promote)
    KERNEL_PRIVATEUSEONE(cat, promote)
    m.impl("binary_cross_entropy", &binary_cross_entropy_refused);
}

}  // namespace
}  // namespace torch_ocl
