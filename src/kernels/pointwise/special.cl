// Special functions for the rows that name this file as their library; T is float or double. Written from the formulas
// of Abramowitz and Stegun (A&S) and the papers named below, each in a form that is accurate to a few units of T.
#include "kernels/pointwise/special_constants.cl"

// Derivative of log gamma: upward recurrence to x >= 10, then the asymptotic series (A&S 6.3.18); reflection below 0.
static inline T digamma_of(T x)
{
    if (x == 0)
        return copysign((T)INFINITY, -x);
    T result = 0;
    if (x < 0) {
        T r = x - trunc(x);
        if (r == 0)
            return NAN;
        result = -PI / tanpi(r);
        x = 1 - x;
    }
    for (; x < 10; x += 1)
        result -= 1 / x;
    T z = 1 / (x * x);
    T series = z * (LIT(0.083333333333333333) - z * (LIT(0.0083333333333333333) - z * (LIT(0.0039682539682539683)
               - z * (LIT(0.0041666666666666667) - z * (LIT(0.0075757575757575758) - z * (LIT(0.021092796092796093)
               - z * LIT(0.083333333333333333)))))));
    return result + log(x) - LIT(0.5) / x - series;
}

// Hurwitz zeta, sum of (q + k)^-s: ten terms and the Euler-Maclaurin correction (A&S 23.1.30).
static inline T zeta_of(T s, T q)
{
    if (s == 1)
        return INFINITY;
    if (s < 1)
        return NAN;
    if (q <= 0) {
        if (q == floor(q))
            return INFINITY;
        if (s != floor(s))
            return NAN;
    }
    T sum = 0;
    int k = 0;
    for (; k < 10 || q <= 9; ++k, q += 1) {
        T term = pow(q, -s);
        sum += term;
        if (fabs(term) < EPSILON * fabs(sum) && q > 0)
            return sum;
    }
    T power = pow(q, -s), factor = s, z = 1 / (q * q);
    sum += power * q / (s - 1) + power / 2;
    // Bernoulli numbers over (2j)!, j = 1, 2, ...
    const T b[] = {LIT(0.083333333333333333),   LIT(-0.0013888888888888889),  LIT(3.3068783068783069e-5),
                   LIT(-8.2671957671957672e-7), LIT(2.0876756987868099e-8),   LIT(-5.2841901386874932e-10),
                   LIT(1.3382536530684679e-11), LIT(-3.3896802963225829e-13), LIT(8.5860620562778446e-15),
                   LIT(-2.1748686985580619e-16)};
    power /= q;
    for (int j = 0; j < 10; ++j) {
        T term = b[j] * factor * power;
        sum += term;
        if (fabs(term) < EPSILON * fabs(sum))
            break;
        factor *= (s + 2 * j + 1) * (s + 2 * j + 2);
        power *= z;
    }
    return sum;
}

// Second derivative of log gamma: as digamma_of (A&S 6.4.12).
static inline T trigamma_of(T x)
{
    T whole = 0, sign = 1;
    if (x < LIT(0.5)) {
        const T s = sinpi(x);
        whole = PI * PI / (s * s);
        sign = -1;
        x = 1 - x;
    }
    T sum = 0;
    for (; x < 10; x += 1)
        sum += 1 / (x * x);
    const T r = 1 / x, z = r * r;
    const T series = z * (LIT(0.16666666666666667) - z * (LIT(0.033333333333333333) - z * (LIT(0.023809523809523810)
                     - z * (LIT(0.033333333333333333) - z * (LIT(0.075757575757575758) - z * (LIT(0.25311355311355311)
                     - z * LIT(1.1666666666666667)))))));
    return whole + sign * (sum + r * (1 + LIT(0.5) * r + series));
}
static inline T polygamma_of(T n, T x)
{
    if (n == 0)
        return digamma_of(x);
    if (n == 1)
        return trigamma_of(x);
    return (fmod(n, (T)2) == 1 ? 1 : -1) * tgamma(n + 1) * zeta_of(n + 1, x);
}

