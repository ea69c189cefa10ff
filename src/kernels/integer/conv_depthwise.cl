// Depthwise convolutions of eight-bit integers on CPUs, of x with channels innermost: sixteen channels at a time, taps
// in pairs of int16 whose products are added by one instruction.
//
//     weights: [sixteen channels][pair of taps][channel] words of two int16, zero points taken off
//
// -DX=int8|uint8 (what is read or packed) -DY=int32|float32|int8|uint8
#include "kernels/integer/conv_epilogue.cl"

#define LANES 16
#define UNROLL _Pragma("unroll")

__kernel void pack_depthwise(const __global storage_t(X)* w, ulong w_offset, const __global storage_t(X)* zeros,
                             ulong zeros_offset, __global int* words, ulong words_offset, integer_conv_problem p)
{
    const long block = get_global_id(0), taps = p.window[0] * p.window[1] * p.window[2], pairs = (taps + 1) / 2;
    __global short* to = (__global short*)(words + words_offset + block * pairs * LANES);
    for (long tap = 0; tap < 2 * pairs; ++tap) {
        const long kx = tap % p.window[2], ky = tap / p.window[2] % p.window[1], kz = tap / p.window[2] / p.window[1];
        for (int j = 0; j < LANES; ++j) {
            const long o = block * LANES + j;
            to[(tap / 2 * LANES + j) * 2 + tap % 2] =
                o < p.groups && tap < taps
                    ? (short)((int)w[w_offset + o * p.w_strides[0] + kz * p.w_strides[2] + ky * p.w_strides[3] +
                                     kx * p.w_strides[4]] - (int)AT(zeros + zeros_offset, p.w_zero, o))
                    : (short)0;
        }
    }
}

// Sixteen channels of a place of x less the zero point, of which `count` are there; zeros outside.
static inline short16 get(const __global storage_t(X)* x, const integer_conv_problem* p, long4 at, short zero,
                          long count)
{
    if (at.x < 0 || at.x >= p->in[0] || at.y < 0 || at.y >= p->in[1] || at.z < 0 || at.z >= p->in[2])
        return 0;
    x += at.x * p->x_strides[2] + at.y * p->x_strides[3] + at.z * p->x_strides[4];
    if (count >= LANES)
        return convert_short16(vload16(0, x)) - (short16)zero;
    short each[LANES];
    for (int j = 0; j < LANES; ++j)
        each[j] = j < count ? (short)((short)x[j] - zero) : (short)0;
    return vload16(0, each);
}

static inline int8 add_pairs(short16 a, short16 b, int8 sum)
{
    const int16 products = convert_int16(a) * convert_int16(b);
    return sum + (products.even + products.odd);
}

// A work-item owns sixteen channels of a row of results.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void depthwise(const __global storage_t(X)* x, ulong x_offset, const __global storage_t(X)* x_zero, ulong x_zero_offset,
               const __global int* words, ulong words_offset, ENDING_ARGUMENTS, __global storage_t(Y)* y,
               ulong y_offset, integer_conv_problem p)
{
    const conv_ending ending = ENDING(p);
    const long taps = p.window[0] * p.window[1] * p.window[2], pairs = (taps + 1) / 2;
    const long row = get_group_id(1), channel = get_group_id(0) * LANES, count = min((long)LANES, p.groups - channel);
    const long row_y = row % p.out[1], row_z = row / p.out[1] % p.out[0], image = row / p.out[1] / p.out[0];
    const short zero = (short)AT(x_zero + x_zero_offset, p.x_zero, 0);
    x += x_offset + image * p.x_strides[0] + channel;
    y += y_offset + image * p.y_strides[0] + row_z * p.y_strides[2] + row_y * p.y_strides[3] + channel * p.y_strides[1];
    const __global short* w = (const __global short*)(words + words_offset + get_group_id(0) * pairs * LANES);
    for (long column = 0; column < p.out[2]; ++column) {
        const long4 corner = (long4)(row_z * p.stride[0] - p.pad[0], row_y * p.stride[1] - p.pad[1],
                                     column * p.stride[2] - p.pad[2], 0);
        int8 sums[2] = {0, 0};
        long4 tap = 0;
        for (long pair = 0; pair < pairs; ++pair) {
            short16 each[2];
            UNROLL for (int side = 0; side < 2; ++side)
            {
                each[side] = 2 * pair + side < taps
                                 ? get(x, &p, corner + tap * (long4)(p.dilation[0], p.dilation[1], p.dilation[2], 0),
                                       zero, count)
                                 : (short16)0;
                if (++tap.z == p.window[2]) {
                    tap.z = 0;
                    if (++tap.y == p.window[1]) {
                        tap.y = 0;
                        ++tap.x;
                    }
                }
            }
            const short16 a = each[0], b = each[1];
            sums[0] = add_pairs((short16)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6,
                                          b.s6, a.s7, b.s7), vload16(2 * pair, w), sums[0]);
            sums[1] = add_pairs((short16)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se,
                                          b.se, a.sf, b.sf), vload16(2 * pair + 1, w), sums[1]);
        }
        __global storage_t(Y)* to = y + column * p.y_strides[4];
        if (count == LANES && p.y_strides[1] == 1) {
            const results one = ended_vector(&ending, sums[0], channel);
            const results two = ended_vector(&ending, sums[1], channel + 8);
            STORE_RESULTS(one, two, to);
        } else {
            int each[LANES];
            vstore8(sums[0], 0, each);
            vstore8(sums[1], 1, each);
            for (long j = 0; j < count; ++j)
                to[j * p.y_strides[1]] = (storage_t(Y))ended(&ending, each[j], channel + j);
        }
    }
}
