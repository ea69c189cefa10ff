// Weight gradient on a CPU device, as a matrix product over pixels:
//
//   dw[o][row] = sum over pixels of dy[o][pixel] * x[row][pixel],   row = (channel, tap)
//
// One work-item owns tile_rows rows by tile_pixels outputs and one of `parts` shares of the pixels. Per block of pixels
// it packs dy transposed, [output tile][pixel][WIDE], then twelve im2col rows at a time, and runs the register tile
// over them: C[row][output] += rows[row][pixel] * outputs[pixel][output]. With several parts the sums go to a
// workspace, parts apart, which conv_add_parts adds in order: same bits every run.
#define MAX_LANES 256
#include "kernels/conv/runs.cl"

REGISTER_TILE(tile_12, ROWS_12, __local, __local)

#if LANES == 16
// target[j][0..LANES) = source[0..rows) at j: rows beyond repeat the last.
inline void transpose_block(__local real* target, const __global stored* source, long stride, int rows)
{
#define GET(name, i) const vec r##name = load_lanes(source + min(i, rows - 1) * stride);
#define PUT(name, i) put_vec(u##name, 0, target + i * WIDE);
    TRANSPOSE_16(GET, PUT)
}
#else
inline void transpose_block(__local real* target, const __global stored* source, long stride, int rows) {}
#endif

// target[pixel][WIDE]: dy of `columns` outputs, transposed. Blocks may run past `count` pixels by LANES - 1 rows.
inline void pack_outputs(__local real* target, const __global stored* dy, const implicit_problem* p, long pixel, int count,
                         int columns)
{
    const long row_pixels = p->out[2], plane = p->out[1] * row_pixels, image = p->out[0] * plane;
    const int unit = p->result_strides[4] == 1;
    const int dense = unit && p->result_strides[3] == row_pixels && p->result_strides[2] == plane;
    const long stride = p->result_strides[1];
    for (int k = 0; k < count;) {
        const long at = pixel + k, n = at / image, z = at / plane % p->out[0], y = at / row_pixels % p->out[1];
        const long x = at % row_pixels;
        const long place = n * p->result_strides[0] + z * p->result_strides[2] + y * p->result_strides[3] +
                           x * p->result_strides[4];
        const int stretch = (int)min(dense ? image - at % image : row_pixels - x, (long)(count - k));
        for (int i = 0; i < stretch; i += LANES) {
            __local real* to = target + (k + i) * WIDE;
            if (LANES == 16 && unit && place + i + LANES + (columns - 1) * stride <= p->result_size) {
                transpose_block(to, dy + place + i, stride, min(columns, LANES));
                if (columns > LANES)
                    transpose_block(to + LANES, dy + place + i + LANES * stride, stride, columns - LANES);
            } else {
                for (int j = 0; j < min(LANES, stretch - i); ++j)
                    for (int c = 0; c < WIDE; ++c)
                        to[j * WIDE + c] = load(T, dy, place + (i + j) * p->result_strides[4] + min(c, columns - 1) * stride);
            }
        }
        k += stretch;
    }
}

