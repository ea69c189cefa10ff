// Fourier transforms of lines of N elements that lie one after the other, on CPUs: a work-item has `each` lines, one at
// a time, in Stockham's self-sorting passes over vectors of 16 neighbours, the first of which reads memory and the last
// of which writes it. Options and roots are those of lines.cl, and so are -DREAL_IN and -DREAL_OUT. Behind the roots of
// the line lie `turns`: those of passes whose vectors need several, in the order in which they are used (vector, term,
// real parts before imaginary ones), then, for lines of real numbers, TURNS numbers on, exp(-2 pi i k / 2 N), k < N.
// Inverse transforms exchange real and imaginary parts on the way in and out.
#include "core/dtype.cl"

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
typedef CAT(R, 16) vec;
#include "kernels/fft/butterflies.cl"
#include "kernels/fft/cpu_vectors.cl"

#ifdef REAL_OUT
#define TAKES_TERMS 1
#else
#define TAKES_TERMS 0
#endif
#ifdef REAL_IN
#define GIVES_TERMS 1
#else
#define GIVES_TERMS 0
#endif
#define REALS(terms) ((terms) ? 2 * (N + 1) : 2 * N)   // of a line in memory

// From v[t] = terms t of 16 transforms to the order of memory, by perfect shuffles.
static inline __attribute__((always_inline)) void interleave(const int radix, vec* v)
{
#pragma unroll
    for (int left = radix; left > 1; left /= 2) {
        vec w[8];
#pragma unroll
        for (int i = 0; i < radix / 2; ++i) {
            w[2 * i] = zip_low(v[i], v[i + radix / 2]);
            w[2 * i + 1] = zip_high(v[i], v[i + radix / 2]);
        }
#pragma unroll
        for (int i = 0; i < radix; ++i)
            v[i] = w[i];
    }
}

// Puts the terms t of small transforms j .. to their places.
static inline __attribute__((always_inline))
void put(R* to, vec* v, int j, const int radix, const int done, const int items)
{
    const int step = done * (radix - 1);
    if (done == 1 && (radix == 2 || radix == 4 || radix == 8)) {
        interleave(radix, v);
#pragma unroll
        for (int t = 0; t < radix; ++t)
            vstore16(v[t], 0, to + j * radix + 16 * t);
        return;
    }
#pragma unroll
    for (int t = 0; t < radix; ++t) {
        R* place = to + done * t;
        if (done % 16 == 0) {
            vstore16(v[t], 0, place + j + j / done * step);
        } else if (done % 8 == 0 && items % 8 == 0) {
            vstore8(v[t].lo, 0, place + j + j / done * step);
            vstore8(v[t].hi, 0, place + j + 8 + (j + 8) / done * step);
        } else if (done % 4 == 0 && items % 4 == 0) {
            vstore4(v[t].s0123, 0, place + j + j / done * step);
            vstore4(v[t].s4567, 0, place + j + 4 + (j + 4) / done * step);
            vstore4(v[t].s89ab, 0, place + j + 8 + (j + 8) / done * step);
            vstore4(v[t].scdef, 0, place + j + 12 + (j + 12) / done * step);
        } else {
            R lanes[16];
            vstore16(v[t], 0, lanes);
            for (int l = 0; l < 16; ++l)
                place[j + l + (j + l) / done * step] = lanes[l];
        }
    }
}

