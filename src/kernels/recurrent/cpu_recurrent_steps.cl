// All steps of one direction of a recurrent layer (clprim/recurrent.hpp) for CPUs: a work-item walks through them with
// ROWS sequences, for which it reads the weights once a step. A row of hidden numbers is taken by blocks of BLOCK; the
// last one ends where the row does and so repeats some numbers of the one before.
// -DCELL=LSTM|GRU|TANH|RELU, -DROWS=1|2|4|8, -DSHORT=1: fewer than BLOCK hidden numbers.
typedef struct {
    uint steps, batch, hidden;
    uint reversed, has_bias, saves, has_grad_y;
} recurrent_steps_t;   // Geometry of recurrent_steps.cpp

#define LSTM 0
#define GRU 1
#define TANH 2
#define RELU 3
#define GATES (CELL == LSTM ? 4 : CELL == GRU ? 3 : 1)
#define BLOCK 16
#define FOR_ROWS _Pragma("unroll") for (uint r = 0; r < ROWS; ++r)

static inline float16 get(const __global float* from, uint count)
{
#if SHORT
    float values[BLOCK];
    for (uint i = 0; i < BLOCK; ++i)
        values[i] = i < count ? from[i] : 0.0f;
    return vload16(0, values);
#else
    return vload16(0, from);
#endif
}

static inline void put(float16 v, __global float* to, uint count)
{
#if SHORT
    float values[BLOCK];
    vstore16(v, 0, values);
    for (uint i = 0; i < count; ++i)
        to[i] = values[i];
#else
    vstore16(v, 0, to);
#endif
}

static inline float16 logistic(float16 v) { return 1.0f / (1.0f + exp(-v)); }

// Those beyond the last sequence are that one again.
#define TAKE_ROWS(rows)                                                                                               \
    uint rows[ROWS];                                                                                                   \
    FOR_ROWS rows[r] = min((uint)get_group_id(0) * ROWS + r, p.batch - 1);

#define FOR_BLOCKS(j, step)                                                                                           \
    for (uint block = 0, j = 0; block < p.hidden;                                                                      \
         block += (step), j = min(block, max(p.hidden, (uint)(step)) - (uint)(step)))

// a[r] += rows[r] . columns [0, BLOCK) of the matrix, and b[r] those from `second` on.
static inline void add_products(float16 a[ROWS], float16 b[ROWS], const __global float* const rows[ROWS],
                                const __global float* matrix, uint second, uint depth, uint pitch, uint count)
{
    float16 one[ROWS], two[ROWS];
    FOR_ROWS
    {
        one[r] = a[r];
        two[r] = b[r];
    }
    for (uint k = 0; k < depth; ++k, matrix += pitch) {
        const float16 w = get(matrix, count), v = get(matrix + second, count);
        FOR_ROWS
        {
            const float16 x = rows[r][k];
            one[r] = fma(x, w, one[r]);
            two[r] = fma(x, v, two[r]);
        }
    }
    FOR_ROWS
    {
        a[r] = one[r];
        b[r] = two[r];
    }
}

static inline void add_product(float16 a[ROWS], const __global float* const rows[ROWS], const __global float* matrix,
                               uint depth, uint pitch, uint count)
{
    float16 one[ROWS];
    FOR_ROWS one[r] = a[r];
    for (uint k = 0; k < depth; ++k, matrix += pitch) {
        const float16 w = get(matrix, count);
        FOR_ROWS one[r] = fma((float16)rows[r][k], w, one[r]);
    }
    FOR_ROWS a[r] = one[r];
}

