// Updates through an index on CPUs, as in accumulate.cl, for what a dtype need not round once: a work-item owns `width`
// lines at most of each of `rows` rows of lines side by side, and of what they reach a part; it walks the entries in
// their order. Launch: (blocks of lines, blocks of rows, parts), parts a power of two.
// -DT, -DINDEX, -DREDUCE_*: as there; -DSOURCE: dtype of source, if not T; -DSTILL: lines side by side share their
// index; -DSELF_STEP=n, -DSOURCE_STEP=n: how far such lines lie apart, where that is known; -DALONG: entries lie closer
// together than lines do, which are walked alone, and with -DDENSE one beside the other in all operands.
// accumulate_runs does the same with entries sorted by key, as accumulate_segments: updates of an element are joined
// before it is stored, so that a dtype rounds once. Parts are of the entries.
#include "core/dtype.cl"
#include "core/errors.cl"
#include "kernels/index/axis.cl"
#include "kernels/index/combine.cl"
#include "kernels/index/geometry.cl"

#ifndef SOURCE
#define SOURCE T
#endif
#ifndef SELF_STEP
#define SELF_STEP lines.strides[0][0]
#endif
#ifndef SOURCE_STEP
#define SOURCE_STEP lines.strides[1][0]
#endif

#ifdef DENSE
#define INDEX_STRIDE 1
#define SOURCE_STRIDE 1
#define REACHED_STRIDE 1
#else
#define INDEX_STRIDE index_stride
#define SOURCE_STRIDE source_stride
#define REACHED_STRIDE axis.stride
#endif

// Whether an element is of a part: neighbours of a cache line are of one.
static inline bool is_of(long at, uint part, uint parts)
{
    return parts == 1 || (((uint)(at >> 4) * 0x9E3779B1u) >> 16 & (parts - 1)) == part;
}

#ifdef STILL
static inline void update_row(__global storage_t(T)* restrict self, const __global storage_t(SOURCE)* restrict source,
                              long self_step, long source_step, uint count)
{
    for (uint i = 0; i < count; ++i)
        store(T, self, i * self_step, combine(load(T, self, i * self_step), load(SOURCE, source, i * source_step)));
}
#endif

static inline void update(__global storage_t(T)* self, const __global storage_t(SOURCE)* source)
{
    store(T, self, 0, combine(load(T, self, 0), load(SOURCE, source, 0)));
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void accumulate(__global storage_t(T)* self, ulong self_offset, const __global storage_t(SOURCE)* source,
                         ulong source_offset, const __global storage_t(INDEX)* index, ulong index_offset, long entries,
                         long source_stride, long index_stride, axis_t axis, __global int* errors, int operator_code,
                         uint width, uint rows, geometry_t lines)
{
    const index_t columns = lines.sizes[0], first = get_global_id(0) * (index_t)width;
    const index_t begin = get_global_id(1) * (index_t)rows, end = min(begin + rows, (index_t)lines.numel / columns);
    const uint count = min((index_t)width, columns - first);
    self += self_offset;
    source += source_offset;
    index += index_offset;
    for (index_t row = begin; row < end; ++row) {
        offset_t o[OPERANDS];
        geometry_offsets(lines, row * columns + first, o);
        __global storage_t(T)* to = self + o[0];
        const __global storage_t(SOURCE)* from = source + o[1];
        const __global storage_t(INDEX)* through = index + o[2];
        long at;
#ifdef ALONG
        for (uint i = 0; i < count; ++i) {
            const __global storage_t(INDEX)* own = through + (long)i * lines.strides[2][0];
            __global storage_t(T)* line = to + (long)i * SELF_STEP;
            const __global storage_t(SOURCE)* values = from + (long)i * SOURCE_STEP;
            const ulong size = axis.size < 0 ? LONG_MAX : axis.size;
            for (long j = 0; j < entries; ++j) {
                const long asked = own[j * INDEX_STRIDE];
                if ((ulong)asked < size)
                    update(line + asked * REACHED_STRIDE, values + j * SOURCE_STRIDE);
                else if (reach(axis, asked, errors, operator_code, &at))
                    update(line + at, values + j * SOURCE_STRIDE);
            }
        }
#else
        for (long j = 0; j < entries; ++j, through += index_stride, from += source_stride) {
#ifdef STILL
            if (reach(axis, *through, errors, operator_code, &at) &&
                is_of(at, get_global_id(2), get_global_size(2)))
                update_row(to + at, from, SELF_STEP, SOURCE_STEP, count);
#else
            for (uint i = 0; i < count; ++i)
                if (reach(axis, through[(long)i * lines.strides[2][0]], errors, operator_code, &at))
                    update(to + (long)i * SELF_STEP + at, from + (long)i * SOURCE_STEP);
#endif
        }
#endif
    }
}

#if defined(STILL) && !defined(ALONG)
#define TOGETHER 64   // lines, whose values stay in registers or the nearest cache

// The updates of `count` lines, at most TOGETHER, by a run of entries.
static inline void update_run(__global storage_t(T)* restrict self, const __global storage_t(SOURCE)* source,
                              const __global long* order, long length, long source_stride, long self_step,
                              long source_step, uint count)
{
    compute_t(T) values[TOGETHER];
    for (uint i = 0; i < count; ++i)
        values[i] = load(T, self, i * self_step);
    for (long j = 0; j < length; ++j) {
        const __global storage_t(SOURCE)* restrict from = source + order[j] * source_stride;
        for (uint i = 0; i < count; ++i)
            values[i] = combine(values[i], load(SOURCE, from, i * source_step));
    }
    for (uint i = 0; i < count; ++i)
        store(T, self, i * self_step, values[i]);
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void accumulate_runs(__global storage_t(T)* self, ulong self_offset, const __global storage_t(SOURCE)* source,
                              ulong source_offset, const __global long* keys, ulong keys_offset,
                              const __global long* order, ulong order_offset, long entries, long source_stride,
                              uint width, uint rows, geometry_t lines)
{
    const index_t columns = lines.sizes[0], first = get_global_id(0) * (index_t)width;
    const index_t begin = get_global_id(1) * (index_t)rows, end = min(begin + rows, (index_t)lines.numel / columns);
    const uint count = min((index_t)width, columns - first);
    const long part = get_global_id(2), parts = get_global_size(2);
    self += self_offset;
    source += source_offset;
    keys += keys_offset;
    order += order_offset;
    // A run belongs to the part that it begins in.
    const long last = entries * (part + 1) / parts;
    for (long j = entries * part / parts, next; j < last; j = next) {
        const long key = keys[j];
        for (next = j + 1; next < entries && keys[next] == key;)
            ++next;
        if (key < 0 || (j > 0 && keys[j - 1] == key))
            continue;
        for (index_t row = begin; row < end; ++row) {
            offset_t o[OPERANDS];
            geometry_offsets(lines, row * columns + first, o);
            __global storage_t(T)* to = self + o[0] + key;
            const __global storage_t(SOURCE)* from = source + o[1];
            if (next == j + 1)
                update_row(to, from + order[j] * source_stride, SELF_STEP, SOURCE_STEP, count);
            else
                for (uint i = 0; i < count; i += TOGETHER)
                    update_run(to + (long)i * SELF_STEP, from + (long)i * SOURCE_STEP, order + j, next - j,
                               source_stride, SELF_STEP, SOURCE_STEP, min(count - i, (uint)TOGETHER));
        }
    }
}
#endif
