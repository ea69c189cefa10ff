// Attention of 16-bit floats by matrix instructions (gemm/fragments.cl), forward.
//
// A work-group owns BLOCK queries of one head and passes over the keys, SPAN at a time; each of its sub-groups has OWN
// fragments of queries, whose scores, probabilities and sums stay in its registers. Keys and values pass through local
// memory, two steps in turn if they fit: while one is multiplied, the next is on its way from global memory.
//
// Where a fragment's sums lie is where the second product wants one of its factors, if queries are the columns of the
// first product (s^T = K Q^T, y^T = V^T p^T; AMD, Intel) or its rows (NVIDIA): probabilities become the other
// factor by rounding alone, and a lane has OWN_LINES queries of each fragment.
//
// Scores are compared and kept as they come out of the products; `scale`, which is not negative and to the base 2, is
// multiplied where they are exponentiated, unless a mask or a softcap wants them scaled. The host turns the sign of a
// negative one: `flip` is added to Q's bits.
//
// Of heads whose values' sums would not fit into registers a work-group computes VALUES elements, one of several parts.
//
// Options: those of gpu_matrix_lines.cl, and
//   -DKEPT=0|1                queries stay in registers, or in local memory
//   -DBUFFERS=1|2             steps in local memory
//   -DAHEAD=0|1               the next step is on its way while one is multiplied
//   -DFEW_REGISTERS=0|1       places in memory are found anew in each step
#define OWN_KEYS 0
#define KEEP_FINITE
#include "kernels/attention/gpu_matrix_lines.cl"

#define VALUES_AT ALONG_WORDS                        // of a step, behind its keys,
#define KEPT_AT (VALUES_AT + TURNED_WORDS)           // and what dropout keeps
#define STEP_WORDS (KEPT_AT + DROPOUT_WORDS)
#define STEPS_AT (KEPT ? 0 : OWN_WORDS_IN_ALL)
#define ATTENTION_WORDS LARGER(STEPS_AT + BUFFERS * STEP_WORDS, LARGER(OWN_WORDS_IN_ALL, RESULT_WORDS))
#define KEY_FRAGMENTS (SPAN / OTHER_SIDE)
#define KEY_LOADS (2 * STEP_PAIRS)
#define VALUE_LOADS (2 * (SPAN * VALUES / 16 / ITEMS))
// Zero, which compilers can't know: places that seem to depend on the step are not kept in registers from step to step.
#define NONE(j0) (FEW_REGISTERS ? (int)((j0) == ~(int)p.keys) : 0)
// What lies beyond the last key is 0.
#define PLACE_VALUES(at, v, w)                                                                                        \
    {                                                                                                                 \
        const int line = PAIR_LINE(at), over = j0 + line - value_lines.last;                                          \
        place_other_along_lines(slabs + now + VALUES_AT + turned_place(line, PAIR_ELEMENT(at)), VALUES,               \
                                over > 0 ? (uint4)0 : v, over >= 0 ? (uint4)0 : w);                                   \
    }
// Of a step that is not brought ahead so many groups of eight are on their way at a time.
#define BROUGHT (ALIGNED ? 4 : 2)
#define EACH_BROUGHT(step) UNROLL for (int n = 0; n < BROUGHT; n += step)
#if EMULATED
#define ONE_BY_ONE
#else
#define ONE_BY_ONE _Pragma("unroll 1")
#endif
#define EACH_KEY UNROLL for (int n = 0; n < KEY_FRAGMENTS; ++n)

WORK_GROUP
void forward(const __global ushort* restrict q, ulong q_offset, const __global ushort* restrict k, ulong k_offset,
             const __global ushort* restrict v, ulong v_offset, const __global ushort* restrict mask, ulong mask_offset,
             __global ushort* restrict result, ulong result_offset, __global float* logsumexp, ulong logsumexp_offset,
             attention_problem p, attention_dropout dropout, float scale, uint flip)
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
#if VALUES < HEAD
    const int part = get_group_id(1) * VALUES;
#else
    const int part = 0;
#endif
    const __global uchar* values = (const __global uchar*)(v + (v_offset + AT_HEAD(p.v, b, kv_h) + part * p.v.column));
    const head_lines key_lines = lines_of(p.k, p.keys, p.size),
                     value_lines = lines_of(p.v, p.keys, p.value_size - part);
    const int own_line = team * OWN * OWN_SIDE;   // of the block, the sub-group's first query

    // Queries, through local memory.
    place_own_lines((const __global uchar*)(q + (q_offset + AT_HEAD(p.q, b, h))), lines_of(p.q, p.queries, p.size),
                    first_query, flip, slabs);
    barrier(CLK_LOCAL_MEM_FENCE);
    const int own_begin = UNIFORM(begin_own(g, OWN_ALONG_K, BLOCK, own_line));