// panels [blocks, p.hidden, GATES, BLOCK]: the weights of a block's columns, in the order in which they are read.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void recurrent_steps(const __global float* gates, ulong gates_offset, const __global float* panels,
                     ulong panels_offset, const __global float* bias, ulong bias_offset, const __global float* h0,
                     ulong h0_offset, const __global float* c0, ulong c0_offset, __global float* y, ulong y_offset,
                     __global float* cells, ulong cells_offset, __global float* saved, ulong saved_offset,
                     recurrent_steps_t p)
{
    TAKE_ROWS(samples)
    const uint n = p.hidden, width = GATES * n, count = min(n, (uint)BLOCK);
    gates += gates_offset;
    panels += panels_offset;
    bias += bias_offset;
    y += y_offset;
    cells += cells_offset;
    saved += saved_offset;
    for (uint i = 0; i < p.steps; ++i) {
        const ulong first = (ulong)(p.reversed ? p.steps - 1 - i : i) * p.batch;
        const ulong before = (ulong)(p.reversed ? p.steps - i : i - 1) * p.batch;
        const __global float *h[ROWS], *c[ROWS], *x[ROWS];
        ulong at[ROWS];
        FOR_ROWS
        {
            at[r] = first + samples[r];
            x[r] = gates + at[r] * width;
            h[r] = i ? y + (before + samples[r]) * n : h0 + h0_offset + (ulong)samples[r] * n;
            c[r] = i ? cells + (before + samples[r]) * n : c0 + c0_offset + (ulong)samples[r] * n;
        }
        FOR_BLOCKS(j, BLOCK)
        {
            const __global float* w = panels + (ulong)block * n * GATES;
#if CELL == LSTM
            float16 in[ROWS], forget[ROWS], fresh[ROWS], out[ROWS];
            FOR_ROWS
            {
                in[r] = get(x[r] + j, count);
                forget[r] = get(x[r] + n + j, count);
            }
            add_products(in, forget, h, w, count, n, GATES * count, count);
            FOR_ROWS
            {
                in[r] = logistic(in[r]);
                forget[r] = logistic(forget[r]);
                fresh[r] = get(x[r] + 2 * n + j, count);
                out[r] = get(x[r] + 3 * n + j, count);
            }
            add_products(fresh, out, h, w + 2 * count, count, n, GATES * count, count);
            FOR_ROWS
            {
                fresh[r] = tanh(fresh[r]);
                out[r] = logistic(out[r]);
                const float16 cell = fma(forget[r], get(c[r] + j, count), in[r] * fresh[r]);
                put(cell, cells + at[r] * n + j, count);
                put(out[r] * tanh(cell), y + at[r] * n + j, count);
                if (p.saves) {
                    __global float* to = saved + at[r] * width + j;
                    put(in[r], to, count);
                    put(forget[r], to + n, count);
                    put(fresh[r], to + 2 * n, count);
                    put(out[r], to + 3 * n, count);
                }
            }
#elif CELL == GRU
            float16 reset[ROWS], update[ROWS], inner[ROWS];
            const float16 zero = 0.0f;
            FOR_ROWS
            {
                reset[r] = get(x[r] + j, count) + (p.has_bias ? get(bias + j, count) : zero);
                update[r] = get(x[r] + n + j, count) + (p.has_bias ? get(bias + n + j, count) : zero);
                inner[r] = p.has_bias ? get(bias + 2 * n + j, count) : zero;
            }
            add_products(reset, update, h, w, count, n, GATES * count, count);
            add_product(inner, h, w + 2 * count, n, GATES * count, count);
            FOR_ROWS
            {
                reset[r] = logistic(reset[r]);
                update[r] = logistic(update[r]);
                const float16 fresh = tanh(fma(reset[r], inner[r], get(x[r] + 2 * n + j, count)));
                put(fma(update[r], get(h[r] + j, count) - fresh, fresh), y + at[r] * n + j, count);
                if (p.saves) {
                    __global float* to = saved + at[r] * 4 * n + j;
                    put(reset[r], to, count);
                    put(update[r], to + n, count);
                    put(fresh, to + 2 * n, count);
                    put(inner[r], to + 3 * n, count);
                }
            }
#else
            float16 sum[ROWS];
            FOR_ROWS sum[r] = get(x[r] + j, count);
            add_product(sum, h, w, n, GATES * count, count);
            FOR_ROWS put(CELL == TANH ? tanh(sum[r]) : select(sum[r], (float16)0.0f, sum[r] < 0.0f),
                         y + at[r] * n + j, count);
#endif
        }
    }
}

