// Functions of complex T with parts of type R. Where parts vanish, overflow or are infinite they have the limits of C's
// Annex G, as PyTorch's CPU has.
static inline T complex_of(R re, R im) { return (T)(re, im); }
static inline T cmul(T a, T b) { return complex_of(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
static inline T conjugate(T a) { return complex_of(a.x, -a.y); }
// Scaled by the larger part of the divisor, so that it neither overflows nor underflows early (as numpy and PyTorch
// do).
static inline T cdiv(T a, T b)
{
    R ax = fabs(b.x), ay = fabs(b.y);
    if (ax == 0 && ay == 0)
        return complex_of(a.x / ax, a.y / ay);
    if (ax >= ay) {
        R ratio = b.y / b.x, scale = 1 / (b.x + b.y * ratio);
        return complex_of((a.x + a.y * ratio) * scale, (a.y - a.x * ratio) * scale);
    }
    R ratio = b.x / b.y, scale = 1 / (b.x * ratio + b.y);
    return complex_of((a.x * ratio + a.y) * scale, (a.y * ratio - a.x) * scale);
}
static inline R cabs(T a)
{
    return isnan(a.x) || isnan(a.y) ? (isinf(a.x) || isinf(a.y) ? (R)INFINITY : (R)NAN) : hypot(a.x, a.y);
}
static inline R carg(T a) { return atan2(a.y, a.x); }
static inline T polar_of(R r, R angle) { return complex_of(r * cos(angle), r * sin(angle)); }
static inline T cexp(T a)
{
    R e = exp(a.x);
    if (isinf(a.x) && !isfinite(a.y))
        return a.x < 0 ? complex_of(0, copysign((R)0, a.y)) : complex_of(INFINITY, NAN);
    return a.y == 0 ? complex_of(e, a.y) : complex_of(e * cos(a.y), e * sin(a.y));
}
// log |a|, also where |a| overflows.
static inline R log_of_size(T a)
{
    R m = cabs(a);
    return isinf(m) && isfinite(a.x) && isfinite(a.y) ? log(cabs(a * LIT(0.25))) + LIT(1.3862943611198906) : log(m);
}
static inline T clog(T a) { return complex_of(log_of_size(a), carg(a)); }
static inline T clog1p(T a)
{
    R angle = atan2(a.y, 1 + a.x);
    if (fabs(a.x) < LIT(0.5) && fabs(a.y) < LIT(0.5))
        return complex_of(LIT(0.5) * log1p(a.x * (2 + a.x) + a.y * a.y), angle);
    return complex_of(log_of_size(complex_of(1 + a.x, a.y)), angle);
}
static inline T clog_add_exp(T a, T b)
{
    T low = a.x < b.x || isnan(a.x) ? a : b, high = a.x < b.x || isnan(a.x) ? b : a;
    if (isnan(low.x) || isnan(low.y))
        return complex_of(NAN, NAN);
    if (!isfinite(low.x) && low.x == high.x)
        return low.x < 0 ? low : clog(cexp(low) + cexp(high));
    return high + clog1p(cexp(low - high));
}
static inline T csqrt(T a)
{
    R m = cabs(a), scale = 1;
    if (m == 0)
        return complex_of(0, a.y);
    if (isinf(a.y))
        return complex_of(INFINITY, a.y);
    if (isinf(m + fabs(a.x)) && isfinite(a.x) && isfinite(a.y)) {
        a *= LIT(0.25);
        m = cabs(a);
        scale = 2;
    }
    R t = sqrt(LIT(0.5) * (m + fabs(a.x))), other = scale * (fabs(a.y) / (2 * t));
    return a.x >= 0 ? complex_of(scale * t, copysign(other, a.y)) : complex_of(other, copysign(scale * t, a.y));
}
// C's product, in which an infinite factor makes an infinite product.
static inline T infinite_product(T a, T b)
{
    T p = cmul(a, b);
    if (!isnan(p.x) || !isnan(p.y))
        return p;
    const int a_infinite = isinf(a.x) || isinf(a.y), b_infinite = isinf(b.x) || isinf(b.y);
    if (!a_infinite && !b_infinite)
        return p;
    if (a_infinite)
        a = complex_of(copysign((R)(isinf(a.x) ? 1 : 0), a.x), copysign((R)(isinf(a.y) ? 1 : 0), a.y));
    if (b_infinite)
        b = complex_of(copysign((R)(isinf(b.x) ? 1 : 0), b.x), copysign((R)(isinf(b.y) ? 1 : 0), b.y));
    a = complex_of(isnan(a.x) ? copysign((R)0, a.x) : a.x, isnan(a.y) ? copysign((R)0, a.y) : a.y);
    b = complex_of(isnan(b.x) ? copysign((R)0, b.x) : b.x, isnan(b.y) ? copysign((R)0, b.y) : b.y);
    return cmul(a, b) * (R)INFINITY;
}
static inline T cpow(T a, T b)
{
    if (!isfinite(a.x) || !isfinite(a.y) || !isfinite(b.x) || !isfinite(b.y))
        return cexp(infinite_product(b, clog(a)));
    if (b.x == 0 && b.y == 0)
        return complex_of(1, 0);
    if (a.x == 0 && a.y == 0)
        return b.x > 0 ? complex_of(0, 0) : complex_of(b.x < 0 ? (R)INFINITY : (R)NAN, NAN);
    R r = cabs(a), angle = carg(a), l = log_of_size(a);
    // |a^b| by pow and exp apart: exp of the whole exponent would lose as many digits as the exponent has before its
    // point.
    R grown = pow(r, b.x), turned = exp(-b.y * angle), size = grown * turned;
    if (!(size > 0 && size < INFINITY))
        size = exp(b.x * l - b.y * angle);
    R turn = b.x * angle + b.y * l;
    return turn == 0 ? complex_of(size, turn) : polar_of(size, turn);
}
// A zero stays one where the other factor overflows.
static inline R zero_or_product(R a, R b) { return a == 0 ? a * copysign((R)1, b) : a * b; }
static inline T csinh(T a)
{
    if (isinf(a.x) && !isfinite(a.y))
        return complex_of(INFINITY, NAN);
    return complex_of(zero_or_product(sinh(a.x), cos(a.y)), zero_or_product(sin(a.y), cosh(a.x)));
}
static inline T ccosh(T a)
{
    if (isinf(a.x) && !isfinite(a.y))
        return complex_of(INFINITY, NAN);
    R im = sinh(a.x);
    return complex_of(cosh(a.x) * cos(a.y), im == 0 ? zero_or_product(im, sin(a.y)) : zero_or_product(sin(a.y), im));
}
static inline T times_i(T a) { return complex_of(-a.y, a.x); }
static inline T times_minus_i(T a) { return complex_of(a.y, -a.x); }
static inline T csin(T a) { return times_minus_i(csinh(times_i(a))); }
static inline T ccos(T a) { return ccosh(times_i(a)); }
// Kahan, Branch cuts for complex elementary functions, 1987.
static inline T ctanh(T a)
{
    if (a.x == 0 && !isfinite(a.y) || a.y == 0 && isnan(a.x))
        return complex_of(a.x == 0 ? a.x : (R)NAN, a.y == 0 ? a.y : (R)NAN);
    if (fabs(a.x) > LIT(15.0))
        return isfinite(a.y) || isinf(a.x) ? complex_of(copysign((R)1, a.x), isfinite(a.y) ?
            copysign(4 * exp(-2 * fabs(a.x)), sin(2 * a.y)) : copysign((R)0, a.y)) : complex_of(NAN, NAN);
    R t = tan(a.y), beta = 1 + t * t, s = sinh(a.x), rho = sqrt(1 + s * s);
    if (isinf(t))
        return complex_of(rho / s, 1 / t);
    R d = 1 + beta * s * s;
    return complex_of(beta * rho * s / d, t / d);
}
static inline T ctan(T a) { return times_minus_i(ctanh(times_i(a))); }
// So large that a square, and what is added to it, is as good as alone: inverse functions are logarithms of 2a there.
static inline int is_large(T a) { return fabs(a.x) > LIT(1e9) || fabs(a.y) > LIT(1e9); }
static inline R log_of_twice(T a) { return log_of_size(a) + LIT(0.69314718055994530942); }
static inline T casinh(T a)
{
    if (isnan(a.x) && a.y == 0)
        return a;
    if (is_large(a))
        return complex_of(copysign(log_of_twice(a), a.x), atan2(a.y, fabs(a.x)));
    T r = csqrt(complex_of(1 - a.y, a.x)), s = csqrt(complex_of(1 + a.y, -a.x));
    return complex_of(asinh(s.x * r.y - r.x * s.y), atan2(a.y, r.x * s.x - r.y * s.y));
}
static inline T casin(T a) { return times_minus_i(casinh(times_i(a))); }
static inline T cacos(T a)
{
    if (a.x == 0 && isnan(a.y))
        return complex_of(LIT(1.57079632679489661923), NAN);
    if (is_large(a))
        return complex_of(atan2(fabs(a.y), a.x), -copysign(log_of_twice(a), a.y));
    T r = csqrt(complex_of(1 - a.x, -a.y)), s = csqrt(complex_of(1 + a.x, a.y));
    return complex_of(2 * atan2(r.x, s.x), asinh(s.x * r.y - s.y * r.x));
}
static inline T cacosh(T a)
{
    if (a.x == 0 && isnan(a.y))
        return complex_of(NAN, LIT(1.57079632679489661923));
    if (is_large(a))
        return complex_of(log_of_twice(a), atan2(a.y, a.x));
    T r = csqrt(complex_of(a.x - 1, a.y)), s = csqrt(complex_of(a.x + 1, a.y));
    return complex_of(asinh(s.x * r.x + s.y * r.y), 2 * atan2(r.y, s.x));
}
static inline T catanh(T a)
{
    if (a.x == 0 && isnan(a.y))
        return a;
    if (is_large(a)) {      // 1 / a, and a right angle
        if (isnan(a.x) && isfinite(a.y))
            return complex_of(NAN, NAN);
        R m = cabs(a);
        return complex_of(isinf(m) ? copysign((R)0, a.x) : a.x / m / m, isnan(a.y) ? (R)NAN
            : copysign(LIT(1.57079632679489661923), a.y));
    }
    R x = fabs(a.x), y2 = a.y * a.y;     // odd: near -1 the logarithm's argument would cancel
    R d = hypot(1 - x, a.y);             // its square would underflow
    R re = d < LIT(1e-9) ? LIT(0.5) * (LIT(0.69314718055994530942) - log(d)) : LIT(0.25) * log1p(4 * x / (d * d));
    return complex_of(copysign(re, a.x),
                      LIT(0.5) * atan2(2 * a.y, (1 - a.x) * (1 + a.x) - y2));
}
static inline T catan(T a) { return times_minus_i(catanh(times_i(a))); }
static inline T csign(T a)
{
    R m = cabs(a);
    return m == 0 ? complex_of(0, 0) : complex_of(a.x / m, a.y / m);
}
