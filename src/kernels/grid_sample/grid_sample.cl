// Sampling of x [N, C, (D,) H, W] at the points of grid [N, (D',) H', W', 2 or 3], coordinates x, y(, z) in [-1, 1].
// A point has `taps` per axis: their input index, or -1 where that is padding of zeros, and their weight.
// Coordinates that are NaN go where PyTorch's CPU kernels take them: weights of NaN in two axes; in three axes, and
// where two axes are clipped, an element of the border, which gets no gradient in three axes.
//     grid_sample               work-item = one point; loops over the channels
//     grid_sample_grad_grid     work-item = one point; sums over the channels
//     grid_sample_grad_input    work-item = one plane (n, c), which it clears and adds to point by point: no atomics
// All tensors row-major. -DX: dtype; -DACC; -DAXES=2|3; -DMODE and -DPADDING: names below.
#include "core/dtype.cl"

#define bilinear 0
#define nearest 1
#define bicubic 2
#define zeros 0
#define border 1
#define reflection 2

#pragma OPENCL FP_CONTRACT OFF   // coordinates are rounded as PyTorch rounds them

typedef ACC acc_t;

#if MODE == bicubic
#define TAPS 4
#elif MODE == bilinear
#define TAPS 2
#else
#define TAPS 1
#endif

typedef struct {
    uint channels;
    int in[3], out[3];   // z, y, x; z is 1 for two axes
    int align_corners;
} sample_t;

// Taps of one coordinate, and how the weights change with the coordinate (in units of grid).
typedef struct {
    int index[TAPS];
    acc_t weight[TAPS], slope[TAPS];
} taps_t;

static inline acc_t unnormalize(acc_t v, int size, int align)
{
    return align ? (v + 1) / 2 * (size - 1) : ((v + 1) * size - 1) / 2;
}

// Reflects into [low, high] (given twice as large); *slope takes the sign of the reflected direction.
static inline acc_t reflect(acc_t v, int twice_low, int twice_high, acc_t* slope)
{
    *slope = 1;
    if (twice_low == twice_high) {
        *slope = 0;
        return 0;
    }
    const acc_t low = (acc_t)twice_low / 2, span = (acc_t)(twice_high - twice_low) / 2;
    acc_t d = v - low;
    if (d < 0) {
        *slope = -1;
        d = -d;
    }
    const acc_t extra = fmod(d, span);
    const bool odd = fmod(floor(d / span), (acc_t)2) != 0;
    if (odd)
        *slope = -*slope;
    return odd ? span - extra + low : extra + low;
}

static inline acc_t clip(acc_t v, int size, acc_t* slope, bool backward)
{
    *slope = v > 0 && v < size - 1 ? *slope : 0;
#if AXES == 3
    if (isnan(v))
        return backward ? v : (acc_t)(size - 1);
#endif
    return v > 0 ? fmin(v, (acc_t)(size - 1)) : 0;   // a NaN becomes 0
}

static inline acc_t pad_coordinate(acc_t v, int size, int align, acc_t* slope, bool backward)
{
    *slope = 1;
#if PADDING == reflection
    v = align ? reflect(v, 0, 2 * (size - 1), slope) : reflect(v, -1, 2 * size - 1, slope);
#endif
#if PADDING != zeros
    v = clip(v, size, slope, backward);
#endif
    return v;
}

// floor or rint as int, far outside for what does not fit (infinities and NaN too).
static inline int to_index(acc_t v) { return v >= -1e9f && v <= 1e9f ? (int)v : -100; }
static inline int inside(int i, int size) { return i >= 0 && i < size ? i : -1; }

static inline taps_t taps_at(acc_t v, int size, int align, bool backward)
{
    taps_t t;
    const acc_t unit = align ? (acc_t)(size - 1) / 2 : (acc_t)size / 2;   // input elements per unit of grid
    acc_t slope;
    v = unnormalize(v, size, align);
#if MODE == bicubic
    const acc_t whole = floor(v), d = v - whole, a = (acc_t)-0.75;
    for (int k = 0; k < 4; ++k) {
        const acc_t padded = pad_coordinate(whole - 1 + k, size, align, &slope, backward);
        t.index[k] = inside(to_index(padded), size);
        const acc_t far = k == 0 ? d + 1 : k == 3 ? 2 - d : k == 1 ? d : 1 - d, sign = k < 2 ? unit : -unit;
        const bool outer = k == 0 || k == 3;
        t.weight[k] =
            outer ? ((a * far - 5 * a) * far + 8 * a) * far - 4 * a : ((a + 2) * far - (a + 3)) * far * far + 1;
        t.slope[k] = sign * (outer ? (3 * a * far - 10 * a) * far + 8 * a : (3 * (a + 2) * far - 2 * (a + 3)) * far);
    }
#else
    v = pad_coordinate(v, size, align, &slope, backward);
#if MODE == nearest
    t.index[0] = inside(to_index(rint(v)), size);
    t.weight[0] = 1;
    t.slope[0] = 0;
#else
    const acc_t whole = floor(v);
    const int base = to_index(whole);
    t.index[0] = inside(base, size);
    t.index[1] = inside(base + 1, size);
    t.weight[1] = v - whole;
    t.weight[0] = whole + 1 - v;
    t.slope[1] = slope * unit;
    t.slope[0] = -slope * unit;
#endif
#endif
    return t;
}

