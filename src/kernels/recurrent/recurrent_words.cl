// Weights of bytes as fours along k, which vpdpbusd multiplies and adds, times rows of real numbers of which each is
// one or two unsigned bytes, and so many rows of dot_tile.cl: eight bits between the least and the largest of a row,
// as DynamicQuantizeLinear has them, or sixteen below the largest. Units lie by sixteens with their four gates side by
// side, so that a block of sums is all that their next state needs:
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
    int zero;            // the last digit of 0
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

#define MOST_DIGITS 2
// Few numbers take little time; rounding errors of many average out.
static inline uint digits_for(uint count) { return count > 384 ? 1 : 2; }

static inline float largest_of(float16 v)
{
    const float8 v8 = fmax(v.lo, v.hi);
    const float4 v4 = fmax(v8.lo, v8.hi);
    return fmax(fmax(v4.x, v4.y), fmax(v4.z, v4.w));
}

static inline float sum_of(float16 v)
{
    const float8 v8 = v.lo + v.hi;
    const float4 v4 = v8.lo + v8.hi;
    return (v4.x + v4.z) + (v4.y + v4.w);
}

static inline void put_digits(int16 number, digit_row row, uint digits, uchar* to)
{
    if (digits == 1) {
        vstore16(convert_uchar16(number + row.zero), 0, to);
        return;
    }
    const uint16 whole = as_uint16(number) + (1 << 15);
    vstore16(convert_uchar16(whole & 255), 0, to);
    vstore16(convert_uchar16(whole >> 8 & 255), 0, to + DOT_ROW);
}

// The numbers that digits count of 16 of a row.
static inline int16 counted(float16 v, digit_row row, uint digits)
{
    const float16 number = rint(v / row.unit);
    if (digits == 2)
        return convert_int16(number);
    return clamp(convert_int16(number), -row.zero, 255 - row.zero);
}

// `digits` for each of `count` numbers, low ones first; what is no number makes all of the row's results so.
static inline digit_row take_digits(const __global float* from, uint count, uint digits, uchar* to)
{
    const uint whole = count / 16 * 16;
    float16 rest = 0.0f;
    if (whole < count)
        rest = load_some(from + whole, count - whole);
    float16 largest = fmax(rest, 0.0f), least = fmin(rest, 0.0f), sum = rest;
    for (uint k = 0; k < whole; k += 16) {
        const float16 v = vload16(0, from + k);
        largest = fmax(largest, v);
        least = fmin(least, v);
        sum += v;
    }
    const float above = largest_of(largest), below = largest_of(-least);
    digit_row row = {digits == 1 ? (above + below) / 255 : fmax(above, below) / 32767, sum_of(sum), 0.0f, 128};
    const int is_number = row.total - row.total == 0;
    if (!(row.unit > 1e-35f) || !is_number)
        row.unit = 1.0f;
    if (digits == 1)
        row.zero = is_number ? clamp((int)rint(below / row.unit), 0, 255) : 0;
    int16 kept = 0;
    for (uint k = 0; k < whole; k += 16) {
        const int16 number = counted(vload16(0, from + k), row, digits);
        kept += number;
        put_digits(number, row, digits, to + k);
    }
    for (uint k = whole; k < 4 * words_along(count); k += 16) {
        const int16 number = k < count ? counted(rest, row, digits) : 0;
        kept += number;
        put_digits(number, row, digits, to + k);
    }
    const int8 k8 = kept.lo + kept.hi;
    const int4 k4 = k8.lo + k8.hi;
    if (!is_number)
        row.unit = NAN;
    row.lost = row.total - row.unit * (float)(k4.x + k4.y + k4.z + k4.w);
    return row;
}

// Sums of the digits of `count` rows with a block of units: [row][digit][gate][16].
static inline void sum_block(const uchar* rows, const digit_row* of_rows, uint count, uint digits, packed_weights w,
                             uint block, int* sums)
{
    const __global int *words = w.words + (ulong)block * BLOCK * w.along, *offsets = w.sums + block * BLOCK;
    for (uint c = 0; c < BLOCK; c += 16) {
        const int16 column = vload16(0, offsets + c);
        for (uint row = 0; row < count; ++row) {
            int* sum = sums + digits * row * BLOCK + c;
            if (digits == 2)
                vstore16((int16)0, 0, sum);
            vstore16(-of_rows[row].zero * column, 0, sum + (digits - 1) * BLOCK);
        }
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
    if (digits == 2)
        sum = fma(convert_float16(vload16(gate, sums + BLOCK)), 256.0f, sum);
    return of.scale * (sum * row.unit + of.mean * row.lost - of.zero * row.total);
}
