// Group norm on GPUs where groups are so few that one work-group each would leave much idle. x is [rows, channels,
// inner], a row being a group of channels of a sample; options as of row_norm.cl.
//     forward    group_norm_parts finds mean and squares of parts of rows, group_norm_rest puts those of a row together
//     backward   group_norm_sums adds up parts of channels, group_norm_gradient those of a row's channels
#include "kernels/norm/row_norm.cl"

typedef struct { uint groups, channels, inner, part; } cut_t;   // part: elements of a row, or of a channel

// partial[2][rows][parts]: mean, sum of squares around it. Group (part, row).
__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void group_norm_parts(input_t x, ulong x_offset, __global acc_t* partial, ulong partial_offset, cut_t p)
{
    TEAM_SCRATCH(acc_t, scratch);
    const uint n = p.channels * p.inner, begin = get_group_id(0) * p.part, count = min(p.part, n - begin);
    const ulong row = get_group_id(1), at = partial_offset + row * get_num_groups(0) + get_group_id(0);
    x += x_offset + row * n + begin;
    const acc_t first = load(X, x, 0), mean = first + sum_power(x, count, first, 1, scratch) / count;
    const acc_t squares = sum_power(x, count, mean, 2, scratch);
    if (team_rank() == 0) {
        partial[at] = mean;
        partial[at + get_num_groups(1) * (ulong)get_num_groups(0)] = squares;
    }
}

// Group (part of a channel of p.part elements, channel of all rows). row_part: elements of a part of a row.
__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void group_norm_rest(input_t x, ulong x_offset, weight_t weight, ulong weight_offset, weight_t bias, ulong bias_offset,
                     __global storage_t(X)* y, ulong y_offset, __global acc_t* mean, ulong mean_offset,
                     __global acc_t* rstd, ulong rstd_offset, const __global acc_t* partial, ulong partial_offset,
                     cut_t p, uint row_part, acc_t epsilon)
{
    TEAM_SCRATCH(acc_t, scratch);
    const uint n = p.channels * p.inner, parts = (n + row_part - 1) / row_part;
    const ulong channel = get_group_id(1), row = channel / p.channels, plane = get_num_groups(1) / p.channels * parts;
    const uint c = channel % (p.groups * p.channels);
    partial += partial_offset + row * parts;
    acc_t sum = 0, squares = 0;
    for (uint k = team_rank(); k < parts; k += TEAM)
        sum += min(row_part, n - k * row_part) * (partial[k] - partial[0]);
    const acc_t m = partial[0] + team_sum(sum, scratch) / n;
    for (uint k = team_rank(); k < parts; k += TEAM) {
        const acc_t d = partial[k] - m;
        squares += partial[plane + k] + min(row_part, n - k * row_part) * d * d;
    }
    const acc_t r = 1 / sqrt(team_sum(squares, scratch) / n + epsilon);
    if (team_rank() == 0 && get_group_id(0) == 0 && channel % p.channels == 0) {
        mean[mean_offset + row] = m;
        rstd[rstd_offset + row] = r;
    }
    const vec_t scale = weight ? r * load(W, weight, weight_offset + c) : r;
    const vec_t shift = bias ? load(W, bias, bias_offset + c) : 0;
    x += x_offset + channel * p.inner;
    y += y_offset + channel * p.inner;
    const uint begin = get_group_id(0) * p.part, end = min(begin + p.part, p.inner);
    _Pragma("unroll 4")
    for (uint i = begin + team_rank() * VEC; i < end; i += TEAM * VEC)
        store_vector(X, y, i, fma(load_vector(X, x, i) - m, scale, shift));
}

// partial[2][samples][parts][channels of all groups]: sums of dy normal and of dy. Group (part, channel of all rows).
__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void group_norm_sums(input_t dy, ulong dy_offset, input_t x, ulong x_offset, const __global acc_t* mean,
                     ulong mean_offset, const __global acc_t* rstd, ulong rstd_offset, __global acc_t* partial,
                     ulong partial_offset, cut_t p)
{
    TEAM_SCRATCH(acc_t, scratch);
    const uint all = p.groups * p.channels, parts = get_num_groups(0);
    const ulong channel = get_group_id(1), row = channel / p.channels, sample = channel / all;
    const acc_t m = mean[mean_offset + row];
    dy += dy_offset + channel * p.inner;
    x += x_offset + channel * p.inner;
    const uint begin = get_group_id(0) * p.part, end = min(begin + p.part, p.inner);
    vec_t sum = 0, dot = 0;
    _Pragma("unroll 4")
    for (uint i = begin + team_rank() * VEC; i < end; i += TEAM * VEC) {
        const vec_t g = load_vector(X, dy, i);
        sum += g;
        dot = fma(g, load_vector(X, x, i) - m, dot);
    }
    const acc_t channel_sum = team_sum(lane_sum(sum), scratch), channel_dot = team_sum(lane_sum(dot), scratch);
    if (team_rank() == 0) {
        const ulong at = partial_offset + (sample * parts + get_group_id(0)) * all + channel % all;
        partial[at] = channel_dot * rstd[rstd_offset + row];
        partial[at + get_num_groups(1) * (ulong)parts] = channel_sum;
    }
}

// dx. Group (part, channel of all rows).
__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void group_norm_gradient(input_t dy, ulong dy_offset, input_t x, ulong x_offset, weight_t weight, ulong weight_offset,
                         const __global acc_t* mean, ulong mean_offset, const __global acc_t* rstd, ulong rstd_offset,
                         __global storage_t(X)* dx, ulong dx_offset, const __global acc_t* partial,
                         ulong partial_offset, cut_t p)
{
    TEAM_SCRATCH(acc_t, scratch);
    const uint all = p.groups * p.channels, parts = get_num_groups(0);
    const ulong channel = get_group_id(1), row = channel / p.channels, sample = channel / all;
    const uint c = channel % all, first = c - c % p.channels;
    const ulong plane = get_num_groups(1) * (ulong)parts;
    const acc_t m = mean[mean_offset + row], s = rstd[rstd_offset + row];
    partial += partial_offset + sample * parts * all + first;
    if (weight)
        weight += weight_offset;
    acc_t a = 0, b = 0;
    for (uint k = team_rank(); k < parts * p.channels; k += TEAM) {
        const uint part = k / p.channels, own = k - part * p.channels;
        const acc_t w = weight ? load(W, weight, first + own) : 1;
        b += w * partial[(ulong)part * all + own];
        a += w * partial[plane + (ulong)part * all + own];
    }
    const acc_t count = (acc_t)p.channels * p.inner;
    a = team_sum(a, scratch) / count;
    b = team_sum(b, scratch) / count * s;
    const vec_t w = weight ? load(W, weight, c) : 1;
    dy += dy_offset + channel * p.inner;
    x += x_offset + channel * p.inner;
    dx += dx_offset + channel * p.inner;
    const uint begin = get_group_id(0) * p.part, end = min(begin + p.part, p.inner);
    _Pragma("unroll 4")
    for (uint i = begin + team_rank() * VEC; i < end; i += TEAM * VEC) {
        const vec_t g = load_vector(X, dy, i), d = load_vector(X, x, i) - m;
        store_vector(X, dx, i, (fma(g, w, -d * b) - a) * s);
    }
}
