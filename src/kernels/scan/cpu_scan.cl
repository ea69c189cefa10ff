// Cumulative operators (state.cl) on CPUs along lines that are dense, or nearly. A line is cut into `chunks` pieces of
// `chunk` elements; a work-item walks some pieces at once, since each step along one waits for the step before, and
// block by block: pieces whose addresses look alike push each other's out of a near cache.
// -DFROM: dtype of an input that is not T, but an integer to be summed or multiplied as one.
#include "core/dtype.cl"
#include "kernels/index/geometry.cl"
#include "kernels/scan/state.cl"

enum { BESIDE = 4, BLOCK = 16 };

#ifndef FROM
#define FROM T
#endif

typedef struct {
    const __global storage_t(FROM)* input;
    __global storage_t(T)* out;
    __global long* indices;
    state_t state;
    bool carried;
    long begin, length;
} piece_t;

#define PIECES                                                                                                         \
    TENSORS, __global ulong *words, ulong words_offset, long n, long chunk, long chunks, geometry_t lines
#define PIECE(p)                                                                                                       \
    piece(p, (const __global storage_t(FROM)*)input + input_offset, input_stride, out + out_offset, out_stride,        \
          indices + indices_offset, indices_stride, n, chunk, chunks, lines)

static inline piece_t piece(long p, const __global storage_t(FROM)* input, long input_stride,
                            __global storage_t(T)* out, long out_stride, __global long* indices, long indices_stride,
                            long n, long chunk, long chunks, const geometry_t lines)
{
    const long begin = p % chunks * chunk;
    offset_t o[OPERANDS];
    geometry_offsets(lines, p / chunks, o);
    piece_t r;
    r.input = input + o[0] + begin * input_stride;
    r.out = out + o[1] + begin * out_stride;
    r.indices = indices + o[2] + begin * indices_stride;
    r.carried = false;
    r.begin = begin;
    r.length = min(chunk, n - begin);
    return r;
}

#define ELEMENT(k, e)                                                                                                  \
    state_of(WIDEN((compute_t(T))load(FROM, r[k].input, (i + (e)) * input_stride)), r[k].begin + i + (e))
#define EMIT(k, e, s) emit(r[k].out, r[k].indices, (i + (e)) * out_stride, (i + (e)) * indices_stride, s)

// Elements [i, i + count) of the first `rows` pieces, which have a state.
#ifdef EXTREME
// Few elements go beyond all before them: mostly a block of them changes nothing.
static inline void walk(piece_t* r, const int rows, long i, const int count, long input_stride, long out_stride,
                        long indices_stride, const bool written)
{
    for (int k = 0; k < rows; ++k) {
        int kept = 1;
        for (int e = 0; e < count; ++e)
            kept &= BEYOND(r[k].state.value, ELEMENT(k, e).value);
        for (int e = 0; e < count; ++e) {
            if (!kept)
                r[k].state = combine(r[k].state, ELEMENT(k, e));
            if (written)
                EMIT(k, e, r[k].state);
        }
    }
}
#else
static inline void walk(piece_t* r, const int rows, long i, const int count, long input_stride, long out_stride,
                        long indices_stride, const bool written)
{
    state_t s[BESIDE][BLOCK];
#pragma unroll
    for (int k = 0; k < rows; ++k)
#pragma unroll
        for (int e = 0; e < count; ++e)
            s[k][e] = ELEMENT(k, e);
#pragma unroll
    for (int e = 0; e < count; ++e)
#pragma unroll
        for (int k = 0; k < rows; ++k)
            s[k][e] = combine(e ? s[k][e - 1] : r[k].state, s[k][e]);
#pragma unroll
    for (int k = 0; k < rows; ++k) {
        r[k].state = s[k][count - 1];
        if (written)
#pragma unroll
            for (int e = 0; e < count; ++e)
                EMIT(k, e, s[k][e]);
    }
}
#endif

// Sums of integers are the same in any order: those of a vector's lanes are found in a few steps, whatever was before.
#define LANES_int32 16
#define LANES_int64 8
#define LANES CLPRIM_CAT(LANES_, T)
#if defined(SCAN_sum) && LANES
#if LANES == 8
typedef long8 lanes_t;
#define LOAD_LANES(p) convert_long8(vload8(0, p))
#define STORE_LANES(p, v) vstore8(v, 0, p)
#define UP_1(v) __builtin_shufflevector(v, (lanes_t)(0), 8, 0, 1, 2, 3, 4, 5, 6)
#define UP_2(v) __builtin_shufflevector(v, (lanes_t)(0), 8, 8, 0, 1, 2, 3, 4, 5)
#define UP_4(v) __builtin_shufflevector(v, (lanes_t)(0), 8, 8, 8, 8, 0, 1, 2, 3)
#define ALL_LAST(v) __builtin_shufflevector(v, v, 7, 7, 7, 7, 7, 7, 7, 7)
#else
typedef int16 lanes_t;
#define LOAD_LANES(p) convert_int16(vload16(0, p))
#define STORE_LANES(p, v) vstore16(v, 0, p)
#define UP_1(v) __builtin_shufflevector(v, (lanes_t)(0), 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)
#define UP_2(v) __builtin_shufflevector(v, (lanes_t)(0), 16, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)
#define UP_4(v) __builtin_shufflevector(v, (lanes_t)(0), 16, 16, 16, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
#define UP_8(v) __builtin_shufflevector(v, (lanes_t)(0), 16, 16, 16, 16, 16, 16, 16, 16, 0, 1, 2, 3, 4, 5, 6, 7)
#define ALL_LAST(v) __builtin_shufflevector(v, v, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15)
#endif
#define TRUE_boolean 1   // is what elements that are not 0 count as
#if CLPRIM_CAT(TRUE_, FROM)
#define TAKE_LANES(p) min(LOAD_LANES(p), (lanes_t)(1))
#else
#define TAKE_LANES(p) LOAD_LANES(p)
#endif

