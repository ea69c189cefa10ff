// Convolution on a CPU device: implicit matrix product with im2col fused into the packing of cache blocks.
//
//   result[row][pixel] = sum over k of weights[row][k] * source[k][pixel],   k = (channel, tap) or (tap, channel)
//
// The same kernel serves the forward pass (row: output channel) and the data gradient (row: input channel, one launch
// per residue of the position modulo the stride), since both read the source at position*scale + shift + tap*step.
//
//                 pixels (tile_pixels, in tiles of WIDE)
//              +--------+--------+--        One work-item owns rows x pixels of the result. Per block of k and tile of
//   rows (12   |        |        |          pixels it packs source[k][WIDE] into local memory (first-level cache) and
//   at a time) +--------+--------+--        runs every 12-row register tile over it; weights are read where they lie.
//
// Both layouts are read and written as they are: planar ones by vectors of pixels, channels_last by vectors of channels
// that are transposed in registers.
#include "kernels/conv/implicit_blocks.cl"

REGISTER_TILE(tile_12, 12, __global, __local)
REGISTER_TILE(tile_4, 4, __global, __local)
REGISTER_ROW(row_1, __global, __local)

__kernel TILE_TASK
void conv_implicit(const __global stored* source, ulong source_offset, const __global real* weights,
                   ulong weights_offset, const __global stored* bias, ulong bias_offset, __global stored* result,
                   ulong result_offset, __local real* packed, __local real* sums, implicit_problem p)
{
    const long pixels = p.batch * p.out[0] * p.out[1] * p.out[2];
    const long row_blocks = (p.rows + p.tile_rows - 1) / p.tile_rows;
    const long pixel_blocks = (pixels + p.tile_pixels - 1) / p.tile_pixels;
    const long id = get_group_id(0);
    const int row_begin = id % row_blocks * p.tile_rows;
    const long pixel_begin = id / row_blocks % pixel_blocks * p.tile_pixels;
    const long group = id / row_blocks / pixel_blocks;
    const int rows = min(p.tile_rows, p.rows - row_begin);
    const int count = min(p.tile_pixels, pixels - pixel_begin);
    const int taps = p.taps[0] * p.taps[1] * p.taps[2], channels = p.depth;
    const int padded_rows = (rows + 3) / 4 * 4;

    const long first_row = group * p.rows + row_begin;
    source += source_offset + group * p.depth * p.source_strides[1];
    p.source_size -= group * p.depth * p.source_strides[1];
    weights += weights_offset + first_row * p.weight_stride;
    bias += p.finish.has_bias ? bias_offset + first_row : 0;
    result += result_offset + first_row * p.result_strides[1];

    k_block block;
    block.c_begin = block.t_begin = 0;
    int k_begin = 0;
    do {
        block.c_count = min((int)p.channels_block, channels - block.c_begin);
        block.t_count = min((int)p.taps_block, taps - block.t_begin);
        block.channel_pitch = WIDE * (p.taps_inner ? block.t_count : 1);
        block.tap_pitch = WIDE * (p.taps_inner ? 1 : block.c_count);
        const int depth = block.c_count * block.t_count;
        const int last = k_begin + depth == channels * taps;
        const long column = weight_column(&p, &block);
        for (int at = 0; at < count; at += WIDE) {
            const int wide = min(WIDE, count - at);
            pixel_runs runs;
            find_runs(&runs, &p, pixel_begin + at, wide);
            pack(packed, source, &p, &runs, &block);
            __local real* tile = sums + (long)(at / WIDE) * padded_rows * WIDE;
            for (int row = 0; row < rows;) {
                const __global real* A = weights + row * p.weight_stride + column;
                __local real* C = tile + row * WIDE;
                if (rows - row >= 12) {
                    if (wide > LANES)
                        tile_12(A, p.weight_stride, packed, depth, C, k_begin > 0);
                    else
                        tile_12_half(A, p.weight_stride, packed, depth, C, k_begin > 0);
                    row += 12;
                } else if (rows - row >= 4) {
                    if (wide > LANES)
                        tile_4(A, p.weight_stride, packed, depth, C, k_begin > 0);
                    else
                        tile_4_half(A, p.weight_stride, packed, depth, C, k_begin > 0);
                    row += 4;
                } else {
                    row_1(A, packed, depth, C, k_begin > 0);
                    ++row;
                }
            }
            if (last)
                finish(tile, result, bias, rows, &runs, &p);
        }
        k_begin += depth;
        if (p.taps_inner) {
            block.t_begin += block.t_count;
            if (block.t_begin == taps) {
                block.t_begin = 0;
                block.c_begin += block.c_count;
            }
        } else {
            block.c_begin += block.c_count;
            if (block.c_begin == channels) {
                block.c_begin = 0;
                block.t_begin += block.t_count;
            }
        }
    } while (k_begin < channels * taps);
}

