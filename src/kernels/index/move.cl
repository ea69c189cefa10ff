// Moves of plain bytes through one index: gather, index_select, index (gather form), scatter, index_copy (scatter form)
// and flips (no index). Wide rows come as uint4.
// -DELEMENT=uchar|ushort|uint|ulong|uint4, -DINDEX=int64|int32 (absent: none), -DSCATTER; operands: out, source, index.
// On GPUs a work-item moves EACH elements (geometry.cl): with -DSTILL through one index; with -DQUADS four neighbours
// of the index and of the side that it does not reach into. -DNEAR: what the index reaches fits into 31 bits.
// On CPUs one moves CHUNK elements at most of `rows` rows of the innermost dimension, -DSTILL as above: launch (blocks
// of columns, blocks of rows), and rows that lie evenly apart are walked together: short ones would spend their time on
// finding out where they are; -DFORWARD: rows are dense on both sides, -DBACKWARD: those of the source in reverse
// (-DVECTOR: 16 elements, where there is such a type).
#include "core/dtype.cl"
#include "core/errors.cl"
#include "kernels/index/axis.cl"
#include "kernels/index/geometry.cl"

#ifdef CLPRIM_DEVICE_CPU
#include "kernels/copy/run.cl"

// A row's elements lie `to` and `from` apart.
static inline void move_run(__global ELEMENT* restrict out, offset_t to, const __global ELEMENT* restrict source,
                            offset_t from, uint count)
{
#ifdef FORWARD
    copy_bytes_of_run((__global uchar*)out, (const __global uchar*)source, count * sizeof(ELEMENT));
#elif defined(BACKWARD)
    uint i = 0;
#ifdef VECTOR
    for (; i + 16 <= count; i += 16) {
        const VECTOR v = vload16(0, source - (offset_t)i - 15);
        vstore16(v.sfedcba9876543210, 0, out + i);
    }
#endif
    for (; i < count; ++i)
        out[i] = source[-(offset_t)i];
#else
    for (uint i = 0; i < count; ++i, out += to, source += from)
        *out = *source;
#endif
}

// What rows of a block have in common: where operands' next rows lie, elements of a row, rows.
typedef struct { offset_t to, from, index; uint count, rows; } rows_t;

#ifdef INDEX
// -DLINED_UP=step: index and what it does not reach into are dense, the other side has this stride.
#ifdef LINED_UP
#define INDEX_AT(i) index[i]
#define BESIDE_AT(stride, i) (i)
#define REACHED_AT(stride, i) ((i) * LINED_UP)
#else
#define INDEX_AT(i) index[(offset_t)(i) * index_stride]
#define BESIDE_AT(stride, i) ((offset_t)(i) * (stride))
#define REACHED_AT(stride, i) ((offset_t)(i) * (stride))
#endif
#ifdef SCATTER
#define MOVE(i, reached) to[REACHED_AT(to_stride, i) + (reached)] = from[BESIDE_AT(from_stride, i)]
#else
#define MOVE(i, reached) to[BESIDE_AT(to_stride, i)] = from[REACHED_AT(from_stride, i) + (reached)]
#endif

// Whether none of so many indices is bad or negative.
static inline bool all_plain(const __global storage_t(INDEX)* restrict index, offset_t index_stride, uint count,
                             const axis_t axis)
{
    const ulong end = axis.size < 0 ? LONG_MAX : axis.size;
    int plain = 1;
    for (uint i = 0; i < count; ++i)
        plain &= (ulong)INDEX_AT(i) < end;
    return plain;
}

