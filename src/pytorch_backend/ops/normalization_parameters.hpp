// What the normalisation operators share about their weights and statistics.
#pragma once

#include <initializer_list>
#include <optional>

#include <ATen/core/Tensor.h>

#include <runtime/tensor_view.hpp>

namespace torch_ocl {

// Saved means and deviations are float32, or float64 for float64 data.
inline at::ScalarType statistics_type(const at::Tensor& x)
{
    return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

inline at::Tensor defined_or_empty(const std::optional<at::Tensor>& t) { return t.has_value() ? *t : at::Tensor(); }

inline clprim::Tensor optional_view(const at::Tensor& t) { return t.defined() ? view(t) : clprim::Tensor(); }

// Parameters have the dtype of the data, or are float32 beside data of 16 bits: all of them the same.
inline void check_parameters(const at::Tensor& x, std::initializer_list<at::Tensor> tensors)
{
    std::optional<at::ScalarType> type;
    for (const at::Tensor& t : tensors) {
        if (!t.defined())
            continue;
        const at::ScalarType own = t.scalar_type();
        TORCH_CHECK(own == x.scalar_type() || at::isReducedFloatingType(x.scalar_type()),
                    "mixed dtype: all inputs must share same dtype, but found ", x.scalar_type(), " and ", own);
        TORCH_CHECK(own == x.scalar_type() || own == at::kFloat,
                    "mixed dtype: expect parameter to have scalar type of Float, but found ", own);
        TORCH_CHECK(own == type.value_or(own), "mixed dtype: expected parameters of one scalar type, but found ",
                    *type, " and ", own);
        type = own;
    }
}

// Parameters as the kernels take them: contiguous and of one dtype (float32 where they differ; float64 goes with
// float64 data only).
struct NormParameters {
    std::optional<at::ScalarType> type;
    bool convert = false;

    NormParameters(const at::Tensor& x, std::initializer_list<at::Tensor> tensors)
    {
        for (const at::Tensor& t : tensors)
            if (t.defined()) {
                convert |= type.has_value() && *type != t.scalar_type();
                type = t.scalar_type();
            }
        const bool doubles = x.scalar_type() == at::kDouble;
        convert |= type.has_value() && (*type == at::kDouble) != doubles;
        if (convert)
            type = doubles ? at::kDouble : at::kFloat;
    }
    at::Tensor operator()(const at::Tensor& t) const
    {
        return !t.defined() ? t : (convert ? t.to(*type) : t).contiguous();
    }
};

inline void check_floating(const at::Tensor& x, const char* name)
{
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(x.scalar_type()), '"', name, "\" not implemented for '",
                                c10::toString(x.scalar_type()), "'");
}

}  // namespace torch_ocl
