// recurrent_layer of an LSTM with weights of bytes on CPUs that multiply those (recurrent_words.cl). A team of
// work-items walks through all steps of some sequences in one direction. Each has a part of the units; a step begins
// when all parts of the one before are done:
//
//     step 0   | part 0 | part 1 |      `done` counts parts; whoever is free claims the next step's: its own, and those
//     step 1   | part 0 | part 1 |      that nobody has claimed. So a team waits for none that has not begun, however
//     ...                               many of its work-items run at a time.
//
// States are read where the results are written, in y and last_c.
// -DDOT_VECTOR=64|32 [-DDOT_VEX]
#include "core/dtype.cl"
#include "kernels/recurrent/recurrent_words.cl"

#define SAMPLES 8      // at a time
#define PROGRESS 128   // ints of a team, of cache lines' lengths: done, ended, claims
#define ENDED 16
#define CLAIMS 32

typedef struct {
    uint steps, batch, inputs, hidden;            // inputs 0: x is projected already
    uint reversed, has_bias, has_lengths, has_h, has_c;
    uint h_direction, h_sample, c_direction, c_sample;                            // strides
    uint y_step, y_direction, y_sample, last_h_direction, last_h_sample, last_c_direction, last_c_sample;
    uint directions, samples, parts;              // samples and parts of a team
} walk_t;

typedef struct {
    const __global float *x, *bias, *h0, *c0;
    const __global float *weight_scales, *weight_zeros, *scales, *zeros;
    const __global int* lengths;
    __global float *y, *last_h, *last_c;
    packed_weights weights, recurrent;
    uint direction, backwards;
} walk_operands;

static inline float16 logistic_wide(float16 v) { return 1.0f / (1.0f + exp(-v)); }

// Where a sequence is at a step.
typedef struct {
    int active, first, last;
} place_in_sequence;

static inline place_in_sequence place_of(const walk_operands* o, const walk_t* p, uint t, uint sample)
{
    const int length = o->lengths ? min(o->lengths[sample], (int)p->steps) : (int)p->steps;
    const int begin = o->backwards ? length - 1 : 0, end = o->backwards ? 0 : length - 1;
    return (place_in_sequence){(int)t < length, (int)t == begin, (int)t == end};
}

// Without steps of its own a sequence ends in the states that it begins with.
static inline void keep_states(const walk_operands* o, const walk_t* p, uint sample, uint begin, uint end)
{
    for (uint j = begin; j < end; ++j) {
        o->last_h[(ulong)sample * p->last_h_sample + j] = p->has_h ? o->h0[(ulong)sample * p->h_sample + j] : 0.0f;
        o->last_c[(ulong)sample * p->last_c_sample + j] = p->has_c ? o->c0[(ulong)sample * p->c_sample + j] : 0.0f;
    }
}

// A block of units of a sample's next state from the sums of its gates.
static inline void put_block(const walk_operands* o, const walk_t* p, uint t, uint sample, uint unit, float16* gates,
                             place_in_sequence place)
{
    const uint left = p->hidden - unit;
    __global float* c = o->last_c + (ulong)sample * p->last_c_sample + unit;
    float16 cell = 0.0f;
    if (!place.first)
        cell = load_some(c, left);
    else if (p->has_c)
        cell = load_some(o->c0 + (ulong)sample * p->c_sample + unit, left);
    cell = logistic_wide(gates[2]) * cell + logistic_wide(gates[0]) * tanh(gates[3]);
    const float16 state = logistic_wide(gates[1]) * tanh(cell);
    store_some(cell, c, left);
    store_some(state, o->y + (ulong)t * p->y_step + (ulong)sample * p->y_sample + unit, left);
    if (place.last)
        store_some(state, o->last_h + (ulong)sample * p->last_h_sample + unit, left);
}

