// What attention's kernels of matrix instructions share: a work-group owns BLOCK lines of one head (queries, or keys),
// of which each sub-group has OWN fragments, and passes over the others, SPAN at a time:
//
//     scores    own lines times others, summed over a line's elements: slabs of the others `along` their elements
//     sums      scores, rounded, times others, summed over these: slabs of the others `turned`
//
// Options: those of problem.cl and fragments.cl (X: float16 or bfloat16), those of matrix_tiles.cl that say the tile
// (-DFRAGMENTS_M=<OWN>, -DBLOCKS=1), and
//   -DHEAD=64|128|256         elements of a line, at most
//   -DVALUES=..               of those that sums are of, as many as HEAD unless it is given
//   -DSPAN=..                 a multiple of 32, of 16 where slabs hold whole lines, at most HEAD
//   -DALIGNED=0|1             elements of a line are neighbours, lines begin and end at multiples of eight
//   -DWHOLE=0|1               a line has HEAD elements
//   -DOFFSET=uint|long        holds every distance in bytes within a head
//   -DMASKED
#include "kernels/attention/problem.cl"
#ifdef ENGINE_MMA
#define SLAB_K HEAD   // ldmatrix transposes: slabs of whole lines are read both ways
#endif
#ifdef ENGINE_DPAS8
#define B_AFTER_B 1   // of matrix_tiles.cl
#endif
#include "kernels/gemm/matrix_tiles.cl"
#include "kernels/attention/gpu_matrix_lanes.cl"
#ifdef DROPOUT
#include "kernels/attention/dropout.cl"
#endif

#ifndef VALUES
#define VALUES HEAD
#endif
#define BLOCK (SUB_GROUPS_M * OWN * OWN_SIDE)
#define PIECES (HEAD / SLAB_K)                       // of a line, which is longer than slabs are deep
#define OWN_SLAB (BLOCK * OWN_LINE_WORDS)            // words of one piece of own lines,
#define OWN_WORDS_IN_ALL (PIECES * OWN_SLAB)         // of all,
#define ALONG_WORDS (PIECES * SPAN * LINE_WORDS)     // of a step's others, whole lines,
#if defined(TRANSPOSING_LOADS) && VALUES == HEAD
#define TURNED_WORDS ALONG_WORDS
#elif defined(TRANSPOSING_LOADS)
#define TURNED_WORDS (SPAN * LINES_PITCH(VALUES))
#else
#define TURNED_WORDS (SPAN / SLAB_K * VALUES * LINE_WORDS)   // and of the same turned
#endif
#define RESULT_PITCH (VALUES / 2 + 4)                // words from line to line, where results gather
#define RESULT_WORDS (BLOCK * RESULT_PITCH)
#define HEAD_FRAGMENTS (VALUES / OTHER_SIDE)
#define STEP_PAIRS (SPAN * HEAD / 16 / ITEMS)        // pairs of groups of eight elements that a work-item brings
#define OWN_LOADS (BLOCK * HEAD / 8 / ITEMS)
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define EACH_OWN UNROLL for (int o = 0; o < OWN; ++o)
#define EACH_LINE UNROLL for (int l = 0; l < OWN_LINES; ++l)
#define EACH_HEAD_FRAGMENT UNROLL for (int d = 0; d < HEAD_FRAGMENTS; ++d)
// Compilers would load for products to come until registers are spilled: turns of a loop over parts of a step stay
// apart, and of AMD's nothing is moved across IN_ORDER.
#if EMULATED || defined(ENGINE_DPAS8) || defined(ENGINE_DPAS16)
#define UNROLL_PARTS UNROLL
#else
#define UNROLL_PARTS _Pragma("unroll 1")
#endif
#if EMULATED || !(defined(ENGINE_WMMA) || defined(ENGINE_WMMA12) || defined(ENGINE_MFMA))
#define IN_ORDER
#else
#define IN_ORDER __builtin_amdgcn_sched_barrier(0);
#endif
#define WORK_GROUP __kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) SUB_GROUP_SIZE

// Lines of a head from some line on: `last` is the last one there is.
typedef struct {
    OFFSET row_step, column_step;   // bytes
    int last, size;
} head_lines;

