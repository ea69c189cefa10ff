// The tile registers of x86 processors (AMX), of whatever numbers: their shape, and four of them as sums. amx.cl
// multiplies pairs of bfloat16 by them, integer/cpu_amx.cl fours of bytes. Sums are float32 or int32, four bytes either
// way.
#define AMX_SIDE 32   // rows and columns of the sums; in amx.cl of a strip, a panel, and k of a block

// All eight registers with 16 rows of 64 bytes; the state is the thread's, so a kernel lets go of it before it returns.
__constant uchar amx_shape[64] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 64, 0, 64, 0,
                                  64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                  0, 0, 0, 0, 16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0};
#ifdef DOT_VECTOR   // vectors do what tile registers would
static inline void amx_begin(void) {}
static inline void amx_end(void) {}
#else
static inline void amx_begin(void)
{
    __asm__ volatile("ldtilecfg (%0)" ::"r"(amx_shape) : "memory");
}
static inline void amx_end(void)
{
    __asm__ volatile("tilerelease" ::: "memory");
}
#endif

// The 32 x 32 sums in registers 0 to 3: zero, and from and to memory (rows `step` numbers apart).
#define AMX_ZERO "tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3"
static inline void amx_load(ulong sums, long step)
{
    const ulong bytes = 4 * step;
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm0\n\ttileloadd 64(%0,%1,1), %%tmm1\n\t"
                     "tileloadd (%2,%1,1), %%tmm2\n\ttileloadd 64(%2,%1,1), %%tmm3" ::"r"(sums),
                     "r"(bytes), "r"(sums + 16 * bytes)
                     : "memory");
}
static inline void amx_store(ulong sums, long step)
{
    const ulong bytes = 4 * step;
    __asm__ volatile("tilestored %%tmm0, (%0,%1,1)\n\ttilestored %%tmm1, 64(%0,%1,1)\n\t"
                     "tilestored %%tmm2, (%2,%1,1)\n\ttilestored %%tmm3, 64(%2,%1,1)" ::"r"(sums),
                     "r"(bytes), "r"(sums + 16 * bytes)
                     : "memory");
}
