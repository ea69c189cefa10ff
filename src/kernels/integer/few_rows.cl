// Products of eight-bit integers with few rows on CPUs (clprim/integer_matmul.hpp), bound by the reading of B: sixteen
// bytes at a time that are widened to int16 in registers. One launch: every work-item takes A's zero points off itself
// and keeps the rows for all its columns.
//
//     ALONG: B's k lie side by side                 else B's columns do
//     +---------+---------+                         +----------+----------+
//     | k0 - 15 | 16 - 31 | column 0                | c0 - c15 | 16 - 31  | k 0     two rows give pairs of int16
//     | k0 - 15 | 16 - 31 | column 1                | c0 - c15 | 16 - 31  | k 1     of sixteen columns
//     +---------+---------+                         +----------+----------+
//
// In the first a vector of sums belongs to one column and is added up at the end. B's zero points are taken off last:
//
//     sum (a - za) (b - zb) = sum (a - za) b - zb sum (a - za).
//
// -DA=int8|uint8 -DB=int8|uint8 [-DALONG: k is B's innermost axis]
#include "core/dtype.cl"

#define MOST_ROWS 16
#define CHUNK 1024   // of k whose numbers of A are kept: up to 32 KiB
#define UNROLL _Pragma("unroll")

typedef const __global storage_t(A)* a_bytes;
typedef const __global storage_t(B)* b_bytes;

typedef struct {
    long m, n, k;
    long a_row, a_k, a_batch, b_column, b_k, b_batch, c_row, c_column, c_batch;
    long a_zero, b_zero;   // steps of zero points; -1: none
    long columns;          // of a work-item
} few_rows;

// What a work-item multiplies at a time: rows of A from `first` on, columns of B from `column` on and before `last`.
typedef struct {
    const short* rows;   // [row][CHUNK], filled with zeros to sixteen
    const int* sums;     // of rows
    b_bytes b, zeros;
    __global int* c;
    const few_rows* p;
    long count, last;    // of k and columns
    int add;             // to C
} piece;

// Compilers for x86 make one instruction (vpmaddwd, or vpdpwssd with the sum before) of products and their sums.
static inline int8 add_pairs(short16 a, short16 b, int8 sum)
{
    const int16 products = convert_int16(a) * convert_int16(b);
    return sum + (products.even + products.odd);
}

static inline int sum_of(int8 v)
{
    const int4 a = v.lo + v.hi;
    const int2 b = a.lo + a.hi;
    return b.x + b.y;
}

static inline void put(const piece* x, long row, long column, int sum)
{
    const few_rows* p = x->p;
    __global int* to = x->c + row * p->c_row + column * p->c_column;
    const int zero = p->b_zero < 0 ? 0 : (int)x->zeros[column * p->b_zero];
    *to = sum - zero * x->sums[row] + (x->add ? *to : 0);
}

#ifdef ALONG

// Sums over the first `k` numbers; what is left is added here.
static inline void put_tile(const piece* x, long first, long column, int2 size, int step, long k, const int* totals)
{
    for (int i = 0; i < size.x; ++i)
        for (int j = 0; j < size.y; ++j) {
            int sum = totals[i * step + j];
            for (long rest = k; rest < x->count; ++rest)
                sum += x->rows[(first + i) * CHUNK + rest] * (int)x->b[(column + j) * x->p->b_column + rest];
            put(x, first + i, column + j, sum);
        }
}

// R rows times C columns; columns beyond the last repeat it.
#define DEFINE_ALONG(name, R, C)                                                                            \
    static inline void name(const piece* x, long first, long column)                                        \
    {                                                                                                       \
        int8 sums[R][C];                                                                                    \
        b_bytes from[C];                                                                                    \
        UNROLL for (int j = 0; j < C; ++j)                                                                  \
        {                                                                                                   \
            from[j] = x->b + min(column + j, x->last - 1) * x->p->b_column;                                 \
            UNROLL for (int i = 0; i < R; ++i) sums[i][j] = 0;                                              \
        }                                                                                                   \
        const short* rows = x->rows + first * CHUNK;                                                        \
        long k = 0;                                                                                         \
        for (; k + 16 <= x->count; k += 16) {                                                               \
            short16 weights[C];                                                                             \
            UNROLL for (int j = 0; j < C; ++j) weights[j] = convert_short16(vload16(0, from[j] + k));       \
            UNROLL for (int i = 0; i < R; ++i)                                                              \
            {                                                                                               \
                const short16 numbers = vload16(0, rows + i * CHUNK + k);                                   \
                UNROLL for (int j = 0; j < C; ++j) sums[i][j] = add_pairs(numbers, weights[j], sums[i][j]); \
            }                                                                                               \
        }                                                                                                   \
        int totals[R][C];                                                                                   \
        UNROLL for (int i = 0; i < R; ++i)                                                                  \
            UNROLL for (int j = 0; j < C; ++j) totals[i][j] = sum_of(sums[i][j]);                           \
        put_tile(x, first, column, (int2)(R, (int)min((long)C, x->last - column)), C, k, &totals[0][0]);    \
    }
#define COLUMNS_1 4
#define COLUMNS_2 4
#define COLUMNS_4 2
#define STEP 12
#define WHOLE 0   // a step may have fewer columns
DEFINE_ALONG(rows_1, 1, COLUMNS_1)
DEFINE_ALONG(rows_2, 2, COLUMNS_2)
DEFINE_ALONG(rows_4, 4, COLUMNS_4)

#else