// The same backwards. What is carried from step to step alternates between two places: [2, batch, hidden].
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void recurrent_steps_backward(const __global float* hidden, ulong hidden_offset, const __global float* h0,
                              ulong h0_offset, const __global float* c0, ulong c0_offset, const __global float* y,
                              ulong y_offset, const __global float* cells, ulong cells_offset,
                              const __global float* saved, ulong saved_offset, const __global float* grad_y,
                              ulong grad_y_offset, __global float* carried_h, ulong carried_h_offset,
                              __global float* carried_c, ulong carried_c_offset, __global float* grad_gates,
                              ulong grad_gates_offset, __global float* grad_hidden, ulong grad_hidden_offset,
                              recurrent_steps_t p)
{
    TAKE_ROWS(samples)
    const uint n = p.hidden, width = GATES * n, count = min(n, (uint)BLOCK);
    const ulong other = (ulong)p.batch * n;
    hidden += hidden_offset;
    y += y_offset;
    cells += cells_offset;
    saved += saved_offset;
    grad_y += grad_y_offset;
    grad_gates += grad_gates_offset;
    grad_hidden += grad_hidden_offset;
    for (uint i = p.steps; i-- > 0;) {
        const ulong first = (ulong)(p.reversed ? p.steps - 1 - i : i) * p.batch;
        const ulong before = (ulong)(p.reversed ? p.steps - i : i - 1) * p.batch;
        const ulong now = (p.steps - 1 - i) % 2 * other, next = other - now;
        const __global float* rows[ROWS];
        FOR_ROWS
        {
            const ulong at = first + samples[r];
            const ulong own = (ulong)samples[r] * n;
            const __global float* dh_carried = carried_h + carried_h_offset + now + own;
#if CELL == GRU
            rows[r] = grad_hidden + at * width;
#else
            rows[r] = grad_gates + at * width;
#endif
            FOR_BLOCKS(j, BLOCK)
            {
                float16 dh = get(dh_carried + j, count);
                if (p.has_grad_y)
                    dh += get(grad_y + at * n + j, count);
                __global float* to = grad_gates + at * width + j;
#if CELL == LSTM
                const __global float *from = saved + at * width + j, *c = i ? cells + (before + samples[r]) * n
                                                                           : c0 + c0_offset + own;
                const float16 in = get(from, count), forget = get(from + n, count), fresh = get(from + 2 * n, count),
                              out = get(from + 3 * n, count), t = tanh(get(cells + at * n + j, count));
                const float16 dc = fma(dh * out, 1.0f - t * t,
                                       get(carried_c + carried_c_offset + now + own + j, count));
                put(dc * fresh * (1.0f - in) * in, to, count);
                put(dc * get(c + j, count) * (1.0f - forget) * forget, to + n, count);
                put(dc * in * (1.0f - fresh * fresh), to + 2 * n, count);
                put(dh * t * (1.0f - out) * out, to + 3 * n, count);
                put(dc * forget, carried_c + carried_c_offset + next + own + j, count);
#elif CELL == GRU
                const __global float *from = saved + at * 4 * n + j, *h = i ? y + (before + samples[r]) * n
                                                                           : h0 + h0_offset + own;
                const float16 reset = get(from, count), update = get(from + n, count),
                              fresh = get(from + 2 * n, count), inner = get(from + 3 * n, count);
                const float16 d_fresh = dh * (1.0f - update) * (1.0f - fresh * fresh);
                const float16 d_reset = d_fresh * inner * (1.0f - reset) * reset;
                const float16 d_update = dh * (get(h + j, count) - fresh) * (1.0f - update) * update;
                __global float* also = grad_hidden + at * width + j;
                put(d_reset, to, count);
                put(d_update, to + n, count);
                put(d_fresh, to + 2 * n, count);
                put(d_reset, also, count);
                put(d_update, also + n, count);
                put(d_fresh * reset, also + 2 * n, count);
                put(dh * update, carried_h + carried_h_offset + next + own + j, count);
#else
                const float16 v = get(y + at * n + j, count);
                put(CELL == TANH ? dh * (1.0f - v * v) : select(dh, (float16)0.0f, v <= 0.0f), to, count);
#endif
            }
        }
        // What the cell handed to the state before and what its product does.
        float16 sums[ROWS], more[ROWS];
        __global float* dh[ROWS];
        FOR_ROWS dh[r] = carried_h + carried_h_offset + next + (ulong)samples[r] * n;
        uint done = 0;
        for (; done + 2 * BLOCK <= n; done += 2 * BLOCK) {
            FOR_ROWS
            {
                sums[r] = CELL == GRU ? get(dh[r] + done, count) : (float16)0.0f;
                more[r] = CELL == GRU ? get(dh[r] + done + BLOCK, count) : (float16)0.0f;
            }
            add_products(sums, more, rows, hidden + done, BLOCK, width, n, count);
            FOR_ROWS
            {
                put(sums[r], dh[r] + done, count);
                put(more[r], dh[r] + done + BLOCK, count);
            }
        }
        for (; done < n; done += BLOCK) {
#if SHORT
            const uint left = n;
            FOR_ROWS sums[r] = CELL == GRU ? get(dh[r], left) : (float16)0.0f;
            add_product(sums, rows, hidden, width, n, left);
            FOR_ROWS put(sums[r], dh[r], left);
#else
            // Numbers that the last block repeats are not added twice.
            const uint j = min(done, n - BLOCK), repeated = done - j;
            const int16 kept = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) < (int)repeated;
            FOR_ROWS sums[r] = CELL == GRU ? get(dh[r] + j, count) : (float16)0.0f;
            FOR_ROWS more[r] = sums[r];
            add_product(sums, rows, hidden + j, width, n, count);
            FOR_ROWS put(CELL == GRU ? select(sums[r], more[r], kept) : sums[r], dh[r] + j, count);
#endif
        }
    }
}
