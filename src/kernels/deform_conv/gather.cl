// From the gradient of the columns (gcol[tap][r][channel], r counting output pixels from q0) to the gradients of
// offset, mask and x, without float atomics.
//
// Gradient of x: every sample (offset group, tap, r) is put into the bin of its upper left corner; there are
// (H + 1) x (W + 1) bins per image and offset group, since that corner may lie one row or column outside; samples are
// sorted into bins (kernels/bins). Then each input pixel adds up the samples of the four bins around it, in order.
//
//     bins of pixel P:   +-----+-----+      a sample in bin 0 touches P with its lower right corner,
//                        |  0  |  1  |      in bin 1 with its lower left, in bin 2 with its upper right,
//                        +-----P-----+      in bin 3 with its upper left corner.
//                        |  2  |  3  |
//                        +-----+-----+
#include "kernels/deform_conv/sample.cl"

// Sample number s = (offset_group * taps + tap) * count + r of a chunk.
static inline int bins_per_image(const geometry g) { return (g.height + 1) * (g.width + 1); }

// Writes the samples' distances and mask (3 reals each) and their bins (-1: no bin).
__kernel void deform_conv_bins(const __global element* offset, ulong offset_offset, const strides os,
                               const __global element* mask, ulong mask_offset, const strides ms,
                               __global real* points, ulong points_offset, __global int* bins, ulong bins_offset,
                               long q0, int count, int images, const geometry g)
{
    const sampling from = {offset + offset_offset, mask + mask_offset, os, ms};
    points += points_offset;
    bins += bins_offset;
    const int taps = g.kernel_h * g.kernel_w, pixels = g.out_height * g.out_width;
    const long s = get_global_id(0);
    if (s >= (long)g.offset_groups * taps * count)
        return;
    const int r = s % count, tap = s / count % taps, group = s / count / taps;
    const long q = q0 + r;
    const int n = q / pixels;
    const sample point = read_sample(g, from, n, group, tap, q % pixels);
    points[3 * s] = point.ly;
    points[3 * s + 1] = point.lx;
    points[3 * s + 2] = point.mask;
    bins[s] = point.inside ? (group * images + n - (int)(q0 / pixels)) * bins_per_image(g) +
                                 (point.y + 1) * (g.width + 1) + point.x + 1
                           : -1;
}

// gx[n, c, y, x] += sum over the samples of the four bins around (y, x). Work-item = (pixel, channel).
__kernel void deform_conv_gather(const __global real* gcol, ulong gcol_offset, const __global real* points,
                                 ulong points_offset, const __global int* begins, ulong begins_offset,
                                 const __global int* list, ulong list_offset, __global real* gx, ulong gx_offset,
                                 const strides gs, long q0, int count, int images, const geometry g)
{
    gcol += gcol_offset;
    points += points_offset;
    begins += begins_offset;
    list += list_offset;
    gx += gx_offset;
    const int pixels = g.out_height * g.out_width, taps = g.kernel_h * g.kernel_w;
    const long id = get_global_id(0);
    if (id >= (long)images * g.height * g.width * g.channels)
        return;
    const int c = id % g.channels, x = id / g.channels % g.width, y = id / g.channels / g.width % g.height;
    const int image = id / g.channels / g.width / g.height, group = c / (g.channels / g.offset_groups);
    real sum = 0;
    for (int q = 3; q >= 0; --q) {   // the corner of the sample that touches this pixel
        const int bin = (group * images + image) * bins_per_image(g) + (y + 1 - (q >> 1)) * (g.width + 1)
            + x + 1 - (q & 1);
        for (int i = begins[bin]; i < begins[bin + 1]; ++i) {
            const long s = list[i];
            sample point;
            point.ly = points[3 * s];
            point.lx = points[3 * s + 1];
            const long row = s - (long)group * taps * count;
            sum = fma(corner_weight(point, q) * points[3 * s + 2], gcol[row * g.channels + c], sum);
        }
    }
    __global real* at = gx + (q0 / pixels + image) * gs.n + c * gs.c + y * gs.h + x * gs.w;
    *at += sum;
}

// Gradients of offset and mask. 16 work-items own one sample (offset group, tap, r); each takes every 16th channel.
__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void deform_conv_grad_offset(const __global element* x, ulong x_offset, const strides xs,
                             const __global element* offset, ulong offset_offset, const strides os,
                             const __global element* mask, ulong mask_offset, const strides ms,
                             const __global real* gcol, ulong gcol_offset,
                             __global element* goffset, ulong goffset_offset, const strides gos,
                             __global element* gmask, ulong gmask_offset, const strides gms,
                             long q0, int count, const geometry g, int wanted)
{
    x += x_offset;
    const sampling from = {offset + offset_offset, mask + mask_offset, os, ms};
    gcol += gcol_offset;
    goffset += goffset_offset;
    gmask += gmask_offset;
    __local real sums[3][64];
    const int id = get_local_id(0), lane = id % 16, taps = g.kernel_h * g.kernel_w, pixels = g.out_height * g.out_width;
    const int per_offset_group = g.channels / g.offset_groups;
    const long s = get_group_id(0) * 4L + id / 16;
    const int live = s < (long)g.offset_groups * taps * count;
    const int r = live ? s % count : 0, tap = s / count % taps, group = s / count / taps;
    const long q = q0 + r;
    const int n = q / pixels, pixel = q % pixels;
    real dy = 0, dx = 0, dm = 0, m = 0;
    if (live) {
        const sample point = read_sample(g, from, n, group, tap, pixel);
        m = point.mask;
        if (point.inside) {
            const __global real* gradient = gcol + ((long)tap * count + r) * g.channels;
            for (int c = group * per_offset_group + lane; c < (group + 1) * per_offset_group; c += 16) {
                real v[4];
                for (int k = 0; k < 4; ++k)
                    v[k] = corner_inside(g, point, k)
                        ? load(X, x, n * xs.n + c * xs.c + (point.y + (k >> 1)) * xs.h + (point.x + (k & 1)) * xs.w)
                        : (real)0;
                const real upper = (1 - point.lx) * v[0] + point.lx * v[1],
                           lower = (1 - point.lx) * v[2] + point.lx * v[3];
                const real d = gradient[c];
                dy = fma(d, lower - upper, dy);
                dx = fma(d, (1 - point.ly) * (v[1] - v[0]) + point.ly * (v[3] - v[2]), dx);
                dm = fma(d, (1 - point.ly) * upper + point.ly * lower, dm);
            }
        }
    }
    sums[0][id] = dy;
    sums[1][id] = dx;
    sums[2][id] = dm;
    for (int half_width = 8; half_width > 0; half_width /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < half_width)
            for (int k = 0; k < 3; ++k)
                sums[k][id] += sums[k][id + half_width];
    }
    if (!live || lane != 0)
        return;
    const int oy = pixel / g.out_width, ox = pixel % g.out_width;
    const long channel = (long)group * taps + tap;
    if (wanted & 1) {
        const long at = n * gos.n + 2 * channel * gos.c + oy * gos.h + ox * gos.w;
        store(X, goffset, at, sums[0][id] * m);
        store(X, goffset, at + gos.c, sums[1][id] * m);
    }
    if (wanted & 2)
        store(X, gmask, n * gms.n + channel * gms.c + oy * gms.h + ox * gms.w, sums[2][id]);
}