static inline head_lines lines_of(heads_layout layout, long rows, long size)
{
    return (head_lines){(OFFSET)(2 * layout.row), (OFFSET)(2 * layout.column), (int)min(rows, 1L << 30) - 1, (int)size};
}

// Single elements of many lines at once would take registers that sums need.
#if ALIGNED
#define UNROLL_ALIGNED UNROLL
#else
#define UNROLL_ALIGNED _Pragma("unroll 1")
#endif

// Eight elements of a line, from a multiple of eight on; zeros beyond its end. Lines beyond the last repeat it.
static inline uint4 fetch_eight(const __global uchar* head, head_lines from, int line, int e)
{
    const OFFSET row = min(line, from.last) * from.row_step;
#if ALIGNED && WHOLE
    return *(const __global uint4*)(head + (row + 2 * e));
#elif ALIGNED
    const uint4 v = *(const __global uint4*)(head + (row + (e < from.size ? 2 * e : 0)));
    return e < from.size ? v : (uint4)0;
#else
    uint words[4];
    UNROLL for (int i = 0; i < 8; ++i)
    {
        const int inside = e + i < from.size;
        const uint bits = *(const __global ushort*)(head + (row + (inside ? e + i : 0) * from.column_step));
        words[i / 2] = i % 2 ? words[i / 2] | (inside ? bits << 16 : 0) : inside ? bits : 0;
    }
    return (uint4)(words[0], words[1], words[2], words[3]);
#endif
}

// The line and its element that group `at` of eight begins with: neighbours bring neighbours; and of groups that come
// as pairs of lines, of which neighbours bring as slabs like it (matrix_tiles.cl).
#define GROUP_LINE(at) ((at) / (HEAD / 8))
#define GROUP_ELEMENT(at) ((at) % (HEAD / 8) * 8)
#define VALUE_GROUP_LINE(at) ((at) / (VALUES / 8))
#define VALUE_GROUP_ELEMENT(at) ((at) % (VALUES / 8) * 8)
#ifdef TRANSPOSING_LOADS
#define PAIR_LINE(at) ((at) / (VALUES / 8) * 2)
#define PAIR_ELEMENT(at) ((at) % (VALUES / 8) * 8)
#else
#define PAIR_LINE(at) ((at) / (2 * VALUES) * SLAB_K + (at) / 4 % (SLAB_K / 2) * 2)
#define PAIR_ELEMENT(at) (((at) % (2 * VALUES) / 64 * 4 + (at) % 4) * 8)
#endif

// Own lines from `first` on into local memory.
static inline void place_own_lines(const __global uchar* head, head_lines from, int first, uint flip, __local uint* to)
{
    UNROLL_ALIGNED for (int n = 0; n < OWN_LOADS; ++n)
    {
        const int at = get_local_id(0) + n * ITEMS, line = GROUP_LINE(at), e = GROUP_ELEMENT(at);
        place_own(to + e / SLAB_K * OWN_SLAB + own_place(OWN_ALONG_K, BLOCK, line, e % SLAB_K),
                  fetch_eight(head, from, first + line, e) ^ flip);
    }
}
#define LOAD_OWN(begin, o, e)                                                                                         \
    load_own(g, slabs, (begin) + (e) / SLAB_K * OWN_SLAB, OWN_ALONG_K, BLOCK, o, (e) % SLAB_K)

// Where eight elements of one of the others lie in a slab along elements, or those of a pair of lines in a turned one;
// fragments of these: number n of the others at element e, number d of elements at the others from k on.
static inline int along_place(int line, int e)
{
    return e / SLAB_K * (SPAN * LINE_WORDS) + other_place(1, SPAN, line, e % SLAB_K);
}
static inline int turned_place(int line, int e)
{
    return line / SLAB_K * (VALUES * LINE_WORDS) + other_place(0, VALUES, e, line % SLAB_K);
}
#define LOAD_ALONG(at, n, e)                                                                                          \
    load_other(g, slabs, (at) + (e) / SLAB_K * (SPAN * LINE_WORDS), 1, SPAN, n, (e) % SLAB_K)
#define LOAD_TURNED(at, d, k)                                                                                         \
    load_other(g, slabs, (at) + (k) / SLAB_K * (VALUES * LINE_WORDS), 0, VALUES, d, (k) % SLAB_K)

