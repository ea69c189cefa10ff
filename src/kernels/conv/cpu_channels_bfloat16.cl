// cpu_channels.cl for bfloat16 by AVX-512 BF16 (gemm/bfloat16_rows.cl): pixels, whose channels are neighbours, are rows
// of the product and read where they lie, taps are their parts.
//
//     weights: [group][panel][tap][pair of channels][32 rows] words; a last panel of up to 16 rows has so many
//
// Pixels outside of the borders are read from `depth` zeros behind the weights.
#include "kernels/conv/lanes.cl"
#include "kernels/conv/implicit_problem.cl"
#include "kernels/conv/channel_places.cl"
#include "kernels/gemm/bfloat16_rows.cl"
#define X bfloat16
#include "kernels/gemm/problem.cl"
#include "kernels/gemm/lanes.cl"
#include "kernels/gemm/bfloat16_words.cl"
DEFINE_TURN_COLUMNS(turn_columns, __private)

#define PANEL 32

// For each tile of rows_at_once() pixels: where each tap of each ends, then where its result is.
static inline void fill_table(__local ulong* table, const __local int* places, int pitch, int count, int taps,
                              ulong source_end, ulong zeros_end, ulong result)
{
    for (int at = 0, rows; at < count; at += rows) {
        rows = rows_at_once(count - at);
        for (int t = 0; t < taps; ++t, table += rows)
            for (int i = 0; i < rows; ++i) {
                const int place = places[t * pitch + at + i];
                table[i] = place < 0 ? zeros_end : source_end + 2l * place;
            }
        for (int i = 0; i < rows; ++i)
            table[i] = result + 2l * places[taps * pitch + at + i];
        table += rows;
    }
}

// Pixels as they lie to `near`, `pitch` elements apart, and their places there.
static inline void copy_pixels(__local ushort* near, int near_pitch, const __global ushort* source, __local int* places,
                               int count, int channels)
{
    for (int i = 0; i < count; ++i, near += near_pitch) {
        if (places[i] < 0)
            continue;
        for (int c = 0; c < channels; c += 4)
            vstore4(vload4(0, source + places[i] + c), 0, near + c);
        places[i] = i * near_pitch;
    }
}

// Of a tile of sums, [row][columns].
static inline void finish_sums(const float* sums, int columns, const __local ulong* results, long column, int rows,
                               int wanted, const float* bias, const epilogue* finish)
{
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < wanted; j += 16) {
            __global ushort* to = (__global ushort*)results[i] + column + j;
            float16 v = vload16(0, sums + i * columns + j) + vload16(0, bias + j);
            if (finish->accumulate)
                v += get_row(to, 1, wanted - j);
            put_row(activate_lanes(v, finish), to, 1, wanted - j);
        }
}

// p.tile_depth: as in cpu_channels.cl.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_channels(const __global ushort* source, ulong source_offset, const __global uint* weights,
                   ulong weights_offset, const __global ushort* bias, ulong bias_offset, __global ushort* result,
                   ulong result_offset, __local int* places, __local ulong* table, __local ushort* near,
                   implicit_problem p)
{
    const long pixels = p.batch * p.out[0] * p.out[1] * p.out[2];
    const long pixel_blocks = (pixels + p.tile_pixels - 1) / p.tile_pixels;
    const long row_blocks = (p.rows + p.tile_rows - 1) / p.tile_rows;
    const long id = get_group_id(0), group = id / pixel_blocks / row_blocks;
    const long pixel_begin = id % pixel_blocks * p.tile_pixels;
    const int row_begin = id / pixel_blocks % row_blocks * p.tile_rows;
    const int row_end = min(p.rows, row_begin + p.tile_rows), count = min(p.tile_pixels, pixels - pixel_begin);
    const int taps = p.taps[0] * p.taps[1] * p.taps[2], channels = p.depth, pitch = p.tile_pixels;

    weights += weights_offset;
    const ulong zeros_end = (ulong)(weights + p.groups * p.weight_stride) + 2l * channels;
    weights += group * p.weight_stride;
    source += source_offset + group * channels * p.source_strides[1];
    result += result_offset + group * p.rows;
    bias += p.finish.has_bias ? bias_offset + group * p.rows : 0;

    find_places(places, pitch, &p, pixel_begin, count);
    ulong from = (ulong)source;
    if (p.tile_depth) {
        copy_pixels(near, (int)p.tile_depth, source, places, count, channels);
        from = (ulong)near;
    }
    fill_table(table, places, pitch, count, taps, from + 2l * channels, zeros_end, (ulong)result);

    const int activation = p.finish.activation;
    const int plain = activation <= ACTIVATION_RELU && !p.finish.accumulate && taps > 0;
    float begin[PANEL], sums[ROWS_AT_ONCE * PANEL] __attribute__((aligned(64)));
    row_operands of = {.back = (ulong)(-2l * channels), .parts = taps, .bias = (ulong)begin,
                       .least = activation == ACTIVATION_RELU ? 0 : as_uint(-INFINITY)};
    for (int row = row_begin; row < row_end; row += PANEL) {
        const int wanted = min(PANEL, row_end - row), vectors = wanted > 16 ? 2 : 1;
        for (int j = 0; j < PANEL; ++j)
            begin[j] = p.finish.has_bias && j < wanted ? load(bfloat16, bias, row + j) : 0;
        of.weights = (ulong)(weights + (long)row * (taps * channels / 2));
        of.table = (ulong)table;
        of.column = 2l * row;
        const int whole = plain && wanted == 16 * vectors;
        of.sums = whole ? 0 : (ulong)sums;
        for (int at = 0, done; at < count; at += done) {
            const int rows = rows_at_once(count - at);
            of.groups = whole && rows == ROWS_AT_ONCE ? (count - at) / ROWS_AT_ONCE : 1;
            done = rows * of.groups;
            if (taps > 0)   // some positions of a gradient have none
                multiply_rows(&of, rows, vectors);
            else
                for (int i = 0; i < ROWS_AT_ONCE * PANEL; ++i)
                    sums[i] = 0;
            of.table += 8l * (taps + 1) * done;
            if (!whole)
                finish_sums(sums, 16 * vectors, (const __local ulong*)of.table - rows, row, rows, wanted, begin,
                            &p.finish);
        }
    }
}

