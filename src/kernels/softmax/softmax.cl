// Softmax and log-softmax along the middle axis of [outer, n, inner], and their gradients.
//     softmax      y = exp(x - m) / s            grad = (dy - sum(dy y)) y
//     log-softmax  y = x - m - log s             grad = dy - exp(y) sum(dy)          -DLOG
// with m = max x and s = sum exp(x - m) over the axis. Each pass re-reads the row, which the cache holds, unless -DKEPT
// says that so many vectors of each work-item are all of it (GPUs): then it is read once, all of it at once.
//
// rows (inner = 1): a team owns a row; with VEC > 1 it walks `share` rows, whose gradients registers hold with -DSHORT;
// see gpu_parts.cl (-DPARTS) and cpu_turned.cl (-DMOST). columns: each lane owns one (outer, inner); on GPUs, with
// -DHIGH, see gpu_columns.cl.
// -DX: dtype of x and of the gradient with respect to it; -DY: of y and dy.
#include "core/dtype.cl"
#include "core/vector.cl"

typedef vector_t(X) vec_t;
typedef ACC acc_t;

// exp for arguments up to 0 (values of x - m): on vectors a polynomial (Cephes expf, error below 2 units in the last
// place), since some CPU drivers compute exp lane by lane. Below -87 the result is 0.
#if VEC == 16 && !defined(CLPRIM_WIDE)
static inline vec_t exp_negative(vec_t x)
{
    const vec_t v = max(x, (vec_t)(-87.33f)), n = rint(v * 1.44269504f);
    const vec_t r = fma(n, (vec_t)(2.12194440e-4f), fma(n, (vec_t)(-0.693359375f), v));
    vec_t p = fma(r, (vec_t)(1.9875691500e-4f), (vec_t)(1.3981999507e-3f));
    p = fma(p, r, (vec_t)(8.3334519073e-3f));
    p = fma(p, r, (vec_t)(4.1665795894e-2f));
    p = fma(p, r, (vec_t)(1.6666665459e-1f));
    p = fma(p, r, (vec_t)(5.0000001201e-1f));
    p = fma(p, r * r, r) + 1;
    const vec_t e = p * as_float16((convert_int16(n) + 127) << 23);
    return x >= -87.33f ? e : x == x ? (vec_t)(0) : x;
}
#else
#define exp_negative(x) exp(x)
#endif

// Runs over a row of n in vectors at `i`. The last one of a row of at least VEC overlaps its neighbour by `again`
// lanes, which a sum must leave out (once()) and a write must not read anew, in case it overwrites its input (LAST).
#ifdef CLPRIM_DEVICE_CPU
#define UNROLLED
#else
#define UNROLLED _Pragma("unroll 4")
#endif
#define EACH_VECTOR                                                                                                   \
    UNROLLED                                                                                                          \
    for (uint next = team_rank() * VEC, i = FIT(next), again = next - i, lanes = min(n - i, (uint)VEC); next < n;     \
         next += TEAM * VEC, i = FIT(next), again = next - i, lanes = min(n - i, (uint)VEC))
#if VEC == 16
#define FIT(next) (n < VEC ? (next) : min(next, n - VEC))
#define LAST(D, p) const vec_t last_of_##p = n < VEC ? (vec_t)(0) : load_vector(D, p, n - VEC)
#define READ(D, p) (again ? last_of_##p : load_part(D, p, i, lanes, 0))
#define once(v) (again ? (last_lanes(VEC - again) ? (v) : (vec_t)(0)) : (v))
#else
#define FIT(next) (next)
#define LAST(D, p)
#define READ(D, p) load_vector(D, p, i)
#define once(v) (v)
#endif

static inline vec_t forward_value(vec_t x, vec_t m, vec_t s)   // s: log of the sum, or 1 / sum
{
#ifdef LOG
    return x - m - s;
#else
    return exp_negative(x - m) * s;
#endif
}

static inline vec_t sum_to_scale(vec_t sum)
{
#ifdef LOG
    return log(sum);
#else
    return 1 / sum;
#endif
}

static inline vec_t backward_term(vec_t dy, vec_t y)
{
#ifdef LOG
    return dy;
#else
    return dy * y;
#endif
}

