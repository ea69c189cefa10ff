// Random variates whose parameters lie in tensors, by rejection: each element draws from a stream of its own, as many
// numbers as it takes. One work-item per element. -DT=dtype -DVARIATE_poisson|gamma|binomial [-DWIDE]
// -DSMALLEST: the least that a gamma variate is, the smallest normal number of T.
// Rates of Poisson's distribution that are negative or no number are reported.
#include "core/dtype.cl"
#include "core/errors.cl"
#include "kernels/random/philox.cl"

typedef compute_t(T) real;

// Stream of element i: Philox blocks at counters i + (attempt << 40).
typedef struct {
    ulong position, stream, seed;
    uint attempt;
} numbers_t;

static inline uint4 next_words(numbers_t* s)
{
    return philox(s->position + ((ulong)s->attempt++ << 40), s->stream, s->seed);
}

#ifdef WIDE
static inline real positive(uint a, uint b) { return (real)((word64(a, b) >> 11) + 1) * 0x1p-53; }
#else
static inline real positive(uint a, uint b) { return positive24(a); }
#endif

#if defined(VARIATE_poisson)
// log of the Poisson probability of k; for larger k by Stirling's series, which does not cancel.
static inline real log_probability(real k, real rate)
{
    if (k < 10)
        return k * log(rate) - rate - lgamma(k + 1);
    real d = (rate - k) / k;
    real curve = fabs(d) < (real)0.05 ? -d * d * ((real)0.5 - d * ((real)(1.0 / 3) - d * ((real)0.25 - d * (real)0.2)))
                                      : log1p(d) - d;
    return k * curve - (real)0.5 * log((real)6.283185307179586 * k) - 1 / (12 * k);
}

// Knuth's products for small rates; for others transformed rejection (PTRS: Hoermann 1993).
static inline real variate(real rate, real unused, numbers_t* numbers)
{
    if (!(rate > 0))
        return rate == 0 ? 0 : NAN;
    if (rate < 10) {
        real limit = exp(-rate), product = 1, count = 0;
        for (;;) {
            uint4 r = next_words(numbers);
            product *= positive(r.x, r.y);
            if (!(product > limit))
                return count;
            ++count;
            product *= positive(r.z, r.w);
            if (!(product > limit))
                return count;
            ++count;
        }
    }
    real b = (real)0.931 + (real)2.53 * sqrt(rate), a = (real)-0.059 + (real)0.02483 * b;
    real alpha = (real)1.1239 + (real)1.1328 / (b - (real)3.4), vr = (real)0.9277 - (real)3.6224 / (b - 2);
    for (;;) {
        uint4 r = next_words(numbers);
        real u = positive(r.x, r.y) - (real)0.5, v = positive(r.z, r.w);
        real us = (real)0.5 - fabs(u);
        real k = floor((2 * a / us + b) * u + rate + (real)0.43);
        if (us >= (real)0.07 && v <= vr)
            return k;
        if (k < 0 || (us < (real)0.013 && v > us))
            continue;
        if (log(v * alpha / (a / (us * us) + b)) <= log_probability(k, rate))
            return k;
    }
}
#elif defined(VARIATE_gamma)
// Marsaglia and Tsang (2000); shapes below 1 are boosted.
static inline real variate(real shape, real unused, numbers_t* numbers)
{
    if (!(shape > 0))
        return shape == 0 ? SMALLEST : NAN;
    real scale = 1;
    if (shape < 1) {
        uint4 r = next_words(numbers);
        scale = pow(positive(r.x, r.y), 1 / shape);
        shape += 1;
    }
    real d = shape - (real)(1.0 / 3), c = 1 / sqrt(9 * d);
    for (;;) {
        uint4 r = next_words(numbers);
        real x = sqrt(-2 * log(positive(r.x, r.y))) * cospi(2 * positive(r.z, r.w));
        real root = 1 + c * x;
        if (root <= 0)
            continue;
        real v = root * root * root;
        uint4 again = next_words(numbers);
        real u = positive(again.x, again.y);
        if (log(u) < (real)0.5 * x * x + d - d * v + d * log(v))
            return fmax(scale * d * v, SMALLEST);
    }
}
#else
static inline real tail(real k)   // what Stirling's formula lacks of log(k!)
{
    if (k < 9.5f)
        return lgamma(k + 1) - ((k + (real)0.5) * log(k + 1) - (k + 1) + (real)0.91893853320467274);
    real n = k + 1, square = n * n;
    return ((real)(1.0 / 12) - ((real)(1.0 / 360) - (real)(1.0 / 1260) / square) / square) / n;
}

// Counts of geometric gaps when few successes are expected; otherwise transformed rejection (BTRS: Hoermann 1993).
static inline real few_or_many(real n, real p, numbers_t* numbers)
{
    if (n * p < 10) {
        real sum = 0, count = 0, log_q = log1p(-p);
        for (;;) {
            uint4 r = next_words(numbers);
            sum += ceil(log(positive(r.x, r.y)) / log_q);
            if (sum > n)
                return count;
            ++count;
        }
    }
    real deviation = sqrt(n * p * (1 - p)), b = (real)1.15 + (real)2.53 * deviation;
    real a = (real)-0.0873 + (real)0.0248 * b + (real)0.01 * p, vr = (real)0.92 - (real)4.2 / b;
    real ratio = p / (1 - p), alpha = ((real)2.83 + (real)5.1 / b) * deviation, m = floor((n + 1) * p);
    for (;;) {
        uint4 r = next_words(numbers);
        real u = positive(r.x, r.y) - (real)0.5, v = positive(r.z, r.w);
        real us = (real)0.5 - fabs(u);
        real k = floor((2 * a / us + b) * u + n * p + (real)0.5);
        if (us >= (real)0.07 && v <= vr)
            return k;
        if (k < 0 || k > n)
            continue;
        real bound = (m + (real)0.5) * log((m + 1) / (ratio * (n - m + 1))) + (n + 1) * log((n - m + 1) / (n - k + 1)) +
                     (k + (real)0.5) * log(ratio * (n - k + 1) / (k + 1)) + tail(m) + tail(n - m) - tail(k) -
                     tail(n - k);
        if (log(v * alpha / (a / (us * us) + b)) <= bound)
            return k;
    }
}

static inline real variate(real n, real p, numbers_t* numbers)
{
    if (isnan(n) || isnan(p))
        return NAN;
    if (n <= 0 || p <= 0)
        return 0;
    if (p >= 1)
        return n;
    return p <= (real)0.5 ? few_or_many(n, p, numbers) : n - few_or_many(n, 1 - p, numbers);
}
#endif

__kernel void variates(__global storage_t(T)* out, ulong out_offset, const __global storage_t(T)* first,
                       ulong first_offset, const __global storage_t(T)* second, ulong second_offset, ulong n,
                       ulong seed, ulong stream, __global int* errors, int operator_code)
{
    ulong i = get_global_id(0);
    if (i >= n)
        return;
    numbers_t numbers = {i, stream, seed, 0};
    const real parameter = load(T, first + first_offset, i);
#ifdef VARIATE_poisson
    if (!(parameter >= 0))
        clprim_value_error(errors, operator_code);
#endif
    store(T, out + out_offset, i, variate(parameter, load(T, second + second_offset, i), &numbers));
}
