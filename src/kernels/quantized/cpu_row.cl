// One row times weights of 8 or 4 bits (clprim/quantized.hpp) on CPUs: a work-item owns some outputs and takes one
// after the other, so that memory is read from its beginning to its end, which processors see and ask ahead for by
// themselves. The row becomes float once, with sums of blocks for what offsets add.
//
// -DX=<dtype of x, scales and y> -DBITS=8|4 [-DFLOAT8 -DFORMAT_<name>] [-DZEROS] [-DONE_GROUP: an output has one scale,
// nothing is added]
#define VEC 16
#include "core/dtype.cl"
#include "core/vector.cl"
#ifdef FLOAT8
#include "kernels/float8/decode.cl"
#endif
#include "kernels/quantized/weights.cl"

// `numbers`: `depth` of the row and the sums of its blocks.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void multiply_row(SCALARS x, ulong x_offset, const __global uchar* w, ulong w_offset, SCALARS scales,
                  ulong scales_offset, SCALARS zeros, ulong zeros_offset, __global storage_t(X)* y, ulong y_offset,
                  quantized_problem p, long item_columns, __local float* numbers)
{
    const long begin = (long)get_group_id(0) * item_columns, end = min(p.columns, begin + item_columns);
    const long blocks = p.depth / BLOCK;
    __local float* block_sums = numbers + p.depth;
    x += x_offset;
    w += w_offset;
    scales += scales_offset;
    zeros += zeros_offset;
    for (long block = 0; block < blocks; ++block) {
        const float16 a = load_vector(X, x, BLOCK * block), b = load_vector(X, x, BLOCK * block + 16);
        vstore16(a, 2 * block, numbers);
        vstore16(b, 2 * block + 1, numbers);
        block_sums[block] = sum_of(a + b);
    }
    for (long column = begin; column < end; ++column) {
        float16 low, high, even = 0, odd = 0;
#ifdef ONE_GROUP
        float16 more_even = 0, more_odd = 0;
        long block = 0;
        for (; block + 2 <= blocks; block += 2) {
            get_weights(w, column * p.depth + BLOCK * block, &low, &high);
            even = fma(low, vload16(2 * block, numbers), even);
            odd = fma(high, vload16(2 * block + 1, numbers), odd);
            get_weights(w, column * p.depth + BLOCK * block + BLOCK, &low, &high);
            more_even = fma(low, vload16(2 * block + 2, numbers), more_even);
            more_odd = fma(high, vload16(2 * block + 3, numbers), more_odd);
        }
        if (block < blocks) {
            get_weights(w, column * p.depth + BLOCK * block, &low, &high);
            even = fma(low, vload16(2 * block, numbers), even);
            odd = fma(high, vload16(2 * block + 1, numbers), odd);
        }
        const float total = sum_of((even + odd) + (more_even + more_odd)) * load(X, scales, column * p.scale_column);
#else
        float added = 0;
        long block = 0;
        for (long group = 0; block < blocks; ++group) {
            const float scale = load(X, scales, group * p.scale_group + column * p.scale_column);
            const float offset = offset_of(zeros, &p, group, column, scale);
            float16 group_even = 0, group_odd = 0;
            float sum = 0;
            for (const long last = block + p.group / BLOCK; block < last; ++block) {
                get_weights(w, column * p.depth + BLOCK * block, &low, &high);
                group_even = fma(low, vload16(2 * block, numbers), group_even);
                group_odd = fma(high, vload16(2 * block + 1, numbers), group_odd);
                sum += block_sums[block];
            }
            even = fma((float16)scale, group_even, even);
            odd = fma((float16)scale, group_odd, odd);
            added = fma(offset, sum, added);
        }
        const float total = sum_of(even + odd) + added;
#endif
        store(X, y, y_offset + column, total);
    }
}