#ifdef STILL
// Rows through an index each, of which those of a block are checked together.
static inline void move_rows(__global ELEMENT* restrict to, offset_t to_stride, const __global ELEMENT* restrict from,
                             offset_t from_stride, const __global storage_t(INDEX)* restrict index,
                             offset_t index_stride, const rows_t all, const axis_t axis, __global int* errors,
                             int operator_code)
{
    index_stride = all.index;
#ifdef FORWARD
#ifdef SCATTER
#define REACH_TO(run) INDEX_AT(run) * axis.stride
#define REACH_FROM(run) 0
#else
#define REACH_TO(run) 0
#define REACH_FROM(run) INDEX_AT(run) * axis.stride
#endif
    if (all_plain(index, index_stride, all.rows, axis)) {
        COPY_RUNS((__global uchar*)(to + (long)run * all.to + REACH_TO(run)),
                  (const __global uchar*)(from + (long)run * all.from + REACH_FROM(run)),
                  all.count * sizeof(ELEMENT), all.rows)
        return;
    }
#endif
    for (uint row = 0; row < all.rows; ++row, to += all.to, from += all.from) {
        long reached;
        if (!reach(axis, INDEX_AT(row), errors, operator_code, &reached))
            continue;
#ifdef SCATTER
        move_run(to + reached, to_stride, from, from_stride, all.count);
#else
        move_run(to, to_stride, from + reached, from_stride, all.count);
#endif
    }
}
#else
// Rows through as many indices as they have elements. Those of a block are checked together, and if none is bad or
// negative, moved through one by one: what compilers make of the gather of a vector takes longer.
static inline void move_block(__global ELEMENT* restrict to, offset_t to_stride,
                              const __global ELEMENT* restrict from, offset_t from_stride,
                              const __global storage_t(INDEX)* restrict index, offset_t index_stride,
                              const rows_t all, const axis_t axis, __global int* errors, int operator_code)
{
    bool plain = true;
    if (all.index == (offset_t)all.count * index_stride)
        plain = all_plain(index, index_stride, all.count * all.rows, axis);
    else
        for (uint row = 0; row < (all.index == 0 ? 1 : all.rows); ++row)
            plain &= all_plain(index + (offset_t)row * all.index, index_stride, all.count, axis);
    for (uint row = 0; row < all.rows; ++row, to += all.to, from += all.from, index += all.index)
        if (plain)
#pragma clang loop vectorize(disable) unroll_count(4)
            for (uint i = 0; i < all.count; ++i)
                MOVE(i, INDEX_AT(i) * axis.stride);
        else
            for (uint i = 0; i < all.count; ++i) {
                long reached;
                if (reach(axis, INDEX_AT(i), errors, operator_code, &reached))
                    MOVE(i, reached);
            }
}

static inline void move_rows(__global ELEMENT* restrict to, offset_t to_stride, const __global ELEMENT* restrict from,
                             offset_t from_stride, const __global storage_t(INDEX)* restrict index,
                             offset_t index_stride, rows_t all, const axis_t axis, __global int* errors,
                             int operator_code)
{
    if (all.count > 64) {   // columns of a row
        for (uint row = 0; row < all.rows; ++row, to += all.to, from += all.from, index += all.index)
            for (uint first = 0; first < all.count; first += 64) {
                const rows_t part = {0, 0, 0, min(64u, all.count - first), 1};
                move_block(to + (offset_t)first * to_stride, to_stride, from + (offset_t)first * from_stride,
                           from_stride, index + (offset_t)first * index_stride, index_stride, part, axis, errors,
                           operator_code);
            }
        return;
    }
    const uint rows = all.rows, step = 256 / all.count;
    for (uint row = 0; row < rows; row += step) {
        all.rows = min(step, rows - row);
        move_block(to + (offset_t)row * all.to, to_stride, from + (offset_t)row * all.from, from_stride,
                   index + (offset_t)row * all.index, index_stride, all, axis, errors, operator_code);
    }
}
#endif
#endif

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void move(__global ELEMENT* out, ulong out_offset, const __global ELEMENT* source, ulong source_offset,
#ifdef INDEX
                   const __global storage_t(INDEX)* index, ulong index_offset, axis_t axis,
                   __global int* errors, int operator_code,
#endif
                   geometry_t g, uint rows)
{
    const index_t columns = g.sizes[0], first = get_global_id(0) * (index_t)CHUNK;
    const uint count = min((index_t)CHUNK, columns - first);
    const index_t begin = get_global_id(1) * (index_t)rows, end = min(begin + rows, (index_t)(g.numel / columns));
    out += out_offset;
    source += source_offset;
#ifdef INDEX
    index += index_offset;
#endif
    for (index_t row = begin; row < end;) {
        offset_t o[OPERANDS];
        geometry_offsets(g, row * columns + first, o);
#if DIMS > 1   // as many rows as lie evenly apart
        const index_t left = (index_t)g.sizes[1] - row % (index_t)g.sizes[1];
        rows_t some = {g.strides[0][1], g.strides[1][1], 0, count, min(end - row, left)};
#ifdef INDEX
        some.index = g.strides[2][1];
#endif
#else
        rows_t some = {0, 0, 0, count, 1};
#endif
        __global ELEMENT* to = out + o[0];
        const __global ELEMENT* from = source + o[1];
#ifdef INDEX
        move_rows(to, g.strides[0][0], from, g.strides[1][0], index + o[2], g.strides[2][0], some, axis, errors,
                  operator_code);
#elif defined(FORWARD)
        copy_runs((__global uchar*)to, some.to * (long)sizeof(ELEMENT), (const __global uchar*)from,
                  some.from * (long)sizeof(ELEMENT), count * sizeof(ELEMENT), some.rows);
#else
        for (uint i = 0; i < some.rows; ++i)
            move_run(to + (offset_t)i * some.to, g.strides[0][0], from + (offset_t)i * some.from, g.strides[1][0],
                     count);
#endif
        row += some.rows;
    }
}

