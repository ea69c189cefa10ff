// Average pooling: y = sum of each window / its number of elements, with padding or without, or / a given divisor.
// The backward kernels gather from the windows that cover an element, or scatter within a plane that one work-item
// owns: no atomics, the same bits every run.
#include "kernels/pool/window.cl"

// What the sum over a window of that many elements is divided by (a window outside the input has the sum 0).
static inline int divisor(const pool_t* p, int elements) { return p->divisor ? p->divisor : max(elements, 1); }

#define FORWARD_PARAMETERS                                                                                            \
    const __global storage_t(X)* x, ulong x_offset, __global storage_t(X)* y, ulong y_offset, pool_t pool,            \
    ulong items, ulong share

__kernel KERNEL_ATTRIBUTES
void average_pool(FORWARD_PARAMETERS)
{
    x += x_offset;
    y += y_offset;
    EACH_PLACE(out, in, window, {
        vec_t sum = 0;
        for (int iz = wz.begin; iz < wz.end; iz += DILATION(&pool, 0))
            for (int iy = wy.begin; iy < wy.end; iy += DILATION(&pool, 1))
                for (int ix = wx.begin; ix < wx.end; ix += DILATION(&pool, 2))
                    sum += LOAD(x, place.other + PIXEL((iz * pool.in[1] + iy) * pool.in[2] + ix));
        STORE(y, place.at, sum / (acc_t)divisor(&pool, wz.size * wy.size * wx.size));
    })
}

#define BACKWARD_PARAMETERS                                                                                           \
    const __global storage_t(X)* grad_output, ulong grad_output_offset, __global storage_t(X)* grad_input,            \
    ulong grad_input_offset, pool_t pool

#ifndef INTEGERS
__kernel KERNEL_ATTRIBUTES
void average_pool_backward(BACKWARD_PARAMETERS, ulong items, ulong share)
{
    grad_output += grad_output_offset;
    grad_input += grad_input_offset;
    EACH_PLACE(in, out, covering, {
        vec_t sum = 0;
        for (int oz = wz.begin; oz < wz.end; ++oz)
            for (int oy = wy.begin; oy < wy.end; ++oy) {
                const int lines = window(&pool, 0, oz).size * window(&pool, 1, oy).size;
                for (int ox = wx.begin; ox < wx.end; ++ox) {
                    const acc_t scale = (acc_t)1 / divisor(&pool, lines * window(&pool, 2, ox).size);
                    sum += LOAD(grad_output, place.other + PIXEL((oz * pool.out[1] + oy) * pool.out[2] + ox)) * scale;
                }
            }
        STORE(grad_input, place.at, sum);
    })
}
#endif

#if VEC == 16 && defined(CHANNELS_LAST)
// As average_pool_backward, a pixel at a time: what a window shares out is computed once for all channels, and the sums
// grow in grad_input (float32 only).
__kernel KERNEL_ATTRIBUTES
void average_pool_backward_pixels(BACKWARD_PARAMETERS, ulong items, ulong share)
{
    const uint channels = pool.channels;
    grad_output += grad_output_offset;
    grad_input += grad_input_offset;
    OWN_ROWS(row)
    {
        const ulong sample = row / (uint)(pool.in[0] * pool.in[1]) * volume(pool.out);
        const window_t wy = covering(&pool, 1, (int)(row % pool.in[1]));
        const window_t wz = covering(&pool, 0, (int)(row / pool.in[1] % pool.in[0]));
        for (int x = 0; x < pool.in[2]; ++x) {
            const window_t wx = covering(&pool, 2, x);
            __global storage_t(X)* to = grad_input + (row * pool.in[2] + x) * channels;
            bool first = true;
            for (int oz = wz.begin; oz < wz.end; ++oz)
                for (int oy = wy.begin; oy < wy.end; ++oy) {
                    const int lines = window(&pool, 0, oz).size * window(&pool, 1, oy).size;
                    for (int ox = wx.begin; ox < wx.end; ++ox, first = false) {
                        const acc_t scale = (acc_t)1 / divisor(&pool, lines * window(&pool, 2, ox).size);
                        const __global storage_t(X)* from =
                            grad_output + (sample + (oz * pool.out[1] + oy) * pool.out[2] + ox) * channels;
                        uint c = 0;
                        for (; c + VEC <= channels; c += VEC)
                            store_vector(X, to, c, fma(load_vector(X, from, c), (vec_t)(scale),
                                                       first ? (vec_t)(0) : load_vector(X, to, c)));
                        for (; c < channels; ++c)
                            store(X, to, c, load(X, from, c) * scale + (first ? 0 : load(X, to, c)));
                    }
                }
            for (uint c = 0; first && c < channels; ++c)   // no window reaches this pixel
                store(X, to, c, 0);
        }
    }
}
#endif

#if VEC == 16 && !defined(CHANNELS_LAST)
// As average_pool, with the lanes along x.
__kernel KERNEL_ATTRIBUTES
void average_pool_lanes(FORWARD_PARAMETERS)
{
    x += x_offset;
    y += y_offset;
    OUTPUT_BLOCKS({
        vec_t sum = 0;
        for (int iz = wz.begin; iz < wz.end; ++iz)
            for (int iy = wy.begin; iy < wy.end; ++iy) {
                const __global storage_t(X)* line = x + plane + (iz * pool.in[1] + iy) * pool.in[2];
                for (int k = 0; k < pool.extent[2]; ++k)
                    sum += load_strided(line, start + k, pool.stride[2], pool.in[2], 0);
            }
        const lane_int begin = LANES * pool.stride[2] + start;
        const lane_int end = min(begin + pool.extent[2], pool.in[2] + (pool.include_padding ? pool.padding_end[2] : 0));
        const lane_int size = (end - (pool.include_padding ? begin : max(begin, 0))) * (wz.size * wy.size);
        const lane_int by = pool.divisor ? (lane_int)(pool.divisor) : max(size, 1);
        const vec_t mean = sum / convert_float16(by);
        const ulong to = row * pool.out[2] + ox;
        if (lanes == VEC)
            store_vector(X, y, to, mean);
        else
            store_lanes(X, y, to, lanes, mean);
    })
}
#endif

#if VEC == 1 && !defined(CHANNELS_LAST) && !defined(INTEGERS)
// As average_pool_backward, by scattering, for devices with large caches: a work-item owns a plane.
__kernel void average_pool_backward_planes(BACKWARD_PARAMETERS)
{
    const ulong plane = get_global_id(0);
    const int in = volume(pool.in);
    grad_output += grad_output_offset + plane * volume(pool.out);
    grad_input += grad_input_offset + plane * in;
    for (int i = 0; i < in; ++i)
        store(X, grad_input, i, 0);
    ulong at = 0;
    for (int oz = 0; oz < pool.out[0]; ++oz)
        for (int oy = 0; oy < pool.out[1]; ++oy) {
            const window_t wz = window(&pool, 0, oz), wy = window(&pool, 1, oy);
            for (int ox = 0; ox < pool.out[2]; ++ox, ++at) {
                const window_t wx = window(&pool, 2, ox);
                const acc_t g = load(X, grad_output, at) / divisor(&pool, wz.size * wy.size * wx.size);
                for (int iz = wz.begin; iz < wz.end; ++iz)
                    for (int iy = wy.begin; iy < wy.end; ++iy) {
                        const int line = (iz * pool.in[1] + iy) * pool.in[2];
                        for (int ix = wx.begin; ix < wx.end; ++ix)
                            store(X, grad_input, line + ix, load(X, grad_input, line + ix) + g);
                    }
            }
        }
}
#endif
