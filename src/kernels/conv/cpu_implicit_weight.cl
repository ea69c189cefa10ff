// Weight gradient on a CPU device, as a matrix product over pixels:
//
//   dw[o][row] = sum over pixels of dy[o][pixel] * x[row][pixel],   row = (channel, tap) or (tap, channel)
//
// One work-item owns tile_rows rows by tile_pixels outputs and one of `parts` shares of the pixels. Per block of pixels
// it packs dy as [output tile][pixel][WIDE], then group_rows im2col rows at a time, and runs the register tile over
// them: C[row][output] += rows[row][pixel] * outputs[pixel][output]. With several parts the sums go to a workspace,
// parts apart, which conv_add_parts adds in order: same bits every run.
#define MAX_LANES 256
#include "kernels/conv/runs.cl"

REGISTER_TILE(tile_12, ROWS_12, __local, __local)

// target[pixel][WIDE]: dy of `columns` outputs. Vectors may write up to LANES - 1 pixels more.
static inline void pack_outputs(__local real* target, const __global stored* dy, const implicit_problem* p,
                         const pixel_runs* runs, int columns)
{
    const long stride = p->result_strides[1], step = p->result_strides[4];
    for (int r = 0; r < runs->count; ++r) {
        const int begin = runs->begin[r], end = runs->begin[r + 1];
        int k = begin;
#if LANES == 16
        // Planar: transposed sixteen by sixteen; outputs beyond the last repeat it.
        for (; step == 1 && k < end; k += LANES) {
            const __global stored* from = dy + runs->place[r] + k - begin;
            __local real* to = target + k * WIDE;
            if (runs->place[r] + k - begin + LANES + (columns - 1) * stride > p->result_size)
                break;
#define GET(name, i) const vec r##name = load_lanes(from + min(i, columns - 1) * stride);
#define PUT(name, i) put_vec(u##name, 0, to + i * WIDE);
            TRANSPOSE_16(GET, PUT)
#undef GET
            if (columns > LANES) {
                to += LANES;
#define GET(name, i) const vec r##name = load_lanes(from + min(i + LANES, columns - 1) * stride);
                TRANSPOSE_16(GET, PUT)
#undef GET
#undef PUT
            }
        }
#endif
        for (; k < end; ++k) {
            const __global stored* from = dy + runs->place[r] + (k - begin) * step;
            __local real* to = target + k * WIDE;
            if (stride == 1 && columns == WIDE) {
                put_vec(load_lanes(from), 0, to);
                put_vec(load_lanes(from + LANES), 1, to);
            } else {
                for (int c = 0; c < WIDE; ++c)
                    to[c] = load(T, from, min(c, columns - 1) * stride);
            }
        }
    }
}

// `count` im2col rows from `first` on, target[row][pitch], tap by tap: the channels of a tap share borders and offsets.
static inline void pack_rows(__local real* target, int pitch, const __global stored* x, const implicit_problem* p,
                      const pixel_runs* runs, int first, int count)
{
    const int taps = p->taps[0] * p->taps[1] * p->taps[2], channels = p->depth;
    const int channel_step = p->taps_inner ? taps : 1, tap_step_ = p->taps_inner ? 1 : channels;
    implicit_problem rest = *p;
    for (int t = 0; t < taps; ++t) {
        // Channels whose row lies in first .. first + count.
        const int from = first - t * tap_step_, to = from + count;
        const int begin = max((from + channel_step - 1) / channel_step, 0);
        const int end = to <= 0 ? 0 : min((to + channel_step - 1) / channel_step, channels);
        if (begin >= end)
            continue;
        __local real* rows = target + (begin * channel_step - from) * pitch;
        const tap_step tap = find_tap(p, t);
        const int transposed = p->source_strides[1] == 1 && end - begin >= LANES;
        rest.source_size = p->source_size - begin * p->source_strides[1];
        for (int i = 0; i * LANES < runs->pixels; ++i)
            if (transposed)
                pack_lanes_transposed(rows + i * LANES, channel_step * pitch, x + begin * p->source_strides[1], runs,
                                      &rest, tap, i, end - begin);
            else
                pack_lanes(rows + i * LANES, channel_step * pitch, x + begin * p->source_strides[1], runs, &rest, tap,
                           i, end - begin);
    }
}

// sums[output][row] from tiles[row][WIDE].
static inline void write_sums(__global real* sums, long pitch, const __local real* tiles, int rows, int columns)
{
    int r = 0;
#if LANES == 16
    for (; r + LANES <= rows; r += LANES)
        for (int c = 0; c < columns; c += LANES) {
            const int count = min(LANES, columns - c);
            const __local real* from = tiles + r * WIDE + c;
            __global real* to = sums + c * pitch + r;
#define GET(name, i) const vec r##name = get_vec(0, from + i * WIDE);
#define PUT(name, i) if (i < count) put_vec(u##name, 0, to + i * pitch);
            TRANSPOSE_16(GET, PUT)
#undef GET
#undef PUT
        }
#endif
    for (int c = 0; c < columns; ++c)
        for (int i = r; i < rows; ++i)
            sums[c * pitch + i] = tiles[i * WIDE + c];
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_implicit_weight(const __global stored* x, ulong x_offset, const __global stored* dy, ulong dy_offset,
                          __global real* sums, ulong sums_offset, __local real* outputs, __local real* rows,
                          __local real* tiles, int group_rows, implicit_problem p)
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
    const int padded_rows = (row_count + 11) / 12 * 12;
    const int pitch = p.tile_depth + LANES, output_length = pitch * WIDE;

    x += x_offset + group * p.depth * p.source_strides[1];
    dy += dy_offset + (group * p.rows + first_output) * p.result_strides[1];
    p.source_size -= group * p.depth * p.source_strides[1];
    const long dy_size = p.result_size - (group * p.rows + first_output) * p.result_strides[1];

    for (long pixel = begin; pixel < end; pixel += p.tile_depth) {
        const int count = min((long)p.tile_depth, end - pixel);
        pixel_runs runs;
        find_runs(&runs, &p, pixel, count);
        for (int o = 0; o < output_count; o += WIDE) {
            p.result_size = dy_size - o * p.result_strides[1];
            pack_outputs(outputs + o / WIDE * output_length, dy + o * p.result_strides[1], &p, &runs,
                         min(WIDE, output_count - o));
        }
        for (int r = 0; r < row_count; r += group_rows) {
            const int group_count = min(group_rows, row_count - r);
            pack_rows(rows, pitch, x, &p, &runs, first_row + r, group_count);
            for (int o = 0; o < output_count; o += WIDE) {
                const __local real* B = outputs + o / WIDE * output_length;
                for (int i = 0; i < group_count; i += 12) {
                    __local real* C = tiles + (o / WIDE * padded_rows + r + i) * WIDE;
                    if (output_count - o > LANES)
                        tile_12(rows + i * pitch, pitch, B, count, C, pixel > begin);
                    else
                        tile_12_half(rows + i * pitch, pitch, B, count, C, pixel > begin);
                }
            }
        }
    }

    sums += sums_offset + ((part * p.groups + group) * p.rows + first_output) * all_rows + first_row;
    for (int o = 0; o < output_count; o += WIDE)
        write_sums(sums + o * all_rows, all_rows, tiles + o / WIDE * padded_rows * WIDE, row_count,
                   min(WIDE, output_count - o));
}
