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

// Sums of a product that are still in registers, on their way to memory (rows `step` numbers apart); 0: nowhere.
typedef struct {
    ulong sums;
    long step;
} amx_leaving;

// What products are of: rows of a strip, the first and the seventeenth at these addresses, `row_step` bytes apart and
// `advance` bytes from a block of k to the next; and a panel, of which a block is two tiles.
typedef struct {
    ulong upper, lower, panel;
    long row_step, advance;
    int blocks, both_rows, both_columns;
} amx_operands;

#define AMX_LEADING_BLOCKS 4
#define AMX_PANEL_BLOCK 2048   // bytes
#define AMX_LEAVE(register, place)                                                                          \
    if (leaving.sums)                                                                                       \
        __asm__ volatile("tilestored %%tmm" #register ", (%0,%1,1)" ::"r"(place), "r"(4 * leaving.step) : "memory");
#define AMX_LEAD(register, rows, column_bytes, DOT)                                                         \
    __asm__ volatile("tilezero %%tmm" #register ::: "memory");                                              \
    for (int block = 0; block < count; ++block)                                                             \
        __asm__ volatile("tileloadd (%0,%2,1), %%tmm4\n\ttileloadd " #column_bytes "(%1,%3,1), %%tmm6\n\t"  \
                         DOT " %%tmm6, %%tmm4, %%tmm" #register ::"r"(rows + block * of.advance),           \
                         "r"(of.panel + block * AMX_PANEL_BLOCK), "r"(of.row_step), "r"(64ul) : "memory");
// name(of, leaving): the products of the first blocks, AMX_LEADING_BLOCKS where there are as many, from zero on, a
// register after the other, and before each its sums of the last product leave: to store a register takes as long as
// some products, which go on beside it. Returns how many blocks that were.
#define DEFINE_AMX_LEAD(name, DOT)                                                                          \
    static inline int name(const amx_operands of, amx_leaving leaving)                                      \
    {                                                                                                       \
        const int count = min(of.blocks, AMX_LEADING_BLOCKS);                                               \
        const ulong lower_sums = leaving.sums + 64 * leaving.step;                                          \
        AMX_LEAVE(0, leaving.sums)                                                                          \
        AMX_LEAD(0, of.upper, 0, DOT)                                                                       \
        AMX_LEAVE(1, leaving.sums + 64)                                                                     \
        if (of.both_columns) {                                                                              \
            AMX_LEAD(1, of.upper, 1024, DOT)                                                                \
        }                                                                                                   \
        AMX_LEAVE(2, lower_sums)                                                                            \
        if (of.both_rows) {                                                                                 \
            AMX_LEAD(2, of.lower, 0, DOT)                                                                   \
        }                                                                                                   \
        AMX_LEAVE(3, lower_sums + 64)                                                                       \
        if (of.both_rows && of.both_columns) {                                                              \
            AMX_LEAD(3, of.lower, 1024, DOT)                                                                \
        }                                                                                                   \
        return count;                                                                                       \
    }
