// Bessel functions, written from the formulas of Abramowitz and Stegun (A&S), accurate to a few units of T.
#include "kernels/pointwise/special_constants.cl"

// exp(-|x|) I_n(x), n = 0 or 1: power series (A&S 9.6.10) or asymptotic series (A&S 9.7.1).
static inline T scaled_bessel_i(int n, T x)
{
    T a = fabs(x), term, sum;
    if (a < LARGE_BESSEL) {
        T z = a * a / 4;
        term = sum = n == 0 ? (T)1 : a / 2;
        for (int k = 1; k < 100 && term > EPSILON * sum; ++k) {
            term *= z / ((T)k * (k + n));
            sum += term;
        }
        sum *= exp(-a);
    } else {
        term = sum = 1;
        for (int k = 1; k < 30; ++k) {
            T next = -term * (4 * n * n - (2 * k - 1) * (2 * k - 1)) / (8 * a * k);
            if (fabs(next) >= fabs(term) || fabs(next) < EPSILON * sum)
                break;
            sum += term = next;
        }
        sum /= sqrt(2 * PI * a);
    }
    return n == 1 && x < 0 ? -sum : isinf(x) ? (T)0 : sum;
}
static inline T bessel_i(int n, T x)
{
    T e = exp(fabs(x));
    const bool overflows = isinf(e) && isfinite(x);   // infinity gives NaN, as on the CPU
    return overflows ? (n == 1 && x < 0 ? -e : e) : scaled_bessel_i(n, x) * e;
}

// exp(x) K_n(x) of any real n, the integral of exp(-x (cosh t - 1)) cosh(n t) (A&S 9.6.24) by the trapezoidal rule,
// which converges exponentially for it.
static inline T scaled_bessel_k(T n, T x)
{
    if (x == 0)
        return INFINITY;
    if (!(x > 0))
        return NAN;
    T h = fmin(LIT(0.125), LIT(0.7) / sqrt(x)), sum = LIT(0.5);
    for (int k = 1; k < 20000; ++k) {
        T t = k * h, s = sinh(t / 2);
        T term = exp(-2 * x * s * s) * (n == 0 ? (T)1 : cosh(n * t));
        sum += term;
        if (term < EPSILON * LIT(0.01) * sum && x * s > 1)
            break;
    }
    return sum * h;
}
static inline T bessel_k(int n, T x) { return x == INFINITY ? (T)0 : scaled_bessel_k(n, x) * exp(-x); }

// J_n and Y_n, n = 0 or 1, of x >= 0. Small x: Miller's backward recurrence and Neumann's series (A&S 9.1.27, 9.1.88);
// large x: Hankel's asymptotic series (A&S 9.2.5).
typedef struct { T j, y; } bessel_t;
static inline bessel_t bessel_jy(int n, T x)
{
    bessel_t result;
    if (x >= 25) {
        T mu = 4 * n * n, term = 1, p = 1, q = 0;
        for (int k = 1; k < 40; ++k) {
            T next = term * (mu - (2 * k - 1) * (2 * k - 1)) / (8 * x * k);
            if (fabs(next) >= fabs(term) || fabs(next) < EPSILON)
                break;
            term = next;
            if (k & 1)
                q += k & 2 ? -term : term;
            else
                p += k & 2 ? -term : term;
        }
        // cos and sin of x - (n / 2 + 1 / 4) pi by the addition theorem, so that x is not rounded
        T c = cos(x), s = sin(x), unit = LIT(0.70710678118654752440);
        T cos_chi = n == 0 ? unit * (c + s) : unit * (s - c), sin_chi = n == 0 ? unit * (s - c) : -unit * (s + c);
        T scale = sqrt(2 / (PI * x));
        result.j = isinf(x) ? (T)0 : scale * (p * cos_chi - q * sin_chi);
        result.y = isinf(x) ? (T)0 : scale * (p * sin_chi + q * cos_chi);
        return result;
    }
    T j0 = 1, j1 = x / 2, series = 0;
    if (x > LIT(1e-4)) {
        T above = 0, here = LIT(1e-30), norm = 0;
        for (int k = 68; k > 0; --k) {        // here = J_k, above = J_{k+1}, in a common unknown scale
            if ((k & 1) == n && k > n) {
                int m = (k - n) / 2;
                series += (m & 1 ? -1 : 1) * k * here / ((T)m * (m + n));
            }
            if ((k & 1) == 0)
                norm += 2 * here;
            if (k == 1)
                j1 = here;
            T below = 2 * k / x * here - above;
            above = here;
            here = below;
            if (fabs(here) > LIT(1e15)) {
                here *= LIT(1e-30), above *= LIT(1e-30), series *= LIT(1e-30), norm *= LIT(1e-30), j1 *= LIT(1e-30);
            }
        }
        norm += here;
        j0 = here / norm;
        j1 = above / norm;
        series /= norm;
    }
    result.j = n == 0 ? j0 : j1;
    T logarithm = log(x / 2) + EULER;
    T pole = 2 / (PI * x) * j0;
    result.y = n == 1 && isinf(pole) ? -pole : 2 / PI * ((logarithm - n) * result.j - series) - (n == 1 ? pole : (T)0);
    return result;
}
static inline T bessel_j(int n, T x)
{
    T j = isnan(x) ? x : bessel_jy(n, fabs(x)).j;
    return n == 1 && x < 0 ? -j : j;
}
static inline T bessel_y(int n, T x) { return x == 0 ? (T)-INFINITY : x > 0 ? bessel_jy(n, x).y : (T)NAN; }
static inline T spherical_bessel_j0_of(T x)
{
    T z = x * x;
    return isinf(x)             ? (T)0
           : fabs(x) < LIT(0.5) ? 1 - z / 6 * (1 - z / 20 * (1 - z / 42 * (1 - z / 72 * (1 - z / 110))))
                                : sin(x) / x;
}
