// Both sides of a weight gradient packed by blocks of pixels, and finished tiles of sums written.
#define MAX_LANES 256
#include "kernels/conv/runs.cl"

// What a work-group sums up: some rows of (channel, tap) of some outputs of a group, over one part of the pixels.
typedef struct {
    long first_row, first_output, part, group;
    int row_count, output_count;
} weight_block;

static inline weight_block find_weight_block(const implicit_problem* p, long id)
{
    const long rows = p->depth * p->taps[0] * p->taps[1] * p->taps[2];
    const long row_blocks = (rows + p->tile_rows - 1) / p->tile_rows;
    const long output_blocks = (p->rows + p->tile_pixels - 1) / p->tile_pixels;
    weight_block b;
    b.first_row = id % row_blocks * p->tile_rows;
    id /= row_blocks;
    b.first_output = id % output_blocks * p->tile_pixels;
    id /= output_blocks;
    b.part = id % p->parts;
    b.group = id / p->parts;
    b.row_count = min(p->tile_rows, rows - b.first_row);
    b.output_count = min(p->tile_pixels, p->rows - b.first_output);
    return b;
}

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
