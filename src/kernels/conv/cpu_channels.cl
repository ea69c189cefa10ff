// Convolution on a CPU device whose tensors have channels innermost, forward and data passes:
//
//   result[pixel][row] = sum over k of source[pixel, k] * weights[k][row],   k = (tap, channel)
//
// Vectors run over the channels of the result, so nothing is transposed and the source is read where it lies:
// TILE_PIXELS numbers of it, one for each pixel of a register tile, meet a vector of weights that were packed once.
//
//            weights: panels of PANEL rows, k after k        A work-item owns tile_pixels pixels by tile_rows rows
//                    +--------+                              (channels of the result). It finds where the taps of its
//         k = 0..    | PANEL  |                              pixels lie, then goes through its panels of weights and,
//                    +--------+                              for each, through its tiles of pixels: the panel stays in
//    source, k = 0.. | sums   |  TILE_PIXELS pixels          a cache meanwhile, and sums never leave their registers.
//
// Pixels outside of the borders are read from `depth` zeros behind the weights. Built for dtypes that are computed in.
#include "kernels/conv/channel_tiles.cl"
#include "kernels/conv/implicit_problem.cl"
#include "kernels/conv/channel_places.cl"

DEFINE_TILES_OF(placed)
#if PANEL_VECTORS > 1
DEFINE_TILES(near, two)
#define near_tile tile_near_two
#else
DEFINE_TILES(near, one)
#define near_tile tile_near_one
#endif

// near[pixel][tap, channel] in rows of near_pitch.
static inline void copy_near(__local real* near, int near_pitch, const __global real* source,
                             const __local int* places, int pitch, int count, int taps, int channels)
{
    for (int i = 0; i < count; ++i, near += near_pitch)
        for (int t = 0; t < taps; ++t) {
            const int from = places[t * pitch + i];
            __local real* to = near + t * channels;
            int c = 0;
            for (; c + LANES <= channels; c += LANES)
                put_vec(from < 0 ? (vec)0 : get_vec(0, source + from + c), 0, to + c);
            for (; c < channels; ++c)
                to[c] = from < 0 ? 0 : source[from + c];
        }
}

// p.tile_depth: pitch of pixels copied to `near`, for sources whose pixels lie at steps that share lines of a cache;
// 0 to read them where they lie.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_channels(const __global real* source, ulong source_offset, const __global real* weights,
                   ulong weights_offset, const __global real* bias, ulong bias_offset, __global real* result,
                   ulong result_offset, __local int* places, __local real* near, implicit_problem p)
{
    const long pixels = p.batch * p.out[0] * p.out[1] * p.out[2];
    const long pixel_blocks = (pixels + p.tile_pixels - 1) / p.tile_pixels;
    const long row_blocks = (p.rows + p.tile_rows - 1) / p.tile_rows;
    const long id = get_group_id(0), group = id / pixel_blocks / row_blocks;
    const long pixel_begin = id % pixel_blocks * p.tile_pixels;
    const int row_begin = id / pixel_blocks % row_blocks * p.tile_rows;
    const int row_end = min(p.rows, row_begin + p.tile_rows), count = min(p.tile_pixels, pixels - pixel_begin);
    const int taps = p.taps[0] * p.taps[1] * p.taps[2], channels = p.depth, pitch = p.tile_pixels;

    weights += weights_offset;
    const __global real* zeros = weights + p.groups * ((p.rows + PANEL - 1) / PANEL) * p.weight_stride;
    weights += group * ((p.rows + PANEL - 1) / PANEL) * p.weight_stride;
    source += source_offset + group * channels * p.source_strides[1];
    result += result_offset + group * p.rows;
    bias += p.finish.has_bias ? bias_offset + group * p.rows : 0;

    find_places(places, pitch, &p, pixel_begin, count);
    const __local int* results = places + taps * pitch;
    // By blocks of taps or, of a single tap, of channels, whose weights stay in a cache while all pixels read them; the
    // result holds the sums so far.
    real sums[TILE_PIXELS * PANEL];
    const int near_pitch = p.tile_depth;
    const int activation = p.finish.activation;
    int first_tap = 0, first_channel = 0;
    do {
        const int own_taps = min((int)p.taps_block, taps - first_tap);
        const int own_channels = min((int)p.channels_block, channels - first_channel);
        if (near_pitch)
            copy_near(near, near_pitch, source, places + first_tap * pitch, pitch, count, own_taps, channels);
        const int last = first_tap + own_taps >= taps && first_channel + own_channels >= channels;
        epilogue finish = p.finish;
        finish.accumulate |= first_tap > 0 || first_channel > 0;
        if (!last)
            finish.has_bias = finish.activation = 0;
        tile_end end;
        end.has_bias = finish.has_bias;
        end.accumulate = finish.accumulate;
        end.bounded = last && activation != ACTIVATION_NONE;
        end.least = activation == ACTIVATION_RELU ? 0 : p.finish.alpha;
        end.most = activation == ACTIVATION_RELU ? (real)INFINITY : p.finish.beta;
        end.apart = end.bounded && activation != ACTIVATION_RELU && activation != ACTIVATION_CLIP;
        const long first = (long)first_tap * channels + first_channel;
        for (int row = row_begin; row < row_end; row += PANEL) {
            const __global real* panel = weights + row / PANEL * p.weight_stride + first * PANEL;
            ask_ahead(&end, row + PANEL < row_end ? panel + p.weight_stride
                                                  : weights + row_begin / PANEL * p.weight_stride +
                                                        (first + own_taps * own_channels) * PANEL,
                      count);
            end.result = result + row;
            end.bias = bias + (p.finish.has_bias ? row : 0);
            const int rows = min(PANEL, row_end - row);
            end.whole = near_pitch ? rows == PANEL : rows % (LANES / 2) == 0;
            for (int at = 0, done; at < count; at += done) {
                const __local int* from = places + first_tap * pitch + at;
                end.places = results + at;
                if (near_pitch)
                    done = near_tile(count - at, sums, &end, near + at * near_pitch, near, panel, from, near_pitch, 1,
                                     own_taps * channels);
                else
                    done = BY_WIDTH(placed, rows,
                                    (count - at, sums, &end, source + first_channel, zeros, panel, from, pitch,
                                     own_taps, own_channels));
                end.ahead += own_taps * own_channels * end.step;
                if (!end.whole)
                    finish_tile(sums, end.result, end.bias, end.places, done, rows, &finish);
                else if (end.apart)
                    activate_tile(sums, end.result, end.places, done, rows, &finish);
            }
        }
        first_channel += own_channels;
        if (first_channel == channels && !last) {
            first_tap += own_taps;
            first_channel = 0;
        }
    } while (first_channel < channels);
}

