// One row times weights of four bits (clprim/quantized.hpp) by x86 processors with AVX-512 BF16. A number of four bits
// less eight is a bfloat16: vpermw finds 32 of them in a table, by the low five bits of sixteen (the fifth belongs to
// the number that follows, and every number is in the table twice), and vdpbf16ps multiplies them with x, a sum of
// PARTS bfloat16, which is exact for three, and two of a float16.
//
//     64 bytes of a column are 128 inputs, in       x is laid out once for all columns of a work-item, a vector of
//     blocks of 32, word i of a block:              pairs for each of these four:
//     +---------+---------+---------+---------+         [128 inputs][2i, 2i + 16, 2i + 1, 2i + 17][part][32 words]
//     |   2i    | 2i + 16 | 2i + 1  | 2i + 17 |
//     +---------+---------+---------+---------+     so a block's products are added in a quarter of the lanes.
//
// In assembly: see gemm/dot_tile.cl, which also says why nothing is named that changes.
//
// -DX=<dtype of x, scales and y> -DPARTS=1|2|3 -DPIECES=1|2|4: scales of 128 inputs [-DZEROS]
#define VEC 16
#include "core/dtype.cl"
#include "core/vector.cl"

typedef struct {
    long columns, depth;   // of W, and of the sum
    long group, scale_group, scale_column, zero_group, zero_column;
    long block_columns;    // of a work-item
} int4_problem;

__constant ushort numbers_of_four_bits[32] = {
    0xc100, 0xc0e0, 0xc0c0, 0xc0a0, 0xc080, 0xc040, 0xc000, 0xbf80, 0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0,
    0x40e0, 0xc100, 0xc0e0, 0xc0c0, 0xc0a0, 0xc080, 0xc040, 0xc000, 0xbf80, 0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0,
    0x40c0, 0x40e0};

#define TEXT(x) TEXT_OF(x)
#define TEXT_OF(x) #x
#define EACH_COLUMN(DO, t) DO(0, t) DO(1, t) DO(2, t) DO(3, t)
// Registers: sums of four columns in 0 to 3, those of 128 inputs in 4 to 7, their words in 8 to 11, then numbers, the
// table, and x's parts.
#define NUMBERS "%%zmm12"
#define TABLE "%%zmm13"
#define LAST_REGISTER 16
#define EACH_REGISTER(DO)                                                                                   \
    DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15) DO(16)
#define SAVE(r) "vmovdqu64 %%zmm" #r ", 64*" #r "(%4)\n\t"
#define RESTORE(r) "vmovdqu64 64*" #r "(%4), %%zmm" #r "\n\t"
#define MASK(m, lanes)                                                                                      \
    "kmovq %%k" #m ", 64*17+8*" #m "(%4)\n\tmovl $" #lanes ", 64*18(%4)\n\tkmovw 64*18(%4), %%k" #m "\n\t"
#define RESTORE_MASK(m) "kmovq 64*17+8*" #m "(%4), %%k" #m "\n\t"
#define SAVED (8 * 19)
#define CLEAR(c, t) "vpxord %%zmm" #c ", %%zmm" #c ", %%zmm" #c "\n\t"
#define COLUMN_AT_0 "(%0)"
#define COLUMN_AT_1 "(%0,%5,1)"
#define COLUMN_AT_2 "(%0,%5,2)"
#define COLUMN_AT_3 "(%0,%6,1)"
#define WORDS_0 "%%zmm8"
#define WORDS_1 "%%zmm9"
#define WORDS_2 "%%zmm10"
#define WORDS_3 "%%zmm11"
#define ADDED_0 "%%zmm4"
#define ADDED_1 "%%zmm5"
#define ADDED_2 "%%zmm6"
#define ADDED_3 "%%zmm7"
#define BEGIN(c, t)                                                                                         \
    "vmovdqu64 " COLUMN_AT_##c ", " WORDS_##c "\n\tvpxord " ADDED_##c ", " ADDED_##c ", " ADDED_##c "\n\t"
