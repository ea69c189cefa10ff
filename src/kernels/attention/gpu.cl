// Attention on GPUs. A work-group of SIDE_X x SIDE_Y work-items owns BLOCK queries (of backward_keys: keys) of one head
// and passes over the others in blocks of BLOCK, which it holds in local memory:
//
//                   BLOCK keys
//                   +---------+      scores: work-item (x, y) has rows y + SIDE_Y r and keys x + SIDE_X c;
//     BLOCK queries |         |      then, of the result, the same rows and elements x + SIDE_X c
//                   +---------+
//
// Rows of local memory are one element longer than they need be, so that neither direction meets in one bank.
// Options: those of problem.cl, -DHEAD: most elements of a row, -DBLOCK, -DSIDE_X, -DSIDE_Y, -DDROPOUT.
#include "kernels/attention/problem.cl"
#include "kernels/attention/dropout.cl"

#define ITEMS (SIDE_X * SIDE_Y)
#define PITCH (HEAD + 1)
#define SCORE_PITCH (BLOCK + 1)
#define ROWS (BLOCK / SIDE_Y)
#define KEYS (BLOCK / SIDE_X)
#define COLUMNS (HEAD / SIDE_X)
#define EACH_ROW _Pragma("unroll") for (int r = 0; r < ROWS; ++r)
#define EACH_KEY _Pragma("unroll") for (int c = 0; c < KEYS; ++c)
#define EACH_COLUMN _Pragma("unroll") for (int c = 0; c < COLUMNS; ++c)
#define ROW (y_item + SIDE_Y * r)
#define KEY (x_item + SIDE_X * c)
#define COLUMN (x_item + SIDE_X * c)
#define SYNCHRONIZE barrier(CLK_LOCAL_MEM_FENCE)

// Rows to local memory; neighbours fetch neighbours. What lies outside is zero.
static inline void fetch_rows(const __global storage_t(X)* x, heads_layout layout, long rows, long size,
                              __local REAL* to)
{
    for (int at = get_local_id(1) * SIDE_X + get_local_id(0); at < BLOCK * HEAD; at += ITEMS) {
        const int row = at / HEAD, e = at % HEAD;
        to[row * PITCH + e] = row < rows && e < size ? (REAL)load(X, x, row * layout.row + e * layout.column) : (REAL)0;
    }
}

// values[r][c] = a[row] . b[key]
static inline void dot_tiles(const __local REAL* a, const __local REAL* b, int size, REAL values[ROWS][KEYS])
{
    const int x_item = get_local_id(0), y_item = get_local_id(1);
    EACH_ROW EACH_KEY values[r][c] = 0;
    for (int e = 0; e < size; ++e) {
        REAL b_part[KEYS];
        EACH_KEY b_part[c] = b[KEY * PITCH + e];
        EACH_ROW {
            const REAL a_part = a[ROW * PITCH + e];
            EACH_KEY values[r][c] = fma(a_part, b_part[c], values[r][c]);
        }
    }
}

// sums[r][c] += sum over k of weights[row, k] rows[k][column]; weights lie `row_step` and `step` apart.
static inline void add_tiles(const __local REAL* weights, int row_step, int step, const __local REAL* rows,
                             REAL sums[ROWS][COLUMNS])
{
    const int x_item = get_local_id(0), y_item = get_local_id(1);
    for (int k = 0; k < BLOCK; ++k) {
        REAL part[COLUMNS];
        EACH_COLUMN part[c] = rows[k * PITCH + COLUMN];
        EACH_ROW {
            const REAL weight = weights[ROW * row_step + k * step];
            EACH_COLUMN sums[r][c] = fma(weight, part[c], sums[r][c]);
        }
    }
}

// Scores of queries from i0 and keys from j0 on: scaled, masked, hidden outside.
static inline void finish_scores(const attention_problem* p, const __global storage_t(X)* mask, long i0, long j0,
                                 REAL scale, REAL values[ROWS][KEYS])
{
    const int x_item = get_local_id(0), y_item = get_local_id(1);
    EACH_ROW EACH_KEY {
        const long i = i0 + ROW, j = j0 + KEY;
        const int seen = i < p->queries && j < p->keys && (!p->causal || j <= i + p->causal_offset);
        REAL s = values[r][c] * scale;
        if (seen && p->masked)
            s += (REAL)load(X, mask, i * p->mask.row + j * p->mask.column);
        values[r][c] = seen ? s : (REAL)-INFINITY;
    }
}

