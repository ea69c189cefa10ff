// Few rows times weights of four bits (clprim/quantized.hpp) by x86 processors with AVX-512 VNNI: vpdpbusd multiplies
// numbers from 0 to 15 as they are with signed bytes of x and adds fours of products in int32. x becomes whole numbers
// of steps, a step for each 32 inputs, and those DIGITS bytes: one where x may be rounded (by half a percent of its
// block's largest magnitude), three as a float32 has them (by 2^-24 of it, or 2^-127), two of a bfloat16 (2^-16). Each
// digit's products are added to 256 times those of the digits above; sums of eight inputs, below 8 * 15 * 2^23, are
// exact. Infinities and NaN, which have no digits, are multiplied by themselves.
//
//     64 bytes of a column are a chunk, 128          a chunk of ROWS rows of x, laid out once for all columns, 64
//     inputs in four blocks; byte i of a block       bytes each, and four lanes of 32 bits for a block:
//     holds inputs i and i + 16:                     +----------+-----------------+-----+-------------+-----------+
//     +---------+---------+---------+---------+      | first digits of inputs     | ... | -8 sum of   | scale of  |
//     | block 0 | block 1 | block 2 | block 3 |      | 0 - 15   |  and of 16 - 31 |     | 8 of them   | the block |
//     +---------+---------+---------+---------+      +----------+-----------------+-----+-------------+-----------+
//                                                    and behind the rows 64 bytes with the mask of lanes that have
//                                                    inputs and a row's blocks with numbers that have no digits,
//                                                    and as many with sums of blocks, four a row.
//
// -DX=<dtype of x, scales and y> -DROWS=1|2|4: at a time -DDIGITS=1|2|3 -DPIECES=1|2|4: scales of 128 inputs [-DZEROS]
#define VEC 16
#include "core/dtype.cl"
#include "core/vector.cl"

typedef struct {
    long rows, columns, depth, x_row, y_row;   // of y and W, of the sum; strides
    long group, scale_group, scale_column, zero_group, zero_column;
    long item_columns, block_columns;          // of a work-item, and at a time: multiples of four
    long ahead;                                // how far before their use weights are asked for, in bytes
} int4_problem;

#define INPUTS 128   // of a chunk
#define ROW_BYTES (128 * DIGITS + 128)
#define CHUNK_BYTES (ROW_BYTES * ROWS + 128)
#define MASK_AT (ROW_BYTES * ROWS)
#define SPECIAL_AT (MASK_AT + 16)
#define SUMS_AT (ROW_BYTES * ROWS + 64)

#define UNROLL _Pragma("unroll")

#include "kernels/quantized/cpu_int4_chunks.cl"
#include "kernels/quantized/cpu_int4_columns.cl"

static inline float sum_of(float16 v)
{
    const float4 of = quarter(v);
    return (of.x + of.y) + (of.z + of.w);
}

// Of up to sixteen columns: numbers `step` apart.
static inline float16 line_of(const __global storage_t(X)* p, long step, long count)
{
    if (step == 1 && count >= 16)
        return load_vector(X, p, 0);
    if (step == 2 && count >= 16) {
        const float16 first = load_vector(X, p, 0), second = load_vector(X, p, 15);
        return (float16)(first.even, second.odd);
    }
    float values[16];
    for (int i = 0; i < 16; ++i)
        values[i] = load(X, p, min((long)i, count - 1) * step);
    return vload16(0, values);
}

// Scales of `size` columns, one for each INPUTS / PIECES inputs, zeros behind the last: [size][pieces].
static inline void put_lines(const __global storage_t(X)* scales, const int4_problem* p, long size, long pieces,
                             __local float* to)
{
    const long groups = p->depth / p->group, repeats = p->group * PIECES / INPUTS;
    if (p->scale_group == 1 && repeats == 1) {
        for (long c = 0; c < size; ++c, scales += p->scale_column, to += pieces) {
            long group = 0;
            for (; group + 16 <= groups; group += 16)
                vstore16(load_vector(X, scales, group), 0, to + group);
            for (; group < pieces; ++group)
                to[group] = group < groups ? load(X, scales, group) : 0;
        }
        return;
    }
    for (long piece = 0; piece < pieces; piece += 4) {
        float16 lines[4];
        UNROLL for (int i = 0; i < 4; ++i) {
            const long group = (piece + i) / repeats;
            lines[i] = 0;
            if (group < groups)
                lines[i] = line_of(scales + group * p->scale_group, p->scale_column, size);
        }
        float4 of_column[16];
        UNROLL for (int c = 0; c < 16; ++c)
            of_column[c] = (float4)(lines[0][c], lines[1][c], lines[2][c], lines[3][c]);
        UNROLL for (int c = 0; c < 16; ++c)
            if (c < size)
                vstore4(of_column[c], 0, to + c * pieces + piece);
    }
}

