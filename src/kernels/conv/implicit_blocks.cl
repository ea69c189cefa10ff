// Blocks of k of an implicit product: their part of the source packed, and finished tiles of sums written. A tile is
// WIDE pixels wide.
#define MAX_LANES WIDE
#include "kernels/conv/runs.cl"

// Block of k: channels c_begin.. and taps t_begin.., as rows of packed at c * channel_pitch + t * tap_pitch.
typedef struct {
    int c_begin, c_count, t_begin, t_count, channel_pitch, tap_pitch;
} k_block;

// packed[k][WIDE] of a block of k for the pixels of `runs`.
static inline void pack(__local real* packed, const __global stored* source, const implicit_problem* p,
                        const pixel_runs* runs, const k_block* block)
{
    const int transposed = p->source_strides[1] == 1 && block->c_count >= LANES;
    source += block->c_begin * p->source_strides[1];
    implicit_problem rest = *p;
    rest.source_size -= block->c_begin * p->source_strides[1];
    tap_step tap = find_tap(p, block->t_begin);
    for (int t = 0; t < block->t_count; ++t, packed += block->tap_pitch, next_tap(&tap, p)) {
        for (int i = 0; i * LANES < runs->pixels; ++i)
            if (transposed)
                pack_lanes_transposed(packed + i * LANES, block->channel_pitch, source, runs, p, tap, i,
                                      block->c_count);
            else
                pack_lanes(packed + i * LANES, block->channel_pitch, source, runs, &rest, tap, i, block->c_count);
    }
}

// LANES finished sums to the result, or added to it.
static inline void put_result(__global stored* to, vec v, const epilogue* e)
{
    store_lanes(to, e->accumulate ? activate_lanes(v + load_lanes(to), e) : v);
}
static inline void put_one(__global stored* to, real v, const epilogue* e)
{
    store(T, to, 0, e->accumulate ? activate(v + load(T, to, 0), e) : v);
}

// Adds bias and activation to the finished sums[rows][WIDE] of a tile and writes them.
static inline void finish(__local real* sums, __global stored* result, const __global stored* bias, int rows,
                   const pixel_runs* runs, const implicit_problem* p)
{
    const int count = runs->begin[runs->count];
    const long row_stride = p->result_strides[1], pixel_stride = p->result_strides[4];
    const epilogue* e = &p->finish;
    if (e->has_bias || e->activation)
        for (int r = 0; r < rows; ++r) {
            const real b = e->has_bias ? load(T, bias, r) : 0;
            for (int i = 0; i < 2; ++i) {
                const vec v = get_vec(i, sums + r * WIDE) + b;
                put_vec(e->accumulate ? v : activate_lanes(v, e), i, sums + r * WIDE);
            }
        }
    if (row_stride == 1 && rows > 1) {
        int row = 0;
#if LANES == 16
        for (int i = 0; i < count && rows >= LANES; i += LANES) {
            const int lanes = min(LANES, count - i);
            __global stored* to[LANES];
            for (int run = 0; run < runs->count; ++run)
                for (int at = max(runs->begin[run], i); at < min(runs->begin[run + 1], i + LANES); ++at)
                    to[at - i] = result + runs->place[run] + (at - runs->begin[run]) * pixel_stride;
            // The last vector overlaps the one before it, unless the result is added to.
            row = e->accumulate ? rows / LANES * LANES : rows;
            for (int done = 0; done < row; done += LANES) {
                const int r = min(done, rows - LANES);
                const __local real* from = sums + r * WIDE + i;
#define GET(name, j) const vec r##name = get_vec(0, from + j * WIDE);
#define PUT(name, j) if (j < lanes) put_result(to[j] + r, u##name, e);
                TRANSPOSE_16(GET, PUT)
#undef GET
#undef PUT
            }
        }
#endif
        for (int run = 0; run < runs->count; ++run)
            for (int i = runs->begin[run]; i < runs->begin[run + 1]; ++i) {
                __global stored* to = result + runs->place[run] + (i - runs->begin[run]) * pixel_stride;
                for (int r = row; r < rows; ++r)
                    put_one(to + r, sums[r * WIDE + i], e);
            }
        return;
    }
    // Runs that follow each other in memory are one stretch.
    for (int run = 0; run < runs->count;) {
        const int begin = runs->begin[run];
        const long place = runs->place[run];
        ++run;
        while (run < runs->count && pixel_stride == 1 && runs->place[run] == place + runs->begin[run] - begin)
            ++run;
        const int end = runs->begin[run];
        for (int r = 0; r < rows; ++r) {
            const __local real* from = sums + r * WIDE;
            __global stored* to = result + place + r * row_stride;
            int i = begin;
            if (pixel_stride == 1)
                for (; i + LANES <= end; i += LANES)
                    put_result(to + i - begin, get_vec(0, from + i), e);
            for (; i < end; ++i)
                put_one(to + (i - begin) * pixel_stride, from[i], e);
        }
    }
}

// Position of a block of k in a row of the weights.
static inline long weight_column(const implicit_problem* p, const k_block* block)
{
    if (block->t_count == 0)   // a residue that no tap reaches: nothing to read, and nothing to divide by
        return 0;
    if (p->taps_inner)
        return (long)block->c_begin * p->kernel_size[0] * p->kernel_size[1] * p->kernel_size[2] + block->t_begin;
    const int tx = block->t_begin % (int)p->taps[2], ty = block->t_begin / (int)p->taps[2] % (int)p->taps[1];
    const int tz = block->t_begin / (int)(p->taps[2] * p->taps[1]);
    const long tap = ((p->tap_first[0] + tz * p->tap_period[0]) * p->kernel_size[1] + p->tap_first[1] +
                      ty * p->tap_period[1]) * p->kernel_size[2] + p->tap_first[2] + tx * p->tap_period[2];
    return tap * p->depth + block->c_begin;
}
