// Attention of few queries on CPU devices, bound by the reading of keys and values. The queries of all heads that share
// a key head are rows; a work-item owns up to plan.rows of them and one of plan.splits pieces of the keys, so that few
// heads with long keys keep all cores busy. combine() adds the pieces up, each relative to the largest score of all, in
// a fixed order.
//
//   scores   TILE_LANES keys at a time, each where it lies: a vector of products a key, which perfect shuffles add up
//            to one vector of scores; where keys are neighbours (turned ones) a lane is a key, nothing is shuffled
//   values   four vectors of a row's sums in registers, two keys at a time
//
// Of several rows, keys and values go through in blocks that stay in the first-level cache. Blocks that a mask hides at
// a row's beginning and end (what a cache of fixed length does not hold yet) are not read.
// Options: those of problem.cl.
#include "kernels/gemm/problem.cl"
#include "kernels/gemm/micro_kernel.cl"
#include "kernels/gemm/lanes.cl"
#include "kernels/attention/lanes.cl"

typedef struct {
    long rows, blocks;    // of a work-item; work-items of a key head's rows
    long splits, chunk;   // pieces of the keys; keys of one, a multiple of TILE_LANES
    long width, values;   // elements of a row of queries and of sums, multiples of TILE_LANES
} few_plan;

// Row n of key head kv_h: the query and its head.
typedef struct {
    long h, i;
} row_place;

static inline row_place place_of(const attention_problem* p, long kv_h, long n)
{
    return (row_place){kv_h * (p->heads / p->kv_heads) + n / p->queries, n % p->queries};
}

static inline REAL largest_lane(tile_vector v)
{
    REAL lanes[TILE_LANES], largest = -INFINITY;
    TILE_VSTORE(v, 0, lanes);
    for (int i = 0; i < TILE_LANES; ++i)
        largest = lanes[i] > largest ? lanes[i] : largest;
    return largest;
}

static inline REAL sum_of_lanes(tile_vector v)
{
    REAL lanes[TILE_LANES], sum = 0;
    TILE_VSTORE(v, 0, lanes);
    for (int i = 0; i < TILE_LANES; ++i)
        sum += lanes[i];
    return sum;
}

// `left` elements of a row, zero in lanes beyond; `readable` elements follow x in its matrix.
static inline tile_vector get_elements(const __global storage_t(X)* x, long column, long left, long readable)
{
    if (left >= TILE_LANES && column == 1)
        return LOAD_LANES(x);
    const tile_vector v = get_part_of_row(x, column, left, readable);
    return LANE_NUMBERS < (lane_integer)(int)min((long)TILE_LANES, left) ? v : (tile_vector)0;
}

// Eight keys from `first` on; the last of `count` again for those beyond.
#define EACH_OF_8(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#define KEY_PLACE(i) const __global storage_t(X)* k##i = k + min((long)(first + i), count - 1) * layout.row;
#define KEY_SUM(i) tile_vector s##i = 0;
#define KEY_WHOLE(i) s##i = fma(own, LOAD_LANES(k##i + e), s##i);
#define KEY_PART(i)                                                                                         \
    s##i = fma(own, get_elements(k##i + e * layout.column, layout.column, size - e, end - (k##i + e)), s##i);
#define KEY_PUT(i) v[first + i] = s##i;
#define SCORE_8                                                                                             \
    {                                                                                                       \
        EACH_OF_8(KEY_PLACE)                                                                                \
        EACH_OF_8(KEY_SUM)                                                                                  \
        long e = 0;                                                                                         \
        for (; e < whole; e += TILE_LANES) {                                                                \
            const tile_vector own = TILE_VLOAD(0, query + e);                                               \
            EACH_OF_8(KEY_WHOLE)                                                                            \
        }                                                                                                   \
        for (; e < size; e += TILE_LANES) {                                                                 \
            const tile_vector own = TILE_VLOAD(0, query + e);                                               \
            EACH_OF_8(KEY_PART)                                                                             \
        }                                                                                                   \
        EACH_OF_8(KEY_PUT)                                                                                  \
    }
#define HALF_SUM(i, half) v[i] = ZIP_LOW(v[i], v[i + half]) + ZIP_HIGH(v[i], v[i + half]);

