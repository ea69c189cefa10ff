// Which lane has what of scores that matrix instructions computed (gpu_matrix.cl, gpu_matrix_backward.cl): `own` are
// the lines that a work-group owns, `other` the lines that it passes over, or their elements. Needs
// gemm/matrix_tiles.cl.
#define OWN FRAGMENTS_M

#ifdef ENGINE_MMA
// Own lines are rows, of which a lane has two in each fragment; four lanes share a row.
#define OWN_LINES 2
#define LINE_OF(e) ((e) % 4 / 2)
#define OWN_SIDE FRAGMENT_M
#define OTHER_SIDE FRAGMENT_N
#define OWN_WORDS A_WORDS
#define OWN_OF(e, lane) FRAGMENT_ROW(e, lane)
#define OTHER_OF(e, lane) FRAGMENT_COLUMN(e, lane)
#define FIRST_OF_LINE(lane) ((lane) % 4 == 0)
#define EACH_ELEMENT(x) ((float8)(x[0], x[0], x[1], x[1], x[0], x[0], x[1], x[1]))
typedef fragment_a own_fragment;
typedef fragment_b other_fragment;
#define OWN_ALONG_K 1
#define own_place a_place
#define place_own place_a_along_k
#define begin_own begin_a
#define load_own load_a
#define other_place b_place
#define place_other_along_k place_b_along_k
#define place_other_along_lines place_b_along_lines
#define begin_other begin_b
#define load_other load_b
#define multiply(g, other, own, sums) multiply_add(g, own, other, sums)
#else
// Own lines are columns, of which a lane has one; lanes LANES / OWN_SIDE share a column.
#define OWN_LINES 1
#define LINE_OF(e) 0
#define OWN_SIDE FRAGMENT_N
#define OTHER_SIDE FRAGMENT_M
#define OWN_WORDS B_WORDS
#define OWN_OF(e, lane) FRAGMENT_COLUMN(e, lane)
#define OTHER_OF(e, lane) FRAGMENT_ROW(e, lane)
#define FIRST_OF_LINE(lane) ((lane) < OWN_SIDE)
#define EACH_ELEMENT(x) ((fragment_sums)(x[0]))
typedef fragment_b own_fragment;
typedef fragment_a other_fragment;
#define own_place b_place
#define begin_own begin_b
#define load_own load_b
#define other_place a_place
#define place_other_along_k place_a_along_k
#define place_other_along_lines place_a_along_lines
#define begin_other begin_a
#define load_other load_a
#define multiply(g, other, own, sums) multiply_add(g, other, own, sums)
#endif

// Words of a line in a slab: of the others, and of own lines. Those of dpas lie as its block reads want them.
#if defined(ENGINE_DPAS8) || defined(ENGINE_DPAS16)
#define LINE_WORDS (SLAB_K / 2)
#define OWN_LINE_WORDS (SLAB_K / 2)
#define OWN_ALONG_K 0
static inline void place_own(__local uint* to, uint4 v)
{
    to[0] = v.x;
    to[LANES] = v.y;
    to[2 * LANES] = v.z;
    to[3 * LANES] = v.w;
}
#else
#define LINE_WORDS SLAB_PITCH
#define OWN_LINE_WORDS SLAB_PITCH
#ifndef ENGINE_MMA
#define OWN_ALONG_K 1
#define place_own place_b_along_k
#endif
#endif

// Two values, rounded, in a word; halves of bfloat16 go away from zero.
#if defined(ENGINE_MMA) && ENGINE_MMA != 75 && !EMULATED
#define PACK_float16 "cvt.rn.f16x2.f32 %0, %1, %2;"
#define PACK_bfloat16 "cvt.rn.bf16x2.f32 %0, %1, %2;"
static inline uint pack(float even, float odd)
{
    uint word;
    __asm__(CLPRIM_CAT(PACK_, X) : "=r"(word) : "f"(odd), "f"(even));
    return word;
}
#else
static inline uint pack_float16(float even, float odd)
{
    return as_uint((ushort2)(float_to_float16(even), float_to_float16(odd)));
}
static inline uint pack_bfloat16(float even, float odd)
{
    const ushort2 low = as_ushort2(as_uint(even) + 0x8000u), high = as_ushort2(as_uint(odd) + 0x8000u);
    return as_uint((ushort2)(low.y, high.y));
}
#define pack CLPRIM_CAT(pack_, X)
#endif
static inline void pack_sums(fragment_sums v, uint* words)
{
    float values[FRAGMENT_SUMS];
    CLPRIM_CAT(vstore, FRAGMENT_SUMS)(v, 0, values);
    UNROLL for (int i = 0; i < FRAGMENT_SUMS / 2; ++i)
        words[i] = pack(values[2 * i], values[2 * i + 1]);
}

// What the lane `apart` (a power of two) away has.
#if EMULATED
static inline uint from_lane(sub_group g, uint x, int apart)
{
    barrier(CLK_LOCAL_MEM_FENCE);
    g.exchange[g.lane] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    return g.exchange[g.lane ^ apart];
}
#elif defined(ENGINE_MMA)
static inline uint from_lane(sub_group g, uint x, int apart)
{
    uint y;
    __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(y) : "r"(x), "r"(apart));
    return y;
}
#elif defined(ENGINE_MFMA)
static inline uint from_lane(sub_group g, uint x, int apart)
{
    return (uint)__builtin_amdgcn_ds_bpermute((g.lane ^ apart) * 4, (int)x);
}
#elif !defined(ENGINE_DPAS8) && !defined(ENGINE_DPAS16)
static inline uint from_lane(sub_group g, uint x, int apart)   // apart: 16
{
    return __builtin_amdgcn_permlanex16(x, x, 0x76543210u, 0xfedcba98u, false, false);
}
#endif