#if KEPT
    own_fragment query[OWN][HEAD / FRAGMENT_K];
    EACH_OWN UNROLL for (int e = 0; e < HEAD; e += FRAGMENT_K) query[o][e / FRAGMENT_K] = LOAD_OWN(own_begin, o, e);
    barrier(CLK_LOCAL_MEM_FENCE);
#define QUERY(o, e) query[o][(e) / FRAGMENT_K]
#else
#define QUERY(o, e) LOAD_OWN(own_begin + none, o, e)
#endif

    fragment_sums sums[OWN][HEAD_FRAGMENTS];
    float best[OWN][OWN_LINES], total[OWN][OWN_LINES];   // of scores as they come; of probabilities, a lane's own
    int limit[OWN][OWN_LINES];                           // the first key that a query does not see
    EACH_OWN {
        EACH_HEAD_FRAGMENT sums[o][d] = (fragment_sums)0;
        EACH_LINE {
            const long query_at = first_query + own_line + o * OWN_SIDE + OWN_OF(l * 2, g.lane);
            best[o][l] = -INFINITY;
            total[o][l] = 0;
            limit[o][l] = (int)max(min(p.causal ? query_at + p.causal_offset + 1 : p.keys, p.keys), 0L);
        }
    }
#ifdef MASKED
    const __global uchar* mask_head = (const __global uchar*)(mask + (mask_offset + AT_HEAD(p.mask, b, h)));
    const OFFSET mask_step = (OFFSET)(2 * p.mask.column);
    OFFSET mask_rows[OWN][OWN_LINES];
    EACH_OWN EACH_LINE mask_rows[o][l] =
        (OFFSET)(2 * p.mask.row) *
        (OFFSET)min(first_query + own_line + o * OWN_SIDE + OWN_OF(l * 2, g.lane), (int)p.queries - 1);
#endif
#if defined(MASKED) || defined(SOFTCAP)
#define FACTOR 1.0f
#else
#define FACTOR scale
#endif
#ifdef SOFTCAP
#define LEFT_OF_SCALE 1.0f   // for the mask to multiply by
#else
#define LEFT_OF_SCALE scale
#endif
    const int seen_by_all = (int)max(min(p.causal ? first_query + p.causal_offset + 1 : p.keys, p.keys), 0L);
    const int visible = (int)visible_keys(&p, min(p.queries, (long)first_query + BLOCK));

#if AHEAD
    uint4 next_keys[KEY_LOADS], next_values[VALUE_LOADS];
#define FETCH_STEP(item, j)                                                                                           \
    UNROLL for (int n = 0; n < KEY_LOADS; ++n)                                                                        \
    {                                                                                                                 \
        const int at = (item) + n * ITEMS, pair_at = (item) + n / 2 * ITEMS;                                          \
        next_keys[n] = fetch_eight(keys, key_lines, (j) + GROUP_LINE(at), GROUP_ELEMENT(at));                         \
        if (n < VALUE_LOADS)                                                                                          \
            next_values[n] =                                                                                          \
                fetch_eight(values, value_lines, (j) + PAIR_LINE(pair_at) + n % 2, PAIR_ELEMENT(pair_at));            \
    }
    FETCH_STEP(item, 0)