// Pairs of rows k and k + 1 of sixteen columns.
static inline void get_pairs(b_bytes low, b_bytes high, short16* first, short16* second)
{
    const short16 a = convert_short16(vload16(0, low)), b = convert_short16(vload16(0, high));
    *first = (short16)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7);
    *second = (short16)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se, b.se, a.sf, b.sf);
}

// R rows times V vectors of sixteen columns, all there.
#define DEFINE_ACROSS(name, R, V)                                                                           \
    static inline void name(const piece* x, long first, long column)                                        \
    {                                                                                                       \
        int8 sums[R][2 * V];                                                                                \
        UNROLL for (int i = 0; i < R; ++i)                                                                  \
            UNROLL for (int v = 0; v < 2 * V; ++v) sums[i][v] = 0;                                          \
        const short* rows = x->rows + first * CHUNK;                                                        \
        for (long k = 0; k < x->count; k += 2) {                                                            \
            b_bytes low = x->b + column + k * x->p->b_k, high = k + 1 < x->count ? low + x->p->b_k : low;   \
            int8 pairs[R];                                                                                  \
            UNROLL for (int i = 0; i < R; ++i) pairs[i] = *(const int*)(rows + i * CHUNK + k);              \
            UNROLL for (int v = 0; v < V; ++v)                                                              \
            {                                                                                               \
                short16 one, two;                                                                           \
                get_pairs(low + 16 * v, high + 16 * v, &one, &two);                                         \
                UNROLL for (int i = 0; i < R; ++i)                                                          \
                {                                                                                           \
                    sums[i][2 * v] = add_pairs(as_short16(pairs[i]), one, sums[i][2 * v]);                  \
                    sums[i][2 * v + 1] = add_pairs(as_short16(pairs[i]), two, sums[i][2 * v + 1]);          \
                }                                                                                           \
            }                                                                                               \
        }                                                                                                   \
        int totals[R][16 * V];                                                                              \
        UNROLL for (int i = 0; i < R; ++i)                                                                  \
            UNROLL for (int v = 0; v < 2 * V; ++v) vstore8(sums[i][v], v, totals[i]);                       \
        for (int i = 0; i < R; ++i)                                                                         \
            for (int j = 0; j < 16 * V; ++j)                                                                \
                put(x, first + i, column + j, totals[i][j]);                                                \
    }
#define COLUMNS_1 64
#define COLUMNS_2 32
#define COLUMNS_4 16
#define STEP 64
#define WHOLE 1
DEFINE_ACROSS(rows_1, 1, 4)
DEFINE_ACROSS(rows_2, 2, 2)
DEFINE_ACROSS(rows_4, 4, 1)

// What is left of columns, one at a time.
static inline void across_rest(const piece* x, long column)
{
    for (; column < x->last; ++column)
        for (long i = 0; i < x->p->m; ++i) {
            int sum = 0;
            for (long k = 0; k < x->count; ++k)
                sum += x->rows[i * CHUNK + k] * (int)x->b[column + k * x->p->b_k];
            put(x, i, column, sum);
        }
}

#endif

// Numbers of a row of A less their zero point, and zeros up to sixteen; their sum.
static inline int take_row(a_bytes a, long step, int zero, long count, short* row)
{
    int sum = 0;
    long k = 0;
    if (step == 1) {
        int8 sums = 0;
        for (; k + 16 <= count; k += 16) {
            const short16 numbers = convert_short16(vload16(0, a + k)) - (short16)(short)zero;
            vstore16(numbers, 0, row + k);
            sums = add_pairs(numbers, (short16)1, sums);
        }
        sum = sum_of(sums);
    }
    for (; k < count; ++k) {
        row[k] = (short)((int)a[k * step] - zero);
        sum += row[k];
    }
    for (; k % 16; ++k)
        row[k] = 0;
    return sum;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void multiply(const __global storage_t(A)* a, ulong a_offset, const __global storage_t(A)* a_zeros,
              ulong a_zeros_offset, const __global storage_t(B)* b, ulong b_offset,
              const __global storage_t(B)* b_zeros, ulong b_zeros_offset, __global int* c, ulong c_offset, few_rows p)
{
    short rows[MOST_ROWS * CHUNK] __attribute__((aligned(32)));
    int row_sums[MOST_ROWS];
    const long batch = get_group_id(2), begin = get_group_id(0) * p.columns;
    piece x = {rows, row_sums, 0, b_zeros + b_zeros_offset, c + c_offset + batch * p.c_batch, &p, 0,
               min(p.n, begin + p.columns), 0};
    for (long k = 0; k < p.k; k += CHUNK) {
        x.count = min(p.k - k, (long)CHUNK);
        x.add = k > 0;
        x.b = b + b_offset + batch * p.b_batch + k * p.b_k;
        for (long i = 0; i < p.m; ++i) {
            const int zero = p.a_zero < 0 ? 0 : (int)a_zeros[a_zeros_offset + i * p.a_zero];
            row_sums[i] = take_row(a + a_offset + batch * p.a_batch + i * p.a_row + k * p.a_k, p.a_k, zero, x.count,
                                   rows + i * CHUNK);
        }
        long column = begin;
        for (; column + (STEP - 1) * WHOLE < x.last; column += STEP) {
            const long end = min(column + STEP, x.last);
            long i = 0;
            for (; i + 4 <= p.m; i += 4)
                for (long j = column; j < end; j += COLUMNS_4)
                    rows_4(&x, i, j);
            for (; i + 2 <= p.m; i += 2)
                for (long j = column; j < end; j += COLUMNS_2)
                    rows_2(&x, i, j);
            if (i < p.m)
                for (long j = column; j < end; j += COLUMNS_1)
                    rows_1(&x, i, j);
        }
#ifndef ALONG
        across_rest(&x, column);
#endif
    }
}
