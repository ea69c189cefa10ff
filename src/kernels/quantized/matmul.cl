// Products of few rows with weights of 8 or 4 bits (clprim/quantized.hpp), bound by the reading of the weights: each is
// read once, sixteen bytes at a time, and unpacked in registers.
//
//     w: outputs x inputs          A team owns COLUMNS outputs and ROWS rows of x. Its members step through blocks of
//     +----+----+----+----+        32 inputs. One row: the block of x is loaded once for all outputs, and so is its
//     | b0 | b1 | b0 | b1 | ...    sum, which the offsets are multiplied by: W x = scale (q x) + offset (sum of x).
//     +----+----+----+----+        Several: a block of weights becomes numbers once for all rows.
//
// A CPU's team is one work-item whose sums are vectors; a GPU's is a work-group.
// -DX=<dtype of x, scales and y> -DBITS=8|4 [-DFLOAT8 -DFORMAT_<name>] -DROWS -DCOLUMNS -DTEAM (a power of two)
// [-DZEROS] [-DONE_GROUP: an output has one scale, nothing is added] [-DSUB_GROUP=16: of one row on Intel's GPUs,
// where a block of x and the weights would spill in wider ones] [-DX86_PREFETCH]
#define VEC 16
#include "core/dtype.cl"
#include "core/vector.cl"
#include "core/prefetch.cl"

#ifdef FLOAT8
#include "kernels/float8/decode.cl"
#endif
#include "kernels/quantized/weights.cl"

#ifdef CLPRIM_DEVICE_CPU
typedef float16 sums_t;
#define ADD_PRODUCTS(low, a, high, b, sum) fma(high, b, fma(low, a, sum))
#define TOTAL(v) sum_of(v)
#else
typedef float sums_t;
static inline float product_of(float4 w, float4 v, float sum)
{
    return fma(w.x, v.x, fma(w.y, v.y, fma(w.z, v.z, fma(w.w, v.w, sum))));
}
static inline float ADD_PRODUCTS(float16 low, float16 a, float16 high, float16 b, float sum)
{
    const float first = product_of(low.s0123, a.s0123, product_of(low.s4567, a.s4567, product_of(low.s89ab, a.s89ab,
                                   product_of(low.scdef, a.scdef, 0))));
    return first + product_of(high.s0123, b.s0123, product_of(high.s4567, b.s4567,
                              product_of(high.s89ab, b.s89ab, product_of(high.scdef, b.scdef, sum))));
}
#define TOTAL(v) (v)
#endif

#ifdef SUB_GROUP
#define GROUP __kernel __attribute__((reqd_work_group_size(TEAM, 1, 1), intel_reqd_sub_group_size(SUB_GROUP)))
#else
#define GROUP __kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
#endif

GROUP void quantized_matmul(SCALARS x, ulong x_offset, const __global uchar* w, ulong w_offset, SCALARS scales,
                            ulong scales_offset, SCALARS zeros, ulong zeros_offset, __global storage_t(X)* y,
                            ulong y_offset, quantized_problem p)
{
#if TEAM > 1
    __local float parts[TEAM];
#endif
    const int item = get_local_id(0);
    const long column = (long)get_group_id(0) * COLUMNS, row = (long)get_group_id(1) * ROWS;
    x += x_offset;
    w += w_offset;
    scales += scales_offset;
    zeros += zeros_offset;
    // Rows and columns beyond the last are computed from the last and dropped.
    const __global storage_t(X)* from[ROWS];
    long columns[COLUMNS];
    #pragma unroll
    for (int r = 0; r < ROWS; ++r)
        from[r] = x + min(row + r, p.rows - 1) * p.x_row;
    #pragma unroll
    for (int c = 0; c < COLUMNS; ++c)
        columns[c] = min(column + c, p.columns - 1);
    sums_t sums[ROWS][COLUMNS];
    float offsets[COLUMNS];   // sums of what offsets add, of one row
    #pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
        offsets[c] = 0;
        #pragma unroll
        for (int r = 0; r < ROWS; ++r)
            sums[r][c] = 0;
    }

    for (input_t k = item * BLOCK; k < (input_t)p.depth; k += TEAM * BLOCK) {
#ifndef ONE_GROUP
        const long group = k / (input_t)p.group;
#endif
#if ROWS == 1
        const float16 a = load_vector(X, from[0], k), b = load_vector(X, from[0], k + 16);
#ifndef ONE_GROUP
        const float x_sum = sum_of(a + b);
#endif
#endif
        #pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            float16 low, high;
            get_weights(w, columns[c] * p.depth + k, &low, &high);
#if ROWS == 1
            PREFETCH(w + ((columns[c] + COLUMNS) * p.depth + k) * BITS / 8);   // of the next columns
#endif
#ifdef ONE_GROUP   // the scale follows behind the loop
            #pragma unroll
            for (int r = 0; r < ROWS; ++r)
#if ROWS == 1
                sums[r][c] = ADD_PRODUCTS(low, a, high, b, sums[r][c]);
#else
                sums[r][c] = ADD_PRODUCTS(low, load_vector(X, from[r], k), high, load_vector(X, from[r], k + 16),
                                          sums[r][c]);
#endif
#else
            const float scale = load(X, scales, group * p.scale_group + columns[c] * p.scale_column);
            const float offset = offset_of(zeros, &p, group, columns[c], scale);
#if ROWS == 1
            sums[0][c] = fma((sums_t)scale, ADD_PRODUCTS(low, a, high, b, (sums_t)0), sums[0][c]);
            offsets[c] = fma(offset, x_sum, offsets[c]);
#else
            low = fma(low, (float16)scale, (float16)offset);
            high = fma(high, (float16)scale, (float16)offset);
            #pragma unroll
            for (int r = 0; r < ROWS; ++r)
                sums[r][c] = ADD_PRODUCTS(low, load_vector(X, from[r], k), high, load_vector(X, from[r], k + 16),
                                          sums[r][c]);
#endif
#endif
        }
    }

    #pragma unroll
    for (int r = 0; r < ROWS; ++r)
        #pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
