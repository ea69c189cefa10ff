// Some rows times weights of 8 or 4 bits (clprim/quantized.hpp) on CPUs: a chunk of COLUMNS outputs' weights becomes
// numbers once, which lie in the first-level cache while they are multiplied with all rows, four rows and four outputs
// at a time. Vectors run along the inputs and are added up at the end.
//
//     w: outputs x inputs        -> numbers [COLUMNS][CHUNK]     sums [row][COLUMNS] vectors
//
// -DX=<dtype of x, scales and y> -DBITS=8|4 [-DFLOAT8 -DFORMAT_<name>] [-DZEROS]
#define VEC 16
#include "core/dtype.cl"
#include "core/vector.cl"
#ifdef FLOAT8
#include "kernels/float8/decode.cl"
#endif
#include "kernels/quantized/weights.cl"

#define COLUMNS 8
#define CHUNK 512
#define MOST_ROWS 64
#define UNROLL _Pragma("unroll")

// R rows times four outputs over `count` inputs: adds to R x COLUMNS sums.
#define DEFINE_TILE(R)                                                                                      \
    static inline void tile_##R(SCALARS x, long x_row, const float* numbers, long count, float16* sums)     \
    {                                                                                                       \
        float16 sum[R][4];                                                                                  \
        UNROLL for (int r = 0; r < R; ++r)                                                                  \
            UNROLL for (int c = 0; c < 4; ++c) sum[r][c] = sums[r * COLUMNS + c];                           \
        for (long k = 0; k < count; k += 16) {                                                              \
            float16 w[4];                                                                                   \
            UNROLL for (int c = 0; c < 4; ++c) w[c] = vload16(0, numbers + c * CHUNK + k);                  \
            UNROLL for (int r = 0; r < R; ++r)                                                              \
            {                                                                                               \
                const float16 a = load_vector(X, x, r * x_row + k);                                         \
                UNROLL for (int c = 0; c < 4; ++c) sum[r][c] = fma(a, w[c], sum[r][c]);                     \
            }                                                                                               \
        }                                                                                                   \
        UNROLL for (int r = 0; r < R; ++r)                                                                  \
            UNROLL for (int c = 0; c < 4; ++c) sums[r * COLUMNS + c] = sum[r][c];                           \
    }
DEFINE_TILE(1)
DEFINE_TILE(2)
DEFINE_TILE(4)

// Inputs [k, k + count) of an output as numbers.
static inline void take_numbers(const __global uchar* w, SCALARS scales, SCALARS zeros, const quantized_problem* p,
                                long column, long k, long count, float* to)
{
    for (long i = 0; i < count; i += BLOCK) {
        const long group = (k + i) / p->group;
        const float scale = load(X, scales, group * p->scale_group + column * p->scale_column);
        const float offset = offset_of(zeros, p, group, column, scale);
        float16 low, high;
        get_weights(w, column * p->depth + k + i, &low, &high);
        vstore16(fma(low, (float16)scale, (float16)offset), 0, to + i);
        vstore16(fma(high, (float16)scale, (float16)offset), 0, to + i + 16);
    }
}

// A work-item owns `item_columns` outputs, a multiple of COLUMNS, of up to MOST_ROWS rows.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void multiply_rows(SCALARS x, ulong x_offset, const __global uchar* w, ulong w_offset, SCALARS scales,
                   ulong scales_offset, SCALARS zeros, ulong zeros_offset, __global storage_t(X)* y, ulong y_offset,
                   quantized_problem p, long item_columns)
{
    float numbers[COLUMNS * CHUNK] __attribute__((aligned(64)));
    float16 sums[MOST_ROWS * COLUMNS];
    const long first = (long)get_group_id(1) * MOST_ROWS, rows = min(p.rows - first, (long)MOST_ROWS);
    const long begin = (long)get_group_id(0) * item_columns, end = min(p.columns, begin + item_columns);
    x += x_offset + first * p.x_row;
    w += w_offset;
    scales += scales_offset;
    zeros += zeros_offset;
    y += y_offset + first * p.y_row;
    for (long column = begin; column < end; column += COLUMNS) {
        for (long i = 0; i < rows * COLUMNS; ++i)
            sums[i] = 0;
        for (long k = 0; k < p.depth; k += CHUNK) {
            const long count = min(p.depth - k, (long)CHUNK);
            for (int c = 0; c < COLUMNS; ++c)       // those beyond the last repeat it
                take_numbers(w, scales, zeros, &p, min(column + c, p.columns - 1), k, count, numbers + c * CHUNK);
            for (int c = 0; c < COLUMNS; c += 4) {
                const float* some = numbers + c * CHUNK;
                long row = 0;
                for (; row + 4 <= rows; row += 4)
                    tile_4(x + row * p.x_row + k, p.x_row, some, count, sums + row * COLUMNS + c);
                for (; row + 2 <= rows; row += 2)
                    tile_2(x + row * p.x_row + k, p.x_row, some, count, sums + row * COLUMNS + c);
                if (row < rows)
                    tile_1(x + row * p.x_row + k, p.x_row, some, count, sums + row * COLUMNS + c);
            }
        }
        for (long row = 0; row < rows; ++row)
            for (int c = 0; c < COLUMNS && column + c < end; ++c)
                store(X, y, row * p.y_row + column + c, sum_of(sums[row * COLUMNS + c]));
    }
}
