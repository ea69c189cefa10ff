// Blocks of matrix_tiles.cl by the instructions of NVIDIA's sm_90a for four warps together, a warpgroup:
// wgmma.m64n128k16 reads both operands from local memory by itself, so that registers hold nothing but sums
// (ENGINE_MMA, -DWARPGROUPS=1, -DSTAGES=2 or more, -DALIGNED=1). A warpgroup owns 64 rows and 128 columns: FRAGMENTS_M
// is 1, FRAGMENTS_N 8; the SUB_GROUPS_M warps lie below each other.
//
//     BEGIN_STAGES            where this work-item's groups of eight come to lie, and what the warpgroup multiplies
//     MULTIPLY_DEPTH(depth)   sums += A B over `depth` k by the kernel's COPY (copied_slabs.cl)
// and those of matrix_tiles.cl: BEGIN_MATRIX_TILE, EACH_QUAD_OF_SUMS, EACH_QUAD_AHEAD.
//
// A group of work-items that arrives at a barrier has seen the products of the slab before end, over which another one
// is copied then. On an H100 it pays more to copy two slabs ahead than to let products run on across the barrier: the
// group beside it on the same core multiplies meanwhile.
#include "kernels/gemm/copied_slabs.cl"

#define STAGE (A_SLAB + B_SLAB)   // words
#define COPIES_AHEAD (STAGES - 1)
#if COPIES_AHEAD < 1 || SUB_GROUPS_M % 4 || FRAGMENTS_M != 1 || FRAGMENTS_N != 8
#error "whole warpgroups, and a slab that is copied while another one is multiplied"
#endif

// How operands lie. Along k, lines of SLAB_K numbers follow each other in atoms of eight; across it 64 lines at one k
// do, in atoms of eight k, and all of a slab's k are followed by those of the next 64 lines. Groups of eight numbers
// change places within 1024, 512 or 256 bytes, so that eight lines at one k lie in different banks.
#define MIXED_BITS(along_k) ((along_k) ? (SLAB_K == 64 ? 3 : SLAB_K == 32 ? 2 : 1) : 3)
static inline int mixed(int byte, int bits) { return byte ^ (byte >> 7 & ((1 << bits) - 1)) << 4; }
static inline int stage_place(int along_k, int lines, int line, int k)
{
    const int byte = along_k ? line * (2 * SLAB_K) + 2 * k : line / 64 * (128 * SLAB_K) + 128 * k + line % 64 * 2;
    return mixed(byte, MIXED_BITS(along_k)) / 4;
}

// What the instruction is told of an operand, all distances in 16 bytes: where it begins, from 64 lines to the next
// across k, from eight lines (along k) or eight k (across it) to the next; how groups change places.
static inline ulong description(int along_k, uint address)
{
    const uint across = along_k ? 1 : 8 * SLAB_K, stride = along_k ? SLAB_K : 64;
    const uint mixing = 4 - MIXED_BITS(along_k);
    return (ulong)((address >> 4 & 0x3fff) | across << 16) | (ulong)(stride | mixing << 30) << 32;
}
#define NEXT_STEP(along_k) ((along_k) ? 2 : 128)   // 16 k further

#define SUMS 64   // of a work-item
#if EMULATED
// A number where the instruction looks for it.
static inline float described_number(const __local ushort* memory, ulong operand, int along_k, int line, int k)
{
    const int bits = 4 - (int)(operand >> 62), begin = (int)(operand & 0x3fff) * 16;
    const int across = (int)(operand >> 16 & 0x3fff) * 16, stride = (int)(operand >> 32 & 0x3fff) * 16;
    const int at = along_k ? begin + line / 8 * stride + line % 8 * (16 << bits) + 2 * k
                           : begin + line / 64 * across + k / 8 * stride + k % 8 * 128 + line % 64 * 2;
    return CLPRIM_CAT(X, _to_float)(memory[mixed(at, bits) / 2]);
}
static inline void multiply_described(const __local ushort* memory, int item, float* sums, ulong a, ulong b)
{
    for (int e = 0; e < SUMS; ++e) {
        const int i = item % 128 / 32 * 16 + item % 32 / 4 + e % 4 / 2 * 8, j = e / 4 * 8 + item % 4 * 2 + e % 2;
        for (int k = 0; k < 16; ++k)
            sums[e] = fma(described_number(memory, a, A_ALONG_K, i, k), described_number(memory, b, B_ALONG_K, j, k),
                          sums[e]);
    }
}
#define MULTIPLY_DESCRIBED(a, b) multiply_described((const __local ushort*)slabs, item, sums, a, b);
#define BEGIN_PRODUCTS
#define END_OF_PRODUCTS
#define WAIT_FOR_PRODUCTS
#define SHOW_COPIES
#define ADDRESS_OF(local) 0
static inline int warpgroup_of(int item) { return item / 128; }
#else
#define SM_90A "//sm_90a:"   // an instruction that core/ptx_for_sm_90a.hpp makes of a comment
#define SUMS_8(i)                                                                                                     \
    "+f"(sums[i]), "+f"(sums[(i) + 1]), "+f"(sums[(i) + 2]), "+f"(sums[(i) + 3]), "+f"(sums[(i) + 4]),                \
        "+f"(sums[(i) + 5]), "+f"(sums[(i) + 6]), "+f"(sums[(i) + 7])
