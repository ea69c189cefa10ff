// Sums of fours of bytes in tile registers (gemm/amx_tiles.cl). Needs DOT, the instruction that multiplies A's signed
// or unsigned bytes by B's signed ones.
#include "kernels/gemm/amx_tiles.cl"
#include "kernels/integer/byte_blocks.cl"

#define CHUNK 32         // blocks: strips of 64 KiB and panels fill the second level, sums go to memory rarely

DEFINE_AMX_LEAD(lead_bytes, DOT)

static inline void amx_leave(amx_leaving leaving)
{
    if (leaving.sums)
        amx_store(leaving.sums, leaving.step);
}

// The sums of all blocks, in registers, while those of the product before leave. They will go to `target` or be added
// to what is there, whose lines come nearer meanwhile: rows are too far apart for the processor to foresee them.
static inline void multiply_bytes(const amx_operands of, amx_leaving leaving, amx_leaving target)
{
    const int share = (2 * SIDE + of.blocks - 1) / of.blocks;
    ulong line = target.sums;
    int left = target.sums ? 2 * SIDE : 0;
    const int from = lead_bytes(of, leaving);
    ulong upper = of.upper + from * of.advance, lower = of.lower + from * of.advance;
    ulong panel = of.panel + from * AMX_PANEL_BLOCK;
    for (int block = from; block < of.blocks; ++block) {
        if (of.both_rows && of.both_columns)
            __asm__ volatile("tileloadd (%0,%3,1), %%tmm4\n\ttileloadd (%2,%4,1), %%tmm6\n\t"
                             DOT " %%tmm6, %%tmm4, %%tmm0\n\t"
                             "tileloadd 1024(%2,%4,1), %%tmm7\n\t" DOT " %%tmm7, %%tmm4, %%tmm1\n\t"
                             "tileloadd (%1,%3,1), %%tmm5\n\t" DOT " %%tmm6, %%tmm5, %%tmm2\n\t"
                             DOT " %%tmm7, %%tmm5, %%tmm3" ::"r"(upper), "r"(lower), "r"(panel), "r"(of.row_step),
                             "r"(64ul) : "memory");
        else if (of.both_rows)
            __asm__ volatile("tileloadd (%0,%3,1), %%tmm4\n\ttileloadd (%2,%4,1), %%tmm6\n\t"
                             DOT " %%tmm6, %%tmm4, %%tmm0\n\t"
                             "tileloadd (%1,%3,1), %%tmm5\n\t" DOT " %%tmm6, %%tmm5, %%tmm2" ::"r"(upper), "r"(lower),
                             "r"(panel), "r"(of.row_step), "r"(64ul) : "memory");
        else if (of.both_columns)
            __asm__ volatile("tileloadd (%0,%2,1), %%tmm4\n\ttileloadd (%1,%3,1), %%tmm6\n\t"
                             DOT " %%tmm6, %%tmm4, %%tmm0\n\t"
                             "tileloadd 1024(%1,%3,1), %%tmm7\n\t" DOT " %%tmm7, %%tmm4, %%tmm1" ::"r"(upper),
                             "r"(panel), "r"(of.row_step), "r"(64ul) : "memory");
        else
            __asm__ volatile("tileloadd (%0,%2,1), %%tmm4\n\ttileloadd (%1,%3,1), %%tmm6\n\t"
                             DOT " %%tmm6, %%tmm4, %%tmm0" ::"r"(upper), "r"(panel), "r"(of.row_step), "r"(64ul)
                             : "memory");
        for (int i = min(share, left); i > 0; --i, --left) {
            __asm__ volatile("prefetchw (%0)" ::"r"(line));
            line += left % 2 ? 4 * target.step - 64 : 64;
        }
        upper += of.advance;
        lower += of.advance;
        panel += AMX_PANEL_BLOCK;
    }
}
