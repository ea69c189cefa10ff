// Resampling along up to three spatial axes by separable filters, forward and backward:
//     y[o] = sum over taps k of weight_k(o) x[element_k(o)],   per axis, and the product of the axes
// Each work-item owns one element of y, on GPUs that of PLANES planes, of neighbouring channels where tensors are
// channels_last, since finding the taps takes longer than adding them up. Options: those of axes.cl; -DCHANNELS_LAST or
// row-major; -DQUADS: channels lie at multiples of four elements; -DWHOLE: every work-item has PLANES planes.
#include "kernels/resample/axes.cl"
#include "core/quad.cl"

#ifdef CLPRIM_DEVICE_CPU
#define PLANES 1
#define DEPTH get_global_id(2)
#else
#define PLANES 4
#define DEPTH get_group_id(2)   // the same, as a work-group has one: its compiler sees that all of a group share it
#endif
#define EACH_PLANE _Pragma("unroll") for (int i = 0; i < PLANES; ++i)
// Plane i behind the first; those beyond the last repeat it.
#ifdef WHOLE
#define NUMBERED(i) (uint)(i)
#define HAS_PLANE(i) true
#else
#define NUMBERED(i) min((uint)(i), last_plane)
#define HAS_PLANE(i) ((uint)(i) <= last_plane)
#endif
#ifdef CHANNELS_LAST
#define BEHIND(i, SIZE) NUMBERED(i)
#else
#define BEHIND(i, SIZE) (NUMBERED(i) * (ulong)(uint)(p.SIZE[0] * p.SIZE[1] * p.SIZE[2]))
#endif
#ifdef CHANNELS_LAST
#define PIXEL(i) ((ulong)(uint)(i) * p.channels)
#else
#define PIXEL(i) (uint)(i)
#endif

// Adds the element at a distance of every plane, and writes all planes' sums.
#ifdef QUADS
#define ADD_PLANES(sums, factor, from, at)                                                                            \
    {                                                                                                                 \
        const quad_t(X) v = load_quad(X, (from) + PIXEL(at));                                                         \
        sums[0] += (factor) * v.x, sums[1] += (factor) * v.y, sums[2] += (factor) * v.z, sums[3] += (factor) * v.w;   \
    }
#define STORE_PLANES(to, sums)                                                                                        \
    store_quad(X, to, ((quad_t(X))(to_element(sums[0]), to_element(sums[1]), to_element(sums[2]), to_element(sums[3]))))
#else
#define ADD_PLANES(sums, factor, from, at) EACH_PLANE sums[i] += (factor) * load(X, (from) + BEHIND(i, in), PIXEL(at));
#define STORE_PLANES(to, sums)                                                                                        \
    EACH_PLANE                                                                                                        \
        if (HAS_PLANE(i))                                                                                             \
            store(X, (to) + BEHIND(i, out), 0, to_element(sums[i]));
#endif

// Planar: the launch is (x, z * y, PLANES of image * channel); channels_last: (channel, x, image * z * y). So only rows
// are divided.
__kernel void resample(const __global storage_t(X)* x, ulong x_offset, __global storage_t(X)* y, ulong y_offset,
                       const __global int* places, ulong places_offset, const __global ACC* weights,
                       ulong weights_offset, resample_t p)
{
#ifdef CHANNELS_LAST
    const uint lane = get_global_id(0) * PLANES, line = DEPTH;
    const int x0 = get_global_id(1);
    if (lane >= p.channels || x0 >= p.out[2])
        return;
    const uint rest = line / (uint)p.out[1], image = DIMS == 3 ? rest / (uint)p.out[0] : rest;
    const int y0 = line - rest * p.out[1], z0 = rest - image * p.out[0];
    x += x_offset + ((ulong)image * (uint)(p.in[0] * p.in[1] * p.in[2]) * p.channels + lane);
    y += y_offset + (((ulong)line * (uint)p.out[2] + x0) * p.channels + lane);
    const uint last_plane = p.channels - 1 - lane;
#else
    const int x0 = get_global_id(0), line = get_global_id(1);
    if (x0 >= p.out[2] || line >= p.out[0] * p.out[1])
        return;
    const int z0 = DIMS == 3 ? line / p.out[1] : 0, y0 = line - z0 * p.out[1];
    const uint image = DEPTH * PLANES, last_plane = p.planes - 1 - image;   // and channel
    x += x_offset + (ulong)image * (uint)(p.in[0] * p.in[1] * p.in[2]);
    y += y_offset + ((ulong)image * (uint)(p.out[0] * p.out[1] * p.out[2]) + (uint)(line * p.out[2] + x0));
#endif
    places += places_offset;
    weights += weights_offset;
    const place_t tz = place_at(&p, places, 0, z0), ty = place_at(&p, places, 1, y0),
                  tx = place_at(&p, places, 2, x0);
    ACC sums[PLANES];
    EACH_PLANE sums[i] = 0;
#pragma unroll UNROLL_TAPS
    for (int kz = 0; kz < TAPS_OF(tz, 0); ++kz) {
        const int iz = element_of(tz, kz);
#pragma unroll UNROLL_TAPS
        for (int ky = 0; ky < TAPS_OF(ty, 1); ++ky) {
            const ACC factor = WEIGHT_OF(tz, 0, kz) * WEIGHT_OF(ty, 1, ky);
            const int from = (iz * p.in[1] + element_of(ty, ky)) * p.in[2];
            ACC along[PLANES];
            EACH_PLANE along[i] = 0;
#pragma unroll UNROLL_TAPS
            for (int kx = 0; kx < TAPS_OF(tx, 2); ++kx) {
                const ACC wx = WEIGHT(tx, kx);
                ADD_PLANES(along, wx, x, from + element_of(tx, kx))
            }
            EACH_PLANE sums[i] += factor * along[i];
        }
    }
    STORE_PLANES(y, sums);
}