#define AHEAD_AT_0 "(%8)"
#define AHEAD_AT_1 "(%8,%5,1)"
#define AHEAD_AT_2 "(%8,%5,2)"
#define AHEAD_AT_3 "(%8,%6,1)"
#define AHEAD(c, t) "prefetcht0 " AHEAD_AT_##c "\n\t"   // of the next four columns
#define X_PART(t, part, r) "vmovdqu64 64*(" TEXT(PARTS) "*" #t "+" #part ")(%1), %%zmm" #r "\n\t"
#define ADD_PART(c, r) "vdpbf16ps %%zmm" #r ", " NUMBERS ", " ADDED_##c "\n\t"
#if PARTS == 1
#define X_PARTS(t) X_PART(t, 0, 14)
#define ADD_PARTS(c) ADD_PART(c, 14)
#elif PARTS == 2
#define X_PARTS(t) X_PART(t, 0, 14) X_PART(t, 1, 15)
#define ADD_PARTS(c) ADD_PART(c, 15) ADD_PART(c, 14)
#else
#define X_PARTS(t) X_PART(t, 0, 14) X_PART(t, 1, 15) X_PART(t, 2, 16)
#define ADD_PARTS(c) ADD_PART(c, 16) ADD_PART(c, 15) ADD_PART(c, 14)
#endif
#define MULTIPLY(c, t) "vpermw " TABLE ", " WORDS_##c ", " NUMBERS "\n\t" ADD_PARTS(c)
#define NEXT(c, t) "vpsrlw $4, " WORDS_##c ", " WORDS_##c "\n\t"
#define QUARTER(t) X_PARTS(t) EACH_COLUMN(MULTIPLY, t)
#define SCALE(c, piece, lanes)                                                                              \
    "vfmadd231ps 64*" #piece "+4*" #c "(%3)%{1to16%}, " ADDED_##c ", %%zmm" #c lanes "\n\t"
#if PIECES == 1
#define MASKS
#define RESTORE_MASKS
#define SCALE_ALL(c, t) SCALE(c, 0, "")
#elif PIECES == 2
#define MASKS MASK(1, 0x00ff) MASK(2, 0xff00)
#define RESTORE_MASKS RESTORE_MASK(1) RESTORE_MASK(2)
#define SCALE_ALL(c, t) SCALE(c, 0, "%{%%k1%}") SCALE(c, 1, "%{%%k2%}")
#else
#define MASKS MASK(1, 0x000f) MASK(2, 0x00f0) MASK(3, 0x0f00) MASK(4, 0xf000)
#define RESTORE_MASKS RESTORE_MASK(1) RESTORE_MASK(2) RESTORE_MASK(3) RESTORE_MASK(4)
#define SCALE_ALL(c, t)                                                                                     \
    SCALE(c, 0, "%{%%k1%}") SCALE(c, 1, "%{%%k2%}") SCALE(c, 2, "%{%%k3%}") SCALE(c, 3, "%{%%k4%}")
#endif
#define STORE(c, t) "vmovdqu64 %%zmm" #c ", 64*" #c "(%7)\n\t"

// Four columns, `row` bytes apart; `scales` of sixteen columns for each piece of k. Sums go to the first four vectors
// of `sums`; the fifth is the table.
static inline void add_columns(ulong w, ulong row, ulong x, ulong scales, ulong chunks, ulong sums)
{
    ulong kept[SAVED] __attribute__((aligned(64)));
    ulong ahead = w + 4 * row;
    __asm__ volatile(
        EACH_REGISTER(SAVE) MASKS
        "vmovdqu64 256(%7), " TABLE "\n\t"
        EACH_COLUMN(CLEAR, 0)
        "1:\n\t"
        EACH_COLUMN(BEGIN, 0)
        EACH_COLUMN(AHEAD, 0)
        QUARTER(0) EACH_COLUMN(NEXT, 0)
        QUARTER(1) EACH_COLUMN(NEXT, 1)
        QUARTER(2) EACH_COLUMN(NEXT, 2)
        QUARTER(3)
        EACH_COLUMN(SCALE_ALL, 0)
        "lea 64(%0), %0\n\t"
        "lea 256*" TEXT(PARTS) "(%1), %1\n\t"
        "lea 64*" TEXT(PIECES) "(%3), %3\n\t"
        "lea 64(%8), %8\n\t"
        "lea -1(%2), %2\n\txchg %2, %%rcx\n\tjrcxz 2f\n\txchg %2, %%rcx\n\tjmp 1b\n\t2:\n\txchg %2, %%rcx\n\t"
        EACH_COLUMN(STORE, 0)
        EACH_REGISTER(RESTORE) RESTORE_MASKS
        : "+r"(w), "+r"(x), "+r"(chunks), "+r"(scales)
        : "r"(kept), "r"(row), "r"(3 * row), "r"(sums), "r"(ahead)
        : "memory");
}

static inline float sum_of(float16 v)
{
    const float8 a = v.lo + v.hi;
    const float4 b = a.lo + a.hi;
    return (b.x + b.y) + (b.z + b.w);
}

