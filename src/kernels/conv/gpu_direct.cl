// Convolution with few channels per group (depthwise above all) on a GPU: nothing to stage, every work-item adds up
// four neighbouring pixels of a row, of four channels at once where these are neighbours in groups of their own.
// Neighbouring work-items take neighbouring pixels of planar tensors, neighbouring channels of channels_last ones.
// Options: -DT=<dtype> -DACTIVATION, -DCHANNELS_LAST=0|1, -DQUADS=0|1 (channels_last, each a group of its own, at
// multiples of four elements), -DUNIT=0|1 (neighbouring pixels of the result and neighbouring taps of a row both read
// neighbouring pixels, so that a value serves several products; without QUADS, whose values are four times as many),
// -DOFFSET: holds every distance within a tensor, int or long; where UNIT, and for the gradient of the weight, every
// place in bytes counted from the beginning of its buffer on, uint (which some GPUs add to an address at once) or long.
#include "core/dtype.cl"
#include "core/quad.cl"
#include "kernels/conv/implicit_problem.cl"

typedef compute_t(T) real;
typedef storage_t(T) stored;
typedef quad_t(T) real4;

DEFINE_ACTIVATE(activate, real)

#define IS_NEAR_uint 1
#define IS_NEAR_int 0
#define IS_NEAR_long 0
#if CLPRIM_CAT(IS_NEAR_, OFFSET)   // sums of distances wrap around, places do not
#define AT(base, place)                                                                                               \
    ((const __global stored*)((const __global uchar*)(base) + (uint)((place) * (uint)sizeof(stored))))
#else
#define AT(base, place) ((base) + (place))
#endif

#define ITEMS 64
#define PIXELS 4
#define EACH(i) _Pragma("unroll") for (int i = 0; i < 4; ++i)
#if QUADS
#define CHANNELS 4
typedef real4 lanes;
#define LOAD_LANES(p) load_quad(T, p)
#else
#define CHANNELS 1
typedef real lanes;
#define LOAD_LANES(p) load(T, p, 0)
#endif

static inline real finish(real v, const __global stored* bias, const __global stored* old, const implicit_problem* p)
{
    const epilogue e = {p->finish.has_bias, ACTIVATION, p->finish.accumulate, p->finish.alpha, p->finish.beta};
    if (e.has_bias)
        v += load(T, bias, 0);
    if (e.accumulate)
        v += load(T, old, 0);
    return activate(v, &e);
}

