// recurrent_layer for CPUs: one work-item walks through all steps of a sequence and direction. The sums of all gates
// lie together, and rows of the weights, which lie so too, are added to them by vectors, four rows at a time: each is
// read once a step, from its beginning to its end.
// Options as in recurrent.cl, and -DPLAIN=1 for float, -DBYTES=int8|uint8: recurrent weights are bytes, whose columns
// have scales and zero points.
#include "core/dtype.cl"
#include "kernels/recurrent/recurrent_layer.cl"

#define WIDE 16

static inline float16 load_wide(const __global storage_t(X)* x, ulong at)
{
#if PLAIN
    return vload16(0, x + at);
#else
    float values[WIDE];
    for (int i = 0; i < WIDE; ++i)
        values[i] = load(X, x, at + i);
    return vload16(0, values);
#endif
}

static inline float16 logistic_wide(float16 v) { return 1.0f / (1.0f + exp(-v)); }

// sums[c] += v[k] * rows[k][c] over `count` rows of `n` columns.
static inline void add_products(__local float* sums, uint n, const __global storage_t(X)* rows, ulong first, uint pitch,
                                const __local float* v, uint count)
{
    uint k = 0;
    for (; k + 4 <= count; k += 4) {
        const float v0 = v[k], v1 = v[k + 1], v2 = v[k + 2], v3 = v[k + 3];
        const ulong r0 = first + (ulong)k * pitch, r1 = r0 + pitch, r2 = r1 + pitch, r3 = r2 + pitch;
        uint c = 0;
        for (; c + WIDE <= n; c += WIDE) {
            const float16 one = v0 * load_wide(rows, r0 + c) + v1 * load_wide(rows, r1 + c);
            const float16 two = v2 * load_wide(rows, r2 + c) + v3 * load_wide(rows, r3 + c);
            vstore16(vload16(0, sums + c) + (one + two), 0, sums + c);
        }
        for (; c < n; ++c)
            sums[c] += v0 * load(X, rows, r0 + c) + v1 * load(X, rows, r1 + c) + v2 * load(X, rows, r2 + c) +
                       v3 * load(X, rows, r3 + c);
    }
    for (; k < count; ++k)
        for (uint c = 0; c < n; ++c)
            sums[c] += v[k] * load(X, rows, first + (ulong)k * pitch + c);
}

#ifdef BYTES
#define RECURRENT_T BYTES
// The same with rows of bytes, as numbers. What eight rows give is added up by itself, so that a large sum is rounded
// once for all of them.
static inline void add_byte_products(__local float* sums, uint n, const __global storage_t(BYTES)* rows,
                                     const __local float* v, uint count)
{
    uint k = 0;
    for (; k + 8 <= count; k += 8, rows += 8 * (ulong)n) {
        uint c = 0;
        for (; c + WIDE <= n; c += WIDE) {
            float16 one = v[k] * convert_float16(vload16(0, rows + c));
            float16 two = v[k + 1] * convert_float16(vload16(0, rows + n + c));
            _Pragma("unroll") for (uint i = 2; i < 8; i += 2) {
                one = fma(v[k + i], convert_float16(vload16(0, rows + (ulong)i * n + c)), one);
                two = fma(v[k + i + 1], convert_float16(vload16(0, rows + (ulong)(i + 1) * n + c)), two);
            }
            vstore16(vload16(0, sums + c) + (one + two), 0, sums + c);
        }
        for (; c < n; ++c) {
            float eight = 0;
            for (uint i = 0; i < 8; ++i)
                eight = fma(v[k + i], (float)rows[(ulong)i * n + c], eight);
            sums[c] += eight;
        }
    }
    for (; k < count; ++k, rows += n)
        for (uint c = 0; c < n; ++c)
            sums[c] += v[k] * (float)rows[c];
}
#else
#define RECURRENT_T X
#endif

// to[j] = the expression over vectors W and over what is left of them, with `at` the first number of either.
#define FOR_HIDDEN(count, wide, single)                                                                               \
    {                                                                                                                  \
        uint at = 0;                                                                                                   \
        for (; at + WIDE <= (count); at += WIDE) { wide }                                                              \
        for (; at < (count); ++at) { single }                                                                          \
    }

