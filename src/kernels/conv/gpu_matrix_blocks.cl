// Convolution of 16-bit floats by matrix instructions, forward and data gradient, for GPUs that read blocks of two
// dimensions (gemm/fragments_blocks.cl): nothing passes through local memory, and nothing is computed for edges, since
// hardware gives zeros for what lies outside.
//
//   result[pixel][channel] = sum over k of source[pixel][k] * weights[k][channel]
//
// An image of the source is a matrix: its rows, and (column, channel) along them. A block of it is PIECE rows of 32
// channels of one column, and so the A of PIECE pixels that lie one below the other. Padding is what lies outside of
// the matrix. Weights are packed as [group][tap][depth][channel]. Rows and columns may be either way round in the
// result and in the problem, which the host has turned; taps along columns ascend. Where the channels of taps along a
// row follow each other they are one run of k, whose last block may see columns of other taps: zeros are put there, as
// in the weights.
//
// Options: those of gpu_gather.cl (-DPLANES=0 -DINSIDE=0 -DONE_TAP=0), gpu_matrix_finish.cl and matrix_tiles.cl
// (-DA_ALONG_K=1 -DB_ALONG_K=0 -DALIGNED=1 -DBLOCKS=1, of fragments in M four), and
//   -DPIECE=8|16|32
//   -DMASKED=0|1|2            what of a run's last block is not of it: nothing, a part of its second half, more
//   -DSTRIDED=0|1             rows of the result are further apart than one row of the source
//   -DCHANNELS_INNERMOST=0|1  of the result
//   -DQUADS=0|1               four neighbours, channels or rows of the result, lie at a multiple of four elements
#include "kernels/conv/gpu_gather.cl"
#include "kernels/gemm/matrix_tiles.cl"
#include "kernels/gemm/fragments_blocks.cl"
#include "kernels/conv/gpu_matrix_finish.cl"

#if CHANNELS_INNERMOST
#define RESULT_CHANNEL(p) 1
#else
#define RESULT_CHANNEL(p) (OFFSET)(p).result_channel
#endif
#define PIECES (ROWS / PIECE)   // of a sub-group
#define READ_PIECE_OF(rows) intel_sub_group_2d_block_read_16b_##rows##r16x2c
#define PREFETCH_PIECE_OF(rows) intel_sub_group_2d_block_prefetch_16b_##rows##r16x2c
#define READ_PIECE_OF_(rows) READ_PIECE_OF(rows)
#define PREFETCH_PIECE_OF_(rows) PREFETCH_PIECE_OF(rows)
#if EMULATED
#define read_piece(g, s, x, y, to) read_some_rows(g, s, PIECE, x, y, to)
#define PREFETCH_PIECE(s, x, y)
#else
#define read_piece(g, s, x, y, to) READ_PIECE_OF_(PIECE)(SURFACE(s), (int2)(x, y), to)
#define PREFETCH_PIECE(s, x, y) PREFETCH_PIECE_OF_(PIECE)(SURFACE(s), (int2)(x, y))
#endif

// Where tap (0, 0) of a piece lies: its image; elements along its row, and rows.
typedef struct {
    const __global stored* image;
    int x, y;
} piece_place;

typedef struct {
    OFFSET first;
    int rows;
} piece_ending;

static inline piece_place find_piece(const __global stored* source, const gpu_conv_problem* p, int group, int piece)
{
    const position at = find_position(p, min(piece, p->pixels - 1));
    const piece_place place = {source + at.n * p->source_image,
                               (at.x * p->scale[2] + p->shift[2]) * p->source_axis[2] + group * (int)p->source_group,
                               at.y * PIECE};
    return place;
}

// The rows of the source that the taps of one row see, as a matrix in which the result's rows follow each other.
// -first / scale rows lie before it.
static inline surface rows_from(const __global stored* image, const gpu_conv_problem* p, const conv_blocks_problem* b,
                                int first)
{
#if STRIDED
    const surface rows = {image + first * (OFFSET)p->source_axis[1], b->source_width,
                          (p->in[1] - first + p->scale[1] - 1) / p->scale[1], 2 * p->scale[1] * p->source_axis[1]};
#else
    const surface rows = {image, b->source_width, p->in[1], 2 * p->source_axis[1]};
#endif
    return rows;
}

// sums += A B over 32 k, or the first 16, of which `left` are of the run.
static inline void multiply_pieces(sub_group g, fragment_sums sums[FRAGMENTS_M][FRAGMENTS_N],
                                   const surface rows[PIECES], const int x[PIECES], const int y[PIECES],
                                   surface weights, int column, int k, int steps, int left)
{
    ushort a[PIECES][2][PIECE];            // [piece][k step][row]
    uint b[FRAGMENTS_N / 2][2][2][8];      // [32 columns][16 columns][k step][pair]
    UNROLL for (int i = 0; i < PIECES; ++i)
        read_piece(g, rows[i], x[i], y[i], &a[i][0][0]);
#if MASKED
    if (left < BLOCK_K) {
        const ushort mask = (int)g.lane + 16 * (steps - 1) < left ? 0xffff : 0;
        UNROLL for (int i = 0; i < PIECES; ++i)
            UNROLL for (int line = 0; line < PIECE; ++line)
                a[i][steps - 1][line] &= mask;
    }
#endif
    UNROLL for (int j = 0; j < FRAGMENTS_N / 2; ++j)
        read_pairs(g, weights, column + 32 * j, k, &b[j][0][0][0]);
    UNROLL for (int step = 0; step < steps; ++step)
        UNROLL for (int i = 0; i < FRAGMENTS_M; ++i)
        {
            const fragment_a part = as_short8(vload8(0, &a[8 * i / PIECE][step][8 * i % PIECE]));
            UNROLL for (int j = 0; j < FRAGMENTS_N; ++j)
                sums[i][j] = multiply_add(g, part, as_int8(vload8(0, b[j / 2][j % 2][step])), sums[i][j]);
        }
}

