// Maxima of windows along rows on CPUs, without their positions: a work-item owns `share` output rows (n, c, z, y), a
// tile of columns at a time. A window is a product of ranges along axes, so the largest of each column of all its lines
// is found first, by vectors, and then the largest of neighbouring columns. Options: those of window.cl with VEC = 16;
// -DINTEGERS; -DMOST: columns of a tile.
#include "kernels/pool/window.cl"

// As in max_pool.cl: a NaN wins, and a window wholly in padding has the maximum of no elements.
#define LARGER(v, best) ((v) > (best) || (v) != (v) ? (v) : (best))
#ifndef INTEGERS
#define LOWEST ((acc_t)-INFINITY)
#else
#define LOWEST ((acc_t)((acc_t)-1 > 0 ? 0 : -(((long)1 << (sizeof(acc_t) * 8 - 2)) - 1) * 2 - 2))
#endif

static inline void fill_columns(acc_t* line, int begin, int end)
{
    for (int i = begin; i < end; ++i)
        line[i] = LOWEST;
}

// Runs over vectors of `count` elements, at i. The last one overlaps its neighbour, if there are so many.
#define AT_MOST(next, count) max(min(next, (count) - VEC), 0)
#define EACH_VECTOR(count)                                                                                            \
    for (int next = 0, i = 0; next < (count); next += VEC, i = AT_MOST(next, count))

// The largest of each of `count` columns from `from` on, over the lines of a window from its first one on: `lines`, a
// `step` apart, of each of `planes`.
static inline void find_columns(const __global storage_t(X)* from, int planes, long plane, int lines, int step,
                                int count, acc_t* line)
{
    if (planes == 1 && lines >= 1 && lines <= 3 && count >= VEC) {   // most windows, without loops
        const __global storage_t(X)* second = from + (lines > 1 ? step : 0);
        if (lines < 3) {
            EACH_VECTOR(count)
            {
                const vec_t a = load_vector(X, from, i), b = load_vector(X, second, i);
                vstore16(LARGER(b, a), 0, line + i);
            }
            return;
        }
        const __global storage_t(X)* third = second + step;
        EACH_VECTOR(count)
        {
            const vec_t a = load_vector(X, from, i), b = load_vector(X, second, i), c = load_vector(X, third, i);
            const vec_t best = LARGER(b, a);
            vstore16(LARGER(c, best), 0, line + i);
        }
        return;
    }
    EACH_VECTOR(count)
    {
        const uint lanes = min(count - i, VEC);
        vec_t best = LOWEST;
        for (int iz = 0; iz < planes; ++iz)
            for (int iy = 0; iy < lines; ++iy) {
                const vec_t v = load_part(X, from, iz * plane + iy * step + i, lanes, LOWEST);
                best = LARGER(v, best);
            }
        vstore16(best, 0, line + i);
    }
}

// The largest of the windows of `count` outputs, the first of which begins at line[0]. COLUMN(k) has, of sixteen
// windows, the elements that are k columns behind their first ones.
#define EACH_WINDOWS(COLUMN)                                                                                          \
    EACH_VECTOR(count)                                                                                                \
    {                                                                                                                 \
        const acc_t* first = line + i * stride;                                                                       \
        const uint lanes = min(count - i, VEC);                                                                       \
        vec_t best = COLUMN(0);                                                                                       \
        for (int k = 1; k < extent; ++k) {                                                                            \
            const vec_t v = COLUMN(k * dilation);                                                                     \
            best = LARGER(v, best);                                                                                   \
        }                                                                                                             \
        store_part(X, y, at + i, lanes, best);                                                                        \
    }
#define NEIGHBOURS(k) vload16(0, first + (k))
#define EVEN_ONES(k) ((vec_t)(vload16(0, first + (k)).even, vload16(0, first + (k) + VEC).even))
#define STRIDED(k) strided(first + (k), stride)

static inline vec_t strided(const acc_t* first, int stride)
{
    acc_t t[VEC];
    for (int lane = 0; lane < VEC; ++lane)
        t[lane] = first[lane * stride];
    return vload16(0, t);
}

static inline void find_windows(const acc_t* line, const pool_t* pool, int count, __global storage_t(X)* y, ulong at)
{
    const int stride = pool->stride[2], dilation = DILATION(pool, 2), extent = pool->extent[2];
    if (stride == 1) {
        EACH_WINDOWS(NEIGHBOURS)
    } else if (stride == 2) {
        EACH_WINDOWS(EVEN_ONES)
    } else {
        EACH_WINDOWS(STRIDED)
    }
}

static inline int places(window_t w, int dilation)
{
    return w.begin < w.end ? (w.end - w.begin - 1) / dilation + 1 : 0;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void max_pool_columns(const __global storage_t(X)* x, ulong x_offset, __global storage_t(X)* y, ulong y_offset,
                      pool_t pool, ulong items, ulong share, int tile)
{
    const int width = pool.in[2], outputs = pool.out[2];
    acc_t line[MOST + VEC];   // from the first window's first column on; what lies in padding is LOWEST
    const ulong begun = get_group_id(0) * share, end_of_rows = min(begun + share, items);
    int oy = (int)(begun % pool.out[1]), oz = (int)(begun / pool.out[1] % pool.out[0]);
    x += x_offset + begun / (uint)(pool.out[0] * pool.out[1]) * volume(pool.in);
    y += y_offset;
    for (ulong row = begun; row < end_of_rows; ++row) {
        const window_t wy = window(&pool, 1, oy), wz = window(&pool, 0, oz);
        const int lines = places(wy, DILATION(&pool, 1)), planes = places(wz, DILATION(&pool, 0));
        const long plane = (long)DILATION(&pool, 0) * pool.in[1] * width;
        for (int start = 0; start < outputs; start += tile) {
            const int ox = max(min(start, outputs - tile), 0), count = min(outputs - ox, tile);
            const int left = ox * pool.stride[2] - pool.padding[2];
            const int right = left + (count - 1) * pool.stride[2] + (pool.extent[2] - 1) * DILATION(&pool, 2) + 1;
            const int begin = max(left, 0), end = max(min(right, width), begin);
            find_columns(x + ((long)wz.begin * pool.in[1] + wy.begin) * width + begin, planes, plane, lines,
                         DILATION(&pool, 1) * width, end - begin, line + (begin - left));
            fill_columns(line, 0, begin - left);
            fill_columns(line, end - left, right - left);
            find_windows(line, &pool, count, y, row * outputs + ox);
        }
        if (++oy == pool.out[1]) {
            oy = 0;
            if (++oz == pool.out[0]) {
                oz = 0;
                x += volume(pool.in);
            }
        }
    }
}
