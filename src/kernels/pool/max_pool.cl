// Maximum pooling: y = the largest element of each window (a NaN wins), indices = its position in the input plane.
// The backward kernels gather from the windows that cover an element, or scatter within a plane that one work-item
// owns: nothing is added to by two work-items, so no atomics and the same bits every run.
#include "kernels/pool/window.cl"

#if VEC == 1
static inline lane_int pick(lane_int a, lane_int b, int take_b) { return take_b ? b : a; }
#define LOAD_INDEX(i) (int)indices[i]
#define STORE_INDEX(i, v) indices[i] = v
#else
static inline lane_int pick(lane_int a, lane_int b, lane_int take_b) { return take_b ? b : a; }
#define LOAD_INDEX(i)                                                                                                 \
    convert_int16(place.lanes == VEC ? vload16(0, indices + (i)) : load_lanes(int64, indices, i, place.lanes, -1))
static inline void store_index(__global long* indices, ulong i, uint lanes, lane_int v)
{
    if (lanes == VEC)
        vstore16(convert_long16(v), 0, indices + i);
    else
        store_lanes(int64, indices, i, lanes, convert_long16(v));
}
#define STORE_INDEX(i, v) store_index(indices, i, place.lanes, v)
#endif

#define WINS(v, best) ((v) > (best) || (v) != (v))   // the second is a NaN

// The maximum of no elements, which a window wholly in padding has.
#ifndef INTEGERS
#define LOWEST (-INFINITY)
#else
#define LOWEST ((acc_t)((acc_t)-1 > 0 ? 0 : -(((long)1 << (sizeof(acc_t) * 8 - 2)) - 1) * 2 - 2))
#endif

#define FORWARD_PARAMETERS                                                                                            \
    const __global storage_t(X)* x, ulong x_offset, __global storage_t(X)* y, ulong y_offset,                         \
    __global long* indices, ulong indices_offset, pool_t pool, ulong items, ulong share
#define FORWARD_OFFSETS                                                                                               \
    x += x_offset;                                                                                                    \
    y += y_offset;                                                                                                    \
    if (indices) indices += indices_offset;

__kernel KERNEL_ATTRIBUTES
void max_pool(FORWARD_PARAMETERS)
{
    FORWARD_OFFSETS
    EACH_PLACE(out, in, window, {
        int at = (wz.begin * pool.in[1] + wy.begin) * pool.in[2] + wx.begin;
        lane_int best_at = at;
        vec_t best = LOWEST;
        for (int iz = wz.begin; iz < wz.end; iz += DILATION(&pool, 0))
            for (int iy = wy.begin; iy < wy.end; iy += DILATION(&pool, 1))
                for (int ix = wx.begin; ix < wx.end; ix += DILATION(&pool, 2)) {
                    at = (iz * pool.in[1] + iy) * pool.in[2] + ix;
                    const vec_t v = LOAD(x, place.other + PIXEL(at));
                    best_at = pick(best_at, (lane_int)(at), WINS(v, best));
                    best = WINS(v, best) ? v : best;
                }
        STORE(y, place.at, best);
        if (indices) {
            STORE_INDEX(place.at, best_at);
        }
    })
}

__kernel KERNEL_ATTRIBUTES
void max_pool_backward(const __global storage_t(X)* grad_output, ulong grad_output_offset,
                       const __global long* indices, ulong indices_offset, __global storage_t(X)* grad_input,
                       ulong grad_input_offset, pool_t pool, ulong items, ulong share)
{
    grad_output += grad_output_offset;
    indices += indices_offset;
    grad_input += grad_input_offset;
    EACH_PLACE(in, out, covering, {
        const int self = (place.z * pool.in[1] + place.y) * pool.in[2] + place.x;
        vec_t sum = 0;
        for (int oz = wz.begin; oz < wz.end; ++oz)
            for (int oy = wy.begin; oy < wy.end; ++oy)
                for (int ox = wx.begin; ox < wx.end; ++ox) {
                    const ulong i = place.other + PIXEL((oz * pool.out[1] + oy) * pool.out[2] + ox);
                    const lane_int from = LOAD_INDEX(i);
                    sum += from == self ? LOAD(grad_output, i) : (vec_t)(0);
                }
        STORE(grad_input, place.at, sum);
    })
}