// What is left of a piece from element 1 on, as whole vectors; where they end. A step waits for one addition only, so
// that pieces need no others beside them.
static inline long walk_lanes(piece_t* r, const bool written)
{
    lanes_t before = (lanes_t)(0);
    long i = 1;
#pragma unroll 4
    for (; i + LANES <= r->length; i += LANES) {
        lanes_t v = TAKE_LANES(r->input + i);
        if (written) {
            v += UP_1(v);
            v += UP_2(v);
            v += UP_4(v);
#if LANES == 16
            v += UP_8(v);
#endif
            STORE_LANES(r->out + i, before + v + r->state.value);
            v = ALL_LAST(v);
        }
        before += v;
    }
    if (!written) {
#if LANES == 16
        before.lo += before.hi;
#endif
        before.s0123 += before.s4567;
        before.s01 += before.s23;
        before.s0 += before.s1;
    }
    r->state.value += before.s0;
    return i;
}
#endif

static inline void walk_all(piece_t* r, const int rows, long input_stride, long out_stride, long indices_stride,
                            const bool written)
{
    long shared = r[0].length, i = 1;
    for (int k = 0; k < rows; ++k) {
        const state_t first = state_of(WIDEN((compute_t(T))load(FROM, r[k].input, 0)), r[k].begin);
        r[k].state = r[k].carried ? combine(r[k].state, first) : first;
        if (written)
            emit(r[k].out, r[k].indices, 0, 0, r[k].state);
        shared = min(shared, r[k].length);
    }
#ifdef TAKE_LANES
    if (input_stride == 1 && out_stride == 1) {
        for (int k = 0; k < rows; ++k)
            for (long rest = walk_lanes(r + k, written); rest < r[k].length; ++rest)
                walk(r + k, 1, rest, 1, input_stride, out_stride, indices_stride, written);
        return;
    }
#endif
    for (; i + BLOCK <= shared; i += BLOCK)
        walk(r, rows, i, BLOCK, input_stride, out_stride, indices_stride, written);
    for (int k = 0; k < rows; ++k)
        for (long rest = i; rest < r[k].length; ++rest)
            walk(r + k, 1, rest, 1, input_stride, out_stride, indices_stride, written);
}

#define TOTALS ((__global state_t*)(words + words_offset))   // a state for each piece

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void total_pieces(PIECES)
{
    const long first = get_global_id(0) * (long)BESIDE, count = min((long)BESIDE, (long)lines.numel * chunks - first);
    piece_t r[BESIDE];
    for (int k = 0; k < count; ++k)
        r[k] = PIECE(first + k);
    if (count == BESIDE && input_stride == 1 && out_stride == 1 && indices_stride == 1)
        walk_all(r, BESIDE, 1, 1, 1, false);
    else if (count == BESIDE)
        walk_all(r, BESIDE, input_stride, out_stride, indices_stride, false);
    else
        for (int k = 0; k < count; ++k)
            walk_all(r + k, 1, input_stride, out_stride, indices_stride, false);
    for (int k = 0; k < count; ++k)
        TOTALS[first + k] = r[k].state;
}

#include "kernels/scan/totals.cl"

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void scan_pieces(PIECES)
{
    const long first = get_global_id(0) * (long)BESIDE, count = min((long)BESIDE, (long)lines.numel * chunks - first);
    piece_t r[BESIDE];
    for (int k = 0; k < count; ++k) {
        r[k] = PIECE(first + k);
        if (r[k].begin > 0) {
            r[k].state = TOTALS[first + k - 1];
            r[k].carried = true;
        }
    }
    if (count == BESIDE && input_stride == 1 && out_stride == 1 && indices_stride == 1)
        walk_all(r, BESIDE, 1, 1, 1, true);
    else if (count == BESIDE)
        walk_all(r, BESIDE, input_stride, out_stride, indices_stride, true);
    else
        for (int k = 0; k < count; ++k)
            walk_all(r + k, 1, input_stride, out_stride, indices_stride, true);
}