#endif
    const int key_begin = UNIFORM(begin_other(g, 1, SPAN, 0)), value_begin = UNIFORM(begin_other(g, 0, VALUES, 0));
    const int both_steps = 2 * STEPS_AT + (BUFFERS - 1) * STEP_WORDS;
    // Steps that all queries see come first, and have no instructions for others.
    int j0 = 0, step_at = STEPS_AT;
    UNROLL for (int edge = 0; edge < 2; ++edge)
    for (const int end = edge ? visible : min(seen_by_all, visible) / SPAN * SPAN; j0 < end;
         j0 += SPAN, step_at = both_steps - step_at) {
#if BUFFERS == 1
        barrier(CLK_LOCAL_MEM_FENCE);   // all have multiplied the last step
#endif
        const int none = NONE(j0), mine = item + none, now = step_at + none;
#if AHEAD
        UNROLL for (int n = 0; n < KEY_LOADS; ++n)
        {
            const int at = mine + n * ITEMS;
            place_other_along_k(slabs + now + along_place(GROUP_LINE(at), GROUP_ELEMENT(at)), next_keys[n]);
        }
        UNROLL for (int n = 0; n < VALUE_LOADS; n += 2)
        {
            const int at = mine + n / 2 * ITEMS;
            PLACE_VALUES(at, next_values[n], next_values[n + 1])
        }
#else
        ONE_BY_ONE for (int first = mine; first < mine + KEY_LOADS * ITEMS; first += BROUGHT * ITEMS) {
            uint4 brought[BROUGHT];
            EACH_BROUGHT(1) {
                const int at = first + n * ITEMS;
                brought[n] = fetch_eight(keys, key_lines, j0 + GROUP_LINE(at), GROUP_ELEMENT(at));
            }
            LOADS_COME_FIRST
            EACH_BROUGHT(1) {
                const int at = first + n * ITEMS;
                place_other_along_k(slabs + now + along_place(GROUP_LINE(at), GROUP_ELEMENT(at)), brought[n]);
            }
        }
        ONE_BY_ONE for (int first = mine; first < mine + VALUE_LOADS / 2 * ITEMS; first += BROUGHT / 2 * ITEMS) {
            uint4 brought[BROUGHT];
            EACH_BROUGHT(1) {
                const int at = first + n / 2 * ITEMS;
                brought[n] = fetch_eight(values, value_lines, j0 + PAIR_LINE(at) + n % 2, PAIR_ELEMENT(at));
            }
            LOADS_COME_FIRST
            EACH_BROUGHT(2) {
                const int at = first + n / 2 * ITEMS;
                PLACE_VALUES(at, brought[n], brought[n + 1])
            }
        }
#endif
#ifdef DROPOUT
        const __local uchar* kept = (const __local uchar*)(slabs + now + KEPT_AT);
        place_kept(&p, &dropout, pair * (ulong)p.queries + first_query, j0, (__local uchar*)kept);
#endif
        barrier(CLK_LOCAL_MEM_FENCE);
#if AHEAD
        if (j0 + SPAN < visible)
            FETCH_STEP(mine, j0 + SPAN)
#endif

        fragment_sums scores[OWN][KEY_FRAGMENTS];
        uint words[OWN][KEY_FRAGMENTS * FRAGMENT_SUMS / 2];   // probabilities, rounded
        MULTIPLY_LINES(scores, QUERY, UNIFORM(now + key_begin), 0, KEY_FRAGMENTS)
        EACH_OWN {
#ifdef SOFTCAP
            EACH_KEY scores[o][n] = capped(scores[o][n], scale, p.softcap);
#endif
#ifdef MASKED
            EACH_KEY add_mask(g, &scores[o][n], n, LEFT_OF_SCALE, mask_head + 2 * j0 * p.mask.column, mask_rows[o],
                              mask_step, (int)p.keys - 1 - j0);
#endif
            if (edge) {
                int left[OWN_LINES];
                EACH_LINE left[l] = limit[o][l] - j0;
                EACH_KEY hide(g, &scores[o][n], n, left, 0, -INFINITY);
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
#ifdef DROPOUT
                scores[o][n] = kept_of(scores[o][n], kept_bits(g, own_line + o * OWN_SIDE, n, kept));
#endif
                pack_sums(scores[o][n], words[o] + n * (FRAGMENT_SUMS / 2));
            }
            float sum[OWN_LINES];
            sum_of(added, sum);
            EACH_LINE total[o][l] = fma(total[o][l], again[l], sum[l]);
            if (grew) {   // seldom, after the first steps
                const fragment_sums factors = EACH_ELEMENT(again);
                EACH_HEAD_FRAGMENT sums[o][d] *= factors;
            }
        }
        ADD_LINES(sums, words, UNIFORM(now + VALUES_AT + value_begin), 0, SPAN)
    }

    barrier(CLK_LOCAL_MEM_FENCE);
    EACH_OWN {
        float factors[OWN_LINES];
        EACH_LINE {
            const float sum = over_lanes(g, total[o][l], 0);
            factors[l] = sum == 0 ? 0.0f : 1 / sum;
#ifdef DROPOUT
            factors[l] *= dropout.factor;
#endif
            const long query_at = first_query + own_line + o * OWN_SIDE + OWN_OF(l * 2, g.lane);
            if (logsumexp && FIRST_OF_LINE(g.lane) && query_at < p.queries && part == 0)
                logsumexp[logsumexp_offset + pair * p.queries + query_at] = (best[o][l] * FACTOR + log2(sum)) * LN_2;
        }
        gather_sums(g, sums[o], factors, own_line + o * OWN_SIDE, slabs);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    write_lines(slabs, result + result_offset + AT_HEAD(p.y, b, h) + first_query * p.y.row + part * p.y.column, p.y,
                p.queries - first_query, p.value_size - part);
}