// The taps of point `item` of sample n, in the order x, y, z of the grid.
#define POINT_TAPS(n, item, backward)                                                                                 \
    const ulong point = ((ulong)(n) * points + (item)) * AXES;                                                        \
    const taps_t tx = taps_at(load(X, grid, point), p.in[2], p.align_corners, backward);                              \
    const taps_t ty = taps_at(load(X, grid, point + 1), p.in[1], p.align_corners, backward);                          \
    POINT_TAPS_Z(backward)
#if AXES == 3
#define NOTHING_SEEN(x, y) 0
#define POINT_TAPS_Z(backward)                                                                                        \
    const taps_t tz = taps_at(load(X, grid, point + 2), p.in[0], p.align_corners, backward);
#define FOR_Z(...)                                                                                                    \
    for (int kz = 0; kz < TAPS; ++kz)                                                                                 \
        if (tz.index[kz] >= 0) {                                                                                      \
            const acc_t wz = tz.weight[kz], sz = tz.slope[kz];                                                        \
            const int iz = tz.index[kz];                                                                              \
            __VA_ARGS__                                                                                               \
        }
#else
#define NOTHING_SEEN(x, y) (0 + 0 * (x) * (y))   // a sum over no taps: 0, but NaN where the weights are
#define POINT_TAPS_Z(backward)
#define FOR_Z(...)                                                                                                    \
    {                                                                                                                 \
        const acc_t wz = 1, sz = 0;                                                                                   \
        const int iz = 0;                                                                                             \
        __VA_ARGS__                                                                                                   \
    }
#endif
// Runs the body for each tap inside the input: `at` is its place in a plane; weights wz, wy, wx and slopes sz, sy, sx.
#define EACH_TAP(...)                                                                                                 \
    FOR_Z(for (int ky = 0; ky < TAPS; ++ky) if (ty.index[ky] >= 0) for (int kx = 0; kx < TAPS; ++kx)                  \
              if (tx.index[kx] >= 0) {                                                                                \
                  const acc_t wy = ty.weight[ky], wx = tx.weight[kx], sy = ty.slope[ky], sx = tx.slope[kx];           \
                  const int at = (iz * p.in[1] + ty.index[ky]) * p.in[2] + tx.index[kx];                              \
                  __VA_ARGS__                                                                                         \
              })

#define SIZES                                                                                                         \
    const uint points = p.out[0] * p.out[1] * p.out[2], volume = p.in[0] * p.in[1] * p.in[2];

__kernel void grid_sample(const __global storage_t(X)* x, ulong x_offset, const __global storage_t(X)* grid,
                          ulong grid_offset, __global storage_t(X)* y, ulong y_offset, sample_t p, ulong items)
{
    const ulong item = get_global_id(0);
    if (item >= items)
        return;
    SIZES
    const ulong n = item / points;
    grid += grid_offset;
    POINT_TAPS(n, item % points, false)
    for (uint c = 0; c < p.channels; ++c) {
        const __global storage_t(X)* plane = x + x_offset + (n * p.channels + c) * volume;
        acc_t sum = NOTHING_SEEN(tx.weight[TAPS - 1], ty.weight[TAPS - 1]);
        EACH_TAP(sum += wz * wy * wx * load(X, plane, at);)
        store(X, y, y_offset + (n * p.channels + c) * points + item % points, sum);
    }
}

__kernel void grid_sample_grad_grid(const __global storage_t(X)* dy, ulong dy_offset, const __global storage_t(X)* x,
                                    ulong x_offset, const __global storage_t(X)* grid, ulong grid_offset,
                                    __global storage_t(X)* grad_grid, ulong grad_grid_offset, sample_t p, ulong items)
{
    const ulong item = get_global_id(0);
    if (item >= items)
        return;
    SIZES
    const ulong n = item / points;
    grid += grid_offset;
    POINT_TAPS(n, item % points, true)
    acc_t gx = NOTHING_SEEN(tx.slope[TAPS - 1], ty.weight[TAPS - 1]), gz = 0;
    acc_t gy = NOTHING_SEEN(tx.weight[TAPS - 1], ty.slope[TAPS - 1]);
    for (uint c = 0; c < p.channels; ++c) {
        const __global storage_t(X)* plane = x + x_offset + (n * p.channels + c) * volume;
        const acc_t g = load(X, dy, dy_offset + (n * p.channels + c) * points + item % points);
        EACH_TAP({
            const acc_t v = g * load(X, plane, at);
            gx += v * sx * wy * wz;
            gy += v * wx * sy * wz;
            gz += v * wx * wy * sz;
        })
    }
    grad_grid += grad_grid_offset + point;
    store(X, grad_grid, 0, gx);
    store(X, grad_grid, 1, gy);
#if AXES == 3
    store(X, grad_grid, 2, gz);
#endif
}

// The sums grow in `grad_input`, which has the type of sums (converted afterwards where X is narrower).
__kernel void grid_sample_grad_input(const __global storage_t(X)* dy, ulong dy_offset,
                                     const __global storage_t(X)* grid, ulong grid_offset, __global acc_t* grad_input,
                                     ulong grad_input_offset, sample_t p, ulong items)
{
    const ulong item = get_global_id(0);
    if (item >= items)
        return;
    SIZES
    const ulong n = item / p.channels;
    grid += grid_offset;
    grad_input += grad_input_offset + item * volume;
    for (uint i = 0; i < volume; ++i)
        grad_input[i] = 0;
    for (uint i = 0; i < points; ++i) {
        const acc_t g = load(X, dy, dy_offset + item * points + i);
        POINT_TAPS(n, i, true)
        EACH_TAP(grad_input[at] += g * wz * wy * wx;)
    }
}