// packed[group, panel][tap, channel][PANEL] from weights of any strides, zeros for rows beyond the last; and behind the
// panels p.depth zeros.
__kernel void conv_channels_pack(const __global real* w, ulong w_offset, __global real* packed, ulong packed_offset,
                                 pack_problem p)
{
    const long taps = p.taps[0] * p.taps[1] * p.taps[2], length = taps * p.depth;
    const long panels = (p.rows + PANEL - 1) / PANEL, id = get_global_id(0);
    const long k = id % length, panel = id / length % panels, group = id / length / panels;
    if (group >= p.groups) {
        if (id < p.groups * panels * length + p.depth)
            packed[packed_offset + p.groups * panels * length * PANEL + id - p.groups * panels * length] = 0;
        return;
    }
    const long tap = k / p.depth;
    w += w_offset + group * p.group_stride + k % p.depth * p.depth_stride + tap % p.taps[2] * p.tap_strides[2] +
         tap / p.taps[2] % p.taps[1] * p.tap_strides[1] + tap / (p.taps[2] * p.taps[1]) * p.tap_strides[0];
    packed += packed_offset + id * PANEL;
    for (int i = 0; i < PANEL; ++i)
        packed[i] = panel * PANEL + i < p.rows ? w[(panel * PANEL + i) * p.row_stride] : 0;
}

// Mirror of PatchProblem (cpu_channels.cpp).
typedef struct {
    long batch, channels, in[3], pad[3], padded[3], strides[5];
} patch_problem;

// Sixteen pixels of red, green and blue planes side by side: of the first two into t, then of t and the last.
#if REAL_KIND(REAL) == 2
typedef double16 real16;
typedef ulong16 lanes16;
#else
typedef float16 real16;
typedef uint16 lanes16;
#endif
static inline void interleave_three(const __global real* x, long plane, __global real* copy)
{
    const real16 red = vload16(0, x), green = vload16(0, x + plane), blue = vload16(0, x + 2 * plane);
    const real16 t0 = shuffle2(red, green, (lanes16)(0, 16, 0, 1, 17, 0, 2, 18, 0, 3, 19, 0, 4, 20, 0, 5));
    vstore16(shuffle2(t0, blue, (lanes16)(0, 1, 16, 3, 4, 17, 6, 7, 18, 9, 10, 19, 12, 13, 20, 15)), 0, copy);
    const real16 t1 = shuffle2(red, green, (lanes16)(21, 0, 6, 22, 0, 7, 23, 0, 8, 24, 0, 9, 25, 0, 10, 26));
    vstore16(shuffle2(t1, blue, (lanes16)(0, 21, 2, 3, 22, 5, 6, 23, 8, 9, 24, 11, 12, 25, 14, 15)), 1, copy);
    const real16 t2 = shuffle2(red, green, (lanes16)(0, 11, 27, 0, 12, 28, 0, 13, 29, 0, 14, 30, 0, 15, 31, 0));
    vstore16(shuffle2(t2, blue, (lanes16)(26, 1, 2, 27, 4, 5, 28, 7, 8, 29, 10, 11, 30, 13, 14, 31)), 2, copy);
}

// copy[image, z, y][x, channel] with zeros around; a work-item owns a row.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_channels_patches(const __global real* x, ulong x_offset, __global real* copy, ulong copy_offset,
                           patch_problem p)
{
    const long id = get_group_id(0), n = id / p.padded[1] / p.padded[0];
    const long row = id % p.padded[1] - p.pad[1], plane = id / p.padded[1] % p.padded[0] - p.pad[0];
    const int width = p.padded[2], channels = p.channels;
    const int inside = row >= 0 && row < p.in[1] && plane >= 0 && plane < p.in[0];
    const int begin = inside ? clamp((int)p.pad[2], 0, width) : width;
    const int end = inside ? clamp((int)(p.pad[2] + p.in[2]), begin, width) : width;
    copy += copy_offset + id * width * channels;
    for (int i = 0; i < begin * channels; ++i)
        copy[i] = 0;
    for (int i = end * channels; i < width * channels; ++i)
        copy[i] = 0;
    x += x_offset + n * p.strides[0] + plane * p.strides[2] + row * p.strides[3] - p.pad[2] * p.strides[4];
    int first = begin;
    if (channels == 3 && p.strides[4] == 1)
        for (; first + 16 <= end; first += 16)
            interleave_three(x + first, p.strides[1], copy + first * 3);
    for (int c = 0; c < channels; ++c)
        for (int i = first; i < end; ++i)
            copy[i * channels + c] = x[c * p.strides[1] + i * p.strides[4]];
}