#else

#define FOUR(type) CLPRIM_CAT(type, 4)
#ifdef STILL
#define INDICES 1
#else
#define INDICES EACH
#endif

__kernel void move(__global ELEMENT* out, ulong out_offset, const __global ELEMENT* source, ulong source_offset,
#ifdef INDEX
                   const __global storage_t(INDEX)* index, ulong index_offset, axis_t axis,
                   __global int* errors, int operator_code,
#endif
                   geometry_t g)
{
    const index_t i = get_global_id(0);
    if (i >= (index_t)g.numel)
        return;
    offset_t o[OPERANDS];
    geometry_offsets(g, i, o);
    out += out_offset;
    source += source_offset;

    bool good[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e)
        good[e] = HAS(g, i, e);
#ifdef INDEX
    index += index_offset;
    long at[INDICES];
    reached_t reached[INDICES];
    bool known[INDICES];
#ifdef QUADS
    load_indices(at, index + o[2])
#else
#pragma unroll
    for (int e = 0; e < INDICES; ++e)   // what is not there repeats the first
        at[e] = index[good[e] ? STEPPED(g, o, 2, e) : o[2]];
#endif
#pragma unroll
    for (int e = 0; e < INDICES; ++e)
        known[e] = reach_quietly(axis, at[e], &reached[e]);
    report_bad(axis, at, known, INDICES, errors, operator_code);
#define REACHED(e) reached[(e) < INDICES ? (e) : 0]
#pragma unroll
    for (int e = 0; e < EACH; ++e)
        good[e] &= known[e < INDICES ? e : 0];
#else
#define REACHED(e) 0
#endif

#ifdef SCATTER
#define TARGET_REACH(e) REACHED(e)
#define SOURCE_REACH(e) 0
#else
#define TARGET_REACH(e) 0
#define SOURCE_REACH(e) REACHED(e)
#endif
    ELEMENT values[EACH];
#if defined(QUADS) && defined(SCATTER)
    const FOUR(ELEMENT) moved = *(const __global FOUR(ELEMENT)*)(source + o[1]);
    values[0] = moved.x; values[1] = moved.y; values[2] = moved.z; values[3] = moved.w;
#else
#pragma unroll
    for (int e = 0; e < EACH; ++e)
        if (good[e])
            values[e] = source[STEPPED(g, o, 1, e) + SOURCE_REACH(e)];
#ifdef QUADS
        else
            values[e] = 0;   // beside a bad index, which will be reported
#endif
#endif
#if defined(QUADS) && !defined(SCATTER)
    *(__global FOUR(ELEMENT)*)(out + o[0]) = (FOUR(ELEMENT))(values[0], values[1], values[2], values[3]);
#else
#pragma unroll
    for (int e = 0; e < EACH; ++e)
        if (good[e])
            out[STEPPED(g, o, 0, e) + TARGET_REACH(e)] = values[e];
#endif
}

#endif
