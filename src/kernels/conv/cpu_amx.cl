// Convolution on a CPU with AMX tile registers: cpu_implicit.cl's product by the tiles of gemm/amx.cl. The weights are
// split once per call to strips of 32 rows; per block of k and 32 pixels a work-item packs the source, splits it to a
// panel in the first-level cache and multiplies it with every strip.
// Options: -DT and -DX, both the dtype (float32, float16 or bfloat16).
#include "kernels/conv/implicit_blocks.cl"
#include "kernels/gemm/amx.cl"

REGISTER_ROW(row_1, __global, __local)

// A strip's words follow a header, whose first word says that the strip is unfit.
#define STRIP_HEADER 16

typedef struct {
    long strips, blocks;        // of all rows of a group, of k
    long strip_words;           // from one strip to the next: [group][block][strip]
} amx_weights;

// Block `index` of k, in the order of the sums. Its columns of the weight matrix lie together.
static inline k_block find_block(const implicit_problem* p, int index)
{
    const int taps = p->taps[0] * p->taps[1] * p->taps[2], channels = p->depth;
    const int inner_size = p->taps_inner ? taps : channels;
    const int inner_block = p->taps_inner ? p->taps_block : p->channels_block;
    const int inner_blocks = max((inner_size + inner_block - 1) / inner_block, 1);
    const int inner = index % inner_blocks, outer = index / inner_blocks;
    k_block block;
    block.c_begin = (p->taps_inner ? outer : inner) * (int)p->channels_block;
    block.t_begin = (p->taps_inner ? inner : outer) * (int)p->taps_block;
    block.c_count = min((int)p->channels_block, channels - block.c_begin);
    block.t_count = min((int)p->taps_block, taps - block.t_begin);
    block.channel_pitch = WIDE * (p->taps_inner ? block.t_count : 1);
    block.tap_pitch = WIDE * (p->taps_inner ? 1 : block.c_count);
    return block;
}

// A panel straight from `depth` planes of pixels: nothing to gather. Whether it is unfit.
static inline int split_planes(const __global stored* from, long plane, int depth, __local uint* words)
{
    int unfit = 0;
    for (int side = 0; side < 2; ++side, from += LANES) {
        uint16 most = 0;
        for (int k = 0; k < depth; k += 2)
            amx_split_to_local(load_lanes(from + k * plane),
                               k + 1 < depth ? load_lanes(from + (k + 1) * plane) : (float16)0,
                               words + k / 32 * AMX_BLOCK + side * AMX_TILE + k / 2 % 16 * 16, &most);
        unfit |= amx_unfit_columns(most);
    }
    amx_end_panel(words, depth);
    return unfit;
}

