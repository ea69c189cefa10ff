// Householder's reflectors on CPUs: a work-item owns a matrix and works on vectors of its rows. -DX, -DREAL, -DCOMPLEX:
// see number.cl; -DNAME: the type of real elements.
#include "kernels/linalg/number.cl"

#include "kernels/linalg/cpu_rows.cl"

typedef struct { int m, n, begin, end; } panel_t;

#define LANES ((vec)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#define WINDOW (32 / PARTS)   // numbers in two vectors
#ifdef COMPLEX
#define real_factor(factor) ((factor).x)
#else
#define real_factor(factor) (factor)
#endif

// Columns from `first` to `last` among those of a window from `start` on are reflected by the vector in column k.
static inline void reflect_window(__global T* a, panel_t p, int k, int start, int first, int last, T tau)
{
    const vec lanes = LANES + (R)(start * PARTS), from = (R)(first * PARTS), to = (R)(last * PARTS);
    __global R* top = (__global R*)(a + (long)k * p.n + start);
    vec low = LOAD(top), high = LOAD(top + 16);
#ifdef COMPLEX   // what is i times the other part
    vec low_turned = 0, high_turned = 0;
#endif
    for (int i = k + 1; i < p.m; ++i) {
        const T v = a[(long)i * p.n + k];
        const __global R* row = (const __global R*)(a + (long)i * p.n + start);
        low += real_factor(v) * LOAD(row);
        high += real_factor(v) * LOAD(row + 16);
#ifdef COMPLEX
        low_turned += v.y * LOAD(row);
        high_turned += v.y * LOAD(row + 16);
#endif
    }
#ifdef COMPLEX
    low -= turned(low_turned);
    high -= turned(high_turned);
#endif
    low = select((vec)0, multiple(conjugate(tau), low), lanes >= from && lanes < to);
    high = select((vec)0, multiple(conjugate(tau), high), lanes + 16 >= from && lanes + 16 < to);
    STORE(LOAD(top) - low, top);
    STORE(LOAD(top + 16) - high, top + 16);
#ifdef COMPLEX
    low_turned = turned(low);
    high_turned = turned(high);
#endif
    for (int i = k + 1; i < p.m; ++i) {
        const T v = a[(long)i * p.n + k];
        __global R* row = (__global R*)(a + (long)i * p.n + start);
        vec left = LOAD(row) - real_factor(v) * low, right = LOAD(row + 16) - real_factor(v) * high;
#ifdef COMPLEX
        left -= v.y * low_turned;
        right -= v.y * high_turned;
#endif
        STORE(left, row);
        STORE(right, row + 16);
    }
}

// Columns from `first` to `last` of the matrix are reflected by the vector in column k.
static inline void reflect(__global T* a, panel_t p, int k, int first, int last, T tau)
{
    if (p.n >= WINDOW) {
        for (int at = first; at < last; at += WINDOW)
            reflect_window(a, p, k, min(at, p.n - WINDOW), at, min(at + WINDOW, last), tau);
        return;
    }
    const int count = last - first;
    T products[WINDOW];
    for (int j = 0; j < count; ++j)
        products[j] = a[(long)k * p.n + first + j];
    for (int i = k + 1; i < p.m; ++i) {
        const T v = conjugate(a[(long)i * p.n + k]);
        for (int j = 0; j < count; ++j)
            products[j] += times(v, a[(long)i * p.n + first + j]);
    }
    for (int j = 0; j < count; ++j) {
        products[j] = times(products[j], conjugate(tau));
        a[(long)k * p.n + first + j] -= products[j];
    }
    for (int i = k + 1; i < p.m; ++i) {
        const T v = a[(long)i * p.n + k];
        for (int j = 0; j < count; ++j)
            a[(long)i * p.n + first + j] -= times(v, products[j]);
    }
}

#ifdef COMPLEX
static inline R largest_part(T a) { return fmax(fabs(a.x), fabs(a.y)); }
#else
static inline R largest_part(T a) { return fabs(a); }
#endif

// A power of two that brings numbers up to `largest` near one, as far as it is finite itself.
static inline R scale_for(R largest)
{
    const int most = sizeof(R) == 8 ? 1000 : 120;
    return ldexp((R)1, clamp(-ilogb(largest), -most, most));
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
            largest = fmax(largest, largest_part(a[(long)i * n + k]));
        const R scale = largest > 0 ? scale_for(largest) : 1;   // squares neither overflow nor vanish
        for (int i = k + 1; i < p.m; ++i)
            below += square(a[(long)i * n + k] * scale);
        const T alpha = a[(long)k * n + k];
        if (below == 0 && is_real(alpha)) {   // nothing to annihilate
            tau[k] = from_real(0);
            continue;
        }
        const T own = alpha * scale;
        const R length = sqrt(below + square(own)), sign = real_part(alpha) >= 0 ? -length : length;   // as LAPACK
        const T own_tau = (from_real(sign) - own) / sign, factor = inverse(own - from_real(sign));
        for (int i = k + 1; i < p.m; ++i)
            a[(long)i * n + k] = times(a[(long)i * n + k] * scale, factor);
        tau[k] = own_tau;
        a[(long)k * n + k] = from_real(sign / scale);
        reflect(a, p, k, k + 1, last, own_tau);
    }
}