// Inverse of erf: M. Giles, Approximating the erfinv function, 2010, within four units in the last place of float; for
// double then Halley's steps.
static inline T erfinv_start(T x, T w)
{
    if (w < 5) {
        w -= LIT(2.5);
        return x * (LIT(1.50140941) +
                    w * (LIT(0.246640727) +
                         w * (LIT(-0.00417768164) +
                              w * (LIT(-0.00125372503) +
                                   w * (LIT(0.00021858087) +
                                        w * (LIT(-4.39150654e-06) +
                                             w * (LIT(-3.5233877e-06) +
                                                  w * (LIT(3.43273939e-07) + w * LIT(2.81022636e-08)))))))));
    }
    w = fmin(sqrt(w), (T)6) - 3;      // beyond 6 the steps find the way
    return x *
           (LIT(2.83297682) +
            w * (LIT(1.00167406) + w * (LIT(0.00943887047) +
                                        w * (LIT(-0.0076224613) +
                                             w * (LIT(0.00573950773) +
                                                  w * (LIT(-0.00367342844) +
                                                       w * (LIT(0.00134934322) +
                                                            w * (LIT(0.000100950558) + w * LIT(-0.000200214257)))))))));
}
static inline T erfinv_of(T x)
{
    T size = fabs(x);
    if (!(size <= 1))
        return NAN;
    if (size == 1)
        return copysign((T)INFINITY, x);
    T y = erfinv_start(size, -log((1 - size) * (1 + size)));
    for (int k = 0; k < (sizeof(T) == 8 ? 2 : 0); ++k) {
        T error = size > LIT(0.5) ? (1 - size) - erfc(y) : erf(y) - size;
        T step = error / (LIT(1.12837916709551257390) * exp(-y * y));
        y -= step / (1 + y * step);
    }
    return copysign(y, x);
}

// exp(x^2) erfc(x); Laplace's continued fraction for large x.
static inline T exp_square(T x)
{
    T square = x * x;
    return exp(square) * (1 + fma(x, x, -square));
}
static inline T erfcx_of(T x)
{
    if (x < 0)
        return x < LIT(-26.7) ? (T)INFINITY : 2 * exp_square(x) - exp_square(x) * erfc(-x);
    if (x < 5)
        return exp_square(x) * erfc(x);
    T tail = 0;
    for (int k = 40; k > 0; --k)
        tail = LIT(0.5) * k / (x + tail);
    return LIT(0.56418958354775628695) / (x + tail);
}

// Quantile of the normal distribution. In the lower tail log(ndtr(y)) = log(p) is solved by Newton's steps.
static inline T log_ndtr_of(T x)
{
    T t = x * LIT(0.70710678118654752440);
    return x < -1 ? log(erfcx_of(-t) / 2) - t * t : log1p(-erfc(t) / 2);
}
static inline T ndtri_of(T p)
{
    if (p == 0)
        return -INFINITY;
    if (p == 1)
        return INFINITY;
    if (!(p > 0 && p < 1))
        return NAN;
    if (p > LIT(0.02425))
        return LIT(1.41421356237309504880) * erfinv_of(2 * p - 1);
    T target = log(p), y = -sqrt(-2 * target);
    for (int k = 0; k < 8; ++k) {
        T t = -y * LIT(0.70710678118654752440), mills = erfcx_of(t) / 2;      // ndtr(y) = mills exp(-t t)
        T step = (log(mills) - t * t - target) * mills / LIT(0.39894228040143267794);
        y -= step;
        if (fabs(step) < EPSILON * fabs(y))
            break;
    }
    return y;
}
static inline T entropy_of(T x) { return isnan(x) ? x : x > 0 ? -x * log(x) : x == 0 ? (T)0 : (T)-INFINITY; }

