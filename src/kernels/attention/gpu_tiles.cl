// What attention's kernels for GPUs share. A work-group of SIDE_X x SIDE_Y work-items owns BLOCK rows of one head (of
// forward and backward_queries: queries; of backward_keys: keys) and passes over the others, SPAN at a time:
//
//                  SPAN others
//                  +---------+      scores: work-item (x, y) has the rows y + SIDE_Y r and the others x + SIDE_X c;
//     BLOCK rows   |         |      then, of the sums over the others, the same rows and the quads x + SIDE_X c
//                  +---------+
//
// Everything is kept in quads, so that local memory is read sixteen bytes at a time, and lines of quads are one longer
// than they need be, against bank conflicts. The others come in slabs of 64 SPAN elements: 64 elements of all of them,
// or whole lines of some. The four scores of a row that a work-item has form a quad; sums over the others take them in
// that order (quad x holds x, x + SIDE_X, ...), and read the lines of a slab accordingly.
//
// Options: those of problem.cl, -DHEAD=64|128|256: most elements of a line, -DBLOCK, -DSIDE_X, -DSIDE_Y,
// -DOFFSET=int|long (holds every distance within BLOCK or SPAN lines), -DALIGNED=0|1 (elements of a line are
// neighbours, and all lines begin and end at multiples of four), -DNEIGHBOURS=0|1 (quads.cl), -DMASKED, -DDROPOUT,
// -DSUB_GROUP=8|16 on Intel's GPUs where sums would be spilled in larger ones, -DINTERLEAVED=1 on NVIDIA's.
#include "kernels/attention/problem.cl"
#include "kernels/attention/quads.cl"
#include "kernels/attention/dropout.cl"

#define ITEMS (SIDE_X * SIDE_Y)
#define SPAN (4 * SIDE_X)
#define ROWS (BLOCK / SIDE_Y)
#define COLUMNS (HEAD / 4 / SIDE_X)          // quads of a row's sums that a work-item has
#define PARTS (HEAD / 64)                    // slabs for the SPAN others
#define PITCH (HEAD / 4 + 1)                 // quads from line to line: whole lines,
#define SLAB_PITCH (64 / 4 + 1)              // 64 elements of each,
#define SCORE_PITCH (SIDE_X + 1)             // scores
#define SLAB_LINES (SPAN / PARTS)            // of a slab of whole lines
#define SLAB_RUN (SIDE_X / PARTS)            // neighbours among them
#define OWN_QUADS (BLOCK * PITCH)
#define SLAB_QUADS (SPAN * SLAB_PITCH)
#define SCORE_QUADS (BLOCK * SCORE_PITCH)
// A work-item's x and y. -DINTERLEAVED=1, on NVIDIA's GPUs: neighbours take turns along y, as in
// gemm/gpu_micro_kernel.cl, whose reads of local memory these are.
#ifdef INTERLEAVED
#define ITEM_AT (int)(get_local_id(1) * SIDE_X + get_local_id(0))
#define ITEM_X (ITEM_AT / 32 % (SIDE_X / 8) * 8 + ITEM_AT % 32 / 2 % 8)
#define ITEM_Y (ITEM_AT / (4 * SIDE_X) * 4 + ITEM_AT % 32 / 16 * 2 + ITEM_AT % 2)
#else
#define ITEM_X get_local_id(0)
#define ITEM_Y get_local_id(1)
#endif
#define EACH_ROW _Pragma("unroll") for (int r = 0; r < ROWS; ++r)
#define EACH_COLUMN _Pragma("unroll") for (int c = 0; c < COLUMNS; ++c)
#define ROW (y + SIDE_Y * r)
#define SYNCHRONIZE barrier(CLK_LOCAL_MEM_FENCE)
#ifdef SUB_GROUP
#define GROUP                                                                                                         \
    __kernel __attribute__((reqd_work_group_size(SIDE_X, SIDE_Y, 1), intel_reqd_sub_group_size(SUB_GROUP)))
#else
#define GROUP __kernel __attribute__((reqd_work_group_size(SIDE_X, SIDE_Y, 1)))
#endif

static inline head_lines lines_of(heads_layout layout, long rows, long size)
{
    return (head_lines){(OFFSET)layout.row, (OFFSET)layout.column, (int)min(rows, (long)max(BLOCK, SPAN)), (int)size};
}

