// Products of eight-bit integers on tile registers, as cpu_amx.cl's, with the rows of A read where they lie: bytes of
// one sign or the other have instructions of their own, so that there is nothing to pack. k is a multiple of BLOCK, B's
// bytes are signed and without zero points (its columns as cpu_lines.cl packs them).
//
// -DX=int8|uint8 (A's bytes)
#include "core/dtype.cl"
#define DOT_int8 "tdpbssd"
#define DOT_uint8 "tdpbusd"
#define DOT CLPRIM_CAT(DOT_, X)
#include "kernels/integer/amx_bytes.cl"
#include "kernels/integer/byte_sums.cl"

typedef const __global storage_t(X)* bytes;

// The last rows of A with zeros in place of those beyond them.
static inline void copy_rows(bytes from, long step, int count, long depth, uchar* to)
{
    for (int i = 0; i < SIDE; ++i, to += CHUNK * BLOCK)
        for (long k = 0; k < depth; k += 16)
            vstore16(i < count ? as_uchar16(vload16(0, from + i * step + k)) : (uchar16)0, 0, to + k);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void multiply_rows(bytes a, ulong a_offset, bytes zeros, ulong zeros_offset, const __global uint* b, ulong b_offset,
                   const __global int2* b_sums, ulong b_sums_offset, __global int* c, ulong c_offset, integer_product p)
{
    const long strips = (p.m + SIDE - 1) / SIDE, panels = (p.n + SIDE - 1) / SIDE, blocks = p.k / BLOCK;
    const long strip_begin = get_group_id(0) * p.block_strips, panel_begin = get_group_id(1) * p.block_panels;
    const long strip_end = min(strips, strip_begin + p.block_strips), batch = get_group_id(2);
    const long panel_end = min(panels, panel_begin + p.block_panels);
    int sums[2][SIDE * SIDE] __attribute__((aligned(64)));
    int2 zero_points[2][SIDE];
    int turn = 0;
    waiting_tile waiting = {0};
    amx_leaving leaving = {0, 0};
    uchar edge[SIDE * CHUNK * BLOCK] __attribute__((aligned(64)));
    a += a_offset + batch * p.a_batch;
    zeros += zeros_offset;
    b += b_offset + batch * panels * blocks * BLOCK_WORDS;
    b_sums += b_sums_offset / 2 + batch * panels * SIDE;
    c += c_offset + batch * p.c_batch;
    amx_begin();
    for (long block = 0; block < blocks; block += CHUNK) {
        const long count = min(blocks - block, (long)CHUNK);
        const int first = block == 0, last = block + CHUNK >= blocks;
        for (long strip = strip_begin; strip < strip_end; ++strip) {
            const long i = strip * SIDE;
            const int rows = (int)min(p.m - i, (long)SIDE);
            bytes from = a + i * p.a_row + block * BLOCK;
            if (rows < SIDE)
                copy_rows(from, p.a_row, rows, count * BLOCK, edge);
            const ulong upper = rows < SIDE ? (ulong)edge : (ulong)from;
            const long step = rows < SIDE ? CHUNK * BLOCK : p.a_row;
            int2* zero_point = zero_points[strip % 2];
            for (int row = 0; row < SIDE; ++row)
                zero_point[row] = (int2)(0, row < rows && p.zero_step >= 0 ? zeros[(i + row) * p.zero_step] : 0);
            for (long panel = panel_begin; panel < panel_end; ++panel) {
                const long j = panel * SIDE;
                const int2 size = (int2)(rows, (int)min(p.n - j, (long)SIDE));
                __global int* to = c + i * p.c_row + j * p.c_column;
                const amx_leaving target = {p.c_column == 1 ? (ulong)to : 0, p.c_row};
                const amx_operands of = {upper, upper + 16 * step, (ulong)(b + (panel * blocks + block) * BLOCK_WORDS),
                                         step, BLOCK, (int)count, size.x > 16, size.y > 16};
                multiply_bytes(of, leaving, target);
                put_waiting(&waiting, &p);
                if (target.sums && size.x == SIDE && size.y == SIDE && first && (!last || p.zero_step < 0)) {
                    leaving = target;
                    continue;
                }
                leaving = (amx_leaving){(ulong)sums[turn], AMX_SIDE};
                waiting = (waiting_tile){to, sums[turn], zero_point, b_sums + j, size, first, last};
                turn ^= 1;
            }
        }
    }
    amx_leave(leaving);
    amx_end();
    put_waiting(&waiting, &p);
}