// A contiguous copy of a channels_last tensor: one work-item per image and pixel.
__kernel void conv_to_planar(const __global stored* x, ulong x_offset, __global stored* planar, ulong planar_offset,
                             long batch, long channels, long pixels)
{
    const long id = get_global_id(0), n = id / pixels, pixel = id % pixels;
    if (n >= batch)
        return;
    x += x_offset + id * channels;
    planar += planar_offset + n * channels * pixels + pixel;
    for (long c = 0; c < channels; ++c)
        planar[c * pixels] = x[c];
}

// Weights as conv_implicit reads them, packed[group, row][k] in reals, from any strides.
__kernel void conv_pack_weights(const __global stored* w, ulong w_offset, __global real* packed, ulong packed_offset,
                                pack_problem p)
{
    const long taps = p.taps[0] * p.taps[1] * p.taps[2], length = p.depth * taps;
    const long id = get_global_id(0), row = id / length % p.rows, group = id / length / p.rows;
    if (group >= p.groups)
        return;
    const long k = id % length, c = p.taps_inner ? k / taps : k % p.depth, tap = p.taps_inner ? k % taps : k / p.depth;
    packed[packed_offset + id] =
        load(T, w, w_offset + group * p.group_stride + row * p.row_stride + c * p.depth_stride +
                       tap % p.taps[2] * p.tap_strides[2] + tap / p.taps[2] % p.taps[1] * p.tap_strides[1] +
                       tap / (p.taps[2] * p.taps[1]) * p.tap_strides[0]);
}

// The same for the data gradient, k = (tap, depth), where the weights of one depth lie together: a transposition. A
// work-item owns TRANSPOSE_DEPTHS depths by TRANSPOSE_COLUMNS columns and goes by blocks of sixteen by sixteen.
#define TRANSPOSE_COLUMNS 256
#define TRANSPOSE_DEPTHS 64
__kernel TILE_TASK
void conv_transpose_weights(const __global stored* w, ulong w_offset, __global real* packed, ulong packed_offset,
                            pack_problem p)
{
    const int taps = p.taps[0] * p.taps[1] * p.taps[2], columns = p.rows * taps, rows = p.rows;
    const long column_blocks = (columns + TRANSPOSE_COLUMNS - 1) / TRANSPOSE_COLUMNS;
    const long depth_blocks = (p.depth + TRANSPOSE_DEPTHS - 1) / TRANSPOSE_DEPTHS, id = get_group_id(0);
    const int begin = id % column_blocks * TRANSPOSE_COLUMNS, end = min(begin + TRANSPOSE_COLUMNS, columns);
    const long depth = id / column_blocks % depth_blocks * TRANSPOSE_DEPTHS, group = id / column_blocks / depth_blocks;
    const int depths = min((long)TRANSPOSE_DEPTHS, p.depth - depth);
    w += w_offset + group * p.group_stride + depth * p.depth_stride;
    packed += packed_offset + group * p.rows * taps * p.depth + depth;
    const int taps_inner = p.row_stride != 1 || taps == 1;   // in the source
    for (int column = begin; column < end; column += 16) {
        const int count = min(16, end - column);
        long place[16];
        for (int i = 0; i < count; ++i) {
            const int row = taps_inner ? (column + i) / taps : (column + i) % rows;
            const int tap = taps_inner ? (column + i) % taps : (column + i) / rows;
            place[i] = ((long)row * taps + tap) * p.depth;
        }
        int d = 0;
#if LANES == 16
        for (; count == 16 && d + 16 <= depths; d += 16) {
            const __global stored* from = w + d * p.depth_stride + column;
#define GET(name, i) const vec r##name = load_lanes(from + i * p.depth_stride);
#define PUT(name, i) vstore16(u##name, 0, packed + place[i] + d);
            TRANSPOSE_16(GET, PUT)
        }
#endif
        for (; d < depths; ++d)
            for (int i = 0; i < count; ++i)
                packed[place[i] + d] = load(T, w, d * p.depth_stride + column + i);
    }
}
