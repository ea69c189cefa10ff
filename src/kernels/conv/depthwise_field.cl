// What kernels share that copy a plane of the source, with zeros around it, to local memory: a field.
#include "kernels/conv/lanes.cl"
#include "kernels/conv/depthwise_problem.cl"

#define UNROLLED __attribute__((opencl_unroll_hint(16)))

// Columns [begin, begin + LANES) of the `width` elements at source[line], zeros outside of them; `size`: of memory.
static inline vec row_vector(const __global stored* source, long line, long size, int begin, int width)
{
    const long at = line + begin;
    if (begin >= 0 && begin + LANES <= width)
        return load_lanes(source + at);
    if (begin + LANES <= 0 || begin >= width)
        return 0;
    const mask_vec column = lane_index + begin;
    if (at >= 0 && at + LANES <= size)
        return select((vec)0, load_lanes(source + at), column >= 0 && column < width);
    real lanes[LANES];
    for (int lane = 0; lane < LANES; ++lane)
        lanes[lane] = begin + lane >= 0 && begin + lane < width ? load(T, source, at + lane) : 0;
    return get_vec(0, lanes);
}

// Columns [0, pitch) of a field's row, from column `first` of the source's row on.
static inline void fill_row(__local real* to, int pitch, const __global stored* source, long line, long size, int first,
                            int width)
{
    for (int i = 0; i < pitch; i += LANES)
        put_vec(row_vector(source, line, size, first + i, width), 0, to + i);
}

// A plane of the source as a field of `rows` x `pitch`, whose first ones are row and column `low` of the source.
static inline void fill_field(__local real* field, int rows, int pitch, const __global stored* source, long plane,
                              int2 low, const depthwise_problem* p)
{
    for (int row = 0; row < rows; ++row, field += pitch) {
        const int y = row + low.y;
        if (y >= 0 && y < p->in[0])
            fill_row(field, pitch, source, plane + y * p->source_strides[2], p->source_size, low.x, p->in[1]);
        else
            for (int i = 0; i < pitch; i += LANES)
                put_vec((vec)0, 0, field + i);
    }
}

// `count` results that lie behind each other.
static inline void store_run(__global stored* to, const real* values, int count)
{
    if (count >= LANES) {
        for (int i = 0; i < count; i += LANES) {
            const int at = min(i, count - LANES);
            store_lanes(to + at, get_vec(0, values + at));
        }
        return;
    }
    for (int i = 0; i < count; ++i)
        store(T, to, i, values[i]);
}
