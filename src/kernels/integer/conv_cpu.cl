// Convolutions of eight-bit integers on CPUs (clprim/integer_conv.hpp), of x with channels innermost. K of the implicit
// product is cut into runs, the bytes of neighbouring taps that lie side by side in x:
//
//     one group, no dilation along rows: window[2] * channels bytes        else the channels of a tap
//
// each filled up to eight. A work-item owns a block of pixels and of panels of COLUMNS output channels. For a CHUNK of
// k it gathers its pixels' numbers as int16, zero points taken off, so that places outside of x are zeros, and
// multiplies them with panels of pairs as cpu.cl does:
//
//     rows: [pixel][CHUNK] int16        weights: [group][panel][pair of k][COLUMNS] words of two int16
//
// Weights may stay bytes, -DNARROW, for four products and their sum at a time: by one instruction with VNNI, whatever
// bytes (dot_tile.cl), or by two of AVX2, vpmaddubsw and vpmaddwd, where pairs cannot overflow int16 when they are
// multiplied with unsigned bytes and added (those of seven bits never do).
// Numbers are gathered as unsigned bytes then, those outside of x as the zero point, which is taken off the sums:
//
//     rows: [pixel][CHUNK] bytes        weights: [group][panel][four of k][COLUMNS] words of four int8; sums of columns
//
// With AVX-512 VNNI pixels that lie in rows are read in place where nothing is to be gathered, and sums become results
// in registers (dot_ending.cl).
//
// -DAMX: tile registers read both as they lie (conv_amx.cl).
//
// -DX=int8|uint8 (what is gathered or packed) -DY=int32|float32|int8|uint8 [-DNARROW [-DAMX]] [what dot_tile.cl takes]
#define FACTOR
#include "kernels/integer/conv_epilogue.cl"

#define COLUMNS 16
#define CHUNK 512        // of k
#define MOST_PIXELS 48
#define MOST_PANELS 16
#define UNROLL _Pragma("unroll")

typedef const __global storage_t(X)* bytes;

static inline int8 add_pairs(short16 a, short16 b, int8 sum)
{
    const int16 products = convert_int16(a) * convert_int16(b);
    return sum + (products.even + products.odd);
}

// Weights less their zero points: a work-item packs a panel.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pack_weights(const __global storage_t(X)* w, ulong w_offset, const __global storage_t(X)* zeros,
                           ulong zeros_offset, __global int* to, ulong to_offset, integer_conv_problem p)
{
    const long panels = (p.outputs + COLUMNS - 1) / COLUMNS, pairs = p.runs * p.run / 2;
    const long panel = get_global_id(0), group = get_global_id(1);
    w += w_offset;
    to += to_offset + (group * panels + panel) * pairs * COLUMNS;
    const long row_runs = p.window[2] / p.run_taps;
    for (long r = 0; r < p.runs; ++r)
        for (long at = 0; at < p.run; ++at) {
            const long tap = at / p.channels, c = at % p.channels, kx = r % row_runs * p.run_taps + tap;
            const long ky = r / row_runs % p.window[1], kz = r / row_runs / p.window[1];
            const bytes from = w + c * p.w_strides[1] + kz * p.w_strides[2] + ky * p.w_strides[3] + kx * p.w_strides[4];
            __global short* words = (__global short*)(to + (r * p.run + at) / 2 * COLUMNS) + at % 2;
            for (int j = 0; j < COLUMNS; ++j) {
                const long o = group * p.outputs + panel * COLUMNS + j;
                const int there = tap < p.run_taps && panel * COLUMNS + j < p.outputs;
                words[2 * j] = there ? (short)((int)from[o * p.w_strides[0]] -
                                               (int)AT(zeros + zeros_offset, p.w_zero, o)) : (short)0;
            }
        }
}

// Whether all pairs of a panel's words may be narrow.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void check_narrow(const __global int* words, ulong words_offset, __global int* wide, ulong wide_offset,
                           integer_conv_problem p)
{
    const long count = p.runs * p.run / 2 * COLUMNS;
    words += words_offset + get_global_id(0) * count;
    int found = 0;
    for (long i = 0; i < count; ++i) {
        const int low = as_short2(words[i]).x, high = as_short2(words[i]).y;
        found |= min(low, high) < -128 || max(low, high) > 127;
#if !defined(DOT_VECTOR) && !defined(AMX)
        found |= max(low, 0) + max(high, 0) > 128 || min(low, 0) + min(high, 0) < -128;
#endif
    }
    wide[wide_offset + get_global_id(0)] = found;
}

