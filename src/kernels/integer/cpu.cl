// Products of eight-bit integers on CPUs (clprim/integer_matmul.hpp), as pairs of int16 along k in words of 32 bits:
//
//     panel of B: [pair of k][COLUMNS] words         A strip of A has ROWS rows, a panel of B COLUMNS columns. For a
//     +--------+--------+                            pair of k each row's word is multiplied with vectors of columns'
//     |  b0,1  |  b0,1  | ...  pair 0                words: two products and their sum in one instruction of x86
//     |  b2,3  |  b2,3  | ...  pair 1                processors. ROWS x 2 vectors of sums stay in registers.
//     +--------+--------+
//
// Zero points are taken off as numbers are packed, since differences fit into 16 bits. Blocks after Goto and van de
// Geijn, "Anatomy of high-performance matrix multiplication" (2008).
//
// -DX=int8|uint8 (what is packed)
#include "core/dtype.cl"
#include "kernels/integer/packed_matrix.cl"

#define LANES 8
#define ROWS 6
#define COLUMNS 16
#define CHUNK 256   // pairs of k that are multiplied before the next panel: 16 or 32 KiB of B

#define PAIR(low, high) (((low) & 0xffff) | ((high) << 16))

// Lines of A or B to panels of WIDTH of them: [batch][panel][pairs of k][WIDTH]. A work-item packs 2 * CHUNK numbers of
// each line of a panel. Lines beyond the last repeat it.
#define DEFINE_PACK(name, WIDTH)                                                                            \
    __kernel void name(const __global storage_t(X)* from, ulong from_offset,                                \
                       const __global storage_t(X)* zeros, ulong zeros_offset, __global int* to,            \
                       ulong to_offset, packed_matrix p)                                                    \
    {                                                                                                       \
        const long panel = get_global_id(0), pairs = (p.depth + 1) / 2, first = panel * WIDTH;              \
        const long pair_begin = get_global_id(1) * CHUNK, pair_end = min(pairs, pair_begin + CHUNK);        \
        from += from_offset + get_global_id(2) * p.batch_step;                                              \
        to += to_offset + ((get_global_id(2) * get_global_size(0) + panel) * pairs) * WIDTH;                \
        if (p.line_step == 1 && WIDTH == COLUMNS && first + WIDTH <= p.lines) {                             \
            int8 zero[2] = {0, 0};                                                                         \
            for (int side = 0; side < 2 && p.zero_step >= 0; ++side)                                        \
                zero[side] = p.zero_step == 0 ? (int8)(int)zeros[zeros_offset]                             \
                                              : GET_WORDS(zeros + zeros_offset + first + side * LANES);     \
            for (long pair = pair_begin; pair < pair_end; ++pair)                                           \
                for (int side = 0; side < 2; ++side) {                                                      \
                    const __global storage_t(X)* at = from + 2 * pair * p.k_step + first + side * LANES;    \
                    const int8 low = GET_WORDS(at) - zero[side];                                           \
                    const int8 high = 2 * pair + 1 < p.depth ? GET_WORDS(at + p.k_step) - zero[side] : 0;  \
                    vstore8(PAIR(low, high), 0, to + pair * WIDTH + side * LANES);                         \
                }                                                                                           \
            return;                                                                                         \
        }                                                                                                   \
        for (int i = 0; i < WIDTH; ++i) {                                                                   \
            const long line = min(first + i, p.lines - 1);                                                  \
            const int zero = p.zero_step < 0 ? 0 : (int)zeros[zeros_offset + line * p.zero_step];           \
            const __global storage_t(X)* at = from + line * p.line_step;                                    \
            long pair = pair_begin;                                                                         \
            if (p.k_step == 1)                                                                              \
                for (; pair + 8 <= pair_end && 2 * pair + 16 <= p.depth; pair += 8) {                       \
                    const int8 words = as_int8(GET_SHORTS(at + 2 * pair) - (short)zero);                    \
                    int each[8];                                                                            \
                    vstore8(words, 0, each);                                                                \
                    for (int e = 0; e < 8; ++e)                                                             \
                        to[(pair + e) * WIDTH + i] = each[e];                                               \
                }                                                                                           \
            for (; pair < pair_end; ++pair) {                                                               \
                const int low = (int)at[2 * pair * p.k_step] - zero;                                        \
                const int high = 2 * pair + 1 < p.depth ? (int)at[(2 * pair + 1) * p.k_step] - zero : 0;    \
                to[pair * WIDTH + i] = PAIR(low, high);                                                     \
            }                                                                                               \
        }                                                                                                   \
    }
#define GET_WORDS(p) convert_int8(vload8(0, p))
#define GET_SHORTS(p) convert_short16(vload16(0, p))
DEFINE_PACK(pack_a, ROWS)
DEFINE_PACK(pack_b, COLUMNS)

