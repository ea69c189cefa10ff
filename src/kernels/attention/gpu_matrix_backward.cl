// Attention of 16-bit floats by matrix instructions (gemm/fragments.cl), backward: the formulas of gpu_backward.cl by
// the methods of gpu_matrix.cl. A work-group owns queries, whose gradient it sums over all keys, or keys, whose
// gradients and values' it sums over all queries of the heads that share them; no two work-groups add to one sum.
//
//     scores = owned first . others' first,  grad_p = owned second . others' second
//     probabilities = exp(scores - logsumexp),  differences = probabilities (grad_p - delta)
//     grad of the owned first = scale differences others' first,  of the second = probabilities others' second
//
// where first and second are queries and grad_y on one side, keys and values on the other. Both probabilities and
// differences are rounded where they become factors.
//
// Options: those of gpu_matrix_lines.cl, and
//   -DBACKWARD=..             the kernel's name
//   -DOWN_KEYS=0|1
//   -DDIFFERENCES=0|1 -DPROBABILITIES=0|1   which of the two sums are formed; the second one of keys only
//   -DKEPT=0|1|2              how many of the owned stay in registers (the first one first), or else in local memory
//   -DPART=..                 others whose scores are in registers at a time
//   -DAHEAD=0|1               the others of the next step are on their way while those of this one are multiplied
#include "kernels/attention/gpu_matrix_lines.cl"

// Words of a step: the others' first along and turned, their second along and turned, what queries have in common.
#ifdef TRANSPOSING_LOADS
#define FIRST_TURNED_AT 0
#define SECOND_AT ALONG_WORDS
#define SECOND_TURNED_AT SECOND_AT
#define COMMON_AT (SECOND_AT + ALONG_WORDS)
#else
#define FIRST_TURNED_AT ALONG_WORDS
#define SECOND_AT (FIRST_TURNED_AT + DIFFERENCES * TURNED_WORDS)
#define SECOND_TURNED_AT (SECOND_AT + DIFFERENCES * ALONG_WORDS)
#define COMMON_AT (SECOND_TURNED_AT + PROBABILITIES * TURNED_WORDS)
#endif
#define KEPT_AT (COMMON_AT + OWN_KEYS * 2 * SPAN)
#define STEP_WORDS (KEPT_AT + DROPOUT_WORDS)
#define OWNED (1 + DIFFERENCES)                      // of which the second one, if any, comes first in memory
#define OWN_FIRST_AT (DIFFERENCES * OWN_WORDS_IN_ALL)
#define STEPS_AT (KEPT < OWNED ? (OWNED - KEPT) * OWN_WORDS_IN_ALL : 0)
#define BACKWARD_WORDS LARGER(STEPS_AT + STEP_WORDS, LARGER(OWNED * OWN_WORDS_IN_ALL, RESULT_WORDS))
// Where not all places fit beside the sums they are found anew in each step.
#ifdef DROPOUT
#define DROPS 1
#else
#define DROPS 0
#endif
#if defined(ENGINE_DPAS8)
#define FEW_REGISTERS (!ALIGNED || (HEAD > 64 && DIFFERENCES && (!WHOLE || DROPS)))
#elif defined(ENGINE_DPAS16)
#define FEW_REGISTERS (!ALIGNED || (HEAD > 64 && DIFFERENCES && DROPS))
#elif defined(ENGINE_WMMA)
#define FEW_REGISTERS (!ALIGNED || (DIFFERENCES && (HEAD > 64 || DROPS)))
#elif defined(ENGINE_MFMA)
#define FEW_REGISTERS 0
#else
#define FEW_REGISTERS !ALIGNED
#endif
// Zero, which compilers can't know: places that seem to depend on the step are not kept in registers from step to step.
#define NONE(j0) (FEW_REGISTERS ? (int)((j0) == ~(int)p.keys) : 0)
#define PART_FRAGMENTS (PART / OTHER_SIDE)
#define EACH_PART UNROLL for (int n = 0; n < PART_FRAGMENTS; ++n)

