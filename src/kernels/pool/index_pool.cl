// Pooling by indices over row-major planes: unpooling, the gradient of a maximum by scattering, and fractional maximum
// pooling. On CPUs a work-item of the first two owns a whole plane, so nothing is written by two work-items.
// -DX: dtype; -DSUM: scatter adds, else the last one wins.
#include "core/dtype.cl"
#include "core/errors.cl"

#ifdef CLPRIM_DEVICE_CPU
// y, a plane of `out` elements, is 0 but for y[indices[i]] = x[i] (or the sum of them).
__kernel void scatter_planes(const __global storage_t(X)* x, ulong x_offset, const __global long* indices,
                             ulong indices_offset, __global storage_t(X)* y, ulong y_offset, ulong planes, uint in,
                             uint out, __global int* errors, int code)
{
    const ulong plane = get_global_id(0);
    if (plane >= planes)
        return;
    x += x_offset + plane * in;
    indices += indices_offset + plane * in;
    y += y_offset + plane * out;
    for (uint i = 0; i < out; ++i)
        store(X, y, i, 0);
    for (uint i = 0; i < in; ++i) {
        const long to = indices[i];
        if (to < 0 || to >= out)
            clprim_index_error(errors, code, to, out);
        else
#ifdef SUM
            store(X, y, to, load(X, y, to) + load(X, x, i));
#else
            store(X, y, to, load(X, x, i));
#endif
    }
}
#else
// 64-bit division takes hundreds of instructions.
static inline ulong quotient(ulong item, uint size) { return item >> 32 == 0 ? (uint)item / size : item / size; }

// On GPUs sums have the places of planes as bins (kernels/bins), numbered plane by plane.
__kernel void number_places(const __global long* indices, ulong indices_offset, __global int* numbers,
                            ulong numbers_offset, ulong items, uint in, uint out, __global int* errors, int code)
{
    const ulong item = get_global_id(0);
    if (item >= items)
        return;
    const long to = indices[indices_offset + item];
    const bool inside = to >= 0 && to < out;
    if (!inside)
        clprim_index_error(errors, code, to, out);
    numbers[numbers_offset + item] = inside ? (int)(quotient(item, in) * out + to) : -1;
}

__kernel void gather_places(const __global storage_t(X)* x, ulong x_offset, const __global int* begins,
                            ulong begins_offset, const __global int* list, ulong list_offset, __global storage_t(X)* y,
                            ulong y_offset, ulong places)
{
    const ulong place = get_global_id(0);
    if (place >= places)
        return;
    x += x_offset;
    list += list_offset;
    begins += begins_offset + place;
    const int end = begins[1];
    compute_t(X) sum = 0;
    for (int i = begins[0]; i < end; ++i)
        sum += load(X, x, list[i]);
    store(X, y, y_offset + place, sum);
}

// claims[indices[i]] becomes the last i of a plane that wants the place, where it was -1: whichever comes first.
__kernel void claim_places(const __global long* indices, ulong indices_offset, __global int* claims,
                           ulong claims_offset, ulong items, uint in, uint out, __global int* errors, int code)
{
    const ulong item = get_global_id(0);
    if (item >= items)
        return;
    const ulong plane = quotient(item, in);
    const long to = indices[indices_offset + item];
    if (to < 0 || to >= out)
        clprim_index_error(errors, code, to, out);
    else
        atomic_max(claims + claims_offset + plane * out + to, (int)(item - plane * in));
}

__kernel void take_claimed(const __global storage_t(X)* x, ulong x_offset, const __global int* claims,
                           ulong claims_offset, __global storage_t(X)* y, ulong y_offset, ulong items, uint in,
                           uint out)
{
    const ulong item = get_global_id(0);
    if (item >= items)
        return;
    const int from = claims[claims_offset + item];
    if (from < 0)
        store(X, y, y_offset + item, 0);
    else
        store(X, y, y_offset + item, load(X, x, x_offset + quotient(item, out) * in + from));
}
#endif

typedef struct { int in[3], out[3], extent[3]; uint axes; } fractional_t;

// Start of window o: pseudo-random steps that add up to the whole axis (Graham 2014), as PyTorch places them.
static inline int interval(const fractional_t* p, int axis, int o, compute_t(X) sample)
{
    if (o == p->out[axis] - 1)
        return p->in[axis] - p->extent[axis];
    const compute_t(X) alpha = (compute_t(X))(p->in[axis] - p->extent[axis]) / (compute_t(X))(p->out[axis] - 1);
    return (int)((o + sample) * alpha) - (int)(sample * alpha);
}

// Work-item = one output element, on GPUs of the launch (x, z * y, plane) with groups of one plane.
// samples: [planes, axes] in [0, 1); of two axes x comes first, of three z.
__kernel void fractional_max_pool(const __global storage_t(X)* x, ulong x_offset,
                                  const __global storage_t(X)* samples, ulong samples_offset,
                                  __global storage_t(X)* y, ulong y_offset, __global long* indices,
                                  ulong indices_offset, fractional_t p, ulong items)
{
    const uint pixels = p.out[0] * p.out[1] * p.out[2];
    const bool flat = p.axes == 2;
#ifdef CLPRIM_DEVICE_CPU
    const ulong item = get_global_id(0);
    if (item >= items)
        return;
    const uint pixel = (uint)(item % pixels), line = pixel / p.out[2];
    const ulong plane = item / pixels;
    const int oz = line / p.out[1], oy = line % p.out[1], ox = pixel % p.out[2];
#else
    const int ox = get_global_id(0), line = get_global_id(1);
    const ulong plane = get_group_id(2), item = plane * pixels + (uint)(line * p.out[2] + ox);
    if (ox >= p.out[2] || line >= p.out[0] * p.out[1])
        return;
    const int oz = flat ? 0 : line / p.out[1], oy = line - oz * p.out[1];
#endif
    samples += samples_offset + plane * p.axes;
    const int z = flat ? 0 : interval(&p, 0, oz, load(X, samples, 0));
    const int top = interval(&p, 1, oy, load(X, samples, 1));
    const int left = interval(&p, 2, ox, load(X, samples, flat ? 0 : 2));
    x += x_offset + plane * p.in[0] * p.in[1] * p.in[2];
    long best_at = (z * p.in[1] + top) * p.in[2] + left;
    compute_t(X) best = load(X, x, best_at);
    for (int iz = z; iz < z + p.extent[0]; ++iz)
        for (int iy = top; iy < top + p.extent[1]; ++iy)
            for (int ix = left; ix < left + p.extent[2]; ++ix) {
                const int at = (iz * p.in[1] + iy) * p.in[2] + ix;
                const compute_t(X) v = load(X, x, at);
                if (v > best || v != v) {
                    best = v;
                    best_at = at;
                }
            }
    store(X, y, y_offset + item, best);
    indices[indices_offset + item] = best_at;
}
