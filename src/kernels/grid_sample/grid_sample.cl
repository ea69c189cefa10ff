// Sampling of x [N, C, (D,) H, W] at the points of grid [N, (D',) H', W', 2 or 3], coordinates x, y(, z) in [-1, 1].
//     grid_sample               work-item = one point; loops over the channels
//     grid_sample_grad_grid     work-item = one point; sums over the channels
//     grid_sample_grad_input    on CPUs: work-item = one plane (n, c), which it clears and adds to point by point
//     grid_sample_touched, grid_sample_gather   on GPUs: what points touch is sorted into bins, one for each element of
//                               an image, where all its channels find it (kernels/bins): no sums by atomics
// All tensors row-major. -DX: dtype; the options of taps.cl.
#include "core/dtype.cl"

typedef ACC acc_t;
typedef int index_t;
#define TO_INDEX(v) (int)(v)
#include "kernels/grid_sample/taps.cl"

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
#define FOR_Z(BODY)                                                                                                   \
    for (int kz = 0; kz < TAPS; ++kz)                                                                                 \
        if (tz.index[kz] >= 0) {                                                                                      \
            const acc_t wz = tz.weight[kz], sz = tz.slope[kz];                                                        \
            const int iz = tz.index[kz];                                                                              \
            BODY                                                                                                      \
        }
#else
#define NOTHING_SEEN(x, y) (0 + 0 * (x) * (y))   // a sum over no taps: 0, but NaN where the weights are
#define POINT_TAPS_Z(backward)
#define FOR_Z(BODY)                                                                                                   \
    {                                                                                                                 \
        const acc_t wz = 1, sz = 0;                                                                                   \
        const int iz = 0;                                                                                             \
        BODY                                                                                                          \
    }
#endif
// Runs the body for each tap inside the input: `at` is its place in a plane; weights wz, wy, wx and slopes sz, sy, sx.
#define EACH_TAP(BODY)                                                                                                \
    FOR_Z(for (int ky = 0; ky < TAPS; ++ky) if (ty.index[ky] >= 0) for (int kx = 0; kx < TAPS; ++kx)                  \
              if (tx.index[kx] >= 0) {                                                                                \
                  const acc_t wy = ty.weight[ky]; const acc_t wx = tx.weight[kx];                                     \
                  const acc_t sy = ty.slope[ky]; const acc_t sx = tx.slope[kx];                                       \
                  const int at = (iz * p.in[1] + ty.index[ky]) * p.in[2] + tx.index[kx];                              \
                  BODY                                                                                                \
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

#ifdef CLPRIM_DEVICE_CPU
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
#else
#define POINT_ELEMENTS (TAPS * TAPS * (AXES == 3 ? TAPS : 1))   // that a point touches of each plane

// The elements that a point touches as numbers of bins, one for each element of an image, and their weights.
__kernel void grid_sample_touched(const __global storage_t(X)* grid, ulong grid_offset, __global int* numbers,
                                  ulong numbers_offset, __global acc_t* weights, ulong weights_offset, sample_t p,
                                  ulong items)
{
    const ulong item = get_global_id(0);
    if (item >= items)
        return;
    SIZES
    const ulong n = item / points;
    grid += grid_offset;
    numbers += numbers_offset + item * POINT_ELEMENTS;
    weights += weights_offset + item * POINT_ELEMENTS;
    POINT_TAPS(n, item % points, true)
    for (int k = 0; k < POINT_ELEMENTS; ++k)
        numbers[k] = -1;
    uint count = 0;
    EACH_TAP({
        numbers[count] = (int)(n * volume) + at;
        weights[count++] = wz * wy * wx;
    })
}

#define BESIDE 8   // channels of a work-item, which share the way to their points

// Work-item = an element of BESIDE planes: (element, channels, image). It adds up what its bin has, in order.
__kernel void grid_sample_gather(const __global storage_t(X)* dy, ulong dy_offset, const __global int* begins,
                                 ulong begins_offset, const __global int* list, ulong list_offset,
                                 const __global acc_t* weights, ulong weights_offset, __global acc_t* grad_input,
                                 ulong grad_input_offset, sample_t p)
{
    SIZES
    const uint at = get_global_id(0), first = get_global_id(1) * BESIDE, last = p.channels - 1;
    const ulong n = get_global_id(2), plane = n * p.channels;
    if (at >= volume)
        return;
    begins += begins_offset + n * volume + at;
    list += list_offset;
    weights += weights_offset;
    dy += dy_offset + plane * points;
    acc_t sums[BESIDE];
#pragma unroll
    for (uint k = 0; k < BESIDE; ++k)
        sums[k] = 0;
    for (int i = begins[0]; i < begins[1]; ++i) {
        const uint place = list[i];
        const uint point = place / POINT_ELEMENTS - (uint)n * points;
        const acc_t weight = weights[place];
#pragma unroll
        for (uint k = 0; k < BESIDE; ++k)
            sums[k] += load(X, dy, min(first + k, last) * (ulong)points + point) * weight;
    }
    grad_input += grad_input_offset + plane * volume + at;
#pragma unroll
    for (uint k = 0; k < BESIDE; ++k)
        if (first + k <= last)
            grad_input[(first + k) * (ulong)volume] = sums[k];
}
#endif
