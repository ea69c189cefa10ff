// Attention of 16-bit floats by matrix instructions (gemm/fragments.cl), forward.
//
// A work-group owns BLOCK queries of one head and passes over the keys, SPAN at a time; each of its sub-groups has OWN
// fragments of queries, whose scores, probabilities and sums stay in its registers. Keys and values pass through local
// memory, two steps in turn if they fit: while one is multiplied, the next is on its way from global memory.
//
// Where a fragment's sums lie is where the second product wants one of its factors, if queries are the columns of the
// first product (TURNED: s^T = K Q^T, y^T = V^T p^T; AMD, Intel) or its rows (NVIDIA): probabilities become the other
// factor by rounding alone, and a lane has OWN_LINES queries of each fragment.
//
// Scores are compared and kept as they come out of the products; `scale`, which is not negative and to the base 2, is
// multiplied where they are exponentiated. The host turns the sign of a negative one: `flip` is added to Q's bits.
//
// Options: those of problem.cl and fragments.cl (X: float16 or bfloat16), those of matrix_tiles.cl that say the tile
// (-DFRAGMENTS_M=<OWN>, -DBLOCKS=1), and
//   -DHEAD=64|128             elements of a line, at most
//   -DSPAN=..                 a multiple of 32
//   -DKEPT=0|1                queries stay in registers, or in local memory
//   -DBUFFERS=1|2             steps in local memory
//   -DFEW_REGISTERS=0|1       places in memory are found anew in each step
//   -DALIGNED=0|1             elements of a line are neighbours, lines begin and end at multiples of eight
//   -DWHOLE=0|1               a line has HEAD elements
//   -DOFFSET=uint|long        holds every distance in bytes within a head
//   -DMASKED
#include "kernels/attention/problem.cl"
#include "kernels/gemm/matrix_tiles.cl"
#include "kernels/attention/gpu_matrix_lanes.cl"

#define BLOCK (SUB_GROUPS_M * OWN * OWN_SIDE)
#define PIECES (HEAD / SLAB_K)                       // of a line, which is longer than slabs are deep
#define OWN_SLAB (BLOCK * SLAB_PITCH)                // words of one piece of all queries,
#define KEY_SLAB (SPAN * LINE_WORDS)                 // of a step's keys,
#define VALUE_SLAB (HEAD * LINE_WORDS)               // and of 32 values, whole lines
#define VALUES_AT (PIECES * KEY_SLAB)
#define STEP_WORDS (VALUES_AT + SPAN / SLAB_K * VALUE_SLAB)
#define OWN_WORDS_IN_ALL (PIECES * OWN_SLAB)
#define STEPS_AT (KEPT ? 0 : OWN_WORDS_IN_ALL)
#define RESULT_PITCH (HEAD / 2 + 4)                  // words from query to query, where results gather
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define ATTENTION_WORDS LARGER(STEPS_AT + BUFFERS * STEP_WORDS, LARGER(OWN_WORDS_IN_ALL, BLOCK * RESULT_PITCH))
#define KEY_FRAGMENTS (SPAN / OTHER_SIDE)
#define VALUE_FRAGMENTS (HEAD / OTHER_SIDE)
#define KEY_LOADS (SPAN * HEAD / 8 / ITEMS)          // groups of eight elements that a work-item brings
#define OWN_LOADS (BLOCK * HEAD / 8 / ITEMS)
// Zero, which compilers can't know: places that seem to depend on the step are not kept in registers from step to step.
#define NONE(j0) (FEW_REGISTERS ? (int)((j0) == ~(int)p.keys) : 0)
#define EACH_OWN UNROLL for (int o = 0; o < OWN; ++o)
#define EACH_LINE UNROLL for (int l = 0; l < OWN_LINES; ++l)
#define EACH_KEY UNROLL for (int n = 0; n < KEY_FRAGMENTS; ++n)
#define LOG2_E 1.4426950408889634f
#define LN_2 0.6931471805599453f

