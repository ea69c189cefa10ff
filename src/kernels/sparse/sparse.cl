// Products with sparse matrices whose rows are compressed. Work-item = one element of the result: no atomics.
// -DX: dtype of values; -DI: of indices; -DCOMPLEX; -DSCALE=float|double|long and for complex numbers float2|double2
#include "core/dtype.cl"
#include "core/errors.cl"

typedef compute_t(X) T;

#ifdef COMPLEX
static inline T times(T a, T b) { return (T)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
#else
static inline T times(T a, T b) { return a * b; }
#endif
#ifdef BOOLEAN
static inline T plus(T a, T b) { return a | b; }
#else
static inline T plus(T a, T b) { return a + b; }
#endif
#ifdef COMPLEX
#define scaled(s, v) times(s, v)
#else
#define scaled(s, v) (T)((s) * (v))
#endif

typedef struct {
    ulong rows, width;             // of the result, rows of one batch
    ulong entries, depth;          // depth: rows of one batch of dense
    long block[2];                 // of an entry
    long dense[3], self[3], out[3];   // strides
} product_t;

__kernel void sparse_mm(const __global storage_t(I)* pointers, ulong pointers_offset,
                        const __global storage_t(I)* columns, ulong columns_offset,
                        const __global storage_t(X)* values, ulong values_offset,
                        const __global storage_t(X)* dense, ulong dense_offset,
                        const __global storage_t(X)* self, ulong self_offset, __global storage_t(X)* out,
                        ulong out_offset, product_t p, ulong items,
                        int has_values, int has_self, SCALE product, SCALE addend, __global int* errors,
                        int operator_code)
{
#ifdef ROWS_FIRST
    const ulong n = get_global_id(1), row = get_global_id(0);
#else
    const ulong n = get_global_id(0), row = get_global_id(1);
#endif
    if (n >= p.width || row >= items)
        return;
    pointers += pointers_offset;
    columns += columns_offset;
    const ulong batch = row / p.rows, r = row % p.rows;
    const ulong line = row / p.block[0], inner = row % p.block[0];   // p.rows is a multiple of block[0]
    dense += dense_offset + batch * p.dense[0] + n * p.dense[2];
    values += values_offset + inner * p.block[1];
    const ulong step = p.block[0] * p.block[1];
    const ulong places = p.depth / p.block[1];
    ulong e = pointers[line], end = pointers[line + 1];
    if (e > end || end > p.entries) {
        clprim_index_error(errors, operator_code, e > end ? e : end, p.entries);
        e = end;
    }
    T sum = 0;
    for (; e < end; ++e) {
        if ((ulong)columns[e] >= places) {
            clprim_index_error(errors, operator_code, columns[e], places);
            continue;
        }
        const long column = (long)columns[e] * p.block[1];
        for (long c = 0; c < p.block[1]; ++c) {
            const T x = load(X, dense, (column + c) * p.dense[1]);
            sum = plus(sum, has_values ? times(load(X, values, e * step + c), x) : x);
        }
    }
#ifdef BOOLEAN
    if (has_self)
        sum = plus(sum, load(X, self, self_offset + batch * p.self[0] + r * p.self[1] + n * p.self[2]));
#else
    sum = scaled(product, sum);
    if (has_self)
        sum = plus(sum, scaled(addend, load(X, self, self_offset + batch * p.self[0] + r * p.self[1] + n * p.self[2])));
#endif
    store(X, out, out_offset + batch * p.out[0] + r * p.out[1] + n * p.out[2], sum);
}

typedef struct {
    ulong rows, width;        // rows of one batch, terms of each sum
    ulong lines, columns;     // of the product, rows of all batches
    long left[3], right[3];   // strides
} sampled_t;

#ifndef BOOLEAN
__kernel void sparse_sampled(const __global storage_t(I)* columns, ulong columns_offset,
                             const __global storage_t(I)* rows, ulong rows_offset,
                             const __global storage_t(X)* values, ulong values_offset,
                             const __global storage_t(X)* left, ulong left_offset, const __global storage_t(X)* right,
                             ulong right_offset, __global storage_t(X)* out, ulong out_offset, sampled_t p, ulong items,
                             int has_values, SCALE product, SCALE addend, __global int* errors,
                             int operator_code)
{
    const ulong e = get_global_id(0);
    if (e >= items)
        return;
    const ulong row = rows[rows_offset + e], column = columns[columns_offset + e], batch = row / p.rows;
    if (row >= p.lines || column >= p.columns) {
        clprim_index_error(errors, operator_code, row >= p.lines ? row : column, row >= p.lines ? p.lines : p.columns);
        return;
    }
    left += left_offset + batch * p.left[0] + row % p.rows * p.left[1];
    right += right_offset + batch * p.right[0] + column * p.right[2];
    T sum = 0;
    for (ulong k = 0; k < p.width; ++k)
        sum += times(load(X, left, k * p.left[2]), load(X, right, k * p.right[1]));
    sum = scaled(product, sum);
    if (has_values)
        sum += scaled(addend, load(X, values, values_offset + e));
    store(X, out, out_offset + e, sum);
}
#endif