static inline vec_t backward_value(vec_t dy, vec_t y, vec_t sum)
{
#ifdef LOG
    return dy - exp_negative(y) * sum;
#else
    return (dy - sum) * y;
#endif
}

#ifdef KEPT
#define EACH_KEPT _Pragma("unroll") for (uint k = 0; k < KEPT; ++k)
#define KEPT_AT(k) (((k) * TEAM + team_rank()) * VEC)
// Behind the end the last vector is read once more: loads without conditions are under way together.
#define KEPT_FROM(k) min(KEPT_AT(k), n - VEC)

// `written`: n, or 0 where a team has no row of its own.
static inline void forward_kept(const __global storage_t(X)* in, __global storage_t(Y)* out, uint n, uint written,
                                __local acc_t* scratch)
{
    vec_t kept[KEPT], largest = -INFINITY, sum = 0;
    EACH_KEPT
        kept[k] = load_vector(X, in, KEPT_FROM(k));
    EACH_KEPT
        kept[k] = KEPT_AT(k) < n ? kept[k] : (vec_t)(-INFINITY);
    EACH_KEPT
        largest = fmax(largest, kept[k]);
    const vec_t m = team_max(lane_max(largest), scratch);
    EACH_KEPT
    {
        const vec_t e = exp_negative(kept[k] - m);
        sum += e;
#ifndef LOG
        kept[k] = e;
#endif
    }
    const vec_t s = sum_to_scale((vec_t)(team_sum(lane_sum(sum), scratch)));
    EACH_KEPT
        if (KEPT_AT(k) < written)
#ifdef LOG
            store_vector(Y, out, KEPT_AT(k), kept[k] - m - s);
#else
            store_vector(Y, out, KEPT_AT(k), kept[k] * s);
#endif
}

static inline void backward_kept(const __global storage_t(Y)* grad, const __global storage_t(Y)* out,
                                 __global storage_t(X)* result, uint n, uint written, __local acc_t* scratch)
{
    vec_t dy[KEPT], y[KEPT], sum = 0;
    EACH_KEPT
    {
        dy[k] = load_vector(Y, grad, KEPT_FROM(k));
        y[k] = load_vector(Y, out, KEPT_FROM(k));
    }
    EACH_KEPT
        sum += KEPT_AT(k) < n ? backward_term(dy[k], y[k]) : (vec_t)(0);
    const vec_t total = team_sum(lane_sum(sum), scratch);
    EACH_KEPT
        if (KEPT_AT(k) < written)
            store_vector(X, result, KEPT_AT(k), backward_value(dy[k], y[k], total));
}
#endif

#ifdef SHORT
// A row of SHORT vectors on a CPU, which registers hold; the last one overlaps its neighbour by `again` lanes.
#define EACH_SHORT _Pragma("unroll") for (uint k = 0; k < SHORT; ++k)
#define SHORT_AT(k) ((k) + 1 < SHORT ? (k) * VEC : n - VEC)
static inline void backward_short(const __global storage_t(Y)* grad, const __global storage_t(Y)* out,
                                  __global storage_t(X)* result, uint n)
{
    vec_t dy[SHORT], y[SHORT], sum = 0;
    const uint again = SHORT * VEC - n;
    EACH_SHORT
    {
        dy[k] = load_vector(Y, grad, SHORT_AT(k));
        y[k] = load_vector(Y, out, SHORT_AT(k));
        const vec_t term = backward_term(dy[k], y[k]);
        sum += k + 1 < SHORT ? term : last_lanes(VEC - again) ? term : (vec_t)(0);
    }
    const vec_t total = lane_sum(sum);
    EACH_SHORT
        store_vector(X, result, SHORT_AT(k), backward_value(dy[k], y[k], total));
}
#endif

#if defined(CLPRIM_DEVICE_CPU) && VEC > 1
// A row that fits stays as the accumulator's numbers in a near cache: it is converted, and exp is taken, once.
#define NEAR (65536 / sizeof(acc_t))
static inline void forward_near(const __global storage_t(X)* in, __global storage_t(Y)* out, uint n)
{
    vec_t near[NEAR / VEC], largest = -INFINITY, sum = 0;
    EACH_VECTOR
    {
        near[next / VEC] = load_part(X, in, i, lanes, -INFINITY);
        largest = fmax(largest, near[next / VEC]);
    }
    const vec_t m = lane_max(largest);
    EACH_VECTOR
    {
        const vec_t e = exp_negative(near[next / VEC] - m);
        sum += once(e);
#ifndef LOG
        near[next / VEC] = e;
#endif
    }
    const vec_t s = sum_to_scale((vec_t)(lane_sum(sum)));
    EACH_VECTOR
#ifdef LOG
        store_part(Y, out, i, lanes, near[next / VEC] - m - s);
#else
        store_part(Y, out, i, lanes, near[next / VEC] * s);
#endif
}
#endif

