// Pixels run over batch and positions alike. A run is a stretch of pixels whose sources (and results) lie at one
// stride: an image if the source has the positions of the result, a row of positions otherwise. Its sources are packed
// by vectors, with zeros selected outside the borders. The includer defines MAX_LANES, the pixels of a block at most.
#include "kernels/conv/lanes.cl"
#include "kernels/conv/implicit_problem.cl"
#include "kernels/conv/transpose.cl"

#define MAX_VECS (MAX_LANES / LANES)

typedef struct {
    int count, pixels;                     // of runs, of pixels in the block
    int flat;                              // no third dimension
    int first[MAX_VECS];                   // run of pixel i * LANES
    int begin[MAX_LANES + 1];              // pixels of run r within its block: begin[r] .. begin[r + 1]
    long source[MAX_LANES];                // element of the first pixel at tap 0
    long place[MAX_LANES];                 // element of the first pixel on the result's side
    mask_vec z[MAX_VECS], y[MAX_VECS], x[MAX_VECS];   // source position of every pixel at tap 0
    int in_row[MAX_VECS];                  // whether LANES pixels lie in one row, from:
    int first_y[MAX_VECS], first_x[MAX_VECS];
} pixel_runs;

static inline int images_are_runs(const implicit_problem* p)
{
    int linear = 1;
    for (int i = 0; i < 3; ++i)
        linear &= p->scale[i] == 1;
    for (int i = 0; i < 2; ++i)
        linear &= p->source_strides[2 + i] == p->out[1 + i] * p->source_strides[3 + i] &&
                  p->result_strides[2 + i] == p->out[1 + i] * p->result_strides[3 + i];
    return linear;
}

static inline void find_runs(pixel_runs* runs, const implicit_problem* p, long pixel, int count)
{
    const int width = p->out[2], height = p->out[1], depth = p->out[0];
    const int sz = p->scale[0], sy = p->scale[1], sx = p->scale[2];
    int x = pixel % width, y = pixel / width % height, z = pixel / ((long)width * height) % depth;
    long n = pixel / ((long)width * height * depth);
    const int images = images_are_runs(p);
    int lanes_z[MAX_LANES], lanes_y[MAX_LANES], lanes_x[MAX_LANES];
    int r = 0;
    for (int at = 0; at < count;) {
        if (at == 0 || !images || (y == 0 && z == 0)) {
            const int fz = z * sz + (int)p->shift[0], fy = y * sy + (int)p->shift[1], fx = x * sx + (int)p->shift[2];
            runs->begin[r] = at;
            runs->source[r] = n * p->source_strides[0] + fz * p->source_strides[2] + fy * p->source_strides[3] +
                              fx * p->source_strides[4];
            runs->place[r] = n * p->result_strides[0] + z * p->result_strides[2] + y * p->result_strides[3] +
                             x * p->result_strides[4];
            ++r;
        }
        for (; x < width && at < count; ++x, ++at) {
            lanes_z[at] = z * sz + (int)p->shift[0];
            lanes_y[at] = y * sy + (int)p->shift[1];
            lanes_x[at] = x * sx + (int)p->shift[2];
        }
        x = 0;
        if (++y == height) {
            y = 0;
            if (++z == depth) {
                z = 0;
                ++n;
            }
        }
    }
    runs->begin[r] = count;
    runs->count = r;
    runs->flat = p->in[0] * p->taps[0] * p->out[0] == 1 && p->shift[0] == 0;
    for (int i = 0, run = 0; i < count; i += LANES) {
        while (runs->begin[run + 1] <= i)
            ++run;
        runs->first[i / LANES] = run;
    }
    runs->pixels = count;
    for (int i = 0; i < count; i += LANES) {
        runs->z[i / LANES] = get_lanes(lanes_z + i);
        runs->y[i / LANES] = get_lanes(lanes_y + i);
        runs->x[i / LANES] = get_lanes(lanes_x + i);
        runs->first_y[i / LANES] = lanes_y[i];
        runs->first_x[i / LANES] = lanes_x[i];
        runs->in_row[i / LANES] = i + LANES <= count && runs->begin[runs->first[i / LANES] + 1] >= i + LANES &&
                                  lanes_x[i + LANES - 1] == lanes_x[i] + (LANES - 1) * sx;
    }
}