// Products of the query with `count` keys (at most TILE_LANES are taken), the keys' memory ending at `end`.
static inline tile_vector score_rows(const __local REAL* restrict query, const __global storage_t(X)* restrict k,
                                     heads_layout layout, long count, long size, const __global storage_t(X)* end)
{
    tile_vector v[TILE_LANES];
    const long whole = layout.column == 1 ? size / TILE_LANES * TILE_LANES : 0;
#define first 0
    SCORE_8
#undef first
#if TILE_LANES == 16
#define first 8
    SCORE_8
#undef first
    HALF_SUM(0, 8) HALF_SUM(1, 8) HALF_SUM(2, 8) HALF_SUM(3, 8) HALF_SUM(4, 8) HALF_SUM(5, 8) HALF_SUM(6, 8)
    HALF_SUM(7, 8)
#endif
    HALF_SUM(0, 4) HALF_SUM(1, 4) HALF_SUM(2, 4) HALF_SUM(3, 4)
    HALF_SUM(0, 2) HALF_SUM(1, 2)
    HALF_SUM(0, 1)
    return v[0];
}

// The same of keys that are neighbours.
static inline tile_vector score_columns(const __local REAL* restrict query, const __global storage_t(X)* restrict k,
                                        long column, long count, long size)
{
    tile_vector s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    long e = 0;
    if (count >= TILE_LANES)
        for (; e + 4 <= size; e += 4) {
            s0 = fma((tile_vector)query[e], LOAD_LANES(k + e * column), s0);
            s1 = fma((tile_vector)query[e + 1], LOAD_LANES(k + (e + 1) * column), s1);
            s2 = fma((tile_vector)query[e + 2], LOAD_LANES(k + (e + 2) * column), s2);
            s3 = fma((tile_vector)query[e + 3], LOAD_LANES(k + (e + 3) * column), s3);
        }
    for (; e < size; ++e)
        s0 = fma((tile_vector)query[e], get_row(k + e * column, 1, count), s0);
    return (s0 + s1) + (s2 + s3);
}

#define VALUES(n) LOAD_LANES(v + (n) * layout.row + e)
#define PART_VALUES(n)                                                                                      \
    get_elements(v + (n) * layout.row + e * layout.column, layout.column, size - e, end - (v + (n) * layout.row + e))

// Adds `count` values, each times its weight, to a row's sums.
static inline void add_values(const __local REAL* restrict weights, const __global storage_t(X)* restrict v,
                              heads_layout layout, long count, long size, const __global storage_t(X)* end,
                              __local REAL* restrict sums)
{
    long e = 0;
    if (layout.column == 1)
        for (; e + 4 * TILE_LANES <= size; e += 4 * TILE_LANES) {
            tile_vector a = TILE_VLOAD(0, sums + e), b = TILE_VLOAD(1, sums + e), c = TILE_VLOAD(2, sums + e),
                        d = TILE_VLOAD(3, sums + e), a1 = 0, b1 = 0, c1 = 0, d1 = 0;
            const __global storage_t(X)* from = v + e;
            long j = 0;
            for (; j + 2 <= count; j += 2, from += 2 * layout.row) {
                const tile_vector w = (tile_vector)weights[j], w1 = (tile_vector)weights[j + 1];
                const __global storage_t(X)* next = from + layout.row;
                a = fma(w, LOAD_LANES(from), a), a1 = fma(w1, LOAD_LANES(next), a1);
                b = fma(w, LOAD_LANES(from + TILE_LANES), b), b1 = fma(w1, LOAD_LANES(next + TILE_LANES), b1);
                c = fma(w, LOAD_LANES(from + 2 * TILE_LANES), c), c1 = fma(w1, LOAD_LANES(next + 2 * TILE_LANES), c1);
                d = fma(w, LOAD_LANES(from + 3 * TILE_LANES), d), d1 = fma(w1, LOAD_LANES(next + 3 * TILE_LANES), d1);
            }
            if (j < count) {
                const tile_vector w = (tile_vector)weights[j];
                a = fma(w, LOAD_LANES(from), a), b = fma(w, LOAD_LANES(from + TILE_LANES), b);
                c = fma(w, LOAD_LANES(from + 2 * TILE_LANES), c), d = fma(w, LOAD_LANES(from + 3 * TILE_LANES), d);
            }
            TILE_VSTORE(a + a1, 0, sums + e);
            TILE_VSTORE(b + b1, 1, sums + e);
            TILE_VSTORE(c + c1, 2, sums + e);
            TILE_VSTORE(d + d1, 3, sums + e);
        }
    for (; e < size; e += TILE_LANES) {
        tile_vector a = TILE_VLOAD(0, sums + e), b = 0, c = 0, d = 0;
        long j = 0;
        if (size - e >= TILE_LANES && layout.column == 1)
            for (; j + 4 <= count; j += 4) {
                a = fma((tile_vector)weights[j], VALUES(j), a), b = fma((tile_vector)weights[j + 1], VALUES(j + 1), b);
                c = fma((tile_vector)weights[j + 2], VALUES(j + 2), c);
                d = fma((tile_vector)weights[j + 3], VALUES(j + 3), d);
            }
        for (; j < count; ++j)
            a = fma((tile_vector)weights[j], PART_VALUES(j), a);
        TILE_VSTORE((a + b) + (c + d), 0, sums + e);
    }
}

