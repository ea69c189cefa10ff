// Layer, RMS and group norm: a team normalises one row at a time.
//     layer norm   row of n elements, weight and bias of n       y = (x - mean) rstd w + b
//     RMS norm     -DRMS: mean = 0, no bias                      rstd = 1 / sqrt(sum (x - mean)^2 / n + epsilon)
//     group norm   row = a group: `channels` channels of `inner` elements; weight and bias per channel
// Mean and variance take a pass each over the row, which the cache holds.
// -DX: dtype of x, y and their gradients; -DW: of weight and bias; mean and rstd have the type of sums (ACC).
#include "core/dtype.cl"
#include "core/vector.cl"

// Terms that cancel must be rounded alike wherever they are computed; fma is written out where it helps.
#pragma OPENCL FP_CONTRACT OFF

typedef ACC acc_t;
typedef vector_t(X) vec_t;
typedef const __global storage_t(X)* input_t;
typedef const __global storage_t(W)* weight_t;

#define LANES_LEFT(i, n) min((n) - (i), (uint)VEC)
#define FOR_TEAM(i, n)                                                                                                \
    for (uint i = team_rank() * VEC, lanes = LANES_LEFT(i, n); i < (n); i += TEAM * VEC, lanes = LANES_LEFT(i, n))
#define WEIGHT(i, lanes) (weight ? load_part(W, weight, i, lanes, 0) : (vec_t)(1))
#define STEPS 32u   // vectors added up before they join the total

typedef struct { acc_t mean, rstd; } moments_t;

// sum of (x - center)^power over n elements, in every member of the team
static inline acc_t sum_power(input_t x, uint n, acc_t center, int power, __local acc_t* scratch)
{
    vec_t sum = 0;
    for (uint i = team_rank() * VEC; i < n;) {
        vec_t block = 0;
        for (uint step = 0; step < STEPS && i < n; ++step, i += TEAM * VEC) {
            const uint lanes = LANES_LEFT(i, n);
            const vec_t d = load_part(X, x, i, lanes, center) - center;
            block += power == 1 ? d : d * d;
        }
        sum += block;
    }
    return team_sum(lane_sum(sum), scratch);
}

static inline moments_t row_moments(input_t x, uint n, acc_t epsilon, __local acc_t* scratch)
{
    moments_t m;
#ifdef RMS
    m.mean = 0;
    acc_t square = 0;
    {
        vec_t sum = 0;   // as sum_power, without a centre to fill the missing lanes with
        FOR_TEAM(i, n)
        {
            const vec_t v = load_part(X, x, i, lanes, 0);
            sum = fma(v, v, sum);
        }
        square = team_sum(lane_sum(sum), scratch);
    }
#else
    const acc_t first = load(X, x, 0);
    m.mean = first + sum_power(x, n, first, 1, scratch) / n;
    const acc_t square = sum_power(x, n, m.mean, 2, scratch);
#endif
    m.rstd = 1 / sqrt(square / n + epsilon);
    return m;
}

// Rows [group * share, (group + 1) * share).
#define FOR_ROWS(r)                                                                                                   \
    const ulong last_row = min((ulong)(get_group_id(0) + 1) * share, rows);                                           \
    for (ulong r = get_group_id(0) * (ulong)share; r < last_row; ++r)

// Teams that share a GPU's group have a row each, those behind the last one it once more.
#if TEAMS > 1
#define OWNED(r) ((r) == (ulong)get_group_id(0) * TEAMS + get_local_id(1))
#define FOR_OWN_ROWS(r) const ulong r = min((ulong)get_group_id(0) * TEAMS + get_local_id(1), rows - 1);
#else
#define OWNED(r) true
#define FOR_OWN_ROWS(r) FOR_ROWS(r)
#endif

