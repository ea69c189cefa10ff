// Moves of plain bytes through one index: gather, index_select, index (gather form), scatter, index_copy (scatter form)
// and flips (no index). Wide rows come as uint4.
// -DELEMENT=uchar|ushort|uint|ulong|uint4, -DINDEX=int64|int32 (absent: none), -DSCATTER; operands: out, source, index.
// On GPUs a work-item moves EACH elements (geometry.cl): with -DSTILL through one index; with -DQUADS four neighbours
// of the index and of the side that it does not reach into. -DNEAR: what the index reaches fits into 31 bits.
// On CPUs one moves CHUNK elements at most of `rows` rows of the innermost dimension, -DSTILL as above: launch (blocks
// of columns, blocks of rows); -DFORWARD: rows are dense on both sides, -DBACKWARD: those of the source in reverse
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

#if defined(INDEX) && !defined(STILL)
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

// A row through as many indices. Those of a block are checked together, and if none is bad or negative, moved through
// one by one: what compilers make of the gather of a vector takes longer.
static inline void move_each(__global ELEMENT* restrict to, offset_t to_stride,
                             const __global ELEMENT* restrict from, offset_t from_stride,
                             const __global storage_t(INDEX)* restrict index, offset_t index_stride, uint count,
                             const axis_t axis, __global int* errors, int operator_code)
{
    const ulong end = axis.size < 0 ? LONG_MAX : axis.size;
    for (uint first = 0; first < count; first += 64) {
        const uint last = min(first + 64, count);
        int plain = 1;
        for (uint i = first; i < last; ++i)
            plain &= (ulong)INDEX_AT(i) < end;
        if (plain)
#pragma clang loop vectorize(disable) unroll(disable)
            for (uint i = first; i < last; ++i)
                MOVE(i, INDEX_AT(i) * axis.stride);
        else
            for (uint i = first; i < last; ++i) {
                long reached;
                if (reach(axis, INDEX_AT(i), errors, operator_code, &reached))
                    MOVE(i, reached);
            }
    }
}
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
    for (index_t row = begin; row < end; ++row) {
        offset_t o[OPERANDS];
        geometry_offsets(g, row * columns + first, o);
        __global ELEMENT* to = out + o[0];
        const __global ELEMENT* from = source + o[1];
#if !defined(INDEX)
        move_run(to, g.strides[0][0], from, g.strides[1][0], count);
#elif defined(STILL)
        long reached;
        if (!reach(axis, index[o[2]], errors, operator_code, &reached))
            continue;
#ifdef SCATTER
        to += reached;
#else
        from += reached;
#endif
        move_run(to, g.strides[0][0], from, g.strides[1][0], count);
#else
        move_each(to, g.strides[0][0], from, g.strides[1][0], index + o[2], g.strides[2][0], count, axis, errors,
                  operator_code);
#endif
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