// Words of panels from w[row][tap][channel] or, where taps are neighbours, w[row][channel][tap]; and behind the panels
// p.depth zeros.
typedef struct {
    long rows, depth, taps, groups;      // of a group
    long group_stride, row_stride, tap_stride;
    long weight_stride;                  // words of a group's panels
} words_problem;
#define MOST_TAPS 25   // that are neighbours

// A work-item packs 16 rows: a tap of them or, where those are neighbours, 32 channels.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_channels_words(const __global ushort* w, ulong w_offset, __global uint* words, ulong words_offset,
                         words_problem p)
{
    const long part = get_group_id(0), row = (long)get_group_id(1) * 16, group = get_group_id(2);
    const long panel = row / PANEL * PANEL, rows = min(16l, p.rows - row);
    const int pitch = p.rows - panel > 16 ? PANEL : 16;
    w += w_offset + group * p.group_stride + row * p.row_stride;
    words += words_offset;
    if (group == 0 && row == 0 && part == 0)
        for (long i = 0; i < p.depth / 2; ++i)
            words[p.groups * p.weight_stride + i] = 0;
    words += group * p.weight_stride + panel * (p.taps * p.depth / 2) + row % PANEL;
    if (p.taps == 1 || p.tap_stride != 1) {
        w += part * p.tap_stride;
        words += part * (p.depth / 2) * pitch;
        for (long c = 0; c < p.depth; c += 32) {
            uint block[256];
            turn_columns(w + c, p.row_stride, rows, p.depth - c, block);
            for (int i = 0; i < min(16l, (p.depth - c) / 2); ++i)
                vstore16(vload16(i, block), 0, words + (c / 2 + i) * pitch);
        }
        return;
    }
    // Neighbours in memory are turned as words first, whose halves then meet those of the next channel.
    const int taps = p.taps, channels = min(32l, p.depth - 32 * part);
    uint block[256 * MOST_TAPS];
    w += 32 * part * taps;
    words += 16 * part * pitch;
    for (int i = 0; i < channels * taps; i += 32)
        turn_columns(w + i, p.row_stride, rows, channels * taps - i, block + 8 * i);
    for (int t = 0; t < taps; ++t)
        for (int i = 0; i < channels / 2; ++i) {
            const int one = 2 * i * taps + t, two = one + taps;
            const uint16 low = vload16(one / 2, block) >> one % 2 * 16 & 0xffff;
            vstore16(low | vload16(two / 2, block) >> two % 2 * 16 << 16, 0, words + (t * p.depth / 2 + i) * pitch);
        }
}

// Rows of pixels with few channels, four each, and zeros around: mirror of PatchProblem (cpu_channels_bfloat16.cpp).
typedef struct {
    long batch, channels, in[3], pad[3], padded[3], strides[5];
} patch_problem;

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_channels_fours(const __global ushort* x, ulong x_offset, __global ushort* copy, ulong copy_offset,
                         patch_problem p)
{
    const long id = get_group_id(0), n = id / p.padded[1] / p.padded[0];
    const long row = id % p.padded[1] - p.pad[1], plane = id / p.padded[1] % p.padded[0] - p.pad[0];
    const int width = p.padded[2], channels = p.channels;
    const int inside = row >= 0 && row < p.in[1] && plane >= 0 && plane < p.in[0];
    const int begin = inside ? clamp((int)p.pad[2], 0, width) : width;
    const int end = inside ? clamp((int)(p.pad[2] + p.in[2]), begin, width) : width;
    copy += copy_offset + id * width * 4;
    for (int i = 0; i < begin; ++i)
        vstore4((ushort4)0, i, copy);
    for (int i = end; i < width; ++i)
        vstore4((ushort4)0, i, copy);
    x += x_offset + n * p.strides[0] + plane * p.strides[2] + row * p.strides[3] - p.pad[2] * p.strides[4];
    const long second = channels > 1 ? p.strides[1] : 0, third = channels > 2 ? 2 * p.strides[1] : 0;
    for (int i = begin; i < end; ++i) {
        const __global ushort* from = x + i * p.strides[4];
        vstore4((ushort4)(from[0], channels > 1 ? from[second] : 0, channels > 2 ? from[third] : 0, 0), i, copy);
    }
}
