// factor.cl on CPUs: a work-item owns a matrix and works on vectors of its rows. -DX, -DREAL, -DCOMPLEX: see number.cl;
// -DNAME: the type of real elements.
#include "kernels/linalg/number.cl"

typedef struct { int m, n, begin, end; } panel_t;

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
typedef CAT(NAME, 16) vec;
#ifndef COMPLEX
typedef CAT(NAME, 8) vec_8;
typedef CAT(NAME, 4) vec_4;
#define LANES ((vec)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#else
#define SIGNS ((vec)(-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1))   // of i times a number, parts exchanged
#define turned(v) (SIGNS * (v).s1032547698badcfe)
#endif

// row -= factor * top, for memory of two kinds
#ifdef COMPLEX
#define SUBTRACT_VECTORS(R_POINTER)                                                                             \
    for (; j + 8 <= count; j += 8) {                                                                            \
        const vec v = vload16(0, (R_POINTER)(top + j));                                                         \
        vstore16(vload16(0, (__global R*)(row + j)) - factor.x * v - factor.y * turned(v), 0,                   \
                 (__global R*)(row + j));                                                                       \
    }
#else
#define SUBTRACT_VECTORS(R_POINTER)                                                                             \
    for (; j + 16 <= count; j += 16)                                                                            \
        vstore16(vload16(0, row + j) - factor * vload16(0, top + j), 0, row + j);                               \
    if (j + 8 <= count) {                                                                                       \
        vstore8(vload8(0, row + j) - factor * vload8(0, top + j), 0, row + j);                                  \
        j += 8;                                                                                                 \
    }                                                                                                           \
    if (j + 4 <= count) {                                                                                       \
        vstore4(vload4(0, row + j) - factor * vload4(0, top + j), 0, row + j);                                  \
        j += 4;                                                                                                 \
    }
#endif
#define DEFINE_SUBTRACT(name, SPACE)                                                                            \
    static inline void name(__global T* row, const SPACE T* top, T factor, int count)                           \
    {                                                                                                           \
        int j = 0;                                                                                              \
        SUBTRACT_VECTORS(const SPACE R*)                                                                        \
        for (; j < count; ++j)                                                                                  \
            row[j] -= times(factor, top[j]);                                                                    \
    }
DEFINE_SUBTRACT(subtract, __global)
DEFINE_SUBTRACT(subtract_own, __private)

static inline void exchange(__global T* x, __global T* y, int count)
{
    const int numbers = count * (int)(sizeof(T) / sizeof(R));
    __global R* a = (__global R*)x;
    __global R* b = (__global R*)y;
    int j = 0;
    for (; j + 16 <= numbers; j += 16) {
        const vec held = vload16(0, a + j);
        vstore16(vload16(0, b + j), 0, a + j);
        vstore16(held, 0, b + j);
    }
    for (; j < numbers; ++j) {
        const R held = a[j];
        a[j] = b[j];
        b[j] = held;
    }
}

// Of equal ones the first of the rows from k on.
static inline int largest_of(const __global T* a, panel_t p, int k)
{
    int chosen = k;
    R most = -1;
    for (int i = k; i < p.m; ++i) {
        const R size = pivot_size(a[(long)i * p.n + k]);
        if (size > most) {
            most = size;
            chosen = i;
        }
    }
    return chosen;
}

#define SOME 16   // columns of a panel that are factored before the rest of it changes
typedef struct {
    __global T* a;
    __global int* pivots;
    __global int* info;
    panel_t p;
    int pivoting;
} lu_t;

// What is left for the columns k + 1 up to `end`: rows below lose multiples of row k. Gives the next pivot's row.
static inline int eliminate(lu_t f, int k, int first, int end)
{
    const int n = f.p.n;
    const __global T* top = f.a + (long)k * n;
    const T factor = inverse(top[k]);
    int chosen = k + 1;
    R most = -1;
#ifndef COMPLEX
    if (first + SOME <= n && end - first == SOME) {
        const vec lanes = LANES + (T)first, own_lane = (T)k, upper = vload16(0, top + first);
        for (int i = k + 1; i < f.p.m; ++i) {
            __global T* row = f.a + (long)i * n + first;
            const T own = row[k - first] * factor;
            const vec v = vload16(0, row);
            vstore16(lanes > own_lane ? v - own * upper : lanes == own_lane ? (vec)own : v, 0, row);
            const R size = k + 1 < end ? fabs(row[k + 1 - first]) : 0;
            if (size > most) {
                most = size;
                chosen = i;
            }
        }
        return chosen;
    }
#endif
    for (int i = k + 1; i < f.p.m; ++i) {
        __global T* row = f.a + (long)i * n;
        const T own = times(row[k], factor);
        row[k] = own;
        subtract(row + k + 1, top + k + 1, own, end - k - 1);
        const R size = k + 1 < end ? pivot_size(row[k + 1]) : 0;
        if (size > most) {
            most = size;
            chosen = i;
        }
    }
    return chosen;
}

