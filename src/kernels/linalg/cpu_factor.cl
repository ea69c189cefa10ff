// factor.cl on CPUs: a work-item owns a matrix and works on vectors of its rows. -DX, -DREAL, -DCOMPLEX: see number.cl;
// -DNAME: the type of real elements.
#include "kernels/linalg/number.cl"

typedef struct { int m, n, begin, end; } panel_t;

#ifndef COMPLEX
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
typedef CAT(NAME, 16) vec;
typedef CAT(NAME, 8) vec_8;
typedef CAT(NAME, 4) vec_4;
static inline R sum_of(vec v)
{
    const vec_8 a = v.lo + v.hi;
    const vec_4 b = a.lo + a.hi;
    return b.x + b.y + b.z + b.w;
}
#endif

// row -= factor * top
static inline void subtract(__global T* row, const __global T* top, T factor, int count)
{
    int j = 0;
#ifndef COMPLEX
    for (; j + 16 <= count; j += 16)
        vstore16(vload16(0, row + j) - factor * vload16(0, top + j), 0, row + j);
    if (j + 8 <= count) {
        vstore8(vload8(0, row + j) - factor * vload8(0, top + j), 0, row + j);
        j += 8;
    }
    if (j + 4 <= count) {
        vstore4(vload4(0, row + j) - factor * vload4(0, top + j), 0, row + j);
        j += 4;
    }
#endif
    for (; j < count; ++j)
        row[j] -= times(factor, top[j]);
}

// The sum of x[j] conj(y[j]).
static inline T product_of(const __global T* x, const __global T* y, int count)
{
    T sum = from_real(0);
    int j = 0;
#ifndef COMPLEX
    if (count >= 16) {
        vec sums = 0;
        for (; j + 16 <= count; j += 16)
            sums += vload16(0, x + j) * vload16(0, y + j);
        sum = sum_of(sums);
    }
#endif
    for (; j < count; ++j)
        sum += times(x[j], conjugate(y[j]));
    return sum;
}

// Columns [begin, end). Rows are exchanged as a whole; columns behind the panel are updated by the caller.
__kernel void lu_panel(__global T* a, ulong a_offset, __global int* pivots, ulong pivots_offset, __global int* info,
                       ulong info_offset, panel_t p, int pivoting)
{
    const int n = p.n;
    const ulong matrix = get_global_id(0);
    a += a_offset + matrix * p.m * n;
    pivots += pivots_offset + matrix * min(p.m, n);
    info += info_offset + matrix;
    for (int k = p.begin; k < p.end; ++k) {
        __global T* top = a + (long)k * n;
        int chosen = k;
        R most = -1;
        for (int i = k; pivoting && i < p.m; ++i) {   // of equal ones the first row
            const R size = pivot_size(a[(long)i * n + k]);
            if (size > most) {
                most = size;
                chosen = i;
            }
        }
        pivots[k] = chosen + 1;
        __global T* other = a + (long)chosen * n;
        for (int j = 0; chosen != k && j < n; ++j) {
            const T held = top[j];
            top[j] = other[j];
            other[j] = held;
        }
        if (magnitude(top[k]) == 0) {
            if (*info == 0)
                *info = k + 1;
            continue;
        }
        const T factor = inverse(top[k]);
        for (int i = k + 1; i < p.m; ++i) {
            __global T* row = a + (long)i * n;
            const T own = times(row[k], factor);
            row[k] = own;
            subtract(row + k + 1, top + k + 1, own, p.end - k - 1);
        }
    }
}

// Columns [begin, end) of the lower triangle, row by row.
__kernel void cholesky_panel(__global T* a, ulong a_offset, __global int* info, ulong info_offset, panel_t p)
{
    const int n = p.n;
    const ulong matrix = get_global_id(0);
    a += a_offset + matrix * n * n;
    info += info_offset + matrix;
    if (*info != 0)
        return;
    for (int i = p.begin; i < n; ++i) {
        __global T* row = a + (long)i * n;
        for (int j = p.begin; j < min(i, p.end); ++j) {
            const __global T* other = a + (long)j * n;
            row[j] = (row[j] - product_of(row + p.begin, other + p.begin, j - p.begin)) / real_part(other[j]);
        }
        if (i >= p.end)
            continue;
        const R square = real_part(row[i]) - real_part(product_of(row + p.begin, row + p.begin, i - p.begin));
        if (!(square > 0)) {
            *info = i + 1;
            return;
        }
        row[i] = from_real(sqrt(square));
    }
}

#ifndef COMPLEX
#define LANES ((vec)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
// The columns from `first` to `last` among the 32 from `start` on are reflected by the vector in column k.
static inline void reflect_window(__global T* a, panel_t p, int k, int start, int first, int last, T tau)
{
    const vec lanes = LANES + (T)start, from = (T)first, to = (T)last;
    const vec low_scale = select((vec)0, (vec)tau, lanes >= from && lanes < to),
              high_scale = select((vec)0, (vec)tau, lanes + 16 >= from && lanes + 16 < to);
    __global T* top = a + (long)k * p.n + start;
    vec low = vload16(0, top), high = vload16(1, top);
    for (int i = k + 1; i < p.m; ++i) {
        const T v = a[(long)i * p.n + k];
        low += v * vload16(0, a + (long)i * p.n + start);
        high += v * vload16(1, a + (long)i * p.n + start);
    }
    low *= low_scale;
    high *= high_scale;
    vstore16(vload16(0, top) - low, 0, top);
    vstore16(vload16(1, top) - high, 1, top);
    for (int i = k + 1; i < p.m; ++i) {
        __global T* row = a + (long)i * p.n + start;
        const T v = a[(long)i * p.n + k];
        vstore16(vload16(0, row) - v * low, 0, row);
        vstore16(vload16(1, row) - v * high, 1, row);
    }
}
#endif