#define TEN(t) "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9,"
#define TYPES_float16 "f32.f16.f16"
#define TYPES_bfloat16 "f32.bf16.bf16"
// The numbers say that sums are added to, that both operands are multiplied by 1, and which of them lie across k.
#define MULTIPLY_DESCRIBED(a, b)                                                                                      \
    __asm__ volatile(SM_90A "{ .reg .pred adds; setp.ne.b32 adds, 1, 0; "                                             \
                            "wgmma.mma_async.sync.aligned.m64n128k16." CLPRIM_CAT(TYPES_, X) " {" TEN() TEN(1) TEN(2) \
                            TEN(3) TEN(4) TEN(5) "%60,%61,%62,%63}, %64, %65, adds, 1, 1, %66, %67; }"                \
                     : SUMS_8(0), SUMS_8(8), SUMS_8(16), SUMS_8(24), SUMS_8(32), SUMS_8(40), SUMS_8(48), SUMS_8(56)   \
                     : "l"(a), "l"(b), "n"(!A_ALONG_K), "n"(!B_ALONG_K) : "memory");
#define BEGIN_PRODUCTS __asm__ volatile(SM_90A "wgmma.fence.sync.aligned;" : : : "memory");
#define END_OF_PRODUCTS __asm__ volatile(SM_90A "wgmma.commit_group.sync.aligned;" : : : "memory");
#define WAIT_FOR_PRODUCTS __asm__ volatile(SM_90A "wgmma.wait_group.sync.aligned 0;" : : : "memory");
// What a work-item has copied becomes visible to what reads local memory by itself.
#define SHOW_COPIES __asm__ volatile("fence.proxy.async.shared::cta;" : : : "memory");
#define ADDRESS_OF(local) (uint)(size_t)(local)
static inline int warpgroup_of(int item)   // the compiler is shown that it is one for a whole warp
{
    int result = item / 128;
    __asm__ volatile("shfl.sync.idx.b32 %0, %0, 0, 0x1f, 0xffffffff;" : "+r"(result));
    return result;
}
#endif

#define BEGIN_STAGES                                                                                                  \
    PLACES_OF_COPIES                                                                                                  \
    const ulong a_operand = description(A_ALONG_K, ADDRESS_OF(slabs) + row * (2 * SLAB_K));                           \
    const ulong b_operand = description(B_ALONG_K, ADDRESS_OF(slabs) + 4 * A_SLAB + column * (2 * SLAB_K));

// The slab at a word of local memory.
#define MULTIPLY_STAGE(at)                                                                                            \
    BEGIN_PRODUCTS                                                                                                    \
    UNROLL for (int step = 0; step < SLAB_K / 16; ++step)                                                             \
    {                                                                                                                 \
        const ulong a_step = a_operand + ((at) / 4 + step * NEXT_STEP(A_ALONG_K));                                    \
        const ulong b_step = b_operand + ((at) / 4 + step * NEXT_STEP(B_ALONG_K));                                    \
        MULTIPLY_DESCRIBED(a_step, b_step)                                                                            \
    }                                                                                                                 \
    END_OF_PRODUCTS
#define STAGE_BEHIND(at) ((at) == (STAGES - 1) * STAGE ? 0 : (at) + STAGE)
// What is left over when k is cut into slabs comes first.
#define MULTIPLY_DEPTH(depth)                                                                                         \
    if ((depth) > 0) {                                                                                                \
        const int over = (int)((depth) % SLAB_K), first = over ? over : SLAB_K;                                       \
        const int all = (int)(((depth)-first) / SLAB_K) + 1;                                                          \
        COPY_FIRST_SLABS(COPIES_AHEAD, all)                                                                           \
        uint now = 0, next = COPIES_AHEAD * STAGE;                                                                    \
        for (int left = all; left > 0; --left) {                                                                      \
            WAIT_FOR_COPIES(COPIES_AHEAD - 1)                                                                         \
            SHOW_COPIES                                                                                               \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                             \
            MULTIPLY_STAGE(now)                                                                                       \
            COPY(next, SLAB_K, left > COPIES_AHEAD)                                                                   \
            END_OF_COPIES                                                                                             \
            now = STAGE_BEHIND(now);                                                                                  \
            next = STAGE_BEHIND(next);                                                                                \
            WAIT_FOR_PRODUCTS                                                                                         \
        }                                                                                                             \
        WAIT_FOR_COPIES(0)                                                                                            \
    }

