// pairs.cl by vectors of 16 on CPUs, for n > 16: work-item (i, line) has the terms 1 + EACH i and so on, the last
// vector some once more, and the first work-item the ends too.
#include "core/dtype.cl"

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
typedef CAT(R, 16) vec;
#include "kernels/fft/number.cl"
#include "kernels/fft/cpu_vectors.cl"

#define EACH 1024

// The terms k .. of x and the conjugates of those opposite.
static inline void both(const __global R* x, uint k, uint n, number* a, number* b)
{
    *a = load_pairs(x + 2 * k, false);
    const number c = load_pairs(x + 2 * (n - k - 15), false);
    *b = (number){backwards(c.re), -backwards(c.im)};
}

__kernel void to_terms(const __global R* x, ulong x_offset, __global R* y, ulong y_offset, const __global R* turns,
                       ulong turns_offset, uint n, R scale)
{
    const uint begin = get_global_id(0) * EACH, end = min(n, begin + EACH + 1);
    const ulong line = get_global_id(1);
    x += 2 * (x_offset + line * n);
    y += 2 * (y_offset + line * (n + 1));
    turns += 2 * turns_offset;
    if (begin == 0) {
        y[0] = scale * (x[0] + x[1]);
        y[1] = 0;
        y[2 * n] = scale * (x[0] - x[1]);
        y[2 * n + 1] = 0;
    }
    for (uint at = begin + 1; at < end; at += 16) {
        const uint k = min(at, n - 16);
        number a, b;
        both(x, k, n, &a, &b);
        const number odd = times(minus(a, b), load_pairs(turns + 2 * k, false));
        store_pairs(scaled((R)0.5 * scale, plus(plus(a, b), turned(odd))), y + 2 * k, false);
    }
}

__kernel void from_terms(const __global R* x, ulong x_offset, __global R* y, ulong y_offset, const __global R* turns,
                         ulong turns_offset, uint n)
{
    const uint begin = get_global_id(0) * EACH, end = min(n, begin + EACH + 1);
    const ulong line = get_global_id(1);
    x += 2 * (x_offset + line * (n + 1));
    y += 2 * (y_offset + line * n);
    turns += 2 * turns_offset;
    if (begin == 0) {
        y[0] = x[0] + x[2 * n];
        y[1] = x[0] - x[2 * n];
    }
    for (uint at = begin + 1; at < end; at += 16) {
        const uint k = min(at, n - 16);
        number a, b;
        both(x, k, n, &a, &b);
        number turn = load_pairs(turns + 2 * k, false);
        turn.im = -turn.im;
        const number odd = times(minus(a, b), turn);
        store_pairs(minus(plus(a, b), turned(odd)), y + 2 * k, false);
    }
}
