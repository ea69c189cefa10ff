// The part of batch_norm.cl for inner = 1 (channels_last), and what follows the sums: see there.

#if TEAM > 1
// Sums over rows [begin, end) of the group's columns. Its work-items lie in rows of `wide` neighbours, with VEC
// channels each; those of a column share the rows and add up in order.
static inline void sum_columns(input_t x, input_t dy, uint channels, uint c, ulong begin, ulong end, uint wide,
                               vec_t center, __local vec_t* first, __local vec_t* second)
{
    const uint rank = team_rank(), step = TEAM / wide;
    vec_t sa = 0, sb = 0;
    ulong r = begin + rank / wide;
    for (; r + (AHEAD - 1) * step < end; r += AHEAD * step) {
        vec_t xs[AHEAD], us[AHEAD], ta = 0, tb = 0;
#pragma unroll
        for (uint e = 0; e < AHEAD; ++e) {
            const ulong i = (r + e * step) * channels + c;
            xs[e] = load_vector(X, x, i) - center;
#ifdef BACKWARD
            us[e] = load_vector(X, dy, i);
#else
            us[e] = xs[e];
#endif
        }
#pragma unroll
        for (uint e = 0; e < AHEAD; ++e) {
            ta += us[e];
            tb = fma(us[e], xs[e], tb);
        }
        sa += ta;
        sb += tb;
    }
    for (; r < end; r += step) {
        const vec_t d = load_vector(X, x, r * channels + c) - center;
#ifdef BACKWARD
        const vec_t u = LOAD_DY(r * channels + c);
#else
        const vec_t u = d;
#endif
        sa += u;
        sb = fma(u, d, sb);
    }
    barrier(CLK_LOCAL_MEM_FENCE);   // sums of before have been read
    first[rank] = sa;
    second[rank] = sb;
    for (uint half_team = TEAM / 2; half_team >= wide; half_team /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (rank < half_team) {
            first[rank] += first[rank + half_team];
            second[rank] += second[rank + half_team];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

// A group has wide * VEC channels of a part, which is part_size rows.
__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void reduce_columns(input_t x, ulong x_offset, input_t dy, ulong dy_offset, __global acc_t* partial,
                    ulong partial_offset, shape_t shape, const __global MEAN* mean, ulong mean_offset, ulong part_size,
                    uint wide)
{
    __local vec_t first_sums[TEAM], second_sums[TEAM];
    const uint column = team_rank() % wide, place = (get_group_id(0) * wide + column) * VEC;
    const bool owns = team_rank() < wide && place < shape.channels;
    const uint c = min(place, shape.channels - VEC), parts = get_num_groups(1);
    x += x_offset;
    dy += dy_offset;
    mean += mean_offset;
    const ulong begin = get_group_id(1) * part_size, end = min(begin + part_size, (ulong)shape.outer);
    const acc_t count = end - begin;
#ifdef BACKWARD
    acc_t centers[VEC];
    for (uint k = 0; k < VEC; ++k)
        centers[k] = load_mean(mean, c + k);
    sum_columns(x, dy, shape.channels, c, begin, end, wide, from_array(centers), first_sums, second_sums);
    const vec_t first = first_sums[column], second = second_sums[column];
#else
    __local int far;   // a centre lay far outside the data
    if (team_rank() == 0)
        far = 0;
    vec_t center = load_vector(X, x, begin * shape.channels + c);
    sum_columns(x, dy, shape.channels, c, begin, end, wide, center, first_sums, second_sums);
    vec_t shift = first_sums[column] / count, second = second_sums[column] - first_sums[column] * shift;
    if (any_lane(count * shift * shift > 9 * second))
        far = 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (far) {
        center += count * shift * shift > 9 * second ? shift : (vec_t)(0);   // those of others may be infinite
        sum_columns(x, dy, shape.channels, c, begin, end, wide, center, first_sums, second_sums);
        shift = first_sums[column] / count;
        second = second_sums[column] - first_sums[column] * shift;
    }
    const vec_t first = center + shift;
    second = second < 0 ? (vec_t)(0) : second;
#endif
    if (!owns)
        return;
    const ulong at = partial_offset + get_group_id(1) * shape.channels + c, plane = (ulong)parts * shape.channels;
    store_vector(PARTIAL, partial, at, first);
    store_vector(PARTIAL, partial, at + plane, second);
    store_vector(PARTIAL, partial, at + 2 * plane, to_vector(X, count));
}
#else
// One work-item owns VEC channels of a band of rows; COLUMN_ROWS work-items share a band's rows and add up in order.
static inline void sum_columns(input_t x, input_t dy, uint channels, uint c, uint lanes, ulong begin, ulong end,
                        vec_t center, vec_t* a, vec_t* b)
{
    vec_t sa = 0, sb = 0;
    for (ulong r = begin; r < end;) {
        vec_t ta = 0, tb = 0;
        for (uint step = 0; step < STEPS && r < end; ++step, ++r) {
            const ulong i = r * channels + c;
            const vec_t d = (lanes == VEC ? load_vector(X, x, i) : load_lanes(X, x, i, lanes, 0)) - center;
#ifdef BACKWARD
            const vec_t u = lanes == VEC ? load_vector(X, dy, i) : load_lanes(X, dy, i, lanes, 0);
#else
            const vec_t u = d;
#endif
            ta += u;
            tb = fma(u, d, tb);
        }
        sa += ta;
        sb += tb;
    }
    *a = sa;
    *b = sb;
}

// Work-item (block of VEC channels, part); a part is part_size rows. Groups are TEAM x 1: neighbours read neighbours.
__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void reduce_columns(input_t x, ulong x_offset, input_t dy, ulong dy_offset, __global acc_t* partial,
                    ulong partial_offset, shape_t shape, const __global MEAN* mean, ulong mean_offset, ulong part_size)
{
    const uint c = get_global_id(0) * VEC, parts = get_num_groups(1);
    if (c >= shape.channels)
        return;
    x += x_offset;
    dy += dy_offset;
    mean += mean_offset;
    const uint lanes = min(shape.channels - c, (uint)VEC);
    const ulong begin = get_group_id(1) * part_size, end = min(begin + part_size, (ulong)shape.outer);
    const acc_t count = end - begin;
    vec_t a, b;
#ifdef BACKWARD
    acc_t centers[VEC];
    for (uint k = 0; k < VEC; ++k)
        centers[k] = k < lanes ? load_mean(mean, c + k) : 0;
    const vec_t center = from_array(centers);
    sum_columns(x, dy, shape.channels, c, lanes, begin, end, center, &a, &b);
    vec_t first = a, second = b;
#else
    vec_t center = load_lanes(X, x, begin * shape.channels + c, lanes, 0);
    sum_columns(x, dy, shape.channels, c, lanes, begin, end, center, &a, &b);
    vec_t shift = a / count;
    vec_t second = b - a * shift;
    if (any_lane(count * shift * shift > 9 * second)) {
        center += shift;
        sum_columns(x, dy, shape.channels, c, lanes, begin, end, center, &a, &b);
        shift = a / count;
        second = b - a * shift;
    }
    vec_t first = center + shift;
    second = second < 0 ? (vec_t)(0) : second;
#endif
    const ulong at = partial_offset + get_group_id(1) * shape.channels + c, plane = (ulong)parts * shape.channels;
    store_lanes(PARTIAL, partial, at, lanes, first);
    store_lanes(PARTIAL, partial, at + plane, lanes, second);
    store_lanes(PARTIAL, partial, at + 2 * plane, lanes, to_vector(X, count));
}
#endif

// ---- between the passes ----

// The sums of a part join those of others (Chan, Golub, LeVeque).
static inline part_t merge_parts(part_t sums, part_t part)
{
#ifdef BACKWARD
    sums.mean_or_a += part.mean_or_a;
    sums.m2_or_b += part.m2_or_b;
#else
    const acc_t delta = part.mean_or_a - sums.mean_or_a, share = part.count / (sums.count + part.count);
    sums.mean_or_a += delta * share;
    sums.m2_or_b += part.m2_or_b + delta * delta * sums.count * share;
#endif
    sums.count += part.count;
    return sums;
}

// Merges the parts of a channel (0 in evaluation mode), writes the coefficients [center, k0, k1, k2]. The work-items of
// a column of the group, which there are no more of than parts, share a channel's parts.
__kernel void finish(const __global acc_t* partial, ulong partial_offset, uint parts, uint channels,
                     __global acc_t* coefficients, ulong coefficients_offset, CHANNEL_PARAMETERS)
{
    const uint c = min((uint)get_global_id(0), channels - 1), row = get_local_id(1), high = get_local_size(1);
    part_t sums;
    sums.mean_or_a = sums.m2_or_b = sums.count = 0;
    const ulong plane = (ulong)parts * channels;
    for (uint p = row; p < parts; p += high) {
        const ulong i = partial_offset + (ulong)p * channels + c;
        const part_t part = {partial[i], partial[i + plane], partial[i + 2 * plane]};
        sums = merge_parts(sums, part);
    }
#if TEAM > 1
    __local part_t columns[256];
    __local part_t* mine = columns + row * get_local_size(0) + get_local_id(0);
    *mine = sums;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_count = high / 2; half_count > 0; half_count /= 2) {
        if (row < half_count)
            *mine = merge_parts(*mine, mine[half_count * get_local_size(0)]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    sums = *mine;
#endif
    if (row != 0 || get_global_id(0) >= channels)
        return;
    CHANNEL_OFFSETS
    const coefficients_t k = finish_channel(sums, c, true, CHANNEL_ARGUMENTS);
    if (coefficients) {
        coefficients += coefficients_offset + c;
        coefficients[0] = k.center;
        coefficients[channels] = k.k0;
        coefficients[2 * channels] = k.k1;
        coefficients[3 * channels] = k.k2;
    }
}

#include "kernels/norm/batch_norm_transform.cl"
