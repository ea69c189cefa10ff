// Random integers base + (r mod range). One work-item owns one Philox block: two elements of 64 random bits, which
// keeps the bias of the remainder below 2^-32 for ranges up to 2^32. -DOUT=dtype
// `reciprocal` is (2^64 - 1) / range, rounded down; range 0 stands for all of 2^64.
#include "core/dtype.cl"
#include "kernels/random/philox.cl"

// word % range: GPUs divide numbers of 64 bits in a hundred instructions. The quotient is at most one too small.
static inline ulong remainder_of(ulong word, ulong range, ulong reciprocal)
{
    const ulong rest = word - mul_hi(word, reciprocal) * range;
    return rest >= range ? rest - range : rest;
}

__kernel void integers(__global storage_t(OUT)* out, ulong out_offset, ulong n, long base, ulong range,
                       ulong reciprocal, ulong seed, ulong stream)
{
    ulong first = (ulong)get_global_id(0) * 2;
    if (first >= n)
        return;
    out += out_offset;
    uint4 r = philox(get_global_id(0), stream, seed);
#pragma unroll
    for (int k = 0; k < 2; ++k)
        if (first + k < n) {
            ulong word = k ? word64(r.z, r.w) : word64(r.x, r.y);
            const ulong number = range ? remainder_of(word, range, reciprocal) : word;
            store(OUT, out, first + k, (compute_t(OUT))(base + (long)number));
        }
}