// Lines of a head from some line on: `last` is the last one there is.
typedef struct {
    OFFSET row_step, column_step;   // bytes
    int last, size;
} head_lines;

static inline head_lines lines_of(heads_layout layout, long rows, long size)
{
    return (head_lines){(OFFSET)(2 * layout.row), (OFFSET)(2 * layout.column), (int)min(rows, 1L << 30) - 1, (int)size};
}

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

// Which keys and elements a work-item brings of a step: for keys neighbours bring neighbours; values come in pairs of
// lines, of which neighbours bring as slabs like it (matrix_tiles.cl).
#define KEY_LINE(at) ((at) / (HEAD / 8))
#define KEY_ELEMENT(at) ((at) % (HEAD / 8) * 8)
#ifdef TRANSPOSING_LOADS
#define VALUE_LINE(at) ((at) / (HEAD / 8) * 2)
#define VALUE_ELEMENT(at) ((at) % (HEAD / 8) * 8)
#else
#define VALUE_LINE(at) ((at) / (2 * HEAD) * SLAB_K + (at) / 4 % (SLAB_K / 2) * 2)
#define VALUE_ELEMENT(at) (((at) % (2 * HEAD) / 64 * 4 + (at) % 4) * 8)
#endif

// Hides scores of keys from `limit` (of each query) on, in a step of which this is fragment n.
static inline void hide_keys(sub_group g, fragment_sums* scores, int n, const int* limit)
{
    float values[FRAGMENT_SUMS];
    CLPRIM_CAT(vstore, FRAGMENT_SUMS)(*scores, 0, values);
    UNROLL for (int e = 0; e < FRAGMENT_SUMS; ++e)
        values[e] = n * OTHER_SIDE + OTHER_OF(e, g.lane) < limit[LINE_OF(e)] ? values[e] : -INFINITY;
    *scores = CLPRIM_CAT(vload, FRAGMENT_SUMS)(0, values);
}

