// All steps of one direction of a recurrent layer (clprim/recurrent.hpp) for CPUs: a work-item walks through them with
// ROWS sequences, for which it reads the weights once a step. A row of hidden numbers is taken by blocks of BLOCK; the
// last one ends where the row does and so repeats some numbers of the one before.
// -DCELL=LSTM|GRU|TANH|RELU, -DROWS=1|2|4|8, -DSHORT=1: fewer than BLOCK hidden numbers.
typedef struct {
    uint steps, batch, hidden, directions;
    uint reversed, saves, has_h, has_c, has_lengths, has_grad_y;
    uint bias_gates;                              // of GRU: 3, 1 for the last gate alone, or 0
    uint gate[4];                                 // where a row of gates has what the kernel calls first to fourth
    uint h_direction, h_sample, c_direction, c_sample;                            // strides
    uint y_step, y_direction, y_sample, last_h_direction, last_h_sample, last_c_direction, last_c_sample;
    uint begin, end;                              // steps of this launch
    uint parts;                                   // work-items that share a step's hidden numbers
    uint starts, ends;                            // whether this launch begins with the first states, keeps the last
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
#define TAKE_ROWS(rows, group)                                                                                        \
    uint rows[ROWS];                                                                                                   \
    FOR_ROWS rows[r] = min((group) * ROWS + r, p.batch - 1);

#define FOR_BLOCKS(j, step)                                                                                           \
    for (uint block = 0, j = 0; block < p.hidden;                                                                      \
         block += (step), j = min(block, max(p.hidden, (uint)(step)) - (uint)(step)))

// Sums of every AHEAD-th product, since one of few rows would wait for the addition before.
#define AHEAD (ROWS <= 2 ? 4 : ROWS == 4 ? 2 : 1)
#define FOR_AHEAD _Pragma("unroll") for (uint u = 0; u < AHEAD; ++u)

// a[r] += rows[r] . columns [0, BLOCK) of the matrix, and b[r] those from `second` on.
static inline void add_products(float16 a[ROWS], float16 b[ROWS], const __global float* const rows[ROWS],
                                const __global float* matrix, int second, uint depth, uint pitch, uint count)
{
    float16 one[AHEAD][ROWS], two[AHEAD][ROWS];
    FOR_AHEAD FOR_ROWS
    {
        one[u][r] = u ? (float16)0.0f : a[r];
        two[u][r] = u ? (float16)0.0f : b[r];
    }
    uint k = 0;
    for (; k + AHEAD <= depth; k += AHEAD, matrix += AHEAD * pitch)
        FOR_AHEAD
        {
            const float16 w = get(matrix + u * pitch, count), v = get(matrix + u * pitch + second, count);
            FOR_ROWS
            {
                const float16 x = rows[r][k + u];
                one[u][r] = fma(x, w, one[u][r]);
                two[u][r] = fma(x, v, two[u][r]);
            }
        }
    for (; k < depth; ++k, matrix += pitch) {
        const float16 w = get(matrix, count), v = get(matrix + second, count);
        FOR_ROWS
        {
            one[0][r] = fma((float16)rows[r][k], w, one[0][r]);
            two[0][r] = fma((float16)rows[r][k], v, two[0][r]);
        }
    }
    FOR_ROWS
    {
        a[r] = one[0][r];
        b[r] = two[0][r];
        _Pragma("unroll") for (uint u = 1; u < AHEAD; ++u)
        {
            a[r] += one[u][r];
            b[r] += two[u][r];
        }
    }
}

#if CELL == LSTM && ROWS == 1
// sums[g] += row . columns of gate g, which begin `places` behind `matrix`: in one pass, since large weights come from
// beyond the caches, and those of the gates lie behind each other.
static inline void add_gates(float16 sums[4], const __global float* row, const __global float* matrix, int4 places,
                             uint depth, uint count)
{
    const uint pitch = 4 * count;
    const int second = places.s1 - places.s0, third = places.s2 - places.s0, fourth = places.s3 - places.s0;
    const __global float* w = matrix + places.s0;
    float16 a0 = sums[0], b0 = sums[1], c0 = sums[2], d0 = sums[3], a1 = 0, b1 = 0, c1 = 0, d1 = 0;
    uint k = 0;
    for (; k + 2 <= depth; k += 2, w += 2 * pitch) {
        const float16 x = row[k], y = row[k + 1];
        const __global float* v = w + pitch;
        a0 = fma(x, get(w, count), a0);
        b0 = fma(x, get(w + second, count), b0);
        c0 = fma(x, get(w + third, count), c0);
        d0 = fma(x, get(w + fourth, count), d0);
        a1 = fma(y, get(v, count), a1);
        b1 = fma(y, get(v + second, count), b1);
        c1 = fma(y, get(v + third, count), c1);
        d1 = fma(y, get(v + fourth, count), d1);
    }
    if (k < depth) {
        const float16 x = row[k];
        a0 = fma(x, get(w, count), a0);
        b0 = fma(x, get(w + second, count), b0);
        c0 = fma(x, get(w + third, count), c0);
        d0 = fma(x, get(w + fourth, count), d0);
    }
    sums[0] = a0 + a1;
    sums[1] = b0 + b1;
    sums[2] = c0 + c1;
    sums[3] = d0 + d1;
}
#endif

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

static inline void copy_row(__global float* to, const __global float* from, uint first, uint end)
{
    for (uint j = first; j < end; ++j)
        to[j] = from[j];
}

// One launch does all steps, or each a step: then `parts` work-items share its hidden numbers, the first states are
// read where they are given, and a last launch without steps puts the last h. Rows of gates [steps, batch, directions,
// GATES hidden]; panels [directions, blocks, hidden, GATES, BLOCK]: the weights of a block's columns, in the order in
// which they are read. cells [steps, directions, batch, hidden], or two steps of such where nothing is saved. Sequences
// of one launch begin with what last_h and last_c are made of first.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void recurrent_steps(const __global float* gates, ulong gates_offset, const __global float* panels,
                     ulong panels_offset, const __global float* bias, ulong bias_offset, const __global int* lengths,
                     ulong lengths_offset, const __global float* h0, ulong h0_offset, const __global float* c0,
                     ulong c0_offset, __global float* y, ulong y_offset, __global float* cells, ulong cells_offset,
                     __global float* saved, ulong saved_offset, __global float* last_h, ulong last_h_offset,
                     __global float* last_c, ulong last_c_offset, recurrent_steps_t p)
{
    const uint direction = get_group_id(0) % p.directions, part = (uint)get_group_id(0) / p.directions % p.parts;
    TAKE_ROWS(samples, (uint)get_group_id(0) / (p.directions * p.parts))
    const uint n = p.hidden, width = GATES * n, count = min(n, (uint)BLOCK);
    // This part's blocks, and the numbers that it alone has.
    const uint blocks = (n + BLOCK - 1) / BLOCK, first_block = part * blocks / p.parts;
    const uint first_own = first_block * BLOCK, end_own = min((part + 1) * blocks / p.parts * BLOCK, n);
    const bool reversed = direction == 1 || p.reversed;
    gates += gates_offset + (ulong)direction * width;
    panels += panels_offset + (ulong)direction * ((n + BLOCK - 1) / BLOCK) * count * n * GATES;
    bias += bias_offset + (ulong)direction * p.bias_gates * n;
    y += y_offset + (ulong)direction * p.y_direction;
    cells += cells_offset;
    saved += saved_offset;
    last_h += last_h_offset + (ulong)direction * p.last_h_direction;
    last_c += last_c_offset + (ulong)direction * p.last_c_direction;
    h0 += h0_offset + (ulong)direction * p.h_direction;
    c0 += c0_offset + (ulong)direction * p.c_direction;
    int length[ROWS];
    for (uint r = 0; r < ROWS; ++r) {
        const uint sample = samples[r];
        length[r] = p.has_lengths ? min(lengths[lengths_offset + sample], (int)p.steps) : (int)p.steps;
        for (uint j = 0; p.starts && j < n; ++j) {
            last_h[(ulong)sample * p.last_h_sample + j] = p.has_h ? h0[(ulong)sample * p.h_sample + j] : 0.0f;
            if (CELL == LSTM)
                last_c[(ulong)sample * p.last_c_sample + j] = p.has_c ? c0[(ulong)sample * p.c_sample + j] : 0.0f;
        }
    }
    for (uint i = p.begin; i < p.end; ++i) {
        const uint t = reversed ? p.steps - 1 - i : i, before = reversed ? t + 1 : t - 1;
        const ulong cell_step = ((ulong)(p.saves ? t : i % 2) * p.directions + direction) * p.batch;
        const ulong cell_before = ((ulong)(p.saves ? before : (i + 1) % 2) * p.directions + direction) * p.batch;
        const __global float *h[ROWS], *c[ROWS], *x[ROWS];
        __global float *to[ROWS], *cell[ROWS];
        FOR_ROWS
        {
            const uint sample = samples[r];
            const bool first = (int)t == (reversed ? length[r] - 1 : 0);
            x[r] = gates + ((ulong)t * p.batch + sample) * p.directions * width;
            to[r] = y + (ulong)t * p.y_step + (ulong)sample * p.y_sample;
            cell[r] = cells + (cell_step + sample) * n;
            h[r] = p.starts ? last_h + (ulong)sample * p.last_h_sample : h0 + (ulong)sample * p.h_sample;
            c[r] = p.starts ? last_c + (ulong)sample * p.last_c_sample : c0 + (ulong)sample * p.c_sample;
            if (!first && i) {
                h[r] = y + (ulong)before * p.y_step + (ulong)sample * p.y_sample;
                c[r] = cells + (cell_before + sample) * n;
            }
        }
        for (uint block = first_own; block < end_own; block += BLOCK) {
            const uint j = min(block, max(n, (uint)BLOCK) - BLOCK);
            const __global float* w = panels + (ulong)block * n * GATES;
            const uint pitch = GATES * count;
            const __global float *w0 = w + p.gate[0] * count, *w2 = w + p.gate[2] * count;
            const uint at0 = p.gate[0] * n + j, at1 = p.gate[1] * n + j, at2 = p.gate[2] * n + j;
            const int w1 = ((int)p.gate[1] - (int)p.gate[0]) * (int)count;
#if CELL == LSTM
            const uint at3 = p.gate[3] * n + j;
            const int w3 = ((int)p.gate[3] - (int)p.gate[2]) * (int)count;
            float16 in[ROWS], forget[ROWS], fresh[ROWS], out[ROWS];
#if ROWS == 1
            float16 sums[4] = {get(x[0] + at0, count), get(x[0] + at1, count), get(x[0] + at2, count),
                               get(x[0] + at3, count)};
            const int4 places = (int4)(p.gate[0], p.gate[1], p.gate[2], p.gate[3]) * (int)count;
            add_gates(sums, h[0], w, places, n, count);
            in[0] = logistic(sums[0]);
            forget[0] = logistic(sums[1]);
            fresh[0] = sums[2];
            out[0] = sums[3];
#else
            FOR_ROWS
            {
                in[r] = get(x[r] + at0, count);
                forget[r] = get(x[r] + at1, count);
            }
            add_products(in, forget, h, w0, w1, n, pitch, count);
            FOR_ROWS
            {
                in[r] = logistic(in[r]);
                forget[r] = logistic(forget[r]);
                fresh[r] = get(x[r] + at2, count);
                out[r] = get(x[r] + at3, count);
            }
            add_products(fresh, out, h, w2, w3, n, pitch, count);
#endif
            FOR_ROWS
            {
                fresh[r] = tanh(fresh[r]);
                out[r] = logistic(out[r]);
                const float16 v = fma(forget[r], get(c[r] + j, count), in[r] * fresh[r]);
                put(v, cell[r] + j, count);
                put(out[r] * tanh(v), to[r] + j, count);
                if (p.saves) {
                    __global float* kept = saved + ((ulong)t * p.batch + samples[r]) * width + j;
                    put(in[r], kept, count);
                    put(forget[r], kept + n, count);
                    put(fresh[r], kept + 2 * n, count);
                    put(out[r], kept + 3 * n, count);
                }
            }
#elif CELL == GRU
            float16 reset[ROWS], update[ROWS], inner[ROWS];
            const float16 zero = 0.0f;
            FOR_ROWS
            {
                reset[r] = get(x[r] + at0, count) + (p.bias_gates == 3 ? get(bias + j, count) : zero);
                update[r] = get(x[r] + at1, count) + (p.bias_gates == 3 ? get(bias + n + j, count) : zero);
                inner[r] = p.bias_gates ? get(bias + (p.bias_gates - 1) * n + j, count) : zero;
            }
            add_products(reset, update, h, w0, w1, n, pitch, count);
            add_product(inner, h, w2, n, pitch, count);
            FOR_ROWS
            {
                reset[r] = logistic(reset[r]);
                update[r] = logistic(update[r]);
                const float16 fresh = tanh(fma(reset[r], inner[r], get(x[r] + at2, count)));
                put(fma(update[r], get(h[r] + j, count) - fresh, fresh), to[r] + j, count);
                if (p.saves) {
                    __global float* kept = saved + ((ulong)t * p.batch + samples[r]) * 4 * n + j;
                    put(reset[r], kept, count);
                    put(update[r], kept + n, count);
                    put(fresh, kept + 2 * n, count);
                    put(inner[r], kept + 3 * n, count);
                }
            }
#else
            float16 sum[ROWS];
            FOR_ROWS sum[r] = get(x[r] + j, count);
            add_product(sum, h, w, n, pitch, count);
            FOR_ROWS put(CELL == TANH ? tanh(sum[r]) : select(sum[r], (float16)0.0f, sum[r] < 0.0f), to[r] + j, count);
#endif
        }
        for (uint r = 0; r < ROWS; ++r) {
            if ((int)t >= length[r]) {
                for (uint j = first_own; j < end_own; ++j)
                    to[r][j] = 0.0f;
            } else if (CELL == LSTM && (int)t == (reversed ? 0 : length[r] - 1)) {
                copy_row(last_c + (ulong)samples[r] * p.last_c_sample, cell[r], first_own, end_own);
            }
        }
    }
    for (uint r = 0; p.ends && r < ROWS; ++r) {
        const ulong sample = samples[r];
        const uint last = reversed ? 0 : length[r] - 1;
        if (length[r] > 0) {
            copy_row(last_h + sample * p.last_h_sample, y + last * p.y_step + sample * p.y_sample, 0, n);
        } else if (!p.starts) {
            copy_row(last_h + sample * p.last_h_sample, h0 + sample * p.h_sample, 0, n);
            if (CELL == LSTM)
                copy_row(last_c + sample * p.last_c_sample, c0 + sample * p.c_sample, 0, n);
        }
    }
}

// The same backwards, of one direction without lengths. What is carried from step to step alternates between two
// places: [2, batch, hidden].
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
    TAKE_ROWS(samples, (uint)get_group_id(0))
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
