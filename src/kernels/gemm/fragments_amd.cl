// AMD's WMMA (16 x 16 sums, 16 k) and MFMA (32 x 32 sums, 8 k). A lane holds some neighbours along k of one line: row
// lane % SIDE of A, that column of B; lanes further on hold the next ones, or the same where a line's k are all in one
// lane (gfx11).
#ifdef ENGINE_MFMA
#define LANES 64
#define SIDE 32
#define FRAGMENT_K 8
#define A_WORDS 2
#define FRAGMENT_SUMS 16
typedef uint2 fragment_a;
typedef SUM_VECTOR(16) fragment_sums;
#define FRAGMENT_ROW(e, lane) ((e) / 4 * 8 + (lane) / SIDE * 4 + (e) % 4)
#else
#define LANES 32
#define SIDE 16
#define FRAGMENT_K 16
#define FRAGMENT_SUMS 8
typedef SUM_VECTOR(8) fragment_sums;
#ifdef ENGINE_WMMA
#define A_WORDS 8
typedef uint8 fragment_a;
#define FRAGMENT_ROW(e, lane) ((e) * 2 + (lane) / SIDE)
#else
#define A_WORDS 4
typedef uint4 fragment_a;
#define FRAGMENT_ROW(e, lane) ((lane) / SIDE * 8 + (e))
#endif
#endif
#define B_WORDS A_WORDS
typedef fragment_a fragment_b;
#define FRAGMENT_M SIDE
#define FRAGMENT_N SIDE
#define FRAGMENT_COLUMN(e, lane) ((lane) % SIDE)
#define PER_LANE (2 * A_WORDS)   // k
#define A_LANE(i, k) ((i) + (k) / PER_LANE * SIDE)
#define A_HALF(i, k) ((k) % PER_LANE)
#define B_LANE(k, j) A_LANE(j, k)
#define B_HALF(k, j) A_HALF(j, k)

static inline int a_place(int along_k, int lines, int line, int k) { return line * SLAB_PITCH + k / 2; }
#define b_place a_place
static inline void place_a_along_k(__local uint* to, uint4 v) { *(__local uint4*)to = v; }
static inline void place_a_along_lines(__local uint* to, int lines, uint4 v, uint4 w)
{
    place_words(to, SLAB_PITCH, pairs_of_lines(v, w));
}
#if FOUND_SLABS   // matrix_tiles.cl
// The same of four k, a multiple of four on.
static inline void place_a_four(__local uint* to, uint4 v0, uint4 v1, uint4 v2, uint4 v3)
{
    const uint8 first = pairs_of_lines(v0, v1), second = pairs_of_lines(v2, v3);
    *(__local uint2*)to = (uint2)(first.s0, second.s0);
    *(__local uint2*)(to + SLAB_PITCH) = (uint2)(first.s1, second.s1);
    *(__local uint2*)(to + 2 * SLAB_PITCH) = (uint2)(first.s2, second.s2);
    *(__local uint2*)(to + 3 * SLAB_PITCH) = (uint2)(first.s3, second.s3);
    *(__local uint2*)(to + 4 * SLAB_PITCH) = (uint2)(first.s4, second.s4);
    *(__local uint2*)(to + 5 * SLAB_PITCH) = (uint2)(first.s5, second.s5);
    *(__local uint2*)(to + 6 * SLAB_PITCH) = (uint2)(first.s6, second.s6);
    *(__local uint2*)(to + 7 * SLAB_PITCH) = (uint2)(first.s7, second.s7);
}
#define place_b_four place_a_four
#endif
#define place_b_along_k place_a_along_k
#define place_b_along_lines place_a_along_lines

static inline int begin_a(sub_group g, int along_k, int lines, int line)
{
#ifdef ENGINE_WMMA
    return (line + g.lane % SIDE) * SLAB_PITCH;
#else
    return (line + g.lane % SIDE) * SLAB_PITCH + g.lane / SIDE * A_WORDS;
#endif
}
#define begin_b begin_a

static inline fragment_a load_a(sub_group g, const __local uint* slab, int begin, int along_k, int lines, int i, int k)
{
    const __local uint* from = slab + begin + (i * SIDE * SLAB_PITCH + k / 2);
#ifdef ENGINE_WMMA
    const __local uint4* quads = (const __local uint4*)from;
    return (uint8)(quads[0], quads[1]);
#else
    return *(const __local fragment_a*)from;
#endif
}
#define load_b load_a

// Bytes: the instructions take half as many k, but for that of CDNA 3. Which half is the first does not matter, as long
// as it is the same of A and B.
#if !EMULATED
#if defined(ENGINE_MFMA)
#ifdef __gfx90a__
#define ENGINE_int8(a, b, c)                                                                                          \
    __builtin_amdgcn_mfma_i32_32x32x8i8(a.y, b.y, __builtin_amdgcn_mfma_i32_32x32x8i8(a.x, b.x, c, 0, 0, 0), 0, 0, 0)
#else
#define ENGINE_int8(a, b, c) __builtin_amdgcn_mfma_i32_32x32x16_i8(as_long(a), as_long(b), c, 0, 0, 0)
#endif
#define ENGINE_float16(a, b, c) __builtin_amdgcn_mfma_f32_32x32x8f16(as_half4(a), as_half4(b), c, 0, 0, 0)
#define ENGINE_bfloat16(a, b, c) __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(as_short4(a), as_short4(b), c, 0, 0, 0)
#elif defined(ENGINE_WMMA)
#define BYTES_OF(a, b, c)                                                                                             \
    __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(!A_UNSIGNED, as_int4(a), !B_UNSIGNED, as_int4(b), c, 0)
#define ENGINE_int8(a, b, c) BYTES_OF(a.hi, b.hi, BYTES_OF(a.lo, b.lo, c))
#define ENGINE_float16(a, b, c) __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(as_half16(a), as_half16(b), c)
#define ENGINE_bfloat16(a, b, c) __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(as_short16(a), as_short16(b), c)
#else
#define BYTES_OF(a, b, c)                                                                                             \
    __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(!A_UNSIGNED, as_int2(a), !B_UNSIGNED, as_int2(b), c, 0)
#define ENGINE_int8(a, b, c) BYTES_OF(a.hi, b.hi, BYTES_OF(a.lo, b.lo, c))
#define ENGINE_float16(a, b, c) __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(as_half8(a), as_half8(b), c)
#define ENGINE_bfloat16(a, b, c) __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(as_short8(a), as_short8(b), c)
#endif
static inline fragment_sums multiply_add(sub_group g, fragment_a a, fragment_b b, fragment_sums sums)
{
    return CLPRIM_CAT(ENGINE_, X)(a, b, sums);
}
#endif
