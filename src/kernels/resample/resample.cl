// Resampling along up to three spatial axes (z, y, x; unused ones have size 1) by separable filters:
//     y[o] = sum over taps k of weight_k(o) x[index_k(o)],   per axis, and the product of the axes
// Each work-item owns one element, of y forward, of the gradient of x backward: there it gathers from the outputs whose
// taps reach it, so no atomics. Which taps an output has is decided in one place, taps().
// On GPUs a work-item owns that element of PLANES planes, of neighbouring channels where tensors are channels_last,
// since finding the taps takes longer than adding them up. -DQUADS: the latter lie at multiples of four elements.
// -DX: dtype; -DACC: type of coordinates and sums; -DFILTER: one of the names below; -DDIMS: 3, 2 or 1: how many of x,
// y and z there are, the others have size 1 on both sides; -DCHANNELS_LAST or row-major.
#include "core/dtype.cl"
#include "core/quad.cl"

#define nearest 0
#define nearest_exact 1
#define linear 2
#define cubic 3
#define antialias_linear 4
#define antialias_cubic 5
#define antialias_lanczos 6
#define ANTIALIAS (FILTER >= antialias_linear)
// Whether the axis is one of DIMS, and how many taps it has: known to the compiler but for antialiasing, so that all
// elements are loaded before the first is waited for.
#define AXIS_USED(axis) ((axis) + DIMS >= 3)
#define TAPS(t, axis)                                                                                                 \
    (!AXIS_USED(axis) || FILTER <= nearest_exact ? 1 : FILTER == linear ? 2 : FILTER == cubic ? 4 : (t).count)
#define UNROLL (ANTIALIAS ? 1 : 4)

typedef ACC acc_t;

typedef struct {
    acc_t scale[3];       // input elements per output element
    int in[3], out[3];
    uint channels, planes;   // planes: of all images
    int align_corners;
} resample_t;

#ifdef CLPRIM_DEVICE_CPU
#define PLANES 1
#else
#define PLANES 4
#endif
#define EACH_PLANE _Pragma("unroll") for (int i = 0; i < PLANES; ++i)
// Plane i behind the first; those beyond the last repeat it.
#ifdef CHANNELS_LAST
#define BEHIND(i, SIZE) min((uint)(i), last_plane)
#else
#define BEHIND(i, SIZE) (min((uint)(i), last_plane) * (ulong)(uint)(p.SIZE[0] * p.SIZE[1] * p.SIZE[2]))
#endif

// The taps of one output along one axis: input elements begin + k, moved into the input; `at` is where the weights are
// measured from, `norm` what they are multiplied by.
typedef struct {
    int begin, count;
    acc_t at, norm;
} taps_t;

static inline acc_t support(acc_t scale)
{
    const acc_t radius = FILTER == antialias_linear ? 1 : FILTER == antialias_cubic ? 2 : 3;
    return scale >= 1 ? radius * scale : radius;
}

static inline acc_t cubic_near(acc_t x, acc_t a) { return ((a + 2) * x - (a + 3)) * x * x + 1; }
static inline acc_t cubic_far(acc_t x, acc_t a) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; }

// The antialiasing filters, zero outside their radius.
static inline acc_t filter(acc_t x)
{
    x = fabs(x);
#if FILTER == antialias_linear
    return x < 1 ? 1 - x : 0;
#elif FILTER == antialias_cubic
    return x < 1 ? cubic_near(x, (acc_t)-0.5) : x < 2 ? cubic_far(x, (acc_t)-0.5) : 0;
#else
    return x == 0 ? 1 : x < 3 ? sinpi(x) * sinpi(x / 3) * 3 / ((acc_t)M_PI_F * (acc_t)M_PI_F * x * x) : 0;
#endif
}

static inline acc_t inverse_scale(acc_t scale) { return scale >= 1 ? 1 / scale : 1; }

// Weight of tap k of an axis that is used.
static inline acc_t weight_of(const taps_t* t, acc_t scale, int k)
{
#if FILTER <= nearest_exact
    return 1;
#elif FILTER == linear
    return k == 0 ? 1 - t->at : t->at;
#elif FILTER == cubic
    const acc_t a = (acc_t)-0.75, d = t->at;
    return k == 0 ? cubic_far(d + 1, a) : k == 1 ? cubic_near(d, a)
           : k == 2 ? cubic_near(1 - d, a) : cubic_far(2 - d, a);
#else
    return t->count == 1 ? 1 : filter((k + t->begin - t->at + (acc_t)0.5) * inverse_scale(scale)) * t->norm;
#endif
}

static inline acc_t weight(const resample_t* p, int axis, const taps_t* t, int k)
{
    return AXIS_USED(axis) ? weight_of(t, p->scale[axis], k) : 1;
}

