// Padding and its gradient on CPUs, as in pad.cl: a work-item has `each` rows, of which all but the ends is one run.
#include "core/dtype.cl"
#include "kernels/pad/places.cl"
#include "kernels/pad/copies.cl"

#ifdef CHANNELS_LAST
#define INNER ((INDEX)p.inner)
#else
#define INNER 1
#endif

#define RUN storage_t(X)
#include "kernels/copy/run.cl"

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void pad(const __global storage_t(X)* x, ulong x_offset, __global storage_t(X)* y, ulong y_offset, pad_t p,
                  ulong rows, uint each)
{
    const INDEX width = SIZE(out, 2), inner = INNER, begin = get_global_id(0) * each;
    const INDEX end = min(begin + (INDEX)each, (INDEX)rows);
    const INDEX left = clamp(SIZE(before, 2), (INDEX)0, width);
    const INDEX right = clamp(SIZE(before, 2) + SIZE(in, 2), left, width);
    x += x_offset;
    y += y_offset;
    for (INDEX row = begin; row < end; ++row) {
        SPLIT_ROW(SIZE(out, 1), SIZE(out, 0))
#ifdef PLANES
        const INDEX from_plane = outer * SIZE(in, 0) + SOURCE(0, at_z);
#else
        const INDEX from_plane = plane;
#endif
        __global storage_t(X)* to = y + row * width * inner;
        const __global storage_t(X)* from = x + (from_plane * SIZE(in, 1) + SOURCE(1, at_y)) * SIZE(in, 2) * inner;
        for (INDEX o = 0; o < left; ++o)
            copy_run(to + o * inner, from + SOURCE(2, o) * inner, inner);
        copy_run(to + left * inner, from + (left - SIZE(before, 2)) * inner, (right - left) * inner);
        for (INDEX o = right; o < width; ++o)
            copy_run(to + o * inner, from + SOURCE(2, o) * inner, inner);
    }
}

#define BLOCK 64   // elements that are summed side by side

// Sums for `count` elements from position `at` of a row on, which are shown at the same distance.
static inline void sum_run(const __global storage_t(X)* dy, __global storage_t(X)* dx, const pad_t p, INDEX row,
                           INDEX at, INDEX count)
{
    const INDEX inner = INNER;
    SPLIT_ROW(SIZE(in, 1), SIZE(in, 0))
    dx += (row * SIZE(in, 2) + at) * inner;
    for (INDEX first = 0; first < count; first += BLOCK) {
        const INDEX n = min(count - first, (INDEX)BLOCK);
        compute_t(X) sums[BLOCK];
        for (INDEX i = 0; i < BLOCK; ++i)
            sums[i] = 0;
#ifdef PLANES
        EACH_COPY(z, 0, at_z) {
            const INDEX z = COPY_AT(z, 0, at_z), of_plane = outer * SIZE(out, 0) + z;
            if (z < 0)
                continue;
#else
        {
            const INDEX of_plane = plane;
#endif
            EACH_COPY(y, 1, at_y) {
                const INDEX y = COPY_AT(y, 1, at_y);
                if (y < 0)
                    continue;
                EACH_COPY(x, 2, at) {
                    const INDEX x = COPY_AT(x, 2, at);
                    if (x < 0)
                        continue;
                    const __global storage_t(X)* shown =
                        dy + ((of_plane * SIZE(out, 1) + y) * SIZE(out, 2) + x) * inner + first;
                    for (INDEX i = 0; i < n; ++i)
                        sums[i] += load(X, shown, i);
                }
            }
        }
        for (INDEX i = 0; i < n; ++i)
            store(X, dx, first + i, sums[i]);
    }
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void pad_backward(const __global storage_t(X)* dy, ulong dy_offset, __global storage_t(X)* dx, ulong dx_offset,
                           pad_t p, ulong rows, uint each)
{
    const INDEX size = SIZE(in, 2), before = SIZE(before, 2), behind = SIZE(out, 2) - size - before;
    const INDEX begin = get_global_id(0) * each, end = min(begin + (INDEX)each, (INDEX)rows);
    // Elements from `left` to before `right` are shown once.
#ifdef REFLECT
    INDEX left = before > 0 ? before + 1 : -before, right = behind > 0 ? size - 1 - behind : size + behind;
#else
    INDEX left = before > 0 ? 1 : -before, right = behind > 0 ? size - 1 : size + behind;
#endif
    if (left >= right)
        left = right = size;
    dy += dy_offset;
    dx += dx_offset;
    for (INDEX row = begin; row < end; ++row) {
        for (INDEX at = 0; at < left; ++at)
            sum_run(dy, dx, p, row, at, INNER);
        if (left < right)
            sum_run(dy, dx, p, row, left, (right - left) * INNER);
        for (INDEX at = right; at < size; ++at)
            sum_run(dy, dx, p, row, at, INNER);
    }
}
