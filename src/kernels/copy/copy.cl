// Strided copy with conversion. Built with -DS=, -DD= (dtypes of source and target), -DINDEX=uint|ulong, optionally
// -DCONJUGATE, -DNEGATE. Some conversions compilers vectorise only when they are written as vectors: for them there are
// -DBLOCKS and -DLOAD_HALF, -DSTORE_HALF (float16), -DCONVERT_VECTOR=convert_float8 and the like, -DLOAD_PLAIN
// (elements lie in memory as they are computed with; goes with CONVERT_VECTOR). Copies without conversion are built for
// the unsigned integer of the element's size. -DAXES says how many axes there can be (2, 3, 4 or 8): positions along
// those that are not there need no dividing. With -DQUADS (GPUs) rows of both tensors lie at multiples of four elements.
#include "core/dtype.cl"
#ifdef QUADS
#include "core/quad.cl"
#endif
#ifndef AXES
#define AXES 8
#endif

#define KIND_INTEGER 0
#define KIND_FLOATING 1
#define KIND_BOOLEAN 2
#define KIND_COMPLEX 3
#define kind_float32 KIND_FLOATING
#define kind_float64 KIND_FLOATING
#define kind_float16 KIND_FLOATING
#define kind_bfloat16 KIND_FLOATING
#define kind_int8 KIND_INTEGER
#define kind_int16 KIND_INTEGER
#define kind_int32 KIND_INTEGER
#define kind_int64 KIND_INTEGER
#define kind_uint8 KIND_INTEGER
#define kind_uint16 KIND_INTEGER
#define kind_uint32 KIND_INTEGER
#define kind_uint64 KIND_INTEGER
#define kind_boolean KIND_BOOLEAN
#define kind_complex32 KIND_COMPLEX
#define kind_bcomplex32 KIND_COMPLEX
#define kind_complex64 KIND_COMPLEX
#define kind_complex128 KIND_COMPLEX
#define KIND_RAW 4
#define kind_raw128 KIND_RAW
#define SOURCE_KIND CLPRIM_CAT(kind_, S)
#define TARGET_KIND CLPRIM_CAT(kind_, D)

// 16 bytes, for copies of complex128 as they are, also on devices without double.
CLPRIM_PLAIN_DTYPE(raw128, uint4)

// A part of a complex number has the floating-point type of half the size.
typedef float part_complex32;
typedef float part_bcomplex32;
typedef float part_complex64;
#ifdef CLPRIM_FP64
typedef double part_complex128;
#endif

#define source_t compute_t(S)
#define target_t compute_t(D)

// From floating point to integers, as PyTorch's CPU does it: unsigned types through a signed one, so that a negative
// number becomes the same bits.
#define integer_int8(v) (char)(int)(v)
#define integer_int16(v) (short)(int)(v)
#define integer_int32(v) (int)(v)
#define integer_int64(v) (long)(v)
#define integer_uint8(v) (uchar)(int)(v)
#define integer_uint16(v) (ushort)(int)(v)
#define integer_uint32(v) ((v) < 0 ? (uint)(int)(v) : (uint)(v))
#define integer_uint64(v) ((v) < 0 ? (ulong)(long)(v) : (ulong)(v))

static inline target_t convert(source_t v)
{
#if TARGET_KIND == KIND_COMPLEX && SOURCE_KIND == KIND_COMPLEX
    return (target_t)((CLPRIM_CAT(part_, D))v.x, (CLPRIM_CAT(part_, D))v.y);
#elif TARGET_KIND == KIND_COMPLEX
    return (target_t)((CLPRIM_CAT(part_, D))v, 0);
#elif TARGET_KIND == KIND_BOOLEAN && SOURCE_KIND == KIND_COMPLEX
    return v.x != 0 || v.y != 0;
#elif TARGET_KIND == KIND_BOOLEAN
    return v != 0;
#elif TARGET_KIND == KIND_INTEGER && SOURCE_KIND == KIND_COMPLEX
    return CLPRIM_CAT(integer_, D)(v.x);
#elif TARGET_KIND == KIND_INTEGER && SOURCE_KIND == KIND_FLOATING
    return CLPRIM_CAT(integer_, D)(v);
#elif SOURCE_KIND == KIND_COMPLEX
    return (target_t)v.x;
#elif SOURCE_KIND == KIND_RAW
    return v;
#else
    return (target_t)v;
#endif
}

// The element to write for one of the source.
static inline target_t changed(source_t v)
{
    target_t value = convert(v);
#if defined(CONJUGATE) && TARGET_KIND == KIND_COMPLEX
    value.y = -value.y;
#endif
#ifdef NEGATE
    value = (target_t)(-value);
#endif
    return value;
}
static inline target_t element(const __global storage_t(S)* source, ulong from)
{
    return changed(load(S, source, from));
}

#include "kernels/copy/space.cl"

