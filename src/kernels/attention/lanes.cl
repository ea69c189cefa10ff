// Vectors of scores on CPU devices: exponentials, masks and dropout, with one query or one key a lane. Needs gemm's
// micro_kernel.cl and lanes.cl.
#include "kernels/attention/problem.cl"
#include "kernels/random/philox.cl"

#if TILE_LANES == 16
typedef int16 lane_integer;
typedef uint16 lane_words;
#define LANE_NUMBERS (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define LANE_WORDS(v) convert_uint16(v)

// exp(x) for x <= 0, -inf and NaN, without branches or calls; 0 below -87.7. The polynomial is a minimax fit.
static inline float16 exp_lanes(float16 x)
{
    x = x < -88.0f ? (float16)-88.0f : x;
    const float16 shifted = fma(x, (float16)1.44269504f, (float16)12582912.0f);   // the integer in the low bits
    const float16 n = shifted - 12582912.0f;
    const float16 r = fma(n, (float16)1.90465421e-9f, fma(n, (float16)-0.693147183f, x));
    float16 e = fma((float16)1.381459806e-3f, r, (float16)8.368716932e-3f);
    e = fma(e, r, (float16)4.166838806e-2f);
    e = fma(e, r, (float16)1.666652063e-1f);
    e = fma(e, r, (float16)4.999999345e-1f);
    e = fma(e * r, r, r) + 1.0f;
    return e * as_float16((as_int16(shifted) << 23) + 0x3f800000);
}

// Without branches or calls: the odd power series where |x| is small, else by the exponential.
static inline float16 tanh_lanes(float16 x)
{
    const float16 size = fabs(x), square = x * x;
    float16 series = fma((float16)-8.863235530e-3f, square, (float16)2.186948854e-2f);
    series = fma(series, square, (float16)-5.396825397e-2f);
    series = fma(series, square, (float16)1.333333333e-1f);
    series = fma(series, square, (float16)-3.333333333e-1f);
    series = fma(series * square, x, x);
    const float16 e = exp_lanes(-2.0f * size), large = (1.0f - e) / (1.0f + e);
    return size < 0.35f ? series : copysign(large, x);
}
#else
typedef long8 lane_integer;
typedef uint8 lane_words;
#define LANE_NUMBERS (long8)(0, 1, 2, 3, 4, 5, 6, 7)
#define LANE_WORDS(v) convert_uint8(v)
#define exp_lanes exp
#define tanh_lanes tanh
#endif

#define HIDDEN ((tile_vector)(REAL)-INFINITY)

// The exponent's reference: a largest score of -inf hides all, and must not make NaN of -inf - -inf.
static inline tile_vector finite_best(tile_vector best) { return best == HIDDEN ? (tile_vector)0 : best; }

#ifdef STEP
// Rows of a tensor to rows of STEP sums; zero behind the last element and in up to three further rows.
static inline void pack_rows(const __global storage_t(X)* x, heads_layout layout, long rows, long size,
                             __local REAL* to)
{
    for (long i = 0; i < rows; ++i)
        for (long e = 0; e < size; e += TILE_LANES)
            TILE_VSTORE(get_row(x + i * layout.row + e * layout.column, layout.column, size - e), 0, to + i * STEP + e);
    for (long i = rows; i % 4 != 0; ++i)
        for (long e = 0; e < size; e += TILE_LANES)
            TILE_VSTORE((tile_vector)0, 0, to + i * STEP + e);
}
#endif

DEFINE_TRANSPOSE_BLOCK(turn_block, __local)

// Rows as columns of a panel: to[e * TILE_COLUMNS + i] for rows i and elements e; the last row again in lanes beyond.
static inline void pack_panel(const __global storage_t(X)* x, long row, long column, long rows, long size,
                              __local REAL* to)
{
    for (long i = 0; i < TILE_COLUMNS && i < rows; i += TILE_LANES) {
        const __global storage_t(X)* from = x + i * row;
        if (column == 1) {
            for (long e = 0; e < size; e += TILE_LANES)
                turn_block(from + e, row, rows - i, size - e, 0, to + e * TILE_COLUMNS + i, TILE_COLUMNS, size - e);
        } else {
            for (long e = 0; e < size; ++e)
                TILE_VSTORE(get_row(from + e * column, row, rows - i), 0, to + e * TILE_COLUMNS + i);
        }
    }
}

// A block of the mask like a panel: to[j * TILE_COLUMNS + i] for `rows` vectors' lanes i and `size` rows j.
static inline void pack_mask(const __global storage_t(X)* mask, long lane_step, long step, long lanes, long size,
                             __local REAL* to)
{
    if (lane_step != 0) {
        pack_panel(mask, lane_step, step, lanes, size, to);
        return;
    }
    for (long j = 0; j < size; ++j)
        for (long i = 0; i < TILE_COLUMNS && i < lanes; i += TILE_LANES)
            TILE_VSTORE((tile_vector)(REAL)load(X, mask, j * step), 0, to + j * TILE_COLUMNS + i);
}

