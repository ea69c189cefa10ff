#include <runtime/structured.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

namespace torch_ocl {

StructuredOutputs::StructuredOutputs(std::initializer_list<std::reference_wrapper<at::Tensor>> outputs,
                                     InPlace in_place)
    : outputs_(outputs), proxies_(outputs.size()), in_place_(in_place)
{
}

void StructuredOutputs::note(const at::Tensor& tensor)
{
    if (tensor.defined() && tensor.has_storage())
        sources_.push_back(tensor.unsafeGetTensorImpl());
}

void StructuredOutputs::note(const at::OptionalTensorRef& tensor)
{
    if (tensor.has_value())
        note(*tensor);
}

void StructuredOutputs::note(const at::ITensorListRef& tensors)
{
    for (const at::Tensor& tensor : tensors)
        note(tensor);
}

void StructuredOutputs::set_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                                    const at::TensorOptions& options)
{
    set(i, sizes, strides, options);
    const at::Tensor& out = outputs_[i].get();
    if (out.numel() > 1 && ((!strides.empty() && out.strides() != strides) || shares_memory(out)))
        proxies_[i] = at::empty_strided(sizes, strides.empty() ? out.strides() : strides, options);
}

void StructuredOutputs::set_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                                        const at::TensorOptions& options)
{
    set(i, sizes, strides, options);
    const at::Tensor& out = outputs_[i].get();
    if (shares_memory(out))
        proxies_[i] = at::empty_strided(sizes, out.strides(), options);
}

void StructuredOutputs::finish()
{
    for (std::size_t i = 0; i < proxies_.size(); ++i)
        if (proxies_[i])
            outputs_[i].get().copy_(*proxies_[i]);
}

void StructuredOutputs::set(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options)
{
    if (!guard_ && options.device().has_index())
        guard_.emplace(options.device());
    at::Tensor& out = outputs_[i].get();
    if (!out.defined()) {
        out = strides.empty() ? at::empty(sizes, options) : at::empty_strided(sizes, strides, options);
        return;
    }
    TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ",
                out.dtype(), " instead");
    TORCH_CHECK(options.device() == out.device(), "Expected out tensor to have device ", options.device(), ", but got ",
                out.device(), " instead");
    if (at::native::resize_output(out, sizes)) {
        if (!strides.empty())
            out.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
        else if (auto format = options.memory_format_opt())
            out.unsafeGetTensorImpl()->empty_tensor_restride(*format);
    }
    at::assert_no_internal_overlap(out);
}

bool StructuredOutputs::shares_memory(const at::Tensor& out) const
{
    for (std::size_t i = 0; i < sources_.size(); ++i) {
        const bool same = i == 0 && in_place_ == InPlace::allowed &&
                          at::get_overlap_status(out.unsafeGetTensorImpl(), sources_[i]) == at::MemOverlapStatus::Full;
        if (!same && torch_ocl::shares_memory(out, *sources_[i]))
            return true;
    }
    return false;
}

}  // namespace torch_ocl
