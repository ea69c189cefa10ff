// Products on the tile registers of x86 processors (AMX: eight registers of 16 rows of 64 bytes), which multiply pairs
// of bfloat16 and add in float32 at many times the rate of vectors. CPU devices run on the host, so its instructions
// may be written in a kernel; Device::amx says whether they can be used. gemm, conv and deform_conv are built on this.
//
// A float32 is the exact sum of three bfloat16, high + middle + low, each rounded from what the ones before left over.
// Of the nine products of two such sums the six with a weight of 2^-18 and more are added, so what is lost (2^-26) lies
// below the rounding of a float32 product (2^-24). A float16 is the sum of two, and all four products are added; a
// bfloat16 is taken as it is. After Henry, Tang, Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype
// For Higher-Precision Computations" (2019).
//
//                 panel of B: blocks of 32 k, each          A block of 32 k of a strip or panel is AMX_BLOCK words:
//                 [part][half][16 pairs of k][16 columns]   per part two tiles of 16 x 16 words, a word being the
//                 +---------+---------+                     elements of k and k + 1.
//   strip of A:   | tile 0  | tile 1  |
//   [part][half]  +---------+---------+    Rows of A and columns of B that cannot be split, with an infinity, NaN
//   [16 rows][16  | tile 2  | tile 3  |    or nothing above 2^-100, are `unfit`: the caller adds their products by
//   pairs of k]   +---------+---------+    vectors.
//
// Needs: -DX=<float32, float16 or bfloat16>, the dtype that is split, or AMX_TYPE if X is another one. With
// -DDOT_VECTOR=64 bfloat16 is multiplied by vectors instead (AVX-512 BF16, dot_tile.cl), which round and flush
// subnormal numbers as tile registers do.
#ifndef AMX_TYPE
#define AMX_TYPE X
#endif
#define AMX_PARTS CLPRIM_CAT(AMX_PARTS_, AMX_TYPE)
#define AMX_PARTS_float32 3
#define AMX_PARTS_float16 2
#define AMX_PARTS_bfloat16 1
#define AMX_TILE 256                             // words
#define AMX_BLOCK (2 * AMX_TILE * AMX_PARTS)     // words
#include "kernels/gemm/amx_tiles.cl"
#ifdef DOT_VECTOR
#define DOT_BFLOAT16
#include "kernels/gemm/dot_blocks.cl"
#endif

