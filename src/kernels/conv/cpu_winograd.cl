// Forward convolution by Winograd's F(2x2, 3x3) on a CPU device whose tensors have channels innermost: 3x3 taps at
// steps of one. Four outputs of a channel take sixteen products in place of 36.
//
//   d: 4x4 pixels of the source     V = B^T d B     M[i] = sum over channels of V[i] U[i], i < 16     y = A^T M A
//
// U, the weights, are transformed once: panels[panel][i][channel][PANEL]. A work-item goes through blocks of tiles (2x2
// outputs): it writes their V to memory of its own, which stays in its cache, then for each panel multiplies sixteen
// times and turns the sums into outputs. The constants are 0, 1 and 1/2, so that rounding stays that of ordinary sums.
#include "kernels/conv/channel_tiles.cl"
#include "kernels/conv/implicit_problem.cl"

#define POINTS 16
DEFINE_TILES_OF(dense)

// Mirror of WinogradProblem (cpu_winograd.cpp).
typedef struct {
    long batch, rows, depth, in[2], out[2], pad[2], tiles[2];
    long source_strides[3], result_strides[3];     // n, h, w
    long block, blocks, pitch;                     // tiles of a block, blocks in all, reals from tile to tile
    long cuts, cut_rows;                           // parts of the rows, for work-items of their own
    epilogue finish;
} winograd_problem;

typedef struct {
    int n, y, x;
} tile_place;

static inline tile_place place_of(const winograd_problem* p, long tile)
{
    const tile_place at = {tile / (p->tiles[0] * p->tiles[1]), tile / p->tiles[1] % p->tiles[0] * 2,
                           tile % p->tiles[1] * 2};
    return at;
}

// V[i][tile][channel] of one tile; V points to its first channel of i = 0, `step` reals are from i to i + 1.
static inline void transform_source(__global real* V, long step, const __global real* source,
                                    const __global real* zeros, tile_place at, const winograd_problem* p)
{
    const __global real* d[POINTS];
    for (int i = 0; i < POINTS; ++i) {
        const int y = at.y + i / 4 - (int)p->pad[0], x = at.x + i % 4 - (int)p->pad[1];
        const int inside = y >= 0 && y < p->in[0] && x >= 0 && x < p->in[1];
        d[i] = inside ? source + at.n * p->source_strides[0] + y * p->source_strides[1] + x * p->source_strides[2]
                      : zeros;
    }
    for (int c = 0; c < p->depth; c += LANES) {
        vec t[POINTS];
        for (int x = 0; x < 4; ++x) {
            const vec d0 = get_vec(0, d[x] + c), d1 = get_vec(0, d[4 + x] + c), d2 = get_vec(0, d[8 + x] + c),
                      d3 = get_vec(0, d[12 + x] + c);
            t[x] = d0 - d2;
            t[4 + x] = d1 + d2;
            t[8 + x] = d2 - d1;
            t[12 + x] = d1 - d3;
        }
        for (int y = 0; y < POINTS; y += 4) {
            put_vec(t[y] - t[y + 2], 0, V + y * step + c);
            put_vec(t[y + 1] + t[y + 2], 0, V + (y + 1) * step + c);
            put_vec(t[y + 2] - t[y + 1], 0, V + (y + 2) * step + c);
            put_vec(t[y + 1] - t[y + 3], 0, V + (y + 3) * step + c);
        }
    }
}

