// cat (and with it stack, hstack, ...).
#include <ATen/core/IListRef.h>
#include <ATen/ops/cat_meta.h>
#include <torch/library.h>

#include <clprim/concat.hpp>
#include <runtime/structured.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {

namespace {

bool is_legacy_empty(const at::Tensor& tensor) { return tensor.dim() == 1 && tensor.numel() == 0; }

at::Tensor& cat_out(const at::ITensorListRef& tensors, int64_t dim, at::Tensor& out)
{
    StructuredOut<at::meta::structured_cat> op({out});
    const auto common = op.meta(tensors, dim);
    const at::Tensor& result = op.output();
    if (result.numel() == 0)
        return out;

    std::vector<clprim::Tensor> inputs;
    std::vector<at::Tensor> casts;   // keeps converted inputs alive until the launches are enqueued
    for (const at::Tensor& tensor : tensors) {
        if (is_legacy_empty(tensor))
            continue;
        TORCH_CHECK(tensor.device() == result.device(), "Expected all tensors to be on the same device, but found at "
                    "least two devices, ", result.device(), " and ", tensor.device(), "!");
        const bool plain = tensor.scalar_type() == result.scalar_type() && !tensor.is_conj() && !tensor.is_neg();
        inputs.push_back(storage_view(plain ? tensor
                                            : casts.emplace_back(
                                                  tensor.to(result.scalar_type()).resolve_conj().resolve_neg())));
    }
    clprim::concat(current_queue(result), inputs, common.dim, storage_view(result));
    op.finish();
    return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("cat.out", cat_out); }

}  // namespace torch_ocl
