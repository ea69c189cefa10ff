// Convolution on a CPU with AMX tile registers: cpu_implicit.cl's product by the tiles of gemm/amx.cl. The weights are
// split once per call to strips of 32 rows; per block of k and 32 pixels a work-item packs the source, splits it to a
// panel in the first-level cache and multiplies it with every strip.
// Options: -DT and -DX, both the dtype (float32, float16, bfloat16) [-DDOT_VECTOR=64: bfloat16 by vectors, see amx.cl]
#include "kernels/conv/implicit_blocks.cl"
#include "kernels/conv/amx_panels.cl"

REGISTER_ROW(row_1, __global, __local)

// A strip's words follow a header, whose first word says that the strip is unfit.
#define STRIP_HEADER 16

typedef struct {
    long strips, blocks;        // of all rows of a group, of k
    long strip_words;           // from one strip to the next: [group][block][strip]
    long image_panels;          // 0, or panels of an image where the pixels of an image are read and written as
                                // they lie
    long pixels;                // of all images, with those that such panels share
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

// Where the pixels of a panel are.
typedef struct {
    pixel_runs runs;               // unless direct
    int wide, direct, stretch;     // stretch: the result's pixels lie together
    int shared;                    // pixels at the beginning that belong to the panel before, too
    const __global stored* source;
    long place;
} panel_pixels;

// The panel of `count` pixels at most from `pixel`. Images of 32 pixels and more, if they are read as they lie, have
// panels of their own, the last one of which shares pixels with the one before.
static inline void find_pixels(panel_pixels* panel, const __global stored* source, const implicit_problem* p,
                               const amx_weights* split, long pixel, int count)
{
    panel->wide = min(WIDE, count);
    panel->direct = split->image_panels > 0;
    panel->shared = 0;
    if (panel->direct) {
        const long image = p->out[0] * p->out[1] * p->out[2], index = pixel / WIDE;
        const long n = index / split->image_panels, start = index % split->image_panels * WIDE;
        const long within = min(start, image - WIDE);
        panel->stretch = 1;
        panel->shared = start - within;
        panel->source = source + n * p->source_strides[0] + within;
        panel->place = n * p->result_strides[0] + within;
        return;
    }
    find_runs(&panel->runs, p, pixel, panel->wide);
    panel->place = panel->runs.place[0];
    panel->stretch = panel->wide == WIDE && p->result_strides[4] == 1;
    for (int r = 1; r < panel->runs.count; ++r)
        panel->stretch &= panel->runs.place[r] == panel->place + panel->runs.begin[r];
}

// Begins the panel of a block of k: what can be split beside products is left to be done.
static inline void begin_panel(panel_job* job, const panel_pixels* at, const __global stored* source,
                               const implicit_problem* p, const k_block* block, __local real* packed,
                               __local uint* words)
{
    job->depth = block->c_count * block->t_count;
    job->wide = at->wide;
    job->words = words;
    job->k = 0;
    job->most[0] = 0;
    job->most[1] = 0;
    job->plane = p->source_strides[1];
    job->packed = packed;
    job->planes = at->direct ? at->source + block->c_begin * job->plane : 0;
    if (!at->direct)
        pack(packed, source, p, &at->runs, block);
}

// The panel of a block of k as floats, read as it lies.
static inline void pack_direct(__local real* packed, const panel_pixels* at, const implicit_problem* p,
                               const k_block* block)
{
    const __global stored* from = at->source + block->c_begin * p->source_strides[1];
    for (int c = 0; c < block->c_count; ++c, from += p->source_strides[1], packed += WIDE) {
        put_vec(load_lanes(from), 0, packed);
        put_vec(load_lanes(from + LANES), 1, packed);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_amx(const __global stored* source, ulong source_offset, const __global real* weights, ulong weights_offset,
              const __global uint* words, ulong words_offset, const __global stored* bias, ulong bias_offset,
              __global stored* result, ulong result_offset, __local real* packed, __local uint* panels,
              __local real* sums, amx_weights split, implicit_problem p)
{
    const long row_blocks = (p.rows + p.tile_rows - 1) / p.tile_rows;
    const long pixel_blocks = (split.pixels + p.tile_pixels - 1) / p.tile_pixels;
    const long id = get_group_id(0);
    const int row_begin = id % row_blocks * p.tile_rows;
    const long pixel_begin = id / row_blocks % pixel_blocks * p.tile_pixels;
    const long group = id / row_blocks / pixel_blocks;
    const int rows = min(p.tile_rows, p.rows - row_begin);
    const int count = min(p.tile_pixels, split.pixels - pixel_begin);
    const int padded_rows = (rows + AMX_SIDE - 1) / AMX_SIDE * AMX_SIDE,
              panel_words = p.tile_depth / AMX_SIDE * AMX_BLOCK;

    const long first_row = group * p.rows + row_begin;
    source += source_offset + group * p.depth * p.source_strides[1];
    p.source_size -= group * p.depth * p.source_strides[1];
    weights += weights_offset + first_row * p.weight_stride;
    words += words_offset + (group * split.blocks * split.strips + row_begin / AMX_SIDE) * split.strip_words;
    bias += p.finish.has_bias ? bias_offset + first_row : 0;
    result += result_offset + first_row * p.result_strides[1];

    const int activation = p.finish.activation;
    float tile[AMX_SIDE * AMX_SIDE] __attribute__((aligned(64)));
    panel_job job = {.result_step = p.result_strides[1], .finish = &p.finish,
                     .bounded = activation <= ACTIVATION_CLIP,
                     .low = activation == ACTIVATION_CLIP   ? p.finish.alpha
                            : activation == ACTIVATION_RELU ? 0
                                                            : -INFINITY,
                     .high = activation == ACTIVATION_CLIP ? p.finish.beta : INFINITY};
    panel_pixels places[2];
    k_block block = find_block(&p, 0);
    amx_begin();
    find_pixels(&places[0], source, &p, &split, pixel_begin, count);
    begin_panel(&job, &places[0], source, &p, &block, packed, panels);
    for (int index = 0, at = 0, turn = 0; index < split.blocks; turn ^= 1) {
        split_pairs(&job, p.tile_depth);
        const panel_pixels* here = &places[turn];
        const int depth = job.depth, last = index + 1 == split.blocks, first = index == 0;
        const __global uint* strips = words;
        __local real* C = sums + (long)(at / WIDE) * padded_rows * WIDE;
        int unfit = amx_unfit_columns(job.most[0]) | amx_unfit_columns(job.most[1]);
        for (int row = 0; row < rows; row += AMX_SIDE)
            unfit |= strips[row / AMX_SIDE * split.strip_words];
        if (unfit) {
            settle_rows(&job);
            if (here->direct)
                pack_direct(packed, here, &p, &block);
            const __global real* columns = weights + weight_column(&p, &block);
            for (int r = 0; r < rows; ++r)
                row_1(columns + r * p.weight_stride, packed, depth, C + r * WIDE, !first);
        }
        // What follows.
        at += WIDE;
        if (at >= count) {
            at = 0;
            ++index;
            words += split.strips * split.strip_words;
            block = find_block(&p, index);
        }
        const int strip_count = padded_rows / AMX_SIDE;
        job.share = 0;
        if (index < split.blocks) {
            find_pixels(&places[turn ^ 1], source, &p, &split, pixel_begin + at, count - at);
            begin_panel(&job, &places[turn ^ 1], source, &p, &block, packed, panels + (turn ^ 1) * panel_words);
            // A position that no tap reaches has no products.
            const int steps = max(strip_count * ((depth + AMX_SIDE - 1) / AMX_SIDE) * AMX_STEPS, 1);
            job.share = ((job.depth + 31) / 32 * 16 + steps - 1) / steps;
        }
        const int finished = last && here->stretch;   // beside products, row by row
        for (int row = 0; row < rows; row += AMX_SIDE) {
            const int kept = first && !finished;       // as they are, where the sums will be
            __local real* strip_sums = C + row * WIDE;
            if (!unfit) {
                const ulong strip = (ulong)(strips + row / AMX_SIDE * split.strip_words + STRIP_HEADER);
                const amx_product product = {strip, (ulong)(panels + turn * panel_words),
                                             (depth + AMX_SIDE - 1) / AMX_SIDE, rows - row, here->wide,
                                             strip + 4 * split.strip_words};
                const ulong to = kept ? (ulong)strip_sums : (ulong)tile;
#ifdef DOT_VECTOR
                settle_rows(&job);
                dot_blocks(product.strip, product.panel, product.blocks,
                           (int2)(min(rows - row, AMX_SIDE), here->wide), (int*)to);
#else
                multiply_beside(product, &job);
                amx_store(to, WIDE);
#endif
            }
            if (unfit ? !finished : kept)
                continue;
            // What vectors summed waits in the sums alone.
            job.tile = unfit ? 0 : tile;
            job.sums = first && !unfit ? 0 : strip_sums;
            job.rows = finished ? min(AMX_SIDE, rows - row) : AMX_SIDE;
            job.result = finished ? result + here->place + row * job.result_step : 0;
            job.bias = p.finish.has_bias ? bias + row : 0;
            job.from = here->shared;
            if (unfit)
                settle_rows(&job);
        }
        if (last && !here->stretch) {
            settle_rows(&job);
            finish(C, result, bias, rows, &here->runs, &p);
        }
    }
    settle_rows(&job);
    amx_end();
}