// scores[o][n] = own lines, of which OWN_AT(o, e) gives fragments, times `count` fragments of the others from number
// `first` on of the slab at `at`.
#define MULTIPLY_LINES(scores, OWN_AT, at, first, count)                                                              \
    IN_ORDER                                                                                                          \
    EACH_OWN UNROLL for (int n = 0; n < (count); ++n) scores[o][n] = (fragment_sums)0;                                \
    UNROLL for (int e = 0; e < HEAD; e += FRAGMENT_K)                                                                 \
    {                                                                                                                 \
        own_fragment own[OWN];                                                                                        \
        EACH_OWN own[o] = OWN_AT(o, e);                                                                               \
        UNROLL for (int n = 0; n < (count); ++n)                                                                      \
        {                                                                                                             \
            const other_fragment other = LOAD_ALONG(at, (first) + n, e);                                              \
            EACH_OWN scores[o][n] = multiply(g, other, own[o], scores[o][n]);                                         \
        }                                                                                                             \
    }

// sums[o] += `depth` packed scores of own lines times the others from `first` on of the turned slab at `at`.
#define ADD_LINES(sums, words, at, first, depth)                                                                      \
    IN_ORDER                                                                                                          \
    UNROLL for (int step = 0; step < (depth); step += FRAGMENT_K)                                                     \
    {                                                                                                                 \
        own_fragment own[OWN];                                                                                        \
        EACH_OWN own[o] = own_part(g, words[o] + step / FRAGMENT_K * PART_WORDS);                                     \
        EACH_HEAD_FRAGMENT                                                                                            \
        {                                                                                                             \
            const other_fragment other = LOAD_TURNED(at, d, (first) + step);                                          \
            EACH_OWN sums[o][d] = multiply(g, other, own[o], sums[o][d]);                                             \
        }                                                                                                             \
    }

// In fragment n of a step's scores those of others from `limit` of each own line on become `hidden`, or those before.
static inline void hide(sub_group g, fragment_sums* scores, int n, const int* limit, int before, float hidden)
{
    float values[FRAGMENT_SUMS];
    CLPRIM_CAT(vstore, FRAGMENT_SUMS)(*scores, 0, values);
    UNROLL for (int e = 0; e < FRAGMENT_SUMS; ++e)
    {
        const int at = n * OTHER_SIDE + OTHER_OF(e, g.lane);
        values[e] = (before ? at >= limit[LINE_OF(e)] : at < limit[LINE_OF(e)]) ? values[e] : hidden;
    }
    *scores = CLPRIM_CAT(vload, FRAGMENT_SUMS)(0, values);
}

#ifdef MASKED
// Scores, scaled, with the mask added, which lies `own` bytes from `mask` for each own line and `step` bytes further
// for each of the others; those beyond the last repeat it.
static inline void add_mask(sub_group g, fragment_sums* scores, int n, float scale, const __global uchar* mask,
                            const OFFSET* own, OFFSET step, int last)
{
    float values[FRAGMENT_SUMS];
    CLPRIM_CAT(vstore, FRAGMENT_SUMS)(*scores, 0, values);
    UNROLL for (int e = 0; e < FRAGMENT_SUMS; ++e)
    {
        const OFFSET at = own[LINE_OF(e)] + min(n * OTHER_SIDE + OTHER_OF(e, g.lane), last) * step;
        values[e] = fma(values[e], scale,
                        mask_to_base_2(CLPRIM_CAT(X, _to_float)(*(const __global ushort*)(mask + at))));
    }
    *scores = CLPRIM_CAT(vload, FRAGMENT_SUMS)(0, values);
}
#endif

#ifdef DROPOUT
// Which probabilities of a step are kept, from row `row` (dropout.cl) and key j on: a byte for four keys of a query;
// neighbours are what a lane asks for at once, the queries of its own key or the keys of its own query.
#if OWN_KEYS
#define KEPT_AT_PLACE(query, key) ((key) / 4 * SPAN + (query))
#define KEPT_QUERY(at) ((at) % SPAN)
#define KEPT_KEY(at) ((at) / SPAN * 4)
#else
#define KEPT_AT_PLACE(query, key) ((query) * (SPAN / 4) + (key) / 4)
#define KEPT_QUERY(at) ((at) / (SPAN / 4))
#define KEPT_KEY(at) ((at) % (SPAN / 4) * 4)
#endif
#define DROPOUT_WORDS (BLOCK * SPAN / 16)
static inline void place_kept(const attention_problem* p, const attention_dropout* dropout, ulong row, long j,
                              __local uchar* to)
{
    for (int at = get_local_id(0); at < BLOCK * SPAN / 4; at += ITEMS) {
        const uint4 bits = dropout_bits(p, dropout, row + KEPT_QUERY(at), j + KEPT_KEY(at));
        const uint most = dropout->threshold;
        to[at] = (uchar)((bits.x < most) | (bits.y < most) << 1 | (bits.z < most) << 2 | (bits.w < most) << 3);
    }
}

