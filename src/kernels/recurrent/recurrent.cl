// A layer of LSTM or GRU: a work-group per sequence and direction walks through all steps. A work-item computes the
// gates of every LANES-th hidden number; neighbours read neighbouring columns of the weights. -DX: dtype, -DGATES: 4
// for LSTM, 3 for GRU, -DAFTER=1: GRU with linear_before_reset.
#include "core/dtype.cl"
#include "kernels/recurrent/recurrent_layer.cl"

// sums[g] += vector . column j of gate FIRST + g, over `count` rows.
#define ADD_PRODUCTS(sums, first, gates, count, element, matrix, at)                                                  \
    for (uint k = 0; k < (count); ++k) {                                                                               \
        const float v = (element);                                                                                     \
        const ulong row = (at) + (ulong)k * width + j;                                                                 \
        for (uint g = 0; g < (gates); ++g)                                                                             \
            sums[g] += v * load(X, matrix, row + (ulong)((first) + g) * p.hidden);                                     \
    }

__kernel void recurrent_layer(TENSOR(x), TENSOR(weights), TENSOR(recurrent), TENSOR(bias), TENSOR(recurrent_bias),
                              const __global int* lengths, ulong lengths_offset, TENSOR(h0), TENSOR(c0), OUTPUT(y),
                              OUTPUT(last_h), OUTPUT(last_c), recurrent_t p, __local float* states)
{
    const uint lane = get_local_id(0), lanes = get_local_size(0);
    const uint sample = get_group_id(0) % p.batch, direction = get_group_id(0) / p.batch;
    const uint directions = get_num_groups(0) / p.batch;
    const uint width = GATES * p.hidden;
    const bool backwards = direction == 1 || p.reversed;
    __local float *now = states, *next = states + p.hidden, *cell = states + 2 * p.hidden;   // GRU: reset * h
    recurrent_offset += (ulong)direction * p.hidden * width;
    weights_offset += (ulong)direction * p.inputs * width;
    bias_offset += (ulong)direction * width;
    recurrent_bias_offset += (ulong)direction * p.hidden;
    h0_offset += (ulong)direction * p.h_direction + (ulong)sample * p.h_sample;
    c0_offset += (ulong)direction * p.c_direction + (ulong)sample * p.c_sample;
    y_offset += (ulong)direction * p.y_direction + (ulong)sample * p.y_sample;
    last_h_offset += (ulong)direction * p.last_h_direction + (ulong)sample * p.last_h_sample;
    last_c_offset += (ulong)direction * p.last_c_direction + (ulong)sample * p.last_c_sample;
    for (uint j = lane; j < p.hidden; j += lanes) {
        now[j] = p.has_h ? load(X, h0, h0_offset + j) : 0.0f;
#if GATES == 4
        cell[j] = p.has_c ? load(X, c0, c0_offset + j) : 0.0f;
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int length = p.has_lengths ? lengths[lengths_offset + sample] : (int)p.steps;
    for (uint i = 0; i < p.steps; ++i) {
        const uint t = backwards ? p.steps - 1 - i : i;
        const ulong out = y_offset + (ulong)t * p.y_step;
        if ((int)t >= length) {                          // the whole group alike
            for (uint j = lane; j < p.hidden; j += lanes)
                store(X, y, out + j, 0.0f);
            continue;
        }
        const ulong input = p.inputs ? x_offset + ((ulong)t * p.batch + sample) * p.inputs
                                     : x_offset + (((ulong)t * p.batch + sample) * directions + direction) * width;
        for (uint j = lane; j < p.hidden; j += lanes) {
            float sums[GATES];
            for (uint g = 0; g < GATES; ++g)
                sums[g] = !p.inputs   ? load(X, x, input + (ulong)g * p.hidden + j)
                          : p.has_bias ? load(X, bias, bias_offset + (ulong)g * p.hidden + j)
                                       : 0.0f;
            ADD_PRODUCTS(sums, 0, GATES, p.inputs, load(X, x, input + k), weights, weights_offset)
#if GATES == 4
            ADD_PRODUCTS(sums, 0, 4, p.hidden, now[k], recurrent, recurrent_offset)
            const float memory = logistic(sums[2]) * cell[j] + logistic(sums[0]) * tanh(sums[3]);
            const float result = logistic(sums[1]) * tanh(memory);
            cell[j] = memory;
            next[j] = result;
            store(X, y, out + j, result);
#elif AFTER
            float inner[3] = {0, 0, p.has_recurrent_bias ? load(X, recurrent_bias, recurrent_bias_offset + j) : 0.0f};
            ADD_PRODUCTS(inner, 0, 3, p.hidden, now[k], recurrent, recurrent_offset)
            const float update = logistic(sums[0] + inner[0]), reset = logistic(sums[1] + inner[1]);
            const float result = (1 - update) * tanh(sums[2] + reset * inner[2]) + update * now[j];
            next[j] = result;
            store(X, y, out + j, result);
#else
            ADD_PRODUCTS(sums, 0, 2, p.hidden, now[k], recurrent, recurrent_offset)
            next[j] = logistic(sums[0]);                 // the update gate, until the second half
            cell[j] = logistic(sums[1]) * now[j];
            cell[p.hidden + j] = sums[2];
#endif
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#if GATES == 3 && !AFTER
        for (uint j = lane; j < p.hidden; j += lanes) {
            float sum[1] = {cell[p.hidden + j]};
            ADD_PRODUCTS(sum, 2, 1, p.hidden, cell[k], recurrent, recurrent_offset)
            const float result = (1 - next[j]) * tanh(sum[0]) + next[j] * now[j];
            next[j] = result;
            store(X, y, out + j, result);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
        __local float* before = now;
        now = next;
        next = before;
    }
    for (uint j = lane; j < p.hidden; j += lanes) {
        store(X, last_h, last_h_offset + j, now[j]);
#if GATES == 4
        store(X, last_c, last_c_offset + j, cell[j]);
#endif
    }
}
