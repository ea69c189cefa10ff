// Attention of few queries on GPUs, bound by the reading of keys and values. The queries of all heads that share a key
// head are rows; a work-group owns ROWS of them and one of `splits` pieces of the keys, `chunk` keys each, so that one
// query of long keys still fills a device. combine() adds the pieces up, each relative to the largest score of all
// (Dao, Haziza, Massa, Sizov, "Flash-Decoding for long-context inference", 2023), in a fixed order.
//
//   scores   eight neighbouring work-items read a key, EACH keys on their way at once; their sums meet in local memory
//   values   a work-item has a quad of the result, PARTS of them share it and take every PARTS-th four keys
//
// A piece that a mask hides from all of its rows (what a cache of fixed length does not hold yet) is not read, so NaN
// there spoils nothing. Elsewhere masks are added: NaN in a key that a mask hides spoils its rows, and NaN in one that
// a causal query does not see does not.
// Options: those of quads.cl, -DHEAD=64|128|256: most elements of a line, -DROWS=1|2|4|8, -DMASKED, -DSUB_GROUP=..
#define KEEP_FINITE
#include "kernels/attention/quads.cl"

#define ITEMS 128
#define LANES 8
#define EACH 4
#define KEYS (ITEMS / LANES)
#define SPAN (KEYS * EACH)              // keys whose products are on their way
#define QUADS (HEAD / 4)
#define PARTS (ITEMS / QUADS)
#define TEAM (ITEMS / ROWS)             // work-items that share a row's scores
#define SYNCHRONIZE barrier(CLK_LOCAL_MEM_FENCE)
#if ALIGNED && HEAD > 128 && ROWS == 1 && defined(cl_intel_subgroups)   // all loads of a line at once would be spilled
#define EACH_QUAD_OF_KEYS _Pragma("unroll 4")
#elif ALIGNED || !defined(cl_intel_subgroups)
#define EACH_QUAD_OF_KEYS _Pragma("unroll")
#else   // quads of several loads each, of which Intel's compiler would spill the addresses
#define EACH_QUAD_OF_KEYS _Pragma("unroll 2")
#endif
#ifdef SUB_GROUP   // Intel's compiler would take the widest and spill
#define GROUP __kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1), intel_reqd_sub_group_size(SUB_GROUP)))
#else
#define GROUP __kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
#endif
#define EACH_ROW _Pragma("unroll") for (int r = 0; r < ROWS; ++r)

// Numbers of the work-items of a team, ITEMS of all.
static inline REAL team_largest(const __local REAL4* shared, int first, int count)
{
    REAL4 v = shared[first / 4];
    for (int n = 1; n < count / 4; ++n)
        v = fmax(v, shared[first / 4 + n]);
    return fmax(fmax(v.x, v.y), fmax(v.z, v.w));
}

static inline REAL team_sum(const __local REAL4* shared, int first, int count)
{
    REAL4 v = shared[first / 4];
    for (int n = 1; n < count / 4; ++n)
        v += shared[first / 4 + n];
    return v.x + v.y + (v.z + v.w);
}

// What exponents are relative to: a row that sees nothing has no largest score.
static inline REAL reference_of(REAL largest) { return largest == (REAL)-INFINITY ? (REAL)0 : largest; }

// Row n of key head kv_h: the query and its head.
typedef struct {
    int h, i;
} row_place;

static inline row_place place_of(const attention_problem* p, int kv_h, int n)
{
    return (row_place){kv_h * (int)(p->heads / p->kv_heads) + n / (int)p->queries, n % (int)p->queries};
}

static inline void put_quad(__global stored* y, long step, REAL4 v, long left)
{
    const REAL values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int e = 0; e < 4; ++e)
        if (e < left)
            store(X, y, e * step, (compute_t(X))values[e]);
}