#define GET(from) vload16(0, (from) + at)
#define PUT(value, to) vstore16(value, 0, (to) + at)

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void recurrent_layer_cpu(TENSOR(x), TENSOR(weights), const __global storage_t(RECURRENT_T)* recurrent,
                         ulong recurrent_offset, const __global float* scales, ulong scales_offset,
                         const __global float* zeros, ulong zeros_offset, TENSOR(bias), TENSOR(recurrent_bias),
                         const __global int* lengths, ulong lengths_offset, TENSOR(h0), TENSOR(c0), OUTPUT(y),
                         OUTPUT(last_h), OUTPUT(last_c), recurrent_t p, __local float* memory)
{
    const uint sample = get_group_id(0) % p.batch, direction = get_group_id(0) / p.batch;
    const uint directions = get_num_groups(0) / p.batch;
    const uint hidden = p.hidden, width = GATES * hidden;
    const bool backwards = direction == 1 || p.reversed;
    __local float *sums = memory, *inner = sums + width, *state = inner + width, *cell = state + hidden,
                  *vector = cell + hidden;
    recurrent_offset += (ulong)direction * hidden * width;
    weights_offset += (ulong)direction * p.inputs * width;
    scales_offset += (ulong)direction * width;
    zeros_offset += (ulong)direction * width;
    bias_offset += (ulong)direction * width;
    recurrent_bias_offset += (ulong)direction * hidden;
    h0_offset += (ulong)direction * p.h_direction + (ulong)sample * p.h_sample;
    c0_offset += (ulong)direction * p.c_direction + (ulong)sample * p.c_sample;
    y_offset += (ulong)direction * p.y_direction + (ulong)sample * p.y_sample;
    last_h_offset += (ulong)direction * p.last_h_direction + (ulong)sample * p.last_h_sample;
    last_c_offset += (ulong)direction * p.last_c_direction + (ulong)sample * p.last_c_sample;
    for (uint j = 0; j < hidden; ++j) {
        state[j] = p.has_h ? load(X, h0, h0_offset + j) : 0.0f;
#if GATES == 4
        cell[j] = p.has_c ? load(X, c0, c0_offset + j) : 0.0f;
#endif
    }
    const int length = p.has_lengths ? lengths[lengths_offset + sample] : (int)p.steps;
    for (uint i = 0; i < p.steps; ++i) {
        const uint t = backwards ? p.steps - 1 - i : i;
        const ulong out = y_offset + (ulong)t * p.y_step;
        if ((int)t >= length) {
            for (uint j = 0; j < hidden; ++j)
                store(X, y, out + j, 0.0f);
            continue;
        }
        const ulong input = p.inputs ? x_offset + ((ulong)t * p.batch + sample) * p.inputs
                                     : x_offset + (((ulong)t * p.batch + sample) * directions + direction) * width;
        for (uint c = 0; c < width; ++c)
            sums[c] = !p.inputs ? load(X, x, input + c) : p.has_bias ? load(X, bias, bias_offset + c) : 0.0f;
        for (uint k = 0; k < p.inputs; ++k)
            vector[k] = load(X, x, input + k);
        add_products(sums, width, weights, weights_offset, width, vector, p.inputs);
#if GATES == 4
#ifdef BYTES
        float total = 0;
        for (uint j = 0; j < hidden; ++j)
            total += state[j];
        for (uint c = 0; c < width; ++c)
            inner[c] = 0;
        add_byte_products(inner, width, recurrent + recurrent_offset, state, hidden);
        for (uint c = 0; c < width; ++c)
            sums[c] += scales[scales_offset + c] * (inner[c] - zeros[zeros_offset + c] * total);
#else
        add_products(sums, width, recurrent, recurrent_offset, width, state, hidden);
#endif
        __local float *in = sums, *gate = sums + hidden, *forget = gate + hidden, *fresh = forget + hidden;
        FOR_HIDDEN(hidden,
            const float16 m = logistic_wide(GET(forget)) * GET(cell) + logistic_wide(GET(in)) * tanh(GET(fresh));
            PUT(m, cell);
            PUT(logistic_wide(GET(gate)) * tanh(m), state);,
            const float m = logistic(forget[at]) * cell[at] + logistic(in[at]) * tanh(fresh[at]);
            cell[at] = m;
            state[at] = logistic(gate[at]) * tanh(m);)
#elif AFTER
        __local float *update = sums, *reset = sums + hidden, *fresh = reset + hidden;
        for (uint c = 0; c < width; ++c)
            inner[c] = c < 2 * hidden || !p.has_recurrent_bias
                           ? 0.0f : load(X, recurrent_bias, recurrent_bias_offset + c - 2 * hidden);
        add_products(inner, width, recurrent, recurrent_offset, width, state, hidden);
        FOR_HIDDEN(hidden,
            const float16 u = logistic_wide(GET(update) + GET(inner));
            const float16 r = logistic_wide(GET(reset) + GET(inner + hidden));
            PUT((1.0f - u) * tanh(GET(fresh) + r * GET(inner + 2 * hidden)) + u * GET(state), state);,
            const float u = logistic(update[at] + inner[at]);
            const float r = logistic(reset[at] + inner[hidden + at]);
            state[at] = (1.0f - u) * tanh(fresh[at] + r * inner[2 * hidden + at]) + u * state[at];)
#else
        __local float *update = sums, *reset = sums + hidden, *fresh = reset + hidden;
        add_products(sums, 2 * hidden, recurrent, recurrent_offset, width, state, hidden);
        FOR_HIDDEN(hidden,
            PUT(logistic_wide(GET(reset)) * GET(state), cell);,
            cell[at] = logistic(reset[at]) * state[at];)
        add_products(fresh, hidden, recurrent, recurrent_offset + 2 * hidden, width, cell, hidden);
        FOR_HIDDEN(hidden,
            const float16 u = logistic_wide(GET(update));
            PUT((1.0f - u) * tanh(GET(fresh)) + u * GET(state), state);,
            const float u = logistic(update[at]);
            state[at] = (1.0f - u) * tanh(fresh[at]) + u * state[at];)
#endif
        for (uint j = 0; j < hidden; ++j)
            store(X, y, out + j, state[j]);
    }
    for (uint j = 0; j < hidden; ++j) {
        store(X, last_h, last_h_offset + j, state[j]);
#if GATES == 4
        store(X, last_c, last_c_offset + j, cell[j]);
#endif
    }
}