// Columns from `first` to `last` of the matrix are reflected by the vector in column k.
static inline void reflect(__global T* a, panel_t p, int k, int first, int last, T tau)
{
#ifndef COMPLEX
    if (p.n >= 32) {
        for (int at = first; at < last; at += 32)
            reflect_window(a, p, k, min(at, p.n - 32), at, min(at + 32, last), tau);
        return;
    }
#endif
    for (int at = first; at < last; at += 32) {
        const int count = min(32, last - at);
        T products[32];
        for (int j = 0; j < count; ++j)
            products[j] = a[(long)k * p.n + at + j];
        for (int i = k + 1; i < p.m; ++i) {
            const T v = conjugate(a[(long)i * p.n + k]);
            for (int j = 0; j < count; ++j)
                products[j] += times(v, a[(long)i * p.n + at + j]);
        }
        for (int j = 0; j < count; ++j) {
            products[j] = times(products[j], conjugate(tau));
            a[(long)k * p.n + at + j] -= products[j];
        }
        for (int i = k + 1; i < p.m; ++i) {
            const T v = a[(long)i * p.n + k];
            for (int j = 0; j < count; ++j)
                a[(long)i * p.n + at + j] -= times(v, products[j]);
        }
    }
}

// As that of factor.cl for the columns [begin, end), which reflect those up to `last`; tau has `count` for a matrix.
__kernel void householder(__global T* a, ulong a_offset, __global T* tau, ulong tau_offset, panel_t p, int last,
                          int count)
{
    const int n = p.n;
    const ulong matrix = get_global_id(0);
    a += a_offset + matrix * p.m * n;
    tau += tau_offset + matrix * count;
    for (int k = p.begin; k < p.end; ++k) {
        R largest = 0, below = 0;
        for (int i = k; i < p.m; ++i)
            largest = fmax(largest, magnitude(a[(long)i * n + k]));
        for (int i = k + 1; largest > 0 && i < p.m; ++i)   // squares that neither overflow nor vanish
            below += square(a[(long)i * n + k] / largest);
        const T alpha = a[(long)k * n + k];
        if (below == 0 && is_real(alpha)) {   // nothing to annihilate
            tau[k] = from_real(0);
            continue;
        }
        const T ratio = alpha / largest;
        const R length = sqrt(below + square(ratio)), turned = real_part(alpha) >= 0 ? -length : length;   // as LAPACK
        const T own_tau = (from_real(turned) - ratio) / turned, factor = inverse(ratio - from_real(turned));
        for (int i = k + 1; i < p.m; ++i)
            a[(long)i * n + k] = times(a[(long)i * n + k] / largest, factor);
        tau[k] = own_tau;
        a[(long)k * n + k] = from_real(largest * turned);
        reflect(a, p, k, k + 1, last, own_tau);
    }
}

// The vectors of reflectors [begin, end) as columns of v [m - begin, end - begin], ones on the diagonal. Work-item: a
// row.
__kernel void reflector_vectors(const __global T* a, ulong a_offset, __global T* v, ulong v_offset, panel_t p)
{
    const int i = get_global_id(0), width = p.end - p.begin, rows = p.m - p.begin;
    const ulong matrix = get_global_id(1);
    a += a_offset + (matrix * p.m + p.begin + i) * p.n + p.begin;
    v += v_offset + (matrix * rows + i) * width;
    for (int j = 0; j < width; ++j)
        v[j] = i > j ? a[j] : from_real(i == j);
}

// The triangle t of a block of reflectors, whose product is 1 - V t V^H (Schreiber and Van Loan 1989), from the
// products of its vectors; transposed and conjugated if `adjoint`.
__kernel void reflector_triangle(const __global T* products, ulong products_offset, const __global T* tau,
                                 ulong tau_offset, __global T* t, ulong t_offset, panel_t p, int count, int adjoint)
{
    const int width = p.end - p.begin;
    const ulong matrix = get_global_id(0);
    products += products_offset + matrix * width * width;
    t += t_offset + matrix * width * width;
    tau += tau_offset + matrix * count + p.begin;
    T triangle[32 * 32];
    for (int j = 0; j < width; ++j)
        for (int i = 0; i < width; ++i) {
            T sum = from_real(0);
            for (int k = i; k < j && i < j; ++k)
                sum += times(triangle[i * 32 + k], products[k * width + j]);
            triangle[i * 32 + j] = i < j ? times(from_real(-1), times(tau[j], sum)) : i == j ? tau[j] : from_real(0);
        }
    for (int i = 0; i < width; ++i)
        for (int j = 0; j < width; ++j)
            t[i * width + j] = adjoint ? conjugate(triangle[j * 32 + i]) : triangle[i * 32 + j];
}
