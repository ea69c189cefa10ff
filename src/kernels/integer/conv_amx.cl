// What conv_cpu.cl multiplies by on x86 processors with tile registers (AMX): three tiles of sixteen pixels by a panel,
// which is a tile wide, unsigned bytes by signed ones.
#include "kernels/gemm/amx_tiles.cl"

#define BLOCK 64   // of k in a register

// Zeros behind a row's numbers, up to a whole block: what the panel's last block has there does not matter then.
static inline void fill_block(long count, __local uchar* row)
{
    for (long i = count; i % BLOCK; i += 8)
        vstore8((uchar8)0, 0, row + i);
}

// Adds the products of `count` numbers of pixels and a panel to sums; the first ones begin with the zero point times
// the sums of columns taken off. More pixels than there are may be computed.
static inline void tile_pixels(const __local uchar* rows, const __global int* w, long count, long pixels,
                               const __global int* of_columns, int zero, __local int* sums)
{
    int begin[COLUMNS] __attribute__((aligned(64)));
    if (of_columns)
        vstore16(-vload16(0, of_columns) * zero, 0, begin);
    const ulong from = of_columns ? (ulong)begin : (ulong)sums, step = of_columns ? 0 : 64;
    const ulong to = (ulong)sums;
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm0" ::"r"(from), "r"(step) : "memory");
    if (pixels > 16)
        __asm__ volatile("tileloadd (%0,%1,1), %%tmm1" ::"r"(from + 16 * step), "r"(step) : "memory");
    if (pixels > 32)
        __asm__ volatile("tileloadd (%0,%1,1), %%tmm2" ::"r"(from + 32 * step), "r"(step) : "memory");
    ulong row = (ulong)rows, panel = (ulong)w;
    for (long k = 0; k < count; k += BLOCK, row += BLOCK, panel += BLOCK * COLUMNS) {
        __asm__ volatile("tileloadd (%0,%1,1), %%tmm7\n\ttileloadd (%2,%3,1), %%tmm4\n\t"
                         "tdpbusd %%tmm7, %%tmm4, %%tmm0" ::"r"(panel), "r"(64ul), "r"(row), "r"((ulong)CHUNK)
                         : "memory");
        if (pixels > 16)
            __asm__ volatile("tileloadd (%0,%1,1), %%tmm5\n\ttdpbusd %%tmm7, %%tmm5, %%tmm1" ::"r"(row + 16 * CHUNK),
                             "r"((ulong)CHUNK)
                             : "memory");
        if (pixels > 32)
            __asm__ volatile("tileloadd (%0,%1,1), %%tmm6\n\ttdpbusd %%tmm7, %%tmm6, %%tmm2" ::"r"(row + 32 * CHUNK),
                             "r"((ulong)CHUNK)
                             : "memory");
    }
    __asm__ volatile("tilestored %%tmm0, (%0,%1,1)" ::"r"(to), "r"(64ul) : "memory");
    if (pixels > 16)
        __asm__ volatile("tilestored %%tmm1, 1024(%0,%1,1)" ::"r"(to), "r"(64ul) : "memory");
    if (pixels > 32)
        __asm__ volatile("tilestored %%tmm2, 2048(%0,%1,1)" ::"r"(to), "r"(64ul) : "memory");
}
