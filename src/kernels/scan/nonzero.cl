// Positions of non-zero elements. A work-group owns a chunk of whole tiles: it counts, and later, knowing how many come
// before, writes coordinates. Work-items have SPAN neighbouring elements of a tile each.
// -DT=dtype [-DCOMPLEX] -DTEAM=work-items of a group -DDIMS=n [-DQUADS: the input begins at a quad]
// [-DLARGE: 2^31 or more elements]
#include "core/dtype.cl"
#include "core/quad.cl"
#include "kernels/scan/nonzero_shape.cl"

typedef int state_t;
static inline state_t combine(state_t a, state_t b) { return a + b; }
#include "kernels/scan/lanes.cl"

#define SPAN 8
#define TILE (TEAM * SPAN)
#ifdef LARGE
typedef ulong place_t;
#else
typedef uint place_t;
#endif

// A bit for each of elements [i, i + SPAN) that is not 0.
static inline uint bits_of(const __global storage_t(T)* input, ulong i, ulong n)
{
    uint bits = 0;
#ifdef QUADS
    if (i + SPAN <= n) {
#pragma unroll
        for (int e = 0; e < SPAN; e += 4) {
            const quad_t(T) v = load_quad(T, input + i + e);
            bits |= (IS_SET(v.x) ? 1u : 0u) << e | (IS_SET(v.y) ? 2u : 0u) << e | (IS_SET(v.z) ? 4u : 0u) << e |
                    (IS_SET(v.w) ? 8u : 0u) << e;
        }
        return bits;
    }
#endif
#pragma unroll
    for (int e = 0; e < SPAN; ++e)
        if (i + e < n) {
            const compute_t(T) v = load(T, input, i + e);
            bits |= (IS_SET(v) ? 1u : 0u) << e;
        }
    return bits;
}

__attribute__((reqd_work_group_size(TEAM, 1, 1)))
__kernel void count_chunks(const __global storage_t(T)* input, ulong input_offset, __global long* counts,
                           ulong counts_offset, ulong n, ulong chunk)
{
    __local state_t scratch[2 * TEAM];
    uint turn = 0;
    const uint lane = get_local_id(0);
    const ulong begin = get_group_id(0) * chunk, end = min(begin + chunk, n);
    input += input_offset;
    int count = 0;
    for (ulong i = begin + lane * SPAN; i < end; i += TILE)
        count += popcount(bits_of(input, i, n));
    for (uint distance = TEAM / 2; distance > 0; distance /= 2) {
        const __local state_t* place = share(scratch, &turn, count);
        if (lane < distance)
            count += place[lane + distance];
    }
    if (lane == 0)
        counts[counts_offset + get_group_id(0)] = count;
}

__attribute__((reqd_work_group_size(TEAM, 1, 1)))
__kernel void write_coordinates(const __global storage_t(T)* input, ulong input_offset, const __global long* totals,
                                ulong totals_offset, __global long* coordinates, ulong coordinates_offset,
                                long row_stride, long column_stride, ulong n, ulong chunk, shape_t shape)
{
    __local state_t scratch[2 * TEAM];
    uint turn = 0;
    const uint lane = get_local_id(0), group = get_group_id(0);
    const layout_t layout = {1, TEAM, 0, 0};
    const ulong begin = group * chunk, end = min(begin + chunk, n);
    input += input_offset;
    coordinates += coordinates_offset + (group ? totals[totals_offset + group - 1] : 0) * row_stride;
    for (ulong tile = begin; tile < end; tile += TILE) {
        const ulong first = tile + lane * SPAN;
        uint bits = bits_of(input, first, n);
        const int own = popcount(bits), upto = scan_lanes(scratch, &turn, own, layout, lane),
                  all = share(scratch, &turn, upto)[TEAM - 1];
        __global long* row = coordinates + (upto - own) * row_stride;
        for (place_t i = (place_t)first; bits; bits >>= 1, ++i) {
            if (!(bits & 1))
                continue;
            place_t rest = i;
#pragma unroll
            for (int d = DIMS - 1; d >= 0; --d) {
                const place_t size = (place_t)shape.sizes[d], next = d > 0 ? rest / size : 0;
                row[d * column_stride] = (long)(rest - next * size);
                rest = next;
            }
            row += row_stride;
        }
        coordinates += all * row_stride;
    }
}
