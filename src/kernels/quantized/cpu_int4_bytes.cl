// Few rows times weights of four bits (clprim/quantized.hpp) by x86 processors with AVX-512 VNNI, where x may become
// bytes: vpdpbusd multiplies numbers from 0 to 15 as they are with signed bytes of x, which have a scale for each 32
// inputs, and adds fours of products in int32. Sums start from -8 times x's bytes.
//
//     64 bytes of a column are a chunk, 128          a chunk of ROWS rows of x, laid out once for all columns, 64
//     inputs in four blocks; byte i of a block       bytes each, and four lanes of 32 bits for a block:
//     holds inputs i and i + 16:                     +-----------+----------------+-------------+-----------+
//     +---------+---------+---------+---------+      | inputs 0  | inputs 16 - 31 | -8 sum of   | scale of  | next row
//     | block 0 | block 1 | block 2 | block 3 |      | - 15      |                | 8 of them   | the block | ...
//     +---------+---------+---------+---------+      +-----------+----------------+-------------+-----------+
//                                                    and behind the rows 64 bytes with the mask of lanes that have
//                                                    inputs, and as many with sums of blocks, four a row.
//
// In assembly: see gemm/dot_tile.cl, which also says why nothing is named that changes.
//
// -DX=<dtype of x, scales and y> -DROWS=1|2|4: at a time -DPIECES=1|2|4: scales of 128 inputs [-DZEROS]
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
#define CHUNK_BYTES (256 * ROWS + 128)
#define MASK_AT (256 * ROWS)
#define SUMS_AT (256 * ROWS + 64)

#define UNROLL _Pragma("unroll")
#define TEXT(x) TEXT_OF(x)
#define TEXT_OF(x) #x
#define EACH_COLUMN(DO) DO(0) DO(1) DO(2) DO(3)
#if ROWS == 1
#define EACH_ROW(DO, c) DO(0, c)
#elif ROWS == 2
#define EACH_ROW(DO, c) DO(0, c) DO(1, c)
#else
#define EACH_ROW(DO, c) DO(0, c) DO(1, c) DO(2, c) DO(3, c)
#endif
// Registers: sums of four columns, those of a row side by side, in 0 to 15; a column's numbers, its scales, sums of a
// chunk; what is the same for all.
#define SUM_00 "%%zmm0"
#define SUM_01 "%%zmm1"
#define SUM_02 "%%zmm2"
#define SUM_03 "%%zmm3"
#define SUM_10 "%%zmm4"
#define SUM_11 "%%zmm5"
#define SUM_12 "%%zmm6"
#define SUM_13 "%%zmm7"
#define SUM_20 "%%zmm8"
#define SUM_21 "%%zmm9"
#define SUM_22 "%%zmm10"
#define SUM_23 "%%zmm11"
#define SUM_30 "%%zmm12"
#define SUM_31 "%%zmm13"
#define SUM_32 "%%zmm14"
#define SUM_33 "%%zmm15"
#define LOW "%%zmm16"
#define HIGH "%%zmm17"
#define SCALES "%%zmm18"
#define ADDED "%%zmm19"
#define FIFTEEN "%%zmm20"
#define LANES_OF_SCALES "%%zmm21"
#define EACH_REGISTER(DO)                                                                                   \
    DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)   \
    DO(16) DO(17) DO(18) DO(19) DO(20) DO(21)
#define REGISTERS 22
#define SAVE(r) "vmovdqu64 %%zmm" #r ", 64*" #r "(%5)\n\t"
#define RESTORE(r) "vmovdqu64 64*" #r "(%5), %%zmm" #r "\n\t"
#define ARGUMENT(i) "64*" TEXT(REGISTERS) "+8*" #i "(%5)"
#define ARGUMENTS 16

