// Convolution on a GPU: implicit matrix product through local memory.
//
//   result[row][pixel] = sum over k of weights[row][k] * source[k][pixel]          (forward and data gradient)
//   dw[output][row]    = sum over pixels of dy[output][pixel] * x[row][pixel]      (weight gradient)
//
// A work-group of 16 x 16 work-items owns a TILE x TILE block (TILE = 16 * WORK), a work-item WORK x WORK of it at
// distances of 16. Per step of DEPTH it stages both factors in local memory:
//
//        A: DEPTH x TILE (weights, or dy)
//        B: DEPTH x TILE (source, gathered at position*scale + shift + tap*step)
//
// Where k lies is read from a table, one entry for each (channel, tap) or (tap, channel): no division in the loop.
// Neighbouring work-items read neighbouring addresses: pixels in planar tensors, channels in channels_last ones.
//
// Built with -DT=<dtype> -DWORK=4|8 and, for channels_last tensors, -DCHANNELS_LAST.
#include "core/dtype.cl"
#include "kernels/conv/implicit_problem.cl"

typedef compute_t(T) real;
typedef storage_t(T) stored;

DEFINE_ACTIVATE(activate, real)

#define SIDE 16
#define TILE (SIDE * WORK)
#define DEPTH 16
#define ITEMS (SIDE * SIDE)
#define LOADS (DEPTH * TILE / ITEMS)     // elements of a factor that a work-item stages per step: WORK

// Element `i` of the staging of one factor: work-item l handles (DEPTH_OF, TILE_OF). "Along depth": neighbours differ
// in depth; otherwise in the row or pixel.
#define ALONG_DEPTH_K(l, i) ((l) % DEPTH)
#define ALONG_DEPTH_M(l, i) ((l) / DEPTH + (i) * SIDE)
#define ALONG_TILE_K(l, i) ((l) / TILE + (i) * (ITEMS / TILE))
#define ALONG_TILE_M(l, i) ((l) % TILE)
#ifdef CHANNELS_LAST
#define B_K ALONG_DEPTH_K
#define B_M ALONG_DEPTH_M
#else
#define B_K ALONG_TILE_K
#define B_M ALONG_TILE_M
#endif

// Table of k: element relative to tap 0 of channel 0, steps along d, h, w.
__kernel void conv_tap_table(__global int* table, ulong table_offset, implicit_problem p)
{
    const int taps = p.taps[0] * p.taps[1] * p.taps[2], k = get_global_id(0);
    if (k >= p.depth * taps)
        return;
    const int c = p.taps_inner ? k / taps : k % (int)p.depth, tap = p.taps_inner ? k % taps : k / (int)p.depth;
    const int x = tap % (int)p.taps[2] * (int)p.step[2], y = tap / (int)p.taps[2] % (int)p.taps[1] * (int)p.step[1];
    const int z = tap / (int)(p.taps[2] * p.taps[1]) * (int)p.step[0];
    table += table_offset + 4 * k;
    table[0] = c * p.source_strides[1] + z * p.source_strides[2] + y * p.source_strides[3] + x * p.source_strides[4];
    table[1] = z;
    table[2] = y;
    table[3] = x;
}

// Weights as [group, row][k] in reals, k in the order of the table, for the taps of one launch.
__kernel void conv_gather_weights(const __global stored* w, ulong w_offset, __global real* packed, ulong packed_offset,
                                  implicit_problem p, pack_problem q)
{
    const long taps = p.taps[0] * p.taps[1] * p.taps[2], length = p.depth * taps;
    const long id = get_global_id(0), row = id / length % p.rows, group = id / length / p.rows;
    if (group >= p.groups)
        return;
    const long k = id % length, c = p.taps_inner ? k / taps : k % p.depth, tap = p.taps_inner ? k % taps : k / p.depth;
    const long x = p.tap_first[2] + tap % p.taps[2] * p.tap_period[2];
    const long y = p.tap_first[1] + tap / p.taps[2] % p.taps[1] * p.tap_period[1];
    const long z = p.tap_first[0] + tap / (p.taps[2] * p.taps[1]) * p.tap_period[0];
    packed[packed_offset + id] =
        load(T, w, w_offset + group * q.group_stride + row * q.row_stride + c * q.depth_stride + z * q.tap_strides[0] +
                       y * q.tap_strides[1] + x * q.tap_strides[2]);
}

