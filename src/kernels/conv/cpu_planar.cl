// Convolution on a CPU device: implicit matrix product with im2col fused into the packing of cache blocks.
//
//   result[row][pixel] = sum over k of weights[row][k] * source[k][pixel],   k = (channel, tap)
//
// The same kernel serves the forward pass (row: output channel) and the data gradient (row: input channel, one launch
// per residue of the position modulo the stride), since both read the source at position*scale + shift + tap*step.
//
//                 pixels (tile_pixels, in tiles of WIDE)
//              +--------+--------+--        One work-item owns rows x pixels of the result. Per block of k and tile of
//   rows (12   |        |        |          pixels it packs source[k][WIDE] into local memory (first-level cache) and
//   at a time) +--------+--------+--        runs every 12-row register tile over it; weights are read where they lie.
//
#define MAX_RUNS WIDE
#include "kernels/conv/runs.cl"

REGISTER_TILE(tile_12, ROWS_12, __global, __local)
REGISTER_TILE(tile_4, ROWS_4, __global, __local)
REGISTER_ROW(row_1, __global, __local)

// packed[k][WIDE] for k in k_begin .. k_begin + depth. Vectors may run past a run: the next run overwrites them, and
// packed has a spare vec at its end.
inline void pack(__local real* packed, const __global stored* source, const planar_problem* p, const pixel_runs* runs,
                 int k_begin, int depth)
{
    const int taps_x = p->taps[2], taps_y = p->taps[1], taps_z = p->taps[0];
    int tx = k_begin % taps_x, ty = k_begin / taps_x % taps_y, tz = k_begin / (taps_x * taps_y) % taps_z;
    const __global stored* channel = source;
    long plane = k_begin / (taps_x * taps_y * taps_z) * p->source_strides[1];
    for (int k = 0; k < depth; ++k, packed += WIDE) {
        const int dx = tx * p->step[2], dy = ty * p->step[1], dz = tz * p->step[0];
        for (int r = 0; r < runs->count; ++r) {
            const int y = runs->y[r] + dy, z = runs->z[r] + dz, x = runs->x[r] + dx;
            const int end = runs->begin[r + 1];
            if (y < 0 || y >= p->in[1] || z < 0 || z >= p->in[0]) {
                for (int i = runs->begin[r]; i < end; i += LANES)
                    put_vec((vec)0, 0, packed + i);
            } else {
                const long row = plane + runs->base[r] + z * p->source_strides[2] + y * p->source_strides[3];
                for (int i = runs->begin[r]; i < end; i += LANES)
                    put_vec(sources(channel, row, x + (i - runs->begin[r]) * (int)p->scale[2], p), 0, packed + i);
            }
        }
        if (++tx == taps_x) {
            tx = 0;
            if (++ty == taps_y) {
                ty = 0;
                if (++tz == taps_z) {
                    tz = 0;
                    plane += p->source_strides[1];
                }
            }
        }
    }
}