// The first `count` of four sums of one channel and neighbouring rows, or the other way round; each lies `step` further
// in the result, its bias `bias_step`.
static inline void finish_four(float4 v, __global stored* to, OFFSET step, const __global stored* bias, int bias_step,
                               const gpu_conv_problem* p, int count)
{
    const float values[4] = {v.x, v.y, v.z, v.w};
    float finished[4];
    UNROLL for (int e = 0; e < 4; ++e)
    {
        const int wanted = min(e, count - 1);
        __global stored* at = to + (QUADS ? e : wanted * step);
        finished[e] = finish(values[e], p->has_bias ? load(X, bias, wanted * bias_step) : 0, at, p);
#if !QUADS
        if (e < count)
            store(X, at, 0, finished[e]);
#endif
    }
#if QUADS
    store_quad(X, to, (float4)(finished[0], finished[1], finished[2], finished[3]));
#endif
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) SUB_GROUP_SIZE
void conv_blocks(const __global stored* restrict source, ulong source_offset, const __global stored* restrict weights,
                 ulong weights_offset, const __global stored* bias, ulong bias_offset, __global stored* result,
                 ulong result_offset, gpu_conv_problem p, conv_blocks_problem b)
{
    BEGIN_MATRIX_TILE
    const int channel_blocks = (p.rows + BLOCK_N - 1) / BLOCK_N, piece0 = get_group_id(0) * (BLOCK_M / PIECE);
    const int channel0 = get_group_id(1) % channel_blocks * BLOCK_N, group = get_group_id(1) / channel_blocks;
    source += source_offset;
    const surface from = {weights + weights_offset + group * (OFFSET)p.total * (b.weights_width / 2), b.weights_width,
                          p.total, b.weights_width};

    piece_place pieces[PIECES];
    UNROLL for (int i = 0; i < PIECES; ++i)
        pieces[i] = find_piece(source, &p, group, piece0 + UNIFORM(row) / PIECE + i);
    const int first_channel = channel0 + UNIFORM(column);
    int k = 0;
    for (int tap = 0; tap < p.taps[1]; ++tap) {
        const int at = p.shift[1] + tap * p.step[1];   // rows from a piece to what this tap sees of it
#if STRIDED
        const int first = (at % p.scale[1] + p.scale[1]) % p.scale[1], down = (at - first) / p.scale[1];
#else
        const int first = 0, down = at;
#endif
        surface rows[PIECES];
        int x[PIECES], y[PIECES];
        UNROLL for (int i = 0; i < PIECES; ++i)
        {
            rows[i] = rows_from(pieces[i].image, &p, &b, first);
            x[i] = pieces[i].x;
            y[i] = pieces[i].y + down;
        }
        for (int run = 0; run < b.runs; ++run) {
            int left = b.run;
            for (; left >= BLOCK_K; left -= BLOCK_K) {
                multiply_pieces(g, sums, rows, x, y, from, first_channel, k, 2, BLOCK_K);
                UNROLL for (int i = 0; i < PIECES; ++i)
                    x[i] += BLOCK_K;
                k += BLOCK_K;
            }
#if MASKED   // there is one run
            multiply_pieces(g, sums, rows, x, y, from, first_channel, k, MASKED == 1 ? 2 : 1, left);
            k += BLOCK_K;
#endif
            UNROLL for (int i = 0; i < PIECES; ++i)
                x[i] += b.run_step - b.run;
        }
    }

    result += result_offset + group * p.result_group + channel0 * RESULT_CHANNEL(p);
    bias += bias_offset + group * p.rows + channel0;
    const int channels = min(p.rows - channel0, BLOCK_N);
    // Where pieces lie in the result, and how many rows they have there: found once, not by each work-item.
    __local piece_ending endings[BLOCK_M / PIECE];
    for (int piece = item; piece < BLOCK_M / PIECE; piece += ITEMS) {
        position at = find_position(&p, min(piece0 + piece, p.pixels - 1));
        at.y *= PIECE;
        endings[piece].first = result_place(&p, at);
        endings[piece].rows = piece0 + piece < p.pixels ? b.rows - at.y : 0;
    }
    EACH_QUAD_OF_SUMS(i, j, v, {
        const piece_ending ending = endings[i / PIECE];
        const int line = i % PIECE;
        if (line < ending.rows && j < channels) {
            __global stored* to =
                result + (ending.first + line * (OFFSET)p.result_axis[1] + j * RESULT_CHANNEL(p));
#if CHANNELS_INNERMOST
            finish_four(v, to, 1, bias + j, 1, &p, channels - j);
#else
            finish_four(v, to, p.result_axis[1], bias + j, 0, &p, ending.rows - line);
#endif
        }
    })
}