// sums: [splits][rows of all][plan.values]; tops: the largest scores, then the totals, [2][splits][rows of all].
__kernel TILE_TASK
void forward(INPUT(q), INPUT(k), INPUT(v), INPUT(mask), OUTPUT(y), __global REAL* logsumexp, ulong logsumexp_offset,
             __global REAL* sums, ulong sums_offset, __global REAL* tops, ulong tops_offset, attention_problem p,
             few_plan plan, REAL scale, __local REAL* memory)
{
    const long group = (long)get_group_id(0), split = group % plan.splits, block = group / plan.splits % plan.blocks;
    const long head = group / plan.splits / plan.blocks, b = head / p.kv_heads, kv_h = head % p.kv_heads;
    const long first_row = block * plan.rows, j0 = split * plan.chunk;
    const int rows = (int)min(plan.rows, p.heads / p.kv_heads * p.queries - first_row);
    const long count = clamp(visible_keys(&p, p.queries) - j0, 0L, plan.chunk);
    k += k_offset + AT_HEAD(p.k, b, kv_h) + j0 * p.k.row;
    v += v_offset + AT_HEAD(p.v, b, kv_h) + j0 * p.v.row;
    const __global storage_t(X)* k_end = k + (p.keys - 1 - j0) * p.k.row + p.size;
    const __global storage_t(X)* v_end = v + (p.keys - 1 - j0) * p.v.row + p.value_size;
    __local REAL* queries = memory;                       // rows x width
    __local REAL* own_sums = queries + rows * plan.width; // rows x values
    __local REAL* scores = own_sums + rows * plan.values; // rows x chunk
    __local REAL* best = scores + rows * plan.chunk;      // what follows: rows each
    __local REAL* begins = best + plan.rows;              // the keys that a row sees, in whole vectors
    __local REAL* ends = begins + plan.rows;

    for (int r = 0; r < rows; ++r) {
        const row_place at = place_of(&p, kv_h, first_row + r);
        const __global storage_t(X)* from = q + q_offset + AT_HEAD(p.q, b, at.h) + at.i * p.q.row;
        for (long e = 0; e < plan.width; e += TILE_LANES)
            TILE_VSTORE(get_row(from + e * p.q.column, p.q.column, p.size - e), 0, queries + r * plan.width + e);
        for (long e = 0; e < plan.values; e += TILE_LANES)
            TILE_VSTORE((tile_vector)0, 0, own_sums + r * plan.values + e);
        best[r] = -INFINITY;
        begins[r] = (REAL)count;
        ends[r] = 0;
    }

    for (long j = 0; j < count; j += TILE_LANES) {
        const long in_block = min(count - j, (long)TILE_LANES);
        for (int r = 0; r < rows; ++r) {
            const row_place at = place_of(&p, kv_h, first_row + r);
            const long seen = min(first_hidden(&p, at.i) - j0 - j, in_block);
            tile_vector added = 0;
            if (p.masked && seen > 0)
                added = get_row(mask + mask_offset + AT_HEAD(p.mask, b, at.h) + at.i * p.mask.row
                                + (j0 + j) * p.mask.column, p.mask.column, seen);
            tile_vector s = HIDDEN;
            if (seen > 0 && largest_lane(hide_from(added == added ? added : (tile_vector)0, seen)) != (REAL)-INFINITY) {
                const __local REAL* own = queries + r * plan.width;
                const __global storage_t(X)* from = k + j * p.k.row;
                s = p.k.row == 1 && p.k.column != 1 ? score_columns(own, from, p.k.column, in_block, p.size)
                                                    : score_rows(own, from, p.k, in_block, p.size, k_end);
                s = hide_from(capped(s * scale, p.softcap) + added, seen);
                best[r] = fmax(best[r], largest_lane(s));
                begins[r] = fmin(begins[r], (REAL)j);
                ends[r] = (REAL)(j + seen);
            }
            TILE_VSTORE(s, 0, scores + r * plan.chunk + j);
        }
    }

    for (int r = 0; r < rows; ++r) {
        const REAL largest = best[r];
        const tile_vector reference = largest == (REAL)-INFINITY ? (tile_vector)0 : (tile_vector)largest;
        tile_vector total = 0;
        for (long j = (long)begins[r]; j < (long)ends[r]; j += TILE_LANES) {
            const tile_vector e = exp_lanes(TILE_VLOAD(0, scores + r * plan.chunk + j) - reference);
            TILE_VSTORE(e, 0, scores + r * plan.chunk + j);
            total += e;
        }
        queries[r * plan.width] = sum_of_lanes(total);   // the query has done its work
    }

    const long step = rows == 1 ? plan.chunk : 16;
    for (long j = 0; j < count; j += step)
        for (int r = 0; r < rows; ++r) {
            const long from = max(j, (long)begins[r]), in_block = min(j + step, (long)ends[r]) - from;
            if (in_block > 0)
                add_values(scores + r * plan.chunk + from, v + from * p.v.row, p.v, in_block, p.value_size, v_end,
                           own_sums + r * plan.values);
        }

    const long all = p.batch * p.heads * p.queries;
    for (int r = 0; r < rows; ++r) {
        const row_place at = place_of(&p, kv_h, first_row + r);
        const long place = (b * p.heads + at.h) * p.queries + at.i;
        const REAL total = queries[r * plan.width];
        __local REAL* own = own_sums + r * plan.values;
        if (plan.splits > 1) {
            for (long e = 0; e < plan.values; e += TILE_LANES)
                TILE_VSTORE(TILE_VLOAD(0, own + e), 0, sums + sums_offset + (split * all + place) * plan.values + e);
            tops[tops_offset + split * all + place] = best[r];
            tops[tops_offset + (plan.splits + split) * all + place] = total;
            continue;
        }
        const tile_vector inverse = (tile_vector)(total == 0 ? (REAL)0 : (REAL)1 / total);
        __global storage_t(X)* to = y + y_offset + AT_HEAD(p.y, b, at.h) + at.i * p.y.row;
        for (long e = 0; e < p.value_size; e += TILE_LANES)
            put_row(TILE_VLOAD(0, own + e) * inverse, to + e * p.y.column, p.y.column, p.value_size - e);
        if (logsumexp)
            logsumexp[logsumexp_offset + place] = best[r] + log(total);
    }
}