// Bytes of a panel's words, and behind all panels the sums of columns.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void make_narrow(const __global int* words, ulong words_offset, __global char* to, ulong to_offset,
                          integer_conv_problem p)
{
    const long quads = p.runs * p.run / 4, panel = get_global_id(0);
    words += words_offset + panel * quads * 2 * COLUMNS;
    to += to_offset;
    __global int* sums = (__global int*)(to + get_global_size(0) * quads * 4 * COLUMNS) + panel * COLUMNS;
    to += panel * quads * 4 * COLUMNS;
    for (int j = 0; j < COLUMNS; ++j) {
        int sum = 0;
        for (long q = 0; q < quads; ++q) {
            const short2 low = as_short2(words[2 * q * COLUMNS + j]);
            const short2 high = as_short2(words[(2 * q + 1) * COLUMNS + j]);
            vstore4((char4)(low.x, low.y, high.x, high.y), q * COLUMNS + j, to);
            sum += low.x + low.y + high.x + high.y;
        }
        sums[j] = sum;
    }
}

#ifdef NARROW
typedef uchar number;
#define IS_SIGNED_int8 0x80
#define IS_SIGNED_uint8 0
#define FLIP CLPRIM_CAT(IS_SIGNED_, X)   // makes signed bytes unsigned
#define TAKE(N, from) (as_uchar##N(vload##N(0, from)) ^ (uchar##N)FLIP)
#define OUTSIDE zero
#ifdef AMX
#include "kernels/integer/conv_amx.cl"
#elif defined(DOT_VECTOR)
#define DOT_ROW 512              // CHUNK
#define DOT_STEP(WORD) WORD(0) WORD(1)   // as runs come in eights
#define DOT_STEP_ROWS 8
#define DOT_STEP_WEIGHTS 128
#define DOT_SUM_ROW 64
#if DOT_VECTOR == 64
#define DOT_SUM_SECOND 3072      // the next panel's: MOST_PIXELS * COLUMNS * 4
#define PANELS_AT_ONCE 2
#else
#define DOT_SUM_SECOND 32
#endif
#include "kernels/gemm/dot_tile.cl"
#if DOT_VECTOR == 64
#define ENDS_IN_TILES
#include "kernels/integer/dot_ending.cl"
#endif
#else
#include "kernels/integer/narrow_tile.cl"
#endif
#else
typedef short number;
#define TAKE(N, from) (convert_short##N(vload##N(0, from)) - (short##N)zero)
#define OUTSIDE 0
#endif
#ifndef PANELS_AT_ONCE
#define PANELS_AT_ONCE 1
#endif
#define STEP (4 / (int)sizeof(number))   // of k in a word

#include "kernels/integer/conv_gather.cl"

#ifdef ENDS_IN_TILES
// Tiles are told what sums begin with where there is one chunk, and add no bias.
#define BEGINS (!p.rows_of_results || depth > CHUNK)
#define BIAS_AT(o) (p.rows_of_results && p.bias >= 0 ? ending.bias + (o) : 0)
#else
#define BEGINS 1
#define BIAS_AT(o) 0
#endif
#ifdef AMX
#elif defined(NARROW)
// What sums begin with: the zero point times those of columns is taken off. `bias`: of `count` columns, 0 where it is
// added later.
static inline void begin_sums(const __global int* of_columns, int zero, const __global int* bias, long count,
                              long pixels, __local int* sums)
{
    int8 one = -vload8(0, of_columns) * zero, two = -vload8(1, of_columns) * zero;
    if (bias) {
        int each[COLUMNS];
        for (int j = 0; j < COLUMNS; ++j)
            each[j] = j < count ? bias[j] : 0;
        one += vload8(0, each);
        two += vload8(1, each);
    }
    for (long i = 0; i < pixels; ++i) {
        vstore8(one, 2 * i, sums);
        vstore8(two, 2 * i + 1, sums);
    }
}
#else
// R pixels times a panel, over `words` words, added to sums where `add`.
#define DEFINE_TILE(name, R)                                                                                \
    static inline void name(const __local short* rows , const __global int* w, long words, __local int* sums, \
                            int add)                                                                        \
    {                                                                                                       \
        int8 tile[R][2];                                                                                    \
        UNROLL for (int i = 0; i < R; ++i)                                                                  \
            UNROLL for (int v = 0; v < 2; ++v) tile[i][v] = add ? vload8(2 * i + v, sums) : 0;              \
        for (long k = 0; k < words; ++k) {                                                                  \
            const int8 one = vload8(2 * k, w), two = vload8(2 * k + 1, w);                                  \
            UNROLL for (int i = 0; i < R; ++i)                                                              \
            {                                                                                               \
                const int8 word = *(const __local int*)(rows + i * CHUNK + 2 * k);                       \
                tile[i][0] = add_pairs(as_short16(word), as_short16(one), tile[i][0]);                      \
                tile[i][1] = add_pairs(as_short16(word), as_short16(two), tile[i][1]);                      \
            }                                                                                               \
        }                                                                                                   \
        UNROLL for (int i = 0; i < R; ++i)                                                                  \
            UNROLL for (int v = 0; v < 2; ++v) vstore8(tile[i][v], 2 * i + v, sums);                        \
    }