// sums: [splits][rows of all][HEAD]; tops: the largest scores, to the base 2, then the totals, [2][splits][rows of
// all].
// Memory: queries, sums of products and later of values, scores.
GROUP
void forward(INPUT(q), INPUT(k), INPUT(v), INPUT(mask), OUTPUT(y), __global REAL* logsumexp, ulong logsumexp_offset,
             __global REAL* sums, ulong sums_offset, __global REAL* tops, ulong tops_offset, attention_problem p,
             REAL scale, int splits, int chunk, __local REAL4* memory)
{
    __local REAL4 shared[ITEMS / 4];
    __local REAL largest_of_row[ROWS];
    __local int ends[ROWS];
    const int item = get_local_id(0), rows = (int)(p.heads / p.kv_heads * p.queries);
    const int blocks = (rows + ROWS - 1) / ROWS, first = (int)get_group_id(1) % blocks * ROWS;
    const int head = (int)get_group_id(1) / blocks, kv_h = head % (int)p.kv_heads, b = head / (int)p.kv_heads;
    const int split = get_group_id(0);
    const long j0 = (long)split * chunk;
    const int count = (int)clamp(visible_keys(&p, p.queries) - j0, 0L, (long)chunk);
    const int padded = (count + SPAN - 1) / SPAN * SPAN;
    __local REAL4 *queries = memory, *parts = queries + ROWS * QUADS;
    __local REAL* scores = (__local REAL*)(parts + ROWS * ITEMS);
    __local REAL* part_items = (__local REAL*)parts;
    __local REAL* shared_items = (__local REAL*)shared;

    // Queries, and what scores are added to: the mask, -inf where nothing is seen.
    for (int at = item; at < ROWS * QUADS; at += ITEMS) {
        const row_place row = place_of(&p, kv_h, min(first + at / QUADS, rows - 1));
        const head_lines from = {0, (OFFSET)p.q.column, 1, (int)p.size};
        const __global stored* own = q + q_offset + AT_HEAD(p.q, b, row.h) + row.i * p.q.row;
        queries[at] = fetch_quad(own, from, 0, at % QUADS * 4);
    }
    int seen = count > 0;
#ifdef MASKED
    __local int any;
    if (item == 0)
        any = 0;
    SYNCHRONIZE;
    seen = 0;
#endif
    for (int r = 0; r < ROWS; ++r) {
        const row_place row = place_of(&p, kv_h, min(first + r, rows - 1));
        const int end = (int)clamp(min(first_hidden(&p, row.i), p.keys) - j0, 0L, (long)count);
        if (item == 0)
            ends[r] = end;
#ifdef MASKED
        const __global stored* own = mask + mask_offset + AT_HEAD(p.mask, b, row.h) + row.i * p.mask.row;
#endif
        for (int j = item; j < padded; j += ITEMS) {
            REAL start = j < end ? (REAL)0 : (REAL)-INFINITY;
#ifdef MASKED
            if (j < end)
                start = mask_to_base_2((REAL)load(X, own, (j0 + j) * p.mask.column));
            seen |= start != (REAL)-INFINITY;
#endif
            scores[r * chunk + j] = start;
        }
    }
#ifdef MASKED
    if (seen)
        atomic_or(&any, 1);
    SYNCHRONIZE;
    seen = any;
#endif
    SYNCHRONIZE;

    const int end = seen ? padded : 0;
#ifdef SOFTCAP
    const REAL cap = (REAL)p.softcap * LOG2_E;
#endif
    k += k_offset + AT_HEAD(p.k, b, kv_h) + j0 * p.k.row;
    const int lane = item % LANES, key = item / LANES;
    for (int s0 = 0; s0 < end; s0 += SPAN, k += SPAN * p.k.row) {
        const head_lines from = {(OFFSET)p.k.row, (OFFSET)p.k.column, count - s0, (int)p.size};
        REAL products[ROWS][EACH];
        EACH_ROW {
#pragma unroll
            for (int c = 0; c < EACH; ++c)
                products[r][c] = 0;
        }
        EACH_QUAD_OF_KEYS for (int n = 0; n < QUADS / LANES; ++n) {
            REAL4 keys[EACH];
#pragma unroll
            for (int c = 0; c < EACH; ++c)
                keys[c] = fetch_quad(k, from, key + KEYS * c, (n * LANES + lane) * 4);
            EACH_ROW {
                const REAL4 own = queries[r * QUADS + n * LANES + lane];
#pragma unroll
                for (int c = 0; c < EACH; ++c)
                    products[r][c] = fma(own.w, keys[c].w, fma(own.z, keys[c].z,
                                         fma(own.y, keys[c].y, fma(own.x, keys[c].x, products[r][c]))));
            }
        }
        EACH_ROW {
#pragma unroll
            for (int c = 0; c < EACH; ++c)
                part_items[(r * SPAN + key + KEYS * c) * LANES + lane] = products[r][c];
        }
        SYNCHRONIZE;
        for (int at = item; at < ROWS * SPAN; at += ITEMS) {
            const REAL4 sum = parts[2 * at] + parts[2 * at + 1];
            const int r = at / SPAN, j = s0 + at % SPAN;
            __local REAL* score = scores + r * chunk + j;
            if (j < ends[r])
#ifdef SOFTCAP
                *score += cap * tanh((sum.x + sum.y + (sum.z + sum.w)) * scale / (REAL)p.softcap);
#else
                *score = fma(sum.x + sum.y + (sum.z + sum.w), scale * LOG2_E, *score);
#endif
        }
        SYNCHRONIZE;
    }

    const int row_of_item = item / TEAM;
    __local REAL* row_scores = scores + row_of_item * chunk;
    REAL largest = -INFINITY, total = 0;
    for (int j = item % TEAM; j < end; j += TEAM)
        largest = fmax(largest, row_scores[j]);
    shared_items[item] = largest;
    SYNCHRONIZE;
    largest = team_largest(shared, row_of_item * TEAM, TEAM);
    if (item % TEAM == 0)
        largest_of_row[row_of_item] = largest;
    for (int j = item % TEAM; j < end; j += TEAM) {
        const REAL probability = exp2(row_scores[j] - reference_of(largest));
        row_scores[j] = probability;
        total += probability;
    }
    SYNCHRONIZE;
    shared_items[item] = total;
    SYNCHRONIZE;

    const int x = item % QUADS, part = item / QUADS;
    REAL4 own[ROWS];
    EACH_ROW own[r] = (REAL4)0;
    v += v_offset + AT_HEAD(p.v, b, kv_h) + (j0 + 4 * part) * p.v.row;
    for (int j = 4 * part; j < min(end, count); j += 4 * PARTS, v += 4 * PARTS * p.v.row) {   // v is inside
        const head_lines from = {(OFFSET)p.v.row, (OFFSET)p.v.column, count - j, (int)p.value_size};
        REAL4 lines[4];
#pragma unroll
        for (int n = 0; n < 4; ++n)
            lines[n] = fetch_quad(v, from, n, 4 * x);
        EACH_ROW {
            const REAL4 weights = *(const __local REAL4*)(scores + r * chunk + j);
            own[r] = fma((REAL4)weights.x, lines[0], own[r]);
            own[r] = fma((REAL4)weights.y, lines[1], own[r]);
            own[r] = fma((REAL4)weights.z, lines[2], own[r]);
            own[r] = fma((REAL4)weights.w, lines[3], own[r]);
        }
    }
    EACH_ROW parts[(r * PARTS + part) * QUADS + x] = own[r];
    SYNCHRONIZE;
    for (int at = item; at < ROWS * QUADS; at += ITEMS) {
        const int r = at / QUADS, quad = at % QUADS;
        if (first + r >= rows)
            break;
        const row_place row = place_of(&p, kv_h, first + r);
        const long place = ((long)b * p.heads + row.h) * p.queries + row.i, all = p.batch * p.heads * p.queries;
        REAL4 sum = parts[r * PARTS * QUADS + quad];
#pragma unroll
        for (int n = 1; n < PARTS; ++n)
            sum += parts[(r * PARTS + n) * QUADS + quad];
        const REAL all_of_row = team_sum(shared, r * TEAM, TEAM), best = largest_of_row[r];
        if (splits > 1) {
            *(__global REAL4*)(sums + sums_offset + (split * all + place) * HEAD + 4 * quad) = sum;
            if (quad == 0) {
                tops[tops_offset + split * all + place] = best;
                tops[tops_offset + (splits + split) * all + place] = all_of_row;
            }
            continue;
        }
        put_quad(y + y_offset + AT_HEAD(p.y, b, row.h) + row.i * p.y.row + 4 * quad * p.y.column, p.y.column,
                 all_of_row == 0 ? (REAL4)0 : sum / all_of_row, p.value_size - 4 * quad);
        if (logsumexp && quad == 0)
            logsumexp[logsumexp_offset + place] = (best + log2(all_of_row)) * LN_2;
    }
}

