// Softmax and log-softmax along the middle axis of [outer, n, inner], and their gradients.
//     softmax      y = exp(x - m) / s            grad = (dy - sum(dy y)) y
//     log-softmax  y = x - m - log s             grad = dy - exp(y) sum(dy)          -DLOG
// with m = max x and s = sum exp(x - m) over the axis. Each pass re-reads the row, which the cache holds.
//
// rows (inner = 1): a team owns a row; with VEC > 1 it walks `share` rows. columns: each lane owns one (outer, inner).
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

#define LANES_LEFT(i, n) min((n) - (i), (uint)VEC)
#define LOAD(D, p, i, lanes, fill) ((lanes) == VEC ? load_vector(D, p, i) : load_lanes(D, p, i, lanes, fill))
#define STORE(D, p, i, lanes, v)                                                                                      \
    if ((lanes) == VEC)                                                                                               \
        store_vector(D, p, i, v);                                                                                     \
    else                                                                                                              \
        store_lanes(D, p, i, lanes, v)

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

__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void forward_rows(const __global storage_t(X)* x, ulong x_offset, __global storage_t(Y)* y, ulong y_offset,
                  ulong rows, uint n, uint share)
{
    TEAM_SCRATCH(acc_t, scratch);
    const ulong end = min((ulong)(get_group_id(0) + 1) * share, rows);
    for (ulong row = get_group_id(0) * (ulong)share; row < end; ++row) {
        const __global storage_t(X)* in = x + x_offset + row * n;
        __global storage_t(Y)* out = y + y_offset + row * n;
        vec_t largest = -INFINITY, sum = 0;
        for (uint i = team_rank() * VEC; i < n; i += TEAM * VEC) {
            const uint lanes = LANES_LEFT(i, n);
            largest = fmax(largest, LOAD(X, in, i, lanes, -INFINITY));
        }
        const vec_t m = team_max(lane_max(largest), scratch);
        for (uint i = team_rank() * VEC; i < n; i += TEAM * VEC) {
            const uint lanes = LANES_LEFT(i, n);
            sum += exp_negative(LOAD(X, in, i, lanes, -INFINITY) - m);
        }
        const vec_t s = sum_to_scale((vec_t)(team_sum(lane_sum(sum), scratch)));
        for (uint i = team_rank() * VEC; i < n; i += TEAM * VEC) {
            const uint lanes = LANES_LEFT(i, n);
            STORE(Y, out, i, lanes, forward_value(LOAD(X, in, i, lanes, 0), m, s));
        }
    }
}

__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void backward_rows(const __global storage_t(Y)* dy, ulong dy_offset, const __global storage_t(Y)* y, ulong y_offset,
                   __global storage_t(X)* dx, ulong dx_offset, ulong rows, uint n, uint share)
{
    TEAM_SCRATCH(acc_t, scratch);
    const ulong end = min((ulong)(get_group_id(0) + 1) * share, rows);
    for (ulong row = get_group_id(0) * (ulong)share; row < end; ++row) {
        const __global storage_t(Y)* grad = dy + dy_offset + row * n;
        const __global storage_t(Y)* out = y + y_offset + row * n;
        __global storage_t(X)* result = dx + dx_offset + row * n;
        vec_t sum = 0;
        for (uint i = team_rank() * VEC; i < n; i += TEAM * VEC) {
            const uint lanes = LANES_LEFT(i, n);
            sum += backward_term(LOAD(Y, grad, i, lanes, 0), LOAD(Y, out, i, lanes, 0));
        }
        const vec_t total = team_sum(lane_sum(sum), scratch);
        for (uint i = team_rank() * VEC; i < n; i += TEAM * VEC) {
            const uint lanes = LANES_LEFT(i, n);
            STORE(X, result, i, lanes,
                  backward_value(LOAD(Y, grad, i, lanes, 0), LOAD(Y, out, i, lanes, 0), total));
        }
    }
}

// A work-item owns VEC neighbours along inner, for one outer: where they start, and how many they are.
#if VEC == 1
#define COLUMN_ATTRIBUTES
#define LOCATE_COLUMN                                                                                                 \
    const ulong item = get_global_id(0);                                                                              \
    if (item >= outer * inner)                                                                                        \
        return;                                                                                                       \
    const uint lanes = 1;                                                                                             \
    const ulong start = item / inner * n * inner + item % inner;
#else
#define COLUMN_ATTRIBUTES __attribute__((reqd_work_group_size(1, 1, 1)))
#define LOCATE_COLUMN                                                                                                 \
    const uint blocks = (inner + VEC - 1) / VEC;                                                                      \
    const uint column = (uint)(get_group_id(0) % blocks) * VEC, lanes = min(inner - column, (uint)VEC);               \
    const ulong start = get_group_id(0) / blocks * n * inner + column;
#endif

__kernel COLUMN_ATTRIBUTES
void forward_columns(const __global storage_t(X)* x, ulong x_offset, __global storage_t(Y)* y, ulong y_offset,
                     ulong outer, uint n, uint inner)
{
    LOCATE_COLUMN
    x += x_offset + start;
    y += y_offset + start;
    vec_t m = -INFINITY, sum = 0;
    for (uint i = 0; i < n; ++i)
        m = fmax(m, LOAD(X, x, (ulong)i * inner, lanes, 0));
    for (uint i = 0; i < n; ++i)
        sum += exp_negative(LOAD(X, x, (ulong)i * inner, lanes, 0) - m);
    const vec_t s = sum_to_scale(sum);
    for (uint i = 0; i < n; ++i) {
        STORE(Y, y, (ulong)i * inner, lanes, forward_value(LOAD(X, x, (ulong)i * inner, lanes, 0), m, s));
    }
}

__kernel COLUMN_ATTRIBUTES
void backward_columns(const __global storage_t(Y)* dy, ulong dy_offset, const __global storage_t(Y)* y,
                      ulong y_offset, __global storage_t(X)* dx, ulong dx_offset, ulong outer, uint n, uint inner)
{
    LOCATE_COLUMN
    dy += dy_offset + start;
    y += y_offset + start;
    dx += dx_offset + start;
    vec_t sum = 0;
    for (uint i = 0; i < n; ++i)
        sum += backward_term(LOAD(Y, dy, (ulong)i * inner, lanes, 0), LOAD(Y, y, (ulong)i * inner, lanes, 0));
    for (uint i = 0; i < n; ++i) {
        STORE(X, dx, (ulong)i * inner, lanes,
              backward_value(LOAD(Y, dy, (ulong)i * inner, lanes, 0), LOAD(Y, y, (ulong)i * inner, lanes, 0), sum));
    }
}
