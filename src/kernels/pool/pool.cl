// Maximum and average pooling over one to three spatial axes (z, y, x; unused ones have size 1).
//
// A work-item owns VEC channels (VEC > 1 only for channels_last) of one output element, or of one input element in the
// backward kernels: they gather from the windows that cover it, so nothing is added to twice and no atomics are needed.
// With VEC > 1 a work-item walks `share` elements. Elements are numbered in memory order:
//     row-major  ((n C + c) P + p)      -DCHANNELS_LAST  ((n P + p) C + c)      p = (z Y + y) X + x
// -DX: dtype of the data; -DADAPTIVE: windows split the input evenly instead of sliding.
#include "core/dtype.cl"
#include "core/vector.cl"

typedef vector_t(X) vec_t;
typedef compute_t(X) acc_t;

typedef struct {
    uint batch, channels;
    int in[3], out[3], extent[3], stride[3], padding[3], dilation[3];
    int include_padding, divisor;   // of the average; divisor 0: the number of elements
} pool_t;

typedef struct { int begin, end, size; } window_t;   // elements begin, begin + dilation, ... < end; size with padding

inline window_t window(const pool_t* p, int axis, int o)
{
    window_t w;
#ifdef ADAPTIVE
    w.begin = (int)((long)o * p->in[axis] / p->out[axis]);
    w.end = (int)(((long)(o + 1) * p->in[axis] + p->out[axis] - 1) / p->out[axis]);
    w.size = w.end - w.begin;
#else
    const int begin = o * p->stride[axis] - p->padding[axis], dilation = p->dilation[axis];
    const int end = begin + (p->extent[axis] - 1) * dilation + 1;
    w.begin = begin < 0 ? begin + (-begin + dilation - 1) / dilation * dilation : begin;
    w.end = min(end, p->in[axis]);
    w.size = p->include_padding ? min(end, p->in[axis] + p->padding[axis]) - begin : w.end - w.begin;
#endif
    return w;
}

// Outputs [begin, end) whose windows may cover input i (with dilation, they cover its neighbourhood).
inline window_t covering(const pool_t* p, int axis, int i)
{
    window_t w;
#ifdef ADAPTIVE
    w.begin = (int)((long)i * p->out[axis] / p->in[axis]);
    w.end = (int)(((long)(i + 1) * p->out[axis] + p->in[axis] - 1) / p->in[axis]);
#else
    const int last = i + p->padding[axis], first = last - (p->extent[axis] - 1) * p->dilation[axis];
    w.begin = first <= 0 ? 0 : (first + p->stride[axis] - 1) / p->stride[axis];
    w.end = min(last / p->stride[axis] + 1, p->out[axis]);
#endif
    w.size = w.end - w.begin;
    return w;
}

// Where element `item` lies: its place, its coordinates, and the start of its plane in the other tensor.
typedef struct {
    ulong at, other;
    uint lanes;
    int z, y, x;
} place_t;

inline int volume(const int* size) { return size[0] * size[1] * size[2]; }

inline place_t locate(const pool_t* p, ulong item, const int* size, const int* other_size)
{
    place_t place;
    const uint pixels = volume(size);
    uint pixel;
#ifdef CHANNELS_LAST
    const uint blocks = (p->channels + VEC - 1) / VEC;
    const uint c = (uint)(item % blocks) * VEC;
    const ulong row = item / blocks;
    pixel = (uint)(row % pixels);
    place.at = row * p->channels + c;
    place.other = (row / pixels) * volume(other_size) * p->channels + c;
    place.lanes = min(p->channels - c, (uint)VEC);
#else
    pixel = (uint)(item % pixels);
    place.at = item;
    place.other = (item / pixels) * volume(other_size);
    place.lanes = 1;
#endif
    place.x = pixel % size[2];
    place.y = pixel / size[2] % size[1];
    place.z = pixel / size[2] / size[1];
    return place;
}

#ifdef CHANNELS_LAST
#define PIXEL(p) ((ulong)(p) * pool.channels)
#else
#define PIXEL(p) ((ulong)(p))
#endif
#if VEC == 1
#define LOAD(ptr, i) load(X, ptr, i)
#define STORE(ptr, i, v) store(X, ptr, i, v)
#else
#define LOAD(ptr, i) (place.lanes == VEC ? load_vector(X, ptr, i) : load_lanes(X, ptr, i, place.lanes, 0))
#define STORE(ptr, i, v)                                                                                              \
    if (place.lanes == VEC)                                                                                           \
        store_vector(X, ptr, i, v);                                                                                   \
    else                                                                                                              \
        store_lanes(X, ptr, i, place.lanes, v)
#endif

#if VEC == 1
#define OWN_ITEMS const ulong first_item = get_global_id(0), last_item = min(first_item + 1, items);
#define KERNEL_ATTRIBUTES
#else
#define OWN_ITEMS const ulong first_item = get_group_id(0) * share, last_item = min(first_item + share, items);
#define KERNEL_ATTRIBUTES __attribute__((reqd_work_group_size(1, 1, 1)))
#endif

#if VEC == 1
inline lane_int pick(lane_int a, lane_int b, int take_b) { return take_b ? b : a; }
#define LOAD_INDEX(i) (int)indices[i]
#define STORE_INDEX(i, v) indices[i] = v
#define UNORDERED(v) (v != v)
#else
inline lane_int pick(lane_int a, lane_int b, lane_int take_b) { return take_b ? b : a; }
#define LOAD_INDEX(i) convert_int16(place.lanes == VEC ? vload16(0, indices + (i)) : load_lanes(int64, indices, i, place.lanes, -1))
#define STORE_INDEX(i, v)                                                                                             \
    if (place.lanes == VEC)                                                                                           \
        vstore16(convert_long16(v), 0, indices + (i));                                                                \
    else                                                                                                              \
        store_lanes(int64, indices, i, place.lanes, convert_long16(v))