// A work-group for each row; its work-items share quads of the result as above, and every PARTS-th piece.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void combine(const __global REAL* sums, ulong sums_offset, const __global REAL* tops, ulong tops_offset, OUTPUT(y),
             __global REAL* logsumexp, ulong logsumexp_offset, attention_problem p, int splits)
{
    __local REAL4 shared[ITEMS / 4], parts[ITEMS];
    __local REAL totals[PARTS];
    const int item = get_local_id(0), x = item % QUADS, part = item / QUADS;
    const long place = get_group_id(0), all = p.batch * p.heads * p.queries;
    sums += sums_offset + place * HEAD + 4 * x;
    tops += tops_offset + place;
    REAL largest = -INFINITY;
    for (int s = item; s < splits; s += ITEMS)
        largest = fmax(largest, tops[s * all]);
    ((__local REAL*)shared)[item] = largest;
    SYNCHRONIZE;
    largest = team_largest(shared, 0, ITEMS);
    REAL4 sum = 0;
    REAL total = 0;
#pragma unroll 4
    for (int s = part; s < splits; s += PARTS) {
        const REAL factor = exp2(tops[s * all] - reference_of(largest));
        sum = fma((REAL4)factor, *(const __global REAL4*)(sums + s * all * HEAD), sum);
        total = fma(factor, tops[(splits + s) * all], total);
    }
    parts[item] = sum;
    if (x == 0)
        totals[part] = total;
    SYNCHRONIZE;
    if (part > 0)
        return;
    total = totals[0];
#pragma unroll
    for (int n = 1; n < PARTS; ++n) {
        sum += parts[n * QUADS + x];
        total += totals[n];
    }
    const long i = place % p.queries, h = place / p.queries % p.heads, b = place / p.queries / p.heads;
    put_quad(y + y_offset + AT_HEAD(p.y, b, h) + i * p.y.row + 4 * x * p.y.column, p.y.column,
             total == 0 ? (REAL4)0 : sum / total, p.value_size - 4 * x);
    if (logsumexp && x == 0)
        logsumexp[logsumexp_offset + place] = (largest + log2(total)) * LN_2;
}