// Sums that wait in `tile`, a private array, for being added to those at `sums`. Vectors add them a few rows at a time
// beside the products that follow, which leave them idle. The address may be one of local memory too: on a CPU they are
// alike. (The array lies outside of the struct so that the rest stays in registers.)
typedef struct {
    float* tile;
    __global float* sums;
    long step;
    int rows;   // that are left of AMX_SIDE
} amx_waiting;
#define AMX_NOTHING_WAITS(name)                                                                             \
    float name##_tile[AMX_SIDE * AMX_SIDE] __attribute__((aligned(64)));                                    \
    amx_waiting name = {name##_tile, 0, 0, 0};

static inline void amx_add_rows(amx_waiting* waiting, int count)
{
    __global float* sums = waiting->sums;
    const float* from = waiting->tile + (AMX_SIDE - waiting->rows) * AMX_SIDE;
    const int some = min(waiting->rows, count);
    for (int i = 0; i < some; ++i, sums += waiting->step, from += AMX_SIDE) {
        vstore16(vload16(0, sums) + vload16(0, from), 0, sums);
        vstore16(vload16(1, sums) + vload16(1, from), 1, sums);
    }
    waiting->sums = sums;
    waiting->rows -= some;
}

// Adds what waits; to be called before the sums are read and at the end.
static inline void amx_settle(amx_waiting* waiting)
{
    amx_add_rows(waiting, AMX_SIDE);
    __asm__ volatile("" ::: "memory");
}

// Puts the 32 x 32 sums to `sums` (an address), or lets them wait to be added to what is there. Nothing else may wait.
static inline void amx_put(amx_waiting* waiting, ulong sums, long step, int add)
{
    waiting->sums = (__global float*)sums;
    waiting->step = step;
    waiting->rows = add ? AMX_SIDE : 0;
#ifdef DOT_VECTOR   // they are in `tile`
    for (int i = 0; i < 2 * AMX_SIDE && !add; ++i)
        vstore16(vload16(i, waiting->tile), 0, waiting->sums + i / 2 * step + i % 2 * 16);
#else
    amx_store(add ? (ulong)waiting->tile : sums, add ? AMX_SIDE : step);
#endif
}

// Parts of a strip (%0) to registers 4 and 5, of a panel (%1) to 6 and 7, and the products of what is there.
#define AMX_A(n) AMX_A_##n
#define AMX_A_LOW(n) "tileloadd " #n "*2048(%0,%2,1), %%tmm4\n\t"
#define AMX_A_BOTH(n) AMX_A_LOW(n) "tileloadd " #n "*2048+1024(%0,%2,1), %%tmm5\n\t"
#define AMX_B_LOW(n) "tileloadd " #n "*2048(%1,%2,1), %%tmm6\n\t"
#define AMX_B_BOTH(n) AMX_B_LOW(n) "tileloadd " #n "*2048+1024(%1,%2,1), %%tmm7\n\t"
#define AMX_0 "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
#define AMX_01 AMX_0 "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
#define AMX_02 AMX_0 "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
#define AMX_0123 AMX_01 "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\ttdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"

// The products of one block in steps of four tiles each. Those of high parts are added last, so that only they round at
// the size of the sum: as often as float32 products would. Every part is loaded as rarely as two registers for each
// side allow.
#define DEFINE_AMX_STEP(name, STEP)                                                                         \
    static inline void name(ulong strip, ulong panel, int both_rows, int both_columns)                      \
    {                                                                                                       \
        if (both_rows && both_columns)                                                                      \
            AMX_ASM(STEP(AMX_A_BOTH, AMX_B_BOTH) AMX_0123)                                                  \
        else if (both_rows)                                                                                 \
            AMX_ASM(STEP(AMX_A_BOTH, AMX_B_LOW) AMX_02)                                                     \
        else if (both_columns)                                                                              \
            AMX_ASM(STEP(AMX_A_LOW, AMX_B_BOTH) AMX_01)                                                     \
        else                                                                                                \
            AMX_ASM(STEP(AMX_A_LOW, AMX_B_LOW) AMX_0)                                                       \
    }
#define AMX_ASM(text) __asm__ volatile(text ::"r"(strip), "r"(panel), "r"(64ul) : "memory");
#define AMX_LOAD_A0(A, B) A(0)
#define AMX_LOAD_A1(A, B) A(1)
#define AMX_LOAD_B0(A, B) B(0)
#define AMX_LOAD_B1(A, B) B(1)
#define AMX_LOAD_B2(A, B) B(2)
#define AMX_LOAD_A0B0(A, B) A(0) B(0)
#define AMX_LOAD_A0B1(A, B) A(0) B(1)
#define AMX_LOAD_A1B1(A, B) A(1) B(1)
#define AMX_LOAD_A2B0(A, B) A(2) B(0)
DEFINE_AMX_STEP(amx_step_a0b0, AMX_LOAD_A0B0)
#if AMX_PARTS == 3
DEFINE_AMX_STEP(amx_step_a2b0, AMX_LOAD_A2B0)
DEFINE_AMX_STEP(amx_step_a1, AMX_LOAD_A1)
DEFINE_AMX_STEP(amx_step_b1, AMX_LOAD_B1)
DEFINE_AMX_STEP(amx_step_a0, AMX_LOAD_A0)
DEFINE_AMX_STEP(amx_step_b2, AMX_LOAD_B2)
#define AMX_SMALL_STEPS(DO, BESIDE) DO(a2b0, BESIDE) DO(a1, BESIDE) DO(b1, BESIDE) DO(a0, BESIDE) DO(b2, BESIDE)
#define AMX_STEPS 6   // of a block
#elif AMX_PARTS == 2
DEFINE_AMX_STEP(amx_step_a1b1, AMX_LOAD_A1B1)
DEFINE_AMX_STEP(amx_step_b0, AMX_LOAD_B0)
DEFINE_AMX_STEP(amx_step_a0b1, AMX_LOAD_A0B1)
#define AMX_SMALL_STEPS(DO, BESIDE) DO(a1b1, BESIDE) DO(b0, BESIDE) DO(a0b1, BESIDE)
#define AMX_STEPS 4
#else
#define AMX_SMALL_STEPS(DO, BESIDE)
#define AMX_STEPS 1
#endif

// A product: `blocks` blocks of a strip and a panel (addresses of their words), of which only the first `rows` and
// `columns` matter. What comes from memory for the next product is `ahead`, if not 0, and fetched meanwhile.
typedef struct {
    ulong strip, panel;
    int blocks;
    long rows, columns;
    ulong ahead;
} amx_product;

#define AMX_STEP_BYTES (4 * AMX_BLOCK / AMX_STEPS)   // of `ahead` per step
static inline void amx_fetch(ulong from)
{
    for (int i = 0; i < AMX_STEP_BYTES; i += 64)
        __asm__ volatile("prefetcht1 (%0)" ::"r"(from + i));
}

// Multiplies, and does BESIDE(job, share) after every step: up to some sixty vector instructions cost nothing there, as
// the tiles take longer. More of them would fill the processor's queue and keep it from reaching the next step in time.
// Of AMX_SIDE rows, `share` per step are done within the product.
#define DEFINE_AMX_MULTIPLY(name, job_type, BESIDE)                                                         \
    static inline void name(const amx_product p, job_type* job)                                             \
    {                                                                                                       \
        const int both_rows = p.rows > 16, both_columns = p.columns > 16;                                   \
        const int steps = max(p.blocks * AMX_STEPS, 1), share = (AMX_SIDE + steps - 1) / steps;             \
        ulong ahead = p.ahead;                                                                              \
        __asm__ volatile(AMX_ZERO ::: "memory");                                                            \
        AMX_EACH_BLOCK(AMX_SMALL_STEPS, BESIDE)                                                             \
        AMX_EACH_BLOCK(AMX_LARGE_STEP, BESIDE)                                                              \
    }
#define AMX_LARGE_STEP(DO, BESIDE) DO(a0b0, BESIDE)
#define AMX_EACH_BLOCK(STEPS, BESIDE)                                                                       \
    for (int block = 0; block < p.blocks; ++block) {                                                        \
        const ulong strip = p.strip + block * 4 * AMX_BLOCK, panel = p.panel + block * 4 * AMX_BLOCK;       \
        STEPS(AMX_DO_STEP, BESIDE)                                                                          \
    }
#define AMX_DO_STEP(step, BESIDE)                                                                           \
    amx_step_##step(strip, panel, both_rows, both_columns);                                                 \
    if (ahead) {                                                                                            \
        amx_fetch(ahead);                                                                                   \
        ahead += AMX_STEP_BYTES;                                                                            \
    }                                                                                                       \
    BESIDE(job, share);
#ifdef DOT_VECTOR
static inline void amx_multiply(const amx_product p, amx_waiting* waiting)
{
    amx_settle(waiting);
    dot_blocks(p.strip, p.panel, p.blocks, (int2)((int)p.rows, (int)p.columns), (int*)waiting->tile);
}
#else
DEFINE_AMX_MULTIPLY(amx_multiply, amx_waiting, amx_add_rows)
#endif

// name(p, leaving, job): the same, while the sums of the product before leave their registers; `job`, of those sums, is
// done beside steps that come after that.
#if AMX_PARTS == 1 && !defined(DOT_VECTOR)
DEFINE_AMX_LEAD(amx_lead, "tdpbf16ps")
#define DEFINE_AMX_MULTIPLY_ON(name, job_type, BESIDE)                                                      \
    static inline void name(const amx_product p, amx_leaving leaving, job_type* job)                        \
    {                                                                                                       \
        const int both_rows = p.rows > 16, both_columns = p.columns > 16;                                   \
        const amx_operands of = {p.strip, p.strip + 4 * AMX_TILE, p.panel, 64, 4 * AMX_BLOCK, p.blocks,     \
                                 both_rows, both_columns};                                                  \
        const int first = amx_lead(of, leaving), steps = max(p.blocks - first, 1);                          \
        const int share = (AMX_SIDE + steps - 1) / steps;                                                   \
        for (int block = first; block < p.blocks; ++block) {                                                \
            amx_step_a0b0(p.strip + block * 4 * AMX_BLOCK, p.panel + block * 4 * AMX_BLOCK, both_rows,      \
                          both_columns);                                                                    \
            BESIDE(job, share);                                                                             \
        }                                                                                                   \
    }
#elif !defined(DOT_VECTOR)
#define DEFINE_AMX_MULTIPLY_ON(name, job_type, BESIDE)                                                      \
    DEFINE_AMX_MULTIPLY(name##_alone, job_type, BESIDE)                                                     \
    static inline void name(const amx_product p, amx_leaving leaving, job_type* job)                        \
    {                                                                                                       \
        if (leaving.sums)                                                                                   \
            amx_store(leaving.sums, leaving.step);                                                          \
        name##_alone(p, job);                                                                               \
    }
#endif

// Words of the pairs (even[i], odd[i]), to each part's `to[part * 2 * AMX_TILE]`; `most` keeps the largest magnitude.
#define DEFINE_AMX_SPLIT(name, SPACE)                                                                       \
    static inline void name(float16 even, float16 odd, SPACE uint* to, uint16* most)                        \
    {                                                                                                       \
        *most = max(*most, max(as_uint16(even) & 0x7fffffffu, as_uint16(odd) & 0x7fffffffu));               \
        for (int part = 0; part < AMX_PARTS; ++part) {                                                      \
            const uint half_unit = part + 1 < AMX_PARTS ? 0x8000u : 0u;                                     \
            const uint16 e = (as_uint16(even) + half_unit) & 0xffff0000u;                                   \
            const uint16 o = (as_uint16(odd) + half_unit) & 0xffff0000u;                                    \
            vstore16(e >> 16 | o, 0, to + part * 2 * AMX_TILE);                                             \
            even -= as_float16(e);                                                                          \
            odd -= as_float16(o);                                                                           \
        }                                                                                                   \
    }
DEFINE_AMX_SPLIT(amx_split, __private)
DEFINE_AMX_SPLIT(amx_split_to_local, __local)
DEFINE_AMX_SPLIT(amx_split_to_global, __global)

// Whether a column (of a panel) or the row (of a strip) with these largest magnitudes cannot be split: see the top.
#define AMX_HUGE 0x7f7f0000u             // what rounds to infinity, infinity, NaN
#define AMX_TINY ((127u - 100u) << 23)   // 2^-100
static inline int amx_unfit_columns(uint16 most)
{
    return AMX_PARTS > 1 && any(most >= AMX_HUGE || (most < AMX_TINY && most != 0u));
}
static inline int amx_unfit_row(uint16 most)
{
    const uint8 a = max(most.lo, most.hi);
    const uint4 b = max(a.lo, a.hi);
    const uint2 c = max(b.lo, b.hi);
    const uint all = max(c.x, c.y);
    return AMX_PARTS > 1 && (all >= AMX_HUGE || (all < AMX_TINY && all != 0));
}

// Zeros for what is missing of the last block of a panel of `depth` k.
#define DEFINE_AMX_END_PANEL(name, SPACE)                                                                   \
    static inline void name(SPACE uint* words, int depth)                                                   \
    {                                                                                                       \
        for (int pair = (depth + 1) / 2; pair % 16 != 0; ++pair)                                            \
            for (int tile = 0; tile < 2 * AMX_PARTS; ++tile)                                                \
                vstore16((uint16)0, 0, words + pair / 16 * AMX_BLOCK + tile * AMX_TILE + pair % 16 * 16);   \
    }
DEFINE_AMX_END_PANEL(amx_end_panel, __local)
DEFINE_AMX_END_PANEL(amx_end_global_panel, __global)

// Rows [0, depth) of packed[k][AMX_SIDE], of which the first `columns` matter, to the words of a panel. Whether it is
// unfit.
#define DEFINE_AMX_SPLIT_PANEL(name, split, end_panel, FROM, TO)                                            \
    static inline int name(const FROM float* packed, int depth, long columns, TO uint* words)               \
    {                                                                                                       \
        int unfit = 0;                                                                                      \
        for (int side = 0; side < 2 && columns > 16 * side; ++side) {                                       \
            uint16 most = 0;                                                                                \
            for (int k = 0; k < depth; k += 2)                                                              \
                split(vload16(2 * k + side, packed),                                                        \
                      k + 1 < depth ? vload16(2 * k + 2 + side, packed) : (float16)0,                       \
                      words + k / 32 * AMX_BLOCK + side * AMX_TILE + k / 2 % 16 * 16, &most);               \
            unfit |= amx_unfit_columns(most);                                                               \
        }                                                                                                   \
        end_panel(words, depth);                                                                            \
        return unfit;                                                                                       \
    }
DEFINE_AMX_SPLIT_PANEL(amx_split_panel, amx_split_to_local, amx_end_panel, __local, __local)
DEFINE_AMX_SPLIT_PANEL(amx_split_global_panel, amx_split_to_global, amx_end_global_panel, __global, __global)

// Up to AMX_SIDE rows of `depth` floats, `step` apart, to the words of a strip, the rest of them zero. Whether it is
// unfit.
#define DEFINE_AMX_SPLIT_ROWS(name, split, FROM, TO)                                                        \
    static inline int name(const FROM float* from, long step, int rows, int depth, TO uint* words)          \
    {                                                                                                       \
        int unfit = 0;                                                                                      \
        for (int i = 0; i < AMX_SIDE; ++i) {                                                                \
            const FROM float* row = from + i * step;                                                        \
            uint16 most = 0;                                                                                \
            for (int k = 0; k < depth; k += AMX_SIDE) {                                                     \
                float16 first = 0, second = 0;                                                              \
                if (i < rows && k + AMX_SIDE <= depth) {                                                    \
                    first = vload16(0, row + k);                                                            \
                    second = vload16(1, row + k);                                                           \
                } else if (i < rows) {                                                                      \
                    float values[AMX_SIDE];                                                                 \
                    for (int e = 0; e < AMX_SIDE; ++e)                                                      \
                        values[e] = k + e < depth ? row[k + e] : 0;                                         \
                    first = vload16(0, values);                                                             \
                    second = vload16(1, values);                                                            \
                }                                                                                           \
                split((float16)(first.even, second.even), (float16)(first.odd, second.odd),                 \
                      words + k / 32 * AMX_BLOCK + i / 16 * AMX_TILE + i % 16 * 16, &most);                 \
            }                                                                                               \
            unfit |= amx_unfit_row(most);                                                                   \
        }                                                                                                   \
        return unfit;                                                                                       \
    }
DEFINE_AMX_SPLIT_ROWS(amx_split_rows, amx_split_to_local, __local, __local)
DEFINE_AMX_SPLIT_ROWS(amx_split_global_rows, amx_split_to_global, __global, __global)