// Writes `rows` rows of a finished tile. places: element of each pixel, or `dense` when they follow each other.
inline void finish(const __local real* tile, __global stored* result, const __global stored* bias, int rows, int count,
                   const long* places, int dense, const planar_problem* p)
{
    for (int r = 0; r < rows; ++r, tile += WIDE, result += p->result_strides[1]) {
        const real b = p->has_bias ? load(T, bias, r) : 0;
        vec v0 = get_vec(0, tile) + b, v1 = get_vec(1, tile) + b;
        if (p->relu) {
            v0 = select(v0, (vec)0, v0 < 0);
            v1 = select(v1, (vec)0, v1 < 0);
        }
        if (dense && count == WIDE) {
            store_lanes(result + places[0], v0);
            store_lanes(result + places[0] + LANES, v1);
        } else {
            real values[WIDE];
            put_vec(v0, 0, values);
            put_vec(v1, 1, values);
            if (dense)
                for (int i = 0; i < count; ++i)
                    store(T, result, places[0] + i, values[i]);
            else
                for (int i = 0; i < count; ++i)
                    store(T, result, places[i], values[i]);
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_planar(const __global stored* source, ulong source_offset, const __global real* weights,
                 ulong weights_offset, const __global stored* bias, ulong bias_offset, __global stored* result,
                 ulong result_offset, __local real* packed, __local real* sums, planar_problem p)
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
    const int depth = p.depth * p.taps[0] * p.taps[1] * p.taps[2];

    const long first_row = group * p.rows + row_begin;
    source += source_offset + group * p.depth * p.source_strides[1];
    weights += weights_offset + first_row * p.weight_stride;
    bias += p.has_bias ? bias_offset + first_row : 0;
    result += result_offset + first_row * p.result_strides[1];
    const int padded_rows = (rows + 3) / 4 * 4;

    int k_begin = 0;
    do {
        const int k_count = min((int)p.tile_depth, depth - k_begin);
        const int last = k_begin + k_count == depth;
        for (int at = 0; at < count; at += WIDE) {
            const int wide = min(WIDE, count - at);
            pixel_runs runs;
            find_runs(&runs, &p, pixel_begin + at, wide);
            pack(packed, source, &p, &runs, k_begin, k_count);
            long places[WIDE];
            int dense = 0;
            if (last) {
                for (int r = 0; r < runs.count; ++r) {
                    const long pixel = pixel_begin + at + runs.begin[r];
                    const long x = pixel % p.out[2], y = pixel / p.out[2] % p.out[1];
                    const long z = pixel / (p.out[2] * p.out[1]) % p.out[0];
                    const long n = pixel / (p.out[2] * p.out[1] * p.out[0]);
                    for (int i = runs.begin[r]; i < runs.begin[r + 1]; ++i)
                        places[i] = n * p.result_strides[0] + z * p.result_strides[2] + y * p.result_strides[3] +
                                    (x + i - runs.begin[r]) * p.result_strides[4];
                }
                dense = 1;
                for (int i = 1; i < wide; ++i)
                    dense &= places[i] == places[i - 1] + 1;
            }
            __local real* tile = sums + (long)(at / WIDE) * padded_rows * WIDE;
            for (int row = 0; row < rows;) {
                const __global real* A = weights + row * p.weight_stride + k_begin;
                const int step = rows - row >= 12 ? 12 : 4;
                if (rows - row >= 12) {
                    if (wide > LANES)
                        tile_12(A, p.weight_stride, packed, k_count, tile, k_begin > 0);
                    else
                        tile_12_half(A, p.weight_stride, packed, k_count, tile, k_begin > 0);
                } else if (rows - row >= 4) {
                    if (wide > LANES)
                        tile_4(A, p.weight_stride, packed, k_count, tile, k_begin > 0);
                    else
                        tile_4_half(A, p.weight_stride, packed, k_count, tile, k_begin > 0);
                } else {
                    for (int r = row; r < rows; ++r)
                        row_1(weights + r * p.weight_stride + k_begin, packed, k_count, tile + (r - row) * WIDE,
                              k_begin > 0);
                }
                if (last)
                    finish(tile, result + row * p.result_strides[1], bias + row, min(step, rows - row), wide, places,
                           dense, &p);
                row += step;
                tile += step * WIDE;
            }
        }
        k_begin += k_count;
    } while (k_begin < depth);
}

// Weights as conv_planar reads them, packed[row][depth][tap] in reals: one work-item per row and slice of depth.
__kernel void conv_pack_weights(const __global stored* w, ulong w_offset, __global real* packed, ulong packed_offset,
                                pack_problem p)
{
    const long id = get_global_id(0);
    const long row = id % p.rows, c = id / p.rows % p.depth, group = id / p.rows / p.depth;
    if (group >= p.groups)
        return;
    w += w_offset + p.first + group * p.group_stride + row * p.row_stride + c * p.depth_stride;
    packed += packed_offset + ((group * p.rows + row) * p.depth + c) * p.taps[0] * p.taps[1] * p.taps[2];
    for (int z = 0; z < p.taps[0]; ++z)
        for (int y = 0; y < p.taps[1]; ++y)
            for (int x = 0; x < p.taps[2]; ++x)
                *packed++ = load(T, w, z * p.tap_strides[0] + y * p.tap_strides[1] + x * p.tap_strides[2]);
}
