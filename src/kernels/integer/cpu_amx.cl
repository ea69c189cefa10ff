// Products of eight-bit integers on the tile registers of x86 processors (AMX), which multiply fours of signed bytes
// along k and add in int32 (clprim/integer_matmul.hpp).
#define DOT "tdpbssd"
#include "core/dtype.cl"
#include "kernels/integer/amx_bytes.cl"

typedef amx_leaving tiles;
static inline void begin_tiles(tiles* all)
{
    all->sums = 0;
    amx_begin();
}
static inline void end_tiles(tiles* all)
{
    amx_leave(*all);
    amx_end();
}
static inline void multiply_tile(tiles* all, const __global uint* strip, const __global uint* panel, long blocks,
                                 int2 size, int* tile)
{
    const amx_operands of = {(ulong)strip, (ulong)strip + 1024, (ulong)panel, 64, 4 * BLOCK_WORDS, (int)blocks,
                             size.x > 16, size.y > 16};
    multiply_bytes(of, *all, (amx_leaving){0, 0});
    *all = (amx_leaving){(ulong)tile, AMX_SIDE};
}

#include "kernels/integer/byte_tiles.cl"