__kernel __attribute__((reqd_work_group_size(TEAM, TEAMS, 1)))
void layer_norm(input_t x, ulong x_offset, weight_t weight, ulong weight_offset, weight_t bias, ulong bias_offset,
                __global storage_t(X)* y, ulong y_offset, __global acc_t* mean, ulong mean_offset,
                __global acc_t* rstd, ulong rstd_offset, ulong rows, uint n, uint share, acc_t epsilon)
{
    TEAM_SCRATCH(acc_t, scratch);
    if (weight)
        weight += weight_offset;
    if (bias)
        bias += bias_offset;
    FOR_OWN_ROWS(r)
    {
        input_t in = x + x_offset + r * n;
        __global storage_t(X)* out = y + y_offset + r * n;
        const moments_t m = row_moments(in, n, epsilon, scratch);
        if (team_rank() == 0 && OWNED(r)) {
            if (mean)
                mean[mean_offset + r] = m.mean;
            rstd[rstd_offset + r] = m.rstd;
        }
        FOR_TEAM(i, OWNED(r) ? n : 0)
        {
            const vec_t normal = (load_part(X, in, i, lanes, 0) - m.mean) * m.rstd;
            const vec_t shift = bias ? load_part(W, bias, i, lanes, 0) : (vec_t)(0);
            store_part(X, out, i, lanes, fma(normal, WEIGHT(i, lanes), shift));
        }
    }
}

// dx = rstd (g - mean(g) - normal mean(g normal)),  g = dy w,  normal = (x - mean) rstd
// partial[2][groups][n]: sums of dy normal and of dy over the group's rows, each column kept by the lane that meets it.
// dx and partial may be null.
__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void layer_norm_backward(input_t dy, ulong dy_offset, input_t x, ulong x_offset, weight_t weight, ulong weight_offset,
                         const __global acc_t* mean, ulong mean_offset, const __global acc_t* rstd, ulong rstd_offset,
                         __global storage_t(X)* dx, ulong dx_offset, __global acc_t* partial, ulong partial_offset,
                         ulong rows, uint n, uint share)
{
    TEAM_SCRATCH(acc_t, scratch);
    if (weight)
        weight += weight_offset;
    const bool write = dx != 0, keep = partial != 0;
    partial += partial_offset + get_group_id(0) * n;
    const ulong plane = get_num_groups(0) * n;
    FOR_ROWS(r)
    {
        input_t grad = dy + dy_offset + r * n, in = x + x_offset + r * n;
        __global storage_t(X)* out = dx + dx_offset + r * n;
        const acc_t m = mean ? mean[mean_offset + r] : 0, s = rstd[rstd_offset + r];
        vec_t sum = 0, dot = 0;
        FOR_TEAM(i, n)
        {
            const vec_t g = load_part(X, grad, i, lanes, 0) * WEIGHT(i, lanes);
            sum += g;
            dot = fma(g, (load_part(X, in, i, lanes, 0) - m) * s, dot);
        }
#ifdef RMS
        const acc_t a = 0;
#else
        const acc_t a = team_sum(lane_sum(sum), scratch) / n;
#endif
        const acc_t b = team_sum(lane_sum(dot), scratch) / n;
        FOR_TEAM(i, n)
        {
            const vec_t g = load_part(X, grad, i, lanes, 0);
            const vec_t normal = (load_part(X, in, i, lanes, 0) - m) * s;
            if (write) {
                store_part(X, out, i, lanes, (g * WEIGHT(i, lanes) - a - normal * b) * s);
            }
            if (keep) {
                const bool first = r == get_group_id(0) * (ulong)share;
                const vec_t dots = first ? (vec_t)(0) : load_part(PARTIAL, partial, i, lanes, 0);
                const vec_t sums = first ? (vec_t)(0) : load_part(PARTIAL, partial, plane + i, lanes, 0);
                store_part(PARTIAL, partial, i, lanes, fma(g, normal, dots));
                store_part(PARTIAL, partial, plane + i, lanes, sums + g);
            }
        }
    }
}

// Work-item (row (n, g)): its mean and rstd, then y.
__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void group_norm(input_t x, ulong x_offset, weight_t weight, ulong weight_offset, weight_t bias, ulong bias_offset,
                __global storage_t(X)* y, ulong y_offset, __global acc_t* mean, ulong mean_offset,
                __global acc_t* rstd, ulong rstd_offset, uint groups, uint channels, uint inner, acc_t epsilon)
{
    TEAM_SCRATCH(acc_t, scratch);
    const ulong r = get_group_id(0);
    const uint first = (uint)(r % groups) * channels;
    x += x_offset + r * channels * inner;
    y += y_offset + r * channels * inner;
    const moments_t m = row_moments(x, channels * inner, epsilon, scratch);
    if (team_rank() == 0) {
        mean[mean_offset + r] = m.mean;
        rstd[rstd_offset + r] = m.rstd;
    }
    for (uint c = 0; c < channels; ++c) {
        const vec_t scale = weight ? m.rstd * load(W, weight, weight_offset + first + c) : m.rstd;
        const vec_t shift = bias ? load(W, bias, bias_offset + first + c) : 0;
        const ulong row = (ulong)c * inner;
        FOR_TEAM(i, inner)
        {
            store_part(X, y, row + i, lanes, fma(load_part(X, x, row + i, lanes, 0) - m.mean, scale, shift));
        }
    }
}

