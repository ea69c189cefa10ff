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

// ---- second pass ----

#ifdef DIRECT
// Evaluation on GPUs: no kernel goes ahead, channels' coefficients follow from their parameters where they are used.
typedef const __global storage_t(W)* parameters_t;
typedef struct { parameters_t weight, bias, mean, variance; acc_t epsilon; } source_t;
#define SOURCE source_t
#define SOURCE_PARAMETERS                                                                                             \
    parameters_t weight, ulong weight_offset, parameters_t bias, ulong bias_offset, parameters_t mean,                \
    ulong mean_offset, parameters_t variance, ulong variance_offset, __global acc_t* save_mean,                       \
    ulong save_mean_offset, __global acc_t* save_invstd, ulong save_invstd_offset, acc_t epsilon
#define SAVE_STATISTICS                                                                                               \
    for (uint i = get_global_id(0); save_mean && i < shape.channels; i += get_global_size(0)) {                       \
        save_mean[save_mean_offset + i] = load(W, mean, mean_offset + i);                                             \
        save_invstd[save_invstd_offset + i] = 1 / sqrt(load(W, variance, variance_offset + i) + epsilon);             \
    }
#define SOURCE_OFFSETS                                                                                                \
    const source_t coefficients = {weight ? weight + weight_offset : 0, bias ? bias + bias_offset : 0,                \
                                   mean + mean_offset, variance + variance_offset, epsilon};

static inline coefficients_t load_coefficients(source_t s, uint channels, uint c)
{
    coefficients_t k;
    const acc_t invstd = 1 / sqrt(load(W, s.variance, c) + s.epsilon);
    k.center = load(W, s.mean, c);
    k.k0 = s.bias ? load(W, s.bias, c) : 0;
    k.k1 = s.weight ? invstd * load(W, s.weight, c) : invstd;
    k.k2 = 0;
    return k;
}

static inline vec_t transform_columns(vec_t x, vec_t dy, source_t s, uint channels, uint c)
{
    const vec_t invstd = 1 / sqrt(load_vector(W, s.variance, c) + s.epsilon);
    return fma(x - load_vector(W, s.mean, c), s.weight ? invstd * load_vector(W, s.weight, c) : invstd,
               s.bias ? load_vector(W, s.bias, c) : (vec_t)(0));
}
#else
#define SOURCE const __global acc_t*
#define SOURCE_PARAMETERS const __global acc_t* coefficients, ulong coefficients_offset
#define SAVE_STATISTICS
#define SOURCE_OFFSETS coefficients += coefficients_offset;

static inline coefficients_t load_coefficients(const __global acc_t* p, uint channels, uint c)
{
    coefficients_t k;
    k.center = p[c];
    k.k0 = p[channels + c];
    k.k1 = p[2 * channels + c];
    k.k2 = p[3 * channels + c];
    return k;
}

static inline vec_t transform_columns(vec_t x, vec_t dy, const __global acc_t* coefficients, uint channels, uint c)
{
    const vec_t v = fma(x - load_vector(PARTIAL, coefficients, c), load_vector(PARTIAL, coefficients, 2 * channels + c),
                        load_vector(PARTIAL, coefficients, channels + c));
#ifdef BACKWARD
    return fma(dy, load_vector(PARTIAL, coefficients, 3 * channels + c), v);
#else
    return v;
#endif
}
#endif

#if TEAM > 1
// 64-bit division takes hundreds of instructions.
#if WIDE
typedef ulong count_t;
#else
typedef uint count_t;
#endif

// A vector's place is counted in vectors of a row, or in elements where rows are no whole vectors: with -DCROSSING a
// quad may begin in one plane and end in the next. All of x is whole vectors.
#ifdef CROSSING
#define UNIT VEC
static inline vec_t transform_crossing(vec_t x, vec_t dy, SOURCE coefficients, uint channels, uint c,
                                       uint left)
{
    const vec_t v = transform(x, dy, load_coefficients(coefficients, channels, c));
    if (left >= VEC)
        return v;
    const vec_t lanes = (vec_t)(0, 1, 2, 3);
    const uint next = c + 1 < channels ? c + 1 : 0;
    return lanes >= (acc_t)left ? transform(x, dy, load_coefficients(coefficients, channels, next)) : v;
}
#else
#define UNIT 1
#define transform_crossing(x, dy, coefficients, channels, c, left)                                                    \
    transform(x, dy, load_coefficients(coefficients, channels, c))
