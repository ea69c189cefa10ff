// Factorisations of many small matrices on CPUs: a work-item owns LANES of them, a matrix in each lane of its vectors.
// -DX, -DREAL, -DCOMPLEX: see number.cl; -DNAME: the type of real elements; -DMOST: rows and columns, at most.
#include "kernels/linalg/number.cl"

typedef struct { long row, column, batch; } layout_t;
typedef struct { int m, n, batch; } shape_t;

#define LANES 16
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
typedef CAT(NAME, 16) vec;
#define PARTS ((int)(sizeof(T) / sizeof(R)))

#ifdef COMPLEX
typedef struct { vec x, y; } lanes_t;
static inline lanes_t times_lanes(lanes_t a, lanes_t b)
{
    return (lanes_t){a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}
static inline lanes_t minus(lanes_t a, lanes_t b) { return (lanes_t){a.x - b.x, a.y - b.y}; }
static inline lanes_t scaled(lanes_t a, vec b) { return (lanes_t){a.x * b, a.y * b}; }
static inline lanes_t conjugate_lanes(lanes_t a) { return (lanes_t){a.x, -a.y}; }
static inline vec size_of(lanes_t a) { return fabs(a.x) + fabs(a.y); }
static inline vec real_lanes(lanes_t a) { return a.x; }
static inline lanes_t inverse_lanes(lanes_t a)
{
    const vec top = fmax(fabs(a.x), fabs(a.y)), x = a.x / top, y = a.y / top, below = top * (x * x + y * y);
    return (lanes_t){x / below, -y / below};
}
#define choose(a, b, which) ((lanes_t){select((a).x, (b).x, which), select((a).y, (b).y, which)})
#define from_vec(v) ((lanes_t){v, 0})
#else
typedef vec lanes_t;
static inline lanes_t times_lanes(lanes_t a, lanes_t b) { return a * b; }
static inline lanes_t minus(lanes_t a, lanes_t b) { return a - b; }
static inline lanes_t scaled(lanes_t a, vec b) { return a * b; }
static inline lanes_t conjugate_lanes(lanes_t a) { return a; }
static inline vec size_of(lanes_t a) { return fabs(a); }
static inline vec real_lanes(lanes_t a) { return a; }
static inline lanes_t inverse_lanes(lanes_t a) { return 1 / a; }
#define choose(a, b, which) select(a, b, which)
#define from_vec(v) (v)
#endif

// One element of `count` matrices, from the first on; lanes behind repeat the last.
static inline lanes_t gather(const __global T* x, long batch, int count)
{
    R parts[LANES * PARTS];
    for (int lane = 0; lane < LANES; ++lane) {
        const T value = x[min(lane, count - 1) * batch];
#ifdef COMPLEX
        parts[lane] = value.x;
        parts[LANES + lane] = value.y;
#else
        parts[lane] = value;
#endif
    }
#ifdef COMPLEX
    return (lanes_t){vload16(0, parts), vload16(1, parts)};
#else
    return vload16(0, parts);
#endif
}

static inline void scatter(lanes_t v, __global T* x, long batch, int count)
{
    R parts[LANES * PARTS];
#ifdef COMPLEX
    vstore16(v.x, 0, parts);
    vstore16(v.y, 1, parts);
    for (int lane = 0; lane < count; ++lane)
        x[lane * batch] = (T)(parts[lane], parts[LANES + lane]);
#else
    vstore16(v, 0, parts);
    for (int lane = 0; lane < count; ++lane)
        x[lane * batch] = parts[lane];
#endif
}

static inline void scatter_numbers(vec v, __global int* x, long stride, int count)
{
    R parts[LANES];
    vstore16(v, 0, parts);
    for (int lane = 0; lane < count; ++lane)
        x[lane * stride] = (int)parts[lane];
}

// The row of the largest number in column k from row k on, of equal ones the first.
static inline vec largest_row(const lanes_t* a, int m, int k)
{
    vec most = -1, chosen = (R)k;
    for (int i = k; i < m; ++i) {
        const vec size = size_of(a[i * MOST + k]);
        chosen = select(chosen, (vec)(R)i, size > most);
        most = select(most, size, size > most);
    }
    return chosen;
}

// Exchanges row k with the chosen one of each matrix.
static inline void exchange(lanes_t* a, int m, int n, int k, vec chosen)
{
    for (int i = k + 1; i < m; ++i) {
        if (!any(chosen == (vec)(R)i))
            continue;
        for (int j = 0; j < n; ++j) {
            const lanes_t top = a[k * MOST + j], own = a[i * MOST + j];
            a[k * MOST + j] = choose(top, own, chosen == (vec)(R)i);
            a[i * MOST + j] = choose(own, top, chosen == (vec)(R)i);
        }
    }
}

// lu_panel of cpu_factor.cl from x into a, which may be x itself.
__kernel void small_lu(const __global T* x, ulong x_offset, layout_t lx, __global T* y, ulong y_offset, layout_t ly,
                       __global int* pivots, ulong pivots_offset, __global int* info, ulong info_offset, shape_t s,
                       int pivoting)
{
    const long first = (long)get_global_id(0) * LANES;
    const int count = min((long)LANES, s.batch - first), rank = min(s.m, s.n);
    x += x_offset + first * lx.batch;
    y += y_offset + first * ly.batch;
    pivots += pivots_offset + first * rank;
    lanes_t a[MOST * MOST];
    for (int i = 0; i < s.m; ++i)
        for (int j = 0; j < s.n; ++j)
            a[i * MOST + j] = gather(x + i * lx.row + j * lx.column, lx.batch, count);
    vec code = 0;
    for (int k = 0; k < rank; ++k) {
        const vec chosen = pivoting ? largest_row(a, s.m, k) : (vec)(R)k;
        scatter_numbers(chosen + 1, pivots + k, rank, count);
        exchange(a, s.m, s.n, k, chosen);
        const lanes_t pivot = a[k * MOST + k], factor = inverse_lanes(pivot);
        const vec size = size_of(pivot);
        code = select(code, (vec)(R)(k + 1), size == 0 && code == 0);
        for (int i = k + 1; i < s.m; ++i) {
            const lanes_t own = times_lanes(a[i * MOST + k], factor), none = from_vec((vec)0);
            const lanes_t multiple = choose(own, none, size == 0);
            a[i * MOST + k] = choose(own, a[i * MOST + k], size == 0);
            for (int j = k + 1; j < s.n; ++j)
                a[i * MOST + j] = minus(a[i * MOST + j], times_lanes(multiple, a[k * MOST + j]));
        }
    }
    scatter_numbers(code, info + info_offset + first, 1, count);
    for (int i = 0; i < s.m; ++i)
        for (int j = 0; j < s.n; ++j)
            scatter(a[i * MOST + j], y + i * ly.row + j * ly.column, ly.batch, count);
}

// The lower factor of matrices x, with zeros above its diagonal; what lies behind a minor that is not positive definite
// is that of x.
__kernel void small_cholesky(const __global T* x, ulong x_offset, layout_t lx, __global T* y, ulong y_offset,
                             layout_t ly, __global int* info, ulong info_offset, shape_t s)
{
    const long first = (long)get_global_id(0) * LANES;
    const int count = min((long)LANES, s.batch - first), n = s.n;
    x += x_offset + first * lx.batch;
    y += y_offset + first * ly.batch;
    lanes_t a[MOST * MOST];
    for (int i = 0; i < n; ++i)
        for (int j = 0; j <= i; ++j)
            a[i * MOST + j] = gather(x + i * lx.row + j * lx.column, lx.batch, count);
    vec code = 0;
    for (int k = 0; k < n; ++k) {
        const vec square = real_lanes(a[k * MOST + k]);
        code = select((vec)(R)(k + 1), code, square > 0 || code != 0);
        const vec root = sqrt(square);
        a[k * MOST + k] = choose(a[k * MOST + k], from_vec(root), code == 0);
        for (int i = k + 1; i < n; ++i)
            a[i * MOST + k] = choose(a[i * MOST + k], scaled(a[i * MOST + k], 1 / root), code == 0);
        for (int i = k + 1; i < n; ++i)
            for (int j = k + 1; j <= i; ++j) {
                const lanes_t product = times_lanes(a[i * MOST + k], conjugate_lanes(a[j * MOST + k]));
                a[i * MOST + j] = choose(a[i * MOST + j], minus(a[i * MOST + j], product), code == 0);
            }
    }
    scatter_numbers(code, info + info_offset + first, 1, count);
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
            scatter(j <= i ? a[i * MOST + j] : from_vec((vec)0), y + i * ly.row + j * ly.column, ly.batch, count);
}
