// Batch normalisation. x is [outer, channels, inner]: NCHW has inner = H W; channels_last has outer = N H W, inner = 1.
//
// Built twice, with -DBACKWARD or without; both need the same two passes, per channel c:
//     reduce      a = sum u,  b = sum u (x - center)      forward: u = x - center     backward: u = dy, center = mean
//     transform   out = k2 dy + k1 (x - center) + k0      forward: k2 = 0
// and between them a few scalars per channel become the statistics or gradients and the coefficients k0, k1, k2.
// Forward sums are shifted by `center`, an element of the channel, so a large mean costs no digits; a badly chosen
// centre (further than 3 sigma from the mean) is replaced by the mean and the sums are taken once more.
//
// -DX: dtype of x, dy, out; -DW: of weight, bias and running statistics; -DACC: float or double; -DVEC, -DTEAM: see
// core/vector.cl; for GPUs -DCOLUMNS=0|1: inner is 1, -DWIDE=0|1: 2^32 elements or more, -DCROSSING: see
// transform_all. A team owns a channel (rows), or a block of channels (columns), or a part of one: parts are merged in
// order by the finish kernel.
#include "core/dtype.cl"
#include "core/vector.cl"

#pragma OPENCL FP_CONTRACT OFF   // as in row_norm.cl

typedef ACC acc_t;
typedef vector_t(X) vec_t;
typedef const __global storage_t(X)* input_t;

#define STEPS 32u    // vectors added up before they join the total: keeps the rounding error of long sums small

typedef struct { uint outer, channels, inner; } shape_t;
typedef struct { acc_t center, k0, k1, k2; } coefficients_t;
typedef struct { acc_t mean_or_a, m2_or_b, count; } part_t;

// What a channel needs besides x and dy. Forward writes save_*, running_*; backward reads them (`statistic` is invstd
// in training and the running variance in evaluation) and writes the gradients. Any pointer may be null but save_* of a
// training step; in evaluation both are or neither.
#ifdef BACKWARD
#define CHANNEL_PARAMETERS                                                                                            \
    const __global storage_t(W)* weight, ulong weight_offset, const __global MEAN* mean, ulong mean_offset,           \
    const __global MEAN* statistic, ulong statistic_offset, __global storage_t(W)* grad_weight,                       \
    ulong grad_weight_offset, __global storage_t(W)* grad_bias, ulong grad_bias_offset, acc_t epsilon
#define CHANNEL_OFFSETS                                                                                               \
    if (weight) weight += weight_offset;                                                                              \
    mean += mean_offset; statistic += statistic_offset;                                                               \
    if (grad_weight) grad_weight += grad_weight_offset;                                                               \
    if (grad_bias) grad_bias += grad_bias_offset;
#define CHANNEL_ARGUMENTS weight, mean, statistic, grad_weight, grad_bias, epsilon
#define CENTER(c) load_mean(mean, c)
#else
#define CHANNEL_PARAMETERS                                                                                            \
    const __global storage_t(W)* weight, ulong weight_offset, const __global storage_t(W)* bias, ulong bias_offset,   \
    __global storage_t(W)* running_mean, ulong running_mean_offset, __global storage_t(W)* running_var,               \
    ulong running_var_offset, __global acc_t* save_mean, ulong save_mean_offset, __global acc_t* save_invstd,         \
    ulong save_invstd_offset, acc_t epsilon, acc_t momentum
#define CHANNEL_OFFSETS                                                                                               \
    if (weight) weight += weight_offset;                                                                              \
    if (bias) bias += bias_offset;                                                                                    \
    if (running_mean) running_mean += running_mean_offset;                                                            \
    if (running_var) running_var += running_var_offset;                                                               \
    if (save_mean) save_mean += save_mean_offset;                                                                     \
    if (save_invstd) save_invstd += save_invstd_offset;
#define CHANNEL_ARGUMENTS weight, bias, running_mean, running_var, save_mean, save_invstd, epsilon, momentum
#define CENTER(c) load(X, x, (ulong)(c) * shape.inner)
#endif

