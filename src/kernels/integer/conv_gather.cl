// How conv_cpu.cl gathers the numbers of a pixel's patch: TAKE makes a number of a byte, OUTSIDE stands for those that
// lie outside of x.
static inline void take(bytes from, number zero, long count, __local number* row)
{
    long i = 0;
    for (; i + 64 <= count; i += 64)
        UNROLL for (int e = 0; e < 64; e += 16) vstore16(TAKE(16, from + i + e), 0, row + i + e);
    for (; i + 16 <= count; i += 16)
        vstore16(TAKE(16, from + i), 0, row + i);
    if (i + 8 <= count) {
        vstore8(TAKE(8, from + i), 0, row + i);
        i += 8;
    }
    for (; i < count; ++i)
#ifdef NARROW
        row[i] = (uchar)from[i] ^ FLIP;
#else
        row[i] = (short)((short)from[i] - zero);
#endif
}

static inline void clear(number zero, long count, __local number* row)
{
    for (long i = 0; i < count; ++i)
        row[i] = OUTSIDE;
}

// Where k lies: its number in a run, and the run's place in the window. Divisions of long numbers take as long as a
// short run does, so they are done once for all pixels.
typedef struct {
    long at, x, y, z;
} place_of_k;

static inline place_of_k place_of(const integer_conv_problem* p, long k)
{
    const long row_runs = p->window[2] / p->run_taps, r = k / p->run;
    const place_of_k place = {k % p->run, r % row_runs, r / row_runs % p->window[1], r / row_runs / p->window[1]};
    return place;
}

// How many pixels from one on, along its row of results, have patches inside of x whose runs are rows of the window.
// What lies behind a run may be taken for its filling, since that has no weights.
static inline long pixels_inside(bytes x, bytes x_end, const integer_conv_problem* p, long4 first)
{
    const long last = (p->window[1] - 1) * p->dilation[1], columns = p->in[2] - p->run_taps - first.z;
    if (p->run_taps < p->window[2] || p->in[0] + p->window[0] + p->pad[0] != 2 || first.y < 0 ||
        first.y + last >= p->in[1] || first.z < 0 || columns < 0)
        return 0;
    const long step = p->stride[2] * p->x_strides[4];
    const long room = x_end - (x + (first.y + last) * p->x_strides[3] + first.z * p->x_strides[4] + p->run);
    if (room < 0)
        return 0;
    const long fit = columns / p->stride[2] + 1;
    return step * (fit - 1) <= room ? fit : room / step + 1;
}

// Numbers k to k + count of such patches.
static inline void gather_inside(bytes x, const integer_conv_problem* p, long4 first, long pixels, number zero,
                                 place_of_k k, long count, __local number* rows)
{
    const long step = p->dilation[1] * p->x_strides[3], next = p->stride[2] * p->x_strides[4];
    bytes at = x + (first.y + k.y * p->dilation[1]) * p->x_strides[3] + first.z * p->x_strides[4] + k.at;
    for (long left = p->run - k.at; count > 0; left = p->run) {
        const long here = min(count, left);
        if (here <= 32) {   // short ones of all pixels side by side
            for (long e = 0; e < here; e += 16)
                for (long i = 0; i < pixels; ++i)
                    if (here - e >= 16)
                        vstore16(TAKE(16, at + i * next + e), 0, rows + i * CHUNK + e);
                    else
                        vstore8(TAKE(8, at + i * next + e), 0, rows + i * CHUNK + e);
        } else
            for (long i = 0; i < pixels; ++i)
                take(at + i * next, zero, here, rows + i * CHUNK);
        at += left - p->run + step;
        rows += here;
        count -= here;
    }
}

// Numbers k to k + count of the patch whose first tap lies at `first` (z, y, x); `x` is the image's group.
static inline void gather(bytes x, const integer_conv_problem* p, long4 first, number zero, place_of_k k,
                          long count, __local number* row)
{
    const long row_runs = p->window[2] / p->run_taps, length = p->run_taps * p->channels;
    while (count > 0) {
        const long at = k.at, here = min(count, p->run - at);
        const long z = first.x + k.z * p->dilation[0], y = first.y + k.y * p->dilation[1];
        const long column = first.z + k.x * p->run_taps * p->dilation[2];
        long begin = at + here, end = at + here;
        if (z >= 0 && z < p->in[0] && y >= 0 && y < p->in[1]) {
            begin = min(max(at, -column * p->channels), at + here);
            end = max(begin, min(min(at + here, length), (p->in[2] - column) * p->channels));
        }
        const bytes from = x + z * p->x_strides[2] + y * p->x_strides[3] + column * p->x_strides[4];
        clear(zero, begin - at, row);
        take(from + begin, zero, end - begin, row + (begin - at));
        clear(zero, at + here - end, row + (end - at));
        row += here;
        count -= here;
        k.at = 0;
        if (++k.x == row_runs) {
            k.x = 0;
            if (++k.y == p->window[1]) {
                k.y = 0;
                ++k.z;
            }
        }
    }
}
