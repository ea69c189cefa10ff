// What maximum and average pooling share: windows, numbering of elements, ways to walk a tensor.
//
// Up to three spatial axes (z, y, x; unused ones have size 1). Elements are numbered in memory order:
//     row-major  ((n C + c) P + p)      -DCHANNELS_LAST  ((n P + p) C + c)      p = (z Y + y) X + x
// -DX: dtype of the data; -DADAPTIVE: windows split the input evenly instead of sliding; -DNEAR: elements and products
// of an axis's sizes fit into 32 bits, in which dividing is several times as fast; on GPUs into 31, and nothing is
// divided. Three ways to walk:
//     VEC = 1                        a work-item owns one element
//     VEC = 16, -DCHANNELS_LAST      a work-item owns `share` rows (n, z, y); lanes are channels
//     VEC = 16, row-major            a work-item owns `share` output rows (n, c, z, y); lanes run along x
#include "core/dtype.cl"
#include "core/vector.cl"

typedef vector_t(X) vec_t;
typedef compute_t(X) acc_t;

typedef struct {
    uint batch, channels;
    int in[3], out[3], extent[3], stride[3], padding[3], padding_end[3], dilation[3];
    int include_padding, divisor;   // of the average; divisor 0: the number of elements
#ifndef CLPRIM_DEVICE_CPU
    uint magic[3][3], shift[3][3];  // division without dividing, see Divider in pointwise/iteration.hpp
#endif
} pool_t;

// Numbers by axis that something is divided by.
enum { BY_IN, BY_OUT, BY_STRIDE };

#ifdef NEAR
typedef uint product_t, count_t;
#else
typedef long product_t;
typedef ulong count_t;
#endif

// n divided by a number of the axis.
#if !defined(CLPRIM_DEVICE_CPU) && defined(NEAR)
#define OVER(p, NUMBER, axis, n, divisor)                                                                             \
    ((mul_hi((uint)(n), (p)->magic[NUMBER][axis]) + (uint)(n)) >> (p)->shift[NUMBER][axis])
#else
#define OVER(p, NUMBER, axis, n, divisor) ((n) / (divisor))
#endif

// Of an element's number. Along rows compilers only step pointers where no number of 32 bits may wrap around.
#if !defined(CLPRIM_DEVICE_CPU) && defined(NEAR) && defined(CHANNELS_LAST)
typedef uint place_at_t;
#else
typedef ulong place_at_t;
#endif

// With -DUNDILATED windows are without gaps, and nothing is divided by them.
#ifdef UNDILATED
#define DILATION(p, axis) 1
#else
#define DILATION(p, axis) (p)->dilation[axis]
#endif

typedef struct { int begin, end, size; } window_t;   // elements begin, begin + dilation, ... < end; size with padding

static inline window_t window(const pool_t* p, int axis, int o)
{
    window_t w;
#ifdef ADAPTIVE
    w.begin = (int)(OVER(p, BY_OUT, axis, (product_t)o * p->in[axis], p->out[axis]));
    w.end = (int)(OVER(p, BY_OUT, axis, ((product_t)(o + 1) * p->in[axis] + p->out[axis] - 1), p->out[axis]));
    w.size = w.end - w.begin;
#else
    const int begin = o * p->stride[axis] - p->padding[axis], dilation = DILATION(p, axis);
    const int end = begin + (p->extent[axis] - 1) * dilation + 1;
    w.begin = begin < 0 ? begin + (-begin + dilation - 1) / dilation * dilation : begin;
    w.end = min(end, p->in[axis]);
    const int first = p->include_padding ? begin : w.begin;
    const int last = p->include_padding ? min(end, p->in[axis] + p->padding_end[axis]) : w.end;
    w.size = dilation == 1 ? last - first : max(last - first + dilation - 1, 0) / dilation;
#endif
    return w;
}

// Outputs [begin, end) whose windows may cover input i (with dilation, they cover its neighbourhood).
static inline window_t covering(const pool_t* p, int axis, int i)
{
    window_t w;
#ifdef ADAPTIVE
    w.begin = (int)(OVER(p, BY_IN, axis, (product_t)i * p->out[axis], p->in[axis]));
    w.end = (int)(OVER(p, BY_IN, axis, ((product_t)(i + 1) * p->out[axis] + p->in[axis] - 1), p->in[axis]));
#else
    const int last = i + p->padding[axis], first = last - (p->extent[axis] - 1) * DILATION(p, axis);
    w.begin = first <= 0 ? 0 : OVER(p, BY_STRIDE, axis, (first + p->stride[axis] - 1), p->stride[axis]);
    w.end = min((int)OVER(p, BY_STRIDE, axis, last, p->stride[axis]) + 1, p->out[axis]);
#endif
    w.size = w.end - w.begin;
    return w;
}