// The outputs of a tile, out[2 * y + x][PANEL], from M; `step` reals are from i to i + 1.
static inline void transform_sums(real* out, const __local real* M, int step)
{
    for (int r = 0; r < PANEL; r += LANES) {
        vec t[8];
        for (int x = 0; x < 4; ++x) {
            const vec m0 = get_vec(0, M + x * step + r), m1 = get_vec(0, M + (4 + x) * step + r),
                      m2 = get_vec(0, M + (8 + x) * step + r), m3 = get_vec(0, M + (12 + x) * step + r);
            t[x] = m0 + m1 + m2;
            t[4 + x] = m1 - m2 - m3;
        }
        for (int y = 0; y < 2; ++y) {
            put_vec(t[4 * y] + t[4 * y + 1] + t[4 * y + 2], 0, out + 2 * y * PANEL + r);
            put_vec(t[4 * y + 1] - t[4 * y + 2] - t[4 * y + 3], 0, out + (2 * y + 1) * PANEL + r);
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_winograd(const __global real* source, ulong source_offset, const __global real* weights, ulong weights_offset,
                   const __global real* bias, ulong bias_offset, __global real* result, ulong result_offset,
                   __global real* V, ulong V_offset, __local real* M, __local int* places, winograd_problem p)
{
    const int channels = p.depth, rows = p.rows, block = p.block, pitch = p.pitch;
    const long tiles = p.batch * p.tiles[0] * p.tiles[1], step = (long)block * pitch;
    const long panel_size = (long)POINTS * channels * PANEL;
    source += source_offset;
    weights += weights_offset;
    bias += p.finish.has_bias ? bias_offset : 0;
    result += result_offset;
    V += V_offset + get_group_id(0) * POINTS * step;
    const int row_begin = get_group_id(0) % p.cuts * p.cut_rows, row_end = min((long)rows, row_begin + p.cut_rows);
    const long number = get_group_id(0) / p.cuts, numbers = get_num_groups(0) / p.cuts;
    const __global real* zeros = weights + (rows + PANEL - 1) / PANEL * panel_size;
    tile_end end;
    end.whole = end.apart = 0;
    for (long first = number * block; first < tiles; first += numbers * block) {
        const int count = min((long)block, tiles - first);
        for (int i = 0; i < count; ++i)
            transform_source(V + i * pitch, step, source, zeros, place_of(&p, first + i), &p);
        for (int row = row_begin; row < row_end; row += PANEL) {
            const int own_rows = min(PANEL, row_end - row);
            const __global real* U = weights + row / PANEL * panel_size;
            for (int i = 0; i < POINTS; ++i, U += channels * PANEL) {
                ask_ahead(&end, U + channels * PANEL, count);
                for (int at = 0; at < count; end.ahead += channels * end.step)
                    at += BY_WIDTH(dense, own_rows,
                                   (count - at, M + (i * block + at) * PANEL, &end, V + i * step + at * pitch, zeros,
                                    U, places, pitch, 1, channels));
            }
            for (int i = 0; i < count; ++i) {
                const tile_place at = place_of(&p, first + i);
                real out[4 * PANEL], *from = out;
                transform_sums(out, M + i * PANEL, block * PANEL);
                const int wide = at.x + 1 < p.out[1] ? 2 : 1;
                for (int y = at.y; y < min(at.y + 2, (int)p.out[0]); ++y, from += 2 * PANEL) {
                    places[0] = at.n * p.result_strides[0] + y * p.result_strides[1] + at.x * p.result_strides[2];
                    places[1] = places[0] + (int)p.result_strides[2];
                    finish_tile(from, result + row, bias + (p.finish.has_bias ? row : 0), places, wide, own_rows,
                                &p.finish);
                }
            }
        }
    }
}

// U = G w G^T of one weight, panels[panel][i][channel][PANEL], zeros for rows beyond the last; and behind the panels
// p.depth zeros.
__kernel void conv_winograd_pack(const __global real* w, ulong w_offset, __global real* packed, ulong packed_offset,
                                 pack_problem p)
{
    const long id = get_global_id(0), panels = (p.rows + PANEL - 1) / PANEL, all = panels * PANEL * p.depth;
    const long row = id % PANEL + id / PANEL / p.depth * PANEL, channel = id / PANEL % p.depth;
    packed += packed_offset;
    if (id >= all) {
        if (id < all + p.depth)
            packed[all * POINTS + id - all] = 0;
        return;
    }
    real t[12];
    for (int x = 0; x < 3; ++x) {
        real g[3];
        for (int y = 0; y < 3; ++y)
            g[y] = row < p.rows ? w[w_offset + row * p.row_stride + channel * p.depth_stride + y * p.tap_strides[1] +
                                    x * p.tap_strides[2]]
                                : 0;
        t[x] = g[0];
        t[3 + x] = (g[0] + g[1] + g[2]) / 2;
        t[6 + x] = (g[0] - g[1] + g[2]) / 2;
        t[9 + x] = g[2];
    }
    __global real* to = packed + (row / PANEL * POINTS * p.depth + channel) * PANEL + row % PANEL;
    const long step = p.depth * PANEL;
    for (int y = 0; y < 4; ++y, to += 4 * step) {
        to[0] = t[3 * y];
        to[step] = (t[3 * y] + t[3 * y + 1] + t[3 * y + 2]) / 2;
        to[2 * step] = (t[3 * y] - t[3 * y + 1] + t[3 * y + 2]) / 2;
        to[3 * step] = t[3 * y + 2];
    }
}
