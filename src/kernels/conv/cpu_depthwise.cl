// Depthwise convolution on a CPU device: one input channel per group, so every product is used once and the work is
// loads. Forward and data gradient share a kernel per layout, as in cpu_implicit.cl: the source of a position is
// position*scale + shift + tap*step, one launch per residue for the data gradient of a strided convolution.
//
// Planar layout: a work-item owns a band of rows of the planes of one group and image. It copies the source into local
// memory with its padding, split by the residue of the position modulo the scale,
//
//     field[residue z... y, x][row][column] = source[row*scale + residue + ...],
//
// so that each tap of each position lies at a fixed distance from position*pitch + column: whole bands are computed by
// vectors without a mask, including some columns between the rows that nobody reads.
//
// channels_last layout: cpu_depthwise_channels.cl, a part of this program.
#include "kernels/conv/lanes.cl"
#include "kernels/conv/depthwise_problem.cl"
#include "kernels/conv/depthwise_sums.cl"

#define UNROLL 4
#define MAX_TAPS 128

// Number of field rows (columns) that a band of `count` positions needs, of each residue.
static inline int field_extent(const depthwise_problem* p, int axis, int count)
{
    const int first = min(0, (int)((p->taps[axis] - 1) * p->step[axis]));
    const int last = max(0, (int)((p->taps[axis] - 1) * p->step[axis]));
    return (int)((count - 1) + (last - first) / p->scale[axis] + 1);
}

// target[0..count) = base[at + (x + i * scale) * stride] where x + i * scale is inside the width, 0 elsewhere. Vectors
// may write up to LANES - 1 more.
static inline void copy_row(__local real* target, int count, const __global stored* base, long at, long size, int x,
                            int scale, int width, long stride)
{
    const long step = stride * scale;
    for (int i = 0; i < count; i += LANES) {
        const int from = x + i * scale;
        const long first = at + from * stride;
        if (step <= 2 && first >= 0 && first + step * LANES <= size) {
            vec v = load_lanes(base + first);
            if (step == 2)
                v = even_lanes(v, load_lanes(base + first + LANES));
            const mask_vec column = lane_index * scale + from;
            put_vec(select((vec)0, v, column >= 0 && column < width), 0, target + i);
        } else {
            for (int lane = 0; lane < min(LANES, count - i); ++lane) {
                const int column = from + lane * scale;
                target[i + lane] = column >= 0 && column < width ? load(T, base, at + column * stride) : 0;
            }
        }
    }
}

// Copies the source rows of a band into the field, `rows` of `pitch` for each residue (y, x); `at`: the plane.
static inline void fill_field(__local real* field, const __global stored* source, long at, const depthwise_problem* p,
                       int first_row, int rows, int pitch)
{
    const int scale_y = p->scale[0], scale_x = p->scale[1], width = p->in[1], height = p->in[0];
    const int low_y = min(0, (int)((p->taps[0] - 1) * p->step[0])),
              low_x = min(0, (int)((p->taps[1] - 1) * p->step[1]));
    const int begin_x = (int)p->shift[1] + low_x;           // source column of field column 0, residue 0
    for (int ry = 0; ry < scale_y; ++ry)
        for (int rx = 0; rx < scale_x; ++rx)
            for (int row = 0; row < rows; ++row, field += pitch) {
                const int y = (first_row + row) * scale_y + (int)p->shift[0] + low_y + ry;
                if (y < 0 || y >= height)
                    for (int i = 0; i < pitch; i += LANES)
                        put_vec((vec)0, 0, field + i);
                else
                    copy_row(field, pitch, source, at + y * p->source_strides[2], p->source_size, begin_x + rx, scale_x,
                             width, p->source_strides[3]);
            }
}

// Distance of every tap from position*pitch + column in the field.
static inline void tap_places(int* places, const depthwise_problem* p, int rows, int pitch)
{
    const int low_y = min(0, (int)((p->taps[0] - 1) * p->step[0])),
              low_x = min(0, (int)((p->taps[1] - 1) * p->step[1]));
    const int scale_y = p->scale[0], scale_x = p->scale[1];
    for (int t = 0; t < p->taps[0] * p->taps[1]; ++t) {
        const int dy = t / (int)p->taps[1] * (int)p->step[0] - low_y,
                  dx = t % (int)p->taps[1] * (int)p->step[1] - low_x;
        places[t] = ((dy % scale_y * scale_x + dx % scale_x) * rows + dy / scale_y) * pitch + dx / scale_x;
    }
}