// One im2col row over the runs of a block of pixels.
inline void pack_row(__local real* target, const __global stored* x, const implicit_problem* p, const pixel_runs* runs,
                     int row)
{
    const int taps = p->taps[0] * p->taps[1] * p->taps[2];
    const long plane = row / taps * p->source_strides[1];
    tap_step tap = find_tap(p, row % taps);
    tap.shift += plane;
    for (int i = 0; i * LANES < runs->pixels; ++i)
        pack_lanes(target + i * LANES, 0, x, runs, p, tap, i, 1);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_implicit_weight(const __global stored* x, ulong x_offset, const __global stored* dy, ulong dy_offset,
                        __global real* sums, ulong sums_offset, __local real* outputs, __local real* rows,
                        __local real* tiles, implicit_problem p)
{
    const int taps = p.taps[0] * p.taps[1] * p.taps[2];
    const long all_rows = p.depth * taps, pixels = p.batch * p.out[0] * p.out[1] * p.out[2];
    const long row_blocks = (all_rows + p.tile_rows - 1) / p.tile_rows;
    const long output_blocks = (p.rows + p.tile_pixels - 1) / p.tile_pixels;
    const long id = get_group_id(0);
    const long first_row = id % row_blocks * p.tile_rows;
    const long first_output = id / row_blocks % output_blocks * p.tile_pixels;
    const long part = id / row_blocks / output_blocks % p.parts, group = id / row_blocks / output_blocks / p.parts;
    const int row_count = min(p.tile_rows, all_rows - first_row);
    const int output_count = min(p.tile_pixels, p.rows - first_output);
    const long begin = pixels * part / p.parts, end = pixels * (part + 1) / p.parts;

    x += x_offset + group * p.depth * p.source_strides[1];
    dy += dy_offset + (group * p.rows + first_output) * p.result_strides[1];
    p.result_size -= (group * p.rows + first_output) * p.result_strides[1];
    p.source_size -= group * p.depth * p.source_strides[1];
    const int row_length = p.tile_depth + LANES, output_length = (p.tile_depth + LANES) * WIDE;

    for (long pixel = begin; pixel < end; pixel += p.tile_depth) {
        const int count = min((long)p.tile_depth, end - pixel);
        pixel_runs runs;
        find_runs(&runs, &p, pixel, count);
        for (int o = 0; o < output_count; o += WIDE) {
            const long skipped = o * p.result_strides[1];
            p.result_size -= skipped;
            pack_outputs(outputs + o / WIDE * output_length, dy + skipped, &p, pixel, count, min(WIDE, output_count - o));
            p.result_size += skipped;
        }
        __local real* tile = tiles;
        for (int r = 0; r < row_count; r += 12) {
            for (int i = 0; i < min(12, row_count - r); ++i)
                pack_row(rows + i * row_length, x, &p, &runs, first_row + r + i);
            for (int o = 0; o < output_count; o += WIDE, tile += 12 * WIDE) {
                if (output_count - o > LANES)
                    tile_12(rows, row_length, outputs + o / WIDE * output_length, count, tile, pixel > begin);
                else
                    tile_12_half(rows, row_length, outputs + o / WIDE * output_length, count, tile, pixel > begin);
            }
        }
    }

    sums += sums_offset + ((part * p.groups + group) * p.rows + first_output) * all_rows + first_row;
    const __local real* tile = tiles;
    for (int r = 0; r < row_count; r += 12)
        for (int o = 0; o < output_count; o += WIDE, tile += 12 * WIDE)
            for (int c = 0; c < min(WIDE, output_count - o); ++c)
                for (int i = 0; i < min(12, row_count - r); ++i)
                    sums[(o + c) * all_rows + r + i] = tile[i * WIDE + c];
}

// dw = sum of the parts, each [group, output][channel][tap] in reals.
__kernel void conv_add_parts(const __global real* sums, ulong sums_offset, __global stored* dw, ulong dw_offset,
                             long parts, pack_problem p)
{
    const long taps = p.taps[0] * p.taps[1] * p.taps[2], row = p.depth * taps, size = p.groups * p.rows * row;
    const long i = get_global_id(0);
    if (i >= size)
        return;
    sums += sums_offset + i;
    real sum = 0;
    for (long part = 0; part < parts; ++part)
        sum += sums[part * size];
    const long tap = i % taps;
    store(T, dw, dw_offset + i / row * p.row_stride + i / taps % p.depth * p.depth_stride +
                     tap % p.taps[2] * p.tap_strides[2] + tap / p.taps[2] % p.taps[1] * p.tap_strides[1] +
                     tap / (p.taps[2] * p.taps[1]) * p.tap_strides[0], sum);
}