typedef struct {
    int z, y, x, inside;
    long source, place;      // elements of tap 0 and of the result's side
} pixel_place;

static inline pixel_place find_pixel(const implicit_problem* p, long pixel, long pixels)
{
    pixel_place at;
    at.inside = pixel < pixels;
    const long row = pixel / p->out[2], plane = row / p->out[1], n = plane / p->out[0];
    const int x = pixel - row * p->out[2], y = row - plane * p->out[1], z = plane - n * p->out[0];
    at.z = z * (int)p->scale[0] + (int)p->shift[0];
    at.y = y * (int)p->scale[1] + (int)p->shift[1];
    at.x = x * (int)p->scale[2] + (int)p->shift[2];
    at.source = n * p->source_strides[0] + at.z * p->source_strides[2] + at.y * p->source_strides[3] +
                at.x * p->source_strides[4];
    at.place = n * p->result_strides[0] + z * p->result_strides[2] + y * p->result_strides[3] +
               x * p->result_strides[4];
    return at;
}

static inline real load_source(const __global stored* source, const implicit_problem* p, const pixel_place* at,
                               int4 tap)
{
    const int z = at->z + tap.y, y = at->y + tap.z, x = at->x + tap.w;
    const int inside = at->inside && z >= 0 && z < p->in[0] && y >= 0 && y < p->in[1] && x >= 0 && x < p->in[2];
    return inside ? load(T, source, at->source + tap.x) : 0;
}