#ifdef ZEROS
// Of one row of x: [groups].
static inline void sum_groups(const CHUNK* chunks, const int4_problem* p, long row, __local float* sums)
{
    const long groups = p->depth / p->group, blocks = p->group / 32;
    for (long group = 0; group < groups; ++group) {
        float sum = 0;
        for (long block = group * blocks; block < (group + 1) * blocks; ++block)
            sum += ((const CHUNK_OF(float)*)(chunks + block / 4 * CHUNK_BYTES + SUMS_AT))[4 * row + block % 4];
        sums[group] = sum;
    }
}

// What zero points add to `size` columns.
static inline float16 offsets_of(const __global storage_t(X)* zeros, const int4_problem* p, long size,
                                 const __local float* x_sums)
{
    const long groups = p->depth / p->group;
    if (p->zero_group != 1) {
        float16 sums = 0;
        for (long group = 0; group < groups; ++group)
            sums = fma(line_of(zeros + group * p->zero_group, p->zero_column, size), (float16)x_sums[group], sums);
        return sums;
    }
    float of[16];
    for (long c = 0; c < 16; ++c) {
        const __global storage_t(X)* from = zeros + min(c, size - 1) * p->zero_column;
        float16 sums = 0;
        long group = 0;
        for (; group + 16 <= groups; group += 16)
            sums = fma(load_vector(X, from, group), vload16(0, x_sums + group), sums);
        for (; group < groups; ++group)
            sums.s0 = fma(load(X, from, group), x_sums[group], sums.s0);
        of[c] = sum_of(sums);
    }
    return vload16(0, of);
}
#endif

// Operands, of x a row: where it lies, and its number among those of its chunks.
typedef struct {
    const __global storage_t(X)* x;
    const CHUNK* chunks;
    long row;
    const __global uchar* w;
    const __global storage_t(X) *scales, *zeros;
} int4_operands;

// Columns at a time: `size` of each of four streams, which begin `apart` columns after each other.
typedef struct {
    long column, apart, size;
} int4_block;

// Numbers of x that have no digits.
typedef struct {
    int count;
    int inputs[16];
    float values[16];
} int4_specials;

// Those from input `from` on, as many as there is room for; where to go on.
static inline long find_specials(const int4_operands* of, long depth, long from, int4_specials* to)
{
    to->count = 0;
    for (long block = from / 32; block < depth / 32; ++block, from = 32 * block) {
        const CHUNK* chunk = of->chunks + block / 4 * CHUNK_BYTES;
        if ((((const CHUNK_OF(uint)*)(chunk + SPECIAL_AT))[of->row] >> (block % 4) & 1) == 0)
            continue;
        const float limit = limit_of(of->x + 32 * block);
        for (; from < 32 * (block + 1); ++from) {
            const float value = load(X, of->x, from);
            if (fabs(value) <= limit)
                continue;
            if (to->count == 16)
                return from;
            to->inputs[to->count] = from;
            to->values[to->count++] = value;
        }
    }
    return depth;
}

// Times a column.
static inline float sum_of_specials(const int4_specials* specials, const int4_operands* of, const int4_problem* p,
                                    long column)
{
    const __global uchar* w = of->w + column * (p->depth / 2);
    const __global storage_t(X)* scales = of->scales + column * p->scale_column;
    float sum = 0;
    for (int i = 0; i < specials->count; ++i) {
        const long input = specials->inputs[i], group = input / p->group;
        const uchar pair = w[input / 32 * 16 + input % 16];
        float weight = (float)((input % 32 < 16 ? pair & 15 : pair >> 4) - 8) *
                       load(X, scales, group * p->scale_group);
#ifdef ZEROS
        weight += load(X, of->zeros, column * p->zero_column + group * p->zero_group);
#endif
        sum = fma(specials->values[i], weight, sum);
    }
    return sum;
}