// Where an element lies: its place, its coordinates, and the start of its plane in the other tensor.
typedef struct {
    place_at_t at, other;
    uint lanes;
    int z, y, x;
} place_t;

static inline int volume(const int* size) { return size[0] * size[1] * size[2]; }

#ifdef CHANNELS_LAST
#define PIXEL(p) ((place_at_t)(p) * pool.channels)
#else
#define PIXEL(p) ((place_at_t)(p))
#endif

// EACH_PLACE(in, out, covering, body) runs `body` for every element that this work-item owns of the tensor with sizes
// pool.in; it sees `place` and the windows wz, wy, wx that `covering` (or `window`) gives for its coordinates.
#if VEC == 1
#ifdef CLPRIM_DEVICE_CPU
#define KERNEL_ATTRIBUTES
#define EACH_PLACE(SIZE, OTHER, RANGE, BODY)                                                                          \
    if (get_global_id(0) < items) {                                                                                   \
        const place_t place = locate(&pool, get_global_id(0), pool.SIZE, pool.OTHER);                                 \
        const window_t wz = RANGE(&pool, 0, place.z), wy = RANGE(&pool, 1, place.y), wx = RANGE(&pool, 2, place.x);   \
        BODY                                                                                                          \
    }

static inline place_t locate(const pool_t* p, ulong item, const int* size, const int* other_size)
{
    place_t place;
    const uint pixels = volume(size);
    const count_t number = (count_t)item;   // `item` itself says to CPUs' compilers that neighbours are neighbours
#ifdef CHANNELS_LAST
    const count_t row = number / p->channels;
    const uint c = (uint)(number % p->channels), pixel = (uint)(row % pixels);
    place.other = (ulong)(row / pixels) * volume(other_size) * p->channels + c;
#else
    const uint pixel = (uint)(number % pixels);
    place.other = (ulong)(number / pixels) * volume(other_size);
#endif
    place.at = item;
    place.lanes = 1;
    place.x = pixel % size[2];
    place.y = pixel / size[2] % size[1];
    place.z = pixel / size[2] / size[1];
    return place;
}

#else
// Planar: the launch is (x, z * y, image * channel); channels_last: (channel, x, image * z * y). So only rows are
// divided. A work-group has one place of the third axis, which its number tells the compiler.
#define KERNEL_ATTRIBUTES
#define BY_in BY_IN
#define BY_out BY_OUT
#ifdef CHANNELS_LAST
#define EACH_PLACE(SIZE, OTHER, RANGE, BODY)                                                                          \
    place_t place;                                                                                                    \
    const place_at_t c = get_global_id(0), line = get_group_id(2);                                                    \
    const place_at_t rest = OVER(&pool, CLPRIM_CAT(BY_, SIZE), 1, line, (uint)pool.SIZE[1]);                          \
    const place_at_t image = OVER(&pool, CLPRIM_CAT(BY_, SIZE), 0, rest, (uint)pool.SIZE[0]);                         \
    place.x = get_global_id(1);                                                                                       \
    place.y = line - rest * (uint)pool.SIZE[1];                                                                       \
    place.z = rest - image * (uint)pool.SIZE[0];                                                                      \
    place.lanes = 1;                                                                                                  \
    place.at = (line * (uint)pool.SIZE[2] + place.x) * pool.channels + c;                                             \
    place.other = image * (uint)volume(pool.OTHER) * pool.channels + c;                                               \
    if (c < pool.channels && place.x < pool.SIZE[2]) {                                                                \
        const window_t wz = RANGE(&pool, 0, place.z), wy = RANGE(&pool, 1, place.y), wx = RANGE(&pool, 2, place.x);   \
        BODY                                                                                                          \
    }
#else
#define EACH_PLACE(SIZE, OTHER, RANGE, BODY)                                                                          \
    place_t place;                                                                                                    \
    const uint line = get_global_id(1);                                                                               \
    const place_at_t image = get_group_id(2);                                                                         \
    place.x = get_global_id(0);                                                                                       \
    place.z = OVER(&pool, CLPRIM_CAT(BY_, SIZE), 1, line, (uint)pool.SIZE[1]);                                        \
    place.y = line - place.z * pool.SIZE[1];                                                                          \
    place.lanes = 1;                                                                                                  \
    place.at = image * (uint)volume(pool.SIZE) + (line * pool.SIZE[2] + place.x);                                     \
    place.other = image * (uint)volume(pool.OTHER);                                                                   \
    if (place.x < pool.SIZE[2] && place.z < pool.SIZE[0]) {                                                           \
        const window_t wz = RANGE(&pool, 0, place.z), wy = RANGE(&pool, 1, place.y), wx = RANGE(&pool, 2, place.x);   \
        BODY                                                                                                          \
    }