// `lines` lines of `quads` quads each to local memory. Line n is line n / run * SIDE_X + n % run of those from start.x
// on, and begins with element start.y. Neighbours fetch neighbours, four quads on the way at once.
#define FETCH(to, pitch, lines, quads, run, start)                                                                    \
    {                                                                                                                 \
        const int item = get_local_id(1) * SIDE_X + get_local_id(0);                                                  \
        const int count = from.size > 0 ? (lines) * (quads) / ITEMS : 0;                                              \
        _Pragma("unroll 1") for (int first = 0; first < count; first += FETCHED(lines, quads)) {                      \
            REAL4 fetched[FETCHED(lines, quads)];                                                                     \
            _Pragma("unroll") for (int n = 0; n < FETCHED(lines, quads); ++n) {                                       \
                const int at = item + (first + n) * ITEMS, line = at / (quads);                                       \
                fetched[n] = fetch_quad(x, from, (start).x + line / (run) * SIDE_X + line % (run),                    \
                                        (start).y + at % (quads) * 4);                                                \
            }                                                                                                         \
            _Pragma("unroll") for (int n = 0; n < FETCHED(lines, quads); ++n) {                                       \
                const int at = item + (first + n) * ITEMS;                                                            \
                (to)[at / (quads) * (pitch) + at % (quads)] = fetched[n];                                             \
            }                                                                                                         \
        }                                                                                                             \
    }
#define FETCHED(lines, quads) ((lines) * (quads) / ITEMS < 4 ? (lines) * (quads) / ITEMS : 4)

static inline void fetch_own(const __global stored* x, head_lines from, __local REAL4* own)
{
    FETCH(own, PITCH, BLOCK, HEAD / 4, SIDE_X, (int2)(0, 0))
}

// Elements [64 part, 64 part + 64) of the others.
static inline void fetch_elements(const __global stored* x, head_lines from, int part, __local REAL4* slab)
{
    FETCH(slab, SLAB_PITCH, SPAN, 16, SIDE_X, (int2)(0, 64 * part))
}

// Whole lines: of those that scores' quads [SLAB_RUN part, SLAB_RUN (part + 1)) stand for.
static inline void fetch_lines(const __global stored* x, head_lines from, int part, __local REAL4* slab)
{
    FETCH(slab, PITCH, SLAB_LINES, HEAD / 4, SLAB_RUN, (int2)(SLAB_RUN * part, 0))
}

// Neighbouring sums take the elements of a quad in an order of their own: AMD's RDNA 3 issues two multiply-adds at once
// where the operands on either side lie in different banks of registers, which those of one element do not.
#define DOT_STEP(even, odd)                                                                                           \
    EACH_ROW                                                                                                          \
    {                                                                                                                 \
        values[r].x = fma(a[r].even, b0.even, values[r].x);                                                           \
        values[r].y = fma(a[r].odd, b1.odd, values[r].y);                                                             \
        values[r].z = fma(a[r].even, b2.even, values[r].z);                                                           \
        values[r].w = fma(a[r].odd, b3.odd, values[r].w);                                                             \
    }

// values[r] += the products of row r and the others, over a slab of 64 elements of which `size` count (zeros follow).
static inline void dot_slab(const __local REAL4* own, const __local REAL4* slab, int size, REAL4 values[ROWS])
{
    own += ITEM_Y * PITCH;
    slab += ITEM_X * SLAB_PITCH;
    for (int e = 0; e < size; e += 16, own += 4, slab += 4) {
#pragma unroll
        for (int quad = 0; quad < 4; ++quad) {
            const REAL4 b0 = slab[quad], b1 = slab[SIDE_X * SLAB_PITCH + quad];
            const REAL4 b2 = slab[2 * SIDE_X * SLAB_PITCH + quad], b3 = slab[3 * SIDE_X * SLAB_PITCH + quad];
            REAL4 a[ROWS];
            EACH_ROW a[r] = own[r * SIDE_Y * PITCH + quad];
            DOT_STEP(x, y)
            DOT_STEP(y, z)
            DOT_STEP(z, w)
            DOT_STEP(w, x)
        }
    }
}

// values[r] = the products of row r and the others, whose elements pass through the slab.
#define DOT(values, own, x, from, slab)                                                                               \
    EACH_ROW values[r] = (REAL4)0;                                                                                    \
    for (int part = 0; part == 0 || (part < PARTS && part * 64 < (from).size); ++part) {                              \
        SYNCHRONIZE;                                                                                                  \
        fetch_elements(x, from, part, slab);                                                                          \
        SYNCHRONIZE;                                                                                                  \
        dot_slab((own) + 16 * part, slab, min(64, (from).size - 64 * part), values);                                  \
    }

