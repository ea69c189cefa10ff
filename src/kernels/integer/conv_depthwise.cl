// Depthwise convolutions of eight-bit integers on CPUs, of x with channels innermost: sixteen channels at a time, taps
// in pairs of int16 whose products are added by one instruction.
//
//     weights: [sixteen channels][their sums, then pairs of taps][channel] words of two int16, zero points taken off
//
// Places outside of x count as its zero point, which is taken off the sums.
//
// -DX=int8|uint8 (what is read or packed) -DY=int32|float32|int8|uint8
#include "kernels/integer/conv_epilogue.cl"

#define LANES 16
#define MOST_TAPS 128

// The first channel of a block: the last one ends with the last channel.
static inline long first_channel(const integer_conv_problem* p, long block)
{
    return min(block * LANES, max(p->groups - LANES, 0l));
}

__kernel void pack_depthwise(const __global storage_t(X)* w, ulong w_offset, const __global storage_t(X)* zeros,
                             ulong zeros_offset, __global int* words, ulong words_offset, integer_conv_problem p)
{
    const long block = get_global_id(0), taps = p.window[0] * p.window[1] * p.window[2], pairs = (taps + 1) / 2;
    words += words_offset + block * (pairs + 1) * LANES;
    __global short* to = (__global short*)(words + LANES);
    for (int j = 0; j < LANES; ++j) {
        const long o = first_channel(&p, block) + j;
        int sum = 0;
        for (long tap = 0; tap < 2 * pairs; ++tap) {
            const long kx = tap % p.window[2], ky = tap / p.window[2] % p.window[1];
            const long kz = tap / p.window[2] / p.window[1];
            int value = 0;
            if (o < p.groups && tap < taps)
                value = (int)w[w_offset + o * p.w_strides[0] + kz * p.w_strides[2] + ky * p.w_strides[3] +
                               kx * p.w_strides[4]] - (int)AT(zeros + zeros_offset, p.w_zero, o);
            to[(tap / 2 * LANES + j) * 2 + tap % 2] = (short)value;
            sum += value;
        }
        words[j] = sum;
    }
}

#define LANES_int8 char16
#define LANES_uint8 uchar16
typedef CLPRIM_CAT(LANES_, X) lanes;

static inline int8 add_pairs(short16 a, short16 b, int8 sum)
{
    const int16 products = convert_int16(a) * convert_int16(b);
    return sum + (products.even + products.odd);
}

// Sixteen channels, or as many as there are.
static inline lanes get(const __global storage_t(X)* x, long count)
{
    if (count >= LANES)
        return vload16(0, x);
    storage_t(X) each[LANES];
    for (int j = 0; j < LANES; ++j)
        each[j] = j < count ? x[j] : (storage_t(X))0;
    return vload16(0, each);
}

// A work-item owns sixteen channels of a row of results.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void depthwise(const __global storage_t(X)* x, ulong x_offset, const __global storage_t(X)* x_zero, ulong x_zero_offset,
               const __global int* words, ulong words_offset, ENDING_ARGUMENTS, __global storage_t(Y)* y,
               ulong y_offset, integer_conv_problem p)
{
    const conv_ending ending = ENDING(p);
    const long taps = p.window[0] * p.window[1] * p.window[2], pairs = (taps + 1) / 2;
    const long row = get_group_id(1), channel = first_channel(&p, get_group_id(0));
    const long count = min((long)LANES, p.groups - channel);
    const long row_y = row % p.out[1], row_z = row / p.out[1] % p.out[0], image = row / p.out[1] / p.out[0];
    const storage_t(X) zero = AT(x_zero + x_zero_offset, p.x_zero, 0);
    const long z = row_z * p.stride[0] - p.pad[0], line = row_y * p.stride[1] - p.pad[1];
    x += x_offset + image * p.x_strides[0] + channel + z * p.x_strides[2] + line * p.x_strides[3];
    y += y_offset + image * p.y_strides[0] + row_z * p.y_strides[2] + row_y * p.y_strides[3] + channel * p.y_strides[1];
    words += words_offset + get_group_id(0) * (pairs + 1) * LANES;
    const __global short* w = (const __global short*)(words + LANES);
    const int8 of_weights[2] = {vload8(0, words) * (int)zero, vload8(1, words) * (int)zero};   // to be taken off
    // Where taps lie from the first on, and which of them lie in rows inside of x.
    long places[MOST_TAPS], columns[MOST_TAPS];
    int inside[MOST_TAPS];
    for (long tap = 0; tap < taps; ++tap) {
        const long kx = tap % p.window[2] * p.dilation[2], ky = tap / p.window[2] % p.window[1] * p.dilation[1];
        const long kz = tap / p.window[2] / p.window[1] * p.dilation[0];
        places[tap] = kz * p.x_strides[2] + ky * p.x_strides[3] + kx * p.x_strides[4];
        columns[tap] = kx;
        inside[tap] = z + kz >= 0 && z + kz < p.in[0] && line + ky >= 0 && line + ky < p.in[1];
    }
    lanes numbers[MOST_TAPS + 1];
    numbers[taps] = (lanes)0;
    for (long column = 0; column < p.out[2]; ++column) {
        const long first = column * p.stride[2] - p.pad[2];
        const __global storage_t(X)* from = x + first * p.x_strides[4];
        for (long tap = 0; tap < taps; ++tap)
            numbers[tap] = inside[tap] && first + columns[tap] >= 0 && first + columns[tap] < p.in[2]
                               ? get(from + places[tap], count)
                               : (lanes)zero;
        int8 sums[2] = {-of_weights[0], -of_weights[1]};
        for (long pair = 0; pair < pairs; ++pair) {
            const lanes a = numbers[2 * pair], b = numbers[2 * pair + 1];
            const lanes one = (lanes)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6,
                                      b.s6, a.s7, b.s7);
            const lanes two = (lanes)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se,
                                      b.se, a.sf, b.sf);
            sums[0] = add_pairs(convert_short16(one), vload16(2 * pair, w), sums[0]);
            sums[1] = add_pairs(convert_short16(two), vload16(2 * pair + 1, w), sums[1]);
        }
        __global storage_t(Y)* to = y + column * p.y_strides[4];
        if (count == LANES && p.y_strides[1] == 1) {
            const results one_half = ended_vector(&ending, sums[0], channel);
            const results other_half = ended_vector(&ending, sums[1], channel + 8);
            STORE_RESULTS(one_half, other_half, to);
        } else {
            int each[LANES];
            vstore8(sums[0], 0, each);
            vstore8(sums[1], 1, each);
            for (long j = 0; j < count; ++j)
                to[j * p.y_strides[1]] = (storage_t(Y))ended(&ending, each[j], channel + j);
        }
    }
}