static inline taps_t taps(const resample_t* p, int axis, int o)
{
    taps_t t;
    const int in = p->in[axis], out = p->out[axis];
    const acc_t scale = p->scale[axis];
    t.begin = 0;
    t.count = 1;
    t.at = 0;
    t.norm = 1;
    if (!AXIS_USED(axis))
        return t;
#if FILTER == nearest
    t.begin = out == in ? o : out == 2 * in ? o / 2 : min((int)floor((float)o * (float)scale), in - 1);
#elif FILTER == nearest_exact
    t.begin = min((int)floor(((float)o + 0.5f) * (float)scale), in - 1);
#elif FILTER == linear || FILTER == cubic
    acc_t source = p->align_corners ? scale * o : scale * (o + (acc_t)0.5) - (acc_t)0.5;
    if (FILTER == linear)
        source = fmax(source, (acc_t)0);
    const int first = min((int)floor(source), in - 1);
    t.at = clamp(source - first, (acc_t)0, (acc_t)1);
    t.begin = FILTER == linear ? first : first - 1;
    t.count = FILTER == linear ? 2 : 4;
#else
    const acc_t radius = support(scale), center = scale * (o + (acc_t)0.5);
    t.begin = max((int)(center - radius + (acc_t)0.5), 0);
    t.count = clamp((int)(center + radius + (acc_t)0.5), 0, in) - t.begin;
    t.at = center;
    if (t.count > 1) {
        acc_t total = 0;
        for (int k = 0; k < t.count; ++k)
            total += weight_of(&t, scale, k);
        t.norm = total != 0 ? 1 / total : 1;
    }
#endif
    return t;
}

static inline int tap_index(const resample_t* p, int axis, const taps_t* t, int k)
{
    return clamp(t->begin + k, 0, p->in[axis] - 1);
}

// Where an element lies: its coordinates and the start of its plane in the other tensor. CPUs gather by signed
// distances.
#if defined(CLPRIM_DEVICE_CPU) && defined(CHANNELS_LAST)
#define PIXEL(i) ((ulong)(i) * p.channels)
#elif defined(CLPRIM_DEVICE_CPU)
#define PIXEL(i) ((ulong)(i))
#elif defined(CHANNELS_LAST)
#define PIXEL(i) ((ulong)(uint)(i) * p.channels)
#else
#define PIXEL(i) (uint)(i)
#endif
// Planar: the launch is (x, z * y, PLANES of image * channel); channels_last: (channel, x, image * z * y). So only rows
// are divided.
#ifdef CHANNELS_LAST
#define LOCATE(SIZE, OTHER)                                                                                           \
    const uint lane = get_global_id(0) * PLANES, row = get_global_id(2);                                              \
    const int x0 = get_global_id(1);                                                                                  \
    if (lane >= p.channels || x0 >= p.SIZE[2])                                                                        \
        return;                                                                                                       \
    const uint rest = row / (uint)p.SIZE[1], image = DIMS == 3 ? rest / (uint)p.SIZE[0] : rest;                       \
    const int y0 = row - rest * p.SIZE[1], z0 = rest - image * p.SIZE[0];                                             \
    const ulong plane = (ulong)image * (uint)(p.OTHER[0] * p.OTHER[1] * p.OTHER[2]) * p.channels + lane;              \
    const uint last_plane = p.channels - 1 - lane;                                                                    \
    const ulong item = ((ulong)row * (uint)p.SIZE[2] + x0) * p.channels + lane;
#else
#define LOCATE(SIZE, OTHER)                                                                                           \
    const int x0 = get_global_id(0), row = get_global_id(1);                                                          \
    if (x0 >= p.SIZE[2] || row >= p.SIZE[0] * p.SIZE[1])                                                              \
        return;                                                                                                       \
    const int z0 = DIMS == 3 ? row / p.SIZE[1] : 0, y0 = row - z0 * p.SIZE[1];                                        \
    const uint image = get_global_id(2) * PLANES, last_plane = p.planes - 1 - image;   /* and channel */              \
    const ulong plane = (ulong)image * (uint)(p.OTHER[0] * p.OTHER[1] * p.OTHER[2]);                                  \
    const ulong item = (ulong)image * (uint)(p.SIZE[0] * p.SIZE[1] * p.SIZE[2]) + (uint)(row * p.SIZE[2] + x0);
#endif

// Adds the element at a distance of every plane, and writes all planes' sums.
#ifdef QUADS
#define ADD_PLANES(sums, factor, from, SIZE, at)                                                                       \
    {                                                                                                                 \
        const quad_t(X) v = load_quad(X, (from) + PIXEL(at));                                                         \
        sums[0] += (factor) * v.x, sums[1] += (factor) * v.y, sums[2] += (factor) * v.z, sums[3] += (factor) * v.w;   \
    }
#define STORE_PLANES(to, sums, SIZE)                                                                                  \
    store_quad(X, to, ((quad_t(X))(to_element(sums[0]), to_element(sums[1]), to_element(sums[2]), to_element(sums[3]))))