// Eight numbers as PARTS bfloat16, 32 words apart. Three hold all bits of a float, two those of a float16; one alone
// is rounded. Infinities and NaN have nothing left for the others.
static inline void put_parts(float8 v, __local ushort* to)
{
    for (int part = 0; part < PARTS; ++part) {
        const uint8 bits = as_uint8(v);
        const uint8 finite = (bits & 0x7f800000u) != 0x7f800000u ? (uint8)~0u : (uint8)0u;
        const uint8 rounded = bits + (finite & (PARTS == 1 ? 0x7fffu + ((bits >> 16) & 1u) : (uint8)0u));
        const uint8 nan = (bits & 0x7fffffffu) > 0x7f800000u ? (uint8)0x400000u : (uint8)0u;
        const uint8 top = (rounded | nan) & 0xffff0000u;
        vstore8(convert_ushort8(top >> 16), 0, to + 32 * part);
        v = as_float8(as_uint8(v - as_float8(top)) & finite);
    }
}

// Of sixteen columns, of which there are `count`: numbers `step` apart.
static inline float16 line_of(const __global storage_t(X)* p, long step, long count)
{
    if (step == 1 && count >= 16)
        return load_vector(X, p, 0);
    if (step == 2 && count > 16) {
        const float16 first = load_vector(X, p, 0), second = load_vector(X, p, 16);
        return (float16)(first.even, second.even);
    }
    float values[16];
    for (int i = 0; i < 16; ++i)
        values[i] = load(X, p, min((long)i, count - 1) * step);
    return vload16(0, values);
}

// `memory`: x's words, and behind them scales of sixteen columns.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void multiply(const __global storage_t(X)* x, ulong x_offset, const __global uchar* w, ulong w_offset,
              const __global storage_t(X)* scales, ulong scales_offset, const __global storage_t(X)* zeros,
              ulong zeros_offset, __global storage_t(X)* y, ulong y_offset, int4_problem p, __local uint* memory)
{
    const long begin = (long)get_group_id(0) * p.block_columns, end = min(p.columns, begin + p.block_columns);
    const long chunks = p.depth / 128, row = p.depth / 2;
    __local ushort* words = (__local ushort*)memory;
    __local float* lines = (__local float*)(memory + chunks * 64 * PARTS);
    __local float* x_sums = lines + chunks * PIECES * 16;
    float sums[80] __attribute__((aligned(64)));
    for (int i = 0; i < 32; ++i)
        ((ushort*)(sums + 64))[i] = numbers_of_four_bits[i];
    x += x_offset;
    scales += scales_offset;
    zeros += zeros_offset;
    y += y_offset;

    for (long block = 0; block < p.depth / 32; ++block) {
        const float16 a = load_vector(X, x, 32 * block), b = load_vector(X, x, 32 * block + 16);
        __local ushort* to = words + block / 4 * (128 * PARTS) + block % 4 * 8;
        put_parts(a.even, to);
        put_parts(b.even, to + 32 * PARTS);
        put_parts(a.odd, to + 64 * PARTS);
        put_parts(b.odd, to + 96 * PARTS);
#ifdef ZEROS
        x_sums[block] = sum_of(a + b);
#endif
    }
    for (long j = begin; j < end; j += 16) {
        const long count = p.columns - j;
        float16 added = 0;
        long group = 0, within = 0;
        float16 line = 0;
        for (long piece = 0; piece < chunks * PIECES; ++piece) {
            if (within == 0) {
                line = line_of(scales + group * p.scale_group + j * p.scale_column, p.scale_column, count);
#ifdef ZEROS
                float x_sum = 0;
                for (long block = group * (p.group / 32); block < (group + 1) * (p.group / 32); ++block)
                    x_sum += x_sums[block];
                added = fma(line_of(zeros + group * p.zero_group + j * p.zero_column, p.zero_column, count),
                            (float16)x_sum, added);
#endif
            }
            vstore16(line, piece, lines);
            within += 128 / PIECES;
            if (within >= p.group) {
                within = 0;
                ++group;
            }
        }
        float offsets[16];
        vstore16(added, 0, offsets);
        for (int c = 0; c < 16 && j + c < end; c += 4) {
            add_columns((ulong)(w + w_offset) + (j + c) * row, row, (ulong)words, (ulong)(lines + c), chunks,
                        (ulong)sums);
            for (int i = 0; i < 4; ++i)
                store(X, y, j + c + i, sum_of(vload16(i, sums)) + offsets[c + i]);
        }
    }
}