static inline void put_rows(REAL sums[ROWS][COLUMNS], REAL factor, __global storage_t(X)* y, heads_layout layout,
                            long rows, long size)
{
    const int x_item = get_local_id(0), y_item = get_local_id(1);
    EACH_ROW EACH_COLUMN
        if (ROW < rows && COLUMN < size)
            store(X, y, ROW * layout.row + COLUMN * layout.column, (compute_t(X))(factor * sums[r][c]));
}

#define GROUP __kernel __attribute__((reqd_work_group_size(SIDE_X, SIDE_Y, 1)))

GROUP void forward(INPUT(q), INPUT(k), INPUT(v), INPUT(mask), OUTPUT(y), __global REAL* logsumexp,
                   ulong logsumexp_offset, attention_problem p, attention_dropout dropout, REAL scale,
                   __local REAL* memory)
{
    const int x_item = get_local_id(0), y_item = get_local_id(1);
    const long blocks = (p.queries + BLOCK - 1) / BLOCK;
    const long i0 = (blocks - 1 - (long)get_group_id(0) % blocks) * BLOCK, pair = (long)get_group_id(0) / blocks;
    const long b = pair / p.heads, h = pair % p.heads, kv_h = h / (p.heads / p.kv_heads);
    k += k_offset + AT_HEAD(p.k, b, kv_h);
    v += v_offset + AT_HEAD(p.v, b, kv_h);
    mask += mask_offset + AT_HEAD(p.mask, b, h);
    __local REAL* queries = memory;                        // BLOCK x PITCH
    __local REAL* others = queries + BLOCK * PITCH;        // keys, then values: the same
    __local REAL* scores = others + BLOCK * PITCH;         // BLOCK x SCORE_PITCH
    __local REAL* shared = scores + BLOCK * SCORE_PITCH;   // BLOCK x SIDE_X
    REAL sums[ROWS][COLUMNS], best[ROWS], total[ROWS];
    EACH_ROW {
        best[r] = -INFINITY;
        total[r] = 0;
        EACH_COLUMN sums[r][c] = 0;
    }
    fetch_rows(q + q_offset + AT_HEAD(p.q, b, h) + i0 * p.q.row, p.q, p.queries - i0, p.size, queries);
    const long visible = visible_keys(&p, min(p.queries, i0 + BLOCK));
    for (long j0 = 0; j0 < visible; j0 += BLOCK) {
        SYNCHRONIZE;
        fetch_rows(k + j0 * p.k.row, p.k, p.keys - j0, p.size, others);
        SYNCHRONIZE;
        REAL values[ROWS][KEYS];
        dot_tiles(queries, others, (int)p.size, values);
        finish_scores(&p, mask, i0, j0, scale, values);
        EACH_ROW {
            REAL largest = best[r];
            EACH_KEY largest = values[r][c] > largest ? values[r][c] : largest;
            shared[ROW * SIDE_X + x_item] = largest;
        }
        SYNCHRONIZE;
        fetch_rows(v + j0 * p.v.row, p.v, p.keys - j0, p.value_size, others);
        EACH_ROW {
            REAL largest = best[r];
            for (int x = 0; x < SIDE_X; ++x)
                largest = shared[ROW * SIDE_X + x] > largest ? shared[ROW * SIDE_X + x] : largest;
            const REAL reference = largest == (REAL)-INFINITY ? (REAL)0 : largest, again = exp(best[r] - reference);
            best[r] = largest;
            total[r] *= again;
            EACH_COLUMN sums[r][c] *= again;
            EACH_KEY {
                const REAL probability = exp(values[r][c] - reference);
                total[r] += probability;
#ifdef DROPOUT
                scores[ROW * SCORE_PITCH + KEY] =
                    probability * dropout_factor(&p, &dropout, (b * p.heads + h) * p.queries + i0 + ROW, j0 + KEY);
#else
                scores[ROW * SCORE_PITCH + KEY] = probability;
#endif
            }
        }
        SYNCHRONIZE;
        add_tiles(scores, SCORE_PITCH, 1, others, sums);
    }
    SYNCHRONIZE;
    EACH_ROW shared[ROW * SIDE_X + x_item] = total[r];
    SYNCHRONIZE;
    EACH_ROW {
        REAL sum = 0;
        for (int x = 0; x < SIDE_X; ++x)
            sum += shared[ROW * SIDE_X + x];
        const REAL inverse = sum == 0 ? (REAL)0 : 1 / sum;
        EACH_COLUMN sums[r][c] *= inverse;
        if (logsumexp && x_item == 0 && i0 + ROW < p.queries)
            logsumexp[logsumexp_offset + (b * p.heads + h) * p.queries + i0 + ROW] = best[r] + log(sum);
    }
    put_rows(sums, 1, y + y_offset + AT_HEAD(p.y, b, h) + i0 * p.y.row, p.y, p.queries - i0, p.value_size);
}