#ifdef CLPRIM_DEVICE_CPU
// Work-item (x, y, z) owns CHUNK elements of axis 0, `rows` elements of axis 1, and of the further axes the one that z
// counts; it is a work-group of its own, so that the compiler turns its inner loop into vector instructions.
#define CHUNK 4096

#ifdef RAW
#include "kernels/copy/run.cl"
#endif

// One row from element `first` to `last`; strides apply from the row's start.
static inline void copy_row(const __global storage_t(S)* restrict source, INDEX source_stride,
                            __global storage_t(D)* restrict target, INDEX target_stride, INDEX first, INDEX last)
{
    if (target_stride == 1 && source_stride == 1) {
#ifdef BLOCKS
        for (; first + 8 <= last; first += 8) {
            source_t v[8];
            target_t w[8];
#ifdef LOAD_HALF
            vstore8(vload_half8(0, (const __global half*)(source + first)), 0, v);
#elif !defined(LOAD_PLAIN)
            for (int i = 0; i < 8; ++i)
                v[i] = load(S, source, first + i);
#endif
#if defined(CONVERT_VECTOR) && defined(LOAD_PLAIN)
            vstore8(CONVERT_VECTOR(vload8(0, source + first)), 0, w);
#elif defined(CONVERT_VECTOR)
            vstore8(CONVERT_VECTOR(vload8(0, v)), 0, w);
#else
            for (int i = 0; i < 8; ++i)
                w[i] = convert(v[i]);
#endif
#ifdef STORE_HALF
            vstore_half8_rte(vload8(0, w), 0, (__global half*)(target + first));
#else
            for (int i = 0; i < 8; ++i)
                store(D, target, first + i, w[i]);
#endif
        }
#endif
        for (INDEX i = first; i < last; ++i)
            store(D, target, i, element(source, i));
    }
    else if (target_stride == 1 && source_stride == 0) {
        const target_t value = element(source, 0);
        for (INDEX i = first; i < last; ++i)
            store(D, target, i, value);
    }
    else {
#ifndef LOAD_HALF   // gathering and scattering take longer than one at a time, except where elements convert in vectors
#pragma clang loop vectorize(disable)
#pragma unroll 4
#endif
        for (INDEX i = first; i < last; ++i)
            store(D, target, i * target_stride, element(source, i * source_stride));
    }
}

// Elements [first, last) of axis 0 and [first_row, last_row) of axis 1.
typedef struct {
    INDEX first, last, first_row, last_row;
} part_t;

