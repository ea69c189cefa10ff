// Distances between points and their derivatives. -DX: dtype; -DACC: type of sums; -DNORM: 0 (elements that differ), 1,
// 2, 3 (infinity) or 4 (any p); -DCONDENSED: pairs i < j of one set of points, else all pairs of two.
#include "core/dtype.cl"

typedef ACC acc_t;
typedef const __global storage_t(X)* input_t;
typedef struct { ulong batch, rows, columns, size; } distance_t;

// Where the pair (i, j) of n points lies, i < j.
static inline ulong condensed(ulong i, ulong j, ulong n) { return i * (2 * n - i - 1) / 2 + (j - i - 1); }

// Work-item (j, i, n) = one distance. Points of `b` are given by columns, [batch, size, columns]: neighbours read
// neighbours.
__kernel void distances(input_t a, ulong a_offset, input_t b, ulong b_offset, __global storage_t(X)* y, ulong y_offset,
                        distance_t g, acc_t p)
{
    const ulong j = get_global_id(0), i = get_global_id(1), n = get_global_id(2);
    if (j >= g.columns || i >= g.rows)
        return;
#ifdef CONDENSED
    if (j <= i)
        return;
#endif
    a += a_offset + (n * g.rows + i) * g.size;
    b += b_offset + n * g.size * g.columns + j;
    acc_t sum = 0;
    for (ulong m = 0; m < g.size; ++m, b += g.columns) {
        const acc_t d = fabs((acc_t)load(X, a, m) - (acc_t)load(X, b, 0));
#if NORM == 0
        sum += d != 0 ? 1 : 0;
#elif NORM == 1
        sum += d;
#elif NORM == 2
        sum += d * d;
#elif NORM == 3
        sum = d > sum || d != d ? d : sum;
#else
        sum += pow(d, p);
#endif
    }
#if NORM == 2
    sum = sqrt(sum);
#elif NORM == 4
    sum = pow(sum, 1 / p);
#endif
#ifdef CONDENSED
    store(X, y, y_offset + condensed(i, j, g.rows), sum);
#else
    store(X, y, y_offset + (n * g.rows + i) * g.columns + j, sum);
#endif
}

// The derivative of a distance by its first point, times the gradient g.
static inline acc_t derivative(acc_t d, acc_t distance, acc_t p, acc_t g)
{
    const acc_t sign = d > 0 ? 1 : d < 0 ? -1 : 0;
#if NORM == 0
    return 0;
#elif NORM == 1
    return g * sign;
#elif NORM == 2
    return distance == 0 ? 0 : g * d / distance;
#elif NORM == 3
    return fabs(d) == distance ? g * sign : 0;
#else
    return distance == 0 || (d == 0 && p < 1) ? 0 : g * sign * pow(fabs(d), p - 1) / pow(distance, p - 1);
#endif
}

// Work-item (m, i, n) = one element of one point of `a`.
__kernel void distances_backward(input_t a, ulong a_offset, input_t b, ulong b_offset, input_t y, ulong y_offset,
                                 input_t dy, ulong dy_offset, __global storage_t(X)* da, ulong da_offset, distance_t g,
                                 acc_t p)
{
    const ulong m = get_global_id(0), i = get_global_id(1), n = get_global_id(2);
    if (m >= g.size || i >= g.rows)
        return;
    const ulong item = (n * g.rows + i) * g.size + m;
    const acc_t own = load(X, a, a_offset + item);
    b += b_offset + n * g.columns * g.size + m;
    acc_t sum = 0;
    for (ulong j = 0; j < g.columns; ++j) {
#ifdef CONDENSED
        if (j == i)
            continue;
        const ulong at = condensed(min(i, j), max(i, j), g.rows);
#else
        const ulong at = (n * g.rows + i) * g.columns + j;
#endif
        sum +=
            derivative(own - (acc_t)load(X, b, j * g.size), load(X, y, y_offset + at), p, load(X, dy, dy_offset + at));
    }
    store(X, da, da_offset + item, sum);
}