// Regularised incomplete gamma functions P and Q: power series (A&S 6.5.29) or continued fraction (A&S 6.5.31) times
// x^a e^-x / Gamma(a), which for large a is written around x = a so that nothing cancels (Temme, 1979).
static inline T gamma_factor(T a, T x)
{
    if (a < 10)
        return exp(a * log(x) - x) / tgamma(a);
    T mu = (x - a) / a, deviance = fabs(mu) < LIT(0.4) ? log1p(mu) - mu : log(x / a) - mu;
    T z = 1 / (a * a),
      stirling = (LIT(0.083333333333333333) -
                  z * (LIT(0.0027777777777777778) -
                       z * (LIT(0.00079365079365079365) -
                            z * (LIT(0.00059523809523809524) -
                                 z * (LIT(0.00084175084175084175) - z * LIT(0.0019175269175269175)))))) / a;
    return sqrt(a / (2 * PI)) * exp(a * deviance - stirling);
}
static inline T gamma_p_series(T a, T x)
{
    T term = 1 / a, sum = term;
    for (int k = 1; k < 2000 && term > EPSILON * sum; ++k)
        sum += term *= x / (a + k);
    return sum * gamma_factor(a, x);
}
// Q for small a and x, where 1 - P would cancel: 1 - x^a / Gamma(1 + a) and the rest of the series (DLMF 8.7.1).
static inline T gamma_q_series(T a, T x)
{
    T factor = 1, sum = 0, above = 1 + a;
    for (int k = 1; k < 2000; ++k) {
        factor *= -x / k;
        T term = factor / (a + k);
        sum += term;
        if (fabs(term) <= EPSILON * fabs(sum))
            break;
    }
    // log Gamma(1 + a), also of what 1 + a rounds away
    T power = a * log(x) - (lgamma(above) + digamma_of(above) * (a - (above - 1)));
    return -expm1(power) - a * exp(power) * sum;
}
static inline T gamma_q_fraction(T a, T x)
{
    const T tiny = LIT(1e-30);
    T b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;      // Lentz's method
    for (int k = 1; k < 2000; ++k) {
        T numerator = -k * (k - a);
        b += 2;
        d = numerator * d + b;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = b + numerator / c;
        c = fabs(c) < tiny ? tiny : c;
        h *= d * c;
        if (fabs(d * c - 1) < EPSILON)
            break;
    }
    return h * gamma_factor(a, x);
}
static inline T gamma_p(T a, T x)
{
    if (x < 0 || a < 0 || isnan(x) || isnan(a))
        return NAN;
    if (a == 0)
        return x > 0 ? (T)1 : (T)NAN;
    if (x == 0)
        return 0;
    if (isinf(a))
        return isinf(x) ? (T)NAN : (T)0;
    if (isinf(x))
        return 1;
    return x < a + 1 ? gamma_p_series(a, x) : 1 - gamma_q_fraction(a, x);
}
static inline T gamma_q(T a, T x)
{
    if (x < 0 || a < 0 || isnan(x) || isnan(a))
        return NAN;
    if (a == 0)
        return x > 0 ? (T)0 : (T)NAN;
    if (x == 0)
        return 1;
    if (isinf(a))
        return isinf(x) ? (T)NAN : (T)1;
    if (isinf(x))
        return 0;
    if (x <= LIT(1.1) && (x <= LIT(0.5) ? LIT(-0.4) / log(x) >= a : LIT(1.1) * x >= a))
        return gamma_q_series(a, x);
    return x < a ? 1 - gamma_p_series(a, x) : gamma_q_fraction(a, x);
}

// Orthogonal polynomials of degree n, truncated to an integer, by their recurrences; 0 for negative n.
static inline T chebyshev(T n, T x, T first)      // first: the polynomial of degree 1
{
    const int degree = (int)n;
    T before = 1, here = first;
    if (n < 1)
        return n <= -1 ? (T)0 : (T)1;
    for (int k = 2; k <= degree; ++k) {
        T next = 2 * x * here - before;
        before = here;
        here = next;
    }
    return here;
}
static inline T hermite_h(T n, T x)
{
    const int degree = (int)n;
    T before = 1, here = 2 * x;
    if (n < 1)
        return n <= -1 ? (T)0 : (T)1;
    for (int k = 2; k <= degree; ++k) {
        T next = 2 * x * here - 2 * (k - 1) * before;
        before = here;
        here = next;
    }
    return n > (sizeof(T) == 8 ? 512 : 128) ? (T)NAN : here;
}
static inline T hermite_he(T n, T x)
{
    const int degree = (int)n;
    T before = 1, here = x;
    if (n < 1)
        return n <= -1 ? (T)0 : (T)1;
    for (int k = 2; k <= degree; ++k) {
        T next = x * here - (k - 1) * before;
        before = here;
        here = next;
    }
    return here;
}
static inline T laguerre(T n, T x)
{
    const int degree = (int)n;
    T before = 1, here = 1 - x;
    if (n < 1)
        return n <= -1 ? (T)0 : (T)1;
    for (int k = 1; k < degree; ++k) {
        T next = ((2 * k + 1 - x) * here - k * before) / (k + 1);
        before = here;
        here = next;
    }
    return here;
}
static inline T legendre(T n, T x)
{
    const int degree = (int)n;
    T before = 1, here = x;
    if (n < 1)
        return n <= -1 ? (T)0 : (T)1;
    for (int k = 1; k < degree; ++k) {
        T next = ((2 * k + 1) * x * here - k * before) / (k + 1);
        before = here;
        here = next;
    }
    return here;
}
