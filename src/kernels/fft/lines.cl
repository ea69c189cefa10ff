// Fourier transforms of lines of N elements, each in fast memory from beginning to end, by Stockham's self-sorting
// passes. A team of TEAM work-items, one on CPUs, has a line: a work-item has all terms of some small transforms.
// Work-groups have LINES teams; with -DACROSS neighbours are of neighbouring lines, where these lie next to each other.
// CPUs take those of few elements so, others by vectors (cpu_lines.cl, cpu_columns.cl). Inverse transforms exchange
// real and imaginary parts on the way in and out.
// Options: -DR=float or double, -DN, -DPASSES=n, -DRADIX_0=.. and so on, their product N; -DTEAM, -DLINES;
// -DSUB_GROUP: lanes of sub-groups of Intel's GPUs, where more would spill the numbers of a small transform;
// -DTURN: term k of line l is turned by exp(-2 pi i k (l modulo inner) / all) at the end. -DREAL_IN: lines of 2 N real
// numbers become the first N + 1 terms of their transform; -DREAL_OUT: the way back, where the imaginary parts of terms
// 0 and N count for nothing; `turns` are exp(-2 pi i k / 2 N) then, and layouts count elements of either tensor.
#include "core/dtype.cl"

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
typedef CAT(R, 2) complex_t;

#ifdef CLPRIM_DEVICE_CPU
#define SPACE __private
#define SYNCHRONIZE
#else
#define SPACE __local
#define SYNCHRONIZE barrier(CLK_LOCAL_MEM_FENCE)
#endif
typedef R vec;
#define VEC 1   // elements that a work-item has of each term
#define LOAD(p) (*(p))
#include "kernels/fft/butterflies.cl"

#include "kernels/fft/layout.cl"

static inline ulong place(const layout_t* layout, uint line, uint inner)
{
    const uint block = line / inner;
    return block * layout->outer + (line - block * inner) * layout->line;
}

// exp(-2 pi i k done / N), k = j / done.
static inline number first_root(const __global R* roots, int j, const int done)
{
    return (number){LOAD(roots + j / done * done), LOAD(roots + N + j / done * done)};
}