// One tap: how far its sources lie from those of tap 0, in positions and elements.
typedef struct {
    int tap[3];
    int z, y, x;
    long shift;
} tap_step;

static inline void place_tap(tap_step* step, const implicit_problem* p)
{
    step->z = step->tap[0] * (int)p->step[0];
    step->y = step->tap[1] * (int)p->step[1];
    step->x = step->tap[2] * (int)p->step[2];
    step->shift = step->z * p->source_strides[2] + step->y * p->source_strides[3] + step->x * p->source_strides[4];
}

static inline tap_step find_tap(const implicit_problem* p, int tap)
{
    // Some phases of a strided gradient have no tap at all.
    const int taps_x = max((int)p->taps[2], 1), taps_y = max((int)p->taps[1], 1);
    tap_step step = {{tap / (taps_x * taps_y), tap / taps_x % taps_y, tap % taps_x}};
    place_tap(&step, p);
    return step;
}

static inline void next_tap(tap_step* step, const implicit_problem* p)
{
    if (++step->tap[2] == (int)p->taps[2]) {
        step->tap[2] = 0;
        if (++step->tap[1] == (int)p->taps[1]) {
            step->tap[1] = 0;
            ++step->tap[0];
        }
    }
    place_tap(step, p);
}

static inline mask_vec inside_borders(const pixel_runs* runs, const implicit_problem* p, tap_step tap, int i)
{
    const mask_vec y = runs->y[i] + tap.y, x = runs->x[i] + tap.x;
    const mask_vec inside = y >= 0 && y < (int)p->in[1] && x >= 0 && x < (int)p->in[2];
    if (runs->flat)
        return inside;
    const mask_vec z = runs->z[i] + tap.z;
    return inside && z >= 0 && z < (int)p->in[0];
}

// The loads of LANES sources: one for each run that they touch.
typedef struct {
    int count, whole, safe;
    long from[LANES];
    mask_vec mask[LANES];
} lane_loads;

static inline void find_loads(lane_loads* loads, const pixel_runs* runs, const implicit_problem* p, tap_step tap, int i,
                       int channels)
{
    const long stride = p->source_strides[4] * p->scale[2];
    const int first_y = runs->first_y[i] + tap.y, first_x = runs->first_x[i] + tap.x;
    if (runs->in_row[i] && runs->flat && first_y >= 0 && first_y < (int)p->in[1] && first_x >= 0 &&
        first_x + (LANES - 1) * (int)p->scale[2] < (int)p->in[2]) {
        const int r = runs->first[i];
        const long from = runs->source[r] + tap.shift + (i * LANES - runs->begin[r]) * stride;
        loads->count = 1;
        loads->whole = 1;
        loads->safe = (stride == 1 || stride == 2) && from >= 0 &&
                      from + (channels - 1) * p->source_strides[1] + stride * LANES <= p->source_size;
        loads->from[0] = from;
        loads->mask[0] = (mask_vec)-1;
        return;
    }
    const mask_vec inside = inside_borders(runs, p, tap, i), lane = lane_index + i * LANES;
    loads->count = 0;
    loads->whole = 1;
    loads->safe = stride == 1 || stride == 2;
    for (int r = runs->first[i]; r < runs->count && runs->begin[r] < (i + 1) * LANES; ++r) {
        const int begin = runs->begin[r], end = runs->begin[r + 1];
        const mask_vec mask = inside && lane >= begin && lane < end;
        if (!any(mask))
            continue;
        const long from = runs->source[r] + tap.shift + (i * LANES - begin) * stride;
        loads->from[loads->count] = from;
        loads->mask[loads->count] = mask;
        loads->whole &= all(mask);
        loads->safe &= from >= 0 && from + (channels - 1) * p->source_strides[1] + stride * LANES <= p->source_size;
        ++loads->count;
    }
}