// Work-groups: planar, the blocks of a channel's rows and pixels for each channel and image; channels_last, the blocks
// of a row's pixels and channels for each row and image.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void conv_direct(const __global stored* source, ulong source_offset, const __global stored* w, ulong w_offset,
                 const __global stored* bias, ulong bias_offset, __global stored* result, ulong result_offset,
                 implicit_problem p, pack_problem q)
{
    const int rows = p.rows, depth = QUADS ? 1 : (int)p.depth, channels = (int)p.groups * rows;
    const int x_blocks = ((int)p.out[2] + PIXELS - 1) / PIXELS, lines = (int)p.out[0] * (int)p.out[1];
#if CHANNELS_LAST
    const int inner = x_blocks * (channels / CHANNELS);
#else
    const int inner = x_blocks * lines;
#endif
    const int blocks = (inner + ITEMS - 1) / ITEMS, outer = get_group_id(0) / blocks;
    const int at = get_group_id(0) % blocks * ITEMS + get_local_id(0);
    if (at >= inner)
        return;
#if CHANNELS_LAST
    const int block = at / (channels / CHANNELS), channel = (at - block * (channels / CHANNELS)) * CHANNELS;
    const int n = outer / lines, line = outer - n * lines;
#else
    const int line = at / x_blocks, block = at - line * x_blocks, n = outer / channels, channel = outer - n * channels;
#endif
    const int z = line / (int)p.out[1], y = line - z * (int)p.out[1], x = block * PIXELS;
    const int group = channel / rows, width = p.in[2], x_scale = p.scale[2];
#if UNIT
    const OFFSET source_at = (OFFSET)(source_offset + n * p.source_strides[0] + group * depth * p.source_strides[1]);
    const OFFSET w_at = (OFFSET)(w_offset + group * q.group_stride + (channel - group * rows) * q.row_stride);
#else
    source += source_offset + n * p.source_strides[0] + group * depth * p.source_strides[1];
    w += w_offset + group * q.group_stride + (channel - group * rows) * q.row_stride;
#endif
    const int tap_x = p.step[2];
    const OFFSET x_step = p.source_strides[4], channel_step = p.source_strides[1], depth_step = q.depth_stride;
#if QUADS
    const OFFSET next = q.group_stride;
#endif
    lanes sums[PIXELS];
    EACH(i) sums[i] = (lanes)0;
    for (int tz = 0; tz < (int)p.taps[0]; ++tz) {
        const int iz = z * (int)p.scale[0] + (int)p.shift[0] + tz * (int)p.step[0];
        if ((uint)iz >= (uint)p.in[0])
            continue;
        for (int ty = 0; ty < (int)p.taps[1]; ++ty) {
            const int iy = y * (int)p.scale[1] + (int)p.shift[1] + ty * (int)p.step[1];
            if ((uint)iy >= (uint)p.in[1])
                continue;
            const OFFSET row_at = iz * (OFFSET)p.source_strides[2] + iy * (OFFSET)p.source_strides[3];
            const OFFSET tap_at = (int)(p.tap_first[0] + tz * p.tap_period[0]) * (OFFSET)q.tap_strides[0] +
                                  (int)(p.tap_first[1] + ty * p.tap_period[1]) * (OFFSET)q.tap_strides[1] +
                                  (int)p.tap_first[2] * (OFFSET)q.tap_strides[2];
            OFFSET tap_step = (int)p.tap_period[2] * (OFFSET)q.tap_strides[2];
            int ix = x * x_scale + (int)p.shift[2];
#if UNIT
            // From the tap that reads the leftmost pixel on: each one needs one new value.
            const int last_tap = (int)p.taps[2] - 1;
            OFFSET from = source_at + row_at, taps = w_at + tap_at;
            if (tap_x < 0) {
                ix -= last_tap;
                taps += last_tap * tap_step;
                tap_step = -tap_step;
            }
#pragma unroll 1
            for (int c = 0; c < depth; ++c, from += channel_step, taps += depth_step) {
                real values[PIXELS];
#define LOAD_PIXEL(i, at)                                                                                             \
    {                                                                                                                 \
        const int inside = (uint)(at) < (uint)width;                                                                  \
        const real v = load(T, AT(source, from + (inside ? (at) * x_step : (OFFSET)0)), 0);                           \
        values[i] = inside ? v : (real)0;                                                                             \
    }
                LOAD_PIXEL(1, ix)
                LOAD_PIXEL(2, ix + 1)
                LOAD_PIXEL(3, ix + 2)
                OFFSET tap = taps;
                for (int tx = 0; tx <= last_tap; ++tx, tap += tap_step) {
                    values[0] = values[1];
                    values[1] = values[2];
                    values[2] = values[3];
                    LOAD_PIXEL(3, ix + tx + 3)
                    const real weight = load(T, AT(w, tap), 0);
                    EACH(i) sums[i] = fma(values[i], weight, sums[i]);
                }
            }
#else
            const __global stored *from = source + row_at, *taps = w + tap_at;
            OFFSET place = ix * x_step;
            for (int tx = 0; tx < (int)p.taps[2]; ++tx, ix += tap_x, place += tap_x * x_step, taps += tap_step) {
                const __global stored *channel_from = from, *channel_taps = taps;
#pragma unroll 1
                for (int c = 0; c < depth; ++c, channel_from += channel_step, channel_taps += depth_step) {
#if QUADS
                    const lanes weight = (lanes)(load(T, taps, 0), load(T, taps + next, 0), load(T, taps + 2 * next, 0),
                                                 load(T, taps + 3 * next, 0));
#else
                    const lanes weight = load(T, channel_taps, 0);
#endif
                    lanes values[PIXELS];
                    EACH(i) {
                        const int inside = (uint)(ix + i * x_scale) < (uint)width;
                        const lanes v = LOAD_LANES(channel_from + (inside ? place + i * (x_scale * x_step) : 0));
                        values[i] = inside ? v : (lanes)0;
                    }
                    EACH(i) sums[i] = fma(values[i], weight, sums[i]);
                }
            }
#endif
        }
    }
    bias += p.finish.has_bias ? bias_offset + channel : 0;
    result += result_offset + n * p.result_strides[0] + channel * p.result_strides[1] + z * p.result_strides[2] +
              y * p.result_strides[3];
    EACH(i)
        if (x + i < (int)p.out[2]) {   // leaving the loop instead would keep some compilers from unrolling it
            __global stored* to = result + (x + i) * (OFFSET)p.result_strides[4];
#if QUADS
            const real4 v = sums[i];
            const real4 done = (real4)(finish(v.x, bias, to, &p), finish(v.y, bias + 1, to + 1, &p),
                                       finish(v.z, bias + 2, to + 2, &p), finish(v.w, bias + 3, to + 3, &p));
            store_quad(T, to, done);
#else
            store(T, to, 0, finish(sums[i], bias, to, &p));
#endif
        }
}

