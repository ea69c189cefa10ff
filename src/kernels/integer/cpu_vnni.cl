// Products of eight-bit integers by the vectors of x86 processors with VNNI, which multiply fours of bytes along k,
// unsigned ones of A and signed ones of B, and add in int32 (clprim/integer_matmul.hpp).
//
// -DDOT_VECTOR=64|32 [-DDOT_VEX]
#include "core/dtype.cl"
#include "kernels/gemm/dot_blocks.cl"

#define CHUNK 16
typedef int tiles;
static inline void begin_tiles(tiles* all) {}
static inline void end_tiles(tiles* all) {}
static inline void multiply_tile(tiles* all, const __global uint* strip, const __global uint* panel, long blocks,
                                 int2 size, int* tile)
{
    dot_blocks((ulong)strip, (ulong)panel, blocks, size, tile);
}
#include "kernels/integer/byte_tiles.cl"
