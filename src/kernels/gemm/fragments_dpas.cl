// Intel's dpas (cl_intel_subgroup_matrix_multiply_accumulate): 8 rows, as many columns as a sub-group has lanes, 16 k.
// Element r of a lane's sums is row r of column `lane`. A's rows are spread over the lanes, one or two k for each; a
// lane holds its column of B as pairs along k. Slabs keep fragments one after the other as block reads give them; B
// that comes along k stays so, and each lane reads its own column.
#ifdef ENGINE_DPAS16
#define LANES 16
#define A_WORDS 4
typedef short8 fragment_a;
#define A_LANE(i, k) (k)
#define A_HALF(i, k) (i)
#else
#define LANES 8
#define A_WORDS 8
typedef int8 fragment_a;
#define A_LANE(i, k) ((k) / 2)
#define A_HALF(i, k) ((i) * 2 + (k) % 2)
#endif
#define B_WORDS 8
#define FRAGMENT_M 8
#define FRAGMENT_N LANES
#define FRAGMENT_K 16
#define FRAGMENT_SUMS 8
typedef int8 fragment_b;
typedef SUM_VECTOR(8) fragment_sums;
#define B_LANE(k, j) (j)
#define B_HALF(k, j) (k)
#define FRAGMENT_ROW(e, lane) (e)
#define FRAGMENT_COLUMN(e, lane) (lane)

// Words of a slab: fragments of A hold [row][k], those of B [pair along k][column]. In sub-groups of 8 A that comes
// along rows stays so, [pair along k][row]: each lane reads its own pair.
#ifdef ENGINE_DPAS16
#define A_BY_PAIRS(along_k) 0
#else
#define A_BY_PAIRS(along_k) (!(along_k))
#endif
static inline int a_place(int along_k, int lines, int line, int k)
{
    return line / 8 * (SLAB_K / 2 * 8) + k / 16 * 64 +
           (A_BY_PAIRS(along_k) ? line % 8 + k % 16 / 2 * 8 : line % 8 * 8 + k % 16 / 2);
}
static inline int b_place(int along_k, int lines, int line, int k)
{
    return along_k ? line * SLAB_PITCH + k / 2 : line / LANES * (SLAB_K / 2 * LANES) + k / 2 * LANES + line % LANES;
}

static inline void place_a_along_k(__local uint* to, uint4 v) { *(__local uint4*)to = v; }
#define place_b_along_k place_a_along_k
static inline void place_b_along_lines(__local uint* to, int lines, uint4 v, uint4 w)
{
    const uint8 pairs = pairs_of_lines(v, w);
    ((__local uint4*)to)[0] = pairs.lo;
    ((__local uint4*)to)[1] = pairs.hi;
}
static inline void place_a_along_lines(__local uint* to, int lines, uint4 v, uint4 w)
{
    if (A_BY_PAIRS(0))
        place_b_along_lines(to, lines, v, w);
    else
        place_words(to, 8, pairs_of_lines(v, w));
}

#define A_STEP(i, k) ((i) * (SLAB_K / 2 * 8) + (k) / 16 * 64)   // words to other fragments
#define B_STEP(j, k) ((j) * (SLAB_K / 2 * LANES) + (k) / 2 * LANES)
static inline int begin_a(sub_group g, int along_k, int lines, int line)
{
    return a_place(along_k, lines, line, 0);
}
static inline int begin_b(sub_group g, int along_k, int lines, int line)
{
    return b_place(along_k, lines, line, 0);
}

// Eight words of each lane as one message: numbers of 64 bits come four at a time, as those of 32 bits do.
static inline int8 load_words(const __local uint* from) { return as_int8(vload4(0, (const __local ulong*)from)); }

static inline fragment_b load_column(sub_group g, const __local uint* slab, int begin, int j, int k)
{
    const __local uint* column = slab + begin + g.lane * SLAB_PITCH;
    return load_words(column + j * LANES * SLAB_PITCH + k / 2);
}

#if !EMULATED
// The same in all lanes, which the compiler cannot see: an address to which it adds the fragments' places, rather than
// keeping one for each of them.
#define UNIFORM(x) sub_group_broadcast(x, 0)
#endif

#if EMULATED
static inline fragment_a load_a(sub_group g, const __local uint* slab, int begin, int along_k, int lines, int i, int k)
{
    const __local uint* from = slab + begin + A_STEP(i, k);
#ifdef ENGINE_DPAS16
    const __local ushort* p = (const __local ushort*)from + g.lane;
    return as_short8((ushort8)(p[0], p[16], p[32], p[48], p[64], p[80], p[96], p[112]));
#else
    if (A_BY_PAIRS(along_k))
        return load_words(from + 8 * g.lane);
    from += g.lane;
    return (int8)(from[0], from[8], from[16], from[24], from[32], from[40], from[48], from[56]);
#endif
}
static inline fragment_b load_b(sub_group g, const __local uint* slab, int begin, int along_k, int lines, int j, int k)
{
    if (along_k)
        return load_column(g, slab, begin, j, k);
    const __local uint* from = slab + begin + B_STEP(j, k) + g.lane;
    return (int8)(from[0], from[LANES], from[2 * LANES], from[3 * LANES], from[4 * LANES], from[5 * LANES],
                  from[6 * LANES], from[7 * LANES]);
}
#else
static inline fragment_a load_a(sub_group g, const __local uint* slab, int begin, int along_k, int lines, int i, int k)
{
    const __local uint* from = slab + begin + A_STEP(i, k);
#ifdef ENGINE_DPAS16
    return as_short8(intel_sub_group_block_read_us8((const __local ushort*)from));
#else
    return A_BY_PAIRS(along_k) ? load_words(from + 8 * g.lane) : as_int8(intel_sub_group_block_read8(from));
#endif
}
static inline fragment_b load_b(sub_group g, const __local uint* slab, int begin, int along_k, int lines, int j, int k)
{
    return along_k ? load_column(g, slab, begin, j, k)
                   : as_int8(intel_sub_group_block_read8(slab + begin + B_STEP(j, k)));
}
#define DPAS_float16 intel_sub_group_f16_f16_matrix_mad_k16
#define DPAS_bfloat16 intel_sub_group_bf16_bf16_matrix_mad_k16
#if A_UNSIGNED && B_UNSIGNED
#define DPAS_int8 intel_sub_group_u8_u8_matrix_mad_k32
#elif A_UNSIGNED
#define DPAS_int8 intel_sub_group_u8_i8_matrix_mad_k32
#elif B_UNSIGNED
#define DPAS_int8 intel_sub_group_i8_u8_matrix_mad_k32
#else
#define DPAS_int8 intel_sub_group_i8_i8_matrix_mad_k32
#endif
#if !A_UNSIGNED
#define DPAS_A(a) a
#elif defined(ENGINE_DPAS16)
#define DPAS_A(a) as_ushort8(a)
#else
#define DPAS_A(a) as_uint8(a)
#endif
#if B_UNSIGNED
#define DPAS_B(b) as_uint8(b)
#else
#define DPAS_B(b) b
#endif
static inline fragment_sums multiply_add(sub_group g, fragment_a a, fragment_b b, fragment_sums sums)
{
    return CLPRIM_CAT(DPAS_, X)(DPAS_A(a), DPAS_B(b), sums);
}
#endif
