// The weight gradient of a convolution of 16-bit floats by matrix instructions, where both operands come along k:
//
//   dw[output][row] = sum over grid points of dy[output][point] * x[row][point],   rows are (tap, channel)
//
// of the lines that gpu_matrix_lines.cl makes: a tap is a distance along a line, so rows are eight neighbours from any
// element on. Grid points beyond an image are zeros in dy, and so is x where a kernel sees what lies outside it.
// In parts of the points, which add_parts.cl adds in order, looking again where x times such a zero was NaN.
// Options: -DSHIFTS=1|2 as the lines were made, -DX, those of core/dtype.cl and of matrix_tiles.cl (-DA_ALONG_K=1
// -DB_ALONG_K=1 -DALIGNED=1 -DBLOCKS=0).
#include "core/dtype.cl"
#include "kernels/conv/gpu_lines_problem.cl"
#include "kernels/gemm/matrix_tiles.cl"

typedef storage_t(X) stored;

// Where a tap's line of channel 0 lies, and its grid point 0.
static inline int find_tap_line(const conv_lines* p, int tap)
{
    int phase = 0, point = 0, phases = 1, points = 1;
    UNROLL for (int axis = 2; axis >= 0; --axis)
    {
        const int rest = tap / p->taps[axis];
        const int at = p->shift[axis] + (tap - rest * p->taps[axis]) * p->step[axis];
        const int residue = (at % p->scale[axis] + p->scale[axis]) % p->scale[axis];
        phase += residue * phases;
        point += (at - residue) / p->scale[axis] * points;
        phases *= p->scale[axis];
        points *= p->grid[axis];
        tap = rest;
    }
    point += p->before;
    if (SHIFTS == 2 && point % 2) {
        phase += phases;
        --point;
    }
    return phase * p->channels * p->pitch + point;
}

static inline uint4 load_neighbours(const __global uchar* from)
{
    return SHIFTS == 2 ? vload4(0, (const __global uint*)from) : as_uint4(vload8(0, (const __global ushort*)from));
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) SUB_GROUP_SIZE
void conv_lines_weight_sums(const __global stored* restrict x, ulong x_offset, const __global stored* restrict dy,
                            ulong dy_offset, __global float* parts, ulong parts_offset, conv_lines_weight p)
{
    BEGIN_MATRIX_TILE
    const int output_blocks = (p.rows + BLOCK_M - 1) / BLOCK_M, row0 = get_group_id(0) * BLOCK_N;
    const int output0 = get_group_id(1) % output_blocks * BLOCK_M, group = get_group_id(1) / output_blocks;
    const int part = get_group_id(2), begin = part * p.part_depth;
    const int depth = min(p.part_depth, p.depth_in_all - begin), outputs = min(p.rows - output0, BLOCK_M);
    BEGIN_SLABS
    OFFSET dy_at[A_LOADS], x_at[B_LOADS];   // bytes from the beginning of a buffer
    UNROLL for (int load = 0; load < A_LOADS; ++load)
    {
        const int line = group * p.rows + output0 + min(a_line + LINES_ON(load, 1, BLOCK_M), outputs - 1);
        dy_at[load] = 2 * ((OFFSET)dy_offset + line * (OFFSET)p.dy_pitch + (begin + a_k));
    }
    UNROLL for (int load = 0; load < B_LOADS; ++load)
    {
        const int row = min(row0 + b_line + LINES_ON(load, 1, BLOCK_M), p.total - 1), tap = row / p.depth;
        const int channel = group * p.depth + (row - tap * p.depth);
        x_at[load] = 2 * ((OFFSET)(x_offset + find_tap_line(&p.x, tap)) + channel * (OFFSET)p.x.pitch + (begin + b_k));
    }
    OFFSET far = 0;
#define FETCH(count)                                                                                                  \
    {                                                                                                                 \
        UNROLL for (int load = 0; load < A_LOADS; ++load)                                                             \
            a_next[load] = *(const __global uint4*)((const __global uchar*)dy + (dy_at[load] + far));                 \
        UNROLL for (int load = 0; load < B_LOADS; ++load)                                                             \
            b_next[load] = load_neighbours((const __global uchar*)x + (x_at[load] + far));                            \
        far += 2 * SLAB_K;                                                                                            \
    }
    MULTIPLY_DEPTH(depth)

    parts += parts_offset + (((long)part * (get_num_groups(1) / output_blocks) + group) * p.rows + output0) * p.total;
    EACH_QUAD_OF_SUMS(i, j, v, {
        if (i < outputs && row0 + j < p.total)
            write_sums(v, parts + ((long)i * p.total + row0 + j), p.total - (row0 + j));
    })
}