// A row of x times a block of columns, from what the vectors of sums hold, to y. `x_sums`: of the row's groups.
static inline void finish_row(const int4_operands* of, const int4_problem* p, int4_block block,
                              const __local float* sums, __local float* x_sums, __global storage_t(X)* y)
{
    float results[4][16];
#ifdef ZEROS
    sum_groups(of->chunks, p, of->row, x_sums);
#endif
    for (long i = 0; i < 4; ++i) {
        for (long c = 0; c < block.size; ++c)
            results[i][c] = sum_of(vload16((c * ROWS + of->row) * 4 + i, sums));
#ifdef ZEROS
        const float16 added =
            offsets_of(of->zeros + (block.column + i * block.apart) * p->zero_column, p, block.size, x_sums);
        vstore16(vload16(0, results[i]) + added, 0, results[i]);
#endif
    }
    int4_specials specials;
    for (long input = 0; input < p->depth;) {
        input = find_specials(of, p->depth, input, &specials);
        for (long c = 0; c < 4 * block.size && specials.count != 0; ++c)
            results[c % 4][c / 4] +=
                sum_of_specials(&specials, of, p, block.column + c % 4 * block.apart + c / 4);
    }
    for (long i = 0; i < 4; ++i)
        for (long c = 0; c < block.size; ++c)
            store(X, y, block.column + i * block.apart + c, results[i][c]);
}

// `memory`: of one row its chunks, scales of the columns at a time, sums of a group's inputs, sums of the columns.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void multiply(const __global storage_t(X)* x, ulong x_offset, const __global char* chunks, ulong chunks_offset,
              const __global uchar* w, ulong w_offset, const __global storage_t(X)* scales, ulong scales_offset,
              const __global storage_t(X)* zeros, ulong zeros_offset, __global storage_t(X)* y, ulong y_offset,
              int4_problem p, __local float16* memory)
{
    const long begin = (long)get_group_id(0) * p.item_columns, end = min(p.columns, begin + p.item_columns);
    const long count = (p.depth + INPUTS - 1) / INPUTS, row = p.depth / 2;
    const long pieces = (count * PIECES + 15) / 16 * 16;
    const bool as_they_lie = sizeof(storage_t(X)) == 4 && p.scale_group == 1 && p.group * PIECES == INPUTS &&
                             p.depth / p.group == count * PIECES;   // scales
    __local char* free = (__local char*)memory;
    int4_operands of = {x + x_offset, 0, 0, w + w_offset, scales + scales_offset, zeros + zeros_offset};
#if ROWS == 1
    __local char* from = free;
    free += count * CHUNK_BYTES;
    for (long number = 0; number < count; ++number) {
        put_row(of.x + number * INPUTS, p.depth / 32 - 4 * number, 0, from + number * CHUNK_BYTES);
        put_mask(p.depth / 32 - 4 * number, from + number * CHUNK_BYTES);
    }
#else
    const __global char* from = chunks + chunks_offset;
#endif
    __local float* lines = (__local float*)free;
    __local float* sums = lines + p.block_columns * pieces;
    __local float* x_sums = sums + p.block_columns * (16 * ROWS);
    // Four streams of columns, and the last four once more where they leave some over.
    const long stream = (end - begin) / 4, over = (end - begin) % 4 != 0;
    int4_block block;
    for (long at = 0; at < stream + over; at += block.size) {
        if (at < stream)
            block = (int4_block){begin + at, stream, min(stream - at, p.block_columns / 4)};
        else
            block = (int4_block){max(end - 4, 0l), 1, 1};
        const __global storage_t(X)* first_scales = of.scales + block.column * p.scale_column;
        for (long i = 0; i < 4 && !as_they_lie; ++i)
            put_lines(first_scales + i * block.apart * p.scale_column, &p, block.size, pieces,
                      lines + i * block.size * pieces);
        int4_columns columns = {(ulong)(of.w + block.column * row), row, block.apart * row, p.ahead, 0, count,
                                (ulong)lines, 4 * pieces, 4 * pieces * block.size, (ulong)sums, block.size};
        if (as_they_lie) {
            columns.scales = (ulong)first_scales;
            columns.scale_row = 4 * p.scale_column;
            columns.scale_stream = block.apart * columns.scale_row;
        }
        for (long first = 0; first < p.rows; first += ROWS) {
            of.chunks = from + first / ROWS * count * CHUNK_BYTES;
            columns.x = (ulong)of.chunks;
            add_columns(columns);
            for (of.row = 0; of.row < ROWS && first + of.row < p.rows; ++of.row) {
                of.x = x + x_offset + (first + of.row) * p.x_row;
                finish_row(&of, &p, block, sums, x_sums, y + y_offset + (first + of.row) * p.y_row);
            }
        }
    }
}
