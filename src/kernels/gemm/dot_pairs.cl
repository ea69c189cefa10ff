// Products of a row of bfloat16 with columns that lie along k, by AVX-512 BF16: sums of each of `count` columns in
// sixteen lanes to `sums`. Columns lie `step` bytes apart; a step of k is 128 numbers, at least one. In assembly: see
// dot_tile.cl, which also says why nothing is named that changes.
#define PAIRS_EACH(DO) DO(0) DO(1) DO(2) DO(3)
#define PAIRS_SAVE(r) "vmovdqu64 %%zmm" #r ", 64*" #r "(%5)\n\t"
#define PAIRS_RESTORE(r) "vmovdqu64 64*" #r "(%5), %%zmm" #r "\n\t"
#define PAIRS_CLEAR(r) "vpxord %%zmm" #r ", %%zmm" #r ", %%zmm" #r "\n\t"
#define PAIRS_MULTIPLY(r)                                                                                   \
    "vmovdqu64 64*" #r "(%1), %%zmm4\n\tvdpbf16ps 64*" #r "(%0), %%zmm4, %%zmm" #r "\n\t"
#define PAIRS_AGAIN(count, begin, end)                                                                      \
    "lea -1(" count "), " count "\n\txchg " count ", %%rcx\n\tjrcxz " end "f\n\t"                           \
    "xchg " count ", %%rcx\n\tjmp " begin "b\n\t" end ":\n\txchg " count ", %%rcx\n\t"
static inline void dot_pairs(ulong columns, ulong step, ulong row, ulong steps, ulong sums, ulong count)
{
    ulong kept[8 * 5 + 3] __attribute__((aligned(64)));
    ulong at = 0, along = 0, left = 0;
    kept[40] = columns;
    kept[41] = row;
    kept[42] = steps;
    __asm__ volatile(
        PAIRS_EACH(PAIRS_SAVE) PAIRS_SAVE(4)
        "1:\n\t"
        PAIRS_EACH(PAIRS_CLEAR)
        "mov 320(%5), %0\n\tlea (%0,%6,1), %1\n\tmov %1, 320(%5)\n\tmov 328(%5), %1\n\tmov 336(%5), %2\n\t"
        "2:\n\t"
        PAIRS_EACH(PAIRS_MULTIPLY)
        "lea 256(%0), %0\n\tlea 256(%1), %1\n\t"
        PAIRS_AGAIN("%2", "2", "3")
        "vaddps %%zmm1, %%zmm0, %%zmm0\n\tvaddps %%zmm3, %%zmm2, %%zmm2\n\tvaddps %%zmm2, %%zmm0, %%zmm0\n\t"
        "vmovdqu64 %%zmm0, (%3)\n\tlea 64(%3), %3\n\t"
        PAIRS_AGAIN("%4", "1", "4")
        PAIRS_EACH(PAIRS_RESTORE) PAIRS_RESTORE(4)
        : "+r"(at), "+r"(along), "+r"(left), "+r"(sums), "+r"(count)
        : "r"(kept), "r"(step)
        : "memory");
}
