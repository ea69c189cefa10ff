// Deformable position-sensitive RoI pooling. Built with -DX=<dtype>.
//
// forward           one work-item per element of y
// backward, x       one work-item per (channel, band of rows of one image), walking over all regions in order
// backward, trans   one work-item per (region, class, part), walking over the outputs and bins of that part
#pragma OPENCL FP_CONTRACT OFF
#include "core/dtype.cl"
#include "core/errors.cl"

typedef compute_t(X) real;
typedef storage_t(X) element;

typedef struct {
    int regions, batch, channels, height, width, output_dim, group_size, pooled, parts, samples, classes, no_trans;
} problem;

typedef struct {
    long n, c, h, w;
} strides;

static inline int to_int(real v)   // any value, also NaN and infinity
{
    const real limit = (real)1e9;
    return v >= limit ? 1000000000 : v <= -limit ? -1000000000 : v == v ? (int)v : 0;
}

typedef struct {
    int image;         // -1: not in the batch
    real top, left, height, width;
} box;

static inline box read_box(const problem p, const __global element* roi, real scale)
{
    box b;
    const int image = to_int(load(X, roi, 0));
    b.image = image >= 0 && image < p.batch ? image : -1;
    b.left = round(load(X, roi, 1)) * scale - (real)0.5f;
    b.top = round(load(X, roi, 2)) * scale - (real)0.5f;
    const real right = (round(load(X, roi, 3)) + 1) * scale - (real)0.5f;
    const real bottom = (round(load(X, roi, 4)) + 1) * scale - (real)0.5f;
    b.width = fmax(right - b.left, (real)1 / 10);     // never empty
    b.height = fmax(bottom - b.top, (real)1 / 10);
    return b;
}

// Part or group that bin i falls into.
static inline int part_of(const problem p, int i, int parts)
{
    return clamp((int)floor((real)i / (real)p.pooled * (real)parts), 0, parts - 1);
}
static inline int group_of(const problem p, int i)
{
    return clamp((int)floor((real)i * (real)p.group_size / (real)p.pooled), 0, p.group_size - 1);
}

typedef struct {
    real top, left, step_h, step_w;   // of the bin's samples
} bin;

// trans: of this region and class, [2][part][part]: x, y.
static inline bin read_bin(const problem p, const box b, const __global element* trans, real trans_std, int ph, int pw)
{
    const int at = part_of(p, ph, p.parts) * p.parts + part_of(p, pw, p.parts);
    const real tx = p.no_trans ? (real)0 : load(X, trans, at) * trans_std;
    const real ty = p.no_trans ? (real)0 : load(X, trans, p.parts * p.parts + at) * trans_std;
    const real bin_h = b.height / (real)p.pooled, bin_w = b.width / (real)p.pooled;
    bin r;
    r.left = pw * bin_w + b.left;
    r.left += tx * b.width;
    r.top = ph * bin_h + b.top;
    r.top += ty * b.height;
    r.step_h = bin_h / (real)p.samples;
    r.step_w = bin_w / (real)p.samples;
    return r;
}

typedef struct {
    int inside, low, high;
    real far;   // weight of high
} axis;

static inline axis read_axis(real v, int size)
{
    axis a;
    a.inside = v >= (real)-0.5f && v <= (real)size - (real)0.5f;   // false for NaN
    v = a.inside ? clamp(v, (real)0, (real)(size - 1)) : (real)0;
    a.low = (int)floor(v);
    a.high = (int)ceil(v);
    a.far = v - a.low;
    return a;
}

static inline int channel_of(const problem p, int output, int ph, int pw)
{
    return (output * p.group_size + group_of(p, ph)) * p.group_size + group_of(p, pw);
}

__kernel void deform_psroi_forward(const __global element* x, ulong x_offset, const strides xs,
                                   const __global element* rois, ulong rois_offset, const __global element* trans,
                                   ulong trans_offset, __global element* y, ulong y_offset, __global element* counts,
                                   ulong counts_offset, __global int* errors, int error_code, const problem p,
                                   real scale, real trans_std)
{
    x += x_offset;
    rois += rois_offset;
    trans += trans_offset;
    const long id = get_global_id(0);
    if (id >= (long)p.regions * p.output_dim * p.pooled * p.pooled)
        return;
    const int pw = id % p.pooled, ph = id / p.pooled % p.pooled, output = id / p.pooled / p.pooled % p.output_dim;
    const long k = id / p.pooled / p.pooled / p.output_dim;
    const box b = read_box(p, rois + 5 * k, scale);
    real sum = 0;
    int count = 0;
    if (b.image < 0) {
        clprim_index_error(errors, error_code, to_int(load(X, rois, 5 * k)), p.batch);
    } else {
        const int class_id = output / (p.output_dim / p.classes);
        const bin r = read_bin(p, b, trans + (k * p.classes + class_id) * 2 * p.parts * p.parts, trans_std, ph, pw);
        x += b.image * xs.n + channel_of(p, output, ph, pw) * xs.c;
        for (int ih = 0; ih < p.samples; ++ih)
            for (int iw = 0; iw < p.samples; ++iw) {
                const axis v = read_axis(r.top + ih * r.step_h, p.height),
                           h = read_axis(r.left + iw * r.step_w, p.width);
                if (!v.inside || !h.inside)
                    continue;
                ++count;
                sum += (1 - h.far) * (1 - v.far) * load(X, x, v.low * xs.h + h.low * xs.w)
                    + (1 - h.far) * v.far * load(X, x, v.high * xs.h + h.low * xs.w)
                    + h.far * (1 - v.far) * load(X, x, v.low * xs.h + h.high * xs.w)
                    + h.far * v.far * load(X, x, v.high * xs.h + h.high * xs.w);
            }
    }
    store(X, y + y_offset, id, count == 0 ? (real)0 : sum / count);
    store(X, counts + counts_offset, id, (real)count);
}

