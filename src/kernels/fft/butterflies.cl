// The transforms of few complex numbers (the sign of the exponent is that of the forward transform). Used with N,
// MOST_RADIX and R.
#include "kernels/fft/number.cl"

static inline void butterfly_4(number* v0, number* v1, number* v2, number* v3)
{
    const number a = plus(*v0, *v2), b = minus(*v0, *v2), c = plus(*v1, *v3), d = turned(minus(*v1, *v3));
    *v0 = plus(a, c);
    *v1 = plus(b, d);
    *v2 = minus(a, c);
    *v3 = minus(b, d);
}

static inline void butterfly_3(number* v)
{
    const number s = plus(v[1], v[2]), d = scaled((R)0.86602540378443864676, turned(minus(v[1], v[2])));
    const number m = minus(v[0], scaled((R)0.5, s));
    v[0] = plus(v[0], s);
    v[1] = plus(m, d);
    v[2] = minus(m, d);
}

static inline void butterfly_5(number* v)
{
    const R c1 = 0.30901699437494742410, c2 = -0.80901699437494742410, s1 = 0.95105651629515357212,
            s2 = 0.58778525229247312917;
    const number a = plus(v[1], v[4]), b = turned(minus(v[1], v[4])), c = plus(v[2], v[3]),
                 d = turned(minus(v[2], v[3]));
    const number m1 = plus(v[0], plus(scaled(c1, a), scaled(c2, c))), n1 = plus(scaled(s1, b), scaled(s2, d));
    const number m2 = plus(v[0], plus(scaled(c2, a), scaled(c1, c))), n2 = minus(scaled(s2, b), scaled(s1, d));
    v[0] = plus(v[0], plus(a, c));
    v[1] = plus(m1, n1);
    v[2] = plus(m2, n2);
    v[3] = minus(m2, n2);
    v[4] = minus(m1, n1);
}

static inline void butterfly_8(number* v)
{
    const R h = 0.70710678118654752440;
    number odd[4] = {v[1], v[3], v[5], v[7]};
    butterfly_4(&v[0], &v[2], &v[4], &v[6]);
    butterfly_4(&odd[0], &odd[1], &odd[2], &odd[3]);
    odd[1] = (number){h * (odd[1].re + odd[1].im), h * (odd[1].im - odd[1].re)};
    odd[2] = turned(odd[2]);
    odd[3] = (number){h * (odd[3].im - odd[3].re), -h * (odd[3].re + odd[3].im)};
    const number even[4] = {v[0], v[2], v[4], v[6]};
#pragma unroll
    for (int t = 0; t < 4; ++t) {
        v[t] = plus(even[t], odd[t]);
        v[t + 4] = minus(even[t], odd[t]);
    }
}

// Any other small prime: term t is the sum of v[r] exp(-2 pi i r t / radix). Numbers r and radix - r have conjugate
// roots: their sum is multiplied by the real part, their difference by the imaginary one, which terms t and radix - t
// have in common.
static inline __attribute__((always_inline)) void butterfly_any(const int radix, number* v, const __global R* roots)
{
    number terms[MOST_RADIX];
    terms[0] = v[0];
#pragma unroll
    for (int r = 1; r <= radix / 2; ++r) {
        const number sum = plus(v[r], v[radix - r]);
        v[radix - r] = minus(v[r], v[radix - r]);
        v[r] = sum;
        terms[0] = plus(terms[0], sum);
    }
#pragma unroll
    for (int t = 1; t <= radix / 2; ++t) {
        number even = v[0], odd = {0, 0};
#pragma unroll
        for (int r = 1; r <= radix / 2; ++r) {
            const int turn = r * t % radix, nearer = min(turn, radix - turn);
            const R re = roots[nearer * (N / radix)], im = roots[N + nearer * (N / radix)];
            const R turned_im = turn == nearer ? im : -im;   // products and sums in one expression each: fused
            even.re += re * v[r].re;
            even.im += re * v[r].im;
            odd.re += turned_im * v[radix - r].re;
            odd.im += turned_im * v[radix - r].im;
        }
        terms[t] = (number){even.re - odd.im, even.im + odd.re};
        terms[radix - t] = (number){even.re + odd.im, even.im - odd.re};
    }
#pragma unroll
    for (int t = 0; t < radix; ++t)
        v[t] = terms[t];
}

static inline __attribute__((always_inline)) void butterfly(const int radix, number* v, const __global R* roots)
{
    if (radix == 2) {
        const number a = v[0];
        v[0] = plus(a, v[1]);
        v[1] = minus(a, v[1]);
    } else if (radix == 3) {
        butterfly_3(v);
    } else if (radix == 4) {
        butterfly_4(&v[0], &v[1], &v[2], &v[3]);
    } else if (radix == 5) {
        butterfly_5(v);
    } else if (radix == 8) {
        butterfly_8(v);
    } else {
        butterfly_any(radix, v, roots);
    }
}