#define BLOCK 32                           // reflectors
#define VECTORS (BLOCK * PARTS / 16)       // of a row of their vectors
#define AT_ONCE (8 / PARTS)                // rows of a product whose sums stay in registers

// products[k][j] = sum of conj(v[i][k]) v[i][j] for k < j, from conjugated vectors.
static inline void multiply_vectors(const __global T* conjugates, int rows, R* products)
{
    for (int first = 0; first < BLOCK; first += AT_ONCE)
        for (int window = first * PARTS / 16; window < VECTORS; ++window) {
            vec sums[AT_ONCE], others[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k)
                sums[k] = others[k] = 0;
            for (int i = 0; i < rows; ++i) {
                const __global T* row = conjugates + (long)i * BLOCK;
                const vec own = LOAD((const __global R*)row + window * 16);   // conjugated, as the other factor is not
#pragma unroll
                for (int k = 0; k < AT_ONCE; ++k) {
                    sums[k] += real_factor(row[first + k]) * own;
#ifdef COMPLEX
                    others[k] -= row[first + k].y * own;
#endif
                }
            }
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k) {
#ifdef COMPLEX   // v[i][k] conj(v[i][j]), conjugated
                sums[k] = (sums[k] + turned(others[k])) * -SIGNS;
#endif
                STORE(sums[k], products + (first + k) * BLOCK * PARTS + window * 16);
            }
        }
}

// Rows of the triangle t of a block of reflectors, whose product is 1 - V t V^H (Schreiber and Van Loan 1989);
// transposed and conjugated if `adjoint`.
static inline void make_triangle(const R* products, const __global T* tau, int width, int adjoint, R* rows)
{
    R columns[BLOCK * BLOCK * PARTS];   // each is a row here
    for (int j = 0; j < BLOCK; ++j) {
        const T scale = j < width ? tau[j] : from_real(0);
        for (int window = 0; window < VECTORS; ++window) {
            vec sum = 0;
            for (int k = 0; k < j; ++k)
                sum += multiple(((const T*)products)[k * BLOCK + j], LOAD(columns + k * BLOCK * PARTS + window * 16));
            STORE(-multiple(scale, sum), columns + j * BLOCK * PARTS + window * 16);
        }
        ((T*)columns)[j * BLOCK + j] = scale;
    }
    for (int i = 0; i < BLOCK; ++i)
        for (int j = 0; j < BLOCK; ++j)
            ((T*)rows)[i * BLOCK + j] =
                adjoint ? conjugate(((T*)columns)[i * BLOCK + j]) : ((T*)columns)[j * BLOCK + i];
}

// scaled = V t, from conjugated vectors.
static inline void scale_vectors(const __global T* conjugates, int rows, const R* triangle, __global T* scaled)
{
    for (int first = 0; first < rows; first += AT_ONCE)
        for (int window = 0; window < VECTORS; ++window) {
            vec sums[AT_ONCE], others[AT_ONCE];
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i)
                sums[i] = others[i] = 0;
            for (int k = 0; k < BLOCK; ++k) {
                const vec own = LOAD(triangle + k * BLOCK * PARTS + window * 16);
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i) {
                    const T v = conjugates[(long)min(first + i, rows - 1) * BLOCK + k];
                    sums[i] += real_factor(v) * own;
#ifdef COMPLEX
                    others[i] -= v.y * own;
#endif
                }
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
#ifdef COMPLEX
                sums[i] += turned(others[i]);
#endif
                STORE(sums[i], (__global R*)(scaled + (long)min(first + i, rows - 1) * BLOCK) + window * 16);
            }
        }
}

// Reflectors [begin, end), at most BLOCK, as products of matrices: their product, or its adjoint, is
// 1 - scaled conjugates^T, both [m - begin, BLOCK] with zeros behind the last.
__kernel void reflector_block(const __global T* a, ulong a_offset, const __global T* tau, ulong tau_offset,
                              __global T* conjugates, ulong conjugates_offset, __global T* scaled,
                              ulong scaled_offset, panel_t p, int count, int adjoint)
{
    const int width = p.end - p.begin, rows = p.m - p.begin;
    const ulong matrix = get_global_id(0);
    a += a_offset + (matrix * p.m + p.begin) * p.n + p.begin;
    tau += tau_offset + matrix * count + p.begin;
    conjugates += conjugates_offset + matrix * rows * BLOCK;
    scaled += scaled_offset + matrix * rows * BLOCK;
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < BLOCK; ++j)   // ones on the diagonal
            conjugates[(long)i * BLOCK + j] = i > j && j < width ? conjugate(a[(long)i * p.n + j])
                                                                 : from_real(i == j && j < width);
    R products[BLOCK * BLOCK * PARTS], triangle[BLOCK * BLOCK * PARTS];
    multiply_vectors(conjugates, rows, products);
    make_triangle(products, tau, width, adjoint, triangle);
    scale_vectors(conjugates, rows, triangle, scaled);
}
