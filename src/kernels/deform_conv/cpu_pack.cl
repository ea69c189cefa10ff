// What surrounds the products of cpu_fused.cl: tensors to rows and back, weights and gradients to panels and back.
#include "kernels/deform_conv/cpu_rows.cl"

// Any strides and dtype to rows. Task = 16 pixels of one image.
TASK void deform_conv_to_rows(const __global element* x, ulong x_offset, const strides xs, __global float* rows,
                              ulong rows_offset, int height, int width, int channels, const layout l)
{
    x += x_offset;
    rows += rows_offset;
    const int pixels = height * width, tiles = (pixels + 15) / 16;
    const int n = get_group_id(0) / tiles, p0 = get_group_id(0) % tiles * 16, count = min(16, pixels - p0);
    x += n * xs.n;
    rows += ((long)n * pixels + p0) * l.channels;
    long at[16];
    for (int p = 0; p < 16; ++p) {
        const int pixel = p0 + min(p, count - 1);
        at[p] = (pixel / width) * xs.h + (pixel % width) * xs.w;
    }
    // 16 neighbours in memory?
    const int dense = count == 16 && xs.w == 1 && (xs.h == width || p0 % width + 16 <= width);
    for (int c0 = 0; c0 < l.channels; c0 += 16) {
        const int segment = c0 / l.padded_segment, within = c0 % l.padded_segment;
        float block[16 * 16];
        for (int k = 0; k < 16; ++k) {
            const long c = within + k < l.segment ? segment * l.segment + within + k : -1;
            if (dense && c >= 0)
                for (int p = 0; p < 16; ++p)
                    block[p * 16 + k] = load(X, x, at[0] + c * xs.c + p);
            else
                for (int p = 0; p < 16; ++p)
                    block[p * 16 + k] = c >= 0 ? load(X, x, at[p] + c * xs.c) : 0.f;
        }
        for (int p = 0; p < count; ++p)
            vstore16(vload16(p, block), 0, rows + (long)p * l.channels + c0);
    }
}

// Rows to any strides and dtype. Task = 16 pixels of one image; adds up `parts` partial results, part_size apart.
TASK void deform_conv_from_rows(const __global float* rows, ulong rows_offset, int parts, long part_size,
                                __global element* x, ulong x_offset, const strides xs, int height, int width,
                                const layout l)
{
    x += x_offset;
    rows += rows_offset;
    const int pixels = height * width, tiles = (pixels + 15) / 16;
    const int n = get_group_id(0) / tiles, p0 = get_group_id(0) % tiles * 16, count = min(16, pixels - p0);
    x += n * xs.n;
    rows += ((long)n * pixels + p0) * l.channels;
    long at[16];
    for (int p = 0; p < count; ++p)
        at[p] = ((p0 + p) / width) * xs.h + ((p0 + p) % width) * xs.w;
    for (int c0 = 0; c0 < l.channels; c0 += 16) {
        const int segment = c0 / l.padded_segment, within = c0 % l.padded_segment;
        float block[16 * 16];
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

// forward: [group][tap][o / 32][padded c of the group][32 o]. Task = (group, tap, o / 32).
TASK void deform_conv_pack_forward(const __global element* w, ulong w_offset, const strides ws, __global float* packed,
                                   ulong packed_offset, const geometry g, const layout l)
{
    w += w_offset;
    packed += packed_offset;
    const int outputs = g.out_channels / g.groups, panels = (outputs + 31) / 32, taps = g.kernel_h * g.kernel_w;
    const int panel = get_group_id(0) % panels, tap = get_group_id(0) / panels % taps;
    const int group = get_group_id(0) / panels / taps, depth = padded_group(g, l);
    packed += (long)get_group_id(0) * depth * 32;
    w += (tap / g.kernel_w) * ws.h + (tap % g.kernel_w) * ws.w;
    for (int k = 0; k < depth; ++k) {
        const int within = k % l.padded_segment, c = k / l.padded_segment * l.segment + within;
        for (int i = 0; i < 32; ++i) {
            const int o = panel * 32 + i;
            packed[k * 32 + i] = within < l.segment && o < outputs
                ? load(X, w, (group * outputs + o) * ws.n + c * ws.c) : 0.f;
        }
    }
}

// data: [padded chunk][tap][o of the group][32 c]. Task = (chunk, tap).
TASK void deform_conv_pack_data(const __global element* w, ulong w_offset, const strides ws, __global float* packed,
                                ulong packed_offset, const geometry g, const layout l)
{
    w += w_offset;
    packed += packed_offset;
    const int outputs = g.out_channels / g.groups, taps = g.kernel_h * g.kernel_w;
    const int tap = get_group_id(0) % taps, k0 = get_group_id(0) / taps * 32, depth = padded_group(g, l);
    const int group = k0 / depth, within = k0 % l.padded_segment;
    const int c0 = k0 % depth / l.padded_segment * l.segment + within;
    packed += (long)get_group_id(0) * outputs * 32;
    w += (tap / g.kernel_w) * ws.h + (tap % g.kernel_w) * ws.w + (long)group * outputs * ws.n;
    for (int o = 0; o < outputs; ++o)
        for (int i = 0; i < 32; ++i)
            packed[o * 32 + i] = within + i < l.segment ? load(X, w, o * ws.n + (c0 + i) * ws.c) : 0.f;
}

// gy to [group][block of pixels][o / 12][pixel][12 o], zeros beyond the ends. Task = (group, block).
TASK void deform_conv_pack_gy(const __global element* gy, ulong gy_offset, const strides gs, __global float* packed,
                              ulong packed_offset, const geometry g)
{
    gy += gy_offset;
    packed += packed_offset;
    const int pixels = g.out_height * g.out_width, outputs = g.out_channels / g.groups, panels = (outputs + 11) / 12;
    const long total = (long)g.batch * pixels;
    const int blocks = (total + BLOCK - 1) / BLOCK, group = get_group_id(0) / blocks;
    packed += get_group_id(0) * (long)panels * BLOCK * 12;
    for (int k = 0; k < BLOCK; ++k) {
        const long q = (long)(get_group_id(0) % blocks) * BLOCK + k;
        const int p = q % pixels;
        const __global element* from = gy + (q / pixels) * gs.n + (p / g.out_width) * gs.h + (p % g.out_width) * gs.w
            + (long)group * outputs * gs.c;
        for (int i = 0; i < panels; ++i)
            for (int r = 0; r < 12; ++r)
                packed[(i * BLOCK + k) * 12 + r] = q < total && i * 12 + r < outputs ? load(X, from, (i * 12 + r) * gs.c) : 0.f;
    }
}

// Adds the chunks of each offset group. One work-item per (image, offset group, tap, pixel).
__kernel void deform_conv_sum_offset(const __global float* partial, ulong partial_offset, __global element* goffset,
                                     ulong goffset_offset, const strides gos, __global element* gmask, ulong gmask_offset,
                                     const strides gms, int n0, int images, const geometry g, const layout l, int wanted)
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

// One work-item per element of the weight.
__kernel void deform_conv_unpack_weight(const __global float* partial, ulong partial_offset, __global element* gw,
                                        ulong gw_offset, const strides ws, const geometry g, const layout l)
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
    const int panels = (outputs + 11) / 12, chunks = l.channels / 32;
    const float v = partial[(((long)tap * chunks + padded / 32) * panels * 12 + output % outputs) * 32 + padded % 32];
    store(X, gw, output * ws.n + c * ws.c + (tap / g.kernel_w) * ws.h + (tap % g.kernel_w) * ws.w, v);
}