// Of a block of scores: dropped probabilities, and the gradient of the scores, each to local memory where it is wanted.
static inline void gradient_block(const attention_problem* p, const attention_dropout* dropout, ulong first_row,
                                  long i0, long j0, const __global REAL* logsumexp, const __global REAL* delta,
                                  REAL s[ROWS][KEYS], REAL grad_p[ROWS][KEYS], __local REAL* probabilities,
                                  __local REAL* grad_s)
{
    const int x_item = get_local_id(0), y_item = get_local_id(1);
    EACH_ROW {
        const long i = min(i0 + ROW, p->queries - 1);
        const REAL sum = logsumexp[first_row + i], common = delta[first_row + i];
        EACH_KEY {
            const REAL probability = sum == (REAL)-INFINITY ? (REAL)0 : exp(s[r][c] - sum);
#ifdef DROPOUT
            const REAL factor = dropout_factor(p, dropout, first_row + i, j0 + KEY);
#else
            const REAL factor = 1;
#endif
            if (probabilities)
                probabilities[ROW * SCORE_PITCH + KEY] = factor * probability;
            grad_s[ROW * SCORE_PITCH + KEY] = probability * (factor * grad_p[r][c] - common);
        }
    }
}

GROUP void backward_queries(BACKWARD_INPUTS, OUTPUT(grad_q), BACKWARD_SCALARS, __local REAL* memory)
{
    const long blocks = (p.queries + BLOCK - 1) / BLOCK;
    const long i0 = (blocks - 1 - (long)get_group_id(0) % blocks) * BLOCK, pair = (long)get_group_id(0) / blocks;
    const long b = pair / p.heads, h = pair % p.heads, kv_h = h / (p.heads / p.kv_heads);
    k += k_offset + AT_HEAD(p.k, b, kv_h);
    v += v_offset + AT_HEAD(p.v, b, kv_h);
    mask += mask_offset + AT_HEAD(p.mask, b, h);
    __local REAL* queries = memory;                          // each BLOCK x PITCH
    __local REAL* grad_rows = queries + BLOCK * PITCH;
    __local REAL* keys = grad_rows + BLOCK * PITCH;
    __local REAL* values = keys + BLOCK * PITCH;
    __local REAL* grad_s = values + BLOCK * PITCH;           // BLOCK x SCORE_PITCH
    REAL sums[ROWS][COLUMNS];
    EACH_ROW EACH_COLUMN sums[r][c] = 0;
    fetch_rows(q + q_offset + AT_HEAD(p.q, b, h) + i0 * p.q.row, p.q, p.queries - i0, p.size, queries);
    fetch_rows(grad_y + grad_y_offset + AT_HEAD(grad.y, b, h) + i0 * grad.y.row, grad.y, p.queries - i0, p.value_size,
               grad_rows);
    const long visible = visible_keys(&p, min(p.queries, i0 + BLOCK));
    for (long j0 = 0; j0 < visible; j0 += BLOCK) {
        SYNCHRONIZE;
        fetch_rows(k + j0 * p.k.row, p.k, p.keys - j0, p.size, keys);
        fetch_rows(v + j0 * p.v.row, p.v, p.keys - j0, p.value_size, values);
        SYNCHRONIZE;
        REAL s[ROWS][KEYS], grad_p[ROWS][KEYS];
        dot_tiles(queries, keys, (int)p.size, s);
        finish_scores(&p, mask, i0, j0, scale, s);
        dot_tiles(grad_rows, values, (int)p.value_size, grad_p);
        gradient_block(&p, &dropout, (b * p.heads + h) * p.queries, i0, j0, logsumexp + logsumexp_offset,
                       delta + delta_offset, s, grad_p, 0, grad_s);
        SYNCHRONIZE;
        add_tiles(grad_s, SCORE_PITCH, 1, keys, sums);
    }
    put_rows(sums, scale, grad_q + grad_q_offset + AT_HEAD(grad.q, b, h) + i0 * grad.q.row, grad.q, p.queries - i0,
             p.size);
}