#ifdef ONE_GROUP
            float total = TOTAL(sums[r][c]) * load(X, scales, columns[c] * p.scale_column);
#else
            float total = TOTAL(sums[r][c]) + offsets[c];
#endif
#if TEAM > 1
            barrier(CLK_LOCAL_MEM_FENCE);   // the sum before is read
            parts[item] = total;
            for (int half_team = TEAM / 2; half_team > 0; half_team /= 2) {
                barrier(CLK_LOCAL_MEM_FENCE);
                if (item < half_team)
                    parts[item] += parts[item + half_team];
            }
            total = parts[0];
#endif
            if (item == 0 && row + r < p.rows && column + c < p.columns)
                store(X, y, y_offset + (row + r) * p.y_row + column + c, total);
        }
}

// w[column][k] as numbers: a work-item owns a block of 32.
__kernel void dequantize(const __global uchar* w, ulong w_offset, SCALARS scales, ulong scales_offset, SCALARS zeros,
                         ulong zeros_offset, __global storage_t(X)* y, ulong y_offset, quantized_problem p)
{
    const long k = (long)get_global_id(0) * BLOCK, column = get_global_id(1);
    if (k >= p.depth || column >= p.columns)
        return;
    const long group = (input_t)k / (input_t)p.group;
    const float scale = load(X, scales + scales_offset, group * p.scale_group + column * p.scale_column);
    const float offset = offset_of(zeros + zeros_offset, &p, group, column, scale);
    float16 low, high;
    get_weights(w + w_offset, column * p.depth + k, &low, &high);
    store_vector(X, y + y_offset, column * p.depth + k, fma((float16)scale, low, (float16)offset));
    store_vector(X, y + y_offset, column * p.depth + k + 16, fma((float16)scale, high, (float16)offset));
}

// A work-item owns a block of 32 inputs, sixteen bytes.
__kernel void pack_int4(const __global uchar* bytes, ulong bytes_offset, __global uchar* packed, ulong packed_offset,
                        ulong blocks, int even_high)
{
    const ulong block = get_global_id(0);
    if (block >= blocks)
        return;
    uchar16 pairs = vload16(block, bytes + bytes_offset);
    if (even_high)
        pairs = (pairs << (uchar16)4) | (pairs >> (uchar16)4);
    const uchar16 even = pairs & (uchar16)15, odd = pairs >> (uchar16)4;
    const uchar16 low = (uchar16)(even.s0, odd.s0, even.s1, odd.s1, even.s2, odd.s2, even.s3, odd.s3, even.s4, odd.s4,
                                  even.s5, odd.s5, even.s6, odd.s6, even.s7, odd.s7);
    const uchar16 high = (uchar16)(even.s8, odd.s8, even.s9, odd.s9, even.sa, odd.sa, even.sb, odd.sb, even.sc, odd.sc,
                                   even.sd, odd.sd, even.se, odd.se, even.sf, odd.sf);
    vstore16(low | (high << (uchar16)4), block, packed + packed_offset);
}