// Sums in local memory at a time: PART_COLUMNS columns of each warp's 16 rows, which lie in different banks.
#define PART_COLUMNS 32
#define PART_PITCH (PART_COLUMNS + 8)
#define PART_WORDS (ITEMS / 2 * PART_PITCH)
#define PART_SUMS (PART_COLUMNS / 2)   // of a work-item

#undef BEGIN_MATRIX_TILE
#define BEGIN_MATRIX_TILE                                                                                             \
    __local uint4 memory[(SLAB_WORDS > PART_WORDS ? SLAB_WORDS : PART_WORDS) / 4] __attribute__((aligned(1024)));     \
    __local uint* slabs = (__local uint*)memory;                                                                      \
    const uint item = get_local_id(0);                                                                                \
    const int warpgroup = warpgroup_of(item);                                                                         \
    const int row = warpgroup / SUB_GROUPS_N * 64, column = warpgroup % SUB_GROUPS_N * COLUMNS;                       \
    float sums[SUMS];                                                                                                 \
    UNROLL for (int e = 0; e < SUMS; ++e)                                                                             \
        sums[e] = 0;

#define PUT_PART(part)                                                                                                \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                                     \
    UNROLL for (int which = 0; which < SUMS / PART_SUMS; ++which)                                                     \
        if (which == part)                                                                                            \
            UNROLL for (int e = 0; e < PART_SUMS; e += 2)                                                             \
                vstore2((float2)(sums[which * PART_SUMS + e], sums[which * PART_SUMS + e + 1]), e / 4 * 4 + item % 4, \
                        (__local float*)memory + (item / 32 * 16 + item % 32 / 4 + e % 4 * 4) * PART_PITCH);          \
    barrier(CLK_LOCAL_MEM_FENCE);
// Quad `nth` of a work-item in a part.
#define NTH_QUAD(i, j, part, nth)                                                                                     \
    const uint quad = item + (nth)*ITEMS;                                                                             \
    const int line = quad / (PART_COLUMNS / 4), in_line = quad % (PART_COLUMNS / 4) * 4;                              \
    const int i = line / 64 / SUB_GROUPS_N * 64 + line % 64;                                                          \
    const int j = line / 64 % SUB_GROUPS_N * COLUMNS + part * PART_COLUMNS + in_line;
#define QUAD_OF_PART *(const __local float4*)((const __local float*)memory + line * PART_PITCH + in_line)
#undef QUADS_OF_ITEM
#define QUADS_OF_ITEM (PART_COLUMNS / 8)
#undef EACH_QUAD_OF_SUMS
#define EACH_QUAD_OF_SUMS(i, j, v, BODY)                                                                              \
    for (int part = 0; part < SUMS / PART_SUMS; ++part) {                                                             \
        PUT_PART(part)                                                                                                \
        for (int nth = 0; nth < QUADS_OF_ITEM; ++nth) {                                                               \
            NTH_QUAD(i, j, part, nth)                                                                                 \
            const float4 v = QUAD_OF_PART;                                                                            \
            BODY                                                                                                      \
        }                                                                                                             \
    }
#undef EACH_QUAD_AHEAD
#define EACH_QUAD_AHEAD(i, j, v, which, AHEAD, BODY)                                                                  \
    for (int part = 0; part < SUMS / PART_SUMS; ++part) {                                                             \
        PUT_PART(part)                                                                                                \
        UNROLL for (int which = 0; which < QUADS_OF_ITEM; ++which)                                                    \
        {                                                                                                             \
            NTH_QUAD(i, j, part, which)                                                                               \
            AHEAD                                                                                                     \
        }                                                                                                             \
        UNROLL for (int which = 0; which < QUADS_OF_ITEM; ++which)                                                    \
        {                                                                                                             \
            NTH_QUAD(i, j, part, which)                                                                               \
            const float4 v = QUAD_OF_PART;                                                                            \
            BODY                                                                                                      \
        }                                                                                                             \
    }
