// What surrounds the products of cpu_fused.cl: tensors to rows and back, weights and gradients to panels and back.
#include "kernels/conv/transpose.cl"
#include "kernels/deform_conv/cpu_rows.cl"

// Tensors in planes are read and written ROW_PIXELS at a time: planes often lie a power of two apart, and few of their
// lines fit the cache together, so each visit takes several.
#define ROW_PIXELS 64
#define PLANES_float32 1
#if CLPRIM_CAT(PLANES_, X)
#define PLANES   // vectors of them can be loaded as they are
#endif

// Places of ROW_PIXELS pixels from `first` in a plane of a tensor.
static inline void find_pixels(const strides xs, int first, int pixels, int width, long at[ROW_PIXELS])
{
    for (int p = 0; p < ROW_PIXELS; ++p) {
        const int pixel = min(first + p, pixels - 1);
        at[p] = (pixel / width) * xs.h + (pixel % width) * xs.w;
    }
}

// Any strides and dtype to rows. Task = ROW_PIXELS pixels of one image.
TASK void deform_conv_to_rows(const __global element* x, ulong x_offset, const strides xs, __global float* rows,
                              ulong rows_offset, int height, int width, int channels, const layout l)
{
    x += x_offset;
    rows += rows_offset;
    const int pixels = height * width, tiles = (pixels + ROW_PIXELS - 1) / ROW_PIXELS;
    const int n = get_group_id(0) / tiles, first = get_group_id(0) % tiles * ROW_PIXELS;
    const int count = min(ROW_PIXELS, pixels - first);
    x += n * xs.n;
    rows += ((long)n * pixels + first) * l.channels;
    long at[ROW_PIXELS];
    find_pixels(xs, first, pixels, width, at);
    for (int c0 = 0; c0 < l.channels; c0 += 16) {
        const int segment = c0 / l.padded_segment, within = c0 % l.padded_segment;
        const __global element* plane = x + (segment * (long)l.segment + within) * xs.c;
        const int live = clamp(l.segment - within, 0, 16);
        for (int p0 = 0; p0 < count; p0 += 16) {
            __global float* to = rows + (long)p0 * l.channels + c0;
#ifdef PLANES
            if (live == 16 && xs.w == 1 && at[p0 + 15] - at[p0] == 15) {   // 16 neighbours in memory
                const __global float* from = plane + at[p0];
#define GET_PLANE(name, i) const float16 r##name = vload16(0, from + i * xs.c);
#define PUT_PIXEL(name, i) vstore16(u##name, 0, to + (long)i * l.channels);
                TRANSPOSE_16(GET_PLANE, PUT_PIXEL)
                continue;
            }
#endif
            for (int p = 0; p < min(16, count - p0); ++p)
                for (int k = 0; k < 16; ++k)
                    to[(long)p * l.channels + k] = k < live ? load(X, plane, at[p0 + p] + k * xs.c) : 0.f;
        }
    }
}

// Rows to any strides and dtype. Task = ROW_PIXELS pixels of one image; adds up `parts` partial results,
// part_size apart.
TASK void deform_conv_from_rows(const __global float* rows, ulong rows_offset, int parts, long part_size,
                                __global element* x, ulong x_offset, const strides xs, int height, int width,
                                const layout l)
{
    x += x_offset;
    rows += rows_offset;
    const int pixels = height * width, tiles = (pixels + ROW_PIXELS - 1) / ROW_PIXELS;
    const int n = get_group_id(0) / tiles, first = get_group_id(0) % tiles * ROW_PIXELS;
    const int count = min(ROW_PIXELS, pixels - first);
    x += n * xs.n;
    rows += ((long)n * pixels + first) * l.channels;
    long at[ROW_PIXELS];
    find_pixels(xs, first, pixels, width, at);
    for (int c0 = 0; c0 < l.channels; c0 += 16) {
        const int segment = c0 / l.padded_segment, within = c0 % l.padded_segment;
        float block[ROW_PIXELS * 16];
        for (int p = 0; p < count; ++p) {
            float16 sum = vload16(0, rows + (long)p * l.channels + c0);
            for (int i = 1; i < parts; ++i)
                sum += vload16(0, rows + i * part_size + (long)p * l.channels + c0);
            vstore16(sum, p, block);
        }
        for (int k = 0; k < 16 && within + k < l.segment; ++k)
            for (int p = 0; p < count; ++p)
                store(X, x, at[p] + (segment * l.segment + within + k) * xs.c, block[p * 16 + k]);
    }
}