#endif

// A work-item owns OWNED vectors of neighbouring elements, TEAM apart, and reads all of them before it writes. Finding
// the first divides five times: single elements are so many that it hardly counts.
#define OWNED (16 / VEC > AHEAD ? 16 / VEC : AHEAD)
__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void transform_all(input_t x, ulong x_offset, input_t dy, ulong dy_offset, __global storage_t(X)* out,
                   ulong out_offset, shape_t shape, SOURCE_PARAMETERS, ulong unused)
{
    SAVE_STATISTICS
    const bool columns = COLUMNS;
    const count_t total = (ulong)shape.outer * shape.channels * shape.inner / VEC;
    const count_t first = (count_t)get_group_id(0) * (TEAM * OWNED) + team_rank();
    if (first >= total)
        return;
    const uint row_units = (columns ? shape.channels : shape.inner) / (VEC / UNIT);
    const uint rows_ahead = TEAM * UNIT / row_units, ahead = TEAM * UNIT % row_units;
    const uint channels_ahead = rows_ahead % shape.channels;
    const count_t row = first * UNIT / row_units;
    uint at = first * UNIT - row * row_units, c = row % shape.channels;
    x += x_offset;
    dy += dy_offset;
    out += out_offset;
    SOURCE_OFFSETS
    vec_t xs[OWNED], dys[OWNED];
#pragma unroll
    for (uint e = 0; e < OWNED; ++e) {
        const ulong place = (ulong)min(first + e * TEAM, total - 1) * VEC;
        xs[e] = load_vector(X, x, place);
        dys[e] = LOAD_DY(place);
    }
#pragma unroll
    for (uint e = 0; e < OWNED; ++e) {
        const count_t vector = first + e * TEAM;
        if (vector < total)
            store_vector(X, out, (ulong)vector * VEC,
                         columns ? transform_columns(xs[e], dys[e], coefficients, shape.channels, at * VEC)
                                 : transform_crossing(xs[e], dys[e], coefficients, shape.channels, c, row_units - at));
        at += ahead;
        c += channels_ahead;
        if (at >= row_units) {
            at -= row_units;
            ++c;
        }
        if (c >= shape.channels)
            c -= shape.channels;
    }
}
#else
// Work-item g owns rows [g * share, (g + 1) * share): a row is (n, c) with inner elements, or n with all channels.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void transform_all(input_t x, ulong x_offset, input_t dy, ulong dy_offset, __global storage_t(X)* out,
                   ulong out_offset, shape_t shape, const __global acc_t* coefficients, ulong coefficients_offset,
                   ulong share)
{
    x += x_offset;
    dy += dy_offset;
    out += out_offset;
    coefficients += coefficients_offset;
    const ulong begin = get_group_id(0) * share;
    const uint channels = shape.channels;
    if (shape.inner > 1) {
        const ulong end = min(begin + share, (ulong)shape.outer * channels);
        for (ulong r = begin; r < end; ++r)
            transform_row(x + r * shape.inner, dy + r * shape.inner, out + r * shape.inner, shape.inner,
                          load_coefficients(coefficients, channels, r % channels));
        return;
    }
    const ulong end = min(begin + share, (ulong)shape.outer);
    for (ulong r = begin; r < end; ++r) {
        const ulong row = r * channels;
        uint c = 0;
        for (; c + VEC <= channels; c += VEC)
            store_vector(X, out, row + c, transform_columns(load_vector(X, x, row + c), LOAD_DY(row + c), coefficients,
                                                            channels, c));
        for (; c < channels; ++c) {
            const coefficients_t k = load_coefficients(coefficients, channels, c);
            acc_t v = (load(X, x, row + c) - k.center) * k.k1 + k.k0;
#ifdef BACKWARD
            v += load(X, dy, row + c) * k.k2;
#endif
            store(X, out, row + c, v);
        }
    }
}
#endif
