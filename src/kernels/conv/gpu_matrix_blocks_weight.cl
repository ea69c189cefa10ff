// The weight gradient of a convolution of 16-bit floats by matrix instructions, for GPUs that read blocks of two
// dimensions: as gpu_matrix_blocks.cl reads the source, here both tensors.
//
//   dw[output][row] = sum over pixels of dy[pixel][output] * x[pixel][row],   rows are (tap, channel)
//
// in parts of the pixels, which add_parts.cl adds in order. k runs over 16 * STEPS rows of one column of an image; of
// both tensors hardware gives zeros for what lies outside. Rows of dw come in runs of a multiple of 32, b.run, which
// follow each other in x: the channels of a tap, or, where they are few, those of all taps along a row and what comes
// after them, which is not written.
//
// Options: those of gpu_gather.cl (-DPLANES=0 -DINSIDE=0 -DONE_TAP=0) and matrix_tiles.cl (-DA_ALONG_K=0 -DB_ALONG_K=0
// -DALIGNED=1 -DBLOCKS=1, of fragments in M two, in N an even number), -DSTRIDED as in gpu_matrix_blocks.cl, and
//   -DSTEPS=1|2
#include "kernels/conv/gpu_gather.cl"
#include "kernels/gemm/matrix_tiles.cl"
#include "kernels/gemm/fragments_blocks.cl"

#define LINES (16 * STEPS)   // rows of an image that a step takes
#if EMULATED
#define read_lines(g, s, x, y, to) read_some_pairs(g, s, LINES, x, y, to)
#define read_lines_turned(g, s, x, y, to) read_some_turned(g, s, STEPS, x, y, to)
#elif STEPS == 2
#define read_lines read_pairs
#define read_lines_turned read_two_turned
#else
#define read_lines(g, s, x, y, to) intel_sub_group_2d_block_read_transform_16b_16r16x2c(SURFACE(s), (int2)(x, y), to)
#define read_lines_turned read_turned
#endif
#define SEEN (FRAGMENTS_N / 2)   // blocks of 32 rows of dw that a sub-group computes

// What such a block sees of x: elements from tap 0, rows, and how it lies in the image.
typedef struct {
    int x, down;
    OFFSET first;
    int height;
} seen_block;

static inline seen_block find_seen(const gpu_conv_problem* p, const conv_blocks_problem* b, int row)
{
    const int run = row / b->run, tap_row = run / b->runs;
    const int at = p->shift[1] + tap_row * p->step[1];
    seen_block seen;
    seen.x = p->shift[2] * p->source_axis[2] + (run - tap_row * b->runs) * b->run_step + (row - run * b->run);
#if STRIDED
    const int first = (at % p->scale[1] + p->scale[1]) % p->scale[1];
    seen.down = (at - first) / p->scale[1];
    seen.first = first * (OFFSET)p->source_axis[1];
    seen.height = (p->in[1] - first + p->scale[1] - 1) / p->scale[1];
#else
    seen.down = at;
    seen.first = 0;
    seen.height = p->in[1];
#endif
    seen.height = max(min(seen.height, b->rows + seen.down), 0);   // rows beyond dy's are multiplied by zeros
    return seen;
}

// parts[part][group, output][row] for one part of the pieces, columns of LINES rows.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) SUB_GROUP_SIZE
void conv_blocks_weight(const __global stored* restrict x, ulong x_offset, const __global stored* restrict dy,
                        ulong dy_offset, __global float* parts, ulong parts_offset, gpu_conv_problem p,
                        conv_blocks_problem b, int channels)
{
    BEGIN_MATRIX_TILE
    const int output_blocks = (p.rows + BLOCK_M - 1) / BLOCK_M, row0 = get_group_id(0) * BLOCK_N;
    const int output0 = get_group_id(1) % output_blocks * BLOCK_M, group = get_group_id(1) / output_blocks;
    const int part = get_group_id(2), begin = part * p.part_pixels, end = min(p.part_pixels, p.pixels - begin) + begin;
    const int own_output = output0 + UNIFORM(row), own_row = row0 + UNIFORM(column);
    x += x_offset;
    dy += dy_offset;
    seen_block seen[SEEN];
    UNROLL for (int j = 0; j < SEEN; ++j)
        seen[j] = find_seen(&p, &b, min(own_row + 32 * j, p.total - 32));

    for (int piece = begin; piece < end;) {
        const position at = find_position(&p, piece);
        int columns = min(p.out[2] - at.x, end - piece);
        piece += columns;
        const surface from_dy = {dy + at.n * p.result_image, b.weights_width, b.rows, 2 * p.result_axis[1]};
        const int y = at.y * LINES;
        int dy_x = at.x * p.result_axis[2] + group * (int)p.result_group + own_output;
        surface from[SEEN];
        UNROLL for (int j = 0; j < SEEN; ++j)
        {
            from[j].base = x + at.n * p.source_image + seen[j].first;
            from[j].width = b.source_width;
            from[j].height = seen[j].height;
            from[j].pitch = 2 * p.scale[1] * p.source_axis[1];
        }
        int far = at.x * p.scale[2] * p.source_axis[2] + group * (int)p.source_group;
        for (; columns > 0; --columns) {
            uint turned[2][4][STEPS];   // [8 outputs][pair of outputs][k step]
            read_lines_turned(g, from_dy, dy_x, y, &turned[0][0][0]);
            UNROLL for (int j = 0; j < SEEN; ++j)
            {
                uint pairs[2][STEPS][8];   // [16 rows of dw][k step][pair]
                read_lines(g, from[j], far + seen[j].x, y + seen[j].down, &pairs[0][0][0]);
                UNROLL for (int step = 0; step < STEPS; ++step)
                    UNROLL for (int i = 0; i < FRAGMENTS_M; ++i)
                        UNROLL for (int e = 0; e < 2; ++e)
                            sums[i][2 * j + e] = multiply_add(g, ROWS_OF_PAIRS(turned[i], step),
                                                              as_int8(vload8(0, pairs[e][step])), sums[i][2 * j + e]);
            }
            dy_x += p.result_axis[2];
            far += p.scale[2] * p.source_axis[2];
        }
    }

    const int taps_in_all = p.taps[1] * p.taps[2], taps_of_run = p.taps[2] / b.runs;
    parts += parts_offset + (((long)part * (get_num_groups(1) / output_blocks) + group) * p.rows + output0) *
                              taps_in_all * channels;
    const int outputs = min(p.rows - output0, BLOCK_M);
    EACH_QUAD_OF_SUMS(i, j, v, {
        const int run = (row0 + j) / b.run;
        const int in_run = (row0 + j) - run * b.run;
        const int tap = in_run / p.depth;
        const int channel = in_run - tap * p.depth;
        if (i < outputs && row0 + j < p.total && tap < taps_of_run && channel < channels)
            write_sums(v, parts + ((long)i * taps_in_all + run * taps_of_run + tap) * channels + channel,
                       channels - channel);
    })
}
