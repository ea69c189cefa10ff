// Structured operators: PyTorch's own meta function (shape, dtype and overlap checks, TensorIterator) with outputs that
// are already there. Registering `X.out` alone makes PyTorch supply `X` and `X_`. In add_out(a, b, alpha, out), say:
//     StructuredOut<at::meta::structured_add_Tensor> op({out});  op.meta(a, b, alpha);   // op is the TensorIterator
//     pointwise(op, "add", {alpha});  op.finish();   // copies back where a stand-in was written
// A stand-in is written where `out` has other strides than asked for, and where it shares memory with an argument that
// the kernel reads. An operator that reads its first argument where it writes, or not at all, says InPlace::allowed: that
// argument may then be `out` itself.
#ifdef TORCH_OCL_OUTPUT_NAMES   // PyTorch before 2.14 passes the names of dimensions too; there are none on this device
#define TORCH_OCL_OPTIONS_PARAMETER at::TensorOptions options, at::DimnameList
#define TORCH_OCL_OPTIONS_ARGUMENT options, at::DimnameList()
#else
#define TORCH_OCL_OPTIONS_PARAMETER at::TensorOptions options
#define TORCH_OCL_OPTIONS_ARGUMENT options
#endif
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>

#include <runtime/overlap.hpp>

namespace torch_ocl {

enum class InPlace : bool { copied, allowed };

template <class Meta>
class StructuredOut final : public Meta {
public:
    explicit StructuredOut(std::initializer_list<std::reference_wrapper<at::Tensor>> outputs,
                           InPlace in_place = InPlace::copied)
        : outputs_(outputs), proxies_(outputs.size()), in_place_(in_place) {}

    template <class... Arguments>
    decltype(auto) meta(Arguments&&... arguments)
    {
        if constexpr (!std::is_base_of_v<at::TensorIteratorBase, Meta>)   // those check overlaps themselves
            (note(arguments), ...);
        return Meta::meta(std::forward<Arguments>(arguments)...);
    }

    // The tensor to write: the caller's, or a stand-in with the strides that the meta function insists on.
    const at::Tensor& output(std::size_t i = 0) const { return proxies_[i] ? *proxies_[i] : outputs_[i].get(); }
    const at::Tensor& maybe_get_output(int64_t i) override { return output(i); }

    void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                            TORCH_OCL_OPTIONS_PARAMETER) override
    {
        set(i, sizes, strides, options);
        const at::Tensor& out = outputs_[i].get();
        if (out.numel() > 1 && ((!strides.empty() && out.strides() != strides) || shares_memory(out)))
            proxies_[i] = at::empty_strided(sizes, strides.empty() ? out.strides() : strides, options);
        describe(i, sizes, strides, options);
    }

    void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                                TORCH_OCL_OPTIONS_PARAMETER) override
    {
        set(i, sizes, strides, options);
        const at::Tensor& out = outputs_[i].get();
        if (shares_memory(out))
            proxies_[i] = at::empty_strided(sizes, out.strides(), options);
        describe(i, sizes, strides, options);
    }

    void finish()
    {
        for (std::size_t i = 0; i < proxies_.size(); ++i)
            if (proxies_[i])
                outputs_[i].get().copy_(*proxies_[i]);
    }

private:
    void note(const at::Tensor& tensor)
    {
        if (tensor.defined() && tensor.has_storage())
            sources_.push_back(tensor.unsafeGetTensorImpl());
    }
    void note(const at::OptionalTensorRef& tensor)
    {
        if (tensor.has_value())
            note(*tensor);
    }
    void note(const at::ITensorListRef& tensors)
    {
        for (const at::Tensor& tensor : tensors)
            note(tensor);
    }
    template <class Other>
        requires(!std::is_convertible_v<const Other&, const at::Tensor&>)
    void note(const Other&) {}

    bool shares_memory(const at::Tensor& out) const
    {
        for (std::size_t i = 0; i < sources_.size(); ++i) {
            const bool same = i == 0 && in_place_ == InPlace::allowed &&
                              at::get_overlap_status(out.unsafeGetTensorImpl(), sources_[i]) ==
                                  at::MemOverlapStatus::Full;
            if (!same && torch_ocl::shares_memory(out, *sources_[i]))
                return true;
        }
        return false;
    }

    void set(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options)
    {
        if (!guard_ && options.device().has_index())
            guard_.emplace(options.device());
        const at::Tensor& out = outputs_[i].get();
        TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ",
                    out.dtype(), " instead");
        TORCH_CHECK(options.device() == out.device(), "Expected out tensor to have device ", options.device(),
                    ", but got ", out.device(), " instead");
        if (at::native::resize_output(out, sizes)) {
            if (!strides.empty())
                out.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
            else if (auto format = options.memory_format_opt())
                out.unsafeGetTensorImpl()->empty_tensor_restride(*format);
        }
        at::assert_no_internal_overlap(out);
    }

    void describe(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options)
    {
        if constexpr (std::is_base_of_v<at::TensorIteratorBase, Meta>)
            at::TensorIteratorBase::set_output_raw_strided(i, sizes, strides, TORCH_OCL_OPTIONS_ARGUMENT);
    }

    std::vector<std::reference_wrapper<at::Tensor>> outputs_;
    std::vector<std::optional<at::Tensor>> proxies_;
    std::optional<c10::DeviceGuard> guard_;
    std::vector<at::TensorImpl*> sources_;   // what the kernel reads
    InPlace in_place_;
};

}  // namespace torch_ocl