// A bit for each value of fragment n of a step that is kept, whose own lines begin with number `own` of the block: one
// register for what is asked for twice.
static inline uint kept_bits(sub_group g, int own, int n, const __local uchar* kept)
{
#if OWN_KEYS && (defined(ENGINE_DPAS8) || defined(ENGINE_DPAS16))
    // A lane's eight values are those of eight queries: a byte for each, of which one bit is its key's.
    const int mine = own + OWN_OF(0, g.lane);
    const uint2 bytes = *(const __local uint2*)(kept + KEPT_AT_PLACE(n * OTHER_SIDE, mine)) >> (uint)(mine % 4);
    const uint2 four = (bytes & 0x01010101u) * 0x01020408u >> 24;   // the sum of four bits, each moved to its place
    return four.x | four.y << 4;
#else
    uint bits = 0;
    UNROLL for (int e = 0; e < FRAGMENT_SUMS; ++e)
    {
        const int mine = own + OWN_OF(e, g.lane), other = n * OTHER_SIDE + OTHER_OF(e, g.lane);
        const int query = OWN_KEYS ? other : mine, key = OWN_KEYS ? mine : other;
        bits |= (kept[KEPT_AT_PLACE(query, key)] >> key % 4 & 1u) << e;
    }
    return bits;
#endif
}

static inline fragment_sums kept_of(fragment_sums v, uint bits)
{
    float values[FRAGMENT_SUMS];
    CLPRIM_CAT(vstore, FRAGMENT_SUMS)(v, 0, values);
    UNROLL for (int e = 0; e < FRAGMENT_SUMS; ++e) values[e] = bits >> e & 1 ? values[e] : 0.0f;
    return CLPRIM_CAT(vload, FRAGMENT_SUMS)(0, values);
}
#else
#define DROPOUT_WORDS 0
#endif

// Sums of a fragment of own lines from number `own` of the block on, times a factor for each line, rounded, to local
// memory, so that what is written together lies together.
static inline void gather_sums(sub_group g, const fragment_sums* sums, const float* factors, int own, __local uint* to)
{
    __local ushort* const gathered = (__local ushort*)to;
    const fragment_sums by_line = EACH_ELEMENT(factors);
    EACH_HEAD_FRAGMENT {
        float finished[FRAGMENT_SUMS];
        CLPRIM_CAT(vstore, FRAGMENT_SUMS)(sums[d] * by_line, 0, finished);
        UNROLL for (int e = 0; e < FRAGMENT_SUMS; ++e)
            gathered[(own + OWN_OF(e, g.lane)) * (2 * RESULT_PITCH) + d * OTHER_SIDE + OTHER_OF(e, g.lane)] =
                CLPRIM_CAT(float_to_, X)(finished[e]);
    }
}

// The block's lines, of which there are `count`, to a tensor.
static inline void write_lines(const __local uint* from, __global ushort* to, heads_layout layout, long count,
                               long size)
{
    const __local ushort* const gathered = (const __local ushort*)from;
    for (int at = get_local_id(0); at < BLOCK * VALUES / 8; at += ITEMS) {
        const int line = VALUE_GROUP_LINE(at), e = VALUE_GROUP_ELEMENT(at);
        if (line >= count || e >= size)
            continue;
        const __local ushort* eight = gathered + line * (2 * RESULT_PITCH) + e;
        __global ushort* first = to + line * layout.row + e * layout.column;
#if ALIGNED
        *(__global uint4*)first = *(const __local uint4*)eight;
#else
        for (int i = 0; i < min(8, (int)size - e); ++i)
            first[i * layout.column] = eight[i];
#endif
    }
}