#ifdef TRAINING
#define MEAN acc_t
static inline acc_t load_mean(const __global acc_t* p, uint c) { return p[c]; }
#else
#define MEAN storage_t(W)
static inline acc_t load_mean(const __global storage_t(W)* p, uint c) { return load(W, p, c); }
#endif

static inline void add_term(vec_t x, vec_t dy, acc_t center, vec_t* a, vec_t* b)
{
    const vec_t d = x - center;
#ifdef BACKWARD
    const vec_t u = dy;
#else
    const vec_t u = d;
#endif
    *a += u;
    *b = fma(u, d, *b);
}

#ifdef BACKWARD
#define LOAD_DY(i) load_vector(X, dy, i)
#define LOAD_DY_LANES(i, n) load_lanes(X, dy, i, n, 0)
#else
#define LOAD_DY(i) (vec_t)(0)
#define LOAD_DY_LANES(i, n) (vec_t)(0)
#endif

// ---- rows: inner > 1, or few columns ----

// Elements [begin, end) of channel c, counted through its rows: sums over one team, in every member.
#if TEAM > 1
// A work-item's way through a channel in steps of TEAM vectors, from vector `first` on: `place` is the element of x.
// WALK_ON divides nothing.
#define AHEAD 4   // vectors that are on their way at a time
#define WALK_CHANNEL(shape, c, first)                                                                                 \
    const uint row_vectors = shape.inner / VEC, rows_ahead = TEAM / row_vectors, ahead = TEAM % row_vectors;          \
    const ulong row_step = (ulong)shape.channels * shape.inner;                                                       \
    uint at = (first) % row_vectors;                                                                                  \
    ulong place = (first) / row_vectors * row_step + (ulong)(c) * shape.inner + at * VEC;
#define WALK_ON                                                                                                       \
    at += ahead;                                                                                                      \
    place += rows_ahead * row_step + ahead * VEC;                                                                     \
    if (at >= row_vectors) {                                                                                          \
        at -= row_vectors;                                                                                            \
        place += row_step - shape.inner;                                                                              \
    }

static inline void sum_channel(input_t x, input_t dy, shape_t shape, uint c, ulong begin, ulong end, acc_t center,
                        acc_t* a, acc_t* b, __local acc_t* scratch)
{
    vec_t sa = 0, sb = 0;
    const uint last = end / VEC;
    uint j = begin / VEC + team_rank();
    WALK_CHANNEL(shape, c, j)
    for (; j + (AHEAD - 1) * TEAM < last; j += AHEAD * TEAM) {
        vec_t xs[AHEAD], dys[AHEAD], ta = 0, tb = 0;
#pragma unroll
        for (uint e = 0; e < AHEAD; ++e) {
            xs[e] = load_vector(X, x, place);
            dys[e] = LOAD_DY(place);
            WALK_ON
        }
#pragma unroll
        for (uint e = 0; e < AHEAD; ++e)
            add_term(xs[e], dys[e], center, &ta, &tb);
        sa += ta;
        sb += tb;
    }
    for (; j < last; j += TEAM) {
        add_term(load_vector(X, x, place), LOAD_DY(place), center, &sa, &sb);
        WALK_ON
    }
    *a = team_sum(lane_sum(sa), scratch);
    *b = team_sum(lane_sum(sb), scratch);
}
#else
static inline void sum_channel(input_t x, input_t dy, shape_t shape, uint c, ulong begin, ulong end, acc_t center,
                        acc_t* a, acc_t* b, __local acc_t* scratch)
{
    vec_t sa = 0, sb = 0;
    for (ulong j = begin; j < end;) {   // at most one row, and STEPS vectors of it, at a time
        const uint at = j % shape.inner;
        const uint n = min(min((ulong)(shape.inner - at), end - j), (ulong)(STEPS * VEC));
        const ulong row = ((j / shape.inner) * shape.channels + c) * shape.inner + at;
        vec_t ta = 0, tb = 0;
        uint i = 0;
        for (; i + VEC <= n; i += VEC)
            add_term(load_vector(X, x, row + i), LOAD_DY(row + i), center, &ta, &tb);
        if (i < n && n >= VEC) {   // the last full vector again, without the lanes that have been added
            const ulong at = row + n - VEC;
            add_term(last_lanes(n - i) ? load_vector(X, x, at) : (vec_t)(center),
                     last_lanes(n - i) ? LOAD_DY(at) : (vec_t)(0), center, &ta, &tb);
        } else if (i < n) {
            add_term(load_lanes(X, x, row + i, n - i, center), LOAD_DY_LANES(row + i, n - i), center, &ta, &tb);
        }
        sa += ta;
        sb += tb;
        j += n;
    }
    *a = lane_sum(sa);
    *b = lane_sum(sb);
}
#endif