// sums[part][output][row], row = (channel, tap), of the part's rows of pixels in all images; four neighbouring taps and
// pixels of a row at once. Planar: a work-group adds up one output's. channels_last: a work-item does, its neighbours
// being other outputs.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void conv_direct_weight(const __global stored* x, ulong x_offset, const __global stored* dy, ulong dy_offset,
                        __global real* sums, ulong sums_offset, implicit_problem p)
{
    const int rows = p.rows, depth = p.depth, outputs = (int)p.groups * rows;
    const int part = get_group_id(2), l = get_local_id(0);
    const int tap_blocks = ((int)p.taps[2] + 3) / 4, tx = get_group_id(1) % tap_blocks * 4;
    const int tap_line = get_group_id(1) / tap_blocks, ty = tap_line % (int)p.taps[1];
    const int tz = tap_line / (int)p.taps[1] % (int)p.taps[0], channel = tap_line / (int)(p.taps[1] * p.taps[0]);
    const int height = p.out[1], width = p.out[2], planes = p.out[0], lines = (int)p.batch * planes * height;
    const int begin = (long)lines * part / p.parts, end = (long)lines * (part + 1) / p.parts;
#if CHANNELS_LAST
    const int output = get_global_id(0);
    if (output >= outputs)
        return;
    const int first = 0, next = 1;
#else
    const int output = get_group_id(0), first = l, next = ITEMS;
#endif
    const OFFSET x_first = (OFFSET)(x_offset + (output / rows * depth + channel) * p.source_strides[1]);
    // Blocks of four pixels; each step of a work-item is `down` rows and `right` blocks.
    const int blocks = (width + PIXELS - 1) / PIXELS, count = (end - begin) * blocks;
    const int down = next / blocks, right = next - down * blocks, start = begin + first / blocks;
    int block = first % blocks, y = start % height, z = start / height % planes;
    const int n = start / height / planes;
    // Places in x and dy, the former maybe outside, and what a pixel, row, plane and image are apart in each.
    const int z_scale = p.scale[0], y_scale = p.scale[1], x_scale = p.scale[2], step = p.step[2];
    int iz = z * z_scale + (int)p.shift[0] + tz * (int)p.step[0];
    int iy = y * y_scale + (int)p.shift[1] + ty * (int)p.step[1];
    int ix = block * PIXELS * x_scale + (int)p.shift[2] + tx * step;
    const OFFSET from[4] = {p.source_strides[0], p.source_strides[2], p.source_strides[3], p.source_strides[4]};
    const OFFSET to[4] = {p.result_strides[0], p.result_strides[2], p.result_strides[3], p.result_strides[4]};
    OFFSET x_at = x_first + n * from[0] + iz * from[1] + iy * from[2] + ix * from[3];
    OFFSET dy_at = (OFFSET)(dy_offset + output * p.result_strides[1]) + n * to[0] + z * to[1] + y * to[2] +
                   block * PIXELS * to[3];
    const OFFSET x_block = PIXELS * x_scale * from[3], dy_block = PIXELS * to[3];
    const OFFSET x_on = right * x_block + down * y_scale * from[2], dy_on = right * dy_block + down * to[2];
    const OFFSET x_row = y_scale * from[2] - blocks * x_block, dy_row = to[2] - blocks * dy_block;
    const OFFSET x_plane = z_scale * from[1] - height * y_scale * from[2], dy_plane = to[1] - height * to[2];
    const OFFSET x_image = from[0] - planes * z_scale * from[1], dy_image = to[0] - planes * to[1];
    real4 sum = (real4)0;
    for (int at = first; at < count; at += next) {
        // A row that lies outside has no pixel, nor has what lies beyond the end of a row of the result.
        const int there = (uint)iz < (uint)p.in[0] && (uint)iy < (uint)p.in[1], in_width = there ? (int)p.in[2] : 0;
        const int left = width - block * PIXELS;
        real factors[PIXELS];
        EACH(i) factors[i] = load(T, AT(dy, dy_at + min(i, left - 1) * to[3]), 0);
#if UNIT
        real values[PIXELS + 3];
#pragma unroll
        for (int i = 0; i < PIXELS + 3; ++i) {
            const int inside = (uint)(ix + i) < (uint)in_width;
            const real v = load(T, AT(x, inside ? x_at + i * from[3] : x_first), 0);
            values[i] = inside ? v : (real)0;
        }
        EACH(i) {
            const real4 more = fma((real4)(values[i], values[i + 1], values[i + 2], values[i + 3]), (real4)factors[i],
                                   sum);
            sum = i < left ? more : sum;
        }
#else
        EACH(i) {
            real values[4];
            EACH(t) {
                const int at_x = i * x_scale + t * step, inside = i < left && (uint)(ix + at_x) < (uint)in_width;
                const real v = load(T, AT(x, inside ? x_at + at_x * from[3] : x_first), 0);
                values[t] = inside ? v : (real)0;
            }
            const real factor = i < left ? factors[i] : (real)0;
            sum = fma((real4)(values[0], values[1], values[2], values[3]), (real4)factor, sum);
        }
#endif
        block += right;
        ix += right * PIXELS * x_scale;
        y += down;
        iy += down * y_scale;
        x_at += x_on;
        dy_at += dy_on;
        if (block >= blocks) {
            block -= blocks;
            ix -= blocks * PIXELS * x_scale;
            ++y;
            iy += y_scale;
            x_at += x_row;
            dy_at += dy_row;
        }
        while (y >= height) {
            y -= height;
            iy -= height * y_scale;
            ++z;
            iz += z_scale;
            x_at += x_plane;
            dy_at += dy_plane;
            if (z == planes) {
                z = 0;
                iz -= planes * z_scale;
                x_at += x_image;
                dy_at += dy_image;
            }
        }
    }
#if !CHANNELS_LAST
    __local real4 all[ITEMS];
    all[l] = sum;
    for (int half_width = ITEMS / 2; half_width > 0; half_width /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (l < half_width)
            all[l] += all[l + half_width];
    }
    if (l > 0)
        return;
    sum = all[0];
#endif
    const int length = depth * (int)(p.taps[0] * p.taps[1] * p.taps[2]);
    sums += sums_offset + ((long)part * outputs + output) * length + tap_line * (int)p.taps[2] + tx;
    const real values[4] = {sum.x, sum.y, sum.z, sum.w};
    EACH(i)
        if (tx + i < (int)p.taps[2])
            sums[i] = values[i];
}