#ifdef MASKED
// Scores, scaled, with the mask added: `rows` points to each query's row of it, at the step's first key.
static inline void add_mask(sub_group g, fragment_sums* scores, int n, float scale, const __global ushort* mask,
                            const OFFSET* rows, OFFSET step, int last)
{
    float values[FRAGMENT_SUMS];
    CLPRIM_CAT(vstore, FRAGMENT_SUMS)(*scores, 0, values);
    UNROLL for (int e = 0; e < FRAGMENT_SUMS; ++e)
    {
        const OFFSET at = rows[LINE_OF(e)] + min(n * OTHER_SIDE + OTHER_OF(e, g.lane), last) * step;
        const ushort bits = *(const __global ushort*)((const __global uchar*)mask + at);
        values[e] = fma(values[e], scale, LOG2_E * CLPRIM_CAT(X, _to_float)(bits));
    }
    *scores = CLPRIM_CAT(vload, FRAGMENT_SUMS)(0, values);
}
#endif

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) SUB_GROUP_SIZE
void forward(const __global ushort* restrict q, ulong q_offset, const __global ushort* restrict k, ulong k_offset,
             const __global ushort* restrict v, ulong v_offset, const __global ushort* restrict mask, ulong mask_offset,
             __global ushort* restrict result, ulong result_offset, __global float* logsumexp, ulong logsumexp_offset,
             attention_problem p, float scale, uint flip)
{
    __local uint4 memory[(ATTENTION_WORDS + 3) / 4];
    __local uint* slabs = (__local uint*)memory;
    const uint item = get_local_id(0);
    const int team = item / LANES;
    DECLARE_SUB_GROUP
    const int blocks = (int)((p.queries + BLOCK - 1) / BLOCK);
    const int pair = get_group_id(0) / blocks, first_query = (blocks - 1 - (int)get_group_id(0) % blocks) * BLOCK;
    const int b = pair / (int)p.heads, h = pair % (int)p.heads, kv_h = h / (int)(p.heads / p.kv_heads);
    const __global uchar* keys = (const __global uchar*)(k + (k_offset + AT_HEAD(p.k, b, kv_h)));
    const __global uchar* values = (const __global uchar*)(v + (v_offset + AT_HEAD(p.v, b, kv_h)));
    const head_lines key_lines = lines_of(p.k, p.keys, p.size), value_lines = lines_of(p.v, p.keys, p.value_size);
    const int own_line = team * OWN * OWN_SIDE;   // of the block, the sub-group's first query

    // Queries, through local memory.
    {
        const __global uchar* queries = (const __global uchar*)(q + (q_offset + AT_HEAD(p.q, b, h)));
        const head_lines from = lines_of(p.q, p.queries, p.size);
        UNROLL for (int n = 0; n < OWN_LOADS; ++n)
        {
            const int at = item + n * ITEMS, line = KEY_LINE(at), e = KEY_ELEMENT(at);
            place_own_along_k(slabs + e / SLAB_K * OWN_SLAB + own_place(1, BLOCK, line, e % SLAB_K),
                              fetch_eight(queries, from, first_query + line, e) ^ flip);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int own_begin = UNIFORM(begin_own(g, 1, BLOCK, own_line));
#if KEPT
    own_fragment query[OWN][HEAD / FRAGMENT_K];
    EACH_OWN UNROLL for (int e = 0; e < HEAD; e += FRAGMENT_K)
        query[o][e / FRAGMENT_K] = load_own(g, slabs, own_begin + e / SLAB_K * OWN_SLAB, 1, BLOCK, o, e % SLAB_K);
    barrier(CLK_LOCAL_MEM_FENCE);
#define QUERY(o, e) query[o][(e) / FRAGMENT_K]
#else
#define QUERY(o, e) load_own(g, slabs, own_begin + none + (e) / SLAB_K * OWN_SLAB, 1, BLOCK, o, (e) % SLAB_K)
#endif

    fragment_sums sums[OWN][VALUE_FRAGMENTS];
    float best[OWN][OWN_LINES], total[OWN][OWN_LINES];   // of scores as they come; of probabilities, a lane's own
    int limit[OWN][OWN_LINES];                           // the first key that a query does not see
    EACH_OWN {
        UNROLL for (int d = 0; d < VALUE_FRAGMENTS; ++d)
            sums[o][d] = (fragment_sums)0;
        EACH_LINE {
            const long query_at = first_query + own_line + o * OWN_SIDE + OWN_OF(l * 2, g.lane);
            best[o][l] = -INFINITY;
            total[o][l] = 0;
            limit[o][l] = (int)max(min(p.causal ? query_at + p.causal_offset + 1 : p.keys, p.keys), 0L);
        }
    }
#ifdef MASKED
    const __global ushort* mask_head = mask + (mask_offset + AT_HEAD(p.mask, b, h));
    const OFFSET mask_step = (OFFSET)(2 * p.mask.column);
    OFFSET mask_rows[OWN][OWN_LINES];
    EACH_OWN EACH_LINE mask_rows[o][l] =
        (OFFSET)(2 * p.mask.row) *
        (OFFSET)min(first_query + own_line + o * OWN_SIDE + OWN_OF(l * 2, g.lane), (int)p.queries - 1);
#define FACTOR 1.0f
#else
#define FACTOR scale
#endif
    const int seen_by_all = (int)max(min(p.causal ? first_query + p.causal_offset + 1 : p.keys, p.keys), 0L);
    const int visible = (int)visible_keys(&p, min(p.queries, (long)first_query + BLOCK));

    uint4 next_keys[KEY_LOADS], next_values[KEY_LOADS];
#define FETCH_STEP(item, j)                                                                                           \
    UNROLL for (int n = 0; n < KEY_LOADS; ++n)                                                                        \
    {                                                                                                                 \
        const int at = (item) + n * ITEMS, pair_at = (item) + n / 2 * ITEMS;                                          \
        next_keys[n] = fetch_eight(keys, key_lines, (j) + KEY_LINE(at), KEY_ELEMENT(at));                             \
        next_values[n] = fetch_eight(values, value_lines, (j) + VALUE_LINE(pair_at) + n % 2, VALUE_ELEMENT(pair_at)); \
    }
    FETCH_STEP(item, 0)
    const int key_begin = UNIFORM(begin_other(g, 1, SPAN, 0)), value_begin = UNIFORM(begin_other(g, 0, HEAD, 0));
    const int both_steps = 2 * STEPS_AT + (BUFFERS - 1) * STEP_WORDS;
    for (int j0 = 0, step_at = STEPS_AT; j0 < visible; j0 += SPAN, step_at = both_steps - step_at) {
#if BUFFERS == 1
        barrier(CLK_LOCAL_MEM_FENCE);   // all have multiplied the last step
#endif
        const int none = NONE(j0), mine = item + none, now = step_at + none;
        UNROLL for (int n = 0; n < KEY_LOADS; ++n)
        {
            const int at = mine + n * ITEMS, e = KEY_ELEMENT(at);
            place_other_along_k(slabs + now + e / SLAB_K * KEY_SLAB + other_place(1, SPAN, KEY_LINE(at), e % SLAB_K),
                                next_keys[n]);
        }
        UNROLL for (int n = 0; n < KEY_LOADS; n += 2)
        {
            const int at = mine + n / 2 * ITEMS, line = VALUE_LINE(at);
            const int over = j0 + line - value_lines.last;   // what lies beyond the last key is 0
            place_other_along_lines(slabs + now + VALUES_AT + line / SLAB_K * VALUE_SLAB +
                                        other_place(0, HEAD, VALUE_ELEMENT(at), line % SLAB_K),
                                    HEAD, over > 0 ? (uint4)0 : next_values[n],
                                    over >= 0 ? (uint4)0 : next_values[n + 1]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (j0 + SPAN < visible)
            FETCH_STEP(mine, j0 + SPAN)

        fragment_sums scores[OWN][KEY_FRAGMENTS];
        uint words[OWN][KEY_FRAGMENTS * FRAGMENT_SUMS / 2];   // probabilities, rounded
        EACH_OWN EACH_KEY scores[o][n] = (fragment_sums)0;
        UNROLL for (int e = 0; e < HEAD; e += FRAGMENT_K)
        {
            own_fragment own[OWN];
            EACH_OWN own[o] = QUERY(o, e);
            EACH_KEY {
                const other_fragment other = load_other(g, slabs, UNIFORM(now + key_begin) + e / SLAB_K * KEY_SLAB, 1,
                                                        SPAN, n, e % SLAB_K);
                EACH_OWN scores[o][n] = multiply(g, other, own[o], scores[o][n]);
            }
        }
        EACH_OWN {
#ifdef MASKED
            EACH_KEY add_mask(g, &scores[o][n], n, scale, mask_head + (long)j0 * p.mask.column, mask_rows[o], mask_step,
                              (int)p.keys - 1 - j0);
#endif
            if (j0 + SPAN > seen_by_all) {
                int left[OWN_LINES];
                EACH_LINE left[l] = limit[o][l] - j0;
                EACH_KEY hide_keys(g, &scores[o][n], n, left);
            }
            fragment_sums most = scores[o][0];
            UNROLL for (int n = 1; n < KEY_FRAGMENTS; ++n)
                most = fmax(most, scores[o][n]);
            float largest[OWN_LINES], reference[OWN_LINES], again[OWN_LINES];
            int grew = 0;
            largest_of(most, largest);
            EACH_LINE {
                largest[l] = fmax(best[o][l], over_lanes(g, largest[l], 1));
                grew |= largest[l] > best[o][l];
                reference[l] = largest[l] == -INFINITY ? 0.0f : largest[l] * FACTOR;
                again[l] = EXP2(best[o][l] * FACTOR - reference[l]);
                best[o][l] = largest[l];
            }
            fragment_sums added = (fragment_sums)0;
            EACH_KEY {
                scores[o][n] = exp2_of(fma(scores[o][n], (fragment_sums)(FACTOR), -EACH_ELEMENT(reference)));
                added = n ? added + scores[o][n] : scores[o][n];
                pack_sums(scores[o][n], words[o] + n * (FRAGMENT_SUMS / 2));
            }
            float sum[OWN_LINES];
            sum_of(added, sum);
            EACH_LINE total[o][l] = fma(total[o][l], again[l], sum[l]);
            if (grew) {   // seldom, after the first steps
                const fragment_sums factors = EACH_ELEMENT(again);
                UNROLL for (int d = 0; d < VALUE_FRAGMENTS; ++d)
                    sums[o][d] *= factors;
            }
        }
        UNROLL for (int step = 0; step < SPAN; step += FRAGMENT_K)
        {
            own_fragment own[OWN];
            EACH_OWN own[o] = own_part(g, words[o] + step / FRAGMENT_K * PART_WORDS);
            UNROLL for (int d = 0; d < VALUE_FRAGMENTS; ++d)
            {
                const other_fragment other =
                    load_other(g, slabs, UNIFORM(now + VALUES_AT + value_begin) + step / SLAB_K * VALUE_SLAB, 0, HEAD,
                               d, step % SLAB_K);
                EACH_OWN sums[o][d] = multiply(g, other, own[o], sums[o][d]);
            }
        }
    }

    // Results, through local memory as well, so that what is written together lies together.
    barrier(CLK_LOCAL_MEM_FENCE);
    __local ushort* const gathered = (__local ushort*)memory;
    EACH_OWN {
        float inverse[OWN_LINES];
        EACH_LINE {
            const float sum = over_lanes(g, total[o][l], 0);
            inverse[l] = sum == 0 ? 0.0f : 1 / sum;
            const long query_at = first_query + own_line + o * OWN_SIDE + OWN_OF(l * 2, g.lane);
            if (logsumexp && FIRST_OF_LINE(g.lane) && query_at < p.queries)
                logsumexp[logsumexp_offset + pair * p.queries + query_at] = (best[o][l] * FACTOR + log2(sum)) * LN_2;
        }
        const fragment_sums factors = EACH_ELEMENT(inverse);
        UNROLL for (int d = 0; d < VALUE_FRAGMENTS; ++d)
        {
            float finished[FRAGMENT_SUMS];
            CLPRIM_CAT(vstore, FRAGMENT_SUMS)(sums[o][d] * factors, 0, finished);
            UNROLL for (int e = 0; e < FRAGMENT_SUMS; ++e)
                gathered[(own_line + o * OWN_SIDE + OWN_OF(e, g.lane)) * (2 * RESULT_PITCH) + d * OTHER_SIDE +
                         OTHER_OF(e, g.lane)] = CLPRIM_CAT(float_to_, X)(finished[e]);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    result += result_offset + AT_HEAD(p.y, b, h) + first_query * p.y.row;
    for (int at = item; at < BLOCK * HEAD / 8; at += ITEMS) {
        const int line = KEY_LINE(at), e = KEY_ELEMENT(at);
        if (first_query + line >= p.queries || e >= p.value_size)
            continue;
        const __local ushort* from = gathered + line * (2 * RESULT_PITCH) + e;
        __global ushort* to = result + line * p.y.row + e * p.y.column;
#if ALIGNED
        *(__global uint4*)to = *(const __local uint4*)from;
#else
        for (int i = 0; i < min(8, (int)p.value_size - e); ++i)
            to[i * p.y.column] = from[i];
#endif
    }
}