#endif
#endif
#define LOAD(ptr, i) load(X, ptr, i)
#define STORE(ptr, i, v) store(X, ptr, i, v)

#else

#define KERNEL_ATTRIBUTES __attribute__((reqd_work_group_size(1, 1, 1)))
#define OWN_ROWS(row)                                                                                                 \
    const ulong last_row = min((get_group_id(0) + 1) * share, items);                                                 \
    for (ulong row = get_group_id(0) * share; row < last_row; ++row)
#define EACH_PLACE(SIZE, OTHER, RANGE, BODY)                                                                          \
    OWN_ROWS(row)                                                                                                     \
    {                                                                                                                 \
        place_t place;                                                                                                \
        const ulong plane = row / (uint)(pool.SIZE[0] * pool.SIZE[1]);                                                \
        place.y = (int)(row % pool.SIZE[1]);                                                                          \
        place.z = (int)(row / pool.SIZE[1] % pool.SIZE[0]);                                                           \
        const window_t wz = RANGE(&pool, 0, place.z), wy = RANGE(&pool, 1, place.y);                                  \
        for (place.x = 0; place.x < pool.SIZE[2]; ++place.x) {                                                        \
            const window_t wx = RANGE(&pool, 2, place.x);                                                             \
            for (uint c = 0; c < pool.channels; c += VEC) {                                                           \
                place.at = (row * pool.SIZE[2] + place.x) * pool.channels + c;                                        \
                place.other = plane * volume(pool.OTHER) * pool.channels + c;                                         \
                place.lanes = min(pool.channels - c, (uint)VEC);                                                      \
                BODY                                                                                                  \
            }                                                                                                         \
        }                                                                                                             \
    }
#define LOAD(ptr, i) (place.lanes == VEC ? load_vector(X, ptr, i) : load_lanes(X, ptr, i, place.lanes, 0))
#define STORE(ptr, i, v)                                                                                              \
    if (place.lanes == VEC)                                                                                           \
        store_vector(X, ptr, i, v);                                                                                   \
    else                                                                                                              \
        store_lanes(X, ptr, i, place.lanes, v)

// Elements first, first + stride, ... of a row of `size`; `fill` where that is outside.
static inline vec_t load_strided(const __global storage_t(X)* row, int first, int stride, int size, acc_t fill)
{
    if (first >= 0 && stride == 1 && first + VEC <= size)
        return load_vector(X, row, first);
    if (first >= 0 && stride == 2 && first + 2 * VEC <= size) {
        const vec_t a = load_vector(X, row, first), b = load_vector(X, row, first + VEC);
        return (vec_t)(a.even, b.even);
    }
    acc_t t[VEC];
    for (int k = 0; k < VEC; ++k) {
        const int at = first + k * stride;
        t[k] = at >= 0 && at < size ? load(X, row, at) : fill;
    }
    return vload16(0, t);
}

// OUTPUT_BLOCKS(body) runs `body` for every block of VEC outputs along x: it sees `row` (an output row), the windows
// wz, wy, the input plane's offset `plane`, the block's start `ox` and how many `lanes` of it there are.
#define OUTPUT_BLOCKS(BODY)                                                                                           \
    OWN_ROWS(row)                                                                                                     \
    {                                                                                                                 \
        const window_t wy = window(&pool, 1, (int)(row % pool.out[1]));                                               \
        const window_t wz = window(&pool, 0, (int)(row / pool.out[1] % pool.out[0]));                                 \
        const ulong plane = row / (uint)(pool.out[0] * pool.out[1]) * volume(pool.in);                                \
        for (int block = 0; block < pool.out[2]; block += VEC) {                                                      \
            const int ox = max(min(block, pool.out[2] - VEC), 0);   /* the last block overlaps its neighbour */       \
            const uint lanes = min(pool.out[2] - ox, VEC);                                                            \
            const int start = ox * pool.stride[2] - pool.padding[2];                                                  \
            BODY                                                                                                      \
        }                                                                                                             \
    }
#endif
