// Four pixels times a panel of sixteen columns by vpmaddubsw and vpmaddwd, in assembly: compilers do not find the
// first. Drivers read it as for a machine without registers, so that it cannot name those that it changes: it puts them
// back. For the same reason it changes no flags.
#define SAVED 16
#define EACH_REGISTER(DO)                                                                                   \
    DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(15)
#define SAVE(r) "vmovdqu %%ymm" #r ", 32*" #r "(%3)\n\t"
#define RESTORE(r) "vmovdqu 32*" #r "(%3), %%ymm" #r "\n\t"
#define EACH_SUM(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define LOAD_SUM(r) "vmovdqu 32*" #r "(%4), %%ymm" #r "\n\t"
#define STORE_SUM(r) "vmovdqu %%ymm" #r ", 32*" #r "(%4)\n\t"
#define PIXEL(place, one, two)                                                                              \
    "vpbroadcastd " #place "(%0), %%ymm10\n\t"                                                              \
    "vpmaddubsw %%ymm8, %%ymm10, %%ymm11\n\t"                                                               \
    "vpmaddubsw %%ymm9, %%ymm10, %%ymm12\n\t"                                                               \
    "vpmaddwd %%ymm15, %%ymm11, %%ymm11\n\t"                                                                \
    "vpmaddwd %%ymm15, %%ymm12, %%ymm12\n\t"                                                                \
    "vpaddd %%ymm11, %%ymm" #one ", %%ymm" #one "\n\t"                                                      \
    "vpaddd %%ymm12, %%ymm" #two ", %%ymm" #two "\n\t"

// `words` of k, an even number, are added to sums [pixel][16].
static inline void four_pixels(const __local uchar* rows, const __global int* w, long words, __local int* sums)
{
    ulong saved[4 * SAVED];
    ulong row = (ulong)rows, weights = (ulong)w, left = (ulong)words;
    __asm__ volatile(
        EACH_REGISTER(SAVE)
        EACH_SUM(LOAD_SUM)
        "vpcmpeqw %%ymm15, %%ymm15, %%ymm15\n\t"
        "vpabsw %%ymm15, %%ymm15\n\t"
        "1:\n\t"
        "vmovdqu (%1), %%ymm8\n\t"
        "vmovdqu 32(%1), %%ymm9\n\t"
        PIXEL(0, 0, 1)
        PIXEL(512, 2, 3)
        PIXEL(1024, 4, 5)
        PIXEL(1536, 6, 7)
        "vmovdqu 64(%1), %%ymm8\n\t"
        "vmovdqu 96(%1), %%ymm9\n\t"
        PIXEL(4, 0, 1)
        PIXEL(516, 2, 3)
        PIXEL(1028, 4, 5)
        PIXEL(1540, 6, 7)
        "lea 8(%0), %0\n\t"
        "lea 128(%1), %1\n\t"
        "lea -2(%2), %2\n\t"
        "xchg %2, %%rcx\n\t"
        "jrcxz 2f\n\t"
        "xchg %2, %%rcx\n\t"
        "jmp 1b\n\t"
        "2:\n\t"
        "xchg %2, %%rcx\n\t"
        EACH_SUM(STORE_SUM)
        EACH_REGISTER(RESTORE)
        : "+r"(row), "+r"(weights), "+r"(left)
        : "r"(saved), "r"((ulong)sums)
        : "memory");
}
