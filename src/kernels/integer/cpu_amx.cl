// Products of eight-bit integers on the tile registers of x86 processors (AMX), which multiply fours of signed bytes
// along k and add in int32 (clprim/integer_matmul.hpp).
#include "core/dtype.cl"
#include "kernels/gemm/amx_tiles.cl"

#define CHUNK 16         // 32 KiB of a strip rest in the first level
#define BEGIN_TILES amx_begin()
#define END_TILES amx_end()
#include "kernels/integer/byte_blocks.cl"

// All 32 x 32 sums. The address of `tile` is one like any other, CPUs have one space of them.
static inline void multiply_tile(const __global uint* strip, const __global uint* panel, long blocks, int2 size,
                                 int* tile)
{
    __asm__ volatile(AMX_ZERO ::: "memory");
    for (long block = 0; block < blocks; ++block, strip += BLOCK_WORDS, panel += BLOCK_WORDS)
        __asm__ volatile("tileloadd (%0,%2,1), %%tmm4\n\ttileloadd (%1,%2,1), %%tmm6\n\t"
                         "tdpbssd %%tmm6, %%tmm4, %%tmm0\n\t"
                         "tileloadd 1024(%1,%2,1), %%tmm7\n\ttdpbssd %%tmm7, %%tmm4, %%tmm1\n\t"
                         "tileloadd 1024(%0,%2,1), %%tmm5\n\ttdpbssd %%tmm6, %%tmm5, %%tmm2\n\t"
                         "tdpbssd %%tmm7, %%tmm5, %%tmm3" ::"r"(strip), "r"(panel), "r"(64ul)
                         : "memory");
    amx_store((ulong)tile, AMX_SIDE);
}

#include "kernels/integer/byte_tiles.cl"
