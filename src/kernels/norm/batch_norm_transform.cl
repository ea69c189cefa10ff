// The second pass of batch_norm.cl: see there.

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
