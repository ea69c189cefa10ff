// Depthwise convolutions of eight-bit integers on CPUs whose kernels are 3x3 or 5x5, one or two columns of x apart
// for neighbouring results: a number of x is read once for all results of a row that it is a tap of. Rows of taps are
// taken in pairs of int16, whose products one instruction adds:
//
//     weights: [sixteen channels][pair of rows][tap of a row][channel] words of two int16, zero points taken off
//
// Columns outside of x count as its zero point, which is taken off the sums; rows outside have no weights.
//
// -DX=int8|uint8 (what is read or packed) -DY=int32|float32|int8|uint8
#include "kernels/integer/conv_epilogue.cl"

#define LANES 16
#define UNROLL __attribute__((opencl_unroll_hint(8)))

// The first channel of a block: the last one ends with the last channel.
static inline long first_channel(const integer_conv_problem* p, long block)
{
    return min(block * LANES, max(p->groups - LANES, 0l));
}

__kernel void pack_depthwise(const __global storage_t(X)* w, ulong w_offset, const __global storage_t(X)* zeros,
                             ulong zeros_offset, __global int* words, ulong words_offset, integer_conv_problem p)
{
    const long block = get_global_id(0), pairs = (p.window[1] + 1) / 2, taps = p.window[2];
    __global short* to = (__global short*)(words + words_offset + block * pairs * taps * LANES);
    for (int j = 0; j < LANES; ++j) {
        const long o = first_channel(&p, block) + j;
        for (long row = 0; row < 2 * pairs; ++row)
            for (long tap = 0; tap < taps; ++tap)
                to[((row / 2 * taps + tap) * LANES + j) * 2 + row % 2] =
                    row < p.window[1] ? (short)((int)w[w_offset + o * p.w_strides[0] + row * p.w_strides[3] +
                                                       tap * p.w_strides[4]] -
                                                (int)AT(zeros + zeros_offset, p.w_zero, o))
                                      : (short)0;
    }
}

static inline int8 add_pairs(int8 a, int8 b, int8 sum)
{
    const int16 products = convert_int16(as_short16(a)) * convert_int16(as_short16(b));
    return sum + (products.even + products.odd);
}

// Eight channels of two rows as words.
static inline int8 words_of(const __global storage_t(X)* one, const __global storage_t(X)* two)
{
    return (convert_int8(vload8(0, one)) & 0xffff) | convert_int8(vload8(0, two)) << 16;
}

// A work-item owns sixteen channels of a row of results. Of a kernel of TAPS x TAPS, REACH columns from result to
// result.
#define DEFINE_DEPTHWISE(TAPS, REACH)                                                                       \
    __kernel __attribute__((reqd_work_group_size(1, 1, 1)))                                                 \
    void depthwise_##TAPS##_##REACH(const __global storage_t(X)* x, ulong x_offset,                         \
                                    const __global storage_t(X)* x_zero, ulong x_zero_offset,               \
                                    const __global int* words, ulong words_offset, ENDING_ARGUMENTS,        \
                                    __global storage_t(Y)* y, ulong y_offset, integer_conv_problem p)       \
    {                                                                                                       \
        const conv_ending ending = ENDING(p);                                                               \
        const long row = get_group_id(1), all = first_channel(&p, get_group_id(0));                         \
        const long row_y = row % p.out[1], image = row / p.out[1], line = row_y * p.stride[1] - p.pad[1];   \
        const int zero = (int)AT(x_zero + x_zero_offset, p.x_zero, 0);                                      \
        const int8 outside = (zero & 0xffff) | zero << 16;                                                  \
        x += x_offset + image * p.x_strides[0];                                                             \
        words += words_offset + get_group_id(0) * PAIRS_OF(TAPS) * TAPS * LANES;                            \
        for (long part = 0; part < LANES; part += 8) {                                                      \
            const long channel = all + part;                                                                \
            const vector_ending end = ending_of(&ending, channel);                                          \
            const __global storage_t(X)* rows[2 * PAIRS_OF(TAPS)];                                          \
            int8 weights[PAIRS_OF(TAPS)][TAPS], columns[PAIRS_OF(TAPS)][TAPS], begin = end.bias;            \
            UNROLL for (int r = 0; r < 2 * PAIRS_OF(TAPS); ++r)                                             \
                rows[r] = x + channel + clamp(line + r * p.dilation[1], 0l, p.in[1] - 1) * p.x_strides[3];  \
            UNROLL for (int q = 0; q < PAIRS_OF(TAPS); ++q)                                                 \
            {                                                                                               \
                const long first = line + 2 * q * p.dilation[1], second = first + p.dilation[1];            \
                const int inside = (first >= 0 && first < p.in[1] ? 0xffff : 0) |                           \
                                   (second >= 0 && second < p.in[1] ? (int)0xffff0000 : 0);                 \
                UNROLL for (int t = 0; t < TAPS; ++t)                                                       \
                {                                                                                           \
                    weights[q][t] = vload8(0, words + (q * TAPS + t) * LANES + part) & inside;              \
                    begin -= ((weights[q][t] << 16 >> 16) + (weights[q][t] >> 16)) * zero;                  \
                }                                                                                           \
            }                                                                                               \
            long column = -p.pad[2];                                                                        \
            UNROLL for (int t = REACH; t < TAPS; ++t) { TAKE_COLUMN(TAPS, t) }                              \
            __global storage_t(Y)* to = y + y_offset + image * p.y_strides[0] + row_y * p.y_strides[3] + channel; \
            for (long i = 0; i < p.out[2]; ++i, to += p.y_strides[4]) {                                     \
                UNROLL for (int t = 0; t < TAPS - REACH; ++t)                                               \
                    UNROLL for (int q = 0; q < PAIRS_OF(TAPS); ++q) columns[q][t] = columns[q][t + REACH];  \
                UNROLL for (int t = TAPS - REACH; t < TAPS; ++t) { TAKE_COLUMN(TAPS, t) }                   \
                int8 sums = begin;                                                                          \
                UNROLL for (int t = 0; t < TAPS; ++t)                                                       \
                    UNROLL for (int q = 0; q < PAIRS_OF(TAPS); ++q) sums =                                  \
                        add_pairs(columns[q][t], weights[q][t], sums);                                      \
                const results ended = ended_eight(&end, sums);                                              \
                STORE_EIGHT(ended, to);                                                                     \
            }                                                                                               \
        }                                                                                                   \
    }
#define PAIRS_OF(TAPS) ((TAPS + 1) / 2)
// The next column becomes number t.
#define TAKE_COLUMN(TAPS, t)                                                                                \
    const long at = column * p.x_strides[4];                                                                \
    const int there = column >= 0 && column < p.in[2];                                                      \
    ++column;                                                                                               \
    UNROLL for (int q = 0; q < PAIRS_OF(TAPS); ++q) columns[q][t] =                                         \
        there ? words_of(rows[2 * q] + at, rows[2 * q + 1] + at) : outside;
DEFINE_DEPTHWISE(3, 1)
DEFINE_DEPTHWISE(3, 2)
DEFINE_DEPTHWISE(5, 1)
DEFINE_DEPTHWISE(5, 2)