// One work-item splits one strip of one block of the weight matrix [group, row][k].
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_amx_weights(const __global real* weights, ulong weights_offset, __global uint* words, ulong words_offset,
                      amx_weights split, implicit_problem p)
{
    const int strip = get_group_id(0), index = get_group_id(1), group = get_group_id(2);
    const k_block block = find_block(&p, index);
    const int depth = block.c_count * block.t_count, rows = min(AMX_SIDE, (int)p.rows - strip * AMX_SIDE);
    weights += weights_offset + (group * p.rows + strip * AMX_SIDE) * p.weight_stride + weight_column(&p, &block);
    words += words_offset + ((group * split.blocks + index) * split.strips + strip) * split.strip_words;
    words[0] = amx_split_global_rows(weights, p.weight_stride, rows, depth, words + STRIP_HEADER);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_amx(const __global stored* source, ulong source_offset, const __global real* weights, ulong weights_offset,
              const __global uint* words, ulong words_offset, const __global stored* bias, ulong bias_offset,
              __global stored* result, ulong result_offset, __local real* packed, __local uint* panel,
              __local real* sums, amx_weights split, implicit_problem p)
{
    const long pixels = p.batch * p.out[0] * p.out[1] * p.out[2];
    const long row_blocks = (p.rows + p.tile_rows - 1) / p.tile_rows;
    const long pixel_blocks = (pixels + p.tile_pixels - 1) / p.tile_pixels;
    const long id = get_group_id(0);
    const int row_begin = id % row_blocks * p.tile_rows;
    const long pixel_begin = id / row_blocks % pixel_blocks * p.tile_pixels;
    const long group = id / row_blocks / pixel_blocks;
    const int rows = min(p.tile_rows, p.rows - row_begin);
    const int count = min(p.tile_pixels, pixels - pixel_begin);
    const int padded_rows = (rows + AMX_SIDE - 1) / AMX_SIDE * AMX_SIDE;

    const long first_row = group * p.rows + row_begin;
    source += source_offset + group * p.depth * p.source_strides[1];
    p.source_size -= group * p.depth * p.source_strides[1];
    weights += weights_offset + first_row * p.weight_stride;
    words += words_offset + (group * split.blocks * split.strips + row_begin / AMX_SIDE) * split.strip_words;
    bias += p.finish.has_bias ? bias_offset + first_row : 0;
    result += result_offset + first_row * p.result_strides[1];

    // One tap without stride or border: pixels that follow each other within an image are read as they lie.
    const long image = p.out[0] * p.out[1] * p.out[2];
    const int plain = p.taps[0] * p.taps[1] * p.taps[2] == 1 && images_are_runs(&p) && p.source_strides[4] == 1 &&
                      p.shift[0] == 0 && p.shift[1] == 0 && p.shift[2] == 0;
    AMX_NOTHING_WAITS(waiting)
    amx_begin();
    for (int index = 0; index < split.blocks; ++index, words += split.strips * split.strip_words) {
        const k_block block = find_block(&p, index);
        const int depth = block.c_count * block.t_count, last = index + 1 == split.blocks;
        const long column = weight_column(&p, &block);
        for (int at = 0; at < count; at += WIDE) {
            const int wide = min(WIDE, count - at);
            const long n = (pixel_begin + at) / image, within = (pixel_begin + at) % image;
            const int direct = plain && wide == WIDE && within + WIDE <= image;
            pixel_runs runs;
            if (!direct || last)
                find_runs(&runs, &p, pixel_begin + at, wide);
            int unfit_panel;
            if (direct) {
                const __global stored* from = source + n * p.source_strides[0] + within;
                unfit_panel =
                    split_planes(from + block.c_begin * p.source_strides[1], p.source_strides[1], depth, panel);
            } else {
                pack(packed, source, &p, &runs, &block);
                unfit_panel = amx_split_panel(packed, depth, wide, panel);
            }
            __local real* tile = sums + (long)(at / WIDE) * padded_rows * WIDE;
            for (int row = 0; row < rows; row += AMX_SIDE) {
                const __global uint* strip = words + row / AMX_SIDE * split.strip_words;
                __local real* C = tile + row * WIDE;
                if (unfit_panel || strip[0]) {
                    amx_settle(&waiting);
                    if (direct) {
                        find_runs(&runs, &p, pixel_begin + at, wide);
                        pack(packed, source, &p, &runs, &block);
                    }
                    for (int r = row; r < min(row + AMX_SIDE, rows); ++r)
                        row_1(weights + r * p.weight_stride + column, packed, depth, tile + r * WIDE, index > 0);
                    continue;
                }
                const amx_product product = {(ulong)(strip + STRIP_HEADER), (ulong)panel, (depth + AMX_SIDE - 1) / AMX_SIDE,
                                             rows - row, wide};
                amx_multiply(product, &waiting, 0);
                amx_put(&waiting, (ulong)C, WIDE, index > 0);
            }
            if (last) {
                amx_settle(&waiting);
                finish(tile, result, bias, rows, &runs, &p);
            }
        }
    }
    amx_settle(&waiting);
    amx_end();
}
