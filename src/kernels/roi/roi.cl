// Pooling over regions of interest. Built with -DX=<dtype> and -DMETHOD=<ALIGN, POOL, PS_ALIGN or PS_POOL>.
//
// forward    one work-item per element of y
// backward   one work-item per (channel, band of rows of one image): it walks over all regions in order and adds what
//            falls into its own rows. A work-group holds neighbouring channels of one band, so control flow is uniform.
//
// Arithmetic follows torchvision step by step, without contraction: whether a sample is inside, or where a bin ends,
// must not depend on a fused multiply.
#pragma OPENCL FP_CONTRACT OFF
#include "core/dtype.cl"
#include "core/errors.cl"

#define ALIGN 0
#define POOL 1
#define PS_ALIGN 2
#define PS_POOL 3
#define SAMPLED (METHOD == ALIGN || METHOD == PS_ALIGN)
#define POSITION_SENSITIVE (METHOD == PS_ALIGN || METHOD == PS_POOL)

typedef compute_t(X) real;
typedef storage_t(X) element;

typedef struct {
    int regions, batch, channels, height, width, out_channels, pooled_height, pooled_width, sampling_ratio, aligned;
} problem;

typedef struct {
    long n, c, h, w;
} strides;

typedef struct {
    int image;             // -1: not in the batch
    real top, left;        // of the box, scaled (rounded for the pool methods)
    real bin_h, bin_w;
    int grid_h, grid_w;    // samples per bin
} region;

static inline int to_int(real v)   // any value, also NaN and infinity
{
    const real limit = (real)1e9;
    return v >= limit ? 1000000000 : v <= -limit ? -1000000000 : v == v ? (int)v : 0;
}

static inline region read_region(const problem p, const __global element* roi, real scale)
{
    region r;
    const int image = to_int(load(X, roi, 0));
    r.image = image >= 0 && image < p.batch ? image : -1;
#if SAMPLED
    const real shift = METHOD == PS_ALIGN || p.aligned ? (real)0.5f : (real)0;
    r.left = load(X, roi, 1) * scale - shift;
    r.top = load(X, roi, 2) * scale - shift;
    real width = (load(X, roi, 3) * scale - shift) - r.left, height = (load(X, roi, 4) * scale - shift) - r.top;
    if (METHOD == ALIGN && !p.aligned) {
        width = width > 1 ? width : (real)1;
        height = height > 1 ? height : (real)1;
    }
    r.grid_h = p.sampling_ratio > 0 ? p.sampling_ratio : to_int(ceil(height / p.pooled_height));
    r.grid_w = p.sampling_ratio > 0 ? p.sampling_ratio : to_int(ceil(width / p.pooled_width));
#else
    const int left = to_int(round(load(X, roi, 1) * scale)), top = to_int(round(load(X, roi, 2) * scale));
    const int right = to_int(round(load(X, roi, 3) * scale)), bottom = to_int(round(load(X, roi, 4) * scale));
    const int closed = METHOD == POOL;   // RoI pool counts the last pixel, PS-RoI pool does not
    const real width = (real)max(right - left + closed, 1), height = (real)max(bottom - top + closed, 1);
    r.left = (real)left;
    r.top = (real)top;
    r.grid_h = r.grid_w = 0;
#endif
    r.bin_h = height / (real)p.pooled_height;
    r.bin_w = width / (real)p.pooled_width;
    return r;
}

// Coordinate of sample i of a bin.
static inline real sample_at(real begin, int bin, real bin_size, int i, int grid)
{
    return begin + bin * bin_size + (real)(i + 0.5f) * bin_size / (real)grid;
}

typedef struct {
    int inside, low, high;
    real near, far;   // weights of low and high
} axis;

// Samples within one pixel outside of the image count as on its border.
static inline axis read_axis(real v, int size)
{
    axis a;
    a.inside = v >= (real)-1 && v <= (real)size;
    v = a.inside && v > 0 ? v : (real)0;
    a.low = (int)v;
    a.high = a.low + 1;
    if (a.low >= size - 1) {
        a.high = a.low = size - 1;
        v = (real)a.low;
    }
    a.far = v - a.low;
    a.near = 1 - a.far;
    return a;
}

