// Structured operators: PyTorch's own meta function (shape, dtype and overlap checks, TensorIterator) with outputs that
// are already there. Registering `X.out` alone makes PyTorch supply `X` and `X_`. In add_out(a, b, alpha, out), say:
//     StructuredOut<at::meta::structured_add_Tensor> op({out});  op.meta(a, b, alpha);   // op is the TensorIterator
//     pointwise(op, "add", {alpha});  op.finish();   // copies back where a stand-in was written
// A stand-in is written where `out` has other strides than asked for, and where it shares memory with an argument that
// the kernel reads. An operator that reads its first argument where it writes, or not at all, says InPlace::allowed:
// that argument may then be `out` itself.
#if __has_include(<ATen/core/Dimname.h>)   // PyTorch before 2.13 passes names of dimensions too; there are none here
#define TORCH_OCL_OPTIONS_PARAMETER at::TensorOptions options, at::DimnameList
#define TORCH_OCL_OPTIONS_ARGUMENT options, at::DimnameList()
#else
#define TORCH_OCL_OPTIONS_PARAMETER at::TensorOptions options
#define TORCH_OCL_OPTIONS_ARGUMENT options
#endif
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include <ATen/TensorIterator.h>
#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <c10/core/DeviceGuard.h>

#include <runtime/overlap.hpp>

namespace torch_ocl {

enum class InPlace : bool { copied, allowed };

// What does not depend on the operator, so that it is compiled once.
class StructuredOutputs {
public:
    StructuredOutputs(std::initializer_list<std::reference_wrapper<at::Tensor>> outputs, InPlace in_place);

    // The tensor to write: the caller's, or a stand-in.
    const at::Tensor& operator[](std::size_t i) const { return proxies_[i] ? *proxies_[i] : outputs_[i].get(); }

    // What the kernel reads.
    void note(const at::Tensor& tensor);
    void note(const at::OptionalTensorRef& tensor);
    void note(const at::ITensorListRef& tensors);
    template <class Other>
        requires(!std::is_convertible_v<const Other&, const at::Tensor&>)
    void note(const Other&) {}

    void set_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options);
    void set_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options);
    void finish();

private:
    void set(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options);
    bool shares_memory(const at::Tensor& out) const;

    std::vector<std::reference_wrapper<at::Tensor>> outputs_;
    std::vector<std::optional<at::Tensor>> proxies_;
    std::optional<c10::DeviceGuard> guard_;
    std::vector<at::TensorImpl*> sources_;
    InPlace in_place_;
};

template <class Meta>
class StructuredOut final : public Meta {
public:
    explicit StructuredOut(std::initializer_list<std::reference_wrapper<at::Tensor>> outputs,
                           InPlace in_place = InPlace::copied)
        : outputs_(outputs, in_place) {}

    template <class... Arguments>
    decltype(auto) meta(Arguments&&... arguments)
    {
        if constexpr (!is_iterator)   // those check overlaps themselves
            (outputs_.note(arguments), ...);
        return Meta::meta(std::forward<Arguments>(arguments)...);
    }

    // The tensor to write: the caller's, or a stand-in with the strides that the meta function insists on.
    const at::Tensor& output(std::size_t i = 0) const { return outputs_[i]; }
    const at::Tensor& maybe_get_output(int64_t i) override { return outputs_[i]; }

    void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                            TORCH_OCL_OPTIONS_PARAMETER) override
    {
        outputs_.set_strided(i, sizes, strides, options);
        if constexpr (is_iterator)
            at::TensorIteratorBase::set_output_raw_strided(i, sizes, strides, TORCH_OCL_OPTIONS_ARGUMENT);
    }

    void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                                TORCH_OCL_OPTIONS_PARAMETER) override
    {
        outputs_.set_raw_strided(i, sizes, strides, options);
        if constexpr (is_iterator)
            at::TensorIteratorBase::set_output_raw_strided(i, sizes, strides, TORCH_OCL_OPTIONS_ARGUMENT);
    }

    void finish() { outputs_.finish(); }

private:
    static constexpr bool is_iterator = std::is_base_of_v<at::TensorIteratorBase, Meta>;

    StructuredOutputs outputs_;
};

}  // namespace torch_ocl