// acc[i][j] += A[k][first + SIDE * i] * B[k][second + SIDE * j] over the staged depth.
static inline void multiply(real acc[WORK][WORK], const __local real (*A)[TILE + 1], const __local real (*B)[TILE + 1],
                     int first, int second)
{
    for (int k = 0; k < DEPTH; ++k) {
        real a[WORK], b[WORK];
#pragma unroll
        for (int i = 0; i < WORK; ++i) {
            a[i] = A[k][first + SIDE * i];
            b[i] = B[k][second + SIDE * i];
        }
#pragma unroll
        for (int i = 0; i < WORK; ++i)
#pragma unroll
            for (int j = 0; j < WORK; ++j)
                acc[i][j] = fma(a[i], b[j], acc[i][j]);
    }
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void conv_tiled(const __global stored* source, ulong source_offset, const __global real* weights, ulong weights_offset,
                const __global stored* bias, ulong bias_offset, __global stored* result, ulong result_offset,
                const __global int4* table, ulong table_offset, implicit_problem p)
{
    __local real A[DEPTH][TILE + 1], B[DEPTH][TILE + 1];
    const int l = get_local_id(0), depth = p.weight_stride;
    const long pixels = p.batch * p.out[0] * p.out[1] * p.out[2], row_blocks = (p.rows + TILE - 1) / TILE;
    const long pixel_begin = get_group_id(0) * (long)TILE;
    const int row_begin = get_group_id(1) % row_blocks * TILE;
    const long group = get_group_id(1) / row_blocks;
    source += source_offset + group * p.depth * p.source_strides[1];
    weights += weights_offset + group * p.rows * depth;
    table += table_offset / 4;

#ifdef CHANNELS_LAST
    pixel_place mine[LOADS];
    for (int i = 0; i < LOADS; ++i)
        mine[i] = find_pixel(&p, pixel_begin + B_M(l, i), pixels);
#define MINE(i) &mine[i]
    const int first = l % SIDE, second = l / SIDE;      // rows next to each other
#else
    const pixel_place mine = find_pixel(&p, pixel_begin + B_M(l, 0), pixels);
#define MINE(i) &mine
    const int first = l / SIDE, second = l % SIDE;      // pixels next to each other
#endif

    real acc[WORK][WORK];
    for (int i = 0; i < WORK; ++i)
        for (int j = 0; j < WORK; ++j)
            acc[i][j] = 0;
    for (int begin = 0; begin < depth; begin += DEPTH) {
        for (int i = 0; i < LOADS; ++i) {
            const int k = begin + ALONG_DEPTH_K(l, i), row = row_begin + ALONG_DEPTH_M(l, i);
            A[ALONG_DEPTH_K(l, i)][ALONG_DEPTH_M(l, i)] =
                k < depth && row < p.rows ? weights[(long)row * depth + k] : 0;
            const int kb = begin + B_K(l, i);
            B[B_K(l, i)][B_M(l, i)] = kb < depth ? load_source(source, &p, MINE(i), table[kb]) : 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        multiply(acc, A, B, first, second);
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    result += result_offset;
    for (int j = 0; j < WORK; ++j) {
        const pixel_place at = find_pixel(&p, pixel_begin + second + SIDE * j, pixels);
        for (int i = 0; i < WORK; ++i) {
            const int row = row_begin + first + SIDE * i;
            if (row >= p.rows || !at.inside)
                continue;
            const long channel = group * p.rows + row;
            real v = acc[i][j];
            const long to = at.place + channel * p.result_strides[1];
            if (p.finish.has_bias)
                v += load(T, bias, bias_offset + channel);
            if (p.finish.accumulate)
                v += load(T, result, to);
            store(T, result, to, activate(v, &p.finish));
        }
    }
}

// sums[part][group, output][row] for one share of the pixels.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void conv_tiled_weight(const __global stored* x, ulong x_offset, const __global stored* dy, ulong dy_offset,
                       __global real* sums, ulong sums_offset, const __global int4* table, ulong table_offset,
                       implicit_problem p)
{
    __local real A[DEPTH][TILE + 1], B[DEPTH][TILE + 1];
    const int l = get_local_id(0), rows = p.weight_stride, outputs = p.rows;
    const long pixels = p.batch * p.out[0] * p.out[1] * p.out[2], output_blocks = (outputs + TILE - 1) / TILE;
    const int row_begin = get_group_id(0) * TILE, output_begin = get_group_id(1) % output_blocks * TILE;
    const long group = get_group_id(1) / output_blocks, part = get_group_id(2);
    const long begin = pixels * part / p.parts, end = pixels * (part + 1) / p.parts;
    x += x_offset + group * p.depth * p.source_strides[1];
    dy += dy_offset + group * outputs * p.result_strides[1];
    table += table_offset / 4;
#ifdef CHANNELS_LAST
#define W_K ALONG_TILE_K
#define W_M ALONG_TILE_M
#else
#define W_K ALONG_DEPTH_K
#define W_M ALONG_DEPTH_M
#endif
    int4 taps[LOADS];
    for (int i = 0; i < LOADS; ++i)
        taps[i] = table[min(row_begin + W_M(l, i), rows - 1)];

    const int first = l / SIDE, second = l % SIDE;
    real acc[WORK][WORK];
    for (int i = 0; i < WORK; ++i)
        for (int j = 0; j < WORK; ++j)
            acc[i][j] = 0;
    for (long pixel = begin; pixel < end; pixel += DEPTH) {
        for (int i = 0; i < LOADS; ++i) {
            const pixel_place at = find_pixel(&p, pixel + W_K(l, i), end);
            const int output = output_begin + W_M(l, i);
            A[W_K(l, i)][W_M(l, i)] =
                at.inside && output < outputs ? load(T, dy, at.place + output * p.result_strides[1]) : 0;
            B[W_K(l, i)][W_M(l, i)] = load_source(x, &p, &at, taps[i]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        multiply(acc, A, B, first, second);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    sums += sums_offset + (part * p.groups + group) * outputs * (long)rows;
    for (int i = 0; i < WORK; ++i)
        for (int j = 0; j < WORK; ++j) {
            const int output = output_begin + first + SIDE * i, row = row_begin + second + SIDE * j;
            if (output < outputs && row < rows)
                sums[(long)output * rows + row] = acc[i][j];
        }
}
