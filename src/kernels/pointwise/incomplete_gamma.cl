// Regularised incomplete gamma functions P and Q for the rows that name this file; T is float or double.
#include "kernels/pointwise/special.cl"

// Large a and x near it, where the series and the fraction take some six roots of a: Temme's uniform expansion (DLMF
// 8.12.3 to 8.12.8) with eta^2 / 2 = x / a - 1 - log(x / a), its coefficients as polynomials in eta.
static inline T gamma_near(T a, T x, bool lower)
{
    const T mu = (x - a) / a;
    T series = 0;       // of eta^2 / mu^2, in which nothing cancels
    for (int k = 16; k >= 0; --k)
        series = LIT(2.0) / (k + 2) - mu * series;
    const T eta = mu * sqrt(series);
    const T first = LIT(-0.33333333333333333) + eta * (LIT(0.083333333333333333)
                    + eta * (LIT(-0.014814814814814815) + eta * (LIT(0.0011574074074074074)
                    + eta * (LIT(0.00035273368606701940) + eta * (LIT(-0.00017875514403292181)
                    + eta * (LIT(3.9192631785224378e-5) + eta * (LIT(-2.1854485106799922e-6)
                    + eta * LIT(-1.8540622107151600e-6))))))));
    const T second = LIT(-0.0018518518518518519) + eta * (LIT(-0.0034722222222222222)
                     + eta * (LIT(0.0026455026455026455) + eta * (LIT(-0.00099022633744855967)
                     + eta * LIT(0.00020576131687242798))));
    const T third = LIT(0.0041335978835978836) + eta * LIT(-0.0026813271604938272);
    const T rest = exp(-a * eta * eta / 2) / (sqrt(2 * PI) * sqrt(a)) * (first + (second + third / a) / a);
    const T tail = eta * sqrt(a / 2);
    return lower ? erfc(-tail) / 2 - rest : erfc(tail) / 2 + rest;
}
static inline bool near_large(T a, T x) { return a >= LIT(1e4) && fabs(x - a) <= LIT(0.1) * a && isfinite(a); }

// An infinite operand, or x = 0, decides beside NaN, as in PyTorch.
static inline T igamma_of(T a, T x)
{
    if (isnan(a) && (x == 0 || x == INFINITY))
        return x != 0;
    if (isnan(x) && a == INFINITY)
        return 0;
    return near_large(a, x) ? gamma_near(a, x, true) : gamma_p(a, x);
}
static inline T igammac_of(T a, T x)
{
    if (isnan(a) && (x == 0 || x == INFINITY))
        return x == 0;
    if (isnan(x) && a == INFINITY)
        return 1;
    return near_large(a, x) ? gamma_near(a, x, false) : gamma_q(a, x);
}