#define COLUMN_AT_0 "(%0)"
#define COLUMN_AT_1 "(%0,%6,1)"
#define COLUMN_AT_2 "(%0,%6,2)"
#define COLUMN_AT_3 "(%0,%7,1)"
#define AHEAD_AT_0 "(%4)"
#define AHEAD_AT_1 "(%4,%6,1)"
#define AHEAD_AT_2 "(%4,%6,2)"
#define AHEAD_AT_3 "(%4,%7,1)"
#define SCALES_AT_0 "(%3)"
#define SCALES_AT_1 "(%3,%8,1)"
#define SCALES_AT_2 "(%3,%8,2)"
#define SCALES_AT_3 "(%3,%9,1)"
#if PIECES == 1
#define GET_SCALES(c) "vbroadcastss " SCALES_AT_##c ", " SCALES "\n\t"
#elif PIECES == 2
#define GET_SCALES(c)                                                                                       \
    "vbroadcastsd " SCALES_AT_##c ", " SCALES "\n\tvpermilps " LANES_OF_SCALES ", " SCALES ", " SCALES "\n\t"
#else
#define GET_SCALES(c)                                                                                       \
    "vbroadcastf32x4 " SCALES_AT_##c ", " SCALES "\n\tvpermilps " LANES_OF_SCALES ", " SCALES ", " SCALES "\n\t"
#endif
// What belongs to x is read for each column, from the cache, but that of one row, which is kept.
#if ROWS == 1
#define GET_X                                                                                               \
    "vmovdqu64 (%1), %%zmm4\n\tvmovdqu64 64(%1), %%zmm5\n\tvmovdqu64 128(%1), %%zmm6\n\t"                   \
    "vmovdqu64 192(%1), %%zmm7\n\t"
#define X_LOW(r) "%%zmm4"
#define X_HIGH(r) "%%zmm5"
#define X_START(r) "%%zmm6"
#define X_SCALES(r) "%%zmm7"
#else
#define GET_X
#define X_LOW(r) "256*" #r "(%1)"
#define X_HIGH(r) "256*" #r "+64(%1)"
#define X_START(r) "256*" #r "+128(%1)"
#define X_SCALES(r) "256*" #r "+192(%1)"
#endif
#define MULTIPLY(r, c)                                                                                      \
    "vmovdqu64 " X_START(r) ", " ADDED "\n\t"                                                               \
    "vpdpbusd " X_LOW(r) ", " LOW ", " ADDED "\n\t"                                                         \
    "vpdpbusd " X_HIGH(r) ", " HIGH ", " ADDED "\n\t"                                                       \
    "vcvtdq2ps " ADDED ", " ADDED "\n\t"                                                                    \
    "vmulps " X_SCALES(r) ", " ADDED ", " ADDED "\n\t"                                                      \
    "vfmadd231ps " SCALES ", " ADDED ", " SUM_##r##c "\n\t"
#define COLUMN(c)                                                                                           \
    "vmovdqu32 " COLUMN_AT_##c ", " LOW "%{%%k1%}%{z%}\n\t"                                                 \
    "prefetcht0 " AHEAD_AT_##c "\n\t"                                                                       \
    "vpsrlw $4, " LOW ", " HIGH "\n\t"                                                                      \
    "vpandd " FIFTEEN ", " LOW ", " LOW "\n\t"                                                              \
    "vpandd " FIFTEEN ", " HIGH ", " HIGH "\n\t"                                                            \
    GET_SCALES(c) EACH_ROW(MULTIPLY, c)
#define CLEAR_ROW(r, c) "vpxord " SUM_##r##c ", " SUM_##r##c ", " SUM_##r##c "\n\t"
#define CLEAR(c) EACH_ROW(CLEAR_ROW, c)
#define STORE_ROW(r, c) "vmovdqu64 " SUM_##r##c ", 64*(4*" #r "+" #c ")(%0)\n\t"
#define STORE(c) EACH_ROW(STORE_ROW, c)
// One less in `count`, and back to `begin` while some are left.
#define AGAIN(count, begin, end)                                                                            \
    "lea -1(" count "), " count "\n\txchg " count ", %%rcx\n\tjrcxz " end "f\n\t"                           \
    "xchg " count ", %%rcx\n\tjmp " begin "b\n\t" end ":\n\txchg " count ", %%rcx\n\t"

typedef struct {
    ulong w, row, ahead;           // columns lie `row` bytes apart; those `ahead` bytes further on are asked for
    ulong x, chunks;
    ulong scales, scale_row;       // in bytes
    ulong sums;                    // [fours][ROWS][4] vectors
    ulong fours;                   // of columns, at least one
} int4_columns;