// Statistics (forward) or sums (backward) of a part of a channel.
static inline part_t reduce_channel(input_t x, input_t dy, shape_t shape, uint c, ulong begin, ulong end, acc_t center,
                             __local acc_t* scratch)
{
    part_t part;
    part.count = end - begin;
    acc_t a, b;
    sum_channel(x, dy, shape, c, begin, end, center, &a, &b, scratch);
#ifdef BACKWARD
    part.mean_or_a = a;
    part.m2_or_b = b;
#else
    acc_t shift = a / part.count;
    part.m2_or_b = b - a * shift;
    if (part.count * shift * shift > 9 * part.m2_or_b) {   // the centre lay far outside the data
        center += shift;
        sum_channel(x, dy, shape, c, begin, end, center, &a, &b, scratch);
        shift = a / part.count;
        part.m2_or_b = b - a * shift;
    }
    part.mean_or_a = center + shift;
    part.m2_or_b = part.m2_or_b < 0 ? 0 : part.m2_or_b;   // NaN stays
#endif
    return part;
}

// Writes what a channel's statistics or sums determine and gives the coefficients of the second pass.
#ifdef BACKWARD
static inline coefficients_t finish_channel(part_t sums, uint c, bool write, const __global storage_t(W)* weight,
                                     const __global MEAN* mean, const __global MEAN* statistic,
                                     __global storage_t(W)* grad_weight, __global storage_t(W)* grad_bias,
                                     acc_t epsilon)
{
    coefficients_t k;
    k.center = load_mean(mean, c);
#ifdef TRAINING
    const acc_t invstd = load_mean(statistic, c);
#else
    const acc_t invstd = 1 / sqrt(load_mean(statistic, c) + epsilon);
#endif
    k.k2 = weight ? invstd * load(W, weight, c) : invstd;
#ifdef TRAINING
    k.k1 = -sums.m2_or_b / sums.count * invstd * invstd * k.k2;
    k.k0 = -sums.mean_or_a / sums.count * k.k2;
#else
    k.k1 = k.k0 = 0;
#endif
    if (write && grad_weight)
        store(W, grad_weight, c, sums.m2_or_b * invstd);
    if (write && grad_bias)
        store(W, grad_bias, c, sums.mean_or_a);
    return k;
}
#else
static inline coefficients_t finish_channel(part_t sums, uint c, bool write, const __global storage_t(W)* weight,
                                     const __global storage_t(W)* bias, __global storage_t(W)* running_mean,
                                     __global storage_t(W)* running_var, __global acc_t* save_mean,
                                     __global acc_t* save_invstd, acc_t epsilon, acc_t momentum)
{
    coefficients_t k;
#ifdef TRAINING
    const acc_t mean = sums.mean_or_a, variance = sums.m2_or_b / sums.count;
#else
    const acc_t mean = load(W, running_mean, c), variance = load(W, running_var, c);
#endif
    const acc_t invstd = 1 / sqrt(variance + epsilon);
    k.center = mean;
    k.k2 = 0;
    k.k1 = weight ? invstd * load(W, weight, c) : invstd;
    k.k0 = bias ? load(W, bias, c) : 0;
#ifdef TRAINING
    if (write) {
        save_mean[c] = mean;
        save_invstd[c] = invstd;
        if (running_mean)
            store(W, running_mean, c, (1 - momentum) * load(W, running_mean, c) + momentum * mean);
        if (running_var)
            store(W, running_var, c,
                  (1 - momentum) * load(W, running_var, c) + momentum * (sums.m2_or_b / (sums.count - 1)));
    }
#else
    if (write && save_mean) {
        save_mean[c] = mean;
        save_invstd[c] = invstd;
    }
#endif
    return k;
}
#endif