// A work-item a row.
__kernel TILE_TASK
void combine(const __global REAL* sums, ulong sums_offset, const __global REAL* tops, ulong tops_offset, OUTPUT(y),
             __global REAL* logsumexp, ulong logsumexp_offset, attention_problem p, few_plan plan)
{
    const long place = get_group_id(0), all = p.batch * p.heads * p.queries;
    const long i = place % p.queries, h = place / p.queries % p.heads, b = place / p.queries / p.heads;
    sums += sums_offset + place * plan.values;
    tops += tops_offset + place;
    REAL largest = -INFINITY, total = 0;
    for (long s = 0; s < plan.splits; ++s)
        largest = fmax(largest, tops[s * all]);
    const REAL reference = largest == (REAL)-INFINITY ? (REAL)0 : largest;
    for (long s = 0; s < plan.splits; ++s)
        total = fma(exp(tops[s * all] - reference), tops[(plan.splits + s) * all], total);
    const REAL inverse = total == 0 ? (REAL)0 : (REAL)1 / total;
    __global storage_t(X)* to = y + y_offset + AT_HEAD(p.y, b, h) + i * p.y.row;
    for (long e = 0; e < p.value_size; e += TILE_LANES) {
        tile_vector sum = 0;
        for (long s = 0; s < plan.splits; ++s)
            sum = fma((tile_vector)exp(tops[s * all] - reference), TILE_VLOAD(0, sums + s * all * plan.values + e),
                      sum);
        put_row(sum * (tile_vector)inverse, to + e * p.y.column, p.y.column, p.value_size - e);
    }
    if (logsumexp)
        logsumexp[logsumexp_offset + place] = largest + log(total);
}
