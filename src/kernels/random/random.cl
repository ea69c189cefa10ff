// Fills a tensor with random numbers. One work-item owns one Philox block: LANES neighbouring elements.
// -DOUT=dtype -DDRAW_<distribution> [-DPROBABILITY=dtype]
#include "core/dtype.cl"
#ifdef CLPRIM_DEVICE_GPU
#include "core/quad.cl"
#endif
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

// Cosine and sine of the part u of a turn, in [0, 1): of what is left of whole quarters, at most an eighth of a turn,
// which u has exactly. Series' ends are below half a unit in the last place.
#ifdef WIDE
#define COSINE(u) cospi(2 * (u))
#define SINE(u) sinpi(2 * (u))
#else
static inline float2 turned(float u)
{
    const float quarters = rint(4 * u), x = (u - 0.25f * quarters) * 6.28318530717958648f, s = x * x;
    const int quarter = (int)quarters;
    const float sine = x + x * s * (-0.166666667f + s * (0.00833333333f + s * (-1.98412698e-4f + s * 2.75573192e-6f)));
    const float cosine = 1 + s * (-0.5f + s * (0.0416666667f + s * (-0.00138888889f + s * 2.48015873e-5f)));
    const float c = quarter & 1 ? sine : cosine, d = quarter & 1 ? cosine : sine;
    return (float2)((quarter + 1) & 2 ? -c : c, quarter & 2 ? -d : d);
}
#define COSINE(u) turned(u).x
#define SINE(u) turned(u).y
#endif

// Box and Muller: numbers 2j and 2j + 1 of a block come from the same pair of words.
static inline real normal(uint4 r, int k)
{
    const real radius = sqrt((real)-2 * log(POSITIVE(r, (k & ~1)))), part = UNIFORM(r, (k | 1));
    return radius * (k & 1 ? SINE(part) : COSINE(part));
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
    const uint4 r = philox(block, stream, seed);
    real v[LANES];
#pragma unroll
    for (int k = 0; k < LANES; ++k) {
        v[k] = draw(r, k, a, b);
#if defined(BITS) && defined(DRAW_uniform)   // rounding to the stored type may meet the open end, too
        v[k] = CLPRIM_CAT(OUT, _to_float)(CLPRIM_CAT(float_to_, OUT)(v[k])) >= b ? a : v[k];
#endif
    }
#if defined(CLPRIM_DEVICE_GPU) && LANES == 4
    if (first + 4 <= n && out_offset % 4 == 0) {
        store_quad(OUT, out + first, (quad_t(OUT))((compute_t(OUT))v[0], (compute_t(OUT))v[1], (compute_t(OUT))v[2],
                                                   (compute_t(OUT))v[3]));
        return;
    }
#endif
#pragma unroll
    for (int k = 0; k < LANES; ++k)
        if (first + k < n)
            store(OUT, out, first + k, (compute_t(OUT))v[k]);
}