// The largest, or the sum, over the lanes that share a line.
static inline float over_lanes(sub_group g, float x, int largest)
{
#ifdef ENGINE_MMA
    UNROLL for (int apart = 1; apart < 4; apart *= 2)
    {
        const float y = as_float(from_lane(g, as_uint(x), apart));
        x = largest ? fmax(x, y) : x + y;
    }
#elif !defined(ENGINE_DPAS8) && !defined(ENGINE_DPAS16)
    const float y = as_float(from_lane(g, as_uint(x), OWN_SIDE));
    x = largest ? fmax(x, y) : x + y;
#endif
    return x;
}

// The same over a lane's elements of each line.
#define OVER_ELEMENTS(name, op)                                                                                       \
    static inline void name(fragment_sums v, float* lines)                                                            \
    {                                                                                                                 \
        const float8 eight = OF_EIGHT(op, v);                                                                         \
        const float4 four = op(eight.lo, eight.hi);                                                                   \
        LAST_LINES(op)                                                                                                \
    }
#ifdef ENGINE_MFMA
#define OF_EIGHT(op, v) op(v.lo, v.hi)
#else
#define OF_EIGHT(op, v) v
#endif
#ifdef ENGINE_MMA
#define LAST_LINES(op)                                                                                                \
    lines[0] = op(four.x, four.y);                                                                                    \
    lines[1] = op(four.z, four.w);
#else
#define LAST_LINES(op)                                                                                                \
    const float2 two = op(four.lo, four.hi);                                                                          \
    lines[0] = op(two.x, two.y);
#endif
#define PLUS(a, b) ((a) + (b))
OVER_ELEMENTS(largest_of, fmax)
OVER_ELEMENTS(sum_of, PLUS)

// What is below the normal numbers adds nothing.
#if EMULATED
#define EXP2 exp2
#elif defined(ENGINE_WMMA) || defined(ENGINE_WMMA12) || defined(ENGINE_MFMA)
#define EXP2 __builtin_amdgcn_exp2f
#elif defined(ENGINE_MMA)
static inline float EXP2(float x)
{
    float y;
    __asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#else
#define EXP2 native_exp2
#endif
static inline fragment_sums exp2_of(fragment_sums v)
{
    float values[FRAGMENT_SUMS];
    CLPRIM_CAT(vstore, FRAGMENT_SUMS)(v, 0, values);
    UNROLL for (int e = 0; e < FRAGMENT_SUMS; ++e)
        values[e] = EXP2(values[e]);
    return CLPRIM_CAT(vload, FRAGMENT_SUMS)(0, values);
}

#ifdef SOFTCAP
#if EMULATED
#define RECIPROCAL(x) (1 / (x))
#elif defined(ENGINE_WMMA) || defined(ENGINE_WMMA12) || defined(ENGINE_MFMA)
#define RECIPROCAL __builtin_amdgcn_rcpf
#elif defined(ENGINE_MMA)
static inline float RECIPROCAL(float x)
{
    float y;
    __asm__("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#else
#define RECIPROCAL native_recip
#endif
// c tanh(s / c) for scores that `scale` brings to the base 2, as is the result.
static inline fragment_sums capped(fragment_sums scores, float scale, float softcap)
{
    const float cap = softcap * LOG2_E, twice = 2 * scale / softcap;
    float values[FRAGMENT_SUMS];
    CLPRIM_CAT(vstore, FRAGMENT_SUMS)(exp2_of(scores * twice), 0, values);
    UNROLL for (int e = 0; e < FRAGMENT_SUMS; ++e)
        values[e] = fma(-2 * cap, RECIPROCAL(1 + values[e]), cap);
    return CLPRIM_CAT(vload, FRAGMENT_SUMS)(0, values);
}
#endif

// A fragment of own lines, the others along k, from packed sums.
#ifdef ENGINE_WMMA
#define PART_WORDS 4
// Every lane has all keys of its query here, of which the scores gave it every second one.
static inline own_fragment own_part(sub_group g, const uint* words)
{
    const int upper = g.lane >= OWN_SIDE;
    uint part[8];
    UNROLL for (int i = 0; i < 4; ++i)
    {
        const uint theirs = from_lane(g, words[i], OWN_SIDE);
#if EMULATED
        const uint even = upper ? theirs : words[i], odd = upper ? words[i] : theirs;
        part[2 * i] = (even & 0xffffu) | odd << 16;
        part[2 * i + 1] = even >> 16 | (odd & 0xffff0000u);
#else   // the same by one instruction each: bytes 0 to 3 are those of this lane
        part[2 * i] = __builtin_amdgcn_perm(theirs, words[i], upper ? 0x01000504u : 0x05040100u);
        part[2 * i + 1] = __builtin_amdgcn_perm(theirs, words[i], upper ? 0x03020706u : 0x07060302u);
#endif
    }
    return vload8(0, part);
}
#else
#define PART_WORDS OWN_WORDS
static inline own_fragment own_part(sub_group g, const uint* words)
{
#if defined(ENGINE_DPAS8) || defined(ENGINE_DPAS16)
    return as_int8(vload8(0, words));
#else
    return CLPRIM_CAT(vload, OWN_WORDS)(0, words);
#endif
}
#endif