// Compilers for x86 make one instruction (vpmaddwd, or vpdpwssd with the sum before) of products and their sums.
static inline int8 add_pairs(int8 a, int8 b, int8 sum)
{
    const int16 products = convert_int16(as_short16(a)) * convert_int16(as_short16(b));
    return sum + (products.even + products.odd);
}

typedef struct {
    long m, n, pairs, c_row, c_column, c_batch;
    long block_strips, block_panels;   // of a work-item
} integer_product;

// One tile of sums over `pairs` pairs, added to C's where `add`; of its rows the first R alone are computed.
#define DEFINE_MULTIPLY_TILE(name, R)                                                                       \
    static inline void name(const __global int* a, const __global int* b, long pairs, __global int* c,      \
                            const integer_product* p, int rows, int columns, int add)                       \
    {                                                                                                       \
        int8 sums[R][2];                                                                                    \
        UNROLL for (int i = 0; i < R; ++i) sums[i][0] = sums[i][1] = 0;                                     \
        for (long k = 0; k < pairs; ++k) {                                                                  \
            const int8 first = vload8(0, b), second = vload8(0, b + LANES);                                 \
            UNROLL for (int i = 0; i < R; ++i)                                                              \
            {                                                                                               \
                const int8 one = a[i];                                                                      \
                sums[i][0] = add_pairs(one, first, sums[i][0]);                                             \
                sums[i][1] = add_pairs(one, second, sums[i][1]);                                            \
            }                                                                                               \
            a += ROWS;                                                                                      \
            b += COLUMNS;                                                                                   \
        }                                                                                                   \
        const int whole = rows >= R && columns >= COLUMNS && p->c_column == 1;                              \
        UNROLL for (int i = 0; i < R; ++i)                                                                  \
        {                                                                                                   \
            __global int* row = c + i * p->c_row;                                                           \
            if (whole) {                                                                                    \
                if (add) {                                                                                  \
                    sums[i][0] += vload8(0, row);                                                           \
                    sums[i][1] += vload8(0, row + LANES);                                                   \
                }                                                                                           \
                vstore8(sums[i][0], 0, row);                                                                \
                vstore8(sums[i][1], 0, row + LANES);                                                        \
            } else if (i < rows) {                                                                          \
                int each[COLUMNS];                                                                          \
                vstore8(sums[i][0], 0, each);                                                               \
                vstore8(sums[i][1], 0, each + LANES);                                                       \
                for (int j = 0; j < COLUMNS && j < columns; ++j)                                            \
                    row[j * p->c_column] = each[j] + (add ? row[j * p->c_column] : 0);                      \
            }                                                                                               \
        }                                                                                                   \
    }
#define UNROLL _Pragma("unroll")
DEFINE_MULTIPLY_TILE(multiply_row, 1)
DEFINE_MULTIPLY_TILE(multiply_three_rows, 3)
DEFINE_MULTIPLY_TILE(multiply_tile, ROWS)

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void multiply(const __global int* a, ulong a_offset, const __global int* b, ulong b_offset, __global int* c,
              ulong c_offset, integer_product p)
{
    const long strips = (p.m + ROWS - 1) / ROWS, panels = (p.n + COLUMNS - 1) / COLUMNS, batch = get_group_id(2);
    const long strip_begin = get_group_id(0) * p.block_strips, panel_begin = get_group_id(1) * p.block_panels;
    const long strip_end = min(strips, strip_begin + p.block_strips);
    const long panel_end = min(panels, panel_begin + p.block_panels);
    a += a_offset + batch * strips * ROWS * p.pairs;
    b += b_offset + batch * panels * COLUMNS * p.pairs;
    c += c_offset + batch * p.c_batch;
    for (long k = 0; k < p.pairs; k += CHUNK)
        for (long panel = panel_begin; panel < panel_end; ++panel)
            for (long strip = strip_begin; strip < strip_end; ++strip)
            {
                const __global int* from_a = a + (strip * p.pairs + k) * ROWS;
                const __global int* from_b = b + (panel * p.pairs + k) * COLUMNS;
                __global int* to = c + strip * ROWS * p.c_row + panel * COLUMNS * p.c_column;
                const long pairs = min(p.pairs - k, (long)CHUNK);
                const int rows = (int)min(p.m - strip * ROWS, (long)ROWS);
                const int columns = (int)min(p.n - panel * COLUMNS, (long)COLUMNS);
                if (rows == 1)
                    multiply_row(from_a, from_b, pairs, to, &p, rows, columns, k > 0);
                else if (rows <= 3)
                    multiply_three_rows(from_a, from_b, pairs, to, &p, rows, columns, k > 0);
                else
                    multiply_tile(from_a, from_b, pairs, to, &p, rows, columns, k > 0);
            }
}