#define ADD_TERM(row, line, e) sums[row][c].e = fma(weights[row].line, lines.line.e, sums[row][c].e);
#define ADD_STEP(even, odd)                                                                                           \
    _Pragma("unroll") for (int r = 0; r < ROWS - 1; r += 2)                                                           \
    {                                                                                                                 \
        ADD_TERM(r, even, x) ADD_TERM(r + 1, odd, y)                                                                  \
        ADD_TERM(r, even, y) ADD_TERM(r + 1, odd, z)                                                                  \
        ADD_TERM(r, even, z) ADD_TERM(r + 1, odd, w)                                                                  \
        ADD_TERM(r, even, w) ADD_TERM(r + 1, odd, x)                                                                  \
    }                                                                                                                 \
    if (ROWS % 2)                                                                                                     \
        sums[ROWS - 1][c] = fma((REAL4)weights[ROWS - 1].even, lines.even, sums[ROWS - 1][c]);

// sums[r] += over a slab of whole lines the scores of row r from quad 0 on, times these lines.
static inline void add_slab(const __local REAL4* scores, const __local REAL4* slab, REAL4 sums[ROWS][COLUMNS])
{
    scores += ITEM_Y * SCORE_PITCH;
    slab += ITEM_X;
#pragma unroll 2
    for (int k = 0; k < SLAB_RUN; ++k, slab += PITCH) {
        REAL4 weights[ROWS];
        EACH_ROW weights[r] = scores[r * SIDE_Y * SCORE_PITCH + k];
        EACH_COLUMN {
            const struct {
                REAL4 x, y, z, w;
            } lines = {slab[c * SIDE_X], slab[SLAB_RUN * PITCH + c * SIDE_X], slab[2 * SLAB_RUN * PITCH + c * SIDE_X],
                       slab[3 * SLAB_RUN * PITCH + c * SIDE_X]};
            ADD_STEP(x, y)
            ADD_STEP(y, z)
            ADD_STEP(z, w)
            ADD_STEP(w, x)
        }
    }
}

// sums += scores times the others, whose lines pass through the slab; where `there`, it holds those of this part.
#define ADD(sums, scores, x, from, slab, there)                                                                       \
    for (int part = 0; part < PARTS && (from).size > 0; ++part) {                                                     \
        if (!(there)) {                                                                                               \
            SYNCHRONIZE;                                                                                              \
            fetch_lines(x, from, part, slab);                                                                         \
        }                                                                                                             \
        SYNCHRONIZE;                                                                                                  \
        add_slab((scores) + SLAB_RUN * part, slab, sums);                                                             \
    }

static inline void put_rows(REAL4 sums[ROWS][COLUMNS], REAL factor, __global stored* to, heads_layout layout,
                            long rows, long size)
{
    const int x = ITEM_X, y = ITEM_Y;
    EACH_ROW {
        if (ROW >= rows)
            continue;
        __global stored* line = to + ROW * layout.row;
        EACH_COLUMN {
            const int e = 4 * (x + SIDE_X * c);
            const REAL4 v = sums[r][c] * factor;
#if ALIGNED
            if (e < size)
                store_quad(X, line + e, to_quad(X, v));
#else
            const REAL values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (e + i < size)
                    store(X, line, (e + i) * layout.column, (compute_t(X))values[i]);
#endif
        }
    }
}

// Of a quad of scores those of others outside [first, end) become -inf.
static inline REAL4 hidden_outside(REAL4 v, int first, int end)
{
    const int x = ITEM_X;
#define SEEN(c) (x + c * SIDE_X >= first && x + c * SIDE_X < end)
    return (REAL4)(SEEN(0) ? v.x : (REAL)-INFINITY, SEEN(1) ? v.y : (REAL)-INFINITY,
                   SEEN(2) ? v.z : (REAL)-INFINITY, SEEN(3) ? v.w : (REAL)-INFINITY);
}

static inline int clamped(long count, int most) { return (int)min(max(count, 0L), (long)most); }