GROUP void backward_keys(BACKWARD_INPUTS, OUTPUT(grad_k), OUTPUT(grad_v), BACKWARD_SCALARS, __local REAL* memory)
{
    const long blocks = (p.keys + BLOCK - 1) / BLOCK, group = p.heads / p.kv_heads;
    const long j0 = (long)get_group_id(0) % blocks * BLOCK, pair = (long)get_group_id(0) / blocks;
    const long b = pair / p.kv_heads, kv_h = pair % p.kv_heads;
    __local REAL* queries = memory;                          // each BLOCK x PITCH
    __local REAL* grad_rows = queries + BLOCK * PITCH;
    __local REAL* keys = grad_rows + BLOCK * PITCH;
    __local REAL* values = keys + BLOCK * PITCH;
    __local REAL* grad_s = values + BLOCK * PITCH;           // each BLOCK x SCORE_PITCH
    __local REAL* probabilities = grad_s + BLOCK * SCORE_PITCH;
    REAL key_sums[ROWS][COLUMNS], value_sums[ROWS][COLUMNS];
    EACH_ROW EACH_COLUMN key_sums[r][c] = value_sums[r][c] = 0;
    fetch_rows(k + k_offset + AT_HEAD(p.k, b, kv_h) + j0 * p.k.row, p.k, p.keys - j0, p.size, keys);
    fetch_rows(v + v_offset + AT_HEAD(p.v, b, kv_h) + j0 * p.v.row, p.v, p.keys - j0, p.value_size, values);
    for (long h = kv_h * group; h < (kv_h + 1) * group; ++h) {
        const __global storage_t(X)* q_head = q + q_offset + AT_HEAD(p.q, b, h);
        const __global storage_t(X)* grad_head = grad_y + grad_y_offset + AT_HEAD(grad.y, b, h);
        for (long i0 = first_query(&p, j0) / BLOCK * BLOCK; i0 < p.queries; i0 += BLOCK) {
            SYNCHRONIZE;
            fetch_rows(q_head + i0 * p.q.row, p.q, p.queries - i0, p.size, queries);
            fetch_rows(grad_head + i0 * grad.y.row, grad.y, p.queries - i0, p.value_size, grad_rows);
            SYNCHRONIZE;
            REAL s[ROWS][KEYS], grad_p[ROWS][KEYS];
            dot_tiles(queries, keys, (int)p.size, s);
            finish_scores(&p, mask + mask_offset + AT_HEAD(p.mask, b, h), i0, j0, scale, s);
            dot_tiles(grad_rows, values, (int)p.value_size, grad_p);
            gradient_block(&p, &dropout, (b * p.heads + h) * p.queries, i0, j0, logsumexp + logsumexp_offset,
                           delta + delta_offset, s, grad_p, probabilities, grad_s);
            SYNCHRONIZE;
            add_tiles(grad_s, 1, SCORE_PITCH, queries, key_sums);
            add_tiles(probabilities, 1, SCORE_PITCH, grad_rows, value_sums);
        }
    }
    if (grad_k)
        put_rows(key_sums, scale, grad_k + grad_k_offset + AT_HEAD(grad.k, b, kv_h) + j0 * grad.k.row, grad.k,
                 p.keys - j0, p.size);
    if (grad_v)
        put_rows(value_sums, 1, grad_v + grad_v_offset + AT_HEAD(grad.v, b, kv_h) + j0 * grad.v.row, grad.v,
                 p.keys - j0, p.value_size);
}