// For `channels` channels: target[c * pitch + 0..LANES) = sources of the pixels i * LANES.., 0 outside the borders.
static inline void pack_lanes(__local real* target, int pitch, const __global stored* source, const pixel_runs* runs,
                       const implicit_problem* p, tap_step tap, int i, int channels)
{
    const long stride = p->source_strides[4] * p->scale[2], plane = p->source_strides[1];
    lane_loads loads;
    find_loads(&loads, runs, p, tap, i, channels);
    if (loads.count == 0) {
        for (int c = 0; c < channels; ++c, target += pitch)
            put_vec((vec)0, 0, target);
    } else if (loads.safe && stride == 1 && loads.count == 1) {
        const __global stored* from = source + loads.from[0];
        const mask_vec mask = loads.mask[0];
        if (loads.whole)
            for (int c = 0; c < channels; ++c, from += plane, target += pitch)
                put_vec(load_lanes(from), 0, target);
        else
            for (int c = 0; c < channels; ++c, from += plane, target += pitch)
                put_vec(select((vec)0, load_lanes(from), mask), 0, target);
    } else if (loads.safe && loads.whole && loads.count == 1) {
        const __global stored* from = source + loads.from[0];
        for (int c = 0; c < channels; ++c, from += plane, target += pitch)
            put_vec(even_lanes(load_lanes(from), load_lanes(from + LANES)), 0, target);
    } else if (loads.safe && stride == 1 && loads.count == 2) {
        const __global stored *a = source + loads.from[0], *b = source + loads.from[1];
        const mask_vec mask_a = loads.mask[0], mask_b = loads.mask[1];
        for (int c = 0; c < channels; ++c, a += plane, b += plane, target += pitch)
            put_vec(select(select((vec)0, load_lanes(a), mask_a), load_lanes(b), mask_b), 0, target);
    } else if (loads.safe) {
        for (int c = 0; c < channels; ++c, source += plane, target += pitch) {
            vec sum = 0;
            for (int n = 0; n < loads.count; ++n) {
                vec v = load_lanes(source + loads.from[n]);
                if (stride == 2)
                    v = even_lanes(v, load_lanes(source + loads.from[n] + LANES));
                sum = select(sum, v, loads.mask[n]);
            }
            put_vec(sum, 0, target);
        }
    } else {
        for (int c = 0; c < channels; ++c, source += plane, target += pitch)
            put_vec((vec)0, 0, target);
        target -= channels * pitch;
        source -= channels * plane;
        for (int n = 0; n < loads.count; ++n)
            for (int lane = 0; lane < LANES; ++lane)
                if (any(loads.mask[n] && lane_index == lane))
                    for (int c = 0; c < channels; ++c)
                        target[c * pitch + lane] = load(T, source, loads.from[n] + c * plane + lane * stride);
    }
}

#if LANES == 16
// The same for channels that are innermost in memory, at least LANES of them: sixteen by sixteen, transposed.
static inline void pack_lanes_transposed(__local real* target, int pitch, const __global stored* source,
                                  const pixel_runs* runs, const implicit_problem* p, tap_step tap, int i, int channels)
{
    const long stride = p->source_strides[4] * p->scale[2];
    long from[LANES];
    int lanes[LANES];
    vstore16(inside_borders(runs, p, tap, i), 0, lanes);
    for (int r = runs->first[i]; r < runs->count && runs->begin[r] < (i + 1) * LANES; ++r)
        for (int at = max(runs->begin[r], i * LANES); at < min(runs->begin[r + 1], (i + 1) * LANES); ++at)
            from[at - i * LANES] = runs->source[r] + tap.shift + (at - runs->begin[r]) * stride;
    for (int lane = max(runs->pixels - i * LANES, 0); lane < LANES; ++lane)
        lanes[lane] = 0;
    for (int done = 0; done < channels; done += LANES) {
        const int c = min(done, channels - LANES);
        __local real* to = target + c * pitch;
#define GET(name, j) const vec r##name = lanes[j] ? load_lanes(source + from[j] + c) : (vec)0;
#define PUT(name, j) put_vec(u##name, 0, to + j * pitch);
        TRANSPOSE_16(GET, PUT)
#undef GET
#undef PUT
    }
}
#else
#define pack_lanes_transposed pack_lanes
#endif