static inline void factor_some(lu_t f, int first, int end)
{
    const int n = f.p.n;
    int next = f.pivoting ? largest_of(f.a, f.p, first) : first;
    for (int k = first; k < end; ++k) {
        __global T* top = f.a + (long)k * n;
        const int chosen = f.pivoting ? next : k;
        f.pivots[k] = chosen + 1;
        if (chosen != k)
            exchange(top, f.a + (long)chosen * n, n);
        if (magnitude(top[k]) == 0) {
            if (*f.info == 0)
                *f.info = k + 1;
            next = f.pivoting && k + 1 < end ? largest_of(f.a, f.p, k + 1) : k + 1;
            continue;
        }
        next = eliminate(f, k, first, end);
    }
}

// Columns from `end` on of the panel, by what the factored ones change there.
static inline void update_rest(lu_t f, int first, int end)
{
    const int n = f.p.n;
    for (int k = first; k < end; ++k)
        for (int i = k + 1; i < end; ++i)
            subtract(f.a + (long)i * n + end, f.a + (long)k * n + end, f.a[(long)i * n + k], f.p.end - end);
    int at = end;
#ifndef COMPLEX
    for (; end - first == SOME && at + 16 <= f.p.end; at += 16) {
        vec upper[SOME];
#pragma unroll
        for (int k = 0; k < SOME; ++k)
            upper[k] = vload16(0, f.a + (long)(first + k) * n + at);
        for (int i = end; i < f.p.m; ++i) {
            __global T* row = f.a + (long)i * n;
            vec even = vload16(0, row + at), odd = 0;
#pragma unroll
            for (int k = 0; k < SOME; k += 2) {
                even -= row[first + k] * upper[k];
                odd += row[first + k + 1] * upper[k + 1];
            }
            vstore16(even - odd, 0, row + at);
        }
    }
#endif
    for (int i = end; i < f.p.m && at < f.p.end; ++i)
        for (int k = first; k < end; ++k)
            subtract(f.a + (long)i * n + at, f.a + (long)k * n + at, f.a[(long)i * n + k], f.p.end - at);
}

// Columns [begin, end). Rows are exchanged as a whole; columns behind the panel are updated by the caller.
__kernel void lu_panel(__global T* a, ulong a_offset, __global int* pivots, ulong pivots_offset, __global int* info,
                       ulong info_offset, panel_t p, int pivoting)
{
    const ulong matrix = get_global_id(0);
    const lu_t f = {a + a_offset + matrix * p.m * p.n, pivots + pivots_offset + matrix * min(p.m, p.n),
                    info + info_offset + matrix, p, pivoting};
    if (p.begin == 0)
        *f.info = 0;
    for (int first = p.begin; first < p.end; first += SOME) {
        const int end = min(first + SOME, p.end);
        factor_some(f, first, end);
        update_rest(f, first, end);
    }
}

// The square block [begin, end) of the lower triangle: at most 128 rows.
__kernel void cholesky_corner(__global T* a, ulong a_offset, __global int* info, ulong info_offset, panel_t p)
{
    const int n = p.n;
    const ulong matrix = get_global_id(0);
    a += a_offset + matrix * n * n;
    info += info_offset + matrix;
    if (p.begin == 0)
        *info = 0;
    if (*info != 0)
        return;
    T column[128];   // conjugated
    for (int k = p.begin; k < p.end; ++k) {
        const R square = real_part(a[(long)k * n + k]);
        if (!(square > 0)) {
            *info = k + 1;
            return;
        }
        const R root = sqrt(square);
        a[(long)k * n + k] = from_real(root);
        for (int i = k + 1; i < p.end; ++i) {
            const T own = a[(long)i * n + k] / root;
            a[(long)i * n + k] = own;
            column[i - p.begin] = conjugate(own);
        }
        for (int i = k + 1; i < p.end; ++i)
            subtract_own(a + (long)i * n + k + 1, column + (k + 1 - p.begin), a[(long)i * n + k], i - k);
    }
}