// Gradient of the mean of a bin with respect to each of its samples.
static inline real sample_gradient(const __global element* gy, const __global element* counts, long at)
{
    const real count = load(X, counts, at);
    return count > 0 ? load(X, gy, at) / count : (real)0;
}

// Grid: (channels, bands, images).
__kernel void deform_psroi_backward_x(const __global element* gy, ulong gy_offset, const __global element* rois,
                                      ulong rois_offset, const __global element* trans, ulong trans_offset,
                                      const __global element* counts, ulong counts_offset, __global real* gx,
                                      ulong gx_offset, const strides gs, int band, const problem p, real scale,
                                      real trans_std)
{
    gy += gy_offset;
    rois += rois_offset;
    trans += trans_offset;
    counts += counts_offset;
    const int channel = get_global_id(0), image = get_group_id(2);
    const int first = get_group_id(1) * band, last = min(first + band, p.height);
    const int groups = p.group_size * p.group_size, output = channel / groups;
    if (channel >= p.output_dim * groups)
        return;
    gx += gx_offset + image * gs.n + channel * gs.c;
    for (int k = 0; k < p.regions; ++k) {
        const box b = read_box(p, rois + 5L * k, scale);
        if (b.image != image)
            continue;
        const __global element* shifts = trans
            + ((long)k * p.classes + output / (p.output_dim / p.classes)) * 2 * p.parts * p.parts;
        for (int ph = 0; ph < p.pooled; ++ph)
            for (int pw = 0; pw < p.pooled; ++pw) {
                if (channel_of(p, output, ph, pw) != channel)
                    continue;
                const real g =
                    sample_gradient(gy, counts, (((long)k * p.output_dim + output) * p.pooled + ph) * p.pooled + pw);
                const bin r = read_bin(p, b, shifts, trans_std, ph, pw);
                for (int ih = 0; ih < p.samples; ++ih) {
                    const axis v = read_axis(r.top + ih * r.step_h, p.height);
                    const int low = v.low >= first && v.low < last, high = v.high >= first && v.high < last;
                    if (!v.inside || !(low || high))
                        continue;
                    for (int iw = 0; iw < p.samples; ++iw) {
                        const axis h = read_axis(r.left + iw * r.step_w, p.width);
                        if (!h.inside)
                            continue;
                        if (low) {
                            gx[v.low * gs.h + h.low * gs.w] += (1 - h.far) * (1 - v.far) * g;
                            gx[v.low * gs.h + h.high * gs.w] += h.far * (1 - v.far) * g;
                        }
                        if (high) {
                            gx[v.high * gs.h + h.low * gs.w] += (1 - h.far) * v.far * g;
                            gx[v.high * gs.h + h.high * gs.w] += h.far * v.far * g;
                        }
                    }
                }
            }
    }
}

__kernel void deform_psroi_backward_trans(const __global element* gy, ulong gy_offset, const __global element* x,
                                          ulong x_offset, const strides xs, const __global element* rois,
                                          ulong rois_offset, const __global element* trans, ulong trans_offset,
                                          const __global element* counts, ulong counts_offset, __global element* gtrans,
                                          ulong gtrans_offset, const problem p, real scale, real trans_std)
{
    gy += gy_offset;
    x += x_offset;
    rois += rois_offset;
    trans += trans_offset;
    counts += counts_offset;
    gtrans += gtrans_offset;
    const long id = get_global_id(0);
    const int parts = p.parts * p.parts;
    if (id >= (long)p.regions * p.classes * parts)
        return;
    const int part = id % parts, class_id = id / parts % p.classes, per_class = p.output_dim / p.classes;
    const long k = id / parts / p.classes;
    const __global element* shifts = trans + (k * p.classes + class_id) * 2 * parts;
    const box b = read_box(p, rois + 5 * k, scale);
    real dx = 0, dy = 0;
    for (int output = class_id * per_class; b.image >= 0 && output < (class_id + 1) * per_class; ++output)
        for (int ph = 0; ph < p.pooled; ++ph)
            for (int pw = 0; pw < p.pooled; ++pw) {
                if (part_of(p, ph, p.parts) * p.parts + part_of(p, pw, p.parts) != part)
                    continue;
                const real g =
                    sample_gradient(gy, counts, ((k * p.output_dim + output) * p.pooled + ph) * p.pooled + pw);
                const bin r = read_bin(p, b, shifts, trans_std, ph, pw);
                const __global element* plane = x + b.image * xs.n + channel_of(p, output, ph, pw) * xs.c;
                for (int ih = 0; ih < p.samples; ++ih)
                    for (int iw = 0; iw < p.samples; ++iw) {
                        const axis v = read_axis(r.top + ih * r.step_h, p.height),
                                   h = read_axis(r.left + iw * r.step_w, p.width);
                        if (!v.inside || !h.inside)
                            continue;
                        const real u00 = load(X, plane, v.low * xs.h + h.low * xs.w),
                                   u01 = load(X, plane, v.high * xs.h + h.low * xs.w),
                                   u10 = load(X, plane, v.low * xs.h + h.high * xs.w),
                                   u11 = load(X, plane, v.high * xs.h + h.high * xs.w);
                        dx += ((u11 - u01) * v.far + (u10 - u00) * (1 - v.far)) * trans_std * g * b.width;
                        dy += ((u11 - u10) * h.far + (u01 - u00) * (1 - h.far)) * trans_std * g * b.height;
                    }
            }
    store(X, gtrans, (k * p.classes + class_id) * 2 * parts + part, dx);
    store(X, gtrans, ((k * p.classes + class_id) * 2 + 1) * parts + part, dy);
}
