// Random numbers of keys {seed, block} in memory. `derive` makes keys of keys; in `fill` (-DOUT=dtype, -DBITS: of its
// significand) one work-item owns one Philox block of a key, LANES neighbouring numbers. -DNORMAL, else uniform; -DWIDE
// for float64.
#include "core/dtype.cl"
#include "kernels/random/philox.cl"

__kernel void derive(const __global ulong* keys, ulong keys_offset, __global ulong* out, ulong out_offset, ulong count,
                     ulong n, ulong first, const __global ulong* more, ulong more_offset)
{
    const ulong i = get_global_id(0);
    if (i >= count * n)
        return;
    keys += keys_offset + 2 * (i % n);
    out += out_offset + 2 * i;
    if (more)
        first += more[more_offset];
    const uint4 r = philox(keys[1] + first + i / n, 0, keys[0]);
    out[0] = word64(r.x, r.y);
    out[1] = word64(r.z, r.w);
}

#ifdef OUT
#ifdef WIDE   // the first word is the high one
#define LANES 2
typedef double real;
#define BITS_OF(r, k) (k ? word64(r.w, r.z) : word64(r.y, r.x))
#define HALFWAY(r, k) ((double)BITS_OF(r, k) * 0x1p-64 + 0x1p-65)
#else
#define LANES 4
typedef float real;
#define BITS_OF(r, k) (k == 0 ? r.x : k == 1 ? r.y : k == 2 ? r.z : r.w)
#define HALFWAY(r, k) ((float)BITS_OF(r, k) * 0x1p-32f + 0x1p-33f)
#endif

static inline real draw(uint4 r, int k, real a, real b)
{
#ifdef NORMAL   // numbers 2j and 2j + 1 come from the same pair
    const real radius = sqrt((real)-2 * log(HALFWAY(r, (k & ~1)))), angle = 2 * HALFWAY(r, (k | 1));
    return a + b * (radius * (k & 1 ? sinpi(angle) : cospi(angle)));
#else
    const real unit = (real)(BITS_OF(r, k) & (((ulong)1 << BITS) - 1)) / (real)((ulong)1 << BITS);
    return unit * (b - a) + a;
#endif
}

__kernel void fill(__global storage_t(OUT)* out, ulong out_offset, const __global ulong* keys, ulong keys_offset,
                   ulong n, ulong length, real a, real b)
{
    const ulong blocks = (length + LANES - 1) / LANES, key = get_global_id(0) / blocks;
    if (key >= n)
        return;
    const ulong block = get_global_id(0) % blocks, first = block * LANES;
    keys += keys_offset + 2 * key;
    out += out_offset + key * length;
    const uint4 r = philox(keys[1] + block, 0, keys[0]);
#pragma unroll
    for (int k = 0; k < LANES; ++k)
        if (first + k < length)
            store(OUT, out, first + k, (compute_t(OUT))draw(r, k, a, b));
}
#endif
