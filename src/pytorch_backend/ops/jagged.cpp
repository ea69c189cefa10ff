// Rows of different lengths, one behind the other, and the same rows padded to one length.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

namespace torch_ocl {
namespace {

using at::Tensor;

const Tensor& single_offsets(const char* name, const Tensor& data, at::TensorList offsets)
{
    TORCH_CHECK_NOT_IMPLEMENTED(offsets.size() == 1, name, ": only one jagged dimension is supported, got offsets of ",
                                offsets.size());
    TORCH_CHECK(offsets[0].dim() == 1 && offsets[0].numel() > 0, name,
                ": expected offsets of one dimension and at least one "
                "element, got ",
                offsets[0].sizes());
    TORCH_CHECK(offsets[0].scalar_type() == at::kLong || offsets[0].scalar_type() == at::kInt, name,
                ": expected int64 or int32 offsets, got ", offsets[0].scalar_type());
    TORCH_CHECK(offsets[0].device() == data.device(), name,
                ": expected all tensors to be on the same device, but found ", data.device(), " and ",
                offsets[0].device());
    return offsets[0];
}

// As many dimensions as `like`, the new ones last.
Tensor widened(Tensor mask, const Tensor& like)
{
    while (mask.dim() < like.dim())
        mask = mask.unsqueeze(-1);
    return mask;
}

// values [total, ...] to [rows, length, ...]
Tensor jagged_to_padded(const Tensor& values, at::TensorList offsets, at::IntArrayRef max_lengths, double padding_value)
{
    const char* name = "_jagged_to_padded_dense_forward";
    const Tensor& ends = single_offsets(name, values, offsets);
    TORCH_CHECK(max_lengths.size() == 1 && max_lengths[0] >= 0, name, ": expected one length, got ", max_lengths);
    TORCH_CHECK(values.dim() > 0, name, ": expected values of at least one dimension");
    const c10::OptionalDeviceGuard guard(values.device());
    const int64_t rows = ends.size(0) - 1, length = max_lengths[0];
    std::vector<int64_t> sizes{rows, length};
    sizes.insert(sizes.end(), values.sizes().begin() + 1, values.sizes().end());
    if (values.size(0) == 0 || rows == 0 || length == 0)
        return at::full(sizes, padding_value, values.options());
    const Tensor place = ends.narrow(0, 0, rows).unsqueeze(1) + at::arange(length, ends.options());
    const Tensor outside = place.ge(ends.narrow(0, 1, rows).unsqueeze(1));
    const Tensor source = place.masked_fill(outside, 0).reshape(-1);
    Tensor result = values.index_select(0, source).view(sizes);
    return result.masked_fill_(widened(outside, result), padding_value);
}

// dense [rows, length, ...] to [total, ...]; what a row is longer than `length` becomes 0
Tensor padded_to_jagged(const Tensor& dense, at::TensorList offsets, std::optional<int64_t> total)
{
    const char* name = "_padded_dense_to_jagged_forward";
    const Tensor& ends = single_offsets(name, dense, offsets);
    TORCH_CHECK(dense.dim() >= 2, name, ": expected dense of at least two dimensions, got ", dense.sizes());
    TORCH_CHECK(ends.size(0) == dense.size(0) + 1, name, ": expected offsets of ", dense.size(0) + 1, " elements, got ",
                ends.size(0));
    const c10::OptionalDeviceGuard guard(dense.device());
    const int64_t count = total ? *total : ends[-1].item<int64_t>(), length = dense.size(1);
    std::vector<int64_t> sizes = dense.sizes().slice(1).vec();
    sizes[0] = count;
    if (count == 0 || dense.numel() == 0)
        return at::zeros(sizes, dense.options());
    const Tensor place = at::arange(count, ends.options());
    const Tensor row = at::searchsorted(ends.narrow(0, 1, dense.size(0)).contiguous(), place, false, true)
                           .clamp_max_(dense.size(0) - 1);
    const Tensor step = place - ends.index_select(0, row), outside = step.ge(length);
    Tensor result = dense.reshape([&] {
        std::vector<int64_t> flat = sizes;
        flat[0] = dense.size(0) * length;
        return flat;
    }()).index_select(0, row * length + step.masked_fill(outside, 0));
    return result.masked_fill_(widened(outside, result), 0);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_jagged_to_padded_dense_forward", jagged_to_padded);
    m.impl("_padded_dense_to_jagged_forward", padded_to_jagged);
}

}  // namespace
}  // namespace torch_ocl