// Weights are packed in blocks of 32 outputs x 32 channels with all taps, which stay in the nearest cache: a tap alone
// would use one float of every line. Where a block begins: w at its first output and channel, `live` of its
// channels real.
typedef struct {
    const __global element* w;
    int live, outputs;
} weight_block;

static inline weight_block find_block(const __global element* w, const strides ws, const geometry g, const layout l,
                                      int k0, int o0)
{
    const int outputs = g.out_channels / g.groups, depth = padded_group(g, l), within = k0 % l.padded_segment;
    const int c = k0 % depth / l.padded_segment * l.segment + within;
    const weight_block block = {w + (k0 / depth * outputs + o0) * ws.n + c * ws.c, clamp(l.segment - within, 0, 32),
                                min(outputs - o0, 32)};
    return block;
}

// forward: [group][tap][o / 32][padded c of the group][32 o]. Task = (32 padded channels, o / 32).
TASK void deform_conv_pack_forward(const __global element* w, ulong w_offset, const strides ws, __global float* packed,
                                   ulong packed_offset, const geometry g, const layout l)
{
    const int outputs = g.out_channels / g.groups, panels = (outputs + 31) / 32, taps = g.kernel_h * g.kernel_w;
    const int panel = get_group_id(0) % panels, k0 = get_group_id(0) / panels * 32, depth = padded_group(g, l);
    const weight_block block = find_block(w + w_offset, ws, g, l, k0, panel * 32);
    packed += packed_offset + (((long)(k0 / depth) * taps * panels + panel) * depth + k0 % depth) * 32;
#ifdef PLANES
    if (block.live == 32 && block.outputs == 32 && ws.w == 1 && ws.h == g.kernel_w && ws.c == taps) {
        // An output's (channel, tap) lie one after the other: transposed 16 at a time.
        for (int i0 = 0; i0 < 32; i0 += 16)
            for (int j0 = 0; j0 < 32 * taps; j0 += 16) {
                const __global float* from = block.w + i0 * ws.n + j0;
                __global float* to = packed + i0;
#define GET_OUTPUT(name, i) const float16 r##name = vload16(0, from + i * ws.n);
#define PUT_TAP(name, i)                                                                                             \
    vstore16(u##name, 0, to + ((long)((j0 + i) % taps) * panels * depth + (j0 + i) / taps) * 32);
                TRANSPOSE_16(GET_OUTPUT, PUT_TAP)
            }
        return;
    }
#endif
    for (int tap = 0; tap < taps; ++tap) {
        const __global element* from = block.w + (tap / g.kernel_w) * ws.h + (tap % g.kernel_w) * ws.w;
        __global float* to = packed + (long)tap * panels * depth * 32;
        for (int k = 0; k < 32; ++k)
            for (int i = 0; i < 32; ++i)
                to[k * 32 + i] = k < block.live && i < block.outputs ? load(X, from, i * ws.n + k * ws.c) : 0.f;
    }
}

// data: [padded chunk][tap][o of the group][32 c]. Task = (chunk, o / 32).
TASK void deform_conv_pack_data(const __global element* w, ulong w_offset, const strides ws, __global float* packed,
                                ulong packed_offset, const geometry g, const layout l)
{
    const int outputs = g.out_channels / g.groups, panels = (outputs + 31) / 32, taps = g.kernel_h * g.kernel_w;
    const int o0 = get_group_id(0) % panels * 32, chunk = get_group_id(0) / panels;
    const weight_block block = find_block(w + w_offset, ws, g, l, chunk * 32, o0);
    packed += packed_offset + ((long)chunk * taps * outputs + o0) * 32;
    for (int tap = 0; tap < taps; ++tap) {
        const __global element* from = block.w + (tap / g.kernel_w) * ws.h + (tap % g.kernel_w) * ws.w;
        __global float* to = packed + (long)tap * outputs * 32;
        for (int o = 0; o < block.outputs; ++o)
            if (block.live == 32)
                for (int i = 0; i < 32; ++i)
                    to[o * 32 + i] = load(X, from, o * ws.n + i * ws.c);
            else
                for (int i = 0; i < 32; ++i)
                    to[o * 32 + i] = i < block.live ? load(X, from, o * ws.n + i * ws.c) : 0.f;
    }
}

// Rows of gy to [group][block of pixels][o / 12][pixel][12 o], zeros beyond the ends. Task = (group, block).
TASK void deform_conv_pack_gy(const __global float* gy, ulong gy_offset, __global float* packed, ulong packed_offset,
                              const geometry g)
{
    gy += gy_offset;
    packed += packed_offset;
    const int pixels = g.out_height * g.out_width, outputs = g.out_channels / g.groups, panels = (outputs + 11) / 12;
    const long total = (long)g.batch * pixels;
    const int blocks = (total + BLOCK - 1) / BLOCK, group = get_group_id(0) / blocks;
    packed += get_group_id(0) * (long)panels * BLOCK * 12;
    for (int k = 0; k < BLOCK; ++k) {
        const long q = (long)(get_group_id(0) % blocks) * BLOCK + k;
        const __global float* from = gy + q * g.out_channels + group * outputs;
        for (int i = 0; i < panels; ++i)
            for (int r = 0; r < 12; ++r)
                packed[(i * BLOCK + k) * 12 + r] = q < total && i * 12 + r < outputs ? from[i * 12 + r] : 0.f;
    }
}

// Adds the chunks of each offset group. One work-item per (image, offset group, tap, pixel).
__kernel void deform_conv_sum_offset(const __global float* partial, ulong partial_offset, __global element* goffset,
                                     ulong goffset_offset, const strides gos, __global element* gmask,
                                     ulong gmask_offset, const strides gms, int n0, int images, const geometry g,
                                     const layout l, int wanted)
{
    partial += partial_offset;
    goffset += goffset_offset;
    gmask += gmask_offset;
    const int pixels = g.out_height * g.out_width, taps = g.kernel_h * g.kernel_w, chunks = l.channels / 32;
    const long id = get_global_id(0);
    if (id >= (long)images * g.offset_groups * taps * pixels)
        return;
    const int p = id % pixels, tap = id / pixels % taps, group = id / pixels / taps % g.offset_groups;
    const int image = id / pixels / taps / g.offset_groups, n = n0 + image, oy = p / g.out_width, ox = p % g.out_width;
    const int per_group = chunks / g.offset_groups;
    float dy = 0, dx = 0, dm = 0;
    for (int chunk = group * per_group; chunk < (group + 1) * per_group; ++chunk) {
        const __global float* sums = partial + (((long)image * chunks + chunk) * taps + tap) * 3 * pixels + p;
        dy += sums[0];
        dx += sums[pixels];
        dm += sums[2 * pixels];
    }
    const long channel = (long)group * taps + tap;
    if (wanted & 1) {
        const long at = n * gos.n + 2 * channel * gos.c + oy * gos.h + ox * gos.w;
        store(X, goffset, at, dy);
        store(X, goffset, at + gos.c, dx);
    }
    if (wanted & 2)
        store(X, gmask, n * gms.n + channel * gms.c + oy * gms.h + ox * gms.w, dm);
}

// Adds the parts. One work-item per element of the weight.
__kernel void deform_conv_unpack_weight(const __global float* partial, ulong partial_offset, __global element* gw,
                                        ulong gw_offset, const strides ws, int padded_outputs, int parts,
                                        const geometry g, const layout l)
{
    partial += partial_offset;
    gw += gw_offset;
    const int per_group = g.channels / g.groups, outputs = g.out_channels / g.groups, taps = g.kernel_h * g.kernel_w;
    const long id = get_global_id(0);
    if (id >= (long)g.out_channels * per_group * taps)
        return;
    const int tap = id % taps, c = id / taps % per_group, output = id / taps / per_group, group = output / outputs;
    const int channel = group * per_group + c;
    const int padded = channel / l.segment * l.padded_segment + channel % l.segment;
    const int chunks = l.channels / 32;
    partial += (((long)tap * chunks + padded / 32) * padded_outputs + output % outputs) * 32 + padded % 32;
    float v = partial[0];
    for (int part = 1; part < parts; ++part)
        v += partial[(long)part * taps * chunks * padded_outputs * 32];
    store(X, gw, output * ws.n + c * ws.c + (tap / g.kernel_w) * ws.h + (tap % g.kernel_w) * ws.w, v);
}
