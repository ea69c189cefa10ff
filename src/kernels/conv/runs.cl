// Pixels run over batch and positions alike. A run is a stretch of pixels in one row of positions: its sources lie at
// one stride, so it is packed by vectors, with zeros selected outside the borders. The includer defines MAX_RUNS.
#include "kernels/conv/lanes.cl"
#include "kernels/conv/planar_problem.cl"

typedef struct {
    int begin[MAX_RUNS + 1];           // pixels of run r within the tile: begin[r] .. begin[r + 1]
    int z[MAX_RUNS], y[MAX_RUNS], x[MAX_RUNS];   // source position of the first pixel at tap 0
    long base[MAX_RUNS];              // element of the image
    int count;
} pixel_runs;

inline void find_runs(pixel_runs* runs, const planar_problem* p, long pixel, int count)
{
    long x = pixel % p->out[2], y = pixel / p->out[2] % p->out[1];
    long z = pixel / (p->out[2] * p->out[1]) % p->out[0], n = pixel / (p->out[2] * p->out[1] * p->out[0]);
    int r = 0;
    for (int at = 0; at < count; ++r) {
        runs->begin[r] = at;
        runs->z[r] = z * p->scale[0] + p->shift[0];
        runs->y[r] = y * p->scale[1] + p->shift[1];
        runs->x[r] = x * p->scale[2] + p->shift[2];
        runs->base[r] = n * p->source_strides[0];
        at += min((int)(p->out[2] - x), count - at);
        x = 0;
        if (++y == p->out[1]) {
            y = 0;
            if (++z == p->out[0]) {
                z = 0;
                ++n;
            }
        }
    }
    runs->begin[r] = count;
    runs->count = r;
}

// LANES sources of a row from position x on; `row` is the element of position 0.
inline vec sources(const __global stored* source, long row, int x, const planar_problem* p)
{
    const int scale = p->scale[2], width = p->in[2];
    const long first = row + (long)x * p->source_strides[4], stride = p->source_strides[4] * scale;
    if (stride <= 2 && first >= 0 && first + stride * LANES <= p->source_size) {
        vec v = load_lanes(source + first);
        if (stride == 2)
            v = even_lanes(v, load_lanes(source + first + LANES));
        if (x >= 0 && x + (LANES - 1) * scale < width)
            return v;
        const mask_vec at = lane_index * scale + x;
        return select((vec)0, v, at >= 0 && at < width);
    }
    real lanes[LANES];
    for (int i = 0; i < LANES; ++i) {
        const int at = x + i * scale;
        lanes[i] = at >= 0 && at < width ? load(T, source, first + i * stride) : 0;
    }
    return get_vec(0, lanes);
}