#else
#define ADD_PLANES(sums, factor, from, SIZE, at)                                                                       \
    EACH_PLANE sums[i] += (factor) * load(X, (from) + BEHIND(i, SIZE), PIXEL(at));
#define STORE_PLANES(to, sums, SIZE)                                                                                  \
    EACH_PLANE                                                                                                        \
        if ((uint)i <= last_plane)                                                                                    \
            store(X, (to) + BEHIND(i, SIZE), 0, to_element(sums[i]));
#endif

static inline acc_t to_element(acc_t v)
{
#ifdef BYTES
    return clamp(rint(v), (acc_t)0, (acc_t)255);
#else
    return v;
#endif
}

__kernel void resample(const __global storage_t(X)* x, ulong x_offset, __global storage_t(X)* y, ulong y_offset,
                       resample_t p)
{
    LOCATE(out, in)
    x += x_offset + plane;
    const taps_t tz = taps(&p, 0, z0), ty = taps(&p, 1, y0), tx = taps(&p, 2, x0);
    acc_t sums[PLANES];
    EACH_PLANE sums[i] = 0;
#pragma unroll UNROLL
    for (int kz = 0; kz < TAPS(tz, 0); ++kz) {
        const acc_t wz = weight(&p, 0, &tz, kz);
        const int iz = tap_index(&p, 0, &tz, kz);
#pragma unroll UNROLL
        for (int ky = 0; ky < TAPS(ty, 1); ++ky) {
            const int line = (iz * p.in[1] + tap_index(&p, 1, &ty, ky)) * p.in[2];
            acc_t along[PLANES];
            EACH_PLANE along[i] = 0;
#pragma unroll UNROLL
            for (int kx = 0; kx < TAPS(tx, 2); ++kx) {
                const acc_t wx = weight(&p, 2, &tx, kx);
                const int at = line + tap_index(&p, 2, &tx, kx);
                ADD_PLANES(along, wx, x, in, at)
            }
            EACH_PLANE sums[i] += wz * weight(&p, 1, &ty, ky) * along[i];
        }
    }
    STORE_PLANES(y + y_offset + item, sums, out);
}

#ifndef BYTES
// Weight of input i in output o along an axis.
static inline acc_t reach(const resample_t* p, int axis, int o, int i)
{
    const taps_t t = taps(p, axis, o);
    acc_t sum = 0;
#pragma unroll UNROLL
    for (int k = 0; k < TAPS(t, axis); ++k)
        sum += tap_index(p, axis, &t, k) == i ? weight(p, axis, &t, k) : 0;
    return sum;
}

// Outputs [begin, end) that input i reaches: a generous guess, trimmed.
static inline int2 reached(const resample_t* p, int axis, int i)
{
    const acc_t scale = p->scale[axis];
    int begin = 0, end = p->out[axis];
    if (!AXIS_USED(axis))
        return (int2)(0, 1);
    if (scale > 0) {
        const acc_t radius = (ANTIALIAS ? support(scale) : FILTER == cubic ? 2 : 1) + (acc_t)0.5;
        const acc_t low = (i + (acc_t)0.5 - radius) / scale, high = (i + (acc_t)0.5 + radius) / scale;
        begin = i == 0 ? 0 : clamp((int)(low - (acc_t)1.5), 0, end);
        end = i == p->in[axis] - 1 ? end : (int)fmin(high + (acc_t)2.5, (acc_t)end);
    }
    while (begin < end && reach(p, axis, begin, i) == 0)
        ++begin;
    while (begin < end && reach(p, axis, end - 1, i) == 0)
        --end;
    return (int2)(begin, end);
}

__kernel void resample_backward(const __global storage_t(X)* grad_output, ulong grad_output_offset,
                                __global storage_t(X)* grad_input, ulong grad_input_offset, resample_t p)
{
    LOCATE(in, out)
    grad_output += grad_output_offset + plane;
    const int2 rz = reached(&p, 0, z0), ry = reached(&p, 1, y0), rx = reached(&p, 2, x0);
    acc_t sums[PLANES];
    EACH_PLANE sums[i] = 0;
    for (int oz = rz.x; oz < rz.y; ++oz) {
        const acc_t wz = reach(&p, 0, oz, z0);
        for (int oy = ry.x; oy < ry.y; ++oy) {
            const int line = (oz * p.out[1] + oy) * p.out[2];
            acc_t along[PLANES];
            EACH_PLANE along[i] = 0;
            for (int ox = rx.x; ox < rx.y; ++ox) {
                const acc_t wx = reach(&p, 2, ox, x0);
                ADD_PLANES(along, wx, grad_output, out, line + ox)
            }
            const acc_t wy = reach(&p, 1, oy, y0);
            EACH_PLANE sums[i] += wz * wy * along[i];
        }
    }
    STORE_PLANES(grad_input + grad_input_offset + item, sums, in);
}
#endif