// As layer_norm_backward per group; writes partial[2][samples][channels of all groups].
__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void group_norm_backward(input_t dy, ulong dy_offset, input_t x, ulong x_offset, weight_t weight, ulong weight_offset,
                         const __global acc_t* mean, ulong mean_offset, const __global acc_t* rstd, ulong rstd_offset,
                         __global storage_t(X)* dx, ulong dx_offset, __global acc_t* partial, ulong partial_offset,
                         uint groups, uint channels, uint inner)
{
    TEAM_SCRATCH(acc_t, scratch);
    const ulong r = get_group_id(0);
    const uint first = (uint)(r % groups) * channels;
    const acc_t m = mean[mean_offset + r], s = rstd[rstd_offset + r];
    const ulong at = partial_offset + r * channels, plane = (ulong)get_num_groups(0) * channels;
    dy += dy_offset + r * channels * inner;
    x += x_offset + r * channels * inner;
    acc_t a = 0, b = 0;
    for (uint c = 0; c < channels; ++c) {
        const ulong row = (ulong)c * inner;
        vec_t sum = 0, dot = 0;
        FOR_TEAM(i, inner)
        {
            const vec_t g = load_part(X, dy, row + i, lanes, 0);
            sum += g;
            dot = fma(g, load_part(X, x, row + i, lanes, 0) - m, dot);
        }
        const acc_t channel_sum = team_sum(lane_sum(sum), scratch), channel_dot = team_sum(lane_sum(dot), scratch) * s;
        if (team_rank() == 0) {
            partial[at + c] = channel_dot;
            partial[at + plane + c] = channel_sum;
        }
        const acc_t w = weight ? load(W, weight, weight_offset + first + c) : 1;
        a += w * channel_sum;
        b += w * channel_dot;
    }
    if (!dx)
        return;
    dx += dx_offset + r * channels * inner;
    const acc_t count = (acc_t)channels * inner;
    a /= count;
    b = b / count * s;
    for (uint c = 0; c < channels; ++c) {
        const vec_t w = weight ? load(W, weight, weight_offset + first + c) : 1;
        const ulong row = (ulong)c * inner;
        FOR_TEAM(i, inner)
        {
            const vec_t g = load_part(X, dy, row + i, lanes, 0), d = load_part(X, x, row + i, lanes, 0) - m;
            store_part(X, dx, row + i, lanes, (fma(g, w, -d * b) - a) * s);
        }
    }
}

// grad_weight and grad_bias (each may be null) from partial[2][parts][n]: adds the parts in order. On a GPU the
// work-items of a column of the group share its parts.
__kernel void sum_parts(const __global acc_t* partial, ulong partial_offset, uint parts, uint n,
                        __global storage_t(W)* grad_weight, ulong grad_weight_offset, __global storage_t(W)* grad_bias,
                        ulong grad_bias_offset)
{
    const uint c = min((uint)get_global_id(0), n - 1), row = get_local_id(1), high = get_local_size(1);
    acc_t dot = 0, sum = 0;
    for (uint p = row; p < parts; p += high) {
        dot += partial[partial_offset + (ulong)p * n + c];
        sum += partial[partial_offset + (ulong)(parts + p) * n + c];
    }
#if TEAM > 1
    __local acc_t dots[256], sums[256];
    const uint wide = get_local_size(0), rank = row * wide + get_local_id(0);
    dots[rank] = dot;
    sums[rank] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_count = high / 2; half_count > 0; half_count /= 2) {
        if (row < half_count) {
            dots[rank] += dots[rank + half_count * wide];
            sums[rank] += sums[rank + half_count * wide];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    dot = dots[rank];
    sum = sums[rank];
#endif
    if (row != 0 || get_global_id(0) >= n)
        return;
    if (grad_weight)
        store(W, grad_weight, grad_weight_offset + c, dot);
    if (grad_bias)
        store(W, grad_bias, grad_bias_offset + c, sum);
}
