// Weight gradient on a CPU with AMX tile registers: cpu_implicit_weight.cl's product by the tiles of gemm/amx.cl. Per
// block of pixels the outputs are split to panels, then 32 im2col rows at a time to a strip.
// Options: -DT and -DX, both the dtype (float32, float16 or bfloat16).
#include "kernels/conv/weight_blocks.cl"
#include "kernels/gemm/amx.cl"

REGISTER_ROW(row_1, __local, __local)

#define HEADER 16   // of a panel's words; the first one says that it is unfit

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_amx_weight(const __global stored* x, ulong x_offset, const __global stored* dy, ulong dy_offset,
                     __global real* sums, ulong sums_offset, __local real* outputs, __local real* rows,
                     __local uint* panels, __local uint* strip, __local real* tiles, implicit_problem p)
{
    const int taps = p.taps[0] * p.taps[1] * p.taps[2];
    const long all_rows = p.depth * taps, pixels = p.batch * p.out[0] * p.out[1] * p.out[2];
    const weight_block own = find_weight_block(&p, get_group_id(0));
    const long begin = pixels * own.part / p.parts, end = pixels * (own.part + 1) / p.parts;
    const int padded_rows = (own.row_count + AMX_SIDE - 1) / AMX_SIDE * AMX_SIDE, pitch = p.tile_depth + LANES;
    const int panel_words = HEADER + (int)(p.tile_depth + AMX_SIDE - 1) / AMX_SIDE * AMX_BLOCK;

    x += x_offset + own.group * p.depth * p.source_strides[1];
    dy += dy_offset + (own.group * p.rows + own.first_output) * p.result_strides[1];
    p.source_size -= own.group * p.depth * p.source_strides[1];
    const long dy_size = p.result_size - (own.group * p.rows + own.first_output) * p.result_strides[1];

    AMX_NOTHING_WAITS(waiting)
    amx_begin();
    for (long pixel = begin; pixel < end; pixel += p.tile_depth) {
        const int count = min((long)p.tile_depth, end - pixel);
        pixel_runs runs;
        find_runs(&runs, &p, pixel, count);
        for (int o = 0; o < own.output_count; o += WIDE) {
            __local uint* panel = panels + o / WIDE * panel_words;
            p.result_size = dy_size - o * p.result_strides[1];
            pack_outputs(outputs, dy + o * p.result_strides[1], &p, &runs, min(WIDE, own.output_count - o));
            panel[0] = amx_split_panel(outputs, count, own.output_count - o, panel + HEADER);
        }
        for (int r = 0; r < own.row_count; r += AMX_SIDE) {
            const int group_count = min(AMX_SIDE, own.row_count - r);
            pack_rows(rows, pitch, x, &p, &runs, own.first_row + r, group_count);
            const int unfit = amx_split_rows(rows, pitch, group_count, count, strip);
            for (int o = 0; o < own.output_count; o += WIDE) {
                const __local uint* panel = panels + o / WIDE * panel_words;
                __local real* C = tiles + (o / WIDE * padded_rows + r) * WIDE;
                if (unfit || panel[0]) {
                    amx_settle(&waiting);
                    p.result_size = dy_size - o * p.result_strides[1];
                    pack_outputs(outputs, dy + o * p.result_strides[1], &p, &runs, min(WIDE, own.output_count - o));
                    for (int i = 0; i < group_count; ++i)
                        row_1(rows + i * pitch, outputs, count, C + i * WIDE, pixel > begin);
                    continue;
                }
                const amx_product product = {(ulong)strip, (ulong)(panel + HEADER), (count + AMX_SIDE - 1) / AMX_SIDE,
                                             group_count, own.output_count - o};
                amx_multiply(product, &waiting);
                amx_put(&waiting, (ulong)C, WIDE, pixel > begin);
            }
        }
    }
    amx_settle(&waiting);
    amx_end();

    sums += sums_offset + ((own.part * p.groups + own.group) * p.rows + own.first_output) * all_rows + own.first_row;
    for (int o = 0; o < own.output_count; o += WIDE)
        write_sums(sums + o * all_rows, all_rows, tiles + o / WIDE * padded_rows * WIDE, own.row_count,
                   min(WIDE, own.output_count - o));
}