// Blocks [begin, end) of samples [first, first + count) at step i.
static void walk(const walk_operands* o, const walk_t* p, uint i, uint first, uint count, uint begin, uint end)
{
    uchar state_numbers[MOST_DIGITS * SAMPLES * DOT_ROW] __attribute__((aligned(64)));
    uchar input_numbers[MOST_DIGITS * SAMPLES * DOT_ROW] __attribute__((aligned(64)));
    int state_sums[MOST_DIGITS * SAMPLES * BLOCK] __attribute__((aligned(64)));
    int input_sums[MOST_DIGITS * SAMPLES * BLOCK] __attribute__((aligned(64)));
    digit_row state_rows[SAMPLES], input_rows[SAMPLES];
    place_in_sequence places[SAMPLES];
    const uint t = o->backwards ? p->steps - 1 - i : i, width = 4 * p->hidden;
    const uint last_unit = min(end * PANEL, p->hidden);
    const uint state_digits = digits_for(p->hidden), input_digits = digits_for(p->inputs);
    int states = 0;
    for (uint s = 0; s < count; ++s) {
        const uint sample = first + s;
        places[s] = place_of(o, p, t, sample);
        if (!places[s].active) {
            for (uint j = begin * PANEL; j < last_unit; ++j)
                o->y[(ulong)t * p->y_step + (ulong)sample * p->y_sample + j] = 0.0f;
            if (i == 0 && o->lengths[sample] <= 0)
                keep_states(o, p, sample, begin * PANEL, last_unit);
            continue;
        }
        if (!places[s].first || p->has_h) {
            const __global float* h = places[s].first ? o->h0 + (ulong)sample * p->h_sample
                                                      : o->y + (ulong)(o->backwards ? t + 1 : t - 1) * p->y_step +
                                                            (ulong)sample * p->y_sample;
            state_rows[s] = take_digits(h, p->hidden, state_digits, state_numbers + state_digits * s * DOT_ROW);
            states = 1;
        }
        if (p->inputs)
            input_rows[s] = take_digits(o->x + ((ulong)t * p->batch + sample) * p->inputs, p->inputs, input_digits,
                                        input_numbers + input_digits * s * DOT_ROW);
    }
    for (uint b = begin; b < end; ++b) {
        // To and fro: what a core has read last it still holds.
        const uint block = i % 2 ? begin + end - 1 - b : b, unit = block * PANEL, left = p->hidden - unit;
        if (states)
            sum_block(state_numbers, state_rows, count, state_digits, o->recurrent, block, state_sums);
        if (p->inputs)
            sum_block(input_numbers, input_rows, count, input_digits, o->weights, block, input_sums);
        float16 gates[SAMPLES][4];
        for (uint gate = 0; gate < 4; ++gate) {
            const uint at = gate * p->hidden + unit;
            const gate_columns columns = {load_some(o->scales + at, left), load_some(o->zeros + at, left),
                                          means_of(o->recurrent, block, gate, p->hidden)};
            gate_columns of_inputs = columns;
            float16 bias = 0.0f;
            if (p->inputs)
                of_inputs = (gate_columns){load_some(o->weight_scales + at, left),
                                           load_some(o->weight_zeros + at, left),
                                           means_of(o->weights, block, gate, p->inputs)};
            if (p->inputs && p->has_bias)
                bias = load_some(o->bias + at, left);
            for (uint s = 0; s < count; ++s) {
                float16 v = bias;
                if (!places[s].active)
                    continue;
                if (p->inputs)
                    v += gate_of(input_sums + input_digits * s * BLOCK, input_digits, gate, input_rows[s], of_inputs);
                else
                    v = load_some(o->x + at + width * (((ulong)t * p->batch + first + s) * p->directions +
                                                       o->direction), left);
                if (!places[s].first || p->has_h)
                    v += gate_of(state_sums + state_digits * s * BLOCK, state_digits, gate, state_rows[s], columns);
                gates[s][gate] = v;
            }
        }
        for (uint s = 0; s < count; ++s)
            if (places[s].active)
                put_block(o, p, t, first + s, unit, gates[s], places[s]);
    }
}

static inline void walk_part(const walk_operands* o, const walk_t* p, uint i, uint first, uint end, uint part)
{
    const uint blocks = blocks_of(p->hidden);
    for (uint s = first; s < end; s += SAMPLES)
        walk(o, p, i, s, min((uint)SAMPLES, end - s), part * blocks / p->parts, (part + 1) * blocks / p->parts);
}

#define PAUSE __asm__ volatile("pause" ::: "memory")

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void walk_layer(const __global float* x, ulong x_offset, const __global int* weights, ulong weights_offset,
                const __global float* weight_scales, ulong weight_scales_offset, const __global float* weight_zeros,
                ulong weight_zeros_offset, const __global float* bias, ulong bias_offset,
                const __global int* recurrent, ulong recurrent_offset, const __global float* scales,
                ulong scales_offset, const __global float* zeros, ulong zeros_offset, const __global int* lengths,
                ulong lengths_offset, const __global float* h0, ulong h0_offset, const __global float* c0,
                ulong c0_offset, __global float* y, ulong y_offset, __global float* last_h, ulong last_h_offset,
                __global float* last_c, ulong last_c_offset, volatile __global int* progress, ulong progress_offset,
                walk_t p)
{
    const uint team = get_group_id(0) / p.parts, own = get_group_id(0) % p.parts;
    const uint direction = team % p.directions, width = 4 * p.hidden;
    const uint first = team / p.directions * p.samples, end = min(p.batch, first + p.samples);
    const ulong columns = (ulong)direction * width;
    const walk_operands o = {
        x + x_offset, bias + bias_offset + columns, h0 + h0_offset + (ulong)direction * p.h_direction,
        c0 + c0_offset + (ulong)direction * p.c_direction, weight_scales + weight_scales_offset + columns,
        weight_zeros + weight_zeros_offset + columns, scales + scales_offset + columns, zeros + zeros_offset + columns,
        p.has_lengths ? lengths + lengths_offset : 0, y + y_offset + (ulong)direction * p.y_direction,
        last_h + last_h_offset + (ulong)direction * p.last_h_direction,
        last_c + last_c_offset + (ulong)direction * p.last_c_direction,
        weights_of(weights + weights_offset, direction, p.directions, p.inputs, p.hidden),
        weights_of(recurrent + recurrent_offset, direction, p.directions, p.hidden, p.hidden),
        direction, direction == 1 || p.reversed};
    if (p.parts == 1) {
        for (uint i = 0; i < p.steps; ++i)
            walk_part(&o, &p, i, first, end, 0);
        return;
    }
    volatile __global int *done = progress + progress_offset + team * PROGRESS, *claims = done + CLAIMS;
    const int parts = p.parts;
    for (int i = *done / parts; i < (int)p.steps;) {
        for (int k = 0; k < parts; ++k) {
            const int part = (own + k) % parts;
            if (claims[part] != i || atomic_cmpxchg(claims + part, i, i + 1) != i)
                continue;
            walk_part(&o, &p, i, first, end, part);
            mem_fence(CLK_GLOBAL_MEM_FENCE);
            atomic_inc(done);
        }
        int count = *done;
        for (; count < (i + 1) * parts; count = *done)
            PAUSE;
        mem_fence(CLK_GLOBAL_MEM_FENCE);
        i = count / parts;
    }
    // The last to end leaves all as it was found.
    if (atomic_inc(done + ENDED) == parts - 1) {
        for (int part = 0; part < parts; ++part)
            claims[part] = 0;
        done[ENDED] = 0;
        *done = 0;
    }
}
