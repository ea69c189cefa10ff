// One row times weights of 8 or 4 bits (clprim/quantized.hpp) on CPUs: a work-item owns some outputs, in STREAMS parts,
// and takes one of each after the other, so that memory is read from the beginning of a part to its end, which
// processors see and ask ahead for by themselves. The row becomes float once, with sums of blocks for what offsets add.
//
// -DX=<dtype of x, scales and y> -DBITS=8|4 [-DFLOAT8 -DFORMAT_<name>] [-DZEROS] [-DONE_GROUP: an output has one scale,
// nothing is added] -DSTREAMS [-DX86_PREFETCH]
#define VEC 16
#include "core/dtype.cl"
#include "core/vector.cl"
#include "core/prefetch.cl"
#ifdef FLOAT8
#include "kernels/float8/decode.cl"
#endif
#include "kernels/quantized/weights.cl"

#define UNROLL _Pragma("unroll")
#define AHEAD 2048                      // bytes
#define AT_ONCE (STREAMS == 1 ? 2 : 1)  // blocks: sums enough to hide how long an addition takes

// Adds products of a block to sums of each stream.
static inline void add_block(const __global uchar* const* rows, long block, const __local float* numbers,
                             float16* even, float16* odd)
{
    const float16 a = vload16(2 * block, numbers), b = vload16(2 * block + 1, numbers);
    UNROLL for (int s = 0; s < STREAMS; ++s) {
        float16 low, high;
        get_weights(rows[s], BLOCK * block, &low, &high);
        PREFETCH(rows[s] + BLOCK * block * BITS / 8 + AHEAD);
        even[s] = fma(low, a, even[s]);
        odd[s] = fma(high, b, odd[s]);
    }
}

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
    const long part = (end - begin + STREAMS - 1) / STREAMS;
    for (long j = 0; j < part; ++j) {
        const __global uchar* rows[STREAMS];
        long columns[STREAMS];
        float16 even[AT_ONCE * STREAMS], odd[AT_ONCE * STREAMS];
        UNROLL for (int s = 0; s < STREAMS; ++s) {   // parts that are shorter repeat their last
            columns[s] = min(begin + s * part + j, end - 1);
            rows[s] = w + columns[s] * p.depth * BITS / 8;
        }
        UNROLL for (int s = 0; s < AT_ONCE * STREAMS; ++s) even[s] = odd[s] = 0;
        long block = 0;
#ifdef ONE_GROUP
        for (; block + AT_ONCE <= blocks; block += AT_ONCE)
            UNROLL for (int u = 0; u < AT_ONCE; ++u)
                add_block(rows, block + u, numbers, even + u * STREAMS, odd + u * STREAMS);
        if (block < blocks)
            add_block(rows, block, numbers, even, odd);
        UNROLL for (int s = 0; s < STREAMS; ++s) {
            float16 sum = even[s] + odd[s];
            if (AT_ONCE == 2)
                sum += even[s + STREAMS] + odd[s + STREAMS];
            store(X, y, y_offset + columns[s], sum_of(sum) * load(X, scales, columns[s] * p.scale_column));
        }
#else
        float added[STREAMS];
        UNROLL for (int s = 0; s < STREAMS; ++s) added[s] = 0;
        for (long group = 0; block < blocks; ++group) {
            float16 group_even[STREAMS], group_odd[STREAMS];
            UNROLL for (int s = 0; s < STREAMS; ++s) group_even[s] = group_odd[s] = 0;
            float sum = 0;
            for (const long last = block + p.group / BLOCK; block < last; ++block) {
                add_block(rows, block, numbers, group_even, group_odd);
                sum += block_sums[block];
            }
            UNROLL for (int s = 0; s < STREAMS; ++s) {
                const float scale = load(X, scales, group * p.scale_group + columns[s] * p.scale_column);
                even[s] = fma((float16)scale, group_even[s], even[s]);
                odd[s] = fma((float16)scale, group_odd[s], odd[s]);
                added[s] = fma(offset_of(zeros, &p, group, columns[s], scale), sum, added[s]);
            }
        }
        UNROLL for (int s = 0; s < STREAMS; ++s)
            store(X, y, y_offset + columns[s], sum_of(even[s] + odd[s]) + added[s]);
#endif
    }
}
