// Sparse tensors of compressed rows, columns or blocks: conversions of indices, blocks, sums.
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_convert_indices_from_coo_to_csr_meta.h>
#include <ATen/ops/_convert_indices_from_csr_to_coo_meta.h>
#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/_to_sparse_bsc_native.h>
#include <ATen/ops/_to_sparse_bsr_native.h>
#include <ATen/ops/_validate_compressed_sparse_indices.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <ops/sparse.hpp>
#include <runtime/structured.hpp>

namespace torch_ocl {

using at::Tensor;

Tensor entry_rows(const Tensor& pointers, int64_t entries)
{
    std::vector<int64_t> sizes = pointers.sizes().vec();
    sizes.back() = entries;
    const Tensor ends = pointers.narrow(-1, 1, pointers.size(-1) - 1).contiguous();
    const Tensor places = at::arange(entries, pointers.options()).expand(sizes).contiguous();
    return at::searchsorted(ends, places, pointers.scalar_type() == at::kInt, true);
}

namespace {

Tensor& coo_to_csr_out(const Tensor& rows, int64_t size, bool out_int32, Tensor& out)
{
    StructuredOut<at::meta::structured__convert_indices_from_coo_to_csr> op({out});
    op.meta(rows, size, out_int32);
    if (size < 0)
        return out;
    op.output().copy_(rows.numel() == 0 ? at::zeros({size + 1}, rows.options()) : row_pointers(rows, size));
    op.finish();
    return out;
}

Tensor& csr_to_coo_out(const Tensor& pointers, const Tensor& columns, bool out_int32, bool transpose, Tensor& out)
{
    StructuredOut<at::meta::structured__convert_indices_from_csr_to_coo> op({out});
    op.meta(pointers, columns, out_int32, transpose);
    const Tensor& target = op.output();
    if (target.numel() == 0)
        return out;
    // [batch..., row, column], each of them one row of the result
    const int64_t batches = target.size(0) - 2, entries = columns.size(-1);
    for (int64_t d = 0; d < batches; ++d) {
        std::vector<int64_t> shape(columns.dim(), 1);
        shape[d] = columns.size(d);
        target.select(0, d).copy_(at::arange(columns.size(d), target.options()).view(shape).expand(columns.sizes())
                                      .reshape(-1));
    }
    const int64_t row = batches + (transpose ? 1 : 0), column = batches + (transpose ? 0 : 1);
    target.select(0, row).copy_(entry_rows(pointers, entries).reshape(-1));
    target.select(0, column).copy_(columns.reshape(-1));
    op.finish();
    return out;
}

// Whoever asks waits for the answer in any case, and PyTorch's own check names what is wrong.
void validate_indices(bool is_row, const Tensor& compressed, const Tensor& plain, int64_t cdim, int64_t dim,
                      int64_t nnz)
{
    at::_validate_compressed_sparse_indices(is_row, compressed.cpu(), plain.cpu(), cdim, dim, nnz);
}

// Entries of a matrix of compressed rows gathered into blocks; blocks that hold any entry are kept.
Tensor rows_to_blocks(const Tensor& self, at::IntArrayRef block, bool by_rows)
{
    TORCH_CHECK(self.dim() - self.values().dim() + 1 == 2, "to_sparse_", by_rows ? "bsr" : "bsc", ": expected a matrix "
                "without batch dimensions, got ", self.sizes());
    TORCH_CHECK(block.size() == 2 && block[0] > 0 && block[1] > 0, "to_sparse_", by_rows ? "bsr" : "bsc",
                ": expected blocksize of two positive numbers, got ", block);
    TORCH_CHECK(self.size(0) % block[0] == 0 && self.size(1) % block[1] == 0, "to_sparse_", by_rows ? "bsr" : "bsc",
                ": size ", self.sizes(), " is not divisible by blocksize ", block);
    const auto [pointers, columns] = at::sparse_csr::getCompressedPlainIndices(self);
    const at::ScalarType index_type = pointers.scalar_type();
    const Tensor row = entry_rows(pointers, columns.size(0)).to(at::kLong), column = columns.to(at::kLong);
    const int64_t across = by_rows ? self.size(1) / block[1] : self.size(0) / block[0];
    const int64_t lines = by_rows ? self.size(0) / block[0] : self.size(1) / block[1];
    const Tensor block_row = row.div(block[0], "floor"), block_column = column.div(block[1], "floor");
    const Tensor keys = by_rows ? block_row * across + block_column : block_column * across + block_row;
    const auto [sorted, order] = keys.sort(true, 0, false);
    const Tensor starts = run_starts(sorted), kept = sorted.index_select(0, starts);
    const Tensor number = at::searchsorted(kept, keys);
    const Tensor place = (number * block[0] + row.remainder(block[0])) * block[1] + column.remainder(block[1]);
    std::vector<int64_t> sizes = self.values().sizes().vec();
    sizes[0] = kept.size(0) * block[0] * block[1];
    Tensor values = at::zeros(sizes, self.values().options());
    if (place.numel() != 0)
        values.index_copy_(0, place, self.values());
    sizes[0] = block[1];
    sizes.insert(sizes.begin(), {kept.size(0), block[0]});
    const Tensor compressed = row_pointers(kept.div(across, "floor"), lines).to(index_type);
    return at::_sparse_compressed_tensor_unsafe(compressed, kept.remainder(across).to(index_type), values.view(sizes),
                                                self.sizes(), self.options().layout(by_rows ? at::kSparseBsr
                                                                                            : at::kSparseBsc));
}

// With PyTorch's words.
void refuse_batches(const Tensor& self, at::Layout to)
{
    const bool compressed = self.layout() == at::kSparseCsr || self.layout() == at::kSparseCsc;
    TORCH_CHECK(!compressed || at::sparse_csr::getCompressedPlainIndices(self).first.dim() == 1,
                "sparse_compressed_to_sparse: conversion "
                "from ",
                self.layout(), " to ", to, " for batched inputs is not supported");
}

Tensor to_bsr(const Tensor& self, at::IntArrayRef block, std::optional<int64_t> dense_dim)
{
    if (is_block(self))
        return at::native::sparse_compressed_to_sparse_bsr(self, block, dense_dim);
    refuse_batches(self, at::kSparseBsr);
    return rows_to_blocks(self.to_sparse_csr(dense_dim), block, true);
}

Tensor to_bsc(const Tensor& self, at::IntArrayRef block, std::optional<int64_t> dense_dim)
{
    if (is_block(self))
        return at::native::sparse_compressed_to_sparse_bsc(self, block, dense_dim);
    refuse_batches(self, at::kSparseBsc);
    return rows_to_blocks(self.to_sparse_csr(dense_dim), block, false);
}

// Sums or products of the entries along dimensions, as a matrix of compressed rows with those dimensions of size 1.
Tensor reduce_rows(const char* name, const Tensor& self, at::IntArrayRef dims, bool keepdim,
                   std::optional<at::ScalarType> dtype, bool product)
{
    TORCH_CHECK(self.layout() == at::kSparseCsr, name, ": expected a tensor of layout SparseCsr, got ", self.layout());
    TORCH_CHECK(keepdim, name, ": reduction operations on CSR tensors with keepdim=False is unsupported");
    TORCH_CHECK(!dims.empty(), name, ": expected dimensions to reduce");
    TORCH_CHECK(self.dim() == 2 && self.values().dim() == 1, name, ": expected a matrix of scalars, got ",
                self.sizes());
    bool gone[2] = {false, false};
    for (const int64_t d : dims)
        gone[at::maybe_wrap_dim(d, 2)] = true;
    const at::ScalarType type = dtype.value_or(at::isIntegralType(self.scalar_type(), true) ? at::kLong
                                                                                            : self.scalar_type());
    const auto [pointers, columns] = at::sparse_csr::getCompressedPlainIndices(self);
    const std::vector<int64_t> sizes{gone[0] ? 1 : self.size(0), gone[1] ? 1 : self.size(1)};
    const Tensor rows = entry_rows(pointers, columns.size(0)).to(at::kLong);
    const Tensor keys = gone[0] && gone[1] ? at::zeros_like(rows) : gone[0] ? columns.to(at::kLong) : rows;
    const auto [sorted, order] = keys.sort(true, 0, false);
    const Tensor starts = run_starts(sorted), kept = sorted.index_select(0, starts);
    const Tensor values = self.values().to(type).contiguous();
    const Tensor reduced = product ? at::ones({kept.size(0)}, values.options())
                                         .scatter_reduce(0, at::searchsorted(kept, keys), values, "prod")
                                   : sum_runs(values, order, starts);
    const Tensor none = at::zeros_like(kept);
    const at::ScalarType index_type = pointers.scalar_type();
    return at::_sparse_compressed_tensor_unsafe(row_pointers(gone[0] ? none : kept, sizes[0]).to(index_type),
                                                (gone[1] ? none : kept).to(index_type), reduced, sizes,
                                                self.options().dtype(type));
}

Tensor csr_sum(const Tensor& self, at::IntArrayRef dims, bool keepdim, std::optional<at::ScalarType> dtype)
{
    return reduce_rows("sum", self, dims, keepdim, dtype, false);
}

Tensor csr_prod(const Tensor& self, at::IntArrayRef dims, bool keepdim, std::optional<at::ScalarType> dtype)
{
    return reduce_rows("prod", self, dims, keepdim, dtype, true);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_convert_indices_from_coo_to_csr.out", coo_to_csr_out);
    m.impl("_convert_indices_from_csr_to_coo.out", csr_to_coo_out);
    m.impl("_validate_compressed_sparse_indices", validate_indices);
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m)
{
    m.impl("_to_sparse_bsr", to_bsr);
    m.impl("_to_sparse_bsc", to_bsc);
    m.impl("_sparse_csr_sum.dim_dtype", csr_sum);
    m.impl("_sparse_csr_prod.dim_dtype", csr_prod);
}

}  // namespace
}  // namespace torch_ocl