DEFINE_TILE(six_pixels, 6)
DEFINE_TILE(two_pixels, 2)
#endif

static inline long4 pixel_at(const integer_conv_problem* p, long pixel)   // z, y, x, image
{
    const long row = pixel / p->out[2], plane = row / p->out[1];
    return (long4)(plane % p->out[0], row % p->out[1], pixel % p->out[2], plane / p->out[0]);
}

static inline long4 next_pixel(const integer_conv_problem* p, long4 at)
{
    if (++at.z < p->out[2])
        return at;
    at.z = 0;
    if (++at.y < p->out[1])
        return at;
    at.y = 0;
    if (++at.x < p->out[0])
        return at;
    return (long4)(0, 0, 0, at.w + 1);
}

#ifdef ENDS_IN_TILES
#include "kernels/integer/conv_end_panels.cl"
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv(const __global storage_t(X)* x, ulong x_offset, const __global storage_t(X)* x_zero, ulong x_zero_offset,
          const __global int* w, ulong w_offset, ENDING_ARGUMENTS, const __global float* factor, ulong factor_offset,
          int has_factor, __global storage_t(Y)* y, ulong y_offset, integer_conv_problem p)
{
    __local number rows[MOST_PIXELS * CHUNK] __attribute__((aligned(64)));
    // One panel more, since what is computed at once may end behind the last.
    __local int sums[(MOST_PANELS + 1) * MOST_PIXELS * COLUMNS] __attribute__((aligned(64)));
    conv_ending ending = ENDING(p);
    ending.factor = has_factor ? factor[factor_offset] : 1.0f;
    const long pixels = p.batch * p.out[0] * p.out[1] * p.out[2], group = get_group_id(2);
    const long first = get_group_id(0) * p.block_pixels, count = min(p.block_pixels, pixels - first);
    const long all_panels = (p.outputs + COLUMNS - 1) / COLUMNS, panel_begin = get_group_id(1) * p.block_panels;
    const long panels = min(p.block_panels, all_panels - panel_begin), depth = p.runs * p.run;
#ifdef NARROW
    const number zero = (uchar)AT(x_zero + x_zero_offset, p.x_zero, 0) ^ FLIP;
    const __global int* column_sums = w + w_offset / 4 + p.groups * all_panels * (depth / STEP) * COLUMNS;
    column_sums += (group * all_panels + panel_begin) * COLUMNS;
    w += w_offset / 4;
#else
    const number zero = (short)AT(x_zero + x_zero_offset, p.x_zero, 0);
    w += w_offset;
#endif
    const bytes x_end = x + x_offset + p.readable;
    x += x_offset + group * p.channels * p.x_strides[1];
    w += (group * all_panels + panel_begin) * (depth / STEP) * COLUMNS;
#ifdef ENDS_IN_TILES
    // Two panels of results, the rest of whose sums are to be computed by `steps` eights of k.
    y += y_offset + first * p.y_strides[4];
#define END_PANELS(operands, panel)                                                                         \
    end_panels(&ending, operands, column_sums + (panel) * COLUMNS, zero,                                    \
               group * p.outputs + (panel_begin + (panel)) * COLUMNS,                                       \
               p.outputs - (panel_begin + (panel)) * COLUMNS, count,                                        \
               y + group * p.outputs + (panel_begin + (panel)) * COLUMNS)
#define SECOND_PANEL(panel) ((panel) + 1 < panels ? depth / STEP * 4 * COLUMNS : 0)
    if (p.rows_in_place) {
        for (long panel = 0; panel < panels; panel += 2) {
            const dot_ending operands = {.rows = (ulong)(x + first * p.x_strides[4]), .row_step = p.x_strides[4],
                                         .weights = (ulong)(w + panel * (depth / STEP) * COLUMNS),
                                         .steps = depth / 8, .second = SECOND_PANEL(panel)};
            END_PANELS(operands, panel);
        }
        return;
    }
#endif
    const long4 first_pixel = pixel_at(&p, first);
#ifdef AMX
    amx_begin();
#endif
    for (long k = 0; k < depth; k += CHUNK) {
        const long here = min(depth - k, (long)CHUNK);
        const place_of_k place = place_of(&p, k);
        long4 at = first_pixel;
        for (long i = 0; i < count; at = next_pixel(&p, at)) {
            const long4 corner = (long4)(at.x * p.stride[0] - p.pad[0], at.y * p.stride[1] - p.pad[1],
                                         at.z * p.stride[2] - p.pad[2], 0);
            const bytes image = x + at.w * p.x_strides[0];
            const long inside = min(pixels_inside(image, x_end, &p, corner), min(count - i, p.out[2] - at.z));
            if (inside > 0) {
                gather_inside(image, &p, corner, inside, zero, place, here, rows + i * CHUNK);
                at.z += inside - 1;
            } else
                gather(image, &p, corner, zero, place, here, rows + i * CHUNK);
            i += max(inside, 1L);
        }
#ifdef AMX
        for (long i = 0; i < count; ++i)
            fill_block(here, rows + i * CHUNK);
#endif
        // More pixels than there are may be computed.
#if defined(NARROW) && !defined(AMX)
        for (long panel = 0; panel < panels && k == 0 && BEGINS; ++panel) {
            const long o = (panel_begin + panel) * COLUMNS;
            begin_sums(column_sums + panel * COLUMNS, zero, BIAS_AT(group * p.outputs + o), p.outputs - o,
                       min((count + 3) / 4 * 4, (long)MOST_PIXELS), sums + panel * MOST_PIXELS * COLUMNS);
        }
#endif
        for (long panel = 0; panel < panels; panel += PANELS_AT_ONCE) {
            const __global int* from = w + (panel * (depth / STEP) + k / STEP) * COLUMNS;
            __local int* to = sums + panel * MOST_PIXELS * COLUMNS;
#ifdef AMX
            tile_pixels(rows, from, here, count, k ? 0 : column_sums + panel * COLUMNS, zero, to);
#elif defined(DOT_VECTOR)
#ifdef ENDS_IN_TILES
            if (p.rows_of_results && k + here == depth) {
                dot_ending operands = {.rows = (ulong)rows, .row_step = CHUNK, .weights = (ulong)from,
                                       .steps = here / 8, .second = SECOND_PANEL(panel)};
                if (k) {
                    operands.begin = (ulong)to;
                    operands.begin_step = 4 * COLUMNS;
                    operands.begin_second = operands.second ? DOT_SUM_SECOND : 0;
                }
                END_PANELS(operands, panel);
                continue;
            }
#endif
            const ulong second = PANELS_AT_ONCE == 1 ? 32 : panel + 1 < panels ? depth / STEP * 4 * COLUMNS : 0;
            const dot_operands of = {(ulong)rows, (ulong)from, (ulong)to, second, here / 8};
            dot_tile(of, count);
#elif defined(NARROW)
            for (long i = 0; i < count; i += 4)
                four_pixels(rows + i * CHUNK, from, here / STEP, to + i * COLUMNS);
#else
            long i = 0;
            for (; i + 6 <= count; i += 6)
                six_pixels(rows + i * CHUNK, from, here / STEP, to + i * COLUMNS, k > 0);
            for (; i < count; i += 2)
                two_pixels(rows + i * CHUNK, from, here / STEP, to + i * COLUMNS, k > 0);
#endif
        }
    }
#ifdef AMX
    amx_end();
#endif
#ifdef ENDS_IN_TILES
    if (p.rows_of_results)
        return;
    y -= y_offset + first * p.y_strides[4];
#endif
    long4 at = first_pixel;
    for (long i = 0; i < count; ++i, at = next_pixel(&p, at)) {
        __global storage_t(Y)* pixel = y + y_offset + at.w * p.y_strides[0] + at.x * p.y_strides[2] +
                                       at.y * p.y_strides[3] + at.z * p.y_strides[4];
        for (long panel = 0; panel < panels; ++panel) {
            const long in_group = (panel_begin + panel) * COLUMNS, o = group * p.outputs + in_group;
            __local int* from = sums + (panel * MOST_PIXELS + i) * COLUMNS;
            __global storage_t(Y)* to = pixel + o * p.y_strides[1];
            if (p.y_strides[1] == 1 && in_group + COLUMNS <= p.outputs) {
                const results one = ended_vector(&ending, vload8(0, from), o);
                const results two = ended_vector(&ending, vload8(1, from), o + 8);
                STORE_RESULTS(one, two, to);
            } else
                for (long j = 0; j < COLUMNS && in_group + j < p.outputs; ++j)
                    to[j * p.y_strides[1]] = (storage_t(Y))ended(&ending, from[j], o + j);
        }
    }
}
