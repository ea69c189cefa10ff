// Forward convolution on a CPU device whose tensors have channels innermost:
//
//   result[pixel][row] = sum over k of source[pixel, k] * weights[k][row],   k = (tap, channel)
//
// Vectors run over the channels of the result, so nothing is transposed and the source is read where it lies: TILE_PIXELS
// numbers of it, one for each pixel of a register tile, meet a vector of weights that were packed once.
//
//            weights: panels of PANEL rows, k after k        A work-item owns tile_pixels pixels by tile_rows rows
//                    +--------+                              (channels of the result). It finds where the taps of its
//         k = 0..    | PANEL  |                              pixels lie, then goes through its panels of weights and,
//                    +--------+                              for each, through its tiles of pixels: the panel stays in
//    source, k = 0.. | sums   |  TILE_PIXELS pixels          a cache meanwhile, and sums never leave their registers.
//
// Pixels outside of the borders are read from `depth` zeros behind the weights. Built for dtypes that are computed in.
#include "kernels/conv/lanes.cl"
#include "kernels/conv/implicit_problem.cl"

// Six pixels by twelve of sixteen registers, or by two vectors of 64 bytes.
#define TILE_PIXELS 6
#if !defined(CLPRIM_VECTOR_BYTES) || CLPRIM_VECTOR_BYTES >= 64
#define PANEL (2 * LANES)
#define HIGH(text) text
#else
#define PANEL LANES
#define HIGH(text)
#endif

// Pixels of a tile by their numbers.
#define PIXELS_1(X) X(0)
#define PIXELS_2(X) X(0) X(1)
#define PIXELS_4(X) PIXELS_2(X) X(2) X(3)
#define PIXELS_6(X) PIXELS_4(X) X(4) X(5)

#define START(i) vec low##i = 0; HIGH(vec high##i = 0;)
#define FIND(i)                                                                                                 \
    const int from##i = places[i];                                                                              \
    const __global real* a##i = from##i < 0 ? zeros : source + from##i;
#define ADD(i)                                                                                                  \
    {                                                                                                           \
        const vec a = a##i[c];                                                                                  \
        low##i = fma(a, low, low##i);                                                                           \
        HIGH(high##i = fma(a, high, high##i);)                                                                  \
    }
#define PUT(i) put_vec(low##i, 0, sums + i * PANEL); HIGH(put_vec(high##i, 1, sums + i * PANEL);)

// sums[pixel][PANEL] of N pixels; places[tap * pitch + pixel]: element of the source, -1 outside of the borders.
#define DEFINE_TILE(N)                                                                                          \
    static inline void tile_##N(real* sums, const __global real* source, const __global real* zeros,            \
                                const __global real* weights, const __local int* places, int pitch, int taps,   \
                                int channels)                                                                   \
    {                                                                                                           \
        PIXELS_##N(START)                                                                                       \
        for (int t = 0; t < taps; ++t, places += pitch) {                                                       \
            PIXELS_##N(FIND)                                                                                    \
            for (int c = 0; c < channels; ++c, weights += PANEL) {                                              \
                const vec low = get_vec(0, weights);                                                            \
                HIGH(const vec high = get_vec(1, weights);)                                                     \
                PIXELS_##N(ADD)                                                                                 \
            }                                                                                                   \
        }                                                                                                       \
        PIXELS_##N(PUT)                                                                                         \
    }
DEFINE_TILE(6)
DEFINE_TILE(4)
DEFINE_TILE(2)
DEFINE_TILE(1)

// Where the taps of `count` pixels lie, and after them where their results do.
static inline void find_places(__local int* places, int pitch, const implicit_problem* p, long pixel, int count)
{
    const int taps_x = p->taps[2], taps_y = p->taps[1], taps = p->taps[0] * taps_y * taps_x;
    const int width = p->out[2], height = p->out[1], depth = p->out[0];
    int x = pixel % width, y = pixel / width % height, z = pixel / ((long)width * height) % depth;
    int n = pixel / ((long)width * height * depth);
    for (int i = 0; i < count; ++i) {
        const int fz = z * (int)p->scale[0] + (int)p->shift[0], fy = y * (int)p->scale[1] + (int)p->shift[1];
        const int fx = x * (int)p->scale[2] + (int)p->shift[2];
        for (int t = 0; t < taps; ++t) {
            const int sz = fz + t / (taps_x * taps_y) * (int)p->step[0];
            const int sy = fy + t / taps_x % taps_y * (int)p->step[1], sx = fx + t % taps_x * (int)p->step[2];
            const int inside = sz >= 0 && sz < p->in[0] && sy >= 0 && sy < p->in[1] && sx >= 0 && sx < p->in[2];
            places[t * pitch + i] = inside ? n * (int)p->source_strides[0] + sz * (int)p->source_strides[2] +
                                                 sy * (int)p->source_strides[3] + sx * (int)p->source_strides[4]
                                           : -1;
        }
        places[taps * pitch + i] = n * (int)p->result_strides[0] + z * (int)p->result_strides[2] +
                                   y * (int)p->result_strides[3] + x * (int)p->result_strides[4];
        if (++x == width) {
            x = 0;
            if (++y == height) {
                y = 0;
                if (++z == depth) {
                    z = 0;
                    ++n;
                }
            }
        }
    }
}

// Bias, old value and activation of `count` pixels by `rows` rows, and their way to memory.
static inline void finish_tile(real* sums, __global real* result, const __global real* bias, const __local int* places,
                               int count, int rows, const epilogue* e)
{
    for (int i = 0; i < count; ++i, sums += PANEL) {
        __global real* to = result + places[i];
        int r = 0;
        for (; r + LANES <= rows; r += LANES) {
            vec v = get_vec(0, sums + r);
            if (e->has_bias)
                v += load_lanes(bias + r);
            if (e->accumulate)
                v += load_lanes(to + r);
            store_lanes(to + r, activate_lanes(v, e));
        }
        for (; r < rows; ++r) {
            real v = sums[r];
            if (e->has_bias)
                v += bias[r];
            if (e->accumulate)
                v += to[r];
            to[r] = activate(v, e);
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_channels(const __global real* source, ulong source_offset, const __global real* weights,
                   ulong weights_offset, const __global real* bias, ulong bias_offset, __global real* result,
                   ulong result_offset, __local int* places, implicit_problem p)
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
    real sums[TILE_PIXELS * PANEL];
    for (int row = row_begin; row < row_end; row += PANEL) {
        const __global real* panel = weights + row / PANEL * p.weight_stride;
        for (int at = 0; at < count;) {
            const int left = count - at;
            const __local int* from = places + at;
            int done = 6;
            if (left >= 6)
                tile_6(sums, source, zeros, panel, from, pitch, taps, channels);
            else if (left >= 4)
                tile_4(sums, source, zeros, panel, from, pitch, taps, channels), done = 4;
            else if (left >= 2)
                tile_2(sums, source, zeros, panel, from, pitch, taps, channels), done = 2;
            else
                tile_1(sums, source, zeros, panel, from, pitch, taps, channels), done = 1;
            finish_tile(sums, result + row, bias + (p.finish.has_bias ? row : 0), from + taps * pitch, done,
                        min(PANEL, row_end - row), &p.finish);
            at += done;
        }
    }
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
