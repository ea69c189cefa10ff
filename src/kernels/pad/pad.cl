// Padding with a tensor's own elements, and its gradient. A tensor is [outer, z, y, x, inner] without gaps: inner
// counts the channels of channels_last, and is 1 for row-major tensors. Work-item = one element of the result. -DX:
// dtype; -DREFLECT: mirrored, else the outermost elements are repeated; -DCHANNELS_LAST; -DINDEX=int|long: holds every
// size and the number of rows; -DPLANES: z is more than 1 on either side.
#include "core/dtype.cl"

typedef struct { long in[3], out[3], before[3], inner; } pad_t;

// The element that stands at position o of a padded axis.
static inline INDEX source(const pad_t* p, int axis, INDEX o)
{
    const INDEX i = o - (INDEX)p->before[axis], last = (INDEX)p->in[axis] - 1;
#ifdef REFLECT
    return i < 0 ? -i : i > last ? 2 * last - i : i;
#else
    return i < 0 ? 0 : i > last ? last : i;
#endif
}

// The launch is (x, row), of channels_last (lane of inner, x, row): only rows are divided.
__kernel void pad(const __global storage_t(X)* x, ulong x_offset, __global storage_t(X)* y, ulong y_offset, pad_t p,
                  ulong rows)
{
#ifdef CHANNELS_LAST
    const INDEX lane = get_global_id(0), place = get_global_id(1), row = get_global_id(2), inner = p.inner;
#else
    const INDEX lane = 0, place = get_global_id(0), row = get_global_id(1), inner = 1;
#endif
    const INDEX height = p.out[1];
#ifdef PLANES
    const INDEX depth = p.out[0];
#endif
    if (lane >= inner || place >= p.out[2] || row >= rows)
        return;
    const INDEX plane = row / height, iy = source(&p, 1, row - plane * height);
#ifdef PLANES
    const INDEX outer = plane / depth, from_plane = outer * (INDEX)p.in[0] + source(&p, 0, plane - outer * depth);
#else
    const INDEX from_plane = plane;
#endif
    const ulong from = (ulong)from_plane * p.in[1] + iy, line = p.in[2] * inner;
    y[y_offset + (ulong)row * (p.out[2] * inner) + (place * inner + lane)] =
        x[x_offset + from * line + (source(&p, 2, place) * inner + lane)];
}

// The k-th position of a padded axis that shows element i, or -1 if that one lies outside; `copies` of them are tried.
static inline long copies(const pad_t* p, int axis, long i)
{
#ifdef REFLECT
    return 3;
#else
    const long last = p->in[axis] - 1;
    return 1 + (i == 0 ? max(p->before[axis], 0L) : 0) +
           (i == last ? max(p->out[axis] - p->before[axis] - p->in[axis], 0L) : 0);
#endif
}

static inline long place(const pad_t* p, int axis, long i, long k)
{
    const long last = p->in[axis] - 1;
#ifdef REFLECT
    if ((k == 0 && i == 0) || (k == 2 && i == last))   // not mirrored
        return -1;
    const long o = p->before[axis] + (k == 0 ? -i : k == 1 ? i : 2 * last - i);
#else
    const long o = p->before[axis] + i + k - (i == 0 ? max(p->before[axis], 0L) : 0);
#endif
    return o < p->out[axis] ? o : -1;
}

__kernel void pad_backward(const __global storage_t(X)* dy, ulong dy_offset, __global storage_t(X)* dx, ulong dx_offset,
                           pad_t p, ulong items)
{
    const ulong item = get_global_id(0);
    if (item >= items)
        return;
    ulong rest = item;
    const ulong c = rest % p.inner;
    rest /= p.inner;
    const long ix = rest % p.in[2];
    rest /= p.in[2];
    const long iy = rest % p.in[1];
    rest /= p.in[1];
    const long iz = rest % p.in[0], nz = copies(&p, 0, iz), ny = copies(&p, 1, iy), nx = copies(&p, 2, ix);
    rest /= p.in[0];
    compute_t(X) sum = 0;
    for (long kz = 0; kz < nz; ++kz) {
        const long oz = place(&p, 0, iz, kz);
        for (long ky = 0; ky < ny && oz >= 0; ++ky) {
            const long oy = place(&p, 1, iy, ky);
            for (long kx = 0; kx < nx && oy >= 0; ++kx) {
                const long ox = place(&p, 2, ix, kx);
                if (ox >= 0)
                    sum += load(X, dy,
                                dy_offset + (((rest * p.out[0] + oz) * p.out[1] + oy) * p.out[2] + ox) * p.inner + c);
            }
        }
    }
    store(X, dx, dx_offset + item, sum);
}