#if OWN_KEYS
// What queries have in common with all keys, a float for each: those of fragment n of a step's others.
static inline fragment_sums of_queries(sub_group g, const __local float* common, int n)
{
    float values[FRAGMENT_SUMS];
    UNROLL for (int e = 0; e < FRAGMENT_SUMS; ++e) values[e] = common[n * OTHER_SIDE + OTHER_OF(e, g.lane)];
    return CLPRIM_CAT(vload, FRAGMENT_SUMS)(0, values);
}
#define SHIFTS(o, n) of_queries(g, common, n)
#define DELTAS(o, n) of_queries(g, common + SPAN, n)
#else
#if defined(ENGINE_WMMA) && !EMULATED && defined(MASKED)
// What its compiler can't know to be the same in each part of a step: it would keep a vector for each in registers.
static inline float anew(float x)
{
    __asm__ volatile("" : "+v"(x));
    return x;
}
#define OF_LINES(x) ((fragment_sums)anew((x)[0]))
#else
#define OF_LINES(x) EACH_ELEMENT(x)
#endif
#define SHIFTS(o, n) OF_LINES(shifts[o])
#define DELTAS(o, n) OF_LINES(deltas[o])
#endif

// `score_scale` is `scale` to the base 2, and not 0.
WORK_GROUP
void BACKWARD(BACKWARD_INPUTS, OUTPUT(grad_first), OUTPUT(grad_second), attention_problem p, gradient_layouts grad,
              attention_dropout dropout, float scale, float score_scale)
{
    __local uint4 memory[(BACKWARD_WORDS + 3) / 4];
    __local uint* slabs = (__local uint*)memory;
    const uint item = get_local_id(0);
    const int team = item / LANES;
    DECLARE_SUB_GROUP
    const int group = (int)(p.heads / p.kv_heads), owners = (int)(OWN_KEYS ? p.keys : p.queries);
    const int blocks = (owners + BLOCK - 1) / BLOCK, block = get_group_id(0) % blocks, pair = get_group_id(0) / blocks;
    const int first_own = (OWN_KEYS ? block : blocks - 1 - block) * BLOCK;   // the longest come first
    const int heads = (int)(OWN_KEYS ? p.kv_heads : p.heads), b = pair / heads;
    const int kv_h = OWN_KEYS ? pair % heads : pair % heads / group;
    int h = OWN_KEYS ? kv_h * group : pair % heads;
    const int own_line = team * OWN * OWN_SIDE;   // of the block, the sub-group's first
    const head_lines query_lines = lines_of(p.q, p.queries, p.size), key_lines = lines_of(p.k, p.keys, p.size);
    const head_lines grad_lines = lines_of(grad.y, p.queries, p.value_size);
    const head_lines value_lines = lines_of(p.v, p.keys, p.value_size);
    const __global uchar* queries = (const __global uchar*)(q + (q_offset + AT_HEAD(p.q, b, h)));
    const __global uchar* grads = (const __global uchar*)(grad_y + (grad_y_offset + AT_HEAD(grad.y, b, h)));
    const __global uchar* keys = (const __global uchar*)(k + (k_offset + AT_HEAD(p.k, b, kv_h)));
    const __global uchar* values = (const __global uchar*)(v + (v_offset + AT_HEAD(p.v, b, kv_h)));
#if OWN_KEYS
#define OWNED_FIRST keys, key_lines
#define OWNED_SECOND values, value_lines
#define OTHERS_FIRST queries, query_lines
#define OTHERS_SECOND grads, grad_lines
#else
#define OWNED_FIRST queries, query_lines
#define OWNED_SECOND grads, grad_lines
#define OTHERS_FIRST keys, key_lines
#define OTHERS_SECOND values, value_lines
#endif

    place_own_lines(OWNED_FIRST, first_own, 0, slabs + OWN_FIRST_AT);
#if DIFFERENCES
    place_own_lines(OWNED_SECOND, first_own, 0, slabs);
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    const int own_begin = UNIFORM(begin_own(g, OWN_ALONG_K, BLOCK, own_line));
#if KEPT
    own_fragment first[OWN][HEAD / FRAGMENT_K];
    EACH_OWN UNROLL for (int e = 0; e < HEAD; e += FRAGMENT_K)
        first[o][e / FRAGMENT_K] = LOAD_OWN(own_begin + OWN_FIRST_AT, o, e);
#define FIRST(o, e) first[o][(e) / FRAGMENT_K]
#else
#define FIRST(o, e) LOAD_OWN(own_begin + OWN_FIRST_AT, o, e)
#endif
#if KEPT == 2
    own_fragment second[OWN][HEAD / FRAGMENT_K];
    EACH_OWN UNROLL for (int e = 0; e < HEAD; e += FRAGMENT_K)
        second[o][e / FRAGMENT_K] = LOAD_OWN(own_begin, o, e);
#define SECOND(o, e) second[o][(e) / FRAGMENT_K]
#else
#define SECOND(o, e) LOAD_OWN(own_begin, o, e)
#endif

#if DIFFERENCES
    fragment_sums first_sums[OWN][HEAD_FRAGMENTS];
    EACH_OWN EACH_HEAD_FRAGMENT first_sums[o][d] = (fragment_sums)0;
#endif
#if PROBABILITIES
    fragment_sums second_sums[OWN][HEAD_FRAGMENTS];
    EACH_OWN EACH_HEAD_FRAGMENT second_sums[o][d] = (fragment_sums)0;
#endif
    int limit[OWN][OWN_LINES];   // of a query the first key that it does not see; of a key the first query that sees it
    EACH_OWN EACH_LINE {
        const long at = first_own + own_line + o * OWN_SIDE + OWN_OF(l * 2, g.lane);
        limit[o][l] = (int)(OWN_KEYS ? min(first_query(&p, at), p.queries) : clamp(first_hidden(&p, at), 0L, p.keys));
    }
#ifdef MASKED
    const __global uchar* mask_head = (const __global uchar*)(mask + (mask_offset + AT_HEAD(p.mask, b, h)));
    const long mask_step = OWN_KEYS ? p.mask.row : p.mask.column, own_step = OWN_KEYS ? p.mask.column : p.mask.row;
#define OWN_LINE(o, l, item, lane)                                                                                    \
    min(first_own + ((item) / LANES * OWN + (o)) * OWN_SIDE + OWN_OF((l) * 2, lane), owners - 1)
    const float factor = 1, hidden = -INFINITY;
#else
    const float factor = score_scale, hidden = score_scale < 0 ? INFINITY : -INFINITY;
#endif
    // Others from `begin` to `end` see, or are seen by, some of the block; between these all of it.
    const long last_own = min((long)owners, (long)first_own + BLOCK) - 1;
    const int begin = OWN_KEYS ? (int)(min(first_query(&p, first_own), p.queries) / SPAN * SPAN) : 0;
    const int end = (int)(OWN_KEYS ? p.queries : visible_keys(&p, last_own + 1));
    const int all_begin = OWN_KEYS ? (int)min(first_query(&p, last_own), p.queries) : 0;
    const int all_end = (int)(OWN_KEYS ? p.queries + SPAN : clamp(first_hidden(&p, first_own), 0L, p.keys));
    const int along_begin = UNIFORM(begin_other(g, 1, SPAN, 0)), turned_begin = UNIFORM(begin_other(g, 0, HEAD, 0));
    __local uint* const step = slabs + STEPS_AT;
#if OWN_KEYS
    __local float* const common = (__local float*)(step + COMMON_AT);
#endif
    uint4 next_first[2 * STEP_PAIRS], next_second[2 * STEP_PAIRS];
#define FETCH(to, from, lines, j)                                                                                     \
    UNROLL for (int n = 0; n < 2 * STEP_PAIRS; ++n)                                                                   \
    {                                                                                                                 \
        const int at = mine + n / 2 * ITEMS;                                                                          \
        to[n] = fetch_eight(from, lines, (j) + PAIR_LINE(at) + n % 2, PAIR_ELEMENT(at));                              \
    }
#define FETCH_LINES(to, lines, j) FETCH(to, lines, j)
#define FETCH_FIRST(j) FETCH_LINES(next_first, OTHERS_FIRST, j)
#define FETCH_SECOND(j) FETCH_LINES(next_second, OTHERS_SECOND, j)
// Two lines' elements from e on, into their slabs.
#define PLACE_ALONG(at, v, w)                                                                                         \
    place_other_along_k(step + (at) + along_place(line, e), v);                                                       \
    place_other_along_k(step + (at) + along_place(line + 1, e), w);
#define PLACE_TURNED(at, v, w) place_other_along_lines(step + (at) + turned_place(line, e), HEAD, v, w);
#ifdef TRANSPOSING_LOADS
#define PLACE_FIRST(v, w) PLACE_ALONG(0, v, w)
#define PLACE_SECOND(v, w) PLACE_ALONG(SECOND_AT, v, w)
#else
#define PLACE_FIRST(first, next)                                                                                      \
    {                                                                                                                 \
        const uint4 v = first, w = next;                                                                              \
        PLACE_ALONG(0, v, w)                                                                                          \
        if (DIFFERENCES)                                                                                              \
            PLACE_TURNED(FIRST_TURNED_AT, v, w)                                                                       \
    }
#define PLACE_SECOND(first, next)                                                                                     \
    {                                                                                                                 \
        const uint4 v = first, w = next;                                                                              \
        if (DIFFERENCES) {                                                                                            \
            PLACE_ALONG(SECOND_AT, v, w)                                                                              \
        }                                                                                                             \
        if (PROBABILITIES)                                                                                            \
            PLACE_TURNED(SECOND_TURNED_AT, v, w)                                                                      \
    }
#endif

#if OWN_KEYS
    for (int turn = 0; turn < group; ++turn, ++h, queries += 2 * p.q.head, grads += 2 * grad.y.head)
#endif
    {
        const long first_row = ((long)b * p.heads + h) * p.queries;
#if !OWN_KEYS
        float shifts[OWN][OWN_LINES], deltas[OWN][OWN_LINES];
        EACH_OWN EACH_LINE {
            const int at = min(first_own + own_line + o * OWN_SIDE + OWN_OF(l * 2, g.lane), owners - 1);
            shifts[o][l] = -exponent_of(logsumexp[logsumexp_offset + first_row + at], 1);
            deltas[o][l] = delta[delta_offset + first_row + at];
        }
#endif
#if AHEAD
        int mine = item;
        FETCH_FIRST(begin)
        FETCH_SECOND(begin)
#endif
        for (int j0 = begin; j0 < end; j0 += SPAN) {
            barrier(CLK_LOCAL_MEM_FENCE);   // all have multiplied the last step
            const int mine = item + NONE(j0);
#if !AHEAD && !ALIGNED
            UNROLL_ALIGNED for (int n = 0; n < STEP_PAIRS; ++n) {
                const int at = mine + n * ITEMS, line = PAIR_LINE(at), e = PAIR_ELEMENT(at);
                PLACE_FIRST(fetch_eight(OTHERS_FIRST, j0 + line, e), fetch_eight(OTHERS_FIRST, j0 + line + 1, e))
                PLACE_SECOND(fetch_eight(OTHERS_SECOND, j0 + line, e), fetch_eight(OTHERS_SECOND, j0 + line + 1, e))
            }
#else
#if !AHEAD
            FETCH_FIRST(j0)
#if !FEW_REGISTERS
            FETCH_SECOND(j0)
#endif
#endif
            UNROLL for (int n = 0; n < 2 * STEP_PAIRS; n += 2)
            {
                const int at = mine + n / 2 * ITEMS, line = PAIR_LINE(at), e = PAIR_ELEMENT(at);
                PLACE_FIRST(next_first[n], next_first[n + 1])
            }
#if !AHEAD && FEW_REGISTERS
            FETCH_SECOND(j0)
#endif
            UNROLL for (int n = 0; n < 2 * STEP_PAIRS; n += 2)
            {
                const int at = mine + n / 2 * ITEMS, line = PAIR_LINE(at), e = PAIR_ELEMENT(at);
                PLACE_SECOND(next_second[n], next_second[n + 1])
            }
#endif
#if OWN_KEYS
            for (int n = item; n < SPAN; n += ITEMS) {
                const long row = first_row + min(j0 + n, (int)p.queries - 1);
                common[n] = -exponent_of(logsumexp[logsumexp_offset + row], j0 + n < p.queries);
                common[SPAN + n] = delta[delta_offset + row];
            }
#endif
#ifdef DROPOUT
            const __local uchar* kept = (const __local uchar*)(step + KEPT_AT);
            place_kept(&p, &dropout, first_row + (OWN_KEYS ? j0 : first_own), OWN_KEYS ? first_own : j0,
                       (__local uchar*)kept);
#endif
            barrier(CLK_LOCAL_MEM_FENCE);
#if AHEAD
            if (j0 + SPAN < end) {
                FETCH_FIRST(j0 + SPAN)
                FETCH_SECOND(j0 + SPAN)
            }
#endif
            UNROLL_PARTS for (int part = 0; part < SPAN; part += PART)
            {
                const int part_fragment = part / OTHER_SIDE;
                fragment_sums scores[OWN][PART_FRAGMENTS];
                MULTIPLY_LINES(scores, FIRST, UNIFORM(STEPS_AT + along_begin), part_fragment, PART_FRAGMENTS)
#ifdef MASKED
                EACH_OWN {
                    OFFSET own_mask[OWN_LINES];
                    EACH_LINE own_mask[l] = (OFFSET)(2 * own_step) * (OFFSET)OWN_LINE(o, l, mine, g.lane + NONE(j0));
                    EACH_PART add_mask(g, &scores[o][n], part_fragment + n, score_scale, mask_head + 2 * j0 * mask_step,
                                       own_mask, (OFFSET)(2 * mask_step),
                                       (int)(OWN_KEYS ? p.queries : p.keys) - 1 - j0);
                }
#endif
                if (j0 < all_begin || j0 + SPAN > all_end) {
                    EACH_OWN {
                        int left[OWN_LINES];
                        EACH_LINE left[l] = limit[o][l] - j0;
                        EACH_PART hide(g, &scores[o][n], part_fragment + n, left, OWN_KEYS, hidden);
                    }
                }
                EACH_OWN EACH_PART scores[o][n] =
                    exp2_of(fma(scores[o][n], (fragment_sums)factor, SHIFTS(o, part_fragment + n)));
#ifdef DROPOUT
                uint bits[OWN][PART_FRAGMENTS];
                EACH_OWN EACH_PART bits[o][n] =
                    kept_bits(g, own_line + o * OWN_SIDE, part_fragment + n, kept);
#endif
                uint words[OWN][PART_FRAGMENTS * FRAGMENT_SUMS / 2];
#if PROBABILITIES
                EACH_OWN EACH_PART {
#ifdef DROPOUT
                    const fragment_sums dropped = kept_of(scores[o][n], bits[o][n]);
#else
                    const fragment_sums dropped = scores[o][n];
#endif
                    pack_sums(dropped, words[o] + n * (FRAGMENT_SUMS / 2));
                }
                ADD_LINES(second_sums, words, UNIFORM(STEPS_AT + SECOND_TURNED_AT + turned_begin), part, PART)
#endif
#if DIFFERENCES
                fragment_sums grad_p[OWN][PART_FRAGMENTS];
                MULTIPLY_LINES(grad_p, SECOND, UNIFORM(STEPS_AT + SECOND_AT + along_begin), part_fragment,
                               PART_FRAGMENTS)
                EACH_PART EACH_OWN {
#ifdef DROPOUT
                    grad_p[o][n] = dropout.factor * kept_of(grad_p[o][n], bits[o][n]);
#endif
                    pack_sums(scores[o][n] * (grad_p[o][n] - DELTAS(o, part_fragment + n)),
                              words[o] + n * (FRAGMENT_SUMS / 2));
                }
                ADD_LINES(first_sums, words, UNIFORM(STEPS_AT + FIRST_TURNED_AT + turned_begin), part, PART)
#endif
            }
        }
#if OWN_KEYS && defined(MASKED)
        mask_head += 2 * p.mask.head;
#endif
    }

#define PUT_SUMS(sums, each_factor, to, layout, size)                                                                 \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                                     \
    EACH_OWN {                                                                                                        \
        const float factors[] = {each_factor, each_factor};                                                           \
        gather_sums(g, sums[o], factors, own_line + o * OWN_SIDE, slabs);                                             \
    }                                                                                                                 \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                                     \
    write_lines(slabs, to + AT_HEAD(layout, b, OWN_KEYS ? kv_h : h) + first_own * layout.row, layout,                 \
                owners - first_own, size);
#if PROBABILITIES
#ifdef DROPOUT
    PUT_SUMS(second_sums, dropout.factor, grad_second + grad_second_offset, grad.v, p.value_size)
#else
    PUT_SUMS(second_sums, 1, grad_second + grad_second_offset, grad.v, p.value_size)
#endif
#endif
#if DIFFERENCES
#if OWN_KEYS
    PUT_SUMS(first_sums, scale, grad_first + grad_first_offset, grad.k, p.size)
#else
    PUT_SUMS(first_sums, scale, grad_first + grad_first_offset, grad.q, p.size)
#endif
#endif
}
