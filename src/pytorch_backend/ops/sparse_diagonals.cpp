// Sparse matrices of diagonals: torch.sparse.spdiags.
#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <ops/sparse.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;

// Entry (j - offsets[d], j) of the result is diagonals[d, j], where it lies in the matrix.
Tensor from_diagonals(const Tensor& diagonals, const Tensor& offsets, at::IntArrayRef shape,
                      std::optional<at::Layout> layout)
{
    TORCH_CHECK(diagonals.dim() == 1 || diagonals.dim() == 2, "Diagonals must be vector or matrix");
    TORCH_CHECK(offsets.dim() <= 1, "Offsets must be scalar or vector");
    TORCH_CHECK(offsets.scalar_type() == at::kLong, "Offset Tensor must have dtype Long but got ",
                offsets.scalar_type());
    TORCH_CHECK(shape.size() == 2, "Output shape must be 2d");
    TORCH_CHECK(shape[0] >= 0 && shape[1] >= 0, "Output shape must not be negative, got ", shape);
    TORCH_CHECK(!layout || *layout == at::kSparse || *layout == at::kSparseCsc || *layout == at::kSparseCsr,
                "Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got ", layout.value_or(at::kSparse));
    TORCH_CHECK(offsets.device() == diagonals.device(),
                "spdiags: diagonals and offsets must be on the same device, got ", diagonals.device(), " and ",
                offsets.device());
    const c10::OptionalDeviceGuard guard(diagonals.device());
    const Tensor lines = diagonals.dim() == 1 ? diagonals.unsqueeze(0) : diagonals, starts = offsets.reshape({-1, 1});
    TORCH_CHECK(lines.size(0) == starts.size(0), "Number of diagonals (", lines.size(0),
                ") does not match the number of offsets (", starts.size(0), ")");
    TORCH_CHECK(std::get<0>(at::_unique(starts)).numel() == starts.numel(), "Offset tensor contains duplicate values");
    const int64_t width = std::min(lines.size(1), shape[1]);
    const Tensor columns = at::arange(width, starts.options()).expand({starts.size(0), width});
    const Tensor rows = columns - starts;
    const Tensor inside = rows.ge(0).logical_and_(rows.lt(shape[0]));
    const Tensor indices = at::stack({rows.masked_select(inside), columns.masked_select(inside)});
    const Tensor result =
        make_coo(indices, lines.narrow(1, 0, width).masked_select(inside), shape, false);
    return layout && *layout != at::kSparse ? result.to_sparse(*layout) : result;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_spdiags", from_diagonals); }

}  // namespace
}  // namespace torch_ocl