static inline void add_columns(const int4_columns of)
{
    ulong kept[8 * REGISTERS + ARGUMENTS] __attribute__((aligned(64)));
    ulong* arguments = kept + 8 * REGISTERS;
    arguments[0] = of.w;
    arguments[1] = of.scales;
    arguments[2] = of.x;
    arguments[3] = of.chunks;
    arguments[4] = of.sums;
    arguments[5] = of.fours;
    arguments[6] = of.ahead;
    arguments[8] = 0x0f0f0f0f0f0f0f0ful;
    uint lanes[16] __attribute__((aligned(64)));   // of four, in each four
    for (int i = 0; i < 16; ++i)
        lanes[i] = i / 4 * PIECES / 4;
    arguments[9] = (ulong)lanes;
    ulong w, x, left, scales, ahead;
    __asm__ volatile(
        EACH_REGISTER(SAVE)
        "kmovq %%k1, " ARGUMENT(7) "\n\t"
        "vpbroadcastq " ARGUMENT(8) ", " FIFTEEN "\n\t"
        "mov " ARGUMENT(9) ", %0\n\tvmovdqa64 (%0), " LANES_OF_SCALES "\n\t"
        "1:\n\t"
        "mov " ARGUMENT(0) ", %0\n\tlea (%0,%6,4), %4\n\tmov %4, " ARGUMENT(0) "\n\t"
        "mov " ARGUMENT(6) ", %4\n\tlea (%4,%0,1), %4\n\t"
        "mov " ARGUMENT(1) ", %3\n\tlea (%3,%8,4), %1\n\tmov %1, " ARGUMENT(1) "\n\t"
        "mov " ARGUMENT(2) ", %1\n\tmov " ARGUMENT(3) ", %2\n\t"
        EACH_COLUMN(CLEAR)
        "2:\n\t"
        "kmovw " TEXT(MASK_AT) "(%1), %%k1\n\t"
        GET_X
        EACH_COLUMN(COLUMN)
        "lea 64(%0), %0\n\tlea 64(%4), %4\n\t"
        "lea " TEXT(CHUNK_BYTES) "(%1), %1\n\t"
        "lea 4*" TEXT(PIECES) "(%3), %3\n\t"
        AGAIN("%2", "2", "3")
        "mov " ARGUMENT(4) ", %0\n\t"
        EACH_COLUMN(STORE)
        "lea 256*" TEXT(ROWS) "(%0), %0\n\tmov %0, " ARGUMENT(4) "\n\t"
        "mov " ARGUMENT(5) ", %2\n\tlea -1(%2), %0\n\tmov %0, " ARGUMENT(5) "\n\t"
        AGAIN("%2", "1", "4")
        "kmovq " ARGUMENT(7) ", %%k1\n\t"
        EACH_REGISTER(RESTORE)
        : "=&r"(w), "=&r"(x), "=&r"(left), "=&r"(scales), "=&r"(ahead)
        : "r"(kept), "r"(of.row), "r"(3 * of.row), "r"(of.scale_row), "r"(3 * of.scale_row)
        : "memory");
}

// Of each four lanes, and of all in four vectors.
static inline int4 fours_of(int16 v) { return v.s048c + v.s159d + v.s26ae + v.s37bf; }
#define FOLD(a, b, c, d, OF)                                                                                \
    OF(OF((a.x, b.x, c.x, d.x), (a.y, b.y, c.y, d.y)), OF((a.z, b.z, c.z, d.z), (a.w, b.w, c.w, d.w)))
#define SUM_OF_INTS(a, b) ((int4)a + (int4)b)
#define SUM_OF_FLOATS(a, b) ((float4)a + (float4)b)
#define LARGER_OF_INTS(a, b) max((int4)a, (int4)b)
static inline float4 quarter(float16 v)
{
    const float8 half_of = v.lo + v.hi;
    return half_of.lo + half_of.hi;
}
static inline int4 largest_quarter(int16 v)
{
    const int8 half_of = max(v.lo, v.hi);
    return max(half_of.lo, half_of.hi);
}

#if ROWS == 1
#define CHUNK __local char
#define CHUNK_OF(type) __local type
#else
#define CHUNK __global char
#define CHUNK_OF(type) __global type
#endif

