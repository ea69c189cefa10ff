// NVIDIA's mma.sync.m16n8k16, of bytes m16n8k32, two of them side by side, with operands by ldmatrix. With g = lane / 4
// and t = lane % 4 a lane holds of A rows g and g + 8 and of B columns g and g + 8 at k = 2 t, 2 t + 1 and eight
// further, of the sums rows g and g + 8 at columns 2 t, 2 t + 1 and eight further. ldmatrix transposes, so slabs lie as
// their matrices do.
#define LANES 32
#define A_WORDS 4
#define B_WORDS 4
#define FRAGMENT_M 16
#define FRAGMENT_N 16
#define FRAGMENT_K 16
#define FRAGMENT_SUMS 8
#define TRANSPOSING_LOADS 1
typedef uint4 fragment_a;
typedef uint4 fragment_b;
typedef SUM_VECTOR(8) fragment_sums;
#define A_LANE(i, k) ((i) % 8 * 4 + (k) % 8 / 2)
#define A_HALF(i, k) (((k) / 8 * 2 + (i) / 8) * 2 + (k) % 2)
#define B_LANE(k, j) ((j) % 8 * 4 + (k) % 8 / 2)
#define B_HALF(k, j) (((j) / 8 * 2 + (k) / 8) * 2 + (k) % 2)
#define FRAGMENT_ROW(e, lane) ((lane) / 4 + (e) % 4 / 2 * 8)
#define FRAGMENT_COLUMN(e, lane) ((e) / 4 * 8 + (lane) % 4 * 2 + (e) % 2)

// Words from one k to the next where lines are neighbours.
#define LINES_PITCH(lines) ((lines) / 2 + 4)

static inline int a_place(int along_k, int lines, int line, int k)
{
    return along_k ? line * SLAB_PITCH + k / 2 : k * LINES_PITCH(lines) + line / 2;
}
#define b_place a_place
static inline void place_a_along_k(__local uint* to, uint4 v) { *(__local uint4*)to = v; }
static inline void place_a_along_lines(__local uint* to, int lines, uint4 v, uint4 w)
{
    *(__local uint4*)to = v;
    *(__local uint4*)(to + LINES_PITCH(lines)) = w;
}
#define place_b_along_k place_a_along_k
#define place_b_along_lines place_a_along_lines

#if EMULATED
// Four matrices of 8 x 8: lanes 8 m to 8 m + 7 say where the rows of matrix m begin. A lane receives elements 2 t and
// 2 t + 1 of row g of each, or of column g where they are transposed.
static inline uint4 load_matrices(sub_group g, const __local uint* slab, int begin, int step, int transposed)
{
    uint words[4];
    barrier(CLK_LOCAL_MEM_FENCE);
    g.exchange[g.lane] = begin + step;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int m = 0; m < 4; ++m) {
        const __local uint* rows = g.exchange + 8 * m;
        const int near = g.lane % 4, far = g.lane / 4;
        if (transposed) {
            const __local ushort* halves = (const __local ushort*)slab;
            words[m] = halves[2 * rows[2 * near] + far] | (uint)halves[2 * rows[2 * near + 1] + far] << 16;
        } else
            words[m] = slab[rows[far] + near];
    }
    return vload4(0, words);
}
#else
static inline uint4 load_matrices(sub_group g, const __local uint* slab, int begin, int step, int transposed)
{
    const uint address = (uint)(size_t)(slab + begin) + 4 * step;
    uint x, y, z, w;
    if (transposed)
        __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(address) : "memory");
    else
        __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(address) : "memory");
    return (uint4)(x, y, z, w);
}
#if A_UNSIGNED && B_UNSIGNED
#define MMA_BYTES "u8.u8"
#elif A_UNSIGNED
#define MMA_BYTES "u8.s8"
#elif B_UNSIGNED
#define MMA_BYTES "s8.u8"
#else
#define MMA_BYTES "s8.s8"
#endif
#if ENGINE_MMA == 75
// Turing's are half as long, and of bytes half as high as well: of the same words in the same lanes.
#define MMA(c, a, b0, b1) CLPRIM_CAT(MMA_, X)(c, a, b0, b1)
#define MMA_float16(c, a, b0, b1)                                                                                     \
    MMA_OF_HALVES(c, a.x, a.y, b0);                                                                                   \
    MMA_OF_HALVES(c, a.z, a.w, b1)
#define MMA_OF_HALVES(c, a0, a1, b)                                                                                   \
    __asm__("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"           \
            : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(b))
#define MMA_int8(c, a, b0, b1)                                                                                        \
    MMA_OF_BYTES(c.x, c.y, a.x, b0);                                                                                  \
    MMA_OF_BYTES(c.z, c.w, a.y, b0);                                                                                  \
    MMA_OF_BYTES(c.x, c.y, a.z, b1);                                                                                  \
    MMA_OF_BYTES(c.z, c.w, a.w, b1)
#define MMA_OF_BYTES(c0, c1, a, b)                                                                                    \
    __asm__("mma.sync.aligned.m8n8k16.row.col.s32." MMA_BYTES ".s32 {%0,%1}, {%2}, {%3}, {%0,%1};"                    \
            : "+r"(c0), "+r"(c1) : "r"(a), "r"(b))
#else
#define MMA_float16 "m16n8k16.row.col.f32.f16.f16.f32"
#define MMA_bfloat16 "m16n8k16.row.col.f32.bf16.bf16.f32"
#define MMA_int8 "m16n8k32.row.col.s32." MMA_BYTES ".s32"
#define MMA_SUM_float16 "+f"
#define MMA_SUM_bfloat16 "+f"
#define MMA_SUM_int8 "+r"
#define MMA(c, a, b0, b1) MMA_WRITTEN(CLPRIM_CAT(MMA_, X), CLPRIM_CAT(MMA_SUM_, X), c, a, b0, b1)
#define MMA_WRITTEN(shape, sum, c, a, b0, b1)                                                                         \
    __asm__("mma.sync.aligned." shape " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                        \
            : sum(c.x), sum(c.y), sum(c.z), sum(c.w) : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1))
#endif
static inline fragment_sums multiply_add(sub_group g, fragment_a a, fragment_b b, fragment_sums sums)
{
    SUM_VECTOR(4) low = sums.lo, high = sums.hi;
    MMA(low, a, b.x, b.y);
    MMA(high, a, b.z, b.w);
    return (fragment_sums)(low, high);
}
#endif

static inline int begin_a(sub_group g, int along_k, int lines, int line)
{
    if (along_k)
        return (line + g.lane % 16) * SLAB_PITCH + g.lane / 16 * 4;
    return (g.lane % 8 + g.lane / 16 * 8) * LINES_PITCH(lines) + line / 2 + g.lane / 8 % 2 * 4;
}
static inline int begin_b(sub_group g, int along_k, int lines, int line)
{
    if (along_k)
        return (line + g.lane % 8 + g.lane / 16 * 8) * SLAB_PITCH + g.lane / 8 % 2 * 4;
    return g.lane % 16 * LINES_PITCH(lines) + line / 2 + g.lane / 16 * 4;
}
static inline fragment_a load_a(sub_group g, const __local uint* slab, int begin, int along_k, int lines, int i, int k)
{
    return load_matrices(g, slab, begin, along_k ? i * 16 * SLAB_PITCH + k / 2 : k * LINES_PITCH(lines) + i * 8,
                         !along_k);
}
#define load_b load_a
