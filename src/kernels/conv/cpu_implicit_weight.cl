// Weight gradient on a CPU device, as a matrix product over pixels:
//
//   dw[o][row] = sum over pixels of dy[o][pixel] * x[row][pixel],   row = (channel, tap) or (tap, channel)
//
// One work-item owns tile_rows rows by tile_pixels outputs and one of `parts` shares of the pixels. Per block of pixels
// it packs dy as [output tile][pixel][WIDE], then group_rows im2col rows at a time, and runs the register tile over
// them: C[row][output] += rows[row][pixel] * outputs[pixel][output]. With several parts the sums go to a workspace,
// parts apart, which conv_add_parts adds in order: same bits every run.
#include "kernels/conv/weight_blocks.cl"

REGISTER_TILE(tile_12, 12, __local, __local)

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_implicit_weight(const __global stored* x, ulong x_offset, const __global stored* dy, ulong dy_offset,
                          __global real* sums, ulong sums_offset, __local real* outputs, __local real* rows,
                          __local real* tiles, int group_rows, implicit_problem p)
{
    const int taps = p.taps[0] * p.taps[1] * p.taps[2];
    const long all_rows = p.depth * taps, pixels = p.batch * p.out[0] * p.out[1] * p.out[2];
    const weight_block own = find_weight_block(&p, get_group_id(0));
    const long begin = pixels * own.part / p.parts, end = pixels * (own.part + 1) / p.parts;
    const int padded_rows = (own.row_count + 11) / 12 * 12;
    const int pitch = p.tile_depth + LANES, output_length = pitch * WIDE;

    x += x_offset + own.group * p.depth * p.source_strides[1];
    dy += dy_offset + (own.group * p.rows + own.first_output) * p.result_strides[1];
    p.source_size -= own.group * p.depth * p.source_strides[1];
    const long dy_size = p.result_size - (own.group * p.rows + own.first_output) * p.result_strides[1];

    for (long pixel = begin; pixel < end; pixel += p.tile_depth) {
        const int count = min((long)p.tile_depth, end - pixel);
        pixel_runs runs;
        find_runs(&runs, &p, pixel, count);
        for (int o = 0; o < own.output_count; o += WIDE) {
            p.result_size = dy_size - o * p.result_strides[1];
            pack_outputs(outputs + o / WIDE * output_length, dy + o * p.result_strides[1], &p, &runs,
                         min(WIDE, own.output_count - o));
        }
        for (int r = 0; r < own.row_count; r += group_rows) {
            const int group_count = min(group_rows, own.row_count - r);
            pack_rows(rows, pitch, x, &p, &runs, own.first_row + r, group_count);
            for (int o = 0; o < own.output_count; o += WIDE) {
                const __local real* B = outputs + o / WIDE * output_length;
                for (int i = 0; i < group_count; i += 12) {
                    __local real* C = tiles + (o / WIDE * padded_rows + r + i) * WIDE;
                    if (own.output_count - o > LANES)
                        tile_12(rows + i * pitch, pitch, B, count, C, pixel > begin);
                    else
                        tile_12_half(rows + i * pitch, pitch, B, count, C, pixel > begin);
                }
            }
        }
    }

    sums += sums_offset + ((own.part * p.groups + own.group) * p.rows + own.first_output) * all_rows + own.first_row;
    for (int o = 0; o < own.output_count; o += WIDE)
        write_sums(sums + o * all_rows, all_rows, tiles + o / WIDE * padded_rows * WIDE, own.row_count,
                   min(WIDE, own.output_count - o));
}