// `count` blocks of x, from `x` on, to row `row` of a chunk; the others have no inputs. An infinity or NaN makes its
// block's scale NaN. Steps are no smaller than 2^-126.
static inline void put_row(const __global storage_t(X)* x, long count, long row, CHUNK* chunk)
{
    CHUNK* to = chunk + 256 * row;
    float16 first[4], second[4];
    int4 largest[4], sums[4];
    UNROLL for (int block = 0; block < 4; ++block) {
        first[block] = second[block] = 0;
        if (block < count) {
            first[block] = load_vector(X, x, 32 * block);
            second[block] = load_vector(X, x, 32 * block + 16);
        }
        largest[block] = largest_quarter(
            max(as_int16(first[block]) & 0x7fffffff, as_int16(second[block]) & 0x7fffffff));
    }
    const int4 sizes = FOLD(largest[0], largest[1], largest[2], largest[3], LARGER_OF_INTS);
    const int4 finite = sizes < 0x7f800000;
    const float4 factor = finite ? min(127.0f / as_float4(sizes), 0x1p126f) : 0.0f;
    const float4 scale = finite ? 1.0f / factor : NAN;
    const float factors[4] = {factor.x, factor.y, factor.z, factor.w};
    UNROLL for (int block = 0; block < 4; ++block) {
        const int16 low = convert_int16_rte(first[block] * factors[block]);
        const int16 high = convert_int16_rte(second[block] * factors[block]);
        sums[block] = fours_of(low + high);
        vstore16(convert_char16(low), block, to);
        vstore16(convert_char16(high), block, to + 64);
        vstore4(-8 * sums[block], block, (CHUNK_OF(int)*)(to + 128));
    }
    vstore16((float16)(scale.xxxx, scale.yyyy, scale.zzzz, scale.wwww), 0, (CHUNK_OF(float)*)(to + 192));
    const int4 totals = FOLD(sums[0], sums[1], sums[2], sums[3], SUM_OF_INTS);
    vstore4(scale * convert_float4(totals), row, (CHUNK_OF(float)*)(chunk + SUMS_AT));
}

static inline void put_mask(long count, CHUNK* chunk)
{
    *(CHUNK_OF(uint)*)(chunk + MASK_AT) = count >= 4 ? 0xffffu : (1u << (4 * count)) - 1u;
}

#if ROWS > 1
// Chunks of x, a work-item one of ROWS rows: [rows / ROWS][depth / INPUTS]. Rows beyond the last repeat it.
__kernel void put_chunks(const __global storage_t(X)* x, ulong x_offset, __global char* chunks, ulong chunks_offset,
                         int4_problem p)
{
    const long number = get_global_id(0), first = (long)get_global_id(1) * ROWS;
    const long count = (p.depth + INPUTS - 1) / INPUTS, blocks = p.depth / 32 - 4 * number;
    if (number >= count || first >= p.rows)
        return;
    __global char* chunk = chunks + chunks_offset + (first / ROWS * count + number) * CHUNK_BYTES;
    for (long row = 0; row < ROWS; ++row)
        put_row(x + x_offset + min(first + row, p.rows - 1) * p.x_row + number * INPUTS, blocks, row, chunk);
    put_mask(blocks, chunk);
}
#endif

// A column's scales, one for each INPUTS / PIECES inputs, zeros behind the last.
static inline void put_line(const __global storage_t(X)* scales, const int4_problem* p, long pieces, __local float* to)
{
    const long groups = p->depth / p->group, repeats = p->group * PIECES / INPUTS;
    long piece = 0;
    for (long group = 0; group < groups; ++group) {
        const float scale = load(X, scales, group * p->scale_group);
        for (long i = 0; i < repeats; ++i)
            to[piece++] = scale;
    }
    for (; piece < pieces; ++piece)
        to[piece] = 0;
}

// Of x: [ROWS][groups].
static inline void sum_groups(const CHUNK* chunks, const int4_problem* p, __local float* sums)
{
    const long groups = p->depth / p->group, blocks = p->group / 32;
    for (long r = 0; r < ROWS; ++r)
        for (long group = 0; group < groups; ++group) {
            float sum = 0;
            for (long block = group * blocks; block < (group + 1) * blocks; ++block)
                sum += ((const CHUNK_OF(float)*)(chunks + block / 4 * CHUNK_BYTES + SUMS_AT))[4 * r + block % 4];
            sums[r * groups + group] = sum;
        }
}

