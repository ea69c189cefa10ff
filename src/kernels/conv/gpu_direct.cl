// Convolution with few channels per group (depthwise above all) on a GPU: nothing to stage, every work-item adds up one
// element of the result. Neighbouring work-items take neighbouring pixels of planar tensors, neighbouring channels of
// channels_last ones (-DCHANNELS_LAST). Built with -DT=<dtype>.
#include "core/dtype.cl"
#include "kernels/conv/implicit_problem.cl"

typedef compute_t(T) real;
typedef storage_t(T) stored;

DEFINE_ACTIVATE(activate, real)

// Splits i over the sizes of a pixel, innermost last; returns the rest.
static inline long split_pixel(const implicit_problem* p, long i, int* z, int* y, int* x)
{
    *x = i % p->out[2];
    i /= p->out[2];
    *y = i % p->out[1];
    i /= p->out[1];
    *z = i % p->out[0];
    return i / p->out[0];
}

__kernel void conv_direct(const __global stored* source, ulong source_offset, const __global stored* w, ulong w_offset,
                          const __global stored* bias, ulong bias_offset, __global stored* result, ulong result_offset,
                          implicit_problem p, pack_problem q)
{
    const long channels = p.groups * p.rows;
    int z, y, x;
#ifdef CHANNELS_LAST
    const long channel = get_global_id(0) % channels, n = split_pixel(&p, get_global_id(0) / channels, &z, &y, &x);
#else
    const long nc = split_pixel(&p, get_global_id(0), &z, &y, &x), channel = nc % channels, n = nc / channels;
#endif
    if (n >= p.batch)
        return;
    const long group = channel / p.rows;
    source += source_offset + n * p.source_strides[0] + group * p.depth * p.source_strides[1];
    w += w_offset + group * q.group_stride + channel % p.rows * q.row_stride;
    real sum = 0;
    for (int tz = 0; tz < p.taps[0]; ++tz) {
        const int iz = z * (int)p.scale[0] + (int)p.shift[0] + tz * (int)p.step[0];
        if (iz < 0 || iz >= p.in[0])
            continue;
        for (int ty = 0; ty < p.taps[1]; ++ty) {
            const int iy = y * (int)p.scale[1] + (int)p.shift[1] + ty * (int)p.step[1];
            if (iy < 0 || iy >= p.in[1])
                continue;
            for (int tx = 0; tx < p.taps[2]; ++tx) {
                const int ix = x * (int)p.scale[2] + (int)p.shift[2] + tx * (int)p.step[2];
                if (ix < 0 || ix >= p.in[2])
                    continue;
                const long from = iz * p.source_strides[2] + iy * p.source_strides[3] + ix * p.source_strides[4];
                const long tap = (p.tap_first[0] + tz * p.tap_period[0]) * q.tap_strides[0] +
                                 (p.tap_first[1] + ty * p.tap_period[1]) * q.tap_strides[1] +
                                 (p.tap_first[2] + tx * p.tap_period[2]) * q.tap_strides[2];
                for (int c = 0; c < p.depth; ++c)
                    sum = fma(load(T, source, from + c * p.source_strides[1]), load(T, w, tap + c * q.depth_stride),
                              sum);
            }
        }
    }
    if (p.finish.has_bias)
        sum += load(T, bias, bias_offset + channel);
    result += result_offset + n * p.result_strides[0] + channel * p.result_strides[1] + z * p.result_strides[2] +
              y * p.result_strides[3] + x * p.result_strides[4];
    if (p.finish.accumulate)
        sum += load(T, result, 0);
    store(T, result, 0, activate(sum, &p.finish));
}

// x * dy at one pixel for one tap, 0 outside the borders.
static inline real product(const __global stored* x, const __global stored* dy, const implicit_problem* p, long pixel,
                           int tz, int ty, int tx)
{
    int z, y, ox;
    const long n = split_pixel(p, pixel, &z, &y, &ox);
    const int iz = z * (int)p->scale[0] + (int)p->shift[0] + tz, iy = y * (int)p->scale[1] + (int)p->shift[1] + ty;
    const int ix = ox * (int)p->scale[2] + (int)p->shift[2] + tx;
    if (iz < 0 || iz >= p->in[0] || iy < 0 || iy >= p->in[1] || ix < 0 || ix >= p->in[2])
        return 0;
    return load(T, x, n * p->source_strides[0] + iz * p->source_strides[2] + iy * p->source_strides[3] +
                          ix * p->source_strides[4]) *
           load(T, dy, n * p->result_strides[0] + z * p->result_strides[2] + y * p->result_strides[3] +
                           ox * p->result_strides[4]);
}

// sums[part][output][row], row = (channel, tap). Planar: a work-group adds up one element. channels_last: a work-item
// does, its neighbours being other outputs.
__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void conv_direct_weight(const __global stored* x, ulong x_offset, const __global stored* dy, ulong dy_offset,
                        __global real* sums, ulong sums_offset, implicit_problem p)
{
    const int taps = p.taps[0] * p.taps[1] * p.taps[2], row = get_group_id(1);
    const long outputs = p.groups * p.rows, length = p.depth * taps, part = get_group_id(2);
    const long pixels = p.batch * p.out[0] * p.out[1] * p.out[2];
    const long begin = pixels * part / p.parts, end = pixels * (part + 1) / p.parts;
    const int tap = row % taps, tx = tap % (int)p.taps[2] * (int)p.step[2];
    const int ty = tap / (int)p.taps[2] % (int)p.taps[1] * (int)p.step[1];
    const int tz = tap / (int)(p.taps[2] * p.taps[1]) * (int)p.step[0], l = get_local_id(0);
#ifdef CHANNELS_LAST
    const long output = get_global_id(0);
    if (output >= outputs)
        return;
#else
    const long output = get_group_id(0);
#endif
    x += x_offset + (output / p.rows * p.depth + row / taps) * p.source_strides[1];
    dy += dy_offset + output * p.result_strides[1];
    sums += sums_offset + (part * outputs + output) * length + row;
    real sum = 0;
#ifdef CHANNELS_LAST
    for (long pixel = begin; pixel < end; ++pixel)
        sum += product(x, dy, &p, pixel, tz, ty, tx);
    *sums = sum;
#else
    __local real lanes[64];
    for (long pixel = begin + l; pixel < end; pixel += 64)
        sum += product(x, dy, &p, pixel, tz, ty, tx);
    lanes[l] = sum;
    for (int step = 32; step > 0; step /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (l < step)
            lanes[l] += lanes[l + step];
    }
    if (l == 0)
        *sums = lanes[0];
#endif
}