#define IS_BYTE_int8 1
#define IS_BYTE_uint8 1
#if defined(CHANNELS_LAST) && (VEC == 16 || (VEC == 1 && CLPRIM_CAT(IS_BYTE_, X)))
#if VEC == 16
typedef vec_t sixteen_t;
#define LARGER(v, best) (WINS(v, best) ? v : best)
#define LOAD_SIXTEEN(i) load_vector(X, x, i)
#define STORE_SIXTEEN(i, v) store_vector(X, y, i, v)
#else
#define BYTES_int8 char16
#define BYTES_uint8 uchar16
typedef CLPRIM_CAT(BYTES_, X) sixteen_t;
#define LARGER(v, best) max(best, v)
#define LOAD_SIXTEEN(i) vload16(0, x + (i))
#define STORE_SIXTEEN(i, v) vstore16(v, 0, y + (i))
#endif
// As max_pool without indices, sixteen channels at a time, of which there are at least as many: a work-item owns a row
// (n, z, y) of outputs. The last sixteen overlap their neighbours.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void max_pool_rows(const __global storage_t(X)* x, ulong x_offset, __global storage_t(X)* y, ulong y_offset,
                   pool_t pool)
{
    const ulong row = get_group_id(0), plane = row / (uint)(pool.out[0] * pool.out[1]);
    const window_t wy = window(&pool, 1, (int)(row % pool.out[1]));
    const window_t wz = window(&pool, 0, (int)(row / pool.out[1] % pool.out[0]));
    x += x_offset + plane * volume(pool.in) * pool.channels;
    y += y_offset + row * pool.out[2] * pool.channels;
    for (int ox = 0; ox < pool.out[2]; ++ox) {
        const window_t wx = window(&pool, 2, ox);
        for (uint block = 0; block < pool.channels; block += 16) {
            const uint c = min(block, pool.channels - 16);
            sixteen_t best = LOWEST;
            for (int iz = wz.begin; iz < wz.end; iz += DILATION(&pool, 0))
                for (int iy = wy.begin; iy < wy.end; iy += DILATION(&pool, 1))
                    for (int ix = wx.begin; ix < wx.end; ix += DILATION(&pool, 2)) {
                        const sixteen_t v = LOAD_SIXTEEN(PIXEL((iz * pool.in[1] + iy) * pool.in[2] + ix) + c);
                        best = LARGER(v, best);
                    }
            STORE_SIXTEEN(PIXEL(ox) + c, best);
        }
    }
}
#endif

#if VEC == 16 && !defined(CHANNELS_LAST)
// As max_pool where a window is a whole plane: a work-item owns `share` planes, the lanes run along them.
__kernel KERNEL_ATTRIBUTES
void max_pool_planes(FORWARD_PARAMETERS)
{
    FORWARD_OFFSETS
    const int count = volume(pool.in);
    const ulong end = min((get_global_id(0) + 1) * share, items);
    for (ulong plane = get_global_id(0) * share; plane < end; ++plane) {
        const __global storage_t(X)* from = x + plane * count;
        vec_t best = LOWEST;
        lane_int best_at = LANES;
        int i = 0;
        for (; i + VEC <= count; i += VEC) {
            const vec_t v = load_vector(X, from, i);
            best_at = pick(best_at, LANES + i, WINS(v, best));
            best = WINS(v, best) ? v : best;
        }
        acc_t values[VEC];
        int places[VEC];
        vstore16(best, 0, values);
        vstore16(best_at, 0, places);
        acc_t value = values[0];
        int at = places[0];
        for (int k = 1; k < VEC; ++k) {   // of equals the first, of NaN the last
            const bool later = places[k] > at, nan = values[k] != values[k];
            if (nan ? value == value || later : values[k] > value || (values[k] == value && !later)) {
                value = values[k];
                at = places[k];
            }
        }
        for (; i < count; ++i) {
            const acc_t v = load(X, from, i);
            if (WINS(v, value)) {
                value = v;
                at = i;
            }
        }
        store(X, y, plane, value);
        if (indices)
            indices[plane] = at;
    }
}

