// Shared by the files of sparse operators.
#pragma once

#include <ATen/core/Tensor.h>
#include <clprim/sparse.hpp>

namespace torch_ocl {

inline bool is_block(const at::Tensor& tensor)
{
    return tensor.layout() == at::kSparseBsr || tensor.layout() == at::kSparseBsc;
}

// One number for each column of `indices` [dimensions, entries]: its row-major position in a tensor of these sizes.
at::Tensor flat_positions(const at::Tensor& indices, at::IntArrayRef sizes);

// Where each run of equal numbers in sorted `keys` starts, int64. Waits, for the number of runs is not known before.
at::Tensor run_starts(const at::Tensor& keys);

// How many of sorted `keys` lie below 0, 1, ..., count: the pointers of compressed rows.
at::Tensor row_pointers(const at::Tensor& keys, int64_t count);

// For each key where it lies among sorted `among`, and whether it does.
struct Found {
    at::Tensor position, present;
};
Found find_sorted(const at::Tensor& among, const at::Tensor& keys);

// For counts c[i]: i repeated c[i] times, and 0 ... c[i] - 1 beside it. Waits for the sum.
struct Spread {
    at::Tensor source, step;
};
Spread spread(const at::Tensor& counts);

// The row of each entry from pointers [..., rows + 1] of compressed rows; `entries` in each batch.
at::Tensor entry_rows(const at::Tensor& pointers, int64_t entries);

// Sums of rows of `values` [entries, ...]: result[g] = sum of values[order[e]], starts[g] <= e < starts[g + 1].
at::Tensor sum_runs(const at::Tensor& values, const at::Tensor& order, const at::Tensor& starts);

// A coalesced or plain sparse tensor of parts that are known to fit.
at::Tensor make_coo(const at::Tensor& indices, const at::Tensor& values, at::IntArrayRef sizes, bool coalesced);

// out = product * (a @ dense) + addend * self, matrices or batches of them; `self` undefined counts as nothing.
void multiply_rows(const clprim::SparseRows& a, const at::Tensor& dense, const at::Tensor& self, const at::Tensor& out,
                   const at::Scalar& product, const at::Scalar& addend);
clprim::SparseScale sparse_scale(const at::Scalar& product, const at::Scalar& addend);

}  // namespace torch_ocl
