// Weight gradient on a CPU device of tensors with channels innermost:
//
//   dw[o][row] = sum over pixels of dy[pixel][o] * x[pixel, row],   row = (tap, channel)
//
// Vectors run over the outputs; numbers of x, those of some channels, are read where they lie, as is dy: nothing is
// packed. A work-item owns tile_rows rows by tile_pixels outputs and one of `parts` shares of the stretches of
// tile_depth pixels in a row. A register tile sums over the pixels of a stretch whose tap lies within x, and what it
// has is added to the sums so far in local memory. With several parts the sums go to a workspace, parts apart, which
// conv_add_parts adds in order: same bits every run. Built for dtypes that are computed in.
#include "kernels/conv/weight_blocks.cl"
#include "kernels/conv/channel_tiles.cl"

// Channels of a register tile by their numbers, as many as registers hold beside a vector or two of dy.
#define CHANNELS_1(X, WIDTH) X(0, WIDTH)
#define CHANNELS_2(X, WIDTH) X(0, WIDTH) X(1, WIDTH)
#define CHANNELS_4(X, WIDTH) CHANNELS_2(X, WIDTH) X(2, WIDTH) X(3, WIDTH)
#define CHANNELS_8(X, WIDTH) CHANNELS_4(X, WIDTH) X(4, WIDTH) X(5, WIDTH) X(6, WIDTH) X(7, WIDTH)

#define START_SUM(i, WIDTH) LOW_##WIDTH low##i = 0; HIGH_##WIDTH(HIGH_TYPE_##WIDTH high##i = 0;)
#define ADD_PIXEL(i, WIDTH)                                                                                     \
    low##i = fma((LOW_##WIDTH)(x[i]), low, low##i);                                                             \
    HIGH_##WIDTH(high##i = fma((HIGH_TYPE_##WIDTH)(x[i]), high, high##i);)
#define ADD_TO_SUM(i, WIDTH)                                                                                    \
    PUT_LOW_##WIDTH(GET_LOW_##WIDTH(sums + i * WIDE) + low##i, sums + i * WIDE);                                \
    HIGH_##WIDTH(PUT_HIGH_##WIDTH(GET_HIGH_##WIDTH(sums + i * WIDE + LANES) + high##i, sums + i * WIDE + LANES);)

// sums[channel][WIDE] += those of `count` pixels, for N channels.
#define DEFINE_SUM(N, WIDTH)                                                                                    \
    static inline void sum_##N##_##WIDTH(__local real* sums, const __global real* x, long x_step,               \
                                         const __global real* dy, long dy_step, int count)                      \
    {                                                                                                           \
        CHANNELS_##N(START_SUM, WIDTH)                                                                          \
        for (int i = 0; i < count; ++i, x += x_step, dy += dy_step) {                                           \
            const LOW_##WIDTH low = GET_LOW_##WIDTH(dy);                                                        \
            HIGH_##WIDTH(const HIGH_TYPE_##WIDTH high = GET_HIGH_##WIDTH(dy + LANES);)                          \
            CHANNELS_##N(ADD_PIXEL, WIDTH)                                                                      \
        }                                                                                                       \
        CHANNELS_##N(ADD_TO_SUM, WIDTH)                                                                         \
    }
#define DEFINE_SUMS(WIDTH)                                                                                      \
    DEFINE_SUM(8, WIDTH)                                                                                        \
    DEFINE_SUM(4, WIDTH)                                                                                        \
    DEFINE_SUM(2, WIDTH)                                                                                        \
    DEFINE_SUM(1, WIDTH)                                                                                        \
    static inline void tile_weight_##WIDTH(__local real* sums, const __global real* x, long x_step,             \
                                           const __global real* dy, long dy_step, int count, int channels)      \
    {                                                                                                           \
        int c = 0;                                                                                              \
        for (; PANEL_VECTORS > 1 && c + 8 <= channels; c += 8)                                                  \
            sum_8_##WIDTH(sums + c * WIDE, x + c, x_step, dy, dy_step, count);                                  \
        for (; c + 4 <= channels; c += 4)                                                                       \
            sum_4_##WIDTH(sums + c * WIDE, x + c, x_step, dy, dy_step, count);                                  \
        if (c + 2 <= channels) {                                                                                \
            sum_2_##WIDTH(sums + c * WIDE, x + c, x_step, dy, dy_step, count);                                  \
            c += 2;                                                                                             \
        }                                                                                                       \
        if (c < channels)                                                                                       \
            sum_1_##WIDTH(sums + c * WIDE, x + c, x_step, dy, dy_step, count);                                  \
    }
