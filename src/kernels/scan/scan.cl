// Cumulative operators (state.cl) on GPUs. A work-group has `wide` lines beside each other and `deep` lanes along each,
// and goes from tile to tile along them: a lane has SPAN neighbouring elements of a tile, scans them in registers, and
// the lanes of a line scan their totals in local memory. Neighbouring work-items lie where memory does: along a line
// that is dense, across lines that lie side by side.
//
// Few long lines are cut into chunks of whole tiles, a work-group for each: `chunk_totals` finds what each adds up to,
// and a work-group of `scan` begins with the totals of the chunks before its own.
//
// -DTEAM=work-items of a group at most; -DSPAN=1|4|8; -DFROM: dtype of an input that is not T, but an integer to be
// summed or multiplied as one; -DQUADS: lines are dense, and where the operands' lines begin differs by whole quads.
// Tiles begin at quads then: up to three of the first lane's elements lie before the line, and `places` are that many
// more than n.
#include "core/dtype.cl"
#include "core/quad.cl"
#include "kernels/index/geometry.cl"
#include "kernels/scan/state.cl"
#include "kernels/scan/lanes.cl"

#ifndef FROM
#define FROM T
#endif

typedef struct {
    const __global storage_t(FROM)* input;
    __global storage_t(T)* out;
    __global long* indices;
    long input_stride, out_stride, index_stride;
    long head;   // elements of the first tile before the line
} line_t;

#define ARGUMENTS                                                                                                      \
    const __global storage_t(FROM)*input, ulong input_offset, long input_stride, __global storage_t(T)*out,            \
        ulong out_offset, long out_stride, __global long *indices, ulong indices_offset, long indices_stride,          \
        __global ulong *words, ulong words_offset, long n, long places, long chunk, layout_t layout, geometry_t lines

#define TOTALS ((__global state_t*)(words + words_offset))   // of the chunks of each line, chunk by chunk

#define LOCATE                                                                                                         \
    const uint id = get_local_id(0), lane = id >> layout.lane_shift & (layout.deep - 1);                               \
    const long number = get_group_id(0) * (long)layout.wide + (id >> layout.line_shift & (layout.wide - 1));           \
    const bool live = number < (long)lines.numel;                                                                      \
    offset_t o[OPERANDS];                                                                                              \
    geometry_offsets(lines, (index_t)min(number, (long)lines.numel - 1), o);                                           \
    line_t line = {input + input_offset + o[0], out + out_offset + o[1], indices + indices_offset + o[2],              \
                   input_stride, out_stride, indices_stride, 0};                                                       \
    line.head = HEAD(input_offset + o[0]);                                                                             \
    const long c = get_group_id(1), tile = (long)layout.deep * SPAN;

#ifdef QUADS
#define HEAD(at) (long)((at) & 3)
#define STARTS(i, e) ((e) < 4 && (i) + (e) <= 0)   // nothing is before this element
#else
#define HEAD(at) 0
#define STARTS(i, e) false
#endif

// Elements [i, i + SPAN) of a line, scanned, those outside [0, end) being 0.
static inline void load_scanned(const line_t line, long i, long end, state_t* s)
{
    compute_t(T) v[SPAN];
    if (i >= 0 && i + SPAN <= end) {
#ifdef QUADS
#pragma unroll
        for (int e = 0; e < SPAN; e += 4) {
            const quad_t(T) quad = to_quad(T, load_quad(FROM, line.input + i + e));
            v[e] = quad.x;
            v[e + 1] = quad.y;
            v[e + 2] = quad.z;
            v[e + 3] = quad.w;
        }
#else
        const __global storage_t(FROM)* input = line.input + i * line.input_stride;
#pragma unroll
        for (int e = 0; e < SPAN; ++e, input += line.input_stride)
            v[e] = (compute_t(T))load(FROM, input, 0);
#endif
    } else {
#pragma unroll
        for (int e = 0; e < SPAN; ++e)
            v[e] = i + e >= 0 && i + e < end ? (compute_t(T))load(FROM, line.input, (i + e) * line.input_stride)
                                             : (compute_t(T))(0);
    }
#pragma unroll
    for (int e = 0; e < SPAN; ++e) {
        s[e] = state_of(WIDEN(v[e]), i + e);
        if (e > 0 && !STARTS(i, e))
            s[e] = combine(s[e - 1], s[e]);
    }
}