// That part of one place of the axes from 2 on.
static inline void copy_place(const __global storage_t(S)* source, __global storage_t(D)* target, const space_t space,
                              int rank, INDEX n, const part_t part)
{
    const INDEX first = part.first, last = part.last, first_row = part.first_row, last_row = part.last_row;
    INDEX from = 0, to = 0;
    ADD_AXES_FROM_2
#ifdef RAW
    if (space.source[0] == 1 && space.target[0] == 1) {
        const ulong bytes = sizeof(storage_t(S));
        copy_runs((__global uchar*)(target + to + first_row * space.target[1] + first), space.target[1] * bytes,
                  (const __global uchar*)(source + from + first_row * space.source[1] + first),
                  space.source[1] * bytes, (last - first) * bytes, last_row - first_row);
        return;
    }
#endif
    for (INDEX y = first_row; y < last_row; ++y)
        copy_row(source + from + y * space.source[1], space.source[0], target + to + y * space.target[1],
                 space.target[0], first, last);
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void copy_strided(__global storage_t(S)* source, ulong source_offset, __global storage_t(D)* target,
                           ulong target_offset, space_t space, int rank, INDEX rows, INDEX outer, INDEX each)
{
    source += source_offset;
    target += target_offset;
    const INDEX first = get_global_id(0) * CHUNK, first_row = get_global_id(1) * rows;
    const part_t part = {first, min(first + CHUNK, space.shape[0]), first_row, min(first_row + rows, space.shape[1])};
    if (each == 1) {   // apart: Intel's compiler makes slower loops of runs within another
        copy_place(source, target, space, rank, get_global_id(2), part);
        return;
    }
    const INDEX last_place = min((INDEX)(get_global_id(2) + 1) * each, outer);
    for (INDEX place = get_global_id(2) * each; place < last_place; ++place)
        copy_place(source, target, space, rank, place, part);
}
#else
// Work-item (x, y, z) owns EACH elements (or fours of them, with QUADS) along axis 0 or 1, and of the further axes the
// element that z counts: finding out where takes as long as moving several.
#ifdef QUADS
#define EACH 2
typedef quad_t(S) taken_t;
typedef quad_t(D) moved_t;
#define TAKE(p) load_quad(S, p)
static inline moved_t moved(taken_t v)
{
    return (moved_t)(changed(v.x), changed(v.y), changed(v.z), changed(v.w));
}
#define PUT(p, v) store_quad(D, p, v)
#else
#define EACH 4
typedef source_t taken_t;
#define TAKE(p) load(S, p, 0)
#define moved(v) changed(v)
#define PUT(p, v) store(D, p, 0, v)
#endif

// How work-items spread over axes 0 and 1, both in elements or fours. Along axis 0 the elements of one are those of its
// neighbours in the work-group away from each other, `step`, so that a group moves what lies together.
typedef struct {
    INDEX along_x, x_skip, y_each, columns, step, source_step, target_step, outer;
} spread_t;

__kernel void copy_strided(__global storage_t(S)* source, ulong source_offset, __global storage_t(D)* target,
                           ulong target_offset, space_t space, int rank, spread_t spread)
{
    source += source_offset;
    target += target_offset;
    const INDEX x = (INDEX)get_global_id(0) + (INDEX)get_group_id(0) * spread.x_skip;
    const INDEX y = (INDEX)get_global_id(1) * spread.y_each;
    INDEX n = get_global_id(2), from = y * space.source[1], to = y * space.target[1];
    if (x >= spread.columns || y >= space.shape[1] || n >= spread.outer)
        return;
    ADD_AXES_FROM_2
#ifdef QUADS
    source += from + 4 * x;
    target += to + 4 * x;
#else
    source += from + x * space.source[0];
    target += to + x * space.target[0];
#endif
    // All are read before one is written. What lies beyond the end repeats the first.
    const INDEX left = spread.along_x ? spread.columns - x : space.shape[1] - y;
    taken_t values[EACH];
    for (int e = 0; e < EACH; ++e)
        values[e] = TAKE(source + (e * spread.step < left ? e * spread.source_step : 0));
    for (int e = 0; e < EACH; ++e)
        if (e * spread.step < left)
            PUT(target + e * spread.target_step, moved(values[e]));
}
#endif

// Transposition: axis 0 is contiguous in the target, axis 1 in the source, further axes as above. A work-group moves a
// square tile through local memory, so that both sides are read and written along their contiguous axis.
//
//     source, axis 1 ->            target, axis 0 ->
//     +---------+                  +---------+
//     | tile    | axis 0           | tile^T  | axis 1
//     +---------+                  +---------+
#define TILE 32
#ifdef CLPRIM_DEVICE_CPU
// One work-item moves the tile: it stays in the nearest cache.
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void copy_transposed(__global storage_t(S)* source, ulong source_offset, __global storage_t(D)* target,
                              ulong target_offset, space_t space, int rank, INDEX rows)
{
    source += source_offset;
    target += target_offset;
    INDEX n = get_global_id(2), from = 0, to = 0;
    ADD_AXES_FROM_2
    const INDEX x0 = get_global_id(0) * TILE, y0 = get_global_id(1) * TILE;
    const INDEX x1 = min(x0 + TILE, space.shape[0]), y1 = min(y0 + TILE, space.shape[1]);
    for (INDEX y = y0; y < y1; ++y)
        for (INDEX x = x0; x < x1; ++x)
            store(D, target, to + y * space.target[1] + x, element(source, from + x * space.source[0] + y));
}
#else
__kernel void copy_transposed(__global storage_t(S)* source, ulong source_offset, __global storage_t(D)* target,
                              ulong target_offset, space_t space, int rank, spread_t spread)
{
    __local target_t tile[TILE][TILE + 1];
    source += source_offset;
    target += target_offset;
    INDEX n = get_group_id(2), from = 0, to = 0;
    ADD_AXES_FROM_2
    const int lx = get_local_id(0), ly = get_local_id(1), apart = get_local_size(1);
    const INDEX x0 = get_group_id(0) * TILE, y0 = get_group_id(1) * TILE;
    const int width = min(space.shape[0] - x0, (INDEX)TILE), height = min(space.shape[1] - y0, (INDEX)TILE);
    // As in copy_strided a work-item reads EACH before it writes one, of rows that are `apart`: TILE is a multiple.
    source += from + x0 * space.source[0] + y0;
    target += to + y0 * space.target[1] + x0;
    if (lx < height)
        for (int first = ly; first < width; first += EACH * apart) {
            target_t values[EACH];
            for (int e = 0; e < EACH; ++e)
                values[e] = element(source, (first + e * apart < width ? first + e * apart : first) *
                                                space.source[0] + lx);
            for (int e = 0; e < EACH; ++e)
                tile[first + e * apart][lx] = values[e];
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lx < width)
        for (int first = ly; first < height; first += EACH * apart) {
            target_t values[EACH];
            for (int e = 0; e < EACH; ++e)
                values[e] = tile[lx][first + e * apart];
            for (int e = 0; e < EACH; ++e)
                if (first + e * apart < height)
                    store(D, target, (INDEX)(first + e * apart) * space.target[1] + lx, values[e]);
        }
}
#endif