#if defined(REAL_IN) || defined(REAL_OUT)
// Pairs of real numbers are transformed as complex ones, whose terms k and N - k make up those of the longer line
// (Cooley, Lewis and Welch, "The fast Fourier transform algorithm", 1970).
static inline complex_t conjugate(complex_t v) { return (complex_t)(v.x, -v.y); }
static inline complex_t product(complex_t a, complex_t b)
{
    return (complex_t)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
#endif
#ifdef REAL_IN
typedef R taken_t;
#else
typedef complex_t taken_t;
#endif
#ifdef REAL_OUT
typedef R given_t;
#else
typedef complex_t given_t;
#endif

// Number i of a line as the transform takes it.
static inline complex_t take(const __global taken_t* x, const __global complex_t* turns, ulong step, int i)
{
#if defined(REAL_IN)
    return (complex_t)(x[2 * i], x[2 * i + 1]);
#elif defined(REAL_OUT)
    complex_t a = x[i], b = conjugate(x[N - i]);
    if (i == 0)
        a.y = 0, b.y = 0;
    const complex_t odd = product(a - b, conjugate(turns[i]));
    return a + b + (complex_t)(-odd.y, odd.x);
#else
    return step == 1 ? x[i] : x[i * step];
#endif
}

// Puts the terms t of small transforms j .. to their places; `step` = done (radix - 1).
static inline void put(SPACE R* to, vec v, int j, const int done, const int step)
{
    to[j + j / done * step] = v;
}

// One pass: `done` is the product of the radices before.
static inline __attribute__((always_inline))
void pass(const int radix, const int done, const SPACE R* from, SPACE R* to, const __global R* roots, int lane)
{
    const int items = N / radix, step = done * (radix - 1);
    for (int at = lane * VEC; at < items; at += TEAM * VEC) {
        const int j = min(at, items - VEC);   // the last vector does some once more
        number v[MOST_RADIX];
#pragma unroll
        for (int r = 0; r < radix; ++r)
            v[r] = (number){LOAD(from + j + r * items), LOAD(from + N + j + r * items)};
        butterfly(radix, v, roots);
        if (done * radix < N) {
            const bool uniform = VEC == 1 || done % 16 == 0;
            const int k = j / done * done;
            const number first = uniform ? (number){0, 0} : first_root(roots, j, done);
            number w = first;
#pragma unroll
            for (int t = 1; t < radix; ++t) {
                if (uniform)
                    w = (number){(vec)roots[k * t], (vec)roots[N + k * t]};
                else if (t > 1)
                    w = times(w, first);
                v[t] = times(v[t], w);
            }
        }
#pragma unroll
        for (int t = 0; t < radix; ++t) {
            put(to + done * t, v[t].re, j, done, step);
            put(to + N + done * t, v[t].im, j, done, step);
        }
    }
    SYNCHRONIZE;
}

#define PASS(radix, done)                                                        \
    {                                                                            \
        pass(radix, done, kept[current], kept[1 - current], roots, lane);        \
        current = 1 - current;                                                   \
    }

#ifdef SUB_GROUP
__kernel __attribute__((reqd_work_group_size(TEAM * LINES, 1, 1), intel_reqd_sub_group_size(SUB_GROUP)))
#else
__kernel __attribute__((reqd_work_group_size(TEAM * LINES, 1, 1)))
#endif
void fft_lines(const __global taken_t* x, ulong x_offset, __global given_t* y, ulong y_offset,
               const __global R* roots, ulong roots_offset, const __global complex_t* turns, ulong turns_offset,
               lines_t p, R scale)
{
#ifdef ACROSS
    const int own = get_local_id(0) % LINES, lane = get_local_id(0) / LINES;
#else
    const int own = get_local_id(0) / TEAM, lane = get_local_id(0) % TEAM;
#endif
    const uint line = get_group_id(0) * LINES + own, used = line < p.lines ? line : 0;
    x += x_offset + place(&p.x, used, p.inner);
    y += y_offset + place(&p.y, used, p.inner);
    roots += roots_offset;
    turns += turns_offset;
#ifdef CLPRIM_DEVICE_CPU
    R kept[2][2 * N];
#else
    __local R memory[LINES][2][2 * N];
    __local R (*kept)[2 * N] = memory[own];
#endif
    for (int i = lane; i < N; i += TEAM) {
        const complex_t v = take(x, turns, p.x.step, i);
        kept[0][i] = p.inverse ? v.y : v.x;
        kept[0][N + i] = p.inverse ? v.x : v.y;
    }
    SYNCHRONIZE;
    int current = 0;
#include "kernels/fft/passes.cl"
    if (line >= p.lines)
        return;
    const SPACE R* result = kept[current];
#ifdef REAL_IN
    for (int k = lane; k <= N; k += TEAM) {
        const int same = k < N ? k : 0, opposite = k > 0 ? N - k : 0;
        const complex_t a = (complex_t)(result[same], result[N + same]),
                        b = (complex_t)(result[opposite], -result[N + opposite]);
        const complex_t odd = product(a - b, turns[k]);
        y[k] = (R)0.5 * scale * (a + b + (complex_t)(odd.y, -odd.x));
    }
#else
    for (int k = lane; k < N; k += TEAM) {
        R re = result[k] * scale, im = result[N + k] * scale;
#ifdef TURN
        const uint m = line % p.inner * k;   // below `all`
        const complex_t a = turns[m % p.fine], b = turns[p.fine + m / p.fine];
        const complex_t w = (complex_t)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
        const R turned = re * w.x - im * w.y;
        im = re * w.y + im * w.x;
        re = turned;
#endif
#ifdef REAL_OUT
        y[2 * k] = p.inverse ? im : re;
        y[2 * k + 1] = p.inverse ? re : im;
#else
        y[p.y.step == 1 ? k : k * p.y.step] = p.inverse ? (complex_t)(im, re) : (complex_t)(re, im);
#endif
    }
#endif
}