static inline vec_t transform(vec_t x, vec_t dy, coefficients_t k)
{
#ifdef BACKWARD
    return fma(dy, to_vector(X, k.k2), fma(x - k.center, to_vector(X, k.k1), to_vector(X, k.k0)));
#else
    return fma(x - k.center, to_vector(X, k.k1), to_vector(X, k.k0));
#endif
}

#if VEC == 16
static inline void transform_row(input_t x, input_t dy, __global storage_t(X)* out, uint n, coefficients_t k)
{
    if (n < VEC) {
        store_lanes(X, out, 0, n, transform(load_lanes(X, x, 0, n, 0), LOAD_DY_LANES(0, n), k));
        return;
    }
    const vec_t last = transform(load_vector(X, x, n - VEC), LOAD_DY(n - VEC), k);   // read before out, if in place
    for (uint i = 0; i + VEC <= n; i += VEC)
        store_vector(X, out, i, transform(load_vector(X, x, i), LOAD_DY(i), k));
    if (n % VEC)
        store_vector(X, out, n - VEC, last);
}
#endif

// Both passes over channel c = group, while it is in the cache.
__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void fused_rows(input_t x, ulong x_offset, input_t dy, ulong dy_offset, __global storage_t(X)* out, ulong out_offset,
                shape_t shape, CHANNEL_PARAMETERS)
{
    TEAM_SCRATCH(acc_t, scratch);
    x += x_offset;
    dy += dy_offset;
    CHANNEL_OFFSETS
    const uint c = get_group_id(0);
    const ulong count = (ulong)shape.outer * shape.inner;
    const part_t sums = reduce_channel(x, dy, shape, c, 0, count, CENTER(c), scratch);
    const coefficients_t k = finish_channel(sums, c, team_rank() == 0, CHANNEL_ARGUMENTS);
    if (!out)
        return;
    out += out_offset;
#if TEAM > 1
    uint j = team_rank();
    WALK_CHANNEL(shape, c, j)
    for (; j < (uint)count / VEC; j += TEAM) {
        store_vector(X, out, place, transform(load_vector(X, x, place), LOAD_DY(place), k));
        WALK_ON
    }
#else
    for (uint n = 0; n < shape.outer; ++n) {
        const ulong row = ((ulong)n * shape.channels + c) * shape.inner;
        transform_row(x + row, dy + row, out + row, shape.inner, k);
    }
#endif
}

// Part get_group_id(1) of channel get_group_id(0).
__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void reduce_rows(input_t x, ulong x_offset, input_t dy, ulong dy_offset, __global acc_t* partial, ulong partial_offset,
                 shape_t shape, const __global MEAN* mean, ulong mean_offset, ulong part_size)
{
    TEAM_SCRATCH(acc_t, scratch);
    x += x_offset;
    dy += dy_offset;
    mean += mean_offset;
    const uint c = get_group_id(0), parts = get_num_groups(1);
    const ulong begin = get_group_id(1) * part_size, end = min(begin + part_size, (ulong)shape.outer * shape.inner);
    const part_t sums = reduce_channel(x, dy, shape, c, begin, end, CENTER(c), scratch);
    if (team_rank() == 0) {
        partial += partial_offset + get_group_id(1) * shape.channels + c;
        partial[0] = sums.mean_or_a;
        partial[(ulong)parts * shape.channels] = sums.m2_or_b;
        partial[2 * (ulong)parts * shape.channels] = sums.count;
    }
}

#include "kernels/norm/batch_norm_columns.cl"
