// The logarithm of |gamma(x)|; T is float or double. Numbers below FAR come within 1/2 of 0 by the recurrence, where
// log gamma(2 + t) / t is a polynomial; those from FAR on take Stirling's series with u = 1 / x^2 (A&S 6.1.41), those
// below -1/2 the reflection. Coefficients are fitted at Chebyshev's nodes, to a tenth of a unit of T.
#include "kernels/pointwise/special_constants.cl"

#ifdef T_DOUBLE
#define FAR 6.5
#define STEPS 4   // of the recurrence above 2
static inline T near_two(T t)
{
    T y = -1.321994566611787448e-7;
    y = fma(y, t, 2.787408052113589978e-7);
    y = fma(y, t, -4.325239344560481638e-7);
    y = fma(y, t, 9.200527894968100491e-7);
    y = fma(y, t, -2.043904810702990674e-6);
    y = fma(y, t, 4.384704404598360326e-6);
    y = fma(y, t, -9.438715099211532661e-6);
    y = fma(y, t, 0.00002050559075583345311);
    y = fma(y, t, -0.00004492631337915569745);
    y = fma(y, t, 0.00009945767355819498207);
    y = fma(y, t, -0.0002231547540052050773);
    y = fma(y, t, 0.0005096695154115458348);
    y = fma(y, t, -0.001192753911842815686);
    y = fma(y, t, 0.002890510331034266859);
    y = fma(y, t, -0.007385551028671998395);
    y = fma(y, t, 0.02058080842778038006);
    y = fma(y, t, -0.06735230105319810342);
    y = fma(y, t, 0.3224670334241132356);
    return fma(y, t, 0.4227843350984671394);
}
static inline T stirling(T u)
{
    T y = -0.001539131620039939321;
    y = fma(y, u, 0.0008322766080680143799);
    y = fma(y, u, -0.0005951251021555569521);
    y = fma(y, u, 0.0007936501760822150935);
    y = fma(y, u, -0.002777777776533821527);
    return fma(y, u, 0.08333333333333292497);
}
static inline T sine_over(T u)   // sin(pi r) / r with u = r^2
{
    T y = 7.697826768224190645e-7;
    y = fma(y, u, -0.00002190349707462601719);
    y = fma(y, u, 0.0004662998161898393801);
    y = fma(y, u, -0.007370430505916943405);
    y = fma(y, u, 0.08214588657310289502);
    y = fma(y, u, -0.5992645293189446813);
    y = fma(y, u, 2.550164039877300474);
    y = fma(y, u, -5.167712780049969608);
    return fma(y, u, 3.141592653589793238);
}
#else
#define FAR 3.5f
#define STEPS 1
static inline T near_two(T t)
{
    T y = -0.0002505620214f;
    y = fma(y, t, 0.0005702512503f);
    y = fma(y, t, -0.001187484814f);
    y = fma(y, t, 0.002878868684f);
    y = fma(y, t, -0.007385920885f);
    y = fma(y, t, 0.02058162544f);
    y = fma(y, t, -0.06735229409f);
    y = fma(y, t, 0.3224670180f);
    return fma(y, t, 0.4227843351f);
}
static inline T stirling(T u) { return fma(fma(0.0007287949276f, u, -0.002775857613f), u, 0.08333332468f); }
static inline T sine_over(T u)   // sin(pi r) / r with u = r^2
{
    T y = 0.07765591228f;
    y = fma(y, u, -0.5982904113f);
    y = fma(y, u, 2.550077387f);
    y = fma(y, u, -5.167710077f);
    return fma(y, u, 3.141592640f);
}
#endif

static inline T log_gamma_of(T x)
{
    const bool mirrored = x < LIT(-0.5), far = !(x < FAR) || x <= -FAR;
    const T w = mirrored ? -x : x, n = rint(w), t = w - n;
    // gamma(2 + t) = gamma(w) scale for n of 0 and 1, gamma(w) = gamma(2 + t) scale for those from 2 on
    T scale = n < 1 ? w * (1 + w) : n < 2 ? w : 1;
#pragma unroll
    for (int k = 1; k <= STEPS; ++k)
        scale *= n > k + 1 ? w - k : 1;
    const T logarithm = log(far ? w : fabs(scale)), r = 1 / w;
    const T close = fma(t, near_two(t), n < 2 ? -logarithm : logarithm);
    const T distant = fma(w - LIT(0.5), logarithm - 1, LIT(0.41893853320467274178) + r * stirling(r * r));
    const T y = far ? distant : close;
    if (!mirrored)
        return y;
    const T log_pi = LIT(1.14472988584940017414);
    return t == 0 || isinf(x) ? (T)INFINITY : log_pi - log(w * fabs(t) * sine_over(t * t)) - y;
}