// The mask to the base 2 at a row and the others x + SIDE_X c, `steps` elements from row to row and from other to
// other; lines and columns beyond `last` repeat it. `mask` points to row 0, other 0.
static inline REAL4 mask_quad(const __global stored* mask, int row, OFFSET row_step, OFFSET step, int2 last)
{
    const int x = ITEM_X;
    const OFFSET at = min(row, last.x) * row_step;   // no pointer of its own: it would take twice the registers
    return (REAL4)(mask_to_base_2((REAL)load(X, mask, at + min(x, last.y) * step)),
                   mask_to_base_2((REAL)load(X, mask, at + min(x + SIDE_X, last.y) * step)),
                   mask_to_base_2((REAL)load(X, mask, at + min(x + 2 * SIDE_X, last.y) * step)),
                   mask_to_base_2((REAL)load(X, mask, at + min(x + 3 * SIDE_X, last.y) * step)));
}

// Scores of queries from i0 (rows) and keys from j0 on (the others): scaled, masked, -inf where nothing is seen.
// `mask` points to its row i0.
static inline void finish_scores(const attention_problem* p, const __global stored* mask, long i0, long j0, REAL scale,
                                 REAL4 values[ROWS])
{
    const int y = ITEM_Y, keys = clamped(p->keys - j0, SPAN);
#ifdef SOFTCAP
    const REAL cap = (REAL)p->softcap * LOG2_E;
#endif
    EACH_ROW {
        values[r] *= scale;
#ifdef SOFTCAP
        values[r] = cap * tanh(values[r] / cap);
#endif
#ifdef MASKED
        const int2 last = (int2)((int)min(p->queries - i0, (long)BLOCK) - 1, keys - 1);
        values[r] += mask_quad(mask + j0 * p->mask.column, ROW, (OFFSET)p->mask.row, (OFFSET)p->mask.column, last);
#endif
    }
    if (keys == SPAN && (!p->causal || j0 + SPAN - 1 <= i0 + p->causal_offset))
        return;
    // The first key that row 0 does not see, from -BLOCK (no row sees any) to SPAN.
    const int hidden = p->causal ? clamped(i0 + p->causal_offset + 1 + BLOCK - j0, BLOCK + SPAN) - BLOCK : SPAN;
    EACH_ROW values[r] = hidden_outside(values[r], 0, min(keys, hidden + ROW));
}

#ifdef DROPOUT
static inline REAL4 dropout_factors(const attention_problem* p, const attention_dropout* dropout, ulong row, long j)
{
    const uint4 words = dropout_bits(p, dropout, row, j);
    const REAL kept = (REAL)dropout->factor;
    return (REAL4)(words.x < dropout->threshold ? kept : 0, words.y < dropout->threshold ? kept : 0,
                   words.z < dropout->threshold ? kept : 0, words.w < dropout->threshold ? kept : 0);
}

// What probabilities of queries (the rows, from `row` on) and keys (the others, from j on) are multiplied by, laid out
// as scores: four random numbers at a time, where dropout_factor takes one of four.
static inline void put_dropout(const attention_problem* p, const attention_dropout* dropout, ulong row, long j,
                               __local REAL4* scores)
{
    __local REAL* to = (__local REAL*)scores;
#pragma unroll 1
    for (int at = get_local_id(1) * SIDE_X + get_local_id(0); at < BLOCK * SIDE_X; at += ITEMS) {
        const int i = at / SIDE_X, key = at % SIDE_X * 4;
        const REAL4 factors = dropout_factors(p, dropout, row + i, j + key);
        const int place = (i * SCORE_PITCH + key % SIDE_X) * 4 + key / SIDE_X;
        to[place] = factors.x;
        to[place + 4] = factors.y;
        to[place + 8] = factors.z;
        to[place + 12] = factors.w;
    }
}

// The same where keys are the rows, from j on, and queries the others.
static inline void put_turned_dropout(const attention_problem* p, const attention_dropout* dropout, ulong row, long j,
                                      __local REAL4* scores)
{
    __local REAL* to = (__local REAL*)scores;
#pragma unroll 1
    for (int at = get_local_id(1) * SIDE_X + get_local_id(0); at < BLOCK * SIDE_X; at += ITEMS) {
        const int i = at % SPAN, key = at / SPAN * 4;
        const REAL4 factors = dropout_factors(p, dropout, row + i, j + key);
        const int place = (key * SCORE_PITCH + i % SIDE_X) * 4 + i / SIDE_X;
        to[place] = factors.x;
        to[place + 4 * SCORE_PITCH] = factors.y;
        to[place + 8 * SCORE_PITCH] = factors.z;
        to[place + 12 * SCORE_PITCH] = factors.w;
    }
}
#endif
