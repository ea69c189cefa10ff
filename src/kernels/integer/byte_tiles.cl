// C = A B of lines that cpu_lines.cl has packed, by tiles of 32 x 32 sums. Needs CHUNK, blocks that are multiplied
// before the next panel, and
//
//     tiles, begin_tiles(&tiles) and end_tiles(&tiles)
//     multiply_tile(&tiles, strip, panel, blocks, size, tile): sums of `blocks` blocks, of which `size` matter, to
//                                                              `tile`, at the latest with the next call of one of these
#include "kernels/integer/byte_sums.cl"

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void multiply(const __global uint* a, ulong a_offset, const __global int2* a_sums, ulong a_sums_offset,
              const __global uint* b, ulong b_offset, const __global int2* b_sums, ulong b_sums_offset,
              __global int* c, ulong c_offset, integer_product p)
{
    const long strips = (p.m + SIDE - 1) / SIDE, panels = (p.n + SIDE - 1) / SIDE;
    const long blocks = (p.k + BLOCK - 1) / BLOCK, batch = get_group_id(2);
    const long strip_begin = get_group_id(0) * p.block_strips, panel_begin = get_group_id(1) * p.block_panels;
    const long strip_end = min(strips, strip_begin + p.block_strips);
    const long panel_end = min(panels, panel_begin + p.block_panels);
    int sums[2][SIDE * SIDE] __attribute__((aligned(64)));
    int2 rows[2][SIDE];
    int turn = 0;
    waiting_tile waiting = {0};
    tiles all;
    a += a_offset + batch * strips * blocks * BLOCK_WORDS;
    b += b_offset + batch * panels * blocks * BLOCK_WORDS;
    a_sums += a_sums_offset / 2 + batch * strips * SIDE;
    b_sums += b_sums_offset / 2 + batch * panels * SIDE;
    c += c_offset + batch * p.c_batch;
    begin_tiles(&all);
    for (long block = 0; block < blocks; block += CHUNK)
        for (long strip = strip_begin; strip < strip_end; ++strip) {
            const long i = strip * SIDE;
            for (int row = 0; row < SIDE; ++row)
                rows[strip % 2][row] = a_sums[i + row];
            for (long panel = panel_begin; panel < panel_end; ++panel, turn ^= 1) {
                const long j = panel * SIDE;
                const int2 size = (int2)((int)min(p.m - i, (long)SIDE), (int)min(p.n - j, (long)SIDE));
                multiply_tile(&all, a + (strip * blocks + block) * BLOCK_WORDS,
                              b + (panel * blocks + block) * BLOCK_WORDS, min(blocks - block, (long)CHUNK), size,
                              sums[turn]);
                put_waiting(&waiting, &p);
                waiting = (waiting_tile){c + i * p.c_row + j * p.c_column, sums[turn], rows[strip % 2], b_sums + j,
                                         size, block == 0, block + CHUNK >= blocks};
            }
        }
    end_tiles(&all);
    put_waiting(&waiting, &p);
}