DEFINE_SUMS(half)
DEFINE_SUMS(one)
#if PANEL_VECTORS > 1
DEFINE_SUMS(more)
DEFINE_SUMS(two)
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_channels_weight(const __global real* x, ulong x_offset, const __global real* dy, ulong dy_offset,
                          __global real* sums, ulong sums_offset, __local real* tiles, implicit_problem p)
{
    const int taps_x = p.taps[2], taps_y = p.taps[1], taps = p.taps[0] * taps_y * taps_x, channels = p.depth;
    const long all_rows = (long)channels * taps;
    const weight_block own = find_weight_block(&p, get_group_id(0));
    const int width = p.out[2], height = p.out[1], depth = p.out[0], stretch = p.tile_depth;
    const int stretches = (width + stretch - 1) / stretch, scale = p.scale[2], in_x = p.in[2];
    const long units = p.batch * depth * height * stretches;
    const long begin = units * own.part / p.parts, end = units * (own.part + 1) / p.parts;
    const long x_step = p.source_strides[4] * scale, dy_step = p.result_strides[4];

    x += x_offset + own.group * channels;
    dy += dy_offset + own.group * p.rows + own.first_output;
    const int sums_count = (own.output_count + WIDE - 1) / WIDE * own.row_count * WIDE;
    for (int i = 0; i < sums_count; ++i)
        tiles[i] = 0;

    for (long unit = begin; unit < end; ++unit) {
        const long line = unit / stretches;
        const int from_x = unit % stretches * stretch, y = line % height, z = line / height % depth;
        const long n = line / height / depth;
        const int count = min(stretch, width - from_x);
        const __global real* dy_line = dy + n * p.result_strides[0] + z * p.result_strides[2] +
                                       y * p.result_strides[3] + from_x * dy_step;
        for (int row = 0, channel_count; row < own.row_count; row += channel_count) {
            const int tap = (own.first_row + row) / channels, channel = own.first_row + row - (long)tap * channels;
            channel_count = min(channels - channel, own.row_count - row);
            const int tap_z = tap / (taps_x * taps_y), tap_y = tap / taps_x % taps_y, tap_x = tap % taps_x;
            const int sz = z * (int)p.scale[0] + (int)p.shift[0] + tap_z * (int)p.step[0];
            const int sy = y * (int)p.scale[1] + (int)p.shift[1] + tap_y * (int)p.step[1];
            const int sx = from_x * scale + (int)p.shift[2] + tap_x * (int)p.step[2];
            if (sz < 0 || sz >= (int)p.in[0] || sy < 0 || sy >= (int)p.in[1] || sx >= in_x)
                continue;
            const int low = sx >= 0 ? 0 : (scale - 1 - sx) / scale, high = min(count, (in_x - 1 - sx) / scale + 1);
            if (low >= high)
                continue;
            const __global real* from = x + n * p.source_strides[0] + sz * p.source_strides[2] +
                                        sy * p.source_strides[3] + sx * p.source_strides[4] + low * x_step + channel;
            for (int o = 0; o < own.output_count; o += PANEL) {
                __local real* to = tiles + ((long)(o / WIDE) * own.row_count + row) * WIDE + o % WIDE;
                BY_WIDTH(weight, own.output_count - o,
                         (to, from, x_step, dy_line + low * dy_step + o, dy_step, high - low, channel_count));
            }
        }
    }

    sums += sums_offset + ((own.part * p.groups + own.group) * p.rows + own.first_output) * all_rows + own.first_row;
    for (int o = 0; o < own.output_count; o += WIDE)
        write_sums(sums + o * all_rows, all_rows, tiles + (long)(o / WIDE) * own.row_count * WIDE, own.row_count,
                   min(WIDE, own.output_count - o));
}
