// Products with sparse matrices whose rows are compressed.
//
// Entry e of row r lies at column columns[e], pointers[r] <= e < pointers[r + 1]. Every element of a result is summed
// by one work-item in the order of the entries, in float for float16 and bfloat16: the same bits in every run.
// Pointers and columns out of range are an IndexError at the queue's next synchronisation; such entries are left out.
#pragma once

#include <complex>

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

struct SparseRows {
    Tensor pointers;   // [batch * rows + 1], int64 or int32: each batch counts on where the one before ended
    Tensor columns;    // [entries], the dtype of pointers; within their batch
    Tensor values;     // [entries] or [entries, R, C] for entries that are blocks, contiguous; absent: all are 1
};

struct SparseScale {
    std::complex<double> product{1}, addend{0};   // an absent addend is not read
};

// out[b, r, n] = product * sum of values[e] dense[b, columns[e], n] + addend * self[b, r, n]
// dense [batch, columns, n], out and self [batch, rows, n] of one dtype, any strides. Entries of R x C values are
// blocks: rows and columns then count blocks.
void sparse_mm(Queue& queue, const SparseRows& a, const Tensor& dense, const Tensor& self, const Tensor& out,
               const SparseScale& scale = {});

// out[e] = product * sum over k of left[b, row(e), k] right[b, k, columns[e]] + addend * values[e] at the entries of a
// sparse matrix of single values; left [batch, rows, K], right [batch, K, columns]. `rows` [entries] holds
// b * rows + row.
void sparse_sampled(Queue& queue, const SparseRows& a, const Tensor& rows, const Tensor& left, const Tensor& right,
                    const Tensor& out, const SparseScale& scale = {});

// Solves A x = b in place of b [rows, n], any strides, where A is the triangle of `a` above or below its diagonal, with
// it; entries beyond are passed over, several at one place are summed. unit: the diagonal is 1, whatever `a` has there.
// Single values of float32, float64, complex64 or complex128. Forward and back substitution, row by row.
void sparse_triangular_solve(Queue& queue, const SparseRows& a, bool upper, bool unit, const Tensor& b);

}  // namespace clprim
CLPRIM_API_END
