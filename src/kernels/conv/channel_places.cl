// Where the pixels of a convolution with channels innermost lie. Needs implicit_problem.cl.

// places[i] for `count` pixels of a row from x on, of one tap: elements from `from` on at equal steps; -1 outside of
// the row, and everywhere if the row itself is outside.
static inline void place_row(__local int* places, int count, int from, int x, int scale, int stride, int width,
                             int inside)
{
    from += x * stride;
    for (int i = 0; i < count; ++i, x += scale, from += scale * stride)
        places[i] = inside && x >= 0 && x < width ? from : -1;
}

// Where the taps of `count` pixels lie, and after them where their results do; by stretches of pixels in one row.
static inline void find_places(__local int* places, int pitch, const implicit_problem* p, long pixel, int count)
{
    const int taps_x = p->taps[2], taps_y = p->taps[1], taps_z = p->taps[0];
    const int width = p->out[2], height = p->out[1], depth = p->out[0];
    const int step_z = p->step[0], step_y = p->step[1], step_x = p->step[2], scale_x = p->scale[2];
    const int in_z = p->in[0], in_y = p->in[1], in_x = p->in[2];
    const int source_n = p->source_strides[0], source_z = p->source_strides[2], source_y = p->source_strides[3],
              source_x = p->source_strides[4], result_x = p->result_strides[4];
    int x = pixel % width, y = pixel / width % height, z = pixel / ((long)width * height) % depth;
    int n = pixel / ((long)width * height * depth);
    for (int at = 0; at < count;) {
        const int run = min(width - x, count - at);
        const int fz = z * (int)p->scale[0] + (int)p->shift[0], fy = y * (int)p->scale[1] + (int)p->shift[1];
        const int fx = x * scale_x + (int)p->shift[2];
        __local int* to = places + at;
        for (int tz = 0, sz = fz; tz < taps_z; ++tz, sz += step_z)
            for (int ty = 0, sy = fy; ty < taps_y; ++ty, sy += step_y) {
                const int inside = sz >= 0 && sz < in_z && sy >= 0 && sy < in_y;
                const int from = n * source_n + sz * source_z + sy * source_y;
                for (int tx = 0; tx < taps_x; ++tx, to += pitch)
                    place_row(to, run, from, fx + tx * step_x, scale_x, source_x, in_x, inside);
            }
        const int result = n * (int)p->result_strides[0] + z * (int)p->result_strides[2] +
                           y * (int)p->result_strides[3] + x * result_x;
        for (int i = 0; i < run; ++i)
            to[i] = result + i * result_x;
        at += run;
        x = 0;
        if (++y == height) {
            y = 0;
            if (++z == depth) {
                z = 0;
                ++n;
            }
        }
    }
}