static inline void emit_all(const line_t line, long i, long end, const state_t* s)
{
    if (i >= 0 && i + SPAN <= end) {
#ifdef QUADS
#pragma unroll
        for (int e = 0; e < SPAN; e += 4) {
            store_quad(T, line.out + i + e,
                       (quad_t(T))(result(s[e]), result(s[e + 1]), result(s[e + 2]), result(s[e + 3])));
#ifdef EXTREME
            store_quad(int64, line.indices + i + e, (long4)(s[e].at, s[e + 1].at, s[e + 2].at, s[e + 3].at));
#endif
        }
#else
        __global storage_t(T)* out = line.out + i * line.out_stride;
        __global long* indices = line.indices + i * line.index_stride;
#pragma unroll
        for (int e = 0; e < SPAN; ++e, out += line.out_stride, indices += line.index_stride)
            emit(out, indices, 0, 0, s[e]);
#endif
        return;
    }
#pragma unroll
    for (int e = 0; e < SPAN; ++e)
        if (i + e >= 0 && i + e < end)
            emit(line.out, line.indices, (i + e) * line.out_stride, (i + e) * line.index_stride, s[e]);
}

#ifdef EXTREME
#define COMBINE_ANY(a, b) ((a).at <= (b).at ? combine(a, b) : combine(b, a))   // whichever comes first
#else
#define COMBINE_ANY(a, b) combine(a, b)
#endif

__kernel void chunk_totals(ARGUMENTS)
{
    __local state_t scratch[2 * TEAM];
    uint turn = 0;
    LOCATE
    const long begin = c * chunk, end = min(begin + chunk - line.head, n);
    state_t total, s[SPAN];
    for (long from = begin; from < begin + chunk; from += tile) {
        load_scanned(line, from + lane * SPAN - line.head, end, s);
        total = from > begin ? COMBINE_ANY(total, s[SPAN - 1]) : s[SPAN - 1];
    }
    // Lanes have elements in turn: the sum over all of them is that of a tree in any order.
    for (uint distance = layout.deep / 2; distance > 0; distance /= 2) {
        const __local state_t* place = share(scratch, &turn, total);
        if (lane < distance)
            total = COMBINE_ANY(total, place[OF_LANE(lane + distance)]);
    }
    if (lane == 0 && live)
        TOTALS[c * lines.numel + number] = total;
}

__kernel void scan(ARGUMENTS)
{
    __local state_t scratch[2 * TEAM];
    uint turn = 0;
    LOCATE
    const long begin = c * chunk, end = min(begin + chunk - line.head, n);
    state_t carry, s[SPAN];
    if (c > 0) {
        const long each = (c + layout.deep - 1) / layout.deep, first = min(lane * each, c - 1);
        const __global state_t* totals = TOTALS + min(number, (long)lines.numel - 1);
        carry = totals[first * lines.numel];
        for (long k = first + 1; k < min(first + each, c); ++k)
            carry = combine(carry, totals[k * lines.numel]);
        carry = scan_lanes(scratch, &turn, carry, layout, lane);
        carry = share(scratch, &turn, carry)[OF_LANE((uint)((c + each - 1) / each - 1))];
    }
    for (long from = begin; from < min(begin + chunk, places); from += tile) {
        const long i = from + lane * SPAN - line.head;
        load_scanned(line, i, end, s);
        const bool carried = from > 0;
        state_t before = carry, scanned = s[SPAN - 1];
        if (lane == 0 && carried)
            scanned = combine(carry, scanned);
        scanned = carry = scan_lanes(scratch, &turn, scanned, layout, lane);
        if (layout.deep > 1) {
            const __local state_t* place = share(scratch, &turn, scanned);
            if (lane > 0)
                before = place[OF_LANE(lane - 1)];
            carry = place[OF_LANE(layout.deep - 1)];
        }
        if (lane > 0 || carried)
#pragma unroll
            for (int e = 0; e < SPAN; ++e)
                s[e] = combine(before, s[e]);
        if (live)
            emit_all(line, i, end, s);
    }
}