// Pixels begin <= i < end of a bin of the pool methods, clipped to [0, limit].
static inline int2 bin_range(real start, int bin, real bin_size, int limit)
{
    const int first = to_int(start) + to_int(floor(bin * bin_size)),
              last = to_int(start) + to_int(ceil((bin + 1) * bin_size));
    return (int2)(clamp(first, 0, limit), clamp(last, 0, limit));
}

__kernel void roi_forward(const __global element* x, ulong x_offset, const strides xs, const __global element* rois,
                          ulong rois_offset, __global element* y, ulong y_offset, const strides ys,
                          __global int* indices, ulong indices_offset, __global int* errors, int error_code,
                          const problem p, real scale)
{
    x += x_offset;
    rois += rois_offset;
    y += y_offset;
    indices += indices_offset;
    const long id = get_global_id(0), bins = (long)p.pooled_height * p.pooled_width;
    if (id >= p.regions * p.out_channels * bins)
        return;
    // Neighbours in memory of y are neighbours in the launch.
    const int last = ys.c == 1;
    const int k = id / bins / p.out_channels;
    const int c = last ? id % p.out_channels : id / bins % p.out_channels;
    const int bin = last ? id / p.out_channels % bins : id % bins;
    const int ph = bin / p.pooled_width, pw = bin % p.pooled_width;
    const int channel = POSITION_SENSITIVE ? c * bins + bin : c;
    const region r = read_region(p, rois + 5L * k, scale);
    real result = 0;
    int index = POSITION_SENSITIVE ? channel : -1;
    if (r.image < 0) {
        clprim_index_error(errors, error_code, to_int(load(X, rois, 5L * k)), p.batch);
    } else {
        x += r.image * xs.n + channel * xs.c;
#if SAMPLED
        for (int iy = 0; iy < r.grid_h; ++iy) {
            const axis v = read_axis(sample_at(r.top, ph, r.bin_h, iy, r.grid_h), p.height);
            for (int ix = 0; ix < r.grid_w; ++ix) {
                const axis h = read_axis(sample_at(r.left, pw, r.bin_w, ix, r.grid_w), p.width);
                real corners[4] = {0, 0, 0, 0};
                if (v.inside && h.inside) {
                    corners[0] = v.near * h.near * load(X, x, v.low * xs.h + h.low * xs.w);
                    corners[1] = v.near * h.far * load(X, x, v.low * xs.h + h.high * xs.w);
                    corners[2] = v.far * h.near * load(X, x, v.high * xs.h + h.low * xs.w);
                    corners[3] = v.far * h.far * load(X, x, v.high * xs.h + h.high * xs.w);
                }
#ifdef LARGEST
                const real most = fmax(fmax(corners[0], corners[1]), fmax(corners[2], corners[3]));
                result = iy + ix == 0 ? most : fmax(result, most);
#else
                result += corners[0] + corners[1] + corners[2] + corners[3];
#endif
            }
        }
#ifndef LARGEST
        // An empty box without samples: 0 for RoI align, 0 / 0 for PS-RoI align, as torchvision.
        result /= (real)max((long)r.grid_h * r.grid_w, METHOD == ALIGN ? 1L : 0L);
#endif
#else
        // PS-RoI pool leaves out the last row and column in its forward pass, as torchvision does.
        const int cut = METHOD == PS_POOL;
        const int2 rows = bin_range(r.top, ph, r.bin_h, p.height - cut),
                   columns = bin_range(r.left, pw, r.bin_w, p.width - cut);
        const int empty = rows.y <= rows.x || columns.y <= columns.x;
        if (METHOD == POOL && !empty)
            result = (real)-FLT_MAX;
        for (int h = rows.x; h < rows.y; ++h)
            for (int w = columns.x; w < columns.y; ++w) {
                const real v = load(X, x, h * xs.h + w * xs.w);
                if (METHOD == PS_POOL) {
                    result += v;
                } else if (v > result) {
                    result = v;
                    index = h * p.width + w;
                }
            }
        if (METHOD == PS_POOL && !empty)
            result /= (real)((rows.y - rows.x) * (columns.y - columns.x));
#endif
    }
    store(X, y, k * ys.n + c * ys.c + ph * ys.h + pw * ys.w, result);
    if (METHOD != ALIGN)
        indices[((long)k * p.out_channels + c) * bins + bin] = index;
}