#define UNORDERED(v) (v != v)
#endif

// y = the largest element of each window (a NaN wins), indices = its position in the input plane.
__kernel KERNEL_ATTRIBUTES
void max_pool(const __global storage_t(X)* x, ulong x_offset, __global storage_t(X)* y, ulong y_offset,
              __global long* indices, ulong indices_offset, pool_t pool, ulong items, ulong share)
{
    x += x_offset;
    y += y_offset;
    if (indices)
        indices += indices_offset;
    OWN_ITEMS
    for (ulong item = first_item; item < last_item; ++item) {
        const place_t place = locate(&pool, item, pool.out, pool.in);
        const window_t wz = window(&pool, 0, place.z), wy = window(&pool, 1, place.y), wx = window(&pool, 2, place.x);
        int at = (wz.begin * pool.in[1] + wy.begin) * pool.in[2] + wx.begin;
        lane_int best_at = at;
        vec_t best = LOAD(x, place.other + PIXEL(at));
        for (int iz = wz.begin; iz < wz.end; iz += pool.dilation[0])
            for (int iy = wy.begin; iy < wy.end; iy += pool.dilation[1])
                for (int ix = wx.begin; ix < wx.end; ix += pool.dilation[2]) {
                    at = (iz * pool.in[1] + iy) * pool.in[2] + ix;
                    const vec_t v = LOAD(x, place.other + PIXEL(at));
                    best_at = pick(best_at, (lane_int)(at), v > best || UNORDERED(v));
                    best = v > best || UNORDERED(v) ? v : best;
                }
        STORE(y, place.at, best);
        if (indices) {
            STORE_INDEX(place.at, best_at);
        }
    }
}

__kernel KERNEL_ATTRIBUTES
void max_pool_backward(const __global storage_t(X)* grad_output, ulong grad_output_offset,
                       const __global long* indices, ulong indices_offset, __global storage_t(X)* grad_input,
                       ulong grad_input_offset, pool_t pool, ulong items, ulong share)
{
    grad_output += grad_output_offset;
    indices += indices_offset;
    grad_input += grad_input_offset;
    OWN_ITEMS
    for (ulong item = first_item; item < last_item; ++item) {
        const place_t place = locate(&pool, item, pool.in, pool.out);
        const window_t wz = covering(&pool, 0, place.z), wy = covering(&pool, 1, place.y),
                       wx = covering(&pool, 2, place.x);
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
    }
}

#if VEC == 1
// The same by scattering, for devices with large caches: work-item = one plane of a row-major tensor.
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

// What the sum over a window is divided by.
inline acc_t divisor(const pool_t* p, window_t z, window_t y, window_t x)
{
    return p->divisor ? p->divisor : z.size * y.size * x.size;
}

__kernel KERNEL_ATTRIBUTES
void average_pool(const __global storage_t(X)* x, ulong x_offset, __global storage_t(X)* y, ulong y_offset,
                  pool_t pool, ulong items, ulong share)
{
    x += x_offset;
    y += y_offset;
    OWN_ITEMS
    for (ulong item = first_item; item < last_item; ++item) {
        const place_t place = locate(&pool, item, pool.out, pool.in);
        const window_t wz = window(&pool, 0, place.z), wy = window(&pool, 1, place.y), wx = window(&pool, 2, place.x);
        vec_t sum = 0;
        for (int iz = wz.begin; iz < wz.end; ++iz)
            for (int iy = wy.begin; iy < wy.end; ++iy)
                for (int ix = wx.begin; ix < wx.end; ++ix)
                    sum += LOAD(x, place.other + PIXEL((iz * pool.in[1] + iy) * pool.in[2] + ix));
        const bool empty = wz.begin >= wz.end || wy.begin >= wy.end || wx.begin >= wx.end;
        STORE(y, place.at, empty ? (vec_t)(0) : sum / divisor(&pool, wz, wy, wx));
    }
}

__kernel KERNEL_ATTRIBUTES
void average_pool_backward(const __global storage_t(X)* grad_output, ulong grad_output_offset,
                           __global storage_t(X)* grad_input, ulong grad_input_offset, pool_t pool, ulong items,
                           ulong share)
{
    grad_output += grad_output_offset;
    grad_input += grad_input_offset;
    OWN_ITEMS
    for (ulong item = first_item; item < last_item; ++item) {
        const place_t place = locate(&pool, item, pool.in, pool.out);
        const window_t cz = covering(&pool, 0, place.z), cy = covering(&pool, 1, place.y),
                       cx = covering(&pool, 2, place.x);
        vec_t sum = 0;
        for (int oz = cz.begin; oz < cz.end; ++oz)
            for (int oy = cy.begin; oy < cy.end; ++oy)
                for (int ox = cx.begin; ox < cx.end; ++ox) {
                    const ulong i = place.other + PIXEL((oz * pool.out[1] + oy) * pool.out[2] + ox);
                    sum += LOAD(grad_output, i) /
                           divisor(&pool, window(&pool, 0, oz), window(&pool, 1, oy), window(&pool, 2, ox));
                }
        STORE(grad_input, place.at, sum);
    }
}