static inline real tap_weight(const __global stored* w, const depthwise_problem* p, int t)
{
    const long y = p->tap_first[0] + t / p->taps[1] * p->tap_period[0];
    const long x = p->tap_first[1] + t % p->taps[1] * p->tap_period[1];
    return load(T, w, y * p->w_strides[2] + x * p->w_strides[3]);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_depthwise_planar(const __global stored* source, ulong source_offset, const __global stored* w, ulong w_offset,
                           const __global stored* bias, ulong bias_offset, __global stored* result,
                           ulong result_offset, __local real* field, __local real* sums, depthwise_problem p)
{
    const int height = p.out[0], width = p.out[1], band = p.band, taps = p.taps[0] * p.taps[1];
    const int bands = (height + band - 1) / band;
    const long id = get_group_id(0);
    const int first_row = id % bands * band, rows = min(band, height - first_row);
    const long group = id / bands % p.groups, n = id / bands / p.groups;
    const int field_rows = field_extent(&p, 0, rows), pitch = field_extent(&p, 1, width);
    const int length = (rows - 1) * pitch + width;

    source += source_offset;
    w += w_offset;
    result += result_offset + n * p.result_strides[0];
    int places[MAX_TAPS];
    real weights[MAX_TAPS];
    tap_places(places, &p, field_rows, pitch);
    for (int r = 0; r < p.rows; ++r) {
        const long channel = group * p.rows + r;
        for (int d = 0; d < p.depth; ++d) {
            const long source_channel = group * p.depth + d;
            if (r == 0 || p.depth > 1)
                fill_field(field, source, n * p.source_strides[0] + source_channel * p.source_strides[1], &p, first_row,
                           field_rows, pitch);
            const __global stored* taps_w = w + (p.depth > 1 ? source_channel : channel) * p.w_strides[0];
            for (int t = 0; t < taps; ++t)
                weights[t] = tap_weight(taps_w, &p, t);
            for (int q = 0; q < length; q += UNROLL * LANES) {
                vec a0 = 0, a1 = 0, a2 = 0, a3 = 0;
                if (d > 0) {
                    a0 = get_vec(0, sums + q);
                    a1 = get_vec(1, sums + q);
                    a2 = get_vec(2, sums + q);
                    a3 = get_vec(3, sums + q);
                }
                for (int t = 0; t < taps; ++t) {
                    const __local real* from = field + places[t] + q;
                    const vec v = weights[t];
                    a0 = fma(v, get_vec(0, from), a0);
                    a1 = fma(v, get_vec(1, from), a1);
                    a2 = fma(v, get_vec(2, from), a2);
                    a3 = fma(v, get_vec(3, from), a3);
                }
                put_vec(a0, 0, sums + q);
                put_vec(a1, 1, sums + q);
                put_vec(a2, 2, sums + q);
                put_vec(a3, 3, sums + q);
            }
        }
        const real b = p.finish.has_bias ? load(T, bias, bias_offset + channel) : 0;
        __global stored* to = result + channel * p.result_strides[1] + first_row * p.result_strides[2];
        // Rows one after the other, without the columns between them; dense results are then one long row.
        __local real* compact = sums + band * pitch + 4 * LANES;
        for (int row = 0; row < rows; ++row)
            for (int i = 0; i < width; i += LANES) {
                const vec v = get_vec(0, sums + row * pitch + i) + b;
                put_vec(activate_lanes(v, &p.finish), 0, compact + row * width + i);
            }
        const int dense = p.result_strides[3] == 1 && p.result_strides[2] == width;
        const int length_out = dense ? rows * width : width;
        for (int row = 0; row < (dense ? 1 : rows); ++row, compact += width, to += p.result_strides[2]) {
            int i = 0;
            if (p.result_strides[3] == 1)
                for (; i + LANES <= length_out; i += LANES)
                    store_lanes(to + i, get_vec(0, compact + i));
            for (; i < length_out; ++i)
                store(T, to, i * p.result_strides[3], compact[i]);
        }
    }
}

// Weight gradient, planar: a work-item owns the taps of one output channel and walks all images. `sums` holds dy in the
// pitch of the field, with zeros between the rows.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_depthwise_planar_weight(const __global stored* x, ulong x_offset, const __global stored* dy, ulong dy_offset,
                                  __global stored* dw, ulong dw_offset, __local real* field, __local real* sums,
                                  depthwise_problem p)
{
    const long channel = get_group_id(0), group = channel / p.rows;
    const int height = p.out[0], width = p.out[1], band = p.band, taps = p.taps[0] * p.taps[1];
    const int pitch = field_extent(&p, 1, width);
    vec totals[MAX_TAPS];
    for (int t = 0; t < taps; ++t)
        totals[t] = 0;
    for (long n = 0; n < p.batch; ++n)
        for (int first_row = 0; first_row < height; first_row += band) {
            const int rows = min(band, height - first_row), field_rows = field_extent(&p, 0, rows);
            int places[MAX_TAPS];
            tap_places(places, &p, field_rows, pitch);
            fill_field(field, x + x_offset, n * p.source_strides[0] + group * p.source_strides[1], &p, first_row,
                       field_rows, pitch);
            // Vectors run past the last row: what lies there meets a zero of dy, but local memory may hold a NaN.
            __local real* end = field + p.scale[0] * p.scale[1] * field_rows * pitch;
            for (int i = 0; i < pitch + 2 * LANES; i += LANES)
                put_vec((vec)0, 0, end + i);
            const long plane = n * p.result_strides[0] + channel * p.result_strides[1];
            __local real* to = sums;
            for (int row = 0; row < rows; ++row, to += pitch)
                copy_row(to, pitch, dy + dy_offset, plane + (first_row + row) * p.result_strides[2], p.result_size, 0,
                         1, width, p.result_strides[3]);
            const int length = rows * pitch;
            for (int i = 0; i < 2 * LANES; ++i)
                to[i] = 0;
            for (int t = 0; t < taps; ++t) {
                const __local real* from = field + places[t];
                vec a0 = 0, a1 = 0;
                for (int q = 0; q < length; q += 2 * LANES) {
                    a0 = fma(get_vec(0, sums + q), get_vec(0, from + q), a0);
                    a1 = fma(get_vec(1, sums + q), get_vec(1, from + q), a1);
                }
                totals[t] += a0 + a1;
            }
        }
    dw += dw_offset + channel * p.w_strides[0];
    for (int t = 0; t < taps; ++t) {
        const int ty = t / (int)p.taps[1], tx = t % (int)p.taps[1];
        real total = lane_sum(totals[t]);
        // An infinity that meets no dy meets a zero between the rows, which makes it NaN.
        if (!isfinite(total))
            total = tap_total(x + x_offset, dy + dy_offset, &p, channel, ty, tx);
        store(T, dw, ty * p.w_strides[2] + tx * p.w_strides[3], total);
    }
}

#include "kernels/conv/cpu_depthwise_channels.cl"