// What region r's bin (ph, pw) adds to the rows first <= row < last of one plane; g is the bin's gradient.
static inline void add_bin(const problem p, const region r, int ph, int pw, real g, int argmax, int first, int last,
                           __global real* gx, const strides gs)
{
#if SAMPLED
    const real count = (real)((long)r.grid_h * r.grid_w);
    for (int iy = 0; iy < r.grid_h; ++iy) {
        const axis v = read_axis(sample_at(r.top, ph, r.bin_h, iy, r.grid_h), p.height);
        const int low = v.low >= first && v.low < last, high = v.high >= first && v.high < last;
        if (!v.inside || !(low || high))
            continue;
        for (int ix = 0; ix < r.grid_w; ++ix) {
            const axis h = read_axis(sample_at(r.left, pw, r.bin_w, ix, r.grid_w), p.width);
            if (!h.inside)
                continue;
            if (low) {
                gx[v.low * gs.h + h.low * gs.w] += g * (v.near * h.near) / count;
                gx[v.low * gs.h + h.high * gs.w] += g * (v.near * h.far) / count;
            }
            if (high) {
                gx[v.high * gs.h + h.low * gs.w] += g * (v.far * h.near) / count;
                gx[v.high * gs.h + h.high * gs.w] += g * (v.far * h.far) / count;
            }
        }
    }
#elif METHOD == POOL
    const int row = argmax / p.width;
    if (argmax >= 0 && row >= first && row < last)
        gx[row * gs.h + argmax % p.width * gs.w] += g;
#else
    const int2 rows = bin_range(r.top, ph, r.bin_h, p.height), columns = bin_range(r.left, pw, r.bin_w, p.width);
    if (rows.y <= rows.x || columns.y <= columns.x)
        return;
    g /= (real)((rows.y - rows.x) * (columns.y - columns.x));
    for (int h = max(rows.x, first); h < min(rows.y, last); ++h)
        for (int w = columns.x; w < columns.y; ++w)
            gx[h * gs.h + w * gs.w] += g;
#endif
}

// Grid: (channels, bands of `band` rows, images). gx is of the compute type and holds zeros.
__kernel void roi_backward(const __global element* gy, ulong gy_offset, const strides gys, const __global element* rois,
                           ulong rois_offset, const __global int* indices, ulong indices_offset, __global real* gx,
                           ulong gx_offset, const strides gs, int band, const problem p, real scale)
{
    gy += gy_offset;
    rois += rois_offset;
    indices += indices_offset;
    const int channel = get_global_id(0), image = get_group_id(2);
    const int first = get_group_id(1) * band, last = min(first + band, p.height);
    if (channel >= p.channels)
        return;
    gx += gx_offset + image * gs.n + channel * gs.c;
    const int bins = p.pooled_height * p.pooled_width;
    for (int k = 0; k < p.regions; ++k) {
        const region r = read_region(p, rois + 5L * k, scale);
        if (r.image != image)
            continue;
#if POSITION_SENSITIVE
        const int c = channel / bins, ph = channel % bins / p.pooled_width, pw = channel % p.pooled_width;
        add_bin(p, r, ph, pw, load(X, gy, k * gys.n + c * gys.c + ph * gys.h + pw * gys.w), 0, first, last, gx, gs);
#else
        for (int ph = 0; ph < p.pooled_height; ++ph) {
#if SAMPLED
            // All samples of this row of bins lie between these; a pixel of slack for the border and for rounding.
            const real top = r.top + ph * r.bin_h, bottom = top + r.bin_h;
            if (max(top, bottom) < (real)(first - 2) || min(top, bottom) > (real)(last + 1))
                continue;
#endif
            for (int pw = 0; pw < p.pooled_width; ++pw) {
                const long at = k * gys.n + channel * gys.c + ph * gys.h + pw * gys.w;
                const int argmax = METHOD == POOL
                    ? indices[((long)k * p.channels + channel) * bins + ph * p.pooled_width + pw] : 0;
                add_bin(p, r, ph, pw, load(X, gy, at), argmax, first, last, gx, gs);
            }
        }
#endif
    }
}
