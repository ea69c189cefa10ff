// The inputs' part of all gates of all steps, by words (recurrent_words.cl).
// -DDOT_VECTOR=64|32 [-DDOT_VEX]
#include "core/dtype.cl"
#include "kernels/recurrent/recurrent_words.cl"

#define ROWS 16   // of a work-item

typedef struct {
    uint rows, inputs, hidden, has_bias;
    uint blocks;   // of units, of a work-item
} projection;

// y[row][direction] = x[row] times the direction's weights, and bias; x [row][inputs] float32.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void project(const __global float* x, ulong x_offset, const __global int* words, ulong words_offset,
             const __global float* scales, ulong scales_offset, const __global float* zeros, ulong zeros_offset,
             const __global float* bias, ulong bias_offset, __global float* y, ulong y_offset, projection p)
{
    uchar numbers[MOST_DIGITS * ROWS * DOT_ROW] __attribute__((aligned(64)));
    int sums[MOST_DIGITS * ROWS * BLOCK] __attribute__((aligned(64)));
    digit_row of_rows[ROWS];
    const uint first = get_group_id(0) * ROWS, rows = min((uint)ROWS, p.rows - first);
    const uint digits = digits_for(p.inputs);
    const uint direction = get_group_id(2), directions = get_num_groups(2), width = 4 * p.hidden;
    const uint begin = get_group_id(1) * p.blocks, end = min(blocks_of(p.hidden), begin + p.blocks);
    const packed_weights w = weights_of(words + words_offset, direction, directions, p.inputs, p.hidden);
    x += x_offset + (ulong)first * p.inputs;
    y += y_offset + ((ulong)first * directions + direction) * width;
    scales += scales_offset + (ulong)direction * width;
    zeros += zeros_offset + (ulong)direction * width;
    bias += bias_offset + (ulong)direction * width;
    for (uint row = 0; row < rows; ++row)
        of_rows[row] = take_digits(x + (ulong)row * p.inputs, p.inputs, digits, numbers + digits * row * DOT_ROW);
    for (uint block = begin; block < end; ++block) {
        sum_block(numbers, of_rows, rows, digits, w, block, sums);
        const uint unit = block * PANEL, left = p.hidden - unit;
        for (uint gate = 0; gate < 4; ++gate) {
            const uint at = gate * p.hidden + unit;
            const gate_columns of = {load_some(scales + at, left), load_some(zeros + at, left),
                                     means_of(w, block, gate, p.inputs)};
            const float16 added = p.has_bias ? load_some(bias + at, left) : 0.0f;
            for (uint row = 0; row < rows; ++row)
                store_some(gate_of(sums + digits * row * BLOCK, digits, gate, of_rows[row], of) + added,
                           y + (ulong)row * directions * width + at, left);
        }
    }
}