// As max_pool, with the lanes along x.
__kernel KERNEL_ATTRIBUTES
void max_pool_lanes(FORWARD_PARAMETERS)
{
    FORWARD_OFFSETS
    const int dilation = DILATION(&pool, 2);
    OUTPUT_BLOCKS({
        lane_int first = LANES * pool.stride[2] + start;   // of each lane's window, moved into the row
        if (start < 0)
            first = first < 0 ? first + (dilation - 1 - first) / dilation * dilation : first;
        lane_int best_at = first + (wz.begin * pool.in[1] + wy.begin) * pool.in[2];
        vec_t best = LOWEST;
        for (int iz = wz.begin; iz < wz.end; iz += DILATION(&pool, 0))
            for (int iy = wy.begin; iy < wy.end; iy += DILATION(&pool, 1)) {
                const int line = (iz * pool.in[1] + iy) * pool.in[2];
                for (int k = 0; k < pool.extent[2]; ++k) {
                    const int at = start + k * dilation;
                    const vec_t v = load_strided(x + plane + line, at, pool.stride[2], pool.in[2], -INFINITY);
                    best_at = pick(best_at, LANES * pool.stride[2] + (line + at), WINS(v, best));
                    best = WINS(v, best) ? v : best;
                }
            }
        const ulong to = row * pool.out[2] + ox;
        if (lanes == VEC)
            store_vector(X, y, to, best);
        else
            store_lanes(X, y, to, lanes, best);
        if (indices)
            store_index(indices, to, lanes, best_at);
    })
}
#endif

#if VEC == 1 && defined(CLPRIM_DEVICE_CPU)
// As max_pool_backward, by scattering, for devices with large caches.
#ifdef CHANNELS_LAST
// A work-item owns a band of input lines (y, or z where there are several) of a sample and adds to it from every output
// whose window reaches the band.
__kernel void max_pool_backward_bands(const __global storage_t(X)* grad_output, ulong grad_output_offset,
                                      const __global long* indices, ulong indices_offset,
                                      __global storage_t(X)* grad_input, ulong grad_input_offset, pool_t pool,
                                      uint bands)
{
    const ulong sample = get_global_id(0) / bands;
    const uint band = get_global_id(0) % bands, channels = pool.channels;
    const int axis = pool.in[0] > 1 ? 0 : 1, lines = pool.in[axis];
    const int begin = (int)((ulong)lines * band / bands), end = (int)((ulong)lines * (band + 1) / bands);
    if (begin == end)
        return;
    const int line = volume(pool.in) / lines, out_line = volume(pool.out) / pool.out[axis];
    const long low = begin * line, high = end * line;
    const int first = covering(&pool, axis, begin).begin * out_line;
    const int last = covering(&pool, axis, end - 1).end * out_line;
    grad_output += grad_output_offset + sample * volume(pool.out) * channels;
    indices += indices_offset + sample * volume(pool.out) * channels;
    grad_input += grad_input_offset + sample * volume(pool.in) * channels;
    for (ulong i = (ulong)low * channels; i < (ulong)high * channels; ++i)
        store(X, grad_input, i, 0);
    for (int o = first; o < last; ++o) {
        const ulong row = (ulong)o * channels;
        for (uint c = 0; c < channels; ++c) {
            const long to = indices[row + c];
            if (to >= low && to < high) {
                const ulong at = to * channels + c;
                store(X, grad_input, at, load(X, grad_input, at) + load(X, grad_output, row + c));
            }
        }
    }
}
#else
// A work-item owns a plane.
__kernel void max_pool_backward_planes(const __global storage_t(X)* grad_output, ulong grad_output_offset,
                                       const __global long* indices, ulong indices_offset,
                                       __global storage_t(X)* grad_input, ulong grad_input_offset, pool_t pool)
{
    const ulong plane = get_global_id(0);
    const int in = volume(pool.in), out = volume(pool.out);
    grad_output += grad_output_offset + plane * out;
    indices += indices_offset + plane * out;
    grad_input += grad_input_offset + plane * in;
    for (int i = 0; i < in; ++i)
        store(X, grad_input, i, 0);
    for (int i = 0; i < out; ++i) {
        const long to = indices[i];
        if (to >= 0 && to < in)
            store(X, grad_input, to, load(X, grad_input, to) + load(X, grad_output, i));
    }
}
#endif
#endif