// Philox in lanes: words[k] of the blocks that `low` and `high` count.
static inline void philox_lanes(lane_words low, lane_words high, const attention_dropout* dropout, lane_words* words)
{
    lane_words a = low, b = high, c = (lane_words)(uint)dropout->stream, d = (lane_words)(uint)(dropout->stream >> 32);
    uint key = (uint)dropout->seed, other_key = (uint)(dropout->seed >> 32);
    for (int round = 0; round < 10; ++round) {
        const lane_words first = mul_hi((lane_words)0xD2511F53u, a), second = mul_hi((lane_words)0xCD9E8D57u, c);
        const lane_words next = second ^ b ^ key, last = first ^ d ^ other_key;
        b = 0xCD9E8D57u * c;
        d = 0xD2511F53u * a;
        a = next;
        c = last;
        key += 0x9E3779B9u;
        other_key += 0xBB67AE85u;
    }
    words[0] = a, words[1] = b, words[2] = c, words[3] = d;
}

// 0 or the dropout's factor, by random words.
static inline tile_vector kept(lane_words words, const attention_dropout* dropout)
{
#if TILE_LANES == 16
    return (words >> 8) < dropout->threshold ? (float16)dropout->factor : (float16)0.0f;
#else
    return convert_long8(words >> 8) < (long)dropout->threshold ? (double8)dropout->factor : (double8)0.0;
#endif
}

// The same for rows of keys: factors[r * TILE_COLUMNS + lane] for `rows` rows (and one more, if odd) and TILE_COLUMNS
// keys, whose words begin at first_block in row 0 and row_blocks further in each row. A vector holds two rows' blocks.
static inline void pack_factors(int rows, ulong first_block, ulong row_blocks, const attention_dropout* dropout,
                                __local REAL* factors)
{
    for (int r = 0; r < rows; r += 2) {
        uint low[TILE_LANES], high[TILE_LANES];
        for (int i = 0; i < TILE_LANES; ++i) {
            const ulong block = first_block + (r + i / (TILE_LANES / 2)) * row_blocks + i % (TILE_LANES / 2);
            low[i] = (uint)block;
            high[i] = (uint)(block >> 32);
        }
        lane_words words[4];
        philox_lanes(CLPRIM_CAT(vload, TILE_LANES)(0, low), CLPRIM_CAT(vload, TILE_LANES)(0, high), dropout, words);
        const tile_vector a = kept(words[0], dropout), b = kept(words[1], dropout), c = kept(words[2], dropout),
                          d = kept(words[3], dropout);
        const tile_vector even = ZIP_LOW(a, c), odd = ZIP_LOW(b, d), even_next = ZIP_HIGH(a, c),
                          odd_next = ZIP_HIGH(b, d);
        TILE_VSTORE(ZIP_LOW(even, odd), 0, factors + r * TILE_COLUMNS);
        TILE_VSTORE(ZIP_HIGH(even, odd), 0, factors + r * TILE_COLUMNS + TILE_LANES);
        TILE_VSTORE(ZIP_LOW(even_next, odd_next), 0, factors + (r + 1) * TILE_COLUMNS);
        TILE_VSTORE(ZIP_HIGH(even_next, odd_next), 0, factors + (r + 1) * TILE_COLUMNS + TILE_LANES);
    }
}

// The same for lanes of queries: scores[j * TILE_COLUMNS + lane] times the factors of `count` keys, whose words begin
// at first_block for lane 0 and row_blocks further for each lane.
static inline void multiply_factors(__local REAL* scores, int count, ulong first_block, ulong row_blocks,
                                    const attention_dropout* dropout)
{
    for (int j = 0; j < count; j += 4) {
        uint low[TILE_LANES], high[TILE_LANES];
        for (int i = 0; i < TILE_LANES; ++i) {
            const ulong block = first_block + i * row_blocks + j / 4;
            low[i] = (uint)block;
            high[i] = (uint)(block >> 32);
        }
        lane_words words[4];
        philox_lanes(CLPRIM_CAT(vload, TILE_LANES)(0, low), CLPRIM_CAT(vload, TILE_LANES)(0, high), dropout, words);
        for (int k = 0; k < 4 && j + k < count; ++k) {
            __local REAL* at = scores + (j + k) * TILE_COLUMNS;
            TILE_VSTORE(TILE_VLOAD(0, at) * kept(words[k], dropout), 0, at);
        }
    }
}

// Scores that are scaled, between -softcap and softcap.
#ifdef SOFTCAP
static inline tile_vector capped(tile_vector s, float softcap)
{
    return (REAL)softcap * tanh_lanes(s / (REAL)softcap);
}
#else
#define capped(s, softcap) (s)
#endif

// A vector of scores, scaled, with the mask added; and hidden in the first `count` lanes, or from `lane` on.
static inline tile_vector finish_score(tile_vector s, REAL scale, const __local REAL* bias)
{
    s *= scale;
    return bias ? s + TILE_VLOAD(0, bias) : s;
}
static inline tile_vector hide_first(tile_vector s, long count)
{
    return count <= 0 ? s : LANE_NUMBERS < (lane_integer)(int)min((long)TILE_LANES, count) ? HIDDEN : s;
}
static inline tile_vector hide_from(tile_vector s, long lane)
{
    return lane >= TILE_LANES ? s : LANE_NUMBERS >= (lane_integer)(int)max(0L, lane) ? HIDDEN : s;
}