// One pass, the first from x instead of `from`, the last to y instead of `to`: `done` is the product of the radices
// before. Returns what follows this pass's roots.
static inline __attribute__((always_inline))
const __global R* pass(const int radix, const int done, const R* from, R* to, const __global R* x, __global R* y,
                       const __global R* roots, const __global R* turns, const int inverse, R scale)
{
    const int items = N / radix;
    const bool last = done * radix == N, uniform = done % 16 == 0;
    for (int at = 0; at < items; at += 16) {
        const int j = min(at, items - 16);   // the last vector does some once more
        number v[MOST_RADIX];
#pragma unroll
        for (int r = 0; r < radix; ++r)
            if (done == 1 && !TAKES_TERMS)
                v[r] = load_pairs(x + 2 * (j + r * items), inverse);
            else
                v[r] = (number){vload16(0, from + j + r * items), vload16(0, from + N + j + r * items)};
        butterfly(radix, v, roots);
        if (!last) {
            const int k = j / done * done;
            const __global R* own = turns + at * 2 * (radix - 1);
#pragma unroll
            for (int t = 1; t < radix; ++t)
                v[t] = times(v[t], uniform ? (number){(vec)roots[k * t], (vec)roots[N + k * t]}
                                           : (number){vload16(2 * t - 2, own), vload16(2 * t - 1, own)});
        }
        if (last && !GIVES_TERMS) {
#pragma unroll
            for (int t = 0; t < radix; ++t)
                store_pairs(scaled(scale, v[t]), y + 2 * (j + done * t), inverse);
        } else if (last) {
#pragma unroll
            for (int t = 0; t < radix; ++t) {
                vstore16(v[t].re, 0, to + j + done * t);
                vstore16(v[t].im, 0, to + N + j + done * t);
            }
        } else {
            vec parts[MOST_RADIX];
#pragma unroll
            for (int t = 0; t < radix; ++t)
                parts[t] = v[t].re;
            put(to, parts, j, radix, done, items);
#pragma unroll
            for (int t = 0; t < radix; ++t)
                parts[t] = v[t].im;
            put(to + N, parts, j, radix, done, items);
        }
    }
    return turns + (uniform ? 0 : (items + 15) / 16 * 32 * (radix - 1));
}

// The first N + 1 terms of 2 N real numbers from the transform of their pairs (Cooley, Lewis and Welch, 1970).
static inline void to_terms(const R* pairs, __global R* y, const __global R* turns, R scale)
{
    const R halved = (R)0.5 * scale;
    y[0] = scale * (pairs[0] + pairs[N]);
    y[1] = 0;
    y[2 * N] = scale * (pairs[0] - pairs[N]);
    y[2 * N + 1] = 0;
    for (int at = 1; at < N; at += 16) {
        const int k = min(at, N - 16);
        const number a = {vload16(0, pairs + k), vload16(0, pairs + N + k)},
                     b = {backwards(vload16(0, pairs + N - k - 15)), -backwards(vload16(0, pairs + 2 * N - k - 15))};
        const number odd = times(minus(a, b), load_pairs(turns + 2 * k, false));
        store_pairs(scaled(halved, plus(plus(a, b), turned(odd))), y + 2 * k, false);
    }
}

// The way back: numbers whose inverse transform is the pairs, parts exchanged.
static inline void from_terms(const __global R* x, R* pairs, const __global R* turns)
{
    pairs[0] = x[0] - x[2 * N];
    pairs[N] = x[0] + x[2 * N];
    for (int at = 1; at < N; at += 16) {
        const int k = min(at, N - 16);
        const number a = load_pairs(x + 2 * k, false), c = load_pairs(x + 2 * (N - k - 15), false),
                     b = {backwards(c.re), -backwards(c.im)};
        number turn = load_pairs(turns + 2 * k, false);
        turn.im = -turn.im;
        const number odd = times(minus(a, b), turn), sum = plus(plus(a, b), (number){-odd.im, odd.re});
        vstore16(sum.im, 0, pairs + k);
        vstore16(sum.re, 0, pairs + N + k);
    }
}

__kernel void fft_lines(const __global R* x, ulong x_offset, __global R* y, ulong y_offset, const __global R* roots,
                        ulong roots_offset, uint lines, uint each, int inverse, R scale)
{
    x += x_offset;
    y += y_offset;
    roots += roots_offset;
    const __global R* turns = roots + 2 * N;
    R kept[2][2 * N];
    const uint end = min(lines, (uint)(get_global_id(0) + 1) * each);
    for (uint line = get_global_id(0) * each; line < end; ++line) {
        const __global R* from = x + (ulong)line * REALS(TAKES_TERMS);
        __global R* to = y + (ulong)line * REALS(GIVES_TERMS);
        const __global R* left = turns;
        int current = 0;
#ifdef REAL_OUT
        from_terms(from, kept[0], turns + TURNS);
#endif
#define PASS(radix, done)                                                                                        \
    left = pass(radix, done, kept[current], kept[1 - current], from, to, roots, left, inverse, scale);           \
    current = 1 - current;
#include "kernels/fft/passes.cl"
#ifdef REAL_IN
        to_terms(kept[current], to, turns + TURNS, scale);
#endif
    }
}
