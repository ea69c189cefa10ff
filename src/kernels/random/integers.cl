// Random integers base + (r mod range). One work-item owns one Philox block: two elements of 64 random bits, which
// keeps the bias of the remainder below 2^-32 for ranges up to 2^32. -DOUT=dtype
#include "core/dtype.cl"
#include "kernels/random/philox.cl"

__kernel void integers(__global storage_t(OUT)* out, ulong out_offset, ulong n, long base, ulong range, ulong seed,
                       ulong stream)
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
            store(OUT, out, first + k, (compute_t(OUT))(base + (long)(range ? word % range : word)));
        }
}
