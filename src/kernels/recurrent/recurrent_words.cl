// Weights of bytes as fours along k, which vpdpbusd multiplies and adds, times rows of real numbers of which each is
// two or three unsigned bytes, and so many rows of dot_tile.cl: sixteen bits below the largest of its row, or as many
// as float32 has. Units lie by sixteens with their four gates side by side, so that a block of sums is all that their
// next state needs:
//
//     [direction][unit / 16][gate][k / 4][16 units] words, of as many units and k as fill whole tiles, zeros behind;
//     [direction][unit / 16][gate][16] sums over k, which take off what makes the rows' numbers positive
//
// Words are of signed bytes: unsigned ones are less 128.
#define DOT_ROW 1088   // the most numbers of a row, and some more so that rows do not compete for places in a cache
#define DOT_STEP_ROWS 64
#define DOT_STEP_WEIGHTS 1024
#define DOT_STEP(WORD)                                                                                      \
    WORD(0) WORD(1) WORD(2) WORD(3) WORD(4) WORD(5) WORD(6) WORD(7)                                         \
    WORD(8) WORD(9) WORD(10) WORD(11) WORD(12) WORD(13) WORD(14) WORD(15)
#define DOT_SUM_ROW 256
#if DOT_VECTOR == 64
#define DOT_SUM_SECOND 64
#else
#define DOT_SUM_SECOND 32
#endif
#include "kernels/gemm/dot_tile.cl"

#define PANEL 16             // units of a block
#define BLOCK (4 * PANEL)    // columns of a block
static inline uint words_along(uint k) { return (k + 63) / 64 * 16; }
static inline uint blocks_of(uint hidden) { return (hidden + PANEL - 1) / PANEL; }
static inline ulong words_of_direction(uint k, uint hidden)
{
    return (ulong)blocks_of(hidden) * BLOCK * words_along(k);
}

// The words of `direction`, and its sums behind the words of all.
typedef struct {
    const __global int *words, *sums;
    uint along;
} packed_weights;

static inline packed_weights weights_of(const __global int* all, uint direction, uint directions, uint k, uint hidden)
{
    const ulong words = words_of_direction(k, hidden);
    return (packed_weights){all + direction * words,
                            all + directions * words + (ulong)direction * blocks_of(hidden) * BLOCK, words_along(k)};
}

typedef struct {
    float unit, total;   // what a number's digits count, the sum of the numbers
    float lost;          // of that by rounding, which a column's mean is multiplied with
} digit_row;

// Numbers from `from` on, of which `count` are there.
static inline float16 load_some(const __global float* from, uint count)
{
    if (count >= 16)
        return vload16(0, from);
    float rest[16];
    for (uint i = 0; i < 16; ++i)
        rest[i] = i < count ? from[i] : 0.0f;
    return vload16(0, rest);
}

static inline void store_some(float16 v, __global float* to, uint count)
{
    if (count >= 16) {
        vstore16(v, 0, to);
        return;
    }
    float each[16];
    vstore16(v, 0, each);
    for (uint i = 0; i < count; ++i)
        to[i] = each[i];
}

#define MOST_DIGITS 3
// Few numbers take little time; rounding errors of many average out.
static inline uint digits_for(uint count) { return count > 384 ? 2 : 3; }

static inline void put_digits(int16 number, uint digits, uchar* to)
{
    const uint16 whole = as_uint16(number) + (1 << (8 * digits - 1));
    vstore16(convert_uchar16(whole & 255), 0, to);
    vstore16(convert_uchar16(whole >> 8 & 255), 0, to + DOT_ROW);
    if (digits == 3)
        vstore16(convert_uchar16(whole >> 16), 0, to + 2 * DOT_ROW);
}

// `digits` for each of `count` numbers, low ones first; what is no number makes all of the row's results so.
static inline digit_row take_digits(const __global float* from, uint count, uint digits, uchar* to)
{
    const float steps = digits == 2 ? 32767.0f : 127 * 65536.0f;
    const uint whole = count / 16 * 16;
    float16 rest = 0.0f;
    if (whole < count)
        rest = load_some(from + whole, count - whole);
    float16 largest = fabs(rest), sum = rest;
    for (uint k = 0; k < whole; k += 16) {
        const float16 v = vload16(0, from + k);
        largest = fmax(largest, fabs(v));
        sum += v;
    }
    const float8 l8 = fmax(largest.lo, largest.hi), s8 = sum.lo + sum.hi;
    const float4 l4 = fmax(l8.lo, l8.hi), s4 = s8.lo + s8.hi;
    const float most = fmax(fmax(l4.x, l4.y), fmax(l4.z, l4.w)), total = (s4.x + s4.z) + (s4.y + s4.w);
    const float factor = most > 1e-30f ? steps / most : 0.0f;
    int16 kept = 0;
    for (uint k = 0; k < whole; k += 16) {
        const int16 number = convert_int16(rint(vload16(0, from + k) * factor));
        kept += number;
        put_digits(number, digits, to + k);
    }
    for (uint k = whole; k < 4 * words_along(count); k += 16) {
        const int16 number = k < count ? convert_int16(rint(rest * factor)) : 0;
        kept += number;
        put_digits(number, digits, to + k);
    }
    const int8 k8 = kept.lo + kept.hi;
    const int4 k4 = k8.lo + k8.hi;
    const float unit = total - total == 0 ? most / steps : NAN;
    // Where all digits of float32 are there none is lost, and their sum might not fit.
    return (digit_row){unit, total, digits == 2 ? total - unit * (float)(k4.x + k4.y + k4.z + k4.w) : 0.0f};
}

// Sums of the digits of `count` rows with a block of units: [row][digit][gate][16].
static inline void sum_block(const uchar* rows, uint count, uint digits, packed_weights w, uint block, int* sums)
{
    const __global int *words = w.words + (ulong)block * BLOCK * w.along, *offsets = w.sums + block * BLOCK;
    for (uint c = 0; c < BLOCK; c += 16) {
        const int16 offset = -128 * vload16(0, offsets + c);
        for (uint row = 0; row < count; ++row)
            for (uint d = 0; d < digits; ++d)
                vstore16(d < digits - 1 ? (int16)0 : offset, 0, sums + (digits * row + d) * BLOCK + c);
    }
    for (uint c = 0; c < BLOCK; c += DOT_COLUMNS) {
        const dot_operands of = {(ulong)rows, (ulong)(words + c * w.along), (ulong)(sums + c),
                                 DOT_VECTOR == 64 ? w.along * 64ul : 32ul, w.along / 16};
        dot_tile(of, digits * count);
    }
}

// The means of a gate's columns of a block, over `count` numbers.
static inline float16 means_of(packed_weights w, uint block, uint gate, uint count)
{
    return convert_float16(vload16(gate, w.sums + block * BLOCK)) / (float)count;
}

// What columns have for all rows, and a row's sums of a gate as numbers.
typedef struct {
    float16 scale, zero, mean;
} gate_columns;

static inline float16 gate_of(const int* sums, uint digits, uint gate, digit_row row, gate_columns of)
{
    float16 sum = convert_float16(vload16(gate, sums));
    sum = fma(convert_float16(vload16(gate, sums + BLOCK)), 256.0f, sum);
    if (digits == 3)
        sum = fma(convert_float16(vload16(gate, sums + 2 * BLOCK)), 65536.0f, sum);
    return of.scale * (sum * row.unit + of.mean * row.lost - of.zero * row.total);
}
