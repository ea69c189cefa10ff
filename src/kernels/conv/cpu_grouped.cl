// Convolution on a CPU device in groups of SIDE channels each on both sides, channels innermost: sixteen channels of
// the result are whole groups, whose sources are the sixteen channels at the same place. Number c of each group goes to
// all lanes of its group and is multiplied with the weights that these have for it:
//
//   result[pixel][lane] += source[pixel, tap][lane / SIDE * SIDE + c] * weights[tap][c][lane]
//
// Forward and data passes, and the weight gradient, which adds source * dy up likewise. The last sixteen channels may
// begin within those before. Built with -DSIDE=1|2|4|8.
#include "kernels/conv/lanes.cl"
#include "kernels/conv/implicit_problem.cl"

#if SIDE == 1
#define EACH_CHANNEL(F) F(0, s0123456789abcdef)
#elif SIDE == 2
#define EACH_CHANNEL(F) F(0, s0022446688aaccee) F(1, s1133557799bbddff)
#elif SIDE == 4
#define EACH_CHANNEL(F)                                                                                         \
    F(0, s000044448888cccc) F(1, s111155559999dddd) F(2, s22226666aaaaeeee) F(3, s33337777bbbbffff)
#else
#define EACH_CHANNEL(F)                                                                                         \
    F(0, s0000000088888888) F(1, s1111111199999999) F(2, s22222222aaaaaaaa) F(3, s33333333bbbbbbbb)             \
    F(4, s44444444cccccccc) F(5, s55555555dddddddd) F(6, s66666666eeeeeeee) F(7, s77777777ffffffff)
#endif
#if !defined(CLPRIM_VECTOR_BYTES) || CLPRIM_VECTOR_BYTES >= 64
#define TILE 8   // pixels in registers
#else
#define TILE 4
#endif

#define LOAD_WEIGHTS(c, lanes) const vec w##c = get_vec(0, w + c * channels);
#define ADD_CHANNEL(c, lanes) sums[i] = fma(v.lanes, w##c, sums[i]);

// A work-item owns sixteen channels of a row of the result.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_grouped(const __global stored* source, ulong source_offset, const __global real* weights,
                  ulong weights_offset, const __global stored* bias, ulong bias_offset, __global stored* result,
                  ulong result_offset, implicit_problem p)
{
    const long channels = p.groups * SIDE, blocks = (channels + LANES - 1) / LANES, id = get_group_id(0);
    const long line = id / blocks, channel = min(id % blocks * LANES, channels - LANES);
    const long y = line % p.out[1], z = line / p.out[1] % p.out[0], n = line / p.out[1] / p.out[0];
    const int width = p.out[2], scale = p.scale[2], in_x = p.in[2], step_x = p.step[2], taps_x = p.taps[2];
    const long source_x = p.source_strides[4], apart = source_x * scale;
    source += source_offset + n * p.source_strides[0] + channel;
    weights += weights_offset + channel;
    result += result_offset + n * p.result_strides[0] + z * p.result_strides[2] + y * p.result_strides[3] + channel;
    const vec start = p.finish.has_bias ? load_lanes(bias + bias_offset + channel) : (vec)0;
    for (int x = 0; x < width; x += TILE) {
        const int count = min(TILE, width - x);
        vec sums[TILE];
        #pragma unroll
        for (int i = 0; i < TILE; ++i)
            sums[i] = start;
        const __global real* w = weights;
        for (int tz = 0; tz < p.taps[0]; ++tz)
            for (int ty = 0; ty < p.taps[1]; ++ty) {
                const long sz = z * p.scale[0] + p.shift[0] + tz * p.step[0];
                const long sy = y * p.scale[1] + p.shift[1] + ty * p.step[1];
                if (sz < 0 || sz >= p.in[0] || sy < 0 || sy >= p.in[1]) {
                    w += taps_x * SIDE * channels;
                    continue;
                }
                int sx = x * scale + (int)p.shift[2];
                for (int tx = 0; tx < taps_x; ++tx, sx += step_x, w += SIDE * channels) {
                    const __global stored* from =
                        source + sz * p.source_strides[2] + sy * p.source_strides[3] + sx * source_x;
                    EACH_CHANNEL(LOAD_WEIGHTS)
                    if (count == TILE && sx >= 0 && sx + (TILE - 1) * scale < in_x) {
                        #pragma unroll
                        for (int i = 0; i < TILE; ++i) {
                            const vec v = load_lanes(from + i * apart);
                            EACH_CHANNEL(ADD_CHANNEL)
                        }
                    } else {
                        #pragma unroll
                        for (int i = 0; i < TILE; ++i)
                            if (i < count && sx + i * scale >= 0 && sx + i * scale < in_x) {
                                const vec v = load_lanes(from + i * apart);
                                EACH_CHANNEL(ADD_CHANNEL)
                            }
                    }
                }
            }
        #pragma unroll
        for (int i = 0; i < TILE; ++i)
            if (i < count) {
                __global stored* to = result + (x + i) * p.result_strides[4];
                const vec v = p.finish.accumulate ? sums[i] + load_lanes(to) : sums[i];
                store_lanes(to, p.finish.activation ? activate_lanes(v, &p.finish) : v);
            }
    }
}

