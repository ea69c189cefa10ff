// Fills a tensor with random numbers. One work-item owns one Philox block: LANES neighbouring elements.
// -DOUT=dtype -DDRAW_<distribution> [-DPROBABILITY=dtype]
#include "core/dtype.cl"
#include "kernels/random/philox.cl"

#ifdef WIDE   // float64: two numbers of 53 bits from a block
#define LANES 2
typedef double real;
#define UNIFORM(r, k) ((double)(word64(k ? r.z : r.x, k ? r.w : r.y) >> 11) * 0x1p-53)
#define POSITIVE(r, k) ((double)((word64(k ? r.z : r.x, k ? r.w : r.y) >> 11) + 1) * 0x1p-53)
#else
#define LANES 4
typedef float real;
#define WORD(r, k) (k == 0 ? r.x : k == 1 ? r.y : k == 2 ? r.z : r.w)
#define UNIFORM(r, k) uniform24(WORD(r, k))
#define POSITIVE(r, k) positive24(WORD(r, k))
#endif
#ifdef BITS   // float16, bfloat16: only as many bits as the type holds, so that no rounding up meets the open end
#define UNIFORM_OUT(r, k) ((real)(WORD(r, k) >> (32 - BITS)) / (real)(1u << BITS))
#else
#define UNIFORM_OUT(r, k) UNIFORM(r, k)
#endif
#if defined(BITS) && BITS == 11   // the smallest number above 0 that the type holds, flushed to 0 by no device
#define SMALLEST 0x1p-24
#else
#define SMALLEST 0x1p-126
#endif

// Box and Muller: numbers 2j and 2j + 1 of a block come from the same pair of words.
static inline real normal(uint4 r, int k)
{
    real radius = sqrt((real)-2 * log(POSITIVE(r, (k & ~1))));
    real angle = (real)6.283185307179586 * UNIFORM(r, (k | 1));
    return radius * (k & 1 ? sin(angle) : cos(angle));
}

static inline real draw(uint4 r, int k, real a, real b)
{
#if defined(DRAW_uniform)
    real v = UNIFORM_OUT(r, k) * (b - a) + a;   // rounding may meet the open end
    return v >= b ? a : v;
#elif defined(DRAW_normal)
    return normal(r, k) * b + a;
#elif defined(DRAW_log_normal)
    return exp(normal(r, k) * b + a);
#elif defined(DRAW_exponential)
    if (isinf(a))
        return 0;
    return fmax(fmax(-log(POSITIVE(r, k)), (real)0x1p-25) / a, (real)SMALLEST);   // never 0
#elif defined(DRAW_geometric)
    return fmax(ceil(log(POSITIVE(r, k)) / log1p(-a)), (real)1);
#elif defined(DRAW_cauchy)
    return a + b * tanpi(fmin(fmax(POSITIVE(r, k), (real)1e-7), (real)(1 - 1e-7)) - (real)0.5);
#elif defined(DRAW_bernoulli)
    return UNIFORM(r, k) < a ? (real)1 : (real)0;
#endif
}

__kernel void fill(__global storage_t(OUT)* out, ulong out_offset, ulong n, ulong seed, ulong stream, real a, real b)
{
    ulong block = get_global_id(0);
    ulong first = block * LANES;
    if (first >= n)
        return;
    out += out_offset;
    uint4 r = philox(block, stream, seed);
#pragma unroll
    for (int k = 0; k < LANES; ++k)
        if (first + k < n) {
            store(OUT, out, first + k, (compute_t(OUT))draw(r, k, a, b));
#if defined(BITS) && defined(DRAW_uniform)   // rounding to the stored type may meet the open end, too
            if (load(OUT, out, first + k) >= b)
                store(OUT, out, first + k, a);
#endif
        }
}