// What zero points add to a column, to be summed.
static inline float16 offsets_of(const __global storage_t(X)* zeros, long step, long groups,
                                 const __local float* x_sums)
{
    float16 sums = 0;
    long group = 0;
    if (step == 1)
        for (; group + 16 <= groups; group += 16)
            sums = fma(load_vector(X, zeros, group), vload16(0, x_sums + group), sums);
    for (; group < groups; ++group)
        sums.x = fma(load(X, zeros, group * step), x_sums[group], sums.x);
    return sums;
}

// `memory`: of one row its chunks, scales of the columns at a time, sums of x's groups, sums of the columns.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void multiply(const __global storage_t(X)* x, ulong x_offset, const __global char* chunks, ulong chunks_offset,
              const __global uchar* w, ulong w_offset, const __global storage_t(X)* scales, ulong scales_offset,
              const __global storage_t(X)* zeros, ulong zeros_offset, __global storage_t(X)* y, ulong y_offset,
              int4_problem p, __local float16* memory)
{
    const long begin = (long)get_group_id(0) * p.item_columns, end = min(p.columns, begin + p.item_columns);
    const long count = (p.depth + INPUTS - 1) / INPUTS, row = p.depth / 2, groups = p.depth / p.group;
    const long pieces = (count * PIECES + 15) / 16 * 16;
    const bool as_they_lie = sizeof(storage_t(X)) == 4 && p.scale_group == 1 && p.group * PIECES == INPUTS &&
                             groups == count * PIECES;   // scales
    __local char* free = (__local char*)memory;
#if ROWS == 1
    __local char* from = free;
    free += count * CHUNK_BYTES;
    for (long number = 0; number < count; ++number) {
        put_row(x + x_offset + number * INPUTS, p.depth / 32 - 4 * number, 0, from + number * CHUNK_BYTES);
        put_mask(p.depth / 32 - 4 * number, from + number * CHUNK_BYTES);
    }
#else
    const __global char* from = chunks + chunks_offset;
#endif
    __local float* lines = (__local float*)free;
    __local float* sums = lines + p.block_columns * pieces;
    __local float* x_sums = sums + p.block_columns * (16 * ROWS);
    scales += scales_offset;
    zeros += zeros_offset;
    y += y_offset;
    // Fours of columns begin no later than four before the last, so that some may be computed twice. No more at a time
    // than there are.
    long size;
    for (long j = begin; j < end; j += size) {
        size = min((min(end - j, p.block_columns) + 3) / 4 * 4, p.columns / 4 * 4);
        const long column = min(j, p.columns - size);
        for (long c = 0; c < size && !as_they_lie; ++c)
            put_line(scales + (column + c) * p.scale_column, &p, pieces, lines + c * pieces);
        const ulong line = as_they_lie ? (ulong)(scales + column * p.scale_column) : (ulong)lines;
        for (long first = 0; first < p.rows; first += ROWS) {
            const long place = first / ROWS * count * CHUNK_BYTES;
            const int4_columns of = {(ulong)(w + w_offset) + column * row, row, p.ahead, (ulong)(from + place), count,
                                     line, 4 * (as_they_lie ? p.scale_column : pieces), (ulong)sums, size / 4};
            add_columns(of);
#ifdef ZEROS
            sum_groups(from + place, &p, x_sums);
#endif
            for (long c = 0; c < size; c += 4)
                for (long r = 0; r < ROWS && first + r < p.rows; ++r) {
                    float4 quarters[4];
                    UNROLL for (int i = 0; i < 4; ++i) {
                        float16 sum = vload16((c * ROWS + 4 * r) + i, sums);
#ifdef ZEROS
                        sum += offsets_of(zeros + (column + c + i) * p.zero_column, p.zero_group, groups,
                                          x_sums + r * groups);
#endif
                        quarters[i] = quarter(sum);
                    }
                    const float4 of = FOLD(quarters[0], quarters[1], quarters[2], quarters[3], SUM_OF_FLOATS);
                    __global storage_t(X)* to = y + (first + r) * p.y_row + column + c;
                    store(X, to, 0, of.x);
                    store(X, to, 1, of.y);
                    store(X, to, 2, of.z);
                    store(X, to, 3, of.w);
                }
        }
    }
}