// packed[tap][c][channel of the result] of the taps of one launch.
__kernel void conv_grouped_pack(const __global stored* w, ulong w_offset, __global real* packed, ulong packed_offset,
                                pack_problem p)
{
    const long channels = p.groups * SIDE, taps = p.taps[0] * p.taps[1] * p.taps[2], id = get_global_id(0);
    const long channel = id % channels, c = id / channels % SIDE, tap = id / channels / SIDE;
    if (tap >= taps)
        return;
    packed[packed_offset + id] =
        load(T, w, w_offset + channel / SIDE * p.group_stride + channel % SIDE * p.row_stride + c * p.depth_stride +
                       tap % p.taps[2] * p.tap_strides[2] + tap / p.taps[2] % p.taps[1] * p.tap_strides[1] +
                       tap / (p.taps[2] * p.taps[1]) * p.tap_strides[0]);
}

#define START_SUM(c, lanes) vec s##c = 0, t##c = 0;
#define ADD_FIRST(c, lanes) s##c = fma(v.lanes, d, s##c);
#define ADD_SECOND(c, lanes) t##c = fma(v.lanes, d, t##c);
#define ADD_TO_SUM(c, lanes) put_vec(get_vec(c, sum) + (s##c + t##c), c, sum);

// A work-item owns sixteen outputs and one of p.parts shares of the rows of dy:
// sums[part][group, output][tap, channel].
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_grouped_weight(const __global stored* x, ulong x_offset, const __global stored* dy, ulong dy_offset,
                         __global real* sums, ulong sums_offset, __local real* own, implicit_problem p)
{
    const long channels = p.groups * SIDE, blocks = (channels + LANES - 1) / LANES, id = get_group_id(0);
    const long channel = min(id % blocks * LANES, channels - LANES), part = id / blocks;
    const long lines = p.batch * p.out[0] * p.out[1];
    const int taps = p.taps[0] * p.taps[1] * p.taps[2], width = p.out[2], scale = p.scale[2], in_x = p.in[2];
    const long x_step = p.source_strides[4] * scale, dy_step = p.result_strides[4];
    x += x_offset + channel;
    dy += dy_offset + channel;
    for (int i = 0; i < taps * SIDE; ++i)
        put_vec((vec)0, i, own);
    for (long line = lines * part / p.parts; line < lines * (part + 1) / p.parts; ++line) {
        const long y = line % p.out[1], z = line / p.out[1] % p.out[0], n = line / p.out[1] / p.out[0];
        __local real* sum = own;
        for (int tap = 0; tap < taps; ++tap, sum += SIDE * LANES) {
            const int tap_x = tap % (int)p.taps[2], tap_y = tap / (int)p.taps[2] % (int)p.taps[1];
            const int tap_z = tap / (int)(p.taps[2] * p.taps[1]);
            const long sz = z * p.scale[0] + p.shift[0] + tap_z * p.step[0];
            const long sy = y * p.scale[1] + p.shift[1] + tap_y * p.step[1];
            const int sx = (int)p.shift[2] + tap_x * (int)p.step[2];
            if (sz < 0 || sz >= p.in[0] || sy < 0 || sy >= p.in[1] || sx >= in_x)
                continue;
            const int low = sx >= 0 ? 0 : (scale - 1 - sx) / scale, high = min(width, (in_x - 1 - sx) / scale + 1);
            const __global stored* from = x + n * p.source_strides[0] + sz * p.source_strides[2] +
                                          sy * p.source_strides[3] + sx * p.source_strides[4] + low * x_step;
            const __global stored* with = dy + n * p.result_strides[0] + z * p.result_strides[2] +
                                          y * p.result_strides[3] + low * dy_step;
            EACH_CHANNEL(START_SUM)
            int i = low;
            for (; i + 2 <= high; i += 2, from += 2 * x_step, with += 2 * dy_step) {
                {
                    const vec v = load_lanes(from), d = load_lanes(with);
                    EACH_CHANNEL(ADD_FIRST)
                }
                const vec v = load_lanes(from + x_step), d = load_lanes(with + dy_step);
                EACH_CHANNEL(ADD_SECOND)
            }
            if (i < high) {
                const vec v = load_lanes(from), d = load_lanes(with);
                EACH_CHANNEL(ADD_FIRST)
            }
            EACH_CHANNEL(ADD_TO_SUM)
        }
    }
    sums += sums_offset + (part * channels + channel) * taps * SIDE;
    for (int lane = 0; lane < LANES; ++lane)
        for (int k = 0; k < taps * SIDE; ++k)
            sums[lane * taps * SIDE + k] = own[k * LANES + lane];
}