// Teams that share a group have a row each, those behind the last one it once more.
#ifdef KEPT
#define OWNED(row) ((row) == (ulong)get_group_id(0) * TEAMS + get_local_id(1))
#define EACH_ROW_OF_TEAM(row)                                                                                         \
    const ulong row = min((ulong)get_group_id(0) * TEAMS + get_local_id(1), rows - 1);
#else
#define EACH_ROW_OF_TEAM(row)                                                                                         \
    const ulong end = min((ulong)(get_group_id(0) + 1) * share, rows);                                                \
    for (ulong row = get_group_id(0) * (ulong)share; row < end; ++row)
#endif

__kernel __attribute__((reqd_work_group_size(TEAM, TEAMS, 1)))
void forward_rows(const __global storage_t(X)* x, ulong x_offset, __global storage_t(Y)* y, ulong y_offset,
                  ulong rows, uint n, uint share)
{
    TEAM_SCRATCH(acc_t, scratch);
    EACH_ROW_OF_TEAM(row)
    {
        const __global storage_t(X)* in = x + x_offset + row * n;
        __global storage_t(Y)* out = y + y_offset + row * n;
#ifdef KEPT
        forward_kept(in, out, n, OWNED(row) ? n : 0, scratch);
#else
#ifdef NEAR
        if (n <= NEAR) {
            forward_near(in, out, n);
            continue;
        }
#endif
        vec_t largest = -INFINITY, sum = 0;
        EACH_VECTOR
            largest = fmax(largest, load_part(X, in, i, lanes, -INFINITY));
        const vec_t m = team_max(lane_max(largest), scratch);
        EACH_VECTOR
        {
            const vec_t e = exp_negative(load_part(X, in, i, lanes, -INFINITY) - m);
            sum += once(e);
        }
        const vec_t s = sum_to_scale((vec_t)(team_sum(lane_sum(sum), scratch)));
        LAST(X, in);
        EACH_VECTOR
        {
            store_part(Y, out, i, lanes, forward_value(READ(X, in), m, s));
        }
#endif
    }
}

__kernel __attribute__((reqd_work_group_size(TEAM, TEAMS, 1)))
void backward_rows(const __global storage_t(Y)* dy, ulong dy_offset, const __global storage_t(Y)* y, ulong y_offset,
                   __global storage_t(X)* dx, ulong dx_offset, ulong rows, uint n, uint share)
{
    TEAM_SCRATCH(acc_t, scratch);
    EACH_ROW_OF_TEAM(row)
    {
        const __global storage_t(Y)* grad = dy + dy_offset + row * n;
        const __global storage_t(Y)* out = y + y_offset + row * n;
        __global storage_t(X)* result = dx + dx_offset + row * n;
#ifdef KEPT
        backward_kept(grad, out, result, n, OWNED(row) ? n : 0, scratch);
#elif defined(SHORT)
        backward_short(grad, out, result, n);
#else
        vec_t sum = 0;
        EACH_VECTOR
        {
            const vec_t term = backward_term(load_part(Y, grad, i, lanes, 0), load_part(Y, out, i, lanes, 0));
            sum += once(term);
        }
        const vec_t total = team_sum(lane_sum(sum), scratch);
        LAST(Y, grad);
        LAST(Y, out);
        EACH_VECTOR
        {
            store_part(X, result, i, lanes, backward_value(READ(Y, grad), READ(Y, out), total));
        }
#endif
    }
}

#if defined(HIGH)
#include "kernels/softmax/gpu_columns.cl"
#elif defined(MOST)
#include "kernels/softmax/cpu_turned.cl"
#elif defined(PARTS)
#include "kernels/softmax/gpu_parts.cl"
#elif defined(CLPRIM_DEVICE_CPU)
#include "kernels/softmax/cpu_columns.cl"
#endif
